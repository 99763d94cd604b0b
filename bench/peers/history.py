"""The prompts of a conversation, as each library gives them back: `history.py BOT FOLDER KEY`."""

import asyncio
import json
import sys
from pathlib import Path


def read_treadle(folder: Path, key: str) -> list[str]:
    from treadle import LocalStore

    store = LocalStore(folder)
    thread = store.keys.find(key)
    said = [] if thread is None else store.load(thread).fold.conversation
    return [one.content for one in said if one.role == "user"]


def read_pydantic_ai(folder: Path, key: str) -> list[str]:
    from pydantic_ai.conversation import ConversationTypeAdapter

    said = ConversationTypeAdapter.validate_json((folder / f"{key}.json").read_bytes())
    parts = [part for message in said.messages for part in message.parts]
    return [str(part.content) for part in parts if part.part_kind == "user-prompt"]


def read_openai_agents(folder: Path, key: str) -> list[str]:
    from agents import SQLiteSession

    items = asyncio.run(SQLiteSession(key, folder / "sessions.db").get_items())
    return [str(one["content"]) for one in items if one.get("role") == "user"]


def read_langgraph(folder: Path, key: str) -> list[str]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        found = saver.get({"configurable": {"thread_id": key}})
    messages = [] if found is None else found["channel_values"]["messages"]
    return [str(one.content) for one in messages if one.type == "human"]


print(json.dumps(globals()[f"read_{sys.argv[1]}"](Path(sys.argv[2]), sys.argv[3])))
