"""Jobs that are done several at a time, and whose results are taken one by one, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Generic, TypeVar

from treadle.errors import RemoteUnavailableError

T = TypeVar("T")

RESULTS_AHEAD_MAX: Final = 4
"""So many results a worker may be ahead of who takes them: one long job keeps no other waiting."""

PAUSE_S_MAX: Final = 2.0
PAUSES_MAX: Final = 5
"""So long, and so often, a job waits where the server asks for it: what asks for several things at
a time meets the bound of requests per second that one thing after the other stays below."""


class ReadAhead(Generic[T]):
    """Does a job for each of some names, and hands the results over in the order of the names.

    Nothing begins before the first result is taken. The workers are daemon threads: a process that
    is stopped does not wait for a server that says nothing, and what they do may be cut anywhere.

    Args:
        job: what is done, in any thread; jobs for different names at the same time.
        names: for what, in the order in which results are taken.
        worker_count: how many at a time; with 1 all is done by who takes the results.
    """

    def __init__(self, job: Callable[[str], T], names: Iterable[str], worker_count: int) -> None:
        self._job = job
        self._waiting = deque(names if worker_count > 1 else ())
        self._worker_count = worker_count
        self._running_jobs: dict[str, Future[T]] = {}
        self._queue: SimpleQueue[tuple[str, Future[T]] | None] = SimpleQueue()
        self._workers: list[threading.Thread] = []
        self._is_closed = threading.Event()

    def get_result(self, name: str) -> T:
        """The result for a name, which is waited for. Raises what the job raised."""
        self._start_jobs()
        future = self._running_jobs.pop(name, None)
        return self._job(name) if future is None else future.result()

    def wait_for_jobs(self) -> None:
        """Wait until no job is under way; their results can be taken later."""
        wait(self._running_jobs.values())

    def __enter__(self) -> ReadAhead[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Begin no more, and wait for the jobs that have begun, unless a person has stopped it."""
        self._is_closed.set()
        for future in self._running_jobs.values():
            future.cancel()
        for _ in self._workers:
            self._queue.put(None)
        if kind is None or issubclass(kind, Exception):
            for worker in self._workers:
                worker.join()

    def _start_jobs(self) -> None:
        while self._waiting and len(self._running_jobs) < RESULTS_AHEAD_MAX * self._worker_count:
            name = self._waiting.popleft()
            self._running_jobs[name] = Future()
            self._queue.put((name, self._running_jobs[name]))
            if len(self._workers) < self._worker_count:
                worker = threading.Thread(target=self._run_worker, name="fetch", daemon=True)
                self._workers.append(worker)
                worker.start()

    def _run_worker(self) -> None:
        while (found := self._queue.get()) is not None:
            name, future = found
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._run_with_retries(name))
            except BaseException as error:  # noqa: BLE001  who takes the result is to have it
                future.set_exception(error)

    def _run_with_retries(self, name: str) -> T:
        for _ in range(PAUSES_MAX):
            try:
                return self._job(name)
            except RemoteUnavailableError as error:
                pause_s = error.retry_after_s
                if pause_s is None or pause_s > PAUSE_S_MAX or self._is_closed.wait(pause_s):
                    raise
        return self._job(name)
