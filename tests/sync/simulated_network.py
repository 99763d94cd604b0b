"""The network of a simulation: one request after another, each at the moment the run says.

A client works in a thread of its own, and stops at each request until the run goes on with it; so
whatever happens between a request and its answer can happen, and a seed is still a run: of all
threads exactly one moves at any time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, Protocol

from msgspec import Struct

from treadle.api.marks import Mark
from treadle.api.types import Me, ThreadHead, ThreadHeads
from treadle.errors import RemoteRefusedError, RemoteUnavailableError
from treadle.sync.ports import Sendable

BODY_SIZE: Final = 700
"""Bytes in one request; small, so that a push takes several."""

_SEAL: Final = re.compile(rb'\{"seq":(\d+),[^\n]*"hash":"([0-9a-f]{32})"\}\n\Z')


class Server(Protocol):
    """What a request reaches."""

    def handle(self, client: str, request: Request) -> Any:
        """Perform a request of a client."""
        ...


class Request(Struct, frozen=True):
    """What a client asks: the name of a method, its arguments, and a body."""

    name: str
    thread: str = ""
    mark: Mark = Mark()
    number: int = 0
    stamp: str = ""
    body: bytes = b""


class Killed(BaseException):
    """The process that waited for an answer is dead."""


class Work:
    """A client at work in its thread, and the request it waits with.

    Args:
        job: what it does.
    """

    def __init__(self, job: Callable[[], None]) -> None:
        self.request: Request | None = None
        self.error: BaseException | None = None
        self.violation: AssertionError | None = None
        self.is_over = False
        self._job = job
        self._answer: Any = None
        self._failure: BaseException | None = None
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="client", daemon=True)

    def begin(self) -> None:
        """Go on until the first request, or the end."""
        self._thread.start()
        self._wait()

    def answer(self, value: Any) -> None:
        """Give the answer to the request, and go on until the next one, or the end."""
        self.request, self._answer = None, value
        self._go.release()
        self._wait()

    def fail(self, error: BaseException) -> None:
        """Let the request fail."""
        self._failure = error
        self.answer(None)

    def _wait(self) -> None:
        self._back.acquire()
        if self.is_over:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._job()
        except BaseException as error:  # noqa: BLE001  told to the run
            self.error = error
        self.error = self.violation or self.error
        self.is_over = True
        self._back.release()

    def ask(self, request: Request) -> Any:
        """In the thread: wait until the run says what became of a request."""
        assert threading.current_thread() is self._thread
        self.request = request
        self._back.release()
        self._go.acquire()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._answer


class Wire:
    """Implements `Remote` for one client, by asking the run.

    Args:
        watch: is shown each request before it leaves the client.
    """

    url = "http://server"

    def __init__(self, watch: Callable[[Request], None]) -> None:
        self._watch = watch
        self.work: Work | None = None

    def _ask(self, request: Request) -> Any:
        assert self.work is not None
        try:
            self._watch(request)
        except AssertionError as error:
            self.work.violation = error  # the engine takes it for a fault in one thread
            raise
        return self.work.ask(request)

    def me(self) -> Me:
        found: Me = self._ask(Request("me"))
        return found

    def push(self, thread: Sendable, base: Mark) -> ThreadHead:
        head: ThreadHead | None = None
        for body in _bodies(thread.lines(base)):
            head = self._ask(Request("push", thread.thread_id, base, body=body))
            assert head is not None
            base = _end_of(body)
        return head or ThreadHead(thread.thread_id, base.seq, base.hash, 0)

    def replace(self, thread: Sendable, base: Mark) -> ThreadHead:
        body = b"".join(thread.lines(Mark()))
        found: ThreadHead = self._ask(Request("replace", thread.thread_id, base, body=body))
        return found

    def put_blob(self, thread: Sendable, sha256: str) -> None:
        self._ask(Request("put_blob", thread.thread_id, body=thread.blob(sha256)))

    def get_blob(self, thread_id: str, sha256: str) -> bytes | None:
        found: bytes | None = self._ask(Request("get_blob", thread_id, body=sha256.encode()))
        return found

    def purge(self, thread_id: str) -> None:
        self._ask(Request("purge", thread_id))

    def heads(self, after: int, stamp: str = "") -> ThreadHeads:
        found: ThreadHeads = self._ask(Request("heads", number=after, stamp=stamp))
        return found

    def records(self, thread_id: str, after: Mark) -> Iterator[bytes]:
        found: bytes = self._ask(Request("records", thread_id.partition("@")[0], after))
        half = len(found) // 2
        yield from filter(None, (found[:half], found[half:]))


def lost(random: Random) -> Exception:
    """What a client sees of a network that fails."""
    text = random.choice(("no route", "the connection broke", "it takes too long"))
    return RemoteUnavailableError(text)


def stopped() -> Exception:
    """What a client sees of a server that stops."""
    return RemoteUnavailableError("the server stops", retry_after_s=1.0)


def stranger() -> Exception:
    """What a client sees of somebody between it and the server."""
    return RemoteRefusedError("does not look like a Treadle server", status=502)


def _bodies(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for piece in pieces:
        held += piece
        if len(held) >= BODY_SIZE:
            yield held
            held = b""
    if held:
        yield held


def _end_of(body: bytes) -> Mark:
    found = _SEAL.search(body)
    assert found is not None, body[-200:]
    return Mark(int(found[1]), found[2].decode())
