"""A graph of two nodes with checkpoints: `langgraph_turns.py URL|FOLDER AGENTS TURNS`."""

import asyncio
import sys
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from measure import CONNECTIONS, MODEL_S, RESULT, run
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool


async def model(state: MessagesState) -> dict[str, Any]:
    await asyncio.sleep(MODEL_S)
    if isinstance(state["messages"][-1], ToolMessage):
        return {"messages": [AIMessage("It is on its way.")]}
    call = {"name": "look", "args": {"order": 7}, "id": f"call_{len(state['messages'])}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


async def tools(state: MessagesState) -> dict[str, Any]:
    (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    return {"messages": [ToolMessage(RESULT, tool_call_id=call["id"])]}


def choose(state: MessagesState) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


async def main(place: str, agents: int, turns: int) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", choose)
    graph.add_edge("tools", "model")
    if "://" not in place:
        async with AsyncSqliteSaver.from_conn_string(f"{place}/checkpoints.db") as saver:
            # Its own setting syncs now and then only: a power cut would take what was told.
            await saver.setup()
            await saver.conn.execute("PRAGMA synchronous=FULL")
            await use(graph.compile(checkpointer=saver), agents, turns)
        return
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(place, max_size=CONNECTIONS, kwargs=options) as pool:
        postgres = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
        await postgres.setup()
        await use(graph.compile(checkpointer=postgres), agents, turns)


async def use(bot: Any, agents: int, turns: int) -> None:
    async def work(number: int) -> None:
        config: Any = {"configurable": {"thread_id": f"agent-{number}"}}
        for _ in range(turns):
            asked: Any = {"messages": [{"role": "user", "content": "Where is order 7?"}]}
            # What is read before a tool runs is on disk: the default writes behind its back.
            state = await bot.ainvoke(asked, config, durability="sync")
            assert state["messages"][-1].content == "It is on its way."

    await run(work, agents, turns)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
