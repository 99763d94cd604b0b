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
from treadle.server.http.connections import make_connection_class
from treadle.server.http.settings import ServerConfig

BACKLOG: Final = 2048
SPARE_FILES: Final = 256
"""Files a process needs for other things than connections."""

SHORT_LIFE_S: Final = 2.0
SHORT_LIVES_MAX: Final = 5
"""Workers that end this soon, one after another, show a fault that starting again does not mend."""

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class ServerProcessOptions(Struct, frozen=True, kw_only=True):
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


def open_listening_socket(host: str, port: int) -> socket.socket:
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


def serve(
    options: ServerProcessOptions, listening: socket.socket, on_ready: Callable[[], None]
) -> int:
    """Serve until a signal says to stop; gives the exit code.

    Args:
        options: how.
        listening: of `listen`; closed at the end.
        on_ready: called once, when requests are answered.
    """
    logs.configure_logging()
    with closing(listening):
        config = _fit_to_file_limit(options.config)
        options = msgspec.structs.replace(options, config=config)
        if options.workers == 1:
            return _run_worker(options, listening, on_ready)
        return _WorkerPool(options, listening).run(on_ready)


def _fit_to_file_limit(config: ServerConfig) -> ServerConfig:
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


def _run_worker(
    options: ServerProcessOptions,
    listening: socket.socket,
    on_ready: Callable[[], None],
    lifeline: int | None = None,
) -> int:
    database = Database(options.database, pool_size=options.config.worker_count + 4)
    try:
        application = make_app(options.config, database)
        server = Server(make_uvicorn_config(options, application), application, on_ready, lifeline)
        server.run(sockets=[listening])
    finally:
        database.dispose()
    return 0 if server.started else 1


def make_uvicorn_config(options: ServerProcessOptions, application: Application) -> uvicorn.Config:
    """What uvicorn is told. What it would log of requests, the application logs without secrets."""
    return uvicorn.Config(
        application,
        http=make_connection_class(options.config),
        ws="none",
        loop="treadle.server.http.connections:ServerEventLoop",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=options.config.idle_time_s,  # type: ignore[arg-type]  # it takes any
        timeout_graceful_shutdown=options.config.stop_time_s,  # type: ignore[arg-type]
        ssl_certfile=options.certificate or None,
        ssl_keyfile=options.key or None,
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
            asyncio.get_running_loop().add_reader(self._lifeline, self._request_exit)
        logs.log_event("started", process=os.getpid())
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, let requests end, and stop."""
        logs.log_event("stopping", process=os.getpid())
        self._application.stop()
        if self._lifeline is not None:
            asyncio.get_running_loop().remove_reader(self._lifeline)
        await super().shutdown(sockets=sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # what did not end in its time
        await asyncio.sleep(0)

    def _request_exit(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take the signals to stop as such; they end nothing else."""
        is_main = threading.current_thread() is threading.main_thread()
        wanted = _STOP_SIGNALS if is_main else ()  # only there signals arrive
        before = {one: signal.signal(one, self.handle_exit) for one in wanted}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


class _WorkerPool:
    """Processes that take connections from one socket; one that dies is replaced.

    They are forked before anything of the server runs, so that each has a database and an event
    loop of its own.
    """

    def __init__(self, options: ServerProcessOptions, listening: socket.socket) -> None:
        self._options = options
        self._listening = listening
        self._start_times: dict[int, float] = {}
        self._is_stopping = False
        self._short_life_count = 0
        self._lifeline = os.pipe()
        self._ready_pipe: int
        self._on_ready: Callable[[], None] = _do_nothing

    def run(self, on_ready: Callable[[], None]) -> int:
        """Start them, and stay until all have ended; the first that serves says so."""
        self._ready_pipe, end = os.pipe()
        os.write(end, b"1")
        os.close(end)
        self._on_ready = on_ready
        before = {one: signal.signal(one, self._stop_all) for one in _STOP_SIGNALS}
        try:
            for _ in range(self._options.workers):
                self._fork_worker()
            while self._start_times:
                pid, _ = os.waitpid(-1, 0)
                self._on_worker_exit(pid)
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            for end in (*self._lifeline, self._ready_pipe):
                os.close(end)
        return 1 if self._short_life_count >= SHORT_LIVES_MAX else 0

    def _fork_worker(self) -> None:
        """One more worker, unless they are to stop.

        A signal to stop waits until the worker is noted: it would not be told to stop otherwise.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        try:
            if self._is_stopping:
                return
            pid = os.fork()
            if not pid:
                self._run_in_child(before)
            self._start_times[pid] = time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run_in_child(self, mask: set[int | signal.Signals]) -> NoReturn:
        """Be a worker, from the fork to the end of the process."""
        code = 1
        try:
            for one in _STOP_SIGNALS:
                signal.signal(one, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(self._lifeline[1])
            code = _run_worker(
                self._options, self._listening, self._on_worker_ready, self._lifeline[0]
            )
        except BaseException as error:  # noqa: BLE001  nothing may go on as the parent would
            logs.log_event("worker_failed", level=40, error=error)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _on_worker_ready(self) -> None:
        """This worker serves. The pipe holds one byte: who gets it was the first."""
        if os.read(self._ready_pipe, 1):
            self._on_ready()

    def _on_worker_exit(self, pid: int) -> None:
        born = self._start_times.pop(pid, None)
        if born is None:
            return
        metrics.forget_process(pid)
        if self._is_stopping:
            return
        is_short = time.monotonic() - born < SHORT_LIFE_S
        self._short_life_count = self._short_life_count + 1 if is_short else 0
        logs.log_event("worker_ended", level=30, process=pid)
        if self._short_life_count >= SHORT_LIVES_MAX:
            self._stop_all()
        else:
            self._fork_worker()

    def _stop_all(self, *_: Any) -> None:
        self._is_stopping = True
        for pid in list(self._start_times):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _do_nothing() -> None:
    pass
