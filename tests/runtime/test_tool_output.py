"""Output is kept to a size, and secrets are out of it before anybody sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import CONFIG, Desk, Failure, Model, Run, Success, Toolbox, calls, mutate, read
from treadle.core.tools import Outcome, ToolError, ToolErrorKind
from treadle.runtime import outputs
from treadle.runtime.calls import OUTPUT_LENGTH_MAX

SECRET = "sk-0123456789abcdef"  # of nobody


class Censor:
    """Knows one secret, with or without the escapes of JSON."""

    def __init__(self, secret: str = SECRET) -> None:
        escaped = secret.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        self._forms = (secret, escaped)

    def redact(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, "[REDACTED:key]")
        return text


async def results_of(desk: Desk, outcome: Outcome, **rest: Any) -> tuple[str, ...]:
    """What the model reads of calls that end so."""

    async def end(_: Run) -> Outcome:
        return outcome

    model = Model(calls("work"), "done")
    session = desk.new(model, Toolbox(work=mutate(end)), **rest)
    await session.turn("go")
    desk.check(session)
    return tuple(m.content for m in model.requests[1].messages if m.role == "tool")


async def test_output_of_the_greatest_size_is_kept_whole(desk: Desk) -> None:
    text = "x" * OUTPUT_LENGTH_MAX
    assert OUTPUT_LENGTH_MAX == 32 * 1024
    assert await results_of(desk, Success("", text)) == (text,)


@pytest.mark.parametrize("extra", [1, 2, 1000, 1_000_000])
async def test_larger_output_keeps_head_and_tail_and_says_exactly_how_much_is_left_out(
    desk: Desk, extra: int
) -> None:
    half = OUTPUT_LENGTH_MAX // 2
    (text,) = await results_of(desk, Success("", "é" * half + "-" * extra + "ü" * half))
    assert text == "é" * half + f"\n[... {extra} characters left out ...]\n" + "ü" * half


async def test_message_and_output_of_a_failure_are_cut_too(desk: Desk) -> None:
    long = "y" * (OUTPUT_LENGTH_MAX + 5)
    (text,) = await results_of(desk, Failure("", ToolError(ToolErrorKind.FAILED, long, long)))
    assert text.count("[... 5 characters left out ...]") == 2
    assert len(text) < 2 * OUTPUT_LENGTH_MAX + 200


@pytest.mark.parametrize(
    "outcome",
    [
        Success("", f"the key is {SECRET}."),
        Failure("", ToolError(ToolErrorKind.FAILED, f"the key is {SECRET}.")),
        Failure("", ToolError(ToolErrorKind.FAILED, "no", f"the key is {SECRET}.")),
    ],
)
async def test_secrets_in_an_outcome_reach_neither_the_disk_nor_the_model_nor_people(
    desk: Desk, outcome: Outcome
) -> None:
    (text,) = await results_of(desk, outcome, redactor=Censor())
    assert "the key is [REDACTED:key]." in text
    assert SECRET not in text
    assert SECRET not in str(desk.heard.outputs)
    assert all(SECRET.encode() not in path.read_bytes() for path in journals(desk))


@pytest.mark.parametrize("offset", range(-len(SECRET), 1))
@pytest.mark.parametrize("edge", ["head", "tail"])
async def test_a_secret_that_the_cut_runs_through_is_not_left_in_part(
    desk: Desk, offset: int, edge: str
) -> None:
    half = OUTPUT_LENGTH_MAX // 2
    before = "a" * (half + offset)
    text = f"{before}{SECRET}{'b' * OUTPUT_LENGTH_MAX}"
    if edge == "tail":
        text = f"{'b' * OUTPUT_LENGTH_MAX}{SECRET}{before}"
    (shown,) = await results_of(desk, Success("", text), redactor=Censor())
    pieces = {SECRET[: size + 3] for size in range(len(SECRET) - 3)}
    pieces |= {SECRET[size:] for size in range(len(SECRET) - 3)}
    assert not [piece for piece in pieces if piece in shown]


@pytest.mark.parametrize("secret", [SECRET, "two\nlines", 'a "quoted" one', "back\\slash"])
async def test_secrets_in_prompts_and_answers_and_arguments_are_not_stored_or_sent_again(
    desk: Desk, secret: str
) -> None:
    reply = {"text": f"use {secret}", "calls": [{"tool": "a", "arguments": {"key": secret}}]}
    model = Model(reply, f"I used {secret}")
    tools = Toolbox(a=read())
    session = desk.new(model, tools, redactor=Censor(secret))
    finished = await session.turn(f"the key is {secret}")
    escaped = secret.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    for data in [*model.sent, *(path.read_bytes() for path in journals(desk))]:
        assert escaped.encode() not in data
        assert escaped.replace("\\", "\\\\").encode() not in data or "\\" not in escaped
        assert b"[REDACTED:key]" in data
    assert finished.answer == "I used [REDACTED:key]"
    desk.check(session)


async def test_secrets_in_the_configuration_are_not_stored_or_sent_or_recorded_anew(
    desk: Desk,
) -> None:
    config = replace(CONFIG, system_prompt=f"the key is {SECRET}")
    model = Model("done")
    session = desk.new(model, config=config, redactor=Censor())
    await session.turn("go")
    await session.close()
    again = desk.reopen(session.thread_id, model, None, config, redactor=Censor())
    await again.turn("go")
    assert [request.system for request in model.requests] == ["the key is [REDACTED:key]"] * 2
    assert all(SECRET.encode() not in path.read_bytes() for path in journals(desk))
    assert desk.kinds(session.thread_id).count("configured") == 1


async def test_what_was_said_before_a_cancel_is_stored_without_secrets(desk: Desk) -> None:
    desk.heard.on_output = lambda output: (
        session.cancel(f"because of {SECRET}")
        if isinstance(output, outputs.TextDelta) and "." in output.text
        else None
    )
    model = Model({"chunks": ["the key is ", SECRET[:7], SECRET[7:], "."], "hang": True})
    session = desk.new(model, redactor=Censor())
    await session.turn("go")
    assert session.conversation[-1].content == "the key is [REDACTED:key]."
    assert all(SECRET.encode() not in path.read_bytes() for path in journals(desk))


async def test_queued_input_is_stored_without_secrets_and_delivered_once(desk: Desk) -> None:
    tasks: list[asyncio.Future[Any]] = []

    async def work(_: Run) -> str:
        tasks.append(asyncio.ensure_future(session.turn(f"more {SECRET}")))
        await tick(2)
        return "worked"

    model = Model({"when": {"user": "more"}, "text": "done"}, calls("work"), "done")
    session = desk.new(model, Toolbox(work=read(work)), redactor=Censor())
    await session.turn("go")
    await asyncio.gather(*tasks)
    asked = [m.content for m in session.conversation if m.role == "user"]
    assert asked == ["go", "more [REDACTED:key]"]
    assert not session._writer.fold.queued


def journals(desk: Desk) -> list[Any]:
    return list((desk.folder / "data" / "threads").glob("*.jsonl"))
