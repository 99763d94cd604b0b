"""Takes what is asked of this machine from another device where no session is open to take it.

It asks the server as a session does (`app/remote/request_listener.py`), for all threads: one that
somebody has open is left to its session. For what counts it opens a session at which nobody sits,
and only there is it handed on, so that what a session finds waiting was judged while it was open.
Before anything is begun it is told to the server as taken, or it was taken back meanwhile, and kept
in a ledger, so that a death neither loses it nor has it done twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from anyio import to_thread
from msgspec import Struct

from treadle.api.types import RemoteRequest, RequestOutcome
from treadle.app.exchange.taken_requests import read_taken_requests
from treadle.app.notices import Notify
from treadle.app.remote.acceptance import RemotePolicy, check_start, check_statement
from treadle.app.remote.paired_keys import MachineKeys, is_offer, read_machine_keys
from treadle.app.remote.request_listener import claim_request, settle_request
from treadle.app.sessions.listener_ledger import ListenerLedger
from treadle.app.sessions.thread_work import WorkResult
from treadle.app.sessions.unattended_work import FOREIGN, PROGRAM, UnattendedWork, WorkWatch
from treadle.app.sync.continuous_sync import RemoteChangeListener
from treadle.config.loader import load_settings
from treadle.errors import (
    ConfigError,
    NotConfiguredError,
    StoreError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.outputs import TurnOutcome
from treadle.store.local_store import LocalStore
from treadle.store.thread_requests import Act, PersonRequest, RequestReply, ThreadRequests
from treadle.sync.credentials import Account, require_account
from treadle.sync.request_client import RequestClient
from treadle.sync.send_queue import PendingSyncStore
from treadle.thread.ids import is_thread_id

LOOK_S: Final = 0.25
"""Seconds between two looks at what became of what is being begun here."""
LOOKS_PER_FETCH: Final = 12
"""Looks after which the server is asked. What is asked of a thread it tells by itself; that a
thread is to be begun it tells nobody."""

_IDLE: Final = "no turn is running, so there is nothing to interrupt"
_TRASHED: Final = "the thread is in the trash of the machine"
_CHILD: Final = "it is a sub-agent's: it is answered where the agent works that it works for"
_TAKEN_ID: Final = "a thread of this id is there already, and was not begun by this"
_TOO_OFTEN: Final = "it was gone on with {} times and its process ended: look at it there"
_TOO_LATE: Final = "the machine stopped when it had it, and its time was over when it went on"
_UNPAIRED: Final = "no device is paired with this machine yet: `treadle remote pair` does it"
_DOES: Final[Mapping[Act, str]] = {
    "start": "a conversation begins",
    "prompt": "it hears a prompt",
    "steer": "it hears a prompt",
    "approve": "a call is allowed",
    "always": "a call is allowed, and others of its kinds",
    "change": "a call is allowed, changed",
    "reject": "a call is refused",
    "interrupt": "the turn is stopped",
}
_ENDS: Final = {
    TurnOutcome.DONE: "the turn is done",
    TurnOutcome.APPROVAL: "it waits for an answer",
    TurnOutcome.FAILED: "the turn has failed",
    TurnOutcome.LIMIT: "a limit has stopped the turn",
    TurnOutcome.CANCELLED: "the turn was stopped",
    TurnOutcome.INTERRUPTED: "the turn was stopped",
}


def open_listener(store: LocalStore, folders: Sequence[str], notify: Notify) -> MachineListener:
    """A listener of this user, who has one on a machine.

    Args:
        store: the threads of this user.
        folders: where conversations begin that are asked for; one at least.
        notify: takes a line for whoever sits at the machine.

    Raises:
        UsageError: a folder is none.
        NotConfiguredError: nobody is logged in, nothing may be asked from elsewhere, or what
            happens here would not be sent.
        StorageBusyError: another one listens already.
    """
    found = []
    for one in folders:
        path = Path(one).expanduser()
        if not path.is_dir():
            raise UsageError(f"{one} is no folder", hint="-C takes the folder the agent works in")
        found.append(str(path.resolve()))
    account = require_account(store.places, os.environ)
    settings = load_settings(found[0], os.environ).settings
    if settings.remote == "off":
        raise NotConfiguredError(
            "this machine takes nothing from elsewhere: remote = off",
            hint="treadle config set remote answer, or steer, or start",
        )
    if settings.sync != "auto":
        raise NotConfiguredError(
            "what happens here would reach no device: sync = manual",
            hint="treadle config set sync auto",
        )
    return MachineListener(store, account, tuple(dict.fromkeys(found)), notify)


def choose_folder(folders: Sequence[str], word: str) -> str:
    """The folder that is meant, by its path or its last name; without a word the only one.

    Raises:
        UsageError: there is none, or no one is meant.
    """
    found = [one for one in folders if word in ("", one, Path(one).name)]
    if len(found) != 1:
        names = ", ".join(Path(one).name for one in folders)
        raise UsageError(
            f"the machine listens for no folder {word!r}, but for: {names}"
            if not found
            else f"the machine listens for several such folders, so --folder says which: {names}"
        )
    if not Path(found[0]).is_dir():
        raise UsageError(f"the folder {found[0]} is not on the machine any more")
    return found[0]


class TakenRequest(Struct, frozen=True):
    """What counts and is to be done; `folder` is where a conversation is to be begun."""

    request: PersonRequest
    folder: str = ""


class MachineListener:
    """See above. It holds the lock of the ledger until `run` ends.

    Args:
        store: the threads of this user.
        account: the server.
        folders: where conversations begin that are asked for.
        notify: takes a line for whoever sits at the machine.
    """

    def __init__(
        self, store: LocalStore, account: Account, folders: tuple[str, ...], notify: Notify
    ) -> None:
        self._store = store
        self._account = account
        self._folders = folders
        self._notify = notify
        self._ledger = ListenerLedger(store, PROGRAM)
        self._work = UnattendedWork(store)
        self._started: dict[str, str] = {}
        """Threads that are being begun here, by the requests whose end the server is not told."""
        self._news = threading.Event()
        self._trouble = ""
        self._told: set[str] = set()
        """Requests of which it was said here that they are not taken."""

    def describe(self) -> str:
        """What it does, in a line."""
        mode = self._read_policy(self._folders[0]).mode
        begins = f"; conversations begin in {', '.join(self._folders)}" if mode == "start" else ""
        return f"listening at {self._account.url}, remote = {mode}{begins}; Ctrl-C ends it"

    async def run(self) -> None:
        """Listen until it is cancelled; what is at work then is gone on with by the next one."""
        keys = read_machine_keys(self._store.places)
        if keys is None or not keys.keys:
            self._notify(_UNPAIRED)
        state = PendingSyncStore(self._store.folders.disk, self._store.places).state()
        changes = RemoteChangeListener(self._account, state.change, self._news)
        changes.begin()
        looks = 0
        with self._ledger:
            try:
                self._go_on_with_cut_off()
                while True:
                    is_due = looks % LOOKS_PER_FETCH == 0 or self._news.is_set()
                    self._news.clear()
                    for taken in await to_thread.run_sync(partial(self._look, is_due=is_due)):
                        self._begin(taken)
                    looks += 1
                    wait = partial(self._news.wait, LOOK_S)
                    await to_thread.run_sync(wait, abandon_on_cancel=True)
            finally:
                changes.end()
                await self._work.close()
                with suppress(TreadleError):  # then it counts as a death
                    self._ledger.reset_tries()

    def _read_policy(self, folder: str) -> RemotePolicy:
        now = load_settings(folder, os.environ).settings
        return RemotePolicy(now.remote, now.remote_critical, self._account.url)

    def _look(self, *, is_due: bool) -> list[TakenRequest]:
        """Ask the server, if it is time, and tell it what it was not told."""
        if not is_due and not self._started:
            return []
        found: list[TakenRequest] = []
        trouble = ""
        try:
            with RequestClient(self._account) as client:
                self.follow(client)
                if is_due:
                    self.fetch(client, found.append)
        except (TreadleError, OSError) as error:
            trouble = error.message if isinstance(error, TreadleError) else str(error)
        if trouble != self._trouble:
            self._notify(trouble or "the server answers again")
        self._trouble = trouble
        return found

    # ---- what is left for this machine ---------------------------------------------------------

    def fetch(self, client: RequestClient, take: Callable[[TakenRequest], None]) -> None:
        """Claim what counts and nobody takes; the server is told of all else what became of it."""
        keys = read_machine_keys(self._store.places)  # anew: one may be forgotten
        if keys is None:
            return
        threads: set[str] = set()
        for left in client.list_open(keys.machine):
            taken = self._judge(client, left, keys)
            # Of one thread one at a time: the next is left to the session that is open then.
            if taken is None or taken.request.thread in threads:
                continue
            if claim_request(client, left):
                threads.add(taken.request.thread)
                self._ledger.note(taken.request, self._store.now())
                take(taken)

    def _judge(
        self, client: RequestClient, left: RemoteRequest, keys: MachineKeys
    ) -> TakenRequest | None:
        try:
            if left.thread is None:
                return self._judge_start(client, left, keys)
            if not is_thread_id(left.thread) or self._is_open(left.thread):
                return None
            requests = self._find_requests(left.thread)
            reply = requests.read_reply(left.id)
            if reply is None and left.id in read_taken_requests(self._store, left.thread):
                reply = RequestReply(is_taken=True)  # who took it died before they said so
                requests.reply(left.id, reply)
            if reply is None:
                return TakenRequest(self._check(left, left.thread, keys))
            _tell_outcome(client, left.id, reply)
        except UnknownThreadError:
            pass  # it is on another machine, or not here yet
        except (UsageError, NotConfiguredError) as error:
            self._tell_once(left.id, f"refused: {error.message}")
            settle_request(client, left.id, RequestOutcome("refused", error.message[:2000]))
        except (ConfigError, StoreError) as error:
            self._tell_once(left.id, f"not taken now: {error.message}")
        return None

    def _tell_once(self, request_id: str, line: str) -> None:
        if request_id not in self._told:
            self._told.add(request_id)
            self._notify(line)

    def _is_open(self, thread_id: str) -> bool:
        return self._work.has(thread_id) or self._store.find_holder(thread_id) is not None

    def _judge_start(
        self, client: RequestClient, left: RemoteRequest, keys: MachineKeys
    ) -> TakenRequest | None:
        data = left.body.encode("utf-8", "replace")
        if is_offer(data):
            return None  # `treadle remote pair` looks at it
        policy = self._read_policy(self._folders[0])
        request, word = check_start(data, left.id, keys, policy, self._store.now())
        entry, requests = self._ledger.find(left.id), self._find_requests(request.thread)
        if (reply := requests.read_reply(left.id)) is not None:
            _tell_outcome(client, left.id, reply, request.thread)
        elif self._exists(request.thread):
            if left.id in read_taken_requests(self._store, request.thread):
                _tell_outcome(client, left.id, RequestReply(is_taken=True), request.thread)
            elif entry is None:
                raise UsageError(_TAKEN_ID)
            elif not self._is_open(request.thread):
                return TakenRequest(request)
            elif self._work.has(request.thread):
                requests.place(request)  # it was begun before a death: who asked is recorded now
        elif entry is not None and entry.is_over:
            _tell_outcome(client, left.id, RequestReply(is_taken=True))  # and removed since
        elif not self._work.has(request.thread):
            return TakenRequest(request, choose_folder(self._folders, word))
        return None

    def _exists(self, thread_id: str) -> bool:
        try:
            self._store.folders.find(thread_id)
        except UnknownThreadError:
            return False
        return True

    def _check(self, left: RemoteRequest, thread_id: str, keys: MachineKeys) -> PersonRequest:
        fold = self._store.load(thread_id).fold
        policy = self._read_policy(fold.workspace or self._folders[0])
        data, now = left.body.encode("utf-8", "replace"), self._store.now()
        request = check_statement(data, left.id, fold, keys, policy, now)
        obstacles = {
            _TRASHED: fold.is_trashed,
            FOREIGN: self._store.adopted.is_foreign(thread_id),
            _CHILD: fold.header.parent is not None,
            _IDLE: request.act == "interrupt",
        }
        for why, stands in obstacles.items():
            if stands:
                raise UsageError(why)
        return request

    # ---- doing it ------------------------------------------------------------------------------

    def _begin(self, taken: TakenRequest) -> None:
        request = taken.request
        requests = self._find_requests(request.thread)

        def place() -> None:
            with suppress(TreadleError):  # it is looked at again
                requests.place(request)

        def fail(why: str) -> None:
            self._notify(f"{request.thread}: {why}")
            with suppress(TreadleError):
                requests.reply(request.id, RequestReply(is_taken=False, why=why))

        self._notify(f"{request.thread}: {_DOES[request.act]}, as asked by {request.by}")
        watch = WorkWatch(place, fail, partial(self._end, request.thread))
        if request.act == "start":
            self._started[request.id] = request.thread
        if taken.folder:
            self._work.start(request.thread, taken.folder, request.text, watch)
        else:
            self._work.go_on(request.thread, watch)

    def _go_on_with_cut_off(self) -> None:
        """Go on with what a death has cut off; what was not begun the server has still."""
        for entry in self._ledger.list_cut_off():
            if not self._exists(entry.thread):
                continue
            if not self._ledger.count_try(entry):
                self._notify(f"{entry.thread}: {_TOO_OFTEN.format(entry.tries)}")
                continue
            self._notify(f"{entry.thread}: going on with it")

            def fail(why: str, thread: str = entry.thread) -> None:
                self._notify(f"{thread}: {why}")

            watch = WorkWatch(lambda: None, fail, partial(self._end, entry.thread))
            self._work.go_on(entry.thread, watch)

    def _end(self, thread_id: str, result: WorkResult | None) -> None:
        with suppress(TreadleError):  # then it is gone on with once more, which finds nothing to do
            self._ledger.end(thread_id)
        if result is not None:
            self._notify(f"{thread_id}: {_ENDS.get(result.turn.outcome, 'the turn has ended')}")

    def follow(self, client: RequestClient) -> None:
        """Tell the server what became of what was to be begun: no session does it for these."""
        for request_id, thread_id in tuple(self._started.items()):
            reply = self._find_requests(thread_id).read_reply(request_id)
            if reply is not None:
                _tell_outcome(client, request_id, reply, thread_id)
                del self._started[request_id]
        for entry in self._ledger.list_cut_off():
            is_late = entry.expires_at < self._store.now()
            if is_late and not self._work.has(entry.thread) and not self._exists(entry.thread):
                late = RequestReply(is_taken=False, why=_TOO_LATE)
                _tell_outcome(client, entry.request, late)
                self._ledger.end(entry.thread)

    def _find_requests(self, thread_id: str) -> ThreadRequests:
        return ThreadRequests(self._store.folders.disk, self._store.places, thread_id)


def _tell_outcome(
    client: RequestClient, request_id: str, reply: RequestReply, begun: str = ""
) -> None:
    """Say the end of a request; `begun` is the thread that a start has begun."""
    if reply.is_taken:
        outcome = RequestOutcome("done", begun)
    else:
        outcome = RequestOutcome("refused", reply.why[:2000])
    settle_request(client, request_id, outcome)
