"""A web endpoint of server-sent events: a thread for each key, which survives every restart.

A client that goes away leaves its turn where it is; whoever comes back goes on with it.

TREADLE_HOME=FOLDER uvicorn --app-dir examples streaming_server:app
curl -N --json '{"prompt": "Hello"}' http://127.0.0.1:8000/threads/ann
curl -N http://127.0.0.1:8000/threads/ann
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from treadle import Agent, ScriptedModel, TreadleError, outputs

# In place of a real one ("anthropic:claude-sonnet-5", say): what it would answer.
MODEL = ScriptedModel.of({"text": "A treadle is the pedal of a loom.", "chunk_size": 4})
BOT = Agent("bot", model=MODEL, instructions="Answer in one sentence.")

app = FastAPI()


class Saying(BaseModel):
    """What a client sends."""

    prompt: str = Field(pattern=r"\S")


class EventStream(StreamingResponse):
    """Server-sent events, whose generator is closed when the client goes away.

    Starlette leaves it to the garbage collector: until then, nobody else could open the thread.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[str]) -> None:
        super().__init__(events)
        self.events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.events):
            await super().__call__(scope, receive, send)


@app.post("/threads/{key}")
async def say(key: str, saying: Saying) -> EventStream:
    return EventStream(tell(key, saying.prompt))


@app.get("/threads/{key}")
async def come_back(key: str) -> EventStream:
    return EventStream(tell(key, None))


async def tell(key: str, prompt: str | None) -> AsyncGenerator[str]:
    try:
        async with BOT.thread(key) as thread:
            if prompt is None:
                yield event("messages", [[one.role, one.content] for one in thread.messages])
            async for output in thread.stream(prompt):  # without a prompt: what was left
                match output:
                    case outputs.TextDelta(text):
                        yield event("text", text)
                    case outputs.ToolStarted(call):
                        yield event("tool", call.tool_name)
            yield event("answer", thread.result.output)
    except TreadleError as error:  # another request is being answered in this thread, say
        yield event("error", error.message)


def event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
