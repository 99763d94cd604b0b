"""Works on threads that nobody has open, for who asks from a page or from another device."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from typing import Final

from anyio import to_thread
from msgspec import Struct

from treadle.app.sessions.host import Host
from treadle.app.sessions.open_threads import OpenThread, reopen_thread
from treadle.app.sessions.setup import RunChoice
from treadle.app.sessions.thread_setup import ThreadTarget, make_setup
from treadle.app.sessions.thread_work import WorkResult, work_on_thread
from treadle.app.sessions.turns import TurnRequest, finish_turn, open_turn, prepare_request
from treadle.errors import ThreadBusyError, TreadleError, UsageError
from treadle.store.id_beginnings import make_thread_id
from treadle.store.local_store import LocalStore

_log = logging.getLogger("treadle.unattended")

PROGRAM: Final = "treadle remote listen"
"""What people know a process by that begins conversations so."""
FOREIGN: Final = "the thread is another machine's: go on with it there"


def _ignore(_: object) -> None:
    """Whoever looks reads what happens from the journal."""


class WorkWatch(Struct, frozen=True):
    """Who is told of the work on a thread.

    Args:
        on_open: called when it is open, before what waits is taken.
        on_failure: told why it cannot be opened or gone on with, unless somebody else has it now.
        on_end: called at the end, with how that was; `None` if it was not gone on with. A process
            that stops does not call it: the work is unfinished then.
    """

    on_open: Callable[[], None]
    on_failure: Callable[[str], None]
    on_end: Callable[[WorkResult | None], None] = _ignore


class UnattendedWork:
    """Sessions of this process at which nobody sits; each thread has one at most.

    Args:
        store: the threads of this machine.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._works: dict[str, asyncio.Task[None]] = {}
        self._opened: dict[str, OpenThread] = {}
        self._is_over = False

    def has(self, thread_id: str) -> bool:
        """Whether a session of this process works on a thread, or is about to."""
        return thread_id in self._works

    def go_on(self, thread_id: str, watch: WorkWatch) -> None:
        """Open a thread, take what waits there, and go on with it until nothing is to be done."""
        self._begin(thread_id, self._resume(thread_id, watch), watch)

    def start(self, thread_id: str, folder: str, prompt: str, watch: WorkWatch) -> None:
        """Begin a conversation of this id in a folder, with a prompt; else as `go_on`."""
        self._begin(thread_id, self._start(thread_id, folder, prompt, watch), watch)

    async def close(self) -> None:
        """Stop what is at work here; it stays unfinished on the disk, to be resumed."""
        self._is_over = True
        for opened in self._opened.values():
            opened.driver.interrupt()
        works = dict(self._works)
        for thread_id in works.keys() - self._opened.keys():
            works[thread_id].cancel()  # it is not open yet, so nothing was begun
        if works:
            await asyncio.wait(works.values())

    def _begin(self, thread_id: str, work: Awaitable[WorkResult], watch: WorkWatch) -> None:
        task = asyncio.ensure_future(self._work(thread_id, work, watch))
        self._works[thread_id] = task
        task.add_done_callback(lambda _: self._works.pop(thread_id, None))

    async def _work(self, thread_id: str, work: Awaitable[WorkResult], watch: WorkWatch) -> None:
        result = None
        try:
            result = await work
        except ThreadBusyError:
            pass  # somebody else has it now, and takes what waits
        except TreadleError as error:
            watch.on_failure(f"{error.message}: {error.hint}" if error.hint else error.message)
        finally:
            self._opened.pop(thread_id, None)
        if not self._is_over:
            watch.on_end(result)

    async def _resume(self, thread_id: str, watch: WorkWatch) -> WorkResult:
        # Looked at last: what another machine, or a server, has written into it is not done here.
        if self._store.adopted.is_foreign(thread_id):
            raise UsageError(FOREIGN)
        host, target = Host(None, _log.info), ThreadTarget(thread=thread_id)
        setup = await to_thread.run_sync(make_setup, self._store, RunChoice(), target, host)
        return await work_on_thread(
            setup,
            lambda: reopen_thread(setup, _ignore),
            lambda opened: opened.resume(),
            on_open=partial(self._note, watch),
            notify=_log.info,
        )

    async def _start(
        self, thread_id: str, folder: str, prompt: str, watch: WorkWatch
    ) -> WorkResult:
        # The first thread that it makes is this one; those of sub-agents have ids of their own.
        ids = chain((thread_id,), iter(make_thread_id, ""))
        store = LocalStore(self._store.places, new_id=ids.__next__, program=PROGRAM)
        host, target = Host(None, _log.info), ThreadTarget(folder=folder)
        setup = await to_thread.run_sync(make_setup, store, RunChoice(), target, host)
        turn = await prepare_request(setup, TurnRequest(prompt))
        return await work_on_thread(
            setup,
            lambda: open_turn(setup, turn, _ignore),
            lambda opened: finish_turn(setup, opened, turn, _ignore),
            on_open=partial(self._note, watch),
            notify=_log.info,
        )

    def _note(self, watch: WorkWatch, opened: OpenThread) -> None:
        self._opened[opened.thread_id] = opened
        watch.on_open()
