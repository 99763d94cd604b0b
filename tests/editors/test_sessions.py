"""Sessions of an editor: the SDK's own client, a real process, a provider on the loopback."""

from __future__ import annotations

import asyncio
import base64
import json
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

from editors.editor import KEY, Editor, editing, provider, says
from media_samples import png
from models import anthropic_streams as wire
from models.loopback import Loopback, sse, stream

LOOK = ("call_1", "read_file", {"path": "calc.py"})
FIX = ("call_2", "edit_file", {"path": "calc.py", "edits": [{"old_str": "-", "new_str": "+"}]})
RUN = ("call_3", "bash", {"command": "cat calc.py"})
STEPS = [{"step": "look", "status": "done"}, {"step": "fix", "status": "in_progress"}]
PLAN = ("call_4", "plan", {"steps": STEPS})


def thinks(thought: str, text: str) -> Any:
    """An answer with reasoning before it."""
    events = [wire.start(), *wire.thinking(0, thought), *wire.text(1, text), *wire.stop()]
    return stream(sse(*events))


def untold(update: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in update.items() if key not in ("session", "_meta")}


async def test_a_session_shows_all_that_happens_and_is_shown_again_when_it_is_loaded(
    repository: Path, environment: dict[str, str]
) -> None:
    editor, file = Editor(), str(repository / "calc.py")
    answers = says("I look.", LOOK, PLAN), says("", FIX, RUN), thinks("hm", "It adds now.")
    async with (
        Loopback(*answers) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        assert await process.say(session, "mend add") == "end_turn"
        assert editor.text("agent_thought_chunk") == "hm"
        assert editor.text().startswith("I look.")
        assert "It adds now." in editor.text()
        begun = {one["toolCallId"]: one for one in editor.of("tool_call")}
        assert {name: one["kind"] for name, one in begun.items()} == {
            "call_1": "read",
            "call_2": "edit",
            "call_3": "execute",
        }
        assert begun["call_1"]["locations"] == [{"path": file}]
        diff = begun["call_2"]["content"][0]
        assert (diff["type"], diff["path"]) == ("diff", file)
        assert diff["newText"] == diff["oldText"].replace("-", "+")
        (asked,) = editor.asked
        assert asked["toolCallId"] == "call_2"
        assert asked["options"] == {
            "once": ("allow_once", "Yes, this once"),
            "always": ("allow_always", "Yes, and always for `calc.py` in this thread"),
            "no": ("reject_once", "No"),
        }
        assert asked["content"][0] == diff
        ended = {one["toolCallId"]: one for one in editor.of("tool_call_update")}
        assert {name: one["status"] for name, one in ended.items()} == dict.fromkeys(
            begun, "completed"
        )
        assert "return a + b" in ended["call_3"]["content"][0]["content"]["text"]
        (plan,) = editor.of("plan")
        assert [one["status"] for one in plan["entries"]] == ["completed", "in_progress"]
        assert editor.of("session_info_update")[0]["title"] == "mend add"
        assert editor.of("usage_update")[0]["used"] > 0
        listed = await process.connection.list_sessions(cwd=str(repository))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(session, "mend add")]
        assert await process.leave() == 0
    again = Editor()
    async with editing(again, repository, {**environment, KEY: "sk-ant-test"}) as process:
        loaded = await process.connection.load_session(
            cwd=str(repository), session_id=session, mcp_servers=[]
        )
        assert loaded.modes.current_mode_id == "ask"
        assert again.text("user_message_chunk") == "mend add"
        assert again.text("agent_thought_chunk") == "hm"
        assert again.text() == "I look.It adds now."
        assert {one["toolCallId"]: one["kind"] for one in again.of("tool_call")} == {
            name: one["kind"] for name, one in begun.items()
        }
        assert {one["status"] for one in again.of("tool_call_update")} == {"completed"}
        assert untold(again.of("plan")[0]) == untold(plan)
        assert again.asked == []


