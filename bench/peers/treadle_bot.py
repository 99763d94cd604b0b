"""The support bot with Treadle."""

import asyncio
import sys
from pathlib import Path

from tools import charge_order, refund_order
from treadle import Agent, ApprovalNeeded, LocalStore, RiskLevel, ScriptedModel, ToolContext, tool


@tool(risk=RiskLevel.LOW)
def charge(ctx: ToolContext[Path], order: int) -> str:
    """Charge an order."""
    return charge_order(ctx.deps, order)


@tool(risk=RiskLevel.HIGH)
def refund(ctx: ToolContext[Path], order: int) -> str:
    """Pay an order back."""
    return refund_order(ctx.deps, order)


MODEL = ScriptedModel.of(
    {"when": {"last_role": "tool", "last": "(?P<result>.*)"}, "text": "The tool has answered."},
    {"when": {"user": "Charge"}, "calls": [{"tool": "charge", "arguments": {"order": 7}}]},
    {"when": {"user": "Refund"}, "calls": [{"tool": "refund", "arguments": {"order": 7}}]},
    {"text": "Hello."},
)


async def main(folder: Path, key: str, prompt: str) -> None:
    store = LocalStore(folder)
    bot = Agent("bot", model=MODEL, tools=[charge, refund], deps=Path, approval="ask", store=store)
    async with bot.thread(key, deps=folder) as thread:
        try:
            said = {"yes": thread.approve, "resume": thread.resume}.get(prompt)
            result = await (said() if said else thread.send(prompt))
            print(result.output)
        except ApprovalNeeded as question:
            print("waits:", question.message)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
