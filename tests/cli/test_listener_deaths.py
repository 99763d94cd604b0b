"""A listener that dies anywhere: the next one ends what was begun, once, and without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from cli.teams import Machine
from treadle.app.sessions.listener_ledger import TRIES_MAX, ListenerLedger
from treadle.app.sessions.machine_listener import MachineListener
from treadle.app.sessions.unattended_work import UnattendedWork, WorkWatch
from treadle.errors import StorageBusyError
from treadle.store.id_beginnings import make_thread_id
from treadle.store.local_store import LocalStore
from treadle.store.thread_requests import PersonRequest
from treadle.sync.credentials import Account

SCRIPT: Final = """
[[replies]]
when = { step = 0 }
calls = [{ tool = "bash", arguments = { access = "write", command = "echo ran >> effects" } }]

[[replies]]
text = "It is done."
"""
NOWHERE: Final = Account("http://127.0.0.1:9", "trd_none", logged_in_at="2999-01-01T00:00:00Z")
LATER: Final = "2999-01-01T00:00:00.000000Z"
REQUEST: Final = "a-request-of-the-phone"


@pytest.fixture
def store(laptop: Machine, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    """The threads of a user whose commands run without being asked about."""
    script = laptop.folder / "talk.toml"
    script.write_text(SCRIPT)
    told = {"TREADLE_MODEL": f"scripted:{script}", "TREADLE_APPROVAL_MODE": "auto"}
    for name, value in {**laptop.environment, "TREADLE_HOME": str(laptop.home), **told}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("treadle.app.sessions.machine_listener.LOOK_S", 0.02)
    return LocalStore(laptop.home)


def make_request(thread: str, request_id: str = REQUEST) -> PersonRequest:
    return PersonRequest(request_id, thread, "start", "phone", LATER)


def note(store: LocalStore, thread: str, times: int = 1) -> None:
    """As a listener has noted it that was killed."""
    with ListenerLedger(store, "a test") as ledger:
        for _ in range(times):
            ledger.note(make_request(thread), store.now())


def read_ledger(store: LocalStore) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        (store.places.state / "listener" / "taken.json").read_text()
    )
    return found


def is_over(store: LocalStore) -> bool:
    return all(one["is_over"] for one in read_ledger(store))


async def begin(store: LocalStore, folder: Path) -> str:
    """A conversation from its beginning to its end; its id."""
    work, thread, ended = UnattendedWork(store), make_thread_id(), asyncio.Event()
    watch = WorkWatch(lambda: None, pytest.fail, lambda _: ended.set())
    work.start(thread, str(folder), "run it", watch)
    await asyncio.wait_for(ended.wait(), 60)
    return thread


async def listen(store: LocalStore, folder: Path, until: Callable[[], bool]) -> list[str]:
    """What a listener says, to whom no server answers, until something is so."""
    said: list[str] = []
    listener = MachineListener(store, NOWHERE, (str(folder),), said.append)
    running = asyncio.ensure_future(listener.run())

    async def look() -> None:
        while not until():
            assert not running.done(), said
            await asyncio.sleep(0.01)

    try:
        await asyncio.wait_for(look(), 60)
    finally:
        running.cancel()
        await asyncio.wait({running})
    return said


def read_lines(store: LocalStore, thread: str) -> list[bytes]:
    return Path(store.folders.find(thread)[0]).read_bytes().splitlines(keepends=True)


def restore(store: LocalStore, thread: str, lines: list[bytes]) -> None:
    """The journal as a death has left it, and nothing of what has become of it since."""
    path = Path(store.folders.find(thread)[0])
    path.with_suffix(".json").unlink(missing_ok=True)
    path.write_bytes(b"".join(lines))
    (store.places.state / "listener" / "taken.json").unlink(missing_ok=True)


def write_effects(machine: Machine, *, has_run: bool) -> None:
    (machine.folder / "effects").write_text("ran\n" if has_run else "")


def read_effects(machine: Machine) -> str:
    return (machine.folder / "effects").read_text()


async def test_from_wherever_it_was_cut_off_a_conversation_ends_once(
    store: LocalStore, laptop: Machine
) -> None:
    thread = await begin(store, laptop.folder)
    whole = read_lines(store, thread)
    records = [json.loads(line) for line in whole]
    starts = [one["seq"] for one in records if "batch" not in one or one["batch"] == one["seq"]]
    ends = [*(start - 1 for start in starts[1:]), len(whole)]
    assert len(ends) > 4, "there is something to be cut"
    wrong = {}
    for end in ends:
        before = [one["event"]["type"] for one in records[:end]]
        write_effects(laptop, has_run="tool_completed" in before)
        restore(store, thread, whole[:end])
        note(store, thread)
        await listen(store, laptop.folder, lambda: is_over(store))
        after = [json.loads(line)["event"] for line in read_lines(store, thread)]
        types, ran = [one["type"] for one in after], read_effects(laptop)
        # A command that had begun may have run or not: it is doubted, and not run again.
        expected = "" if "tool_started" in before and "tool_completed" not in before else "ran\n"
        counts = types.count("user_input"), types.count("tool_started")
        if (ran, counts, "It is done." in str(after[-3:])) != (expected, (1, 1), True):
            wrong[end] = ran, types
    assert wrong == {}


async def test_what_kills_its_process_is_not_gone_on_with_for_ever(
    store: LocalStore, laptop: Machine
) -> None:
    thread = await begin(store, laptop.folder)
    cut = read_lines(store, thread)[:4]
    restore(store, thread, cut)
    note(store, thread, TRIES_MAX)
    said = await listen(store, laptop.folder, lambda: is_over(store))
    assert any("its process ended" in line for line in said)
    assert read_lines(store, thread) == cut
    assert [one["tries"] for one in read_ledger(store)] == [0], "who stops it in order has seen it"


@pytest.mark.parametrize("is_mine", [False, True])
async def test_what_was_gone_on_with_elsewhere_since_is_not_gone_on_with_here(
    store: LocalStore, laptop: Machine, is_mine: bool
) -> None:
    """Also one that a server has made up: it knows the id that a beginning will have."""
    thread = await begin(store, laptop.folder)
    cut = read_lines(store, thread)[:4]
    write_effects(laptop, has_run=False)
    restore(store, thread, cut)
    store.adopted.mark(thread, is_mine=is_mine)
    note(store, thread)
    said = await listen(store, laptop.folder, lambda: is_over(store))
    assert any("another machine's" in line for line in said)
    assert (read_lines(store, thread), read_effects(laptop)) == (cut, "")


def test_a_ledger_is_one_listeners_and_keeps_what_is_over_until_its_time(
    store: LocalStore,
) -> None:
    thread, other = make_thread_id(), make_thread_id()
    with ListenerLedger(store, "a test") as ledger:
        with pytest.raises(StorageBusyError, match="listens already: pid"):
            ListenerLedger(store, "another")
        ledger.note(make_request(thread), store.now())
        ledger.end(thread)
        ledger.note(make_request(other, "another-of-the-phone"), store.now())
        assert [one.thread for one in ledger.list_cut_off()] == [other]
    with ListenerLedger(store, "a test") as ledger:
        found = ledger.find(REQUEST)
        assert found is not None
        assert found.is_over
        ledger.note(make_request(other, "a-third-of-the-phone"), "2999-01-02T00:00:00.000000Z")
        assert ledger.find(REQUEST) is None
    (store.places.state / "listener" / "taken.json").write_text("{")
    with ListenerLedger(store, "a test") as ledger:
        assert ledger.list_cut_off() == ()
