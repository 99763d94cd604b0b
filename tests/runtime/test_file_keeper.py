"""Files are kept around every round that may change them; where the agent works is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from runtime.desk import (
    CONFIG,
    Desk,
    Folder,
    Model,
    Run,
    Toolbox,
    calls,
    for_ever,
    ignore,
    mutate,
    read,
)
from treadle import outputs
from treadle.core.approval import AlwaysAsk, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import Access
from treadle.outputs import TurnOutcome
from treadle.thread.facts import ContextObserved, FilesSaved

Moment = Literal["before", "after"]


class Files:
    """Keeps what a number says; a state is news when the number has changed."""

    def __init__(self, on_save: Callable[[Moment], None] = ignore) -> None:
        self.content = 0
        self.asked: list[tuple[Moment, str]] = []
        self.problem = ""
        self.on_save = on_save

    async def save(self, moment: Moment, previous: FilesSaved | None) -> FilesSaved | None:
        self.asked.append((moment, previous.tree if previous else ""))
        self.on_save(moment)
        tree = str(self.content)
        if previous is not None and previous.tree == tree:
            return None
        return FilesSaved(f"commit-{tree}", tree, moment)

    async def edit(self, _: Run) -> str:
        self.content += 1
        return "edited"


def saved(desk: Desk, thread_id: str) -> list[tuple[str, str]]:
    found = [event for event in desk.events(thread_id) if event["type"] == "files_saved"]
    return [(event["moment"], event["tree"]) for event in found]


async def test_the_files_are_kept_before_and_after_a_round_that_may_change_them(
    desk: Desk,
) -> None:
    files = Files()
    tools = Toolbox(edit=mutate(files.edit), look=read())
    model = Model(calls("edit"), calls("look"), calls("edit"), "done")
    session = desk.new(model, tools, files=files, workspace=Folder())
    await session.turn("go")
    states = [("before", "0"), ("after", "1"), ("after", "2")]
    assert saved(desk, session.thread_id) == states
    assert [moment for moment, _ in files.asked] == ["before", "after", "before", "after"]
    desk.check(session)


async def test_the_state_before_is_on_disk_before_the_call_and_that_after_before_the_request(
    desk: Desk,
) -> None:
    files = Files()

    async def edit(run: Run) -> str:
        assert saved(desk, session.thread_id) == [("before", "0")]
        return await files.edit(run)

    def on_request(_: object) -> None:
        asked.append(saved(desk, session.thread_id))

    asked: list[Any] = []
    model = Model(calls("edit"), "done", on_request=on_request)
    session = desk.new(model, Toolbox(edit=mutate(edit)), files=files)
    await session.turn("go")
    assert asked == [[], [("before", "0"), ("after", "1")]]
    kinds = desk.kinds(session.thread_id)
    assert kinds.index("files_saved") < kinds.index("tool_started")


async def test_what_the_hook_changes_belongs_to_the_state_after(desk: Desk) -> None:
    files = Files()

    async def hook() -> None:
        files.content += 10

    session = desk.new(
        Model(calls("edit"), "done"),
        Toolbox(edit=mutate(files.edit)),
        files=files,
        workspace=Folder(hook),
    )
    await session.turn("go")
    assert saved(desk, session.thread_id) == [("before", "0"), ("after", "11")]


async def test_a_round_that_only_reads_keeps_nothing(desk: Desk) -> None:
    files = Files()
    session = desk.new(Model(calls("look"), "done"), Toolbox(look=read()), files=files)
    await session.turn("go")
    assert files.asked == []


@pytest.mark.parametrize("access", [Access.READ, Access.NETWORK, Access.WRITE])
async def test_a_round_whose_calls_say_that_they_read_keeps_nothing_and_runs_no_hook(
    desk: Desk, access: Access
) -> None:
    """Whatever their tool may do; the hook of the machine has nothing to find then."""

    class Saying(Toolbox):
        def scope_of(self, call: ToolCall) -> Scope | None:
            return Scope(access=access)

    files, folder = Files(), Folder()
    model, tools = Model(calls("run"), "done"), Saying(run=mutate())
    session = desk.new(model, tools, files=files, workspace=folder)
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    reads = access is Access.READ
    assert (files.asked == [], folder.rounds == []) == (reads, reads)
    (started,) = (one for one in desk.events(session.thread_id) if one["type"] == "tool_started")
    assert started["access"] == access.value
    desk.check(session)


async def test_what_a_cancelled_call_has_changed_is_kept_too(desk: Desk) -> None:
    files = Files()

    begun = asyncio.Event()

    async def edit(run: Run) -> str:
        files.content += 1
        begun.set()
        return await for_ever(run)

    session = desk.new(Model(calls("edit"), "done"), Toolbox(edit=mutate(edit)), files=files)
    turn = asyncio.ensure_future(session.turn("go"))
    await begun.wait()
    session.cancel()
    assert (await turn).outcome is TurnOutcome.CANCELLED
    assert saved(desk, session.thread_id) == [("before", "0"), ("after", "1")]


async def test_a_round_taken_up_by_another_process_is_kept_when_it_ends(desk: Desk) -> None:
    files = Files()
    session = desk.new(Model(calls("edit"), "done"), Toolbox(edit=mutate(for_ever)), files=files)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    files.content = 5
    again = desk.reopen(session.thread_id, Model("done"), Toolbox(edit=mutate()), files=files)
    assert (await again.resume()).answer == "done"
    assert saved(desk, session.thread_id) == [("before", "0"), ("after", "5")]


async def test_when_calls_wait_for_a_yes_nothing_is_kept_before_they_may_run(desk: Desk) -> None:
    files = Files()
    config = replace(CONFIG, approval=AlwaysAsk())
    session = desk.new(
        Model(calls("edit"), "done"), Toolbox(edit=mutate(files.edit)), config, files=files
    )
    await session.turn("go")
    assert files.asked == []


def failing(moment: Moment) -> Files:
    """Files that cannot be kept once, before or after the first round."""
    left = ["before", "after"]

    def fail(_: Moment) -> None:
        if left and left.pop(0) == moment:
            raise RuntimeError("no room")

    return Files(fail)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_files_that_cannot_be_kept_never_stop_the_work(desk: Desk, moment: Moment) -> None:
    files = failing(moment)
    session = desk.new(Model(calls("edit"), "done"), Toolbox(edit=mutate(files.edit)), files=files)
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    assert len(saved(desk, session.thread_id)) == 1
    desk.check(session)


@pytest.mark.parametrize(
    ("moment", "states"),
    [
        ("before", [("before", "1"), ("after", "2")]),
        ("after", [("before", "0"), ("before", "1"), ("after", "2")]),
    ],
)
async def test_what_a_round_changed_without_a_state_before_or_after_it_is_nobodys(
    desk: Desk, moment: Moment, states: list[tuple[str, str]]
) -> None:
    files = failing(moment)
    model = Model(calls("edit"), calls("edit"), "done")
    tools = Toolbox(edit=mutate(files.edit))
    session = desk.new(model, tools, files=files, workspace=Folder())
    await session.turn("go")
    assert saved(desk, session.thread_id) == states
    events = desk.events(session.thread_id)
    missed = [event for event in events if event["type"] == "files_not_saved"]
    assert [(event["moment"], event["why"]) for event in missed] == [
        (moment, "an error of the program")
    ]
    desk.check(session)


async def test_each_round_without_states_is_recorded_once_where_there_is_a_repository(
    desk: Desk,
) -> None:
    class Closed(Files):
        async def save(self, moment: Moment, previous: FilesSaved | None) -> FilesSaved | None:
            self.problem = "no room"
            return None

    for folder, count in ((Folder(), 2), (None, 0)):
        files = Closed()
        model = Model(calls("edit"), calls("edit"), "done")
        tools = Toolbox(edit=mutate(files.edit))
        session = desk.new(model, tools, files=files, workspace=folder)
        await session.turn("go")
        assert desk.kinds(session.thread_id).count("files_not_saved") == count


async def test_why_files_are_not_kept_is_told_once_where_there_is_a_repository(desk: Desk) -> None:
    for folder, told in ((Folder(), 1), (None, 0)):
        files = Files()
        files.problem = "no room"
        model = Model(calls("edit"), calls("edit"), "done")
        tools = Toolbox(edit=mutate(files.edit))
        desk.heard.outputs.clear()
        session = desk.new(model, tools, files=files, workspace=folder)
        await session.turn("go")
        notices = [one.text for one in desk.heard.of(outputs.Notice)]
        assert len([text for text in notices if "no room" in text]) == told


async def test_where_the_agent_works_is_recorded_when_it_is_news_without_secrets(
    desk: Desk,
) -> None:
    class Hush:
        def redact(self, text: str) -> str:
            return text.replace("hunter2", "[REDACTED:password]")

    here = ContextObserved("loom", "/w", 8, {}, {"PATH": "/bin:/hunter2"})
    session = desk.new(Model("one", "two"), context=here, redactor=Hush())
    await session.turn("a")
    await session.turn("b")
    await session.close()
    again = desk.reopen(session.thread_id, Model("three"), context=here, redactor=Hush())
    await again.turn("c")
    await again.close()
    moved = desk.reopen(
        session.thread_id, Model("four"), context=replace(here, directory="/v"), redactor=Hush()
    )
    await moved.turn("d")
    seen = [e for e in desk.events(session.thread_id) if e["type"] == "context_observed"]
    assert [event["directory"] for event in seen] == ["/w", "/v"]
    assert "hunter2" not in desk.journal(session.thread_id).read_text()
    document = moved.driver.journal.writer.fold.document()
    assert (document.project_name, document.directory, document.worker_count) == ("loom", "/v", 8)
