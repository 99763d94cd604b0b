"""The support bot with the OpenAI Agents SDK: a session in SQLite, the state of a run in a file."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunContextWrapper, Runner, RunState, SQLiteSession

from agents import Usage, function_tool, set_tracing_disabled  # isort: skip
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from openai.types.responses import ResponseOutputText  # isort: skip
from tools import charge_order, refund_order

set_tracing_disabled(True)


class Scripted(Model):
    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        last = input[-1] if isinstance(input, list) else {"content": input}
        output: list[Any] = []
        for word, name in (("Charge", "charge"), ("Refund", "refund")):
            if last.get("type") != "function_call_output" and word in str(last.get("content")):
                call_id = f"call_{len(input)}"
                output.append(
                    ResponseFunctionToolCall(
                        type="function_call", name=name, call_id=call_id, arguments='{"order": 7}'
                    )
                )
        if not output:
            is_result = last.get("type") == "function_call_output"
            text = "The tool has answered." if is_result else "Hello."
            part = ResponseOutputText(type="output_text", text=text, annotations=[])
            output.append(
                ResponseOutputMessage(
                    id="1", type="message", role="assistant", status="completed", content=[part]
                )
            )
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError  # the protocol has it; this program does not stream


@function_tool
def charge(ctx: RunContextWrapper[Path], order: int) -> str:
    """Charge an order."""
    return charge_order(ctx.context, order)


@function_tool(needs_approval=True)
def refund(ctx: RunContextWrapper[Path], order: int) -> str:
    """Pay an order back."""
    return refund_order(ctx.context, order)


async def main(folder: Path, key: str, prompt: str) -> None:
    bot = Agent[Path](name="bot", model=Scripted(), tools=[charge, refund])
    session = SQLiteSession(key, folder / "sessions.db")
    file = folder / f"{key}.state.json"
    what: Any = prompt
    if prompt == "yes":
        what = await RunState.from_json(bot, json.loads(file.read_text()), context_override=folder)
        for one in what.get_interruptions():
            what.approve(one)
    elif prompt == "resume":
        what = []
    result = await Runner.run(bot, what, context=folder, session=session)
    if result.interruptions:
        file.write_text(json.dumps(result.to_state().to_json()))
        print("waits:", result.interruptions[0].name)
    else:
        print(result.final_output)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
