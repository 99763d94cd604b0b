"""A client that says things and syncs, in a process of its own, until it is killed.

Run as ``client_program.py HOME URL TOKEN NAME FIRST_NUMBER COUNT``. Everything that was
acknowledged is written to standard output as ``NUMBER THREAD``, a line each, after it is durable.
With a COUNT of 0 nothing is said: it syncs until nothing is left to be done, and ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

from core.samples import CONFIG
from sync.engines import engine_of
from sync.simulated_machine import SECRET, next_entry
from treadle.errors import RemoteError, StoreError, TreadleError
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.sync.client import HttpRemote
from treadle.sync.credentials import Account
from treadle.thread.facts import Annotated, Configured

THREAD_COUNT = 3
SETTLE_TRIES = 60


def tell(number: int, thread: str) -> None:
    """It was acknowledged."""
    os.write(1, f"{number} {thread}\n".encode())


def begin(store: LocalStore, number: int) -> None:
    """A new thread."""
    first = (Configured(CONFIG, "scripted"), Annotated(SECRET.format(number)))
    writer = store.create("program", workspace="/w", first=first)
    tell(number, writer.thread_id)
    writer.close()


def say(store: LocalStore, thread: str, number: int, random: Random) -> None:
    """One step in a thread."""
    try:
        writer = store.open(thread)
    except StoreError:
        return
    try:
        text = SECRET.format(number)
        entry = next_entry(random, writer.fold, text)
        writer.stage(entry)
        writer.commit()
        if text in repr(entry):
            tell(number, thread)
    finally:
        writer.close(wants_snapshot=random.random() < 0.3)


def main() -> None:
    """Say and sync."""
    home, url, token, name = Path(sys.argv[1]), *sys.argv[2:5]
    first, count = int(sys.argv[5]), int(sys.argv[6])
    store = LocalStore(Places(home / "data", home / "state", home / "config"))
    random = Random(f"{name}-{first}")
    with HttpRemote(Account(url=url, token=token)) as remote:
        engine = engine_of(store, remote, random, host=name)
        for number in range(first, first + count):
            ids = store.ids()
            if len(ids) < THREAD_COUNT:
                begin(store, number)
            else:
                say(store, random.choice(ids[-THREAD_COUNT:]), number, random)
            if number % 3 == 0:
                try:
                    engine.sync()
                except (RemoteError, StoreError):
                    continue
        for _ in range(0 if count else SETTLE_TRIES):
            try:
                if engine.sync().is_complete:
                    return
            except TreadleError as error:
                print(error, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
