"""The store knows what it was doing when it died: it ends that, or says who must."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

import pytest

from store.power import Bench, crashes
from store.shelf import CREATOR, TURN, fill
from treadle.errors import UsageError
from treadle.store.journal import FIRST_READ_SIZE
from treadle.store.local_store import LocalStore
from treadle.store.replay import verify_thread
from treadle.store.upkeep.interrupted_operations import (
    finish_operations,
    list_stopped_scrubs,
    list_unfinished_creations,
)
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.text_scan import TextScanner
from treadle.store.upkeep.trash import Trash
from treadle.thread.facts import Annotated

SECRET = "hunter2-hunter2"


def redact(text: str) -> str:
    return text.replace(SECRET, "[REDACTED:x]")


def sign(salt: bytes) -> bytes:
    return sha256(salt + SECRET.encode()).digest()


def sign_other(salt: bytes) -> bytes:
    return sha256(salt).digest()


def thread_on(store: LocalStore, text: str = "on") -> str:
    writer = store.create(CREATOR, workspace="/w")
    fill(writer, *TURN, (Annotated(text),))
    writer.close()
    return writer.thread_id


ACTS: dict[str, tuple[Callable[[LocalStore, str], object], bool]] = {
    "create": (lambda store, _: store.create(CREATOR, workspace="/w").close(), False),
    "create with a long prompt": (
        lambda store, _: store.create(
            CREATOR, workspace="/w", first=(Annotated("x" * 3 * FIRST_READ_SIZE),)
        ).close(),
        False,
    ),
    "put": (lambda store, one: Trash(store).put([one]), False),
    "take back": (lambda store, one: Trash(store).restore([one]), True),
}


@pytest.mark.parametrize("name", ACTS)
def test_after_every_crash_the_next_look_finds_every_thread_whole_and_in_one_place(
    name: str,
) -> None:
    act, is_trashed = ACTS[name]
    bench = Bench()
    thread_id = thread_on(bench.store)
    if is_trashed:
        Trash(bench.store).put([thread_id])
    wrong: list[str] = []
    unfinished_count = 0
    for where, left in crashes(bench, lambda: act(bench.store, thread_id)):
        store, trash = left.store, Trash(left.store)
        unfinished_count += bool(
            trash.list_unfinished_moves() or list(list_unfinished_creations(store))
        )
        before = [verify_thread(store, one) for one in {*store.ids(), *trash.ids()}]
        finish_operations(store)
        after = [verify_thread(store, one) for one in {*store.ids(), *trash.ids()}]
        wrong += [f"{where}: {one.text}" for one in (*before, *after) if not one.is_good]
        wrong += [f"{where}: no record" for one in after if not one.version]
        wrong += [f"{where}: in both folders" for _ in trash.list_unfinished_moves()]
        if thread_id not in {one.thread for one in after}:
            wrong.append(f"{where}: lost")
    assert wrong == []
    assert unfinished_count > 2


def test_a_scrub_that_was_stopped_is_told_until_the_same_one_has_ended() -> None:
    bench = Bench()
    thread_id = thread_on(bench.store, SECRET)
    fork = bench.store.fork(thread_id, creator=CREATOR)
    fill(fork, (Annotated("own"),))
    fork.close()
    before = files(bench)
    wrong: list[str] = []
    told_count = 0
    for where, left in crashes(bench, lambda: scrub(bench.store, [thread_id], redact, sign=sign)):
        told = list_stopped_scrubs(left.store)
        told_count += bool(told)
        is_begun, holding = (
            files(left) != before,
            TextScanner(left.store.folders, redact).find_files(),
        )
        if is_begun and holding and not told:
            wrong.append(f"{where}: not told")
        if not told and any(not verify_thread(left.store, one).is_good for one in left.store.ids()):
            wrong.append(f"{where}: not told why a thread does not verify")
        if told:
            with suppress(UsageError):  # it may be refused until the first one has ended
                scrub(left.store, left.store.ids(), lambda text: text, sign=sign_other)
            wrong += [f"{where}: forgotten"] * (not list_stopped_scrubs(left.store))
            scrub(left.store, [thread_id], redact, sign=sign)
        wrong += [f"{where}: told for ever"] * bool(list_stopped_scrubs(left.store))
    assert wrong == []
    assert told_count > 10


def files(bench: Bench) -> dict[str, bytes]:
    """All files but locks and drafts."""
    found = bench.disk.files()
    return {
        name: data for name, data in found.items() if ".lock" not in name and "/tmp/" not in name
    }
