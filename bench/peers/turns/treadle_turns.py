"""Agents on a `PostgresStore`, or on a `LocalStore`: `treadle_turns.py URL|FOLDER AGENTS TURNS`."""

import asyncio
import resource
import sys

from measure import MODEL_S, RESULT, run

from treadle import Agent, EffectClass, LocalStore, PostgresStore, ScriptedModel, tool


@tool(effect=EffectClass.READ)
async def look(order: int) -> str:
    """Look an order up."""
    return RESULT


MODEL = ScriptedModel.of(
    {"when": {"last_role": "tool"}, "text": "It is on its way.", "first_delay_s": MODEL_S},
    {"calls": [{"tool": "look", "arguments": {"order": 7}}], "first_delay_s": MODEL_S},
)


async def main(place: str, agents: int, turns: int) -> None:
    if "://" in place:
        async with PostgresStore(place, "owner") as store:
            await use(Agent("bot", model=MODEL, tools=[look], store=store), agents, turns)
    else:
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        bot = Agent("bot", model=MODEL, tools=[look], store=LocalStore(place))
        await use(bot, agents, turns)


async def use(bot: Agent, agents: int, turns: int) -> None:
    async def work(number: int) -> None:
        async with bot.thread(f"agent-{number}") as thread:
            for _ in range(turns):
                assert (await thread.send("Where is order 7?")).output == "It is on its way."

    await run(work, agents, turns)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
