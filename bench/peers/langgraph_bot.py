"""The support bot with LangGraph: a graph of two nodes, checkpoints in SQLite."""

import sys
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from tools import charge_order, refund_order


def model(state: MessagesState) -> dict[str, Any]:
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage("The tool has answered.")]}
    for word, name in (("Charge", "charge"), ("Refund", "refund")):
        if word in str(last.content):
            call_id = f"call_{len(state['messages'])}"
            call = {"name": name, "args": {"order": 7}, "id": call_id}
            return {"messages": [AIMessage("", tool_calls=[call])]}
    return {"messages": [AIMessage("Hello.")]}


def tools(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    folder = Path(config["configurable"]["folder"])
    (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    if call["name"] == "refund":
        if not interrupt(f"refund order {call['args']['order']}?"):
            return {"messages": [ToolMessage("a person said no", tool_call_id=call["id"])]}
        text = refund_order(folder, **call["args"])
    else:
        text = charge_order(folder, **call["args"])
    return {"messages": [ToolMessage(text, tool_call_id=call["id"])]}


def choose(state: MessagesState) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


def main(folder: Path, key: str, prompt: str) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", choose)
    graph.add_edge("tools", "model")
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        bot = graph.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": key, "folder": str(folder)}}
        given: Any = {"messages": [{"role": "user", "content": prompt}]}
        if prompt == "yes":
            given = Command(resume=True)
        elif prompt == "resume":
            given = None
        state = bot.invoke(given, config)
        if state.get("__interrupt__"):
            print("waits:", state["__interrupt__"][0].value)
        else:
            print(state["messages"][-1].content)


main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
