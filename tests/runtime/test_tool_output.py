"""Output is kept to a size, and secrets are out of it before anybody sees it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import CONFIG, Desk, Failure, Model, Run, Success, Toolbox, calls, mutate, read
from treadle import outputs
from treadle.core.approval import Scope
from treadle.core.messages import BlobRef
from treadle.core.tools import Access, Outcome, ToolError, ToolErrorKind
from treadle.runtime.calls import OUTPUT_LENGTH_MAX, STORED_LENGTH_MAX

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
    whole = "é" * half + "-" * extra + "ü" * half
    (text,) = await results_of(desk, Success("", whole))
    (completed,) = completions(desk)
    thread_id = desk.store.ids()[0]
    where = f"treadle show {thread_id} --output {completed['call_id']}"
    said = f"[... {extra} characters left out; the whole output is kept: {where} ...]"
    assert text == "é" * half + f"\n{said}\n" + "ü" * half
    assert kept_of(desk, completed) == whole


async def test_message_and_output_of_a_failure_are_cut_too_and_kept_together(desk: Desk) -> None:
    long = "y" * (OUTPUT_LENGTH_MAX + 5)
    error = ToolError(ToolErrorKind.FAILED, long, f"{long}!")
    (text,) = await results_of(desk, Failure("", error))
    assert text.count("[... 5 characters left out; the whole output is kept: ") == 1
    assert text.count("[... 6 characters left out; the whole output is kept: ") == 1
    assert len(text) < 2 * OUTPUT_LENGTH_MAX + 400
    (completed,) = completions(desk)
    assert kept_of(desk, completed) == error.text


@pytest.mark.parametrize("length", [1, OUTPUT_LENGTH_MAX])
async def test_what_a_message_holds_whole_is_not_kept_again(desk: Desk, length: int) -> None:
    await results_of(desk, Failure("", ToolError(ToolErrorKind.FAILED, "x" * length, "y" * length)))
    assert "blob" not in completions(desk)[0]["outcome"]
    assert not (desk.folder / "data" / "blobs").exists()


async def test_half_a_surrogate_pair_is_kept_as_a_mark(desk: Desk) -> None:
    await results_of(desk, Success("", "a" * OUTPUT_LENGTH_MAX + "\ud800"))
    (completed,) = completions(desk)
    assert kept_of(desk, completed) == "a" * OUTPUT_LENGTH_MAX + "\ufffd"


async def test_more_than_is_kept_of_any_output_is_cut_in_the_middle(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.runtime.calls.STORED_LENGTH_MAX", 3 * OUTPUT_LENGTH_MAX)
    await results_of(desk, Success("", "a" * 4 * OUTPUT_LENGTH_MAX))
    (completed,) = completions(desk)
    half = "a" * (3 * OUTPUT_LENGTH_MAX // 2)
    gap = f"[... {OUTPUT_LENGTH_MAX} characters left out ...]"
    assert kept_of(desk, completed) == f"{half}\n{gap}\n{half}"


def test_what_is_kept_of_one_output_is_bounded_in_every_script() -> None:
    assert len("\U0001f600".encode()) * STORED_LENGTH_MAX <= 64 * 1024 * 1024


async def test_secrets_are_out_of_what_is_kept_whole(desk: Desk) -> None:
    filler = "b" * OUTPUT_LENGTH_MAX
    await results_of(desk, Success("", f"{filler}{SECRET}{filler}"), redactor=Censor())
    (completed,) = completions(desk)
    assert kept_of(desk, completed) == f"{filler}[REDACTED:key]{filler}"
    assert all(
        SECRET.encode() not in path.read_bytes()
        for path in (desk.folder / "data").rglob("*")
        if path.is_file()
    )


async def test_a_turn_goes_on_when_a_long_output_cannot_be_kept_and_people_are_told(
    desk: Desk,
) -> None:
    blobs = desk.folder / "data" / "blobs"
    blobs.parent.mkdir(parents=True)
    blobs.write_text("a file where a folder should be")
    (text,) = await results_of(desk, Success("", "x" * (OUTPUT_LENGTH_MAX + 1)))
    assert "[... 1 characters left out ...]" in text
    assert "blob" not in completions(desk)[0]["outcome"]
    notices = [one.text for one in desk.heard.outputs if isinstance(one, outputs.Notice)]
    assert len(notices) == 1
    assert notices[0].startswith("a long output was not kept whole: cannot ")


async def test_a_reopened_thread_tells_the_model_the_same_of_a_long_output(desk: Desk) -> None:
    async def end(_: Run) -> Outcome:
        return Success("", "x" * (OUTPUT_LENGTH_MAX + 1))

    session = desk.new(Model(calls("work"), "done"), Toolbox(work=mutate(end)))
    await session.turn("go")
    before = [m.content for m in session.conversation if m.role == "tool"]
    await session.close()
    model = Model("again")
    again = desk.reopen(session.thread_id, model, Toolbox(work=mutate(end)))
    await again.turn("more")
    assert [m.content for m in model.requests[0].messages if m.role == "tool"] == before
    assert "whole output is kept" in before[0]


LINES = "".join(f"line {number} of many, many lines\n" for number in range(1, 4001))


async def test_the_pointer_that_the_model_gets_to_a_long_output_works_for_it(desk: Desk) -> None:
    """In the thread, after a resume, in a fork of it, and in one of that."""

    async def end(_: Run) -> Outcome:
        return Success("", f"{LINES}{SECRET}\n")

    def toolbox() -> Toolbox:
        return Toolbox(work=mutate(end), read_file=read("no file"), search_files=read("no lines"))

    def ask(**arguments: Any) -> dict[str, Any]:
        return {"calls": [{"tool": "read_file", "arguments": arguments}]}

    session = desk.new(Model(calls("work"), "done"), toolbox(), redactor=Censor())
    await session.turn("go")
    (text,) = (one.content for one in session.conversation if one.role == "tool")
    said = re.search(
        r"kept: read_file\((\".*?\"), start_line=(\d+)\) goes on here, "
        r"search_files\(PATTERN, (\".*?\")\) searches it \.\.\.\]",
        text,
    )
    assert said is not None
    path, line = json.loads(said[1]), int(said[2])
    assert json.loads(said[3]) == path
    shown = text.partition("\n[...")[0]
    assert f"{LINES[: len(shown)].splitlines()[-1]}" == shown.splitlines()[-1]
    assert line == len(shown.splitlines()), "the line that the cut runs through"
    await session.close()
    store, thread = desk.store, session.thread_id
    fork = store.fork(thread, creator="test")
    fork.close()
    second = store.fork(fork.thread_id, creator="test")
    second.close()
    for where in (thread, fork.thread_id, second.thread_id):
        model = Model(
            {"when": {"last": "^page$"}, **ask(path=path, start_line=3990)},
            {"when": {"last": "^all$"}, **ask(path=path)},
            {"when": {"last": "^none$"}, **ask(path="output:nothing")},
            {"when": {"last": "^beyond$"}, **ask(path=path, start_line=9999)},
            {"when": {"last": "^back$"}, **ask(path=path, start_line=3, end_line=2)},
            {"when": {"last": "^file$"}, **ask(path="./output:x")},
            "done",
        )
        again = desk.reopen(where, model, toolbox(), redactor=Censor())
        read_ = {}
        for word in ("page", "all", "none", "beyond", "back", "file"):
            await again.turn(word)
            read_[word] = [one.content for one in again.conversation if one.role == "tool"][-1]
        assert read_["page"] == LINES[LINES.index("line 3990 ") :] + "[REDACTED:key]\n"
        assert read_["all"].startswith("line 1 of many")
        assert len(read_["all"]) <= OUTPUT_LENGTH_MAX
        assert "read on with start_line=" in read_["all"]
        nothing = "output:nothing: no output of this thread is kept under this name; kept are: "
        assert f"{nothing}{json.dumps(path)}" in read_["none"]
        assert "beyond the end: the file has 4001 lines" in read_["beyond"]
        assert "end_line 2 is before start_line 3" in read_["back"]
        assert read_["file"] == "no file"
        await again.close()


def test_a_long_output_can_be_searched(desk: Desk) -> None:
    """On the clock of the machine: a process of its own does it."""

    async def end(_: Run) -> Outcome:
        return Success("", f"{LINES}{SECRET}\n")

    def ask(path: str, pattern: str) -> dict[str, Any]:
        arguments = {"path": path, "pattern": pattern}
        return {"calls": [{"tool": "search_files", "arguments": arguments}]}

    path = "output:long"
    model = Model(
        {"calls": [{"id": "long", "tool": "work", "arguments": {}}]},
        ask(path, r"line 39\d\d of|REDACTED"),
        ask(path, r"line 7 of\|nowhere"),
        ask(path, "zebra"),
        ask(path, "(("),
        ask("output:nothing", "line"),
        "done",
    )
    toolbox = Toolbox(work=mutate(end), read_file=read("no"), search_files=read("no"))

    async def work() -> list[str]:
        session = desk.new(model, toolbox, redactor=Censor())
        await session.turn("go")
        return [one.content for one in session.conversation if one.role == "tool"]

    _, found, as_grep, nothing, bad, gone = asyncio.run(work())
    lines = found.splitlines()
    assert lines[0] == f"{path}:3900: line 3900 of many, many lines"
    assert lines[-1] == f"{path}:4001: [REDACTED:key]"
    assert len(lines) == 101
    assert as_grep.startswith(f"{path}:7: line 7 of many")
    assert "read as grep reads it: line 7 of|nowhere" in as_grep
    assert nothing == f"[no matches in {path}]"
    assert bad.startswith("ERROR: Invalid arguments: pattern: ")
    assert "no output of this thread is kept" in gone


async def test_an_output_that_is_gone_or_was_short_is_told_clearly(desk: Desk) -> None:
    async def end(run: Run) -> Outcome:
        return Success("", LINES if run.call.id == "long" else "short")

    model = Model(
        {"calls": [{"id": "long", "tool": "work", "arguments": {"x": 1}}]},
        {"calls": [{"id": "short", "tool": "work", "arguments": {}}]},
        {
            "calls": [
                {"tool": "read_file", "arguments": {"path": "output:long"}},
                {"tool": "search_files", "arguments": {"path": "output:long", "pattern": "x"}},
                {"tool": "read_file", "arguments": {"path": "output:short"}},
            ]
        },
        "done",
    )

    def remove(output: outputs.Output) -> None:
        if isinstance(output, outputs.ToolFinished):
            for path in (desk.folder / "data/blobs").glob("?" * 64):
                path.unlink()

    desk.heard.on_output = remove
    toolbox = Toolbox(work=mutate(end), read_file=read("no"), search_files=read("no"))
    session = desk.new(model, toolbox)
    await session.turn("go")
    told = [one.content for one in session.conversation if one.role == "tool"][-3:]
    gone = (
        "ERROR: IO error: output:long is not kept any more, or is damaged: what its own result "
        "shows is all there is; if more is needed, run it again"
    )
    assert told[:2] == [gone, gone]
    assert told[2].startswith("ERROR: Tool not found: output:short: of this call nothing more is")


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
    assert not session.driver.journal.writer.fold.queued


def completions(desk: Desk) -> list[dict[str, Any]]:
    """The ends of calls that are durable."""
    (thread_id,) = desk.store.ids()
    return [event for event in desk.events(thread_id) if event["type"] == "tool_completed"]


def kept_of(desk: Desk, completed: dict[str, Any]) -> str:
    """What the blob holds that a record names; its size is the one recorded."""
    ref = BlobRef(**completed["outcome"]["blob"])
    data = desk.store.read_blob(ref)
    assert len(data) == ref.size
    return data.decode()


def journals(desk: Desk) -> list[Any]:
    return list((desk.folder / "data" / "threads").glob("*.jsonl"))


class Outward(Toolbox):
    """Tools that only read, and reach the network."""

    def scope_of(self, call: Any) -> Scope:
        return Scope(access=Access.NETWORK)


@pytest.mark.parametrize("secret", [SECRET, "%73k-0123456789%61bcdef", "[REDACTED:key]"])
@pytest.mark.parametrize("box", [Outward, Toolbox])
async def test_no_secret_leaves_in_the_arguments_of_a_call_that_reaches_the_network(
    desk: Desk, box: type[Toolbox], secret: str
) -> None:
    """Also one that is written so that only who is asked reads it as the secret."""
    url = f"https://example.com/?key={secret}"
    model = Model({"calls": [{"tool": "fetch", "arguments": {"url": url}}]}, "done")
    tools = box(fetch=read("a page"))
    session = desk.new(model, tools, redactor=Censor())
    await session.turn("go")
    (told,) = (m.content for m in model.requests[1].messages if m.role == "tool")
    assert tools.ran == ([] if box is Outward else ["fetch"])
    assert ("they hold a secret" in told) is (box is Outward)
