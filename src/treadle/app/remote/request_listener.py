"""Fetches what a person asks of this machine from another device, and hands it to the session.

It asks the server, which tells by its stream of changes that there is something; nothing of this
machine listens. What counts of it says `acceptance.py`. What counts is handed on as the request of
a local page is, and from there on all is as for one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from treadle.api.types import RemoteRequest, RequestOutcome
from treadle.app.exchange.taken_requests import read_taken_requests
from treadle.app.remote.acceptance import RemotePolicy, check_statement
from treadle.app.remote.paired_keys import MachineKeys, read_machine_keys
from treadle.app.sync.continuous_sync import RemoteChangeListener
from treadle.app.sync.sync_cursors import open_cursors
from treadle.errors import NotConfiguredError, RemoteRefusedError, TreadleError, UsageError
from treadle.store.local_store import LocalStore
from treadle.store.thread_requests import RequestReply, ThreadRequests
from treadle.sync.credentials import Account
from treadle.sync.request_client import RequestClient
from treadle.sync.send_queue import PendingSyncStore

LOOK_S: Final = 0.2
"""Seconds between two looks at what became of what was handed to the session."""
LOOKS_PER_FETCH: Final = 75
"""Looks after which the server is asked without a word of it: a stream may be broken."""


class RemoteRequestListener:
    """What is asked from elsewhere of one thread, while its session is open.

    Args:
        store: the threads of this user.
        account: the server.
        thread_id: the thread.
        read_policy: what may be said; asked of anew for each thing that is, as settings change.
    """

    def __init__(
        self,
        store: LocalStore,
        account: Account,
        thread_id: str,
        read_policy: Callable[[], RemotePolicy],
    ) -> None:
        self._store = store
        self._account = account
        self._thread_id = thread_id
        self._read_policy = read_policy
        self._requests = ThreadRequests(store.folders.disk, store.places, thread_id)
        self._handed: set[str] = set()
        """What the session has, and the server has not been told the end of."""
        self._taken: frozenset[str] | None = None
        """What the journal held when it was looked at; what was taken since has a reply."""
        self._news = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="remote", daemon=True)

    def begin(self) -> None:
        """Listen from now on, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Listen no more; what is not over is taken up by the next session."""
        self._is_over.set()
        self._news.set()

    def _run(self) -> None:
        cursor = open_cursors(self._store, self._account).get(self._thread_id)
        state = PendingSyncStore(self._store.folders.disk, self._store.places).state()
        after = max(state.change, 0 if cursor is None else cursor.change)
        listener = RemoteChangeListener(self._account, after, self._news)
        listener.begin()
        looks = 0
        try:
            with RequestClient(self._account) as client:
                while not self._is_over.is_set():
                    with suppress(TreadleError, OSError):  # it is tried again
                        if looks % LOOKS_PER_FETCH == 0 or self._news.is_set():
                            self._news.clear()
                            self.fetch(client)
                        self.follow(client)
                    looks += 1
                    self._news.wait(LOOK_S)
        finally:
            listener.end()

    def fetch(self, client: RequestClient) -> None:
        """Look at what is left for this machine and thread, and hand it on."""
        keys = read_machine_keys(self._store.places)  # anew: one may be forgotten
        if keys is None:
            return
        for left in client.list_open(keys.machine):
            if left.thread == self._thread_id and left.id not in self._handed:
                self._take(client, left, keys)

    def _take(self, client: RequestClient, left: RemoteRequest, keys: MachineKeys) -> None:
        with suppress(UsageError):  # no device gives such an id
            if self._is_handed_on(left.id) or self._hand_on(client, left, keys):
                self._handed.add(left.id)

    def _is_handed_on(self, request_id: str) -> bool:
        """Whether this session has it, or has done with it, or an earlier process has taken it."""
        if self._requests.is_waiting(request_id) or self._requests.read_reply(request_id):
            return True
        if self._taken is None:
            self._taken = frozenset(read_taken_requests(self._store, self._thread_id))
        if request_id not in self._taken:
            return False
        self._requests.reply(request_id, RequestReply(is_taken=True))  # it died before it said so
        return True

    def _hand_on(self, client: RequestClient, left: RemoteRequest, keys: MachineKeys) -> bool:
        """Have the session take it, if it counts; else say why not."""
        data, fold = left.body.encode("utf-8", "replace"), self._store.load(self._thread_id).fold
        policy, now = self._read_policy(), self._store.now()
        try:
            request = check_statement(data, left.id, fold, keys, policy, now)
            if not claim_request(client, left):
                return False
            self._requests.place(request)
        except (UsageError, NotConfiguredError) as error:
            settle_request(client, left.id, RequestOutcome("refused", error.message[:2000]))
            return False
        return True

    def follow(self, client: RequestClient) -> None:
        """Tell the server the end of what the session has done, or would not do."""
        for request_id in tuple(self._handed):
            reply = self._requests.read_reply(request_id)
            if reply is not None:
                outcome = RequestOutcome("done" if reply.is_taken else "refused", reply.why[:2000])
                settle_request(client, request_id, outcome)
                self._handed.discard(request_id)


def claim_request(client: RequestClient, left: RemoteRequest) -> bool:
    """Say that a request is taken; false if it was taken back, or has expired, meanwhile.

    From then on it cannot be taken back, so it is said before anything is done.
    """
    try:
        client.settle(left.id, RequestOutcome("taken"))
    except RemoteRefusedError:
        return False
    return True


def settle_request(client: RequestClient, request_id: str, outcome: RequestOutcome) -> None:
    """Say the end of a request. One that was taken back, or came too late, stays as it is."""
    with suppress(RemoteRefusedError):
        client.settle(request_id, outcome)
