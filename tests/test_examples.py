"""The examples are run as a reader would run them, and say what they promise."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import ClientDisconnect

from models.loopback import Answer, Loopback
from treadle import LocalStore
from treadle.app import verify_threads

ROOT = Path(__file__).parent.parent
JSON = {"content-type": "application/json"}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


LINES_MAX = {"sqlite_store.py": 115, "support_bot.py": 40, "custom_graph.py": 60, "sans_io.py": 50}
"""Lines of code: what is no blank, no comment and not the text at the top."""


def run(name: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_example_is_run_by_a_test_of_this_file() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert len(EXAMPLES) == 7
    assert [path.name for path in EXAMPLES if f'"{path.name}"' not in tested] == []


def test_an_example_is_read_in_a_minute() -> None:
    too_long = {}
    for path in EXAMPLES:
        code = path.read_text(encoding="utf-8").split('"""', 2)[2]
        lines = [line for line in code.splitlines() if line.strip() and line.strip()[0] != "#"]
        if len(lines) > LINES_MAX.get(path.name, 50):
            too_long[path.name] = len(lines)
    assert too_long == {}


def test_a_support_bot_pays_back_only_with_a_yes_that_another_process_brings(
    tmp_path: Path,
) -> None:
    found = run("support_bot.py", tmp_path, "ann", "Where is order 7?")
    assert found == "Order 7 is in the van, or was: see above.\n"
    asked = run("support_bot.py", tmp_path, "ann", "Refund order 7.")
    assert 'waits for approval of: refund {"number":7}' in asked
    store = LocalStore(tmp_path)
    (thread,) = store.ids()
    assert "is paid back" not in str(list(store.load(thread).fold.conversation))
    assert run("support_bot.py", tmp_path, "ann", "yes").startswith("Order 7 is in the van")
    assert "order 7 (in the van) is paid back" in str(list(store.load(thread).fold.conversation))


def test_a_custom_graph_reviews_every_answer(tmp_path: Path) -> None:
    told = run("custom_graph.py", tmp_path)
    assert told.startswith("Answer(year=1050, source='the museum')\n")
    assert len(re.findall(r"Review +REVIEWED", told)) == 2
    assert len(LocalStore(tmp_path).ids()) == 2, "the sub-agent has a thread of its own"


async def test_the_pure_machine_is_driven_by_a_program_of_ones_own(tmp_path: Path) -> None:
    call = {"id": "c1", "function": {"name": "length", "arguments": '{"text": "treadle"}'}}
    said = [{"tool_calls": [call]}, {"content": "It has 7 letters."}]
    answers = [
        Answer([json.dumps({"choices": [{"message": one}]}).encode()], headers=JSON) for one in said
    ]
    async with Loopback(*answers) as server:
        url = f"{server.url}/v1"
        told = await asyncio.to_thread(run, "sans_io.py", tmp_path, url, "How long?")
    assert told == "It has 7 letters.\n"
    result = {"role": "tool", "content": "7", "tool_call_id": "c1"}
    assert server.requests[1].json["messages"][-1] == result
    (thread,) = LocalStore(tmp_path).ids()
    assert all(one.is_good for one in verify_threads(LocalStore(tmp_path), thread))


def test_facts_are_read_as_values_of_a_type(tmp_path: Path) -> None:
    assert run("extraction.py", tmp_path) == "Ann Weaver: 966.00 until 01 May\n"


def test_questions_are_researched_in_threads_of_their_own(tmp_path: Path) -> None:
    told = run("research.py", tmp_path)
    assert told.count("asks: ") == 2
    assert told.endswith("two centuries before the spinning wheel. (3 threads)\n")


def test_a_store_of_ones_own_has_a_conversation_over_processes(tmp_path: Path) -> None:
    database = tmp_path / "threads.db"
    told = [run("sqlite_store.py", database, "ann", text) for text in ("Hi", "And now?")]
    assert told[0] == "Hello! What can I do? (2 messages)\nHi ann\n"
    assert told[1] == "Hello! What can I do? (4 messages)\nHi ann\n"
    assert run("sqlite_store.py", database, "bob", "Hey").endswith("(2 messages)\nHey bob\n")


def read_events(text: str) -> list[tuple[str, Any]]:
    """Server-sent events: their names, and what they say."""
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    return [(name, json.loads(data)) for name, data in found]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    found = importlib.import_module("streaming_server")
    assert Path(found.__file__ or "") == ROOT / "examples" / "streaming_server.py"
    return found


def test_a_web_endpoint_streams_what_the_model_says(tmp_path: Path, server: Any) -> None:
    client = TestClient(server.app)
    for count in (1, 2):
        told = read_events(client.post("/threads/ann", json={"prompt": "Hello"}).text)
        text = "".join(data for name, data in told if name == "text")
        assert text == "A treadle is the pedal of a loom."
        assert told[-1] == ("answer", text)
        (thread,) = LocalStore(tmp_path).ids()
        assert len(LocalStore(tmp_path).load(thread).fold.conversation) == 2 * count
    assert client.post("/threads/ann", json={"prompt": " "}).status_code == 422
    messages, answer = read_events(client.get("/threads/ann").text)
    assert (len(messages[1]), answer) == (4, ("answer", text))
    ((name, data),) = read_events(client.get("/threads/nobody").text)[1:]
    assert (name, data) == ("error", "nothing is unfinished, and there is no answer")


async def stay_until(app: Any, version: str, method: str, body: bytes, count: int) -> str:
    """What a client of a server of this version of ASGI gets, which goes away after so much."""
    gone, told = asyncio.Event(), list[str]()
    received = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for one in received:
            return one
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        told.append(message.get("body", b"").decode())
        if len(told) > count:
            gone.set()
            if version == "2.4":
                raise OSError
            await asyncio.Event().wait()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": version},
        "method": method,
        "path": "/threads/ann",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    with suppress(ClientDisconnect):
        await app(scope, receive, send)
    return "".join(told)


@pytest.mark.parametrize("version", ["2.3", "2.4"])
async def test_a_client_that_goes_away_anywhere_may_come_back_at_once(
    server: Any, version: str
) -> None:
    prompt = json.dumps({"prompt": "Hello"}).encode()
    for count in range(1, 12):
        told = await stay_until(server.app, version, "POST", prompt, count)
        assert not re.search("event: error", told), (count, told)
        told = await stay_until(server.app, version, "GET", b"", 99)
        assert read_events(told)[-1] == ("answer", "A treadle is the pedal of a loom."), count


async def test_two_clients_at_once_are_told_so(server: Any) -> None:
    async with server.BOT.thread("ann"):
        prompt = json.dumps({"prompt": "Hello"}).encode()
        ((name, why),) = read_events(await stay_until(server.app, "2.3", "POST", prompt, 99))
    assert name == "error"
    assert "is open in this process already" in why


def test_the_programs_of_the_guide_run(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(programs) == 2
    told = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, "TREADLE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for program in programs
    ]
    assert told[0].startswith("About 3.9 million people live in Berlin.\nstep ")
