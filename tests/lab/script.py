"""The session that the lab breaks, over and over: `play` from nothing, `recover` from anything.

Both go through the public way only (store, session), on any disk, and note in the world what the
outside was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lab.agent import Folder, Model, Toolbox
from lab.person import Person
from lab.world import Acked, Asked, Chose, Found, Said, World
from treadle.answers import Answer
from treadle.core.approval import OnlyRead, Question
from treadle.core.config import AgentConfig
from treadle.errors import UnknownThreadError
from treadle.outputs import ApprovalRequested, Output, TurnStarted
from treadle.runtime.options import DriverOptions
from treadle.runtime.session import Session
from treadle.store.disk import Disk
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import Recovered

ROOT = "/home/lab/treadle"
CONFIG = AgentConfig(model_name="lab-1", system_prompt="do as you are told", max_retries=3)

FIRST = (
    "add; say one",
    "read+add+idem; !read; say two",
    "cancel+add; say this is never said",
    "more+read; say three",
)
SECOND = ("!add; say much", "fail+idem; say four")
THIRD = "add+close+read; say five"
FOURTH = "read; say six"


def places(root: str = ROOT) -> Places:
    """Where the store of the lab is."""
    home = Path(root)
    return Places(home / "data", home / "state", home / "config")


def journal_path(thread: str, root: str = ROOT) -> str:
    """Where a thread's journal is."""
    return str(places(root).data / "threads" / f"{thread}.jsonl")


def lab_store(disk: Disk, root: str = ROOT, first_id: int = 1) -> LocalStore:
    """A store whose clock and ids are the same in every run."""
    ids, ticks = count(first_id), count()
    return LocalStore(
        places(root),
        disk=disk,
        now=lambda: f"2026-11-21T08:15:{next(ticks) / 1e3:09.6f}Z",
        new_id=lambda: f"T-00000000-0000-7000-8000-{next(ids):012x}",
    )


@contextmanager
def small_snapshots(size: int = 6_000) -> Iterator[None]:
    """Snapshots are refreshed after so many bytes, so that a short session sees several."""
    with patch("treadle.store.thread_writer.SNAPSHOT_TAIL_SIZE_MIN", size):
        yield


class Witness:
    """A writer that notes what it acknowledges."""

    def __init__(self, writer: ThreadWriter, world: World) -> None:
        self._writer = writer
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def acknowledge(self) -> None:
        """Note that everything up to the head is durable."""
        head = self._writer.head
        self._world.note(Acked(self._writer.thread_id, head.seq, head.hash, head.size))

    def sync(self) -> None:
        """Note it when it has returned."""
        self._writer.sync()
        self.acknowledge()


