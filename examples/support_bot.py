"""A support bot: a thread for each customer, and refunds only with a person's yes.

python examples/support_bot.py FOLDER ann "Where is order 7?"
python examples/support_bot.py FOLDER ann "Refund order 7."     stops at the question
python examples/support_bot.py FOLDER ann yes                   minutes or months later
"""

import asyncio
import sys

from treadle import Agent, ApprovalNeeded, LocalStore, RiskLevel, ScriptedModel, ToolContext, tool

Orders = dict[int, str]


@tool(risk=RiskLevel.LOW)
def find_order(ctx: ToolContext[Orders], number: int) -> str:
    """Say where an order is."""
    return ctx.deps[number]


@tool(risk=RiskLevel.HIGH)
def refund(ctx: ToolContext[Orders], number: int) -> str:
    """Pay an order back."""
    return f"order {number} ({ctx.deps[number]}) is paid back"


# In place of a real one ("anthropic:claude-sonnet-5", say): what it would answer.
MODEL = ScriptedModel.of(
    {"when": {"user": "Refund"}, "calls": [{"tool": "refund", "arguments": {"number": 7}}]},
    {"when": {"user": "Where"}, "calls": [{"tool": "find_order", "arguments": {"number": 7}}]},
    {"when": {"last": "in the van"}, "text": "Order 7 is in the van, or was: see above."},
)


async def main(folder: str, customer: str, prompt: str) -> None:
    bot = Agent(
        "support",
        model=MODEL,
        tools=[find_order, refund],
        deps=Orders,
        approval="ask",
        store=LocalStore(folder),
    )
    async with bot.thread(customer, deps={7: "in the van"}) as thread:
        try:
            result = await (thread.approve() if prompt == "yes" else thread.send(prompt))
            print(result.output)
        except ApprovalNeeded as question:
            print(question.message)


asyncio.run(main(*sys.argv[1:]))
