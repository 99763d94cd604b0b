"""Many threads of one loop are synced at once, and each keeps the promises of one synced alone."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Model, Run, Toolbox, calls, mutate
from treadle.errors import DiskError, StaleWriterError, StoreError
from treadle.outputs import Output, ToolFinished, ToolStarted, TurnOutcome, TurnStarted
from treadle.runtime.group_sync import GroupedSync, GroupSyncs
from treadle.runtime.session import Session

COUNT = 24
PASSES = 6
"""So many passes of the loop a sync lasts, in which others write."""


def on_a_loop_with_threads(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A sync of many runs in a thread, which the clock that jumps knows nothing of."""

    @wraps(test)
    def run(*args: Any, **rest: Any) -> None:
        asyncio.run(test(*args, **rest))

    return run


class Watch:
    """Sessions on a disk that syncs many at once, slowly; `missed` is what was not durable."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.missed: list[str] = []
        self.sessions: list[Session] = []
        self.told: list[str] = []
        loop = asyncio.get_running_loop()

        def wait_for_passes() -> None:
            passed = threading.Event()

            async def pass_by() -> None:
                await tick(PASSES)
                passed.set()

            asyncio.run_coroutine_threadsafe(pass_by(), loop)
            assert passed.wait(60)

        desk.disk.while_shared = wait_for_passes

    def check(self, session: Session, what: str) -> None:
        path = self.desk.journal(session.thread_id)
        if self.desk.disk.durable(path) != path.read_bytes():
            self.missed.append(f"{what} of {session.thread_id} before its sync")

    def open_one(self, number: int) -> Session:
        async def work(_: Run) -> str:
            self.check(session, "a run")
            await tick(number % 5)
            return "fine"

        def hear(output: Output) -> None:
            if isinstance(output, (TurnStarted, ToolStarted, ToolFinished)):
                self.check(session, type(output).__name__)
                self.told.append(session.thread_id)

        model = Model(
            calls("work"), "done", "done", on_request=lambda _: self.check(session, "a request")
        )
        session = self.desk.new(model, Toolbox(work=mutate(work)))
        session.driver.add_listener(hear)
        self.sessions.append(session)
        return session

    async def run(self) -> list[Any]:
        opened = [self.open_one(number) for number in range(COUNT)]

        async def use(number: int, session: Session) -> Any:
            await tick(number % 4)
            return await session.turn("go")

        turns = (use(number, session) for number, session in enumerate(opened))
        return await asyncio.gather(*turns, return_exceptions=True)


@on_a_loop_with_threads
async def test_nothing_is_performed_or_told_before_the_sync_of_many_has_ended(desk: Desk) -> None:
    watch = Watch(desk)
    ended = await watch.run()
    assert [one.outcome for one in ended] == [TurnOutcome.DONE] * COUNT
    assert watch.missed == []
    assert len(watch.told) == 3 * COUNT
    shared = desk.disk.shared_counts
    assert sum(shared) + desk.disk.counts["sync"] >= 4 * COUNT
    assert len(shared) < COUNT, "a sync is for more than one"


def _wait_for_nothing(self: GroupedSync) -> Any:
    async def wait() -> None:
        self._is_ended = True

    return wait()


def _end_who_came_later(self: GroupSyncs, waiting: Any, done: Any) -> None:
    for one in (*waiting, *self._waiting):
        one.end(None)
    self._waiting = []
    self._is_busy = False


def _begin_before_the_sync(self: GroupSyncs) -> None:
    waiting, self._waiting = self._waiting, []
    for one in waiting:
        one.end(None)
    self._is_busy = False


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (GroupedSync, "wait", _wait_for_nothing),
        (GroupSyncs, "_end", _end_who_came_later),
        (GroupSyncs, "_begin", _begin_before_the_sync),
    ],
)
@on_a_loop_with_threads
async def test_each_planted_bug_is_seen(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, bug: Callable[..., Any]
) -> None:
    monkeypatch.setattr(owner, name, bug)
    watch = Watch(desk)
    await watch.run()
    assert watch.missed != []


@on_a_loop_with_threads
async def test_a_disk_that_refuses_is_told_to_all_who_waited_for_it(desk: Desk) -> None:
    watch = Watch(desk)
    slowly = desk.disk.while_shared
    assert slowly is not None

    def refuse() -> None:
        slowly()
        if len(desk.disk.shared_counts) == 3:
            raise OSError(errno.EIO, "the disk refused")

    desk.disk.while_shared = refuse
    ended = await watch.run()
    refused = {
        session.thread_id: error
        for session, error in zip(watch.sessions, ended, strict=True)
        if isinstance(error, StoreError)
    }
    assert len(refused) >= 2
    assert all(type(error) in {DiskError, StaleWriterError} for error in refused.values())
    assert watch.missed == []
    for session in watch.sessions:
        if session.thread_id in refused:
            with pytest.raises(StoreError, match=r"session is finished"):
                await session.turn("more")
        await session.close()
    desk.crash()
    for thread_id in refused:
        session = desk.reopen(thread_id, Model(*["done"] * 3), Toolbox(work=mutate()))
        await session.resume()
        desk.check(session)


@on_a_loop_with_threads
async def test_who_cannot_wait_is_synced_alone_and_at_once(desk: Desk) -> None:
    watch = Watch(desk)
    opened = [watch.open_one(number) for number in range(COUNT)]
    turns = [asyncio.ensure_future(session.turn("go")) for session in opened]
    while not desk.disk.counts["write"]:
        await tick(1)
    await tick(2)  # all have written, and the sync of many has begun
    before = desk.disk.counts["sync"]
    opened[0].record_command_start("ls", "/")  # at once, behind the batch that waits
    watch.check(opened[0], "a command")
    assert desk.disk.counts["sync"] > before
    await asyncio.gather(*turns)
    assert watch.missed == []


@on_a_loop_with_threads
async def test_another_loop_meanwhile_syncs_by_itself(desk: Desk) -> None:
    watch = Watch(desk)
    ended = asyncio.ensure_future(watch.run())
    while not desk.disk.counts["write"]:
        await tick(1)
    single = desk.new(Model("done"))
    outcome = await asyncio.to_thread(lambda: asyncio.run(single.turn("hello")).outcome)
    assert outcome is TurnOutcome.DONE
    watch.check(single, "its answer")
    assert [one.outcome for one in await ended] == [TurnOutcome.DONE] * COUNT
    assert watch.missed == []


def test_one_loop_after_the_other_shares_syncs_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for _ in range(2):
        before = len(desk.disk.shared_counts)

        async def run() -> None:
            watch = Watch(desk)
            ended = await watch.run()
            assert [one.outcome for one in ended] == [TurnOutcome.DONE] * COUNT

        asyncio.run(run())
        assert len(desk.disk.shared_counts) > before