async def test_a_prompt_takes_pictures_links_and_documents_along(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    picture = base64.b64encode(png(2, 2)).decode()
    link = ResourceContentBlock(
        type="resource_link", name="calc.py", uri=(repository / "calc.py").as_uri()
    )
    text = TextResourceContents(
        uri=(repository / "note.md").as_uri() + "#L2:3", text="two\nthree", mime_type="text/plain"
    )
    blocks = [
        TextContentBlock(type="text", text="compare "),
        link,
        TextContentBlock(type="text", text=" with "),
        EmbeddedResourceContentBlock(type="resource", resource=text),
        ImageContentBlock(type="image", data=picture, mime_type="image/png"),
    ]
    async with (
        Loopback(says("done")) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        await process.connection.prompt(session_id=session, prompt=blocks)
        (said,) = [one["content"] for one in server.requests[0].json["messages"]]
        await process.connection.load_session(
            cwd=str(repository), session_id=session, mcp_servers=[]
        )
    told = json.dumps(said)
    assert 'compare @\\"calc.py\\" with `note.md:2-3`' in told
    assert "def add(a, b)" in told, "a link is read like a file that is named"
    assert "two\\nthree" in told
    assert picture in told
    shown = editor.of("user_message_chunk")
    assert [one["content"]["type"] for one in shown] == ["text", "image"]
    assert shown[0]["content"]["text"] == 'compare @"calc.py" with `note.md:2-3`'


async def test_modes_and_models_are_chosen_on_both_sides(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    proposal = ("call_1", "plan", {"steps": [{"step": "fix"}]})
    answers = says("", proposal), says("That is my plan."), says("", FIX), says("Fixed.")
    editor.answer = lambda question: "auto-edit"
    async with (
        Loopback(*answers) as server,
        editing(
            editor, repository, {**environment, **provider(server)}, "--approval-mode", "plan"
        ) as process,
    ):
        session = await process.begin(repository)
        assert await process.say(session, "plan it") == "end_turn"
        (asked,) = editor.asked
        assert asked["kind"] == "switch_mode"
        assert set(asked["options"]) == {"ask", "auto-edit", "no"}
        assert editor.of("current_mode_update")[0]["currentModeId"] == "auto-edit"
        assert "return a + b" in (repository / "calc.py").read_text(), "and it was not asked about"
        await process.connection.set_session_mode(session_id=session, mode_id="auto")
        assert editor.of("current_mode_update")[-1]["currentModeId"] == "auto"
        chosen = await process.connection.set_config_option(
            session_id=session, config_id="model", value="anthropic:claude-haiku-4-5"
        )
        options = {one.id: one for one in chosen.config_options}
        assert options["mode"].current_value == "auto"
        assert options["model"].current_value == "anthropic:claude-haiku-4-5"
        assert options["model"].current_value in [one.value for one in options["model"].options]
        with pytest.raises(acp.RequestError, match="there is no provider") as caught:
            await process.connection.set_config_option(
                session_id=session, config_id="model", value="nobody:x"
            )
        assert caught.value.code == -32602
        with pytest.raises(acp.RequestError, match="there is no mode"):
            await process.connection.set_session_mode(session_id=session, mode_id="reckless")
        await process.say(session, "once more")
        assert server.requests[-1].json["model"] == "claude-haiku-4-5"


async def test_an_answer_is_what_it_says_a_no_an_always_or_the_end_of_the_turn(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    other = ("call_5", "write_file", {"path": "new.py", "content": "x = 1\n"})
    touch = {"command": "touch made", "access": "write"}
    answers = (
        *(says("", FIX), says("", other), says("", ("call_6", "bash", touch)), says("", RUN)),
        *(says("done"), says("", ("call_7", "bash", touch)), says("heard")),
    )
    replies = iter(["no", "always", "once"])
    editor.answer = lambda question: next(replies)
    async with (
        Loopback(*answers) as server,
        editing(editor, repository, {**environment, **provider(server)}, "--no-commit") as process,
    ):
        session = await process.begin(repository)
        assert await process.say(session, "go") == "end_turn"
        assert "return a - b" in (repository / "calc.py").read_text(), "no"
        assert (repository / "made").exists(), "yes"
        ended = [one for one in editor.of("tool_call_update") if one["toolCallId"] == "call_2"]
        assert [one["status"] for one in ended] == ["failed"]
        assert "not allowed; it did not run" in str(ended[0]["content"])
        editor.answer = lambda question: None
        assert await process.say(session, "again") == "cancelled"
        assert await process.say(session, "do you hear me?") == "end_turn"
        assert "heard" in editor.text()


async def test_a_command_is_cancelled_in_the_middle_and_the_session_goes_on(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    sleep = ("call_1", "bash", {"command": "echo begun; sleep 1000"})
    async with (
        Loopback(says("", sleep), says("fine")) as server,
        editing(
            editor,
            repository,
            {**environment, **provider(server)},
            field_meta={"terminal_output": True},
        ) as process,
    ):
        session = await process.begin(repository)
        turn = asyncio.ensure_future(process.say(session, "wait"))
        await editor.until(lambda: any("_meta" in one for one in editor.of("tool_call_update")))
        (begun,) = editor.of("tool_call")
        assert begun["content"] == [{"type": "terminal", "terminalId": "call_1"}]
        assert begun["_meta"]["terminal_info"]["cwd"] == str(repository)
        printed = editor.of("tool_call_update")[0]["_meta"]["terminal_output"]
        assert printed == {"terminal_id": "call_1", "data": "begun\n"}
        await process.connection.cancel(session_id=session)
        assert await turn == "cancelled"
        ended = editor.of("tool_call_update")[-1]
        assert ended["status"] == "failed"
        assert ended["_meta"]["terminal_exit"]["exit_code"] is None
        assert await process.say(session, "go on") == "end_turn"


async def test_what_cannot_be_is_said_and_changes_nothing(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor()
    async with editing(editor, repository, environment) as process:
        connection = process.connection
        with pytest.raises(acp.RequestError, match="treadle login") as caught:
            await process.begin(repository)
        assert caught.value.code == -32000, "the editor offers to log in"
        await connection.authenticate(method_id="treadle-login")
        missing = "T-00000000-0000-7000-8000-000000000000"
        with pytest.raises(acp.RequestError) as caught:
            await connection.load_session(cwd=str(repository), session_id=missing, mcp_servers=[])
        assert caught.value.code == -32002
        with pytest.raises(acp.RequestError, match="load it first"):
            await process.say(missing, "hello")
        with pytest.raises(acp.RequestError, match="absolute"):
            await connection.new_session(cwd="here", mcp_servers=[])
        with pytest.raises(acp.RequestError, match="cursor"):
            await connection.list_sessions(cursor="x")
        assert (await connection.list_sessions()).sessions == []
        assert await process.leave() == 0
