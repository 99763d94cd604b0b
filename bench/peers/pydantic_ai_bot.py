"""The support bot with pydantic-ai: the program keeps the conversation in a file."""

import asyncio
import sys
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tools import charge_order, refund_order


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    part = messages[-1].parts[-1]
    if isinstance(part, ToolReturnPart):
        return ModelResponse([TextPart("The tool has answered.")])
    for word, name in (("Charge", "charge"), ("Refund", "refund")):
        if word in str(part.content):
            return ModelResponse([ToolCallPart(name, {"order": 7})])
    return ModelResponse([TextPart("Hello.")])


bot = Agent(FunctionModel(answer), deps_type=Path, output_type=[str, DeferredToolRequests])


@bot.tool
def charge(ctx: RunContext[Path], order: int) -> str:
    """Charge an order."""
    return charge_order(ctx.deps, order)


@bot.tool(requires_approval=True)
def refund(ctx: RunContext[Path], order: int) -> str:
    """Pay an order back."""
    return refund_order(ctx.deps, order)


async def main(folder: Path, key: str, prompt: str) -> None:
    file = folder / f"{key}.json"
    said: Conversation | None = None
    if file.exists():
        said = ConversationTypeAdapter.validate_json(file.read_bytes())
    if prompt == "yes":
        assert said is not None
        assert said.deferred_tool_requests is not None
        waiting = said.deferred_tool_requests.approvals
        yes = DeferredToolResults(approvals={call.tool_call_id: True for call in waiting})
        result = await bot.run(conversation=said, deferred_tool_results=yes, deps=folder)
    elif prompt == "resume":
        result = await bot.run(conversation=said, deps=folder)
    else:
        result = await bot.run(prompt, conversation=said, deps=folder)
    file.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
    if isinstance(result.output, DeferredToolRequests):
        print("waits:", result.output.approvals[0].tool_name)
    else:
        print(result.output)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