class Desk:
    """A session at work, with everything the lab puts around it.

    Args:
        writer: of its thread.
        world: is told everything.
        has_person: whether somebody is asked about calls of which nobody knows whether they ran.
        sees_all: whether the model is shown all that was said, as it is without a compaction or a
            rewind.
        config: of a new thread.
        approves: whether somebody is there to be asked about calls that need a yes; else such calls
            wait for `answer`.
    """

    def __init__(
        self,
        writer: ThreadWriter,
        world: World,
        *,
        has_person: bool = False,
        sees_all: bool = True,
        config: AgentConfig = CONFIG,
        approves: bool = False,
    ) -> None:
        self.witness = Witness(writer, world)
        self._world = world
        self._thread = writer.thread_id
        self._tools = Toolbox(world)
        self._closing: asyncio.Task[None] | None = None
        self._tools.on_close = self._close_soon
        ask: Callable[[Question], Awaitable[Answer]] | None = (
            self._tools.ask if has_person else None
        )
        self._person = Person(world, self._thread)
        approve = self._person.approve if approves else None
        self.session = self._tools.session = Session(
            self.witness,
            Model(world, self._thread if sees_all else ""),
            self._tools,
            config,
            DriverOptions(
                workspace=Folder(world), ask=ask, approve=approve, on_output=self._on_output
            ),
        )

    def _close_soon(self) -> None:
        self._closing = asyncio.ensure_future(self.session.close())

    def _on_output(self, output: Output) -> None:
        if isinstance(output, TurnStarted):
            self._world.note(Said(self._thread, output.prompt))
        elif isinstance(output, ApprovalRequested):
            for question in output.questions:
                self._world.note(Asked(self._thread, question.call.id))

    async def __aenter__(self) -> Desk:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closed after an error too: the same process may go on with the thread."""
        await self.close()

    async def turn(self, text: str) -> None:
        """Say it; what the person then sees of the thread is noted."""
        await self.session.turn(text)
        self._world.seen(self._thread, self.session.conversation)

    async def resume(self) -> bool:
        """Finish what was left; false if the session was closed meanwhile."""
        await self.session.resume()
        self._world.seen(self._thread, self.session.conversation)
        if self._closing is None:
            return True
        await self.close()
        return False

    def look(self) -> None:
        """Note which questions are open: it is what the next process shows to a person."""
        open_ = tuple(question.call.id for question in self.session.questions)
        self._world.note(Found(self._thread, open_))

    async def answer(
        self, questions: Sequence[Question], kinds: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """A person says what becomes of these calls, and which kinds are allowed for good."""
        words = {question.call.id: self._person.decide(question) for question in questions}
        await self.session.decide(words, kinds=kinds)

    async def choose(self, config: AgentConfig) -> None:
        """A person chooses another mode; it holds when this has returned, and what waits goes on.

        That a stricter one holds is noted afterwards, that it holds no more before.
        """
        only_reads = isinstance(config.approval, OnlyRead)
        if not only_reads:
            self._world.note(Chose(self._thread, only_reads))
        self.session.driver.configure(config)
        if only_reads:
            self._world.note(Chose(self._thread, only_reads))
        await self.resume()

    async def close(self) -> None:
        """Close the session, or wait until it is closed."""
        if self._closing is None:
            self._close_soon()
        assert self._closing is not None
        await self._closing


async def play(store: LocalStore, world: World) -> None:
    """Two threads, three processes' worth of sessions, more than forty records."""
    desk = _create(store, world)
    thread = desk.session.thread_id
    await _work(desk, FIRST)
    await _work(Desk(store.open(thread), world), SECOND)
    other = _create(store, world)
    await _work(other, ["read; say hello"])
    await _work(Desk(store.open(thread), world), [THIRD])
    await _work(Desk(store.open(thread), world), [None, FOURTH])


def _create(store: LocalStore, world: World) -> Desk:
    desk = Desk(
        store.create("lab 1", workspace="/home/lab/project", cwd="/home/lab/project"), world
    )
    desk.witness.acknowledge()
    return desk


async def _work(desk: Desk, prompts: Sequence[str | None]) -> None:
    """Say these things (`None`: finish what was left) and close, after an error too."""
    try:
        for prompt in prompts:
            await (desk.resume() if prompt is None else desk.turn(prompt))
    finally:
        await desk.close()


async def recover(store: LocalStore, world: World, *, has_person: bool = False) -> None:
    """Open every thread there is, finish what was left, and take one more turn.

    Raises:
        StoreError: a thread that was acknowledged cannot be continued.
    """
    acknowledged = {note.thread for note in world.notes if isinstance(note, Acked)}
    for thread in store.ids():
        try:
            writer = store.open(thread)
        except UnknownThreadError:
            if thread in acknowledged:
                raise
            continue
        desk = Desk(writer, world, has_person=has_person)
        try:
            while not await desk.resume():
                desk = Desk(store.open(thread), world, has_person=has_person)
            await desk.turn(f"add; say after {len(world.notes)}")
        finally:
            await desk.close()


def go_on(store: LocalStore, world: World) -> None:
    """Open every thread there is, append one acknowledged record to each; make another thread."""
    for thread in store.ids():
        try:
            writer = store.open(thread)
        except UnknownThreadError:
            continue
        witness = Witness(writer, world)
        witness.stage(Recovered("the lab was here"))
        witness.write()
        witness.sync()
        problem = witness.close()
        if problem is not None:
            raise problem
    witness = Witness(store.create("lab 1"), world)
    witness.acknowledge()
    witness.close()
