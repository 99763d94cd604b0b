"""What a store goes through besides a plain session: one short use of each feature.

Each is a program like the session: `play` from nothing, `recover` from whatever a crash has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from lab.agent import HELPER, KIND, Model, Toolbox
from lab.model_disk import ModelDisk
from lab.person import Person
from lab.script import CONFIG, Desk, journal_path, lab_store
from lab.world import (
    Acked,
    Adopted,
    Asked,
    Chose,
    Found,
    GrantedKind,
    Hidden,
    Moved,
    Scrubbed,
    Trashed,
    World,
)
from treadle.core.approval import OnlyRead, ToolBased
from treadle.core.config import AgentConfig
from treadle.core.events import Rewound
from treadle.core.tools import RiskLevel
from treadle.errors import UnknownThreadError, UsageError
from treadle.outputs import ApprovalRequested, Output
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.secrets.redaction import Redactor
from treadle.store.folders import JOURNAL_SUFFIX, SNAPSHOT_SUFFIX
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.thread_writer import ThreadWriter
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.trash import Trash
from treadle.thread.codec import decode_entry
from treadle.thread.facts import ChildStarted
from treadle.thread.fold import TASK

Work = Callable[..., Coroutine[Any, Any, None]]

ASKING: Final = replace(CONFIG, approval=ToolBased({"grave": RiskLevel.HIGH}))
PLANNING: Final = replace(CONFIG, approval=OnlyRead())
SECRET: Final = "Xy7-plugh-4711"
FOREIGN_ID: Final = 0xF0
FOREIGN_THREAD: Final = f"T-00000000-0000-7000-8000-{FOREIGN_ID:012x}"


class Feature(Struct, frozen=True):
    """How a feature is used, and what the next process does."""

    play: Work
    recover: Work


def _new(store: LocalStore, world: World, config: AgentConfig = CONFIG) -> Desk:
    writer = store.create("lab 1", workspace="/home/lab/project", cwd="/home/lab/project")
    return _at(writer, world, config)


def _at(writer: ThreadWriter, world: World, config: AgentConfig = CONFIG) -> Desk:
    """A desk at a thread of which everything is durable."""
    desk = Desk(writer, world, sees_all=False, config=config)
    desk.witness.acknowledge()
    desk.look()
    return desk


async def _answer_all(desk: Desk) -> None:
    """A person says what becomes of every call that waits for their word."""
    while questions := desk.session.questions:
        await desk.answer(questions)


async def _go_on(store: LocalStore, world: World, thread: str) -> None:
    """Finish what was left in a conversation, with all questions answered; take one more turn."""
    config = store.load(thread).fold.machine.config
    assert isinstance(config, AgentConfig)
    async with Desk(store.open(thread), world, sees_all=False, config=config) as desk:
        desk.look()
        if isinstance(config.approval, OnlyRead):  # it was chosen, and may not be noted yet
            world.note(Chose(thread, only_reads=True))
        await desk.resume()
        await _answer_all(desk)
        await desk.turn(f"add; say after {len(world.notes)}")


def _task(store: LocalStore, world: World, plan: str) -> AgentBuilder:
    helper = AgentBuilder("", llm=Model(world)).tools(Toolbox(world))
    task = AgentBuilder(plan, llm=Model(world), store=store).on_output(partial(_note_asked, world))
    task = task.tools(Toolbox(world)).approval(ASKING.approval)
    return task.sub_agent(HELPER, "helps", helper)


def _note_asked(world: World, output: Output) -> None:
    if isinstance(output, ApprovalRequested):
        for question in output.questions:
            world.note(Asked(output.thread, question.call.id))


async def _finish_task(engine: AgentEngine, world: World) -> None:
    """Work until it is over, with all questions answered."""
    world.note(Found(engine.thread_id, tuple(one.call.id for one in engine.questions)))
    person = Person(world, engine.thread_id)
    try:
        await engine.resume()
        while questions := engine.questions:
            await engine.decide({one.call.id: person.decide(one) for one in questions})
    finally:
        await engine.close()


async def recover(store: LocalStore, world: World) -> None:
    """As the next process would: finish every command that was stopped, then every thread."""
    for note in [note for note in world.notes if isinstance(note, Scrubbed)]:
        if not any(isinstance(one, Scrubbed) and one.is_over for one in world.notes):
            _scrub(store, world, note.threads)
    for thread in store.ids():
        try:
            header = store.load(thread).fold.header
        except UnknownThreadError:
            continue  # it was being made, and nobody was told of it
        if header.parent is not None or store.adopted.is_foreign(thread):
            continue
        if header.machine != TASK:
            # What a failed sync has left may be readable, and gone when it is opened.
            with suppress(UnknownThreadError):
                await _go_on(store, world, thread)
            continue
        try:
            engine = _task(store, world, "").resume(thread)
        except UsageError:
            continue  # it was being made: there is no task yet
        await _finish_task(engine, world)
    for thread in store.ids():  # that of a sub-agent which failed was not opened: now all were
        with suppress(UnknownThreadError):
            store.open(thread).close()
    records = [record for thread in store.ids() for record in store.scan(thread).records]
    entries = [decode_entry(record.event) for record in records]
    for child in [entry.thread for entry in entries if isinstance(entry, ChildStarted)]:
        # Of what has failed nobody goes on with the thread, but who wants to.
        with suppress(UsageError):  # it has ended
            await _finish_task(_task(store, world, "").resume(child), world)


# ---- approvals: asked for in one process, answered in another ------------------------------------


async def _play_approval(store: LocalStore, world: World) -> None:
    async with _new(store, world, ASKING) as desk:
        await desk.turn("read+grave+add; grave; say they are done")
    async with _at(store.open(desk.session.thread_id), world, ASKING) as desk:
        await _answer_all(desk)


async def _play_round(store: LocalStore, world: World) -> None:
    """Calls that can only read, that may write, and that need a word: yes, no, and with changes."""
    async with _new(store, world, ASKING) as desk:
        await desk.turn("peek+post+grave+grave+grave; peek+post; say they are done")
    thread = desk.session.thread_id
    async with _at(store.open(thread), world, ASKING) as desk:
        await desk.answer(desk.session.questions[:1])
    async with _at(store.open(thread), world, ASKING) as desk:
        await _answer_all(desk)


async def _play_ground(store: LocalStore, world: World) -> None:
    """What a yes stands on changes before the call begins, in one process and the next."""
    async with _new(store, world, ASKING) as desk:
        await desk.turn("add+grave+grave; grave; say they are done")
    thread = desk.session.thread_id
    async with _at(store.open(thread), world, ASKING) as desk:
        await desk.answer(desk.session.questions[:1])
    world.note(Moved("elsewhere", world.place.content))
    async with _at(store.open(thread), world, ASKING) as desk:
        await desk.answer(desk.session.questions)  # as it was recorded: both are asked about again
        world.note(Moved(world.place.ground, "gold"))
    person = Desk(store.open(thread), world, sees_all=False, config=ASKING, approves=True)
    async with person as desk:
        desk.look()
        await desk.resume()


async def _recover_elsewhere(store: LocalStore, world: World) -> None:
    """As `recover`, where every process stands on another ground than the one before it."""
    world.note(Moved(f"ground {len(world.notes)}", world.place.content))
    await recover(store, world)


async def _play_mode(store: LocalStore, world: World) -> None:
    """Plan mode is chosen while questions are open, and left again."""
    async with _new(store, world, ASKING) as desk:
        await desk.turn("peek+post+grave; peek+post; say one")
        await desk.choose(PLANNING)
        await desk.turn("read+add+peek; say two")
        await desk.choose(ASKING)
        await desk.turn("grave+post; say three")
    async with _at(store.open(desk.session.thread_id), world, ASKING) as desk:
        await _answer_all(desk)
        await desk.turn("grave+peek; say four")
        await desk.choose(PLANNING)


async def _play_grant(store: LocalStore, world: World) -> None:
    """A kind of calls is allowed for good: on its ground, on another one, and in a fork."""
    async with _new(store, world, ASKING) as desk:
        await desk.turn("grave+add; say one")
        [question] = desk.session.questions
        world.note(GrantedKind(desk.session.thread_id, question.scope.ground))
        await desk.answer([question], kinds={question.call.id: (KIND,)})
        await desk.turn("grave+peek; say two")
    thread, home = desk.session.thread_id, world.place
    world.note(Moved("elsewhere", home.content))
    async with _at(store.open(thread), world, ASKING) as desk:
        await desk.turn("grave; say three")
        await _answer_all(desk)
        await desk.turn("grave+grave; say four")
        await desk.answer(desk.session.questions[:1])
        # A yes is given to one of two calls; where the thread is forked, it is none.
    async with _at(store.fork(thread, creator="lab 1"), world, ASKING) as fork:
        await _answer_all(fork)
        world.note(home)
        await fork.turn("grave; say five")
        await _answer_all(fork)


# ---- what is said while the agent works, and heard by the same turn ------------------------------


async def _play_steering(store: LocalStore, world: World) -> None:
    async with _new(store, world) as desk:
        await desk.turn("steer+add; read; say done")


# ---- a compaction, a rewind, a fork --------------------------------------------------------------


async def _play_compaction(store: LocalStore, world: World) -> None:
    async with _new(store, world) as desk:
        await desk.turn("add+read; say one")
        await desk.turn("idem; say two")
        await desk.session.compact()
        await desk.turn("add; say three")


async def _play_rewind(store: LocalStore, world: World) -> None:
    async with _new(store, world) as desk:
        await desk.turn("add; say one")
        await desk.turn("read; say this is taken back")
    thread = desk.session.thread_id
    back = next(rest for rest in store.list_rests(thread) if rest.turn == 1 and rest.version > 4)
    writer = store.open(thread)
    try:
        writer.stage(Rewound(back.version, back.view, writer.now()))
        writer.commit()
    finally:
        writer.close()
    world.note(Hidden(thread, "read; say this is taken back"))
    async with _at(store.open(thread), world) as desk:
        await desk.turn("add; say two")


async def _play_fork(store: LocalStore, world: World) -> None:
    async with _new(store, world) as desk:
        await desk.turn("add; say one")
        await desk.turn("idem; say two")
    async with _at(store.fork(desk.session.thread_id, creator="lab 1"), world) as fork:
        world.seen(fork.session.thread_id, fork.session.conversation)
        await fork.turn("add+read; say three")
    async with _at(store.fork(fork.session.thread_id, 1, creator="lab 1"), world) as again:
        world.seen(again.session.thread_id, again.session.conversation)


# ---- outputs that no message holds ---------------------------------------------------------------


async def _play_outputs(store: LocalStore, world: World) -> None:
    async with _new(store, world) as desk:
        await desk.turn("big+add; big; say done")


# ---- threads from elsewhere, the trash, a text that is taken out ---------------------------------


@cache
def _foreign_journal() -> bytes:
    """The journal of a conversation on another machine, and what it had allowed."""
    disk, world = ModelDisk(), World()

    async def work() -> None:
        async with _new(lab_store(disk, first_id=FOREIGN_ID), world, ASKING) as desk:
            await desk.turn("grave; say done")
            await _answer_all(desk)

    asyncio.run(work())
    return disk.files()[journal_path(FOREIGN_THREAD)]


async def _play_import(store: LocalStore, world: World) -> None:
    world.note(Adopted(FOREIGN_THREAD))
    thread = store.adopt(FOREIGN).header.thread
    last = store.scan(thread).records[-1]
    world.note(Acked(thread, last.seq, last.hash, len(FOREIGN)))


async def _recover_import(store: LocalStore, world: World) -> None:
    with suppress(UsageError):  # it is there already
        store.adopt(FOREIGN)
    for thread in store.ids():
        store.open(thread).close()


async def _play_trash(store: LocalStore, world: World) -> None:
    threads = []
    for text in ("add; say one", "add; say two"):
        async with _new(store, world) as desk:
            await desk.turn(text)
        threads.append(desk.session.thread_id)
    trash = Trash(store)
    for thread, is_back in ((threads[0], False), (threads[1], False), (threads[0], True)):
        (trash.restore if is_back else trash.put)([thread])
        world.note(Trashed(thread, is_there_again=is_back))


async def _recover_trash(store: LocalStore, world: World) -> None:
    trash = Trash(store)
    with trash.hold_lock():
        trash.finish_moves()
    moved = [note for note in world.notes if isinstance(note, Trashed)]
    for note in moved:
        assert not note.thread or (note.thread in store.ids()) != (note.thread in trash.ids()), (
            "it is in two places"
        )
    is_first = all(note.thread for note in moved)
    for note in {note.thread: note for note in moved}.values() if is_first else ():
        # The third command takes the first thread back; it may have got so far, or not.
        assert (len(moved) == 2 and note is moved[0]) or (
            (note.thread in store.ids()) == note.is_there_again
        ), "what was put away is there again, or what was taken back is not"
    world.note(Trashed(""))  # from here on the recovery moves them
    trash.restore(trash.ids())
    await recover(store, world)


async def _play_scrub(store: LocalStore, world: World) -> None:
    async with _new(store, world) as desk:
        await desk.turn(f"add; say {SECRET} one")
        await desk.turn("big; say two")
    thread = desk.session.thread_id
    async with _at(store.fork(thread, creator="lab 1"), world) as fork:
        await fork.turn(f"add; say {SECRET} three")
    threads = (thread, fork.session.thread_id)
    world.note(Scrubbed(threads, SECRET))
    _scrub(store, world, threads)


def _scrub(store: LocalStore, world: World, threads: tuple[str, ...]) -> None:
    scrub(store, threads, Redactor({"text": SECRET}, has_shapes=False).redact)
    folders, left = store.folders, []
    for path in (
        folders.path(one, end) for one in threads for end in (JOURNAL_SUFFIX, SNAPSHOT_SUFFIX)
    ):
        with convert_os_errors("read", path), suppress(FileNotFoundError):
            left += [path] * (SECRET.encode() in folders.disk.read(path))
    world.note(Scrubbed(threads, SECRET, is_over=True, left=tuple(left)))


# ---- a task with a sub-agent ---------------------------------------------------------------------


async def _play_task(store: LocalStore, world: World) -> None:
    plan = f"add+read; {HELPER}; idem; say it is done as it was asked for"
    await _finish_task(await _begin_task(store, world, plan), world)


async def _play_asking_task(store: LocalStore, world: World) -> None:
    """The calls of a task wait for a person, and what their word stands on changes meanwhile."""
    plan = "peek+post+grave+grave+grave; grave+peek; say it is done as it was asked for"
    engine = await _begin_task(store, world, plan)
    person = Person(world, engine.thread_id)
    try:
        await engine.resume()
        first, second, _ = engine.questions
        await engine.decide({first.call.id: person.decide(first)})
        await engine.decide({second.call.id: person.decide(second)})
    finally:
        await engine.close()
    world.note(Moved("elsewhere", world.place.content))
    await _finish_task(_task(store, world, "").resume(engine.thread_id), world)


async def _begin_task(store: LocalStore, world: World, plan: str) -> AgentEngine:
    engine = _task(store, world, plan).build()
    try:
        last = store.scan(engine.thread_id).records[-1]
    except BaseException:  # the same process may go on with the thread
        await engine.close()
        raise
    world.note(Acked(engine.thread_id, last.seq, last.hash, 0))
    return engine


FOREIGN: Final = _foreign_journal()

FEATURES: Final[dict[str, Feature]] = {
    "approval": Feature(_play_approval, recover),
    "round": Feature(_play_round, recover),
    "ground": Feature(_play_ground, _recover_elsewhere),
    "mode": Feature(_play_mode, recover),
    "grant": Feature(_play_grant, recover),
    "steering": Feature(_play_steering, recover),
    "compaction": Feature(_play_compaction, recover),
    "rewind": Feature(_play_rewind, recover),
    "fork": Feature(_play_fork, recover),
    "outputs": Feature(_play_outputs, recover),
    "import": Feature(_play_import, _recover_import),
    "trash": Feature(_play_trash, _recover_trash),
    "scrub": Feature(_play_scrub, recover),
    "task": Feature(_play_task, recover),
    "asking task": Feature(_play_asking_task, _recover_elsewhere),
}
