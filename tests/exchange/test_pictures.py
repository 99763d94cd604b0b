"""Pictures that were shown in another program come along: with prompts, and with results."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from typing import Any, Final

from exchange.recorded import (
    CLAUDE,
    CODEX,
    GEMINI,
    GEMINI_MESSAGES,
    answered,
    block,
    claude,
    draft_of,
    fold_of,
    item,
    one,
    result,
    spoken,
)
from exchange.test_gemini import whole
from exchange.test_other_agents import MINI, OPENCODE, PI, pi, text
from media_samples import ANIMATED_GIF, PDF, attachment, png
from treadle.exchange import opencode, trajectories
from treadle.exchange import pi as pi_sessions
from treadle.exchange.content_blocks import format_content, list_pictures
from treadle.exchange.json_lines import read_lines
from treadle.exchange.session_steps import ImportedSession

SHOT: Final = b64encode(png()).decode()
URL: Final = f"data:image/png;base64,{SHOT}"
SOURCE: Final = {"type": "base64", "media_type": "image/png", "data": SHOT}

FOUND: Final[tuple[Any, ...]] = (
    [{"type": "image", "source": SOURCE}],
    {"type": "input_image", "image_url": f"data:image/png;base64,{SHOT}"},
    [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SHOT}"}}],
    [{"inlineData": {"mimeType": "image/png", "data": SHOT}}],
    [{"type": "image", "mimeType": "image/png", "data": SHOT}],
    {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{SHOT}"},
)

NOTHING: Final[tuple[Any, ...]] = (
    None,
    "text",
    [block("text"), 7, None, {"type": "image"}],
    {"type": "input_image", "image_url": "https://example.org/x.png"},
    {"type": "input_image", "image_url": "data:image/png,raw"},
    {"type": "image", "source": {"data": "no base64 at all"}},
    {"type": "image", "source": {"data": b64encode(ANIMATED_GIF).decode()}},
    {"type": "image", "source": {"data": b64encode(png()[:-4]).decode()}},
    {"type": "image", "source": {"data": b64encode(b"text").decode()}},
    {"type": "image", "source": {"data": 7}},
    {"type": "image", "data": ["x"]},
    {"type": "file", "url": "file:///etc/passwd"},
    {"type": "image", "source": "x", "image_url": ["x"]},
)


def test_the_bytes_are_found_in_the_forms_of_each_api() -> None:
    assert [list_pictures(one) for one in FOUND] == [(png(),)] * len(FOUND)
    paper = {"type": "document", "source": {"data": b64encode(PDF).decode()}}
    assert list_pictures([*FOUND[0], paper]) == (png(), PDF)


def test_what_no_model_takes_and_what_is_elsewhere_stays_a_mark_in_the_text() -> None:
    assert [list_pictures(one) for one in NOTHING] == [()] * len(NOTHING)


def test_each_form_has_the_mark_of_its_media_type_in_the_text() -> None:
    assert {format_content(one) for one in FOUND} == {
        "[image: image/png]",
        "[document: image/png]",
    }


def test_they_are_in_the_thread_and_their_bytes_are_to_be_kept() -> None:
    shown = [block("see"), {"type": "image", "source": SOURCE}]
    draft = draft_of(
        one("claude-code", (claude("user", 0, shown), claude("assistant", 1, "I see.")))
    )
    assert draft.kept == (png(),)
    first = fold_of(draft).conversation[0]
    assert first.content == "see\n[image: image/png]"
    assert first.attachments == (attachment(png(), "picture 1"),)


def pi_of(entries: list[Any]) -> ImportedSession:
    """The session of a file of these lines."""
    lines = read_lines((f"{json.dumps(one)}\n".encode() for one in entries), Counter())
    [session] = pi_sessions.convert_lines(lines, "p", Counter())
    return session


def exported(value: dict[str, Any]) -> ImportedSession:
    """The session of an export of OpenCode."""
    [session] = opencode.convert_value(value, "o", Counter())
    return session


def run_of(value: dict[str, Any]) -> ImportedSession:
    """The session of a trajectory."""
    [session] = trajectories.convert_value(value, "m", Counter())
    return session


def with_parts(number: int, parts: list[Any]) -> dict[str, Any]:
    """The export of OpenCode with other parts in one of its messages."""
    messages = [*OPENCODE["messages"]]
    messages[number] = {**messages[number], "parts": parts}
    return {**OPENCODE, "messages": messages}


def make_sessions() -> dict[str, ImportedSession]:
    """A session of each program in which the first result shows a picture."""
    image = {"type": "image", "source": SOURCE}
    claude_lines = [*CLAUDE]
    claude_lines[4] = claude("user", 3, [result("t1", [block("a - b"), image])])
    output = [
        {"type": "input_text", "text": "a - b"},
        {"type": "input_image", "image_url": URL},
    ]
    codex_lines = [
        item(5, type="function_call_output", call_id="c1", output=output)
        if one["payload"].get("call_id") == "c1" and "output" in one["payload"]
        else one
        for one in CODEX
    ]
    inline = {"inlineData": {"mimeType": "image/png", "data": SHOT}}
    (response,) = answered("read_file", {"output": "a - b"})
    within = {"functionResponse": {**response["functionResponse"], "parts": [inline]}}
    nameless = {"functionResponse": {**response["functionResponse"], "id": ""}}
    call = {"id": "r1", "name": "read_file", "args": {}, "status": "success"}
    talk: list[Any] = [
        {"role": "user", "parts": [{"text": "mend add()"}, inline]},
        {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {}}}]},
        {"role": "user", "parts": [nameless, inline, {"text": "and this"}]},
        {"role": "model", "parts": [{"text": "It adds now."}]},
    ]

    def gemini_of(answer: list[Any]) -> ImportedSession:
        said = spoken("gemini", 2, "I look.", toolCalls=[{**call, "result": answer}])
        return whole({**GEMINI, "messages": [GEMINI_MESSAGES[0], said, GEMINI_MESSAGES[2]]})

    mcp = {"type": "image", "mimeType": "image/png", "data": SHOT}
    shown = {"role": "toolResult", "toolCallId": "c1", "content": [text("a - b"), mcp]}
    tool = OPENCODE["messages"][1]["parts"][2]
    attached = {"type": "file", "mime": "image/png", "url": URL}
    state = {**tool["state"], "attachments": [attached]}
    chat = [text("a - b"), {"type": "image_url", "image_url": {"url": URL}}]
    messages = [*MINI["messages"]]
    messages[3] = {**messages[3], "content": chat}
    return {
        "claude-code": one("claude-code", claude_lines),
        "codex": one("codex", codex_lines),
        "gemini, in the response": gemini_of([within]),
        "gemini, behind it": gemini_of([response, inline]),
        "gemini, a checkpoint": whole(talk, "checkpoint-tag"),
        "pi": pi_of([*PI[:4], pi("message", 4, 3, message=shown), *PI[5:]]),
        "opencode": exported(with_parts(1, [{**tool, "state": state}])),
        "swe-agent": run_of({**MINI, "messages": messages}),
    }


def test_those_of_results_are_in_the_thread_beside_their_call() -> None:
    for name, session in make_sessions().items():
        draft = draft_of(session)
        messages = fold_of(draft).conversation
        found = next(message for message in messages if message.role == "tool")
        assert found.content.split("\n")[0] == "a - b", name
        assert "image/png]" in found.content, name
        wanted = attachment(png(), f"picture {len(draft.kept)}")
        assert found.attachments == (wanted,), name
        assert set(draft.kept) == {png()}, name


def test_what_a_person_said_beside_a_result_is_theirs() -> None:
    talk = fold_of(draft_of(make_sessions()["gemini, a checkpoint"])).conversation
    said = [(one.content, len(one.attachments)) for one in talk if one.role == "user"]
    assert said == [("mend add()\n[image: image/png]", 1), ("and this", 0)]


def test_a_prompt_of_opencode_shows_what_was_attached() -> None:
    parts = [text("see"), {"type": "file", "mime": "image/png", "url": URL}]
    first = fold_of(draft_of(exported(with_parts(0, parts)))).conversation[0]
    assert first.content == "see\n[document: image/png]"
    assert first.attachments == (attachment(png(), "picture 1"),)


def test_a_result_that_failed_keeps_the_mark_alone() -> None:
    lines = [*CLAUDE]
    failed = result("t1", [block("no"), {"type": "image", "source": SOURCE}], is_error=True)
    lines[4] = claude("user", 3, [failed])
    draft = draft_of(one("claude-code", lines))
    assert draft.kept == ()
    assert "no\n[image: image/png]" in fold_of(draft).conversation[2].content
