"""The machine decides, this program does the I/O, and each step is on disk before the next.

python examples/sans_io.py FOLDER URL "How long is the word treadle?"

URL is that of a server with the chat API: http://localhost:11434/v1 for Ollama, say.
"""

import json
import sys

import httpx2

from treadle import AgentConfig, EffectClass, LlmResponse, LocalStore, Message, ToolCall
from treadle import ToolDefinition as Tool
from treadle.core.actions import ExecuteTools, SendLlmRequest
from treadle.core.events import LlmEvent, ToolCompleted, ToolStarted, UserInput
from treadle.core.tools import ToolExecutionOutcome
from treadle.thread.facts import Configured

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
LENGTH = Tool("length", "Count the letters of a text.", SCHEMA, EffectClass.READ)
TOOLS = [{"type": "function", "function": {"name": "length", "parameters": SCHEMA}}]


def write_message(one: Message) -> dict[str, object]:
    said: dict[str, object] = {"role": one.role, "content": one.content}
    if one.tool_call_id:
        said["tool_call_id"] = one.tool_call_id
    for call in one.tool_calls:
        function = {"name": call.tool_name, "arguments": call.arguments_json}
        said["tool_calls"] = [{"id": call.id, "type": "function", "function": function}]
    return said


def ask(url: str, messages: list[dict[str, object]]) -> Message:
    body = {"model": "any", "messages": messages, "tools": TOOLS, "parallel_tool_calls": False}
    said = httpx2.post(f"{url}/chat/completions", json=body).json()["choices"][0]["message"]
    asked = [(one["id"], one["function"]) for one in said.get("tool_calls") or []]
    calls = tuple(ToolCall(key, one["name"], one["arguments"]) for key, one in asked)
    return Message.assistant(said.get("content") or "", calls)


def main(folder: str, url: str, prompt: str) -> None:
    thread = LocalStore(folder).create("sans_io", first=[Configured(AgentConfig(tools=(LENGTH,)))])
    due = thread.stage(UserInput(Message.user(prompt)))
    while isinstance(due, SendLlmRequest | ExecuteTools):
        thread.commit()  # what has happened is on disk before anything follows from it
        if isinstance(due, SendLlmRequest):
            said = ask(url, [write_message(one) for one in due.request.messages])
            due = thread.stage(LlmEvent.Completed(LlmResponse(said)))
        else:
            (call,) = due.calls
            thread.stage(ToolStarted(call.id))
            thread.commit()  # and what is about to happen, before it does
            letters = str(len(json.loads(call.arguments_json)["text"]))
            done = ToolExecutionOutcome.Success(call.id, letters)
            due = thread.stage(ToolCompleted(call.id, done))
    thread.commit()
    print(thread.fold.conversation[-1].content)
    thread.close()


main(*sys.argv[1:])
