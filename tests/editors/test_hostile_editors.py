"""Editors that say what makes no sense, too early, too late, or twice: the session goes on."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from editors.editor import Editor, Process, editing, provider, says
from models.loopback import Answer, Loopback, Seen
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

SLEEP = ("call_1", "bash", {"command": "echo begun; sleep 1000"})
WRITE = ("call_2", "write_file", {"path": "new.py", "content": "x = 1\n"})


def words(text: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=text)


def link(uri: str) -> ResourceContentBlock:
    return ResourceContentBlock(type="resource_link", name="it", uri=uri)


def document(uri: str, text: str) -> EmbeddedResourceContentBlock:
    content = TextResourceContents(uri=uri, text=text)
    return EmbeddedResourceContentBlock(type="resource", resource=content)


def picture(data: str) -> ImageContentBlock:
    return ImageContentBlock(type="image", data=data, mime_type="image/png")


async def test_a_prompt_holds_whatever_an_editor_puts_into_it(
    repository: Path, environment: dict[str, str]
) -> None:
    quoted = 'say "hi" to.py'
    (repository / quoted).write_text("quoted = 1\n")
    here = repository.as_uri()
    editor = Editor()
    cases: dict[str, tuple[list[Any], str]] = {
        "a word before a link": ([words("look at"), link(f"{here}/calc.py")], "def add(a, b)"),
        "a name with quotes": ([link((repository / quoted).as_uri())], "quoted = 1"),
        "an address that is none": ([words("see "), link("http://[::1")], "it (http://[::1)"),
        "a document at no address": ([words("see "), document("http://[::1", "body")], "body"),
        "half a character": ([words("a\ud800b"), document(f"{here}/z", "\ud800")], "a\ufffdb"),
        "what lies outside": ([words("see @/etc/passwd")], "see @/etc/passwd"),
    }
    refused = {
        "no base64": [picture("é")],
        "no picture": [picture(base64.b64encode(b"x").decode())],
    }
    async with (
        Loopback(says("done")) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        missed = []
        for name, (blocks, told) in cases.items():
            try:
                done = await process.connection.prompt(session_id=session, prompt=blocks)
            except acp.RequestError as error:
                missed.append((name, error.data))
                continue
            last = server.requests[-1].json["messages"][-1]["content"][-1]["text"]
            if done.stop_reason != "end_turn" or told not in last:
                missed.append((name, last))
        for name, blocks in refused.items():
            with pytest.raises(acp.RequestError) as caught:
                await process.connection.prompt(session_id=session, prompt=blocks)
            if caught.value.code != -32602:
                missed.append((name, str(caught.value.data)))
        assert missed == []
        assert "/etc/passwd stays text" in editor.text()
        assert await process.leave() == 0


def answer_last(seen: Seen) -> Answer:
    said = str(seen.json["messages"][-1])
    calls = [call for word, call in (("first", SLEEP), ("third", WRITE)) if word in said]
    return says("" if calls else "heard", *calls)


async def test_a_cancel_ends_all_that_was_not_answered_and_nothing_is_said_later(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    editor.can_answer.clear()
    async with (
        Loopback(answer_last) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session, connection = await process.begin(repository), process.connection
        await connection.cancel(session_id="nobody's")
        await connection.cancel(session_id=session)
        early = asyncio.ensure_future(process.say(session, "too early, with @calc.py"))
        await asyncio.sleep(0)  # it is sent, and not heard yet
        await connection.cancel(session_id=session)
        assert await early == "cancelled"
        first = asyncio.ensure_future(process.say(session, "first"))
        await editor.until(lambda: "begun" in str(editor.of("tool_call_update")))
        second = asyncio.ensure_future(process.say(session, "second"))
        await wait_until_queued(process, session, environment)
        await connection.cancel(session_id=session)
        assert [await first, await second] == ["cancelled", "cancelled"]
        asked = asyncio.ensure_future(process.say(session, "third"))
        await editor.until(lambda: bool(editor.asked))
        await connection.cancel(session_id=session)
        assert await asked == "cancelled"
        editor.can_answer.set()  # too late
        assert await process.say(session, "fourth") == "end_turn"
        assert not (repository / "new.py").exists()
        said = str(server.requests[-1].json["messages"])
        expected = {"first": True, "second": False, "third": True, "fourth": True}
        assert {word: word in said for word in expected} == expected
        assert await process.leave() == 0


async def wait_until_queued(process: Process, session: str, environment: dict[str, str]) -> None:
    """What is asked of a process behind a prompt is answered when the prompt is recorded."""
    store = LocalStore(Places.find(environment))
    while not store.load(session).fold.queued:
        await process.connection.list_sessions(cursor="0")


async def test_a_session_has_one_name_one_folder_and_one_end(
    repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    editor = Editor()
    (tmp_path / "link").symlink_to(repository)
    (tmp_path / "other").mkdir()
    async with (
        Loopback(says("hello")) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session, connection = await process.begin(repository), process.connection
        assert await process.say(session, "hello") == "end_turn"
        here = str(repository)
        told = []
        for cwd, name in (
            *((here, session[:12]), (here, "../../etc/passwd"), (here, ""), (here, "\ud800")),
            *(("here", session), (f"{here}/gone", session), (str(tmp_path / "other"), session)),
        ):
            with pytest.raises(acp.RequestError) as caught:
                await connection.load_session(cwd=cwd, session_id=name, mcp_servers=[])
            told.append((caught.value.code, "-C" in str(caught.value)))
        assert told == [(-32002, False)] * 2 + [(-32602, False)] * 5
        with pytest.raises(acp.RequestError, match="no folder"):
            await connection.new_session(cwd=f"{here}/gone", mcp_servers=[])
        for extra in ({"cursor": "9" * 30}, {"cwd": "\0"}):
            with pytest.raises(acp.RequestError) as caught:
                await connection.list_sessions(**extra)
            assert caught.value.code == -32602
        assert (await connection.list_sessions(cwd="/\ud800")).sessions == []
        listed = await connection.list_sessions(cwd=str(tmp_path / "link"))
        assert [one.session_id for one in listed.sessions] == [session]
        with pytest.raises(acp.RequestError, match="no model"):
            await connection.set_config_option(session_id=session, config_id="model", value="")
        assert await process.say(session, "still there?") == "end_turn"
        await connection.close_session(session_id=session)
        with pytest.raises(acp.RequestError, match="load it first"):
            await process.say(session, "and now?")
        assert await process.leave() == 0


async def test_an_editor_that_hears_nothing_any_more_ends_it(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    async with Loopback(says("", SLEEP), Answer(hangs=True)) as server:
        environment = {**environment, **provider(server)}
        async with editing(editor, repository, environment) as process:
            session = await process.begin(repository)
            turn = asyncio.ensure_future(process.say(session, "go"))
            await editor.until(lambda: "begun" in str(editor.of("tool_call_update")))
            process.pipes.listening.close()  # the other pipe stays open
            await process.connection.cancel(session_id=session)
            assert await process.wait() == 0
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
        assert LocalStore(Places.find(environment)).find_holder(session) is None
