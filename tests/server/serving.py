"""A real `treadle serve` in a process of its own, which tests may kill."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from server.running import PATIENCE_S

_LISTENS: Final = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_TOKEN: Final = re.compile(r"trd_[0-9A-Za-z]{49}")


class Served:
    """A server at work.

    Args:
        url: its database.
        home: its home; a token that it prints is kept there, as an operator would.
        options: more of the command line.
        program: how `treadle` is started.
    """

    def __init__(
        self,
        url: str,
        home: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "treadle"),
    ) -> None:
        self.database_url = url
        self._home = home
        self._options = options
        self._environment = environment or {}
        self._program = program
        self.port = 0
        self.token = ""
        self.log: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
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
        self._process = subprocess.Popen(
            [
                *(*self._program, "serve", "--port", "0"),
                *("--database", self.database_url, *self._options),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TREADLE_HOME": str(self._home), **self._environment},
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        self._token_reader = threading.Thread(
            target=self._read_token, args=(self._process,), daemon=True
        )
        self._token_reader.start()
        assert self._is_up.wait(PATIENCE_S), self.log
        assert self.port, "".join(self.log)
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.log.append(line)
            found = _LISTENS.search(line)
            if found:
                self.port = int(found[1])
                self._is_up.set()
        self._is_up.set()

    def _read_token(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
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
        for thread in (self._reader, self._token_reader):
            assert thread is not None
            thread.join()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL to it and its workers."""
        self.end(signal.SIGKILL)
