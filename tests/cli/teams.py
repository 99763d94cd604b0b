"""A team server on the loopback, and people of it, each with machines of their own."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from server.running import Running
from treadle.cli.main import main
from treadle.server.accounts import accounts
from treadle.server.data.database import Database
from treadle.store.local_store import utc_now

SCRIPT: Final = """
[[replies]]
text = "Good day."
"""

EDITS: Final = """
[[replies]]
calls = [{ tool = "write_file", arguments = { path = "new.txt", content = "new" } }]

[[replies]]
text = "It is there."
"""


class Team:
    """A server with a database of its own.

    Args:
        folder: where the database is.
    """

    def __init__(self, folder: Path) -> None:
        self.database = f"sqlite:///{folder / 'team.sqlite'}"
        database = Database(self.database)
        try:
            database.prepare()
            self.admin = database.run(
                lambda db: accounts.make_first_user(db, utc_now()), is_write=True
            )
        finally:
            database.dispose()
        self._count = 0
        self.running = Running(self.database)

    @property
    def url(self) -> str:
        return self.running.url

    def stop(self) -> None:
        self.running.stop()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Meanwhile nobody answers at its address, which is kept for it."""
        port = self.running.port
        self.running.stop()
        with socket.socket() as kept:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(("127.0.0.1", port))
            try:
                yield
            finally:
                self.running = Running(self.database, port=port)

    def ask(self, method: str, path: str, token: str = "", body: Any = None) -> Any:
        """What the server says to a request; the admin's, if no token is given."""
        data = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"content_type": "application/json"}
        reply = self.running.ask(method, path, token or self.admin or "", data, **kind)
        assert reply.status < 300, (reply.status, reply.body)
        return json.loads(reply.body) if reply.body else None

    def status(self, method: str, path: str, token: str = "") -> int:
        """The status of the answer."""
        return self.running.ask(method, path, token).status

    def token(self, name: str = "") -> str:
        """A token of a new user, or of one that is there."""
        if not name:
            self._count += 1
            name = f"user-{self._count}"
            user = {"name": name, "organization": "team"}
            self.ask("POST", "/api/admin/users", body=user)
        made = self.ask("POST", f"/api/admin/users/{name}/tokens", body={"name": "test"})
        return str(made["token"])


class Machine(Struct, frozen=True):
    """A home and a folder to work in, and the command."""

    home: Path
    folder: Path
    environment: dict[str, str]

    def __call__(
        self, *arguments: str, stdin: str | None = None, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, in this process: what it costs to start one is not tested."""
        environment = {**self.environment, "TREADLE_HOME": str(self.home), **extra}
        before, here = dict(os.environ), Path.cwd()
        out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        kept = sys.argv, sys.stdin
        given = self.home.with_suffix(".stdin")
        given.write_text(stdin or "")
        try:
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(self.folder)
            sys.argv = ["treadle", *arguments]
            with given.open() as sys.stdin, redirect_stdout(out), redirect_stderr(err):
                code = _exit_code()
        finally:
            sys.argv, sys.stdin = kept
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)
        said = [_text(one) for one in (out, err)]
        return subprocess.CompletedProcess(list(arguments), code, *said)

    def ok(self, *arguments: str, stdin: str | None = None, **extra: str) -> str:
        """What it prints; it must succeed."""
        done = self(*arguments, stdin=stdin, **extra)
        assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def say(self, prompt: str, *more: str, script: str = SCRIPT, **extra: str) -> str:
        """One turn; the thread."""
        name = self.folder / "script.toml"
        name.write_text(script)
        model = () if "-r" in more else ("-m", f"scripted:{name}")
        self.ok("-p", prompt, *model, *more, **extra)
        return self.threads()[0]["id"] if "-r" not in more else more[more.index("-r") + 1]

    def threads(self) -> list[dict[str, Any]]:
        """All threads, the last one first."""
        found: list[dict[str, Any]] = json.loads(self.ok("list", "--json"))
        return found

    def journal(self, thread: str) -> bytes:
        """Its bytes."""
        return (self.home / "data" / "threads" / f"{thread}.jsonl").read_bytes()

    def login(self, team: Team, token: str, *options: str) -> None:
        """Log in."""
        self.ok("login", team.url, "--token-stdin", *options, stdin=token)


def _exit_code() -> int:
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    found = stream.buffer
    assert isinstance(found, io.BytesIO)
    return found.getvalue().decode()


def machine(folder: Path, environment: dict[str, str], name: str) -> Machine:
    """A new one."""
    work = folder / name / "work"
    work.mkdir(parents=True)
    return Machine(folder / name / "home", work, environment)
