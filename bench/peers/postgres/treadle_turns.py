"""Agents on a `PostgresStore`: `treadle_turns.py URL AGENTS TURNS`."""

import asyncio
import sys

from measure import MODEL_S, RESULT, run

from treadle import Agent, EffectClass, PostgresStore, ScriptedModel, tool


@tool(effect=EffectClass.READ)
async def look(order: int) -> str:
    """Look an order up."""
    return RESULT


MODEL = ScriptedModel.of(
    {"when": {"last_role": "tool"}, "text": "It is on its way.", "first_delay_s": MODEL_S},
    {"calls": [{"tool": "look", "arguments": {"order": 7}}], "first_delay_s": MODEL_S},
)


async def main(url: str, agents: int, turns: int) -> None:
    store = PostgresStore(url, "owner")
    bot = Agent("bot", model=MODEL, tools=[look], store=store)

    async def work(number: int) -> None:
        async with bot.thread(f"agent-{number}") as thread:
            for _ in range(turns):
                assert (await thread.send("Where is order 7?")).output == "It is on its way."

    async with store:
        await run(work, agents, turns)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
