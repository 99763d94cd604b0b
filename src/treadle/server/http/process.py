"""Runs the server: one process, or several that listen together; and stops it well."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, NoReturn

import msgspec
import uvicorn
from msgspec import Struct

from treadle.errors import ConfigError, StoreError
from treadle.server.data.database import Database
from treadle.server.http import logs, metrics
from treadle.server.http.app import Application, make_app
from treadle.server.http.connections import limited
from treadle.server.http.settings import ServerConfig

BACKLOG: Final = 2048
SPARE_FILES: Final = 256
"""Files a process needs for other things than connections."""

SHORT_LIFE_S: Final = 2.0
SHORT_LIVES_MAX: Final = 5
"""Workers that end this soon, one after another, show a fault that starting again does not mend."""

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


class Start(Struct, frozen=True, kw_only=True):
    """How a server is started.

    Args:
        config: its limits.
        database: the URL.
        workers: how many processes.
        certificate: a file with the TLS certificate; empty: plain HTTP.
        key: the file with its key.
    """

    config: ServerConfig
    database: str
    workers: int = 1
    certificate: str = ""
    key: str = ""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free.

    Raises:
        ConfigError: the name is not known here.
        StoreError: the port is in use, or may not be used.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise ConfigError(f"{host!r} is no address of this machine", hint="--host") from None
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections have it too: the body of an answer does not wait until the other side
        # has acknowledged its headers, which takes 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise StoreError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint="another program may use it; --port 0 takes any that is free",
        ) from None
    return listening


def serve(start: Start, listening: socket.socket, on_ready: Callable[[], None]) -> int:
    """Serve until a signal says to stop; gives the exit code.

    Args:
        start: how.
        listening: of `listen`; closed at the end.
        on_ready: called once, when requests are answered.
    """
    logs.set_up()
    with closing(listening):
        config = _fitting(start.config)
        start = msgspec.structs.replace(start, config=config)
        if start.workers == 1:
            return _serve_here(start, listening, on_ready)
        return _Workers(start, listening).run(on_ready)


def _fitting(config: ServerConfig) -> ServerConfig:
    """As many connections as the system lets this process have files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.connection_count_max + SPARE_FILES
    if soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = max(1, min(config.connection_count_max, soft - min(SPARE_FILES, soft // 2)))
    return msgspec.structs.replace(config, connection_count_max=count)


def _serve_here(
    start: Start,
    listening: socket.socket,
    on_ready: Callable[[], None],
    lifeline: int | None = None,
) -> int:
    database = Database(start.database, pool_size=start.config.worker_count + 4)
    try:
        application = make_app(start.config, database)
        server = Server(settings(start, application), application, on_ready, lifeline)
        server.run(sockets=[listening])
    finally:
        database.dispose()
    return 0 if server.started else 1


def settings(start: Start, application: Application) -> uvicorn.Config:
    """What uvicorn is told. What it would log of requests, the application logs without secrets."""
    return uvicorn.Config(
        application,
        http=limited(start.config),
        ws="none",
        loop="treadle.server.http.connections:Loop",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=start.config.idle_time_s,  # type: ignore[arg-type]  # it takes any
        timeout_graceful_shutdown=start.config.stop_time_s,  # type: ignore[arg-type]
        ssl_certfile=start.certificate or None,
        ssl_keyfile=start.key or None,
    )


class Server(uvicorn.Server):
    """uvicorn's server, that ends streams when it stops; a stop that was asked for is a success.

    Args:
        config: of `settings`.
        application: what it serves.
        on_ready: called once, when it serves.
        lifeline: a pipe whose other end the process that started this one holds: when that process
            is gone, this one stops too.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        on_ready: Callable[[], None],
        lifeline: int | None = None,
    ) -> None:
        super().__init__(config)
        self._application = application
        self._on_ready = on_ready
        self._lifeline = lifeline

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets=sockets)
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._stop)
        logs.say("started", process=os.getpid())
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, let requests end, and stop."""
        logs.say("stopping", process=os.getpid())
        self._application.stop()
        if self._lifeline is not None:
            asyncio.get_running_loop().remove_reader(self._lifeline)
        await super().shutdown(sockets=sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # what did not end in its time
        await asyncio.sleep(0)

    def _stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take the signals to stop as such; they end nothing else."""
        is_main = threading.current_thread() is threading.main_thread()
        wanted = _STOPPING if is_main else ()  # only there signals arrive
        before = {one: signal.signal(one, self.handle_exit) for one in wanted}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


class _Workers:
    """Processes that take connections from one socket; one that dies is replaced.

    They are forked before anything of the server runs, so that each has a database and an event
    loop of its own.
    """

    def __init__(self, start: Start, listening: socket.socket) -> None:
        self._start = start
        self._listening = listening
        self._born: dict[int, float] = {}
        self._is_stopping = False
        self._short_lives = 0
        self._lifeline = os.pipe()
        self._first: int
        self._on_ready: Callable[[], None] = _nothing

    def run(self, on_ready: Callable[[], None]) -> int:
        """Start them, and stay until all have ended; the first that serves says so."""
        self._first, end = os.pipe()
        os.write(end, b"1")
        os.close(end)
        self._on_ready = on_ready
        before = {one: signal.signal(one, self._stop) for one in _STOPPING}
        try:
            for _ in range(self._start.workers):
                self._fork()
            while self._born:
                pid, _ = os.waitpid(-1, 0)
                self._ended(pid)
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            for end in (*self._lifeline, self._first):
                os.close(end)
        return 1 if self._short_lives >= SHORT_LIVES_MAX else 0

    def _fork(self) -> None:
        """One more worker, unless they are to stop.

        A signal to stop waits until the worker is noted: it would not be told to stop otherwise.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            if self._is_stopping:
                return
            pid = os.fork()
            if not pid:
                self._work(before)
            self._born[pid] = time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _work(self, mask: set[int | signal.Signals]) -> NoReturn:
        """Be a worker, from the fork to the end of the process."""
        code = 1
        try:
            for one in _STOPPING:
                signal.signal(one, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(self._lifeline[1])
            code = _serve_here(self._start, self._listening, self._ready, self._lifeline[0])
        except BaseException as error:  # noqa: BLE001  nothing may go on as the parent would
            logs.say("worker_failed", level=40, error=error)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _ready(self) -> None:
        """This worker serves. The pipe holds one byte: who gets it was the first."""
        if os.read(self._first, 1):
            self._on_ready()

    def _ended(self, pid: int) -> None:
        born = self._born.pop(pid, None)
        if born is None:
            return
        metrics.forget(pid)
        if self._is_stopping:
            return
        is_short = time.monotonic() - born < SHORT_LIFE_S
        self._short_lives = self._short_lives + 1 if is_short else 0
        logs.say("worker_ended", level=30, process=pid)
        if self._short_lives >= SHORT_LIVES_MAX:
            self._stop()
        else:
            self._fork()

    def _stop(self, *_: Any) -> None:
        self._is_stopping = True
        for pid in list(self._born):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _nothing() -> None:
    pass
