"""A workflow for each agent, a step for each call: `dbos_turns.py URL AGENTS TURNS`."""

import asyncio
import logging
import sys

from dbos import DBOS, DBOSConfig
from measure import CONNECTIONS, MODEL_S, RESULT, run

Message = dict[str, str]


@DBOS.step()
async def ask_model(messages: list[Message]) -> Message:
    await asyncio.sleep(MODEL_S)
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": "It is on its way."}
    return {"role": "assistant", "content": "", "call": "look"}


@DBOS.step()
async def look(order: int) -> str:
    return RESULT


@DBOS.workflow()
async def talk(turns: int) -> str:
    messages: list[Message] = []
    for _ in range(turns):
        messages.append({"role": "user", "content": "Where is order 7?"})
        messages.append(await ask_model(messages))
        messages.append({"role": "tool", "content": await look(7)})
        messages.append(await ask_model(messages))
    return messages[-1]["content"]


async def main(url: str, agents: int, turns: int) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "sys_db_pool_size": CONNECTIONS,
        "run_admin_server": False,
        "enable_otlp": False,
    }
    DBOS(config=config)
    DBOS.launch()
    logging.disable()

    async def work(number: int) -> None:
        handle = await DBOS.start_workflow_async(talk, turns)
        assert await handle.get_result() == "It is on its way."

    await run(work, agents, turns)
    DBOS.destroy()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
