"""A web endpoint that streams: a thread for each key, which survives every restart.

TREADLE_HOME=FOLDER uvicorn --app-dir examples streaming_server:app
curl -N --json '{"prompt": "Hello"}' http://127.0.0.1:8000/threads/ann
"""

from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from treadle import Agent, ScriptedModel, TreadleError, outputs

# In place of a real one ("anthropic:claude-sonnet-5", say): what it would answer.
MODEL = ScriptedModel.of({"text": "A treadle is the pedal of a loom.", "chunk_size": 4})
BOT = Agent("bot", model=MODEL, instructions="Answer in one sentence.")

app = FastAPI()


class Saying(BaseModel):
    """What a client sends."""

    prompt: str = Field(pattern=r"\S")


@app.post("/threads/{key}")
async def say(key: str, saying: Saying) -> StreamingResponse:
    async def stream() -> AsyncIterator[str]:
        try:
            async with BOT.thread(key) as thread:
                async for output in thread.stream(saying.prompt):
                    if isinstance(output, outputs.TextDelta):
                        yield output.text
        except TreadleError as error:  # another request is being answered in this thread, say
            yield f"[{error.message}]"

    return StreamingResponse(stream(), media_type="text/plain")
