"""A real `treadle serve` in a process of its own, which tests may kill."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Final

import warm_process
from server.running import PATIENCE_S

_LISTENS: Final = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_TOKEN: Final = re.compile(r"trd_[0-9A-Za-z]{49}")


class Served:
    """A server at work.

    Args:
        url: its database.
        home: its home; a token that it prints is kept there, as an operator would.
        options: more of the command line.
    """

    def __init__(self, url: str, home: Path, *options: str) -> None:
        self.database_url = url
        self._home = home
        self._options = options
        self.port = 0
        self.token = ""
        self.log: list[str] = []
        self._process: warm_process.WarmProcess | None = None
        self._readers: list[threading.Thread] = []
        self._is_up = threading.Event()
        self._has_told = threading.Event()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Served:
        """Begin, and wait until it listens."""
        self._is_up.clear()
        out, out_end = os.pipe()
        log, log_end = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        self._process = warm_process.start(
            ("serve", "--port", "0", "--database", self.database_url, *self._options),
            Path.cwd(),
            {**os.environ, "TREADLE_HOME": str(self._home)},
            (nothing, out_end, log_end),
            is_leader=True,
        )
        for handle in (nothing, out_end, log_end):
            os.close(handle)
        self._readers = [
            threading.Thread(target=read, args=(os.fdopen(pipe),), daemon=True)
            for read, pipe in ((self._read, log), (self._read_token, out))
        ]
        for reader in self._readers:
            reader.start()
        assert self._is_up.wait(PATIENCE_S), self.log
        assert self.port, "".join(self.log)
        return self

    def _read(self, log: IO[str]) -> None:
        with log:
            for line in log:
                self.log.append(line)
                found = _LISTENS.search(line)
                if found:
                    self.port = int(found[1])
                    self._is_up.set()
        self._is_up.set()

    def _read_token(self, out: IO[str]) -> None:
        with out:
            for line in out:
                found = _TOKEN.search(line)
                if found:
                    self.token = found[0]
                    self._has_told.set()

    def owner_token(self) -> str:
        """What the first start on an empty database prints."""
        assert self._has_told.wait(PATIENCE_S), "".join(self.log)
        return self.token

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the whole group, and wait; gives the exit code."""
        process = self._process
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join()
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL to it and its workers."""
        self.end(signal.SIGKILL)
