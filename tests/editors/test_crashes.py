"""Editors and processes that end in the middle: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from editors.editor import WAIT_S, Editor, editing, provider, says
from models.loopback import Answer, Loopback, Seen
from treadle.acp.stdio_transport import INVALID_REQUEST, PARSE_ERROR
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

SLEEP = (
    "call_1",
    "bash",
    {"command": "echo x >> runs; echo begun; sleep 1000", "access": "write"},
)
LOOP = ("call_1", "bash", {"command": "echo begun; sleep 1000"})
FIX = ("call_2", "edit_file", {"path": "calc.py", "edits": [{"old_str": "-", "new_str": "+"}]})


def is_printed(editor: Editor) -> bool:
    return any("begun" in json.dumps(one) for one in editor.of("tool_call_update"))


async def test_a_process_that_is_killed_in_a_turn_loses_nothing_and_its_session_goes_on(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    async with Loopback(says("I run it.", SLEEP), says("It was stopped."), says("hi")) as server:
        environment = {**environment, **provider(server)}
        async with editing(editor, repository, environment) as process:
            session = await process.begin(repository)
            turn = asyncio.ensure_future(process.say(session, "run it"))
            await editor.until(lambda: is_printed(editor))
            await process.kill()
            assert (await asyncio.gather(turn, return_exceptions=True))[0] is not None
        again = Editor()
        again.answer = lambda question: "failed"
        async with editing(again, repository, environment) as process:
            await process.connection.load_session(
                cwd=str(repository), session_id=session, mcp_servers=[]
            )
            assert again.text("user_message_chunk") == "run it"
            assert again.text().startswith("I run it.")
            await again.until(lambda: "It was stopped." in again.text())
            (asked,) = again.asked
            assert set(asked["options"]) == {"run_again", "failed"}
            assert "may or may not have happened" in json.dumps(asked["content"])
            assert await process.say(session, "hello") == "end_turn"
            assert (repository / "runs").read_text() == "x\n", "it was not run twice"
            assert await process.leave() == 0


async def test_a_question_that_a_dead_process_has_asked_is_asked_again_and_answered(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    editor.can_answer.clear()
    async with Loopback(says("", FIX), says("Fixed.")) as server:
        environment = {**environment, **provider(server)}
        async with editing(editor, repository, environment, "--no-commit") as process:
            session = await process.begin(repository)
            turn = asyncio.ensure_future(process.say(session, "fix it"))
            await editor.until(lambda: bool(editor.asked))
            await process.kill()
            await asyncio.gather(turn, return_exceptions=True)
        again = Editor()
        async with editing(again, repository, environment, "--no-commit") as process:
            await process.connection.resume_session(cwd=str(repository), session_id=session)
            assert again.of("user_message_chunk") == [], "the editor has the history"
            await again.until(lambda: "Fixed." in again.text())
            assert [one["toolCallId"] for one in again.asked] == ["call_2"]
            assert "return a + b" in (repository / "calc.py").read_text()
            assert await process.leave() == 0


VANISHING: Final[dict[str, tuple[Answer, str]]] = {
    "in a request": (Answer(hangs=True), "calling_llm"),
    "in a command": (says("", LOOP), "calling_llm"),
    "in a question": (says("", FIX), "waiting_for_approval"),
}


@pytest.mark.parametrize("place", VANISHING)
async def test_an_editor_that_vanishes_leaves_a_thread_that_rests(
    repository: Path, environment: dict[str, str], place: str
) -> None:
    editor, is_asked = Editor(), asyncio.Event()
    editor.can_answer.clear()
    answer, state = VANISHING[place]

    def reply(_: Seen) -> Answer:
        is_asked.set()
        return answer

    async with (
        Loopback(reply) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        turn = asyncio.ensure_future(process.say(session, "go"))
        await is_asked.wait()
        if place == "in a command":
            await editor.until(lambda: is_printed(editor))
        if place == "in a question":
            await editor.until(lambda: bool(editor.asked))
        assert await process.leave() == 0
        await asyncio.gather(turn, return_exceptions=True)
    store = LocalStore(Places.find(environment))
    assert store.find_holder(session) is None
    fold = store.load(session).fold
    assert fold.conversation[0].content.startswith("go")
    assert fold.state_kind == state


MALFORMED: Final = (
    (b"{", PARSE_ERROR, None),
    (b"\xff\xfe", PARSE_ERROR, None),
    (b"[" * 100_000, PARSE_ERROR, None),
    (b"[]", INVALID_REQUEST, None),
    (b"17", INVALID_REQUEST, None),
    (b"{}", INVALID_REQUEST, None),
    (b'{"id":{},"method":"initialize"}', INVALID_REQUEST, None),
    (b'{"id":[1],"result":{}}', INVALID_REQUEST, None),
    (b'{"id":4,"method":7}', INVALID_REQUEST, 4),
    (b'{"id":5}', INVALID_REQUEST, 5),
    (b'{"jsonrpc":"2.0","id":6,"method":"nothing/known"}', -32601, 6),
    (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":7}}', -32602, 7),
    (b'{"jsonrpc":"2.0","id":8,"method":"session/new","params":[]}', -32602, 8),
    (b'{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":null}', -32602, 9),
)


async def test_what_is_no_message_is_answered_with_an_error_and_the_connection_goes_on(
    repository: Path, environment: dict[str, str]
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "treadle", "acp"),
        cwd=repository,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    missed = []
    for line, code, message_id in MALFORMED:
        process.stdin.write(line + b"\n\n")
        told: dict[str, Any] = json.loads(await asyncio.wait_for(process.stdout.readline(), WAIT_S))
        if (told.get("id"), told.get("error", {}).get("code")) != (message_id, code):
            missed.append((line[:40], told))
    for line in (b'{"id":1,"error":7}', b'{"id":2,"result":{}}', b'{"method":"nothing"}'):
        process.stdin.write(line + b"\n")  # answers to nothing: nothing is said
    ask = {"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": {"protocolVersion": 1}}
    process.stdin.write(json.dumps(ask).encode() + b"\n")
    told = json.loads(await asyncio.wait_for(process.stdout.readline(), WAIT_S))
    assert missed == []
    assert told["result"]["protocolVersion"] == 1
    rest, _ = await asyncio.wait_for(process.communicate(b""), WAIT_S)
    assert rest == b"", "standard output carries messages alone"
    assert process.returncode == 0
