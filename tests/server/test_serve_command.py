"""`treadle serve` as a process: its first start, its refusals, its workers, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import pytest

import warm_process
from case_tables import for_every_row
from server.databases import Templates
from server.running import PATIENCE_S, Running, request


class Process(Running):
    """A `treadle serve` of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        environment = {**os.environ, "TREADLE_HOME": str(home)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "serve", "--port", "0", *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("listening on http://127.0.0.1:"):
                self.port = int(line.rpartition(":")[2])
                return
        raise AssertionError("".join(self.said))

    def end(self, how: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; the exit code and what it has printed since."""
        self.process.send_signal(how)
        out, error = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def url(templates: Templates, fast_place: Path) -> str:
    """A migrated database."""
    return templates.copy("sqlite", fast_place)


def serve(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A server that is not to start."""
    return run(home, "serve", *options)


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, to its end."""
    environment = {**os.environ, "TREADLE_HOME": str(home)}
    return warm_process.run(arguments, home, environment, None, PATIENCE_S)


def test_the_first_start_tells_a_token_and_the_second_does_not(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        assert "user owner of the organization team" in server.said[0]
        code, out, _ = server.end()
    token = out.strip()
    assert (code, token[:4], out.count("\n")) == (0, "trd_", 1)
    assert (tmp_path / "state" / "server").stat().st_mode & 0o777 == 0o700
    with Process(tmp_path) as server:
        assert server.ask("GET", "/api/me", token).json["is_admin"] is True
        assert server.end(signal.SIGINT)[:2] == (0, "")


def test_who_works_on_the_database_knows_where_people_reach_the_server(
    tmp_path: Path, url: str
) -> None:
    def invite() -> str:
        arguments = ("admin", "invitations", "add", "--organization", "acme", "--database", url)
        return run(tmp_path, *arguments).stdout.partition("/join/")[0]

    run(tmp_path, "admin", "organizations", "add", "acme", "--database", url)
    assert invite() == ""
    with Process(tmp_path, "--database", url) as server:
        assert invite() == f"http://127.0.0.1:{server.port}"
        server.end()
    with Process(tmp_path, "--database", url, "--base-url", "https://t.example/") as server:
        assert invite() == "https://t.example"
        server.end()
    with Process(tmp_path, "--database", url, "--behind-proxy") as server:
        assert invite() == ""
        server.end()


def test_workers_answer_together_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    with Process(tmp_path, "--workers", "2") as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        while len(first := set(children.read_text().split())) < 2:
            assert server.process.poll() is None  # the one that is there may serve already
        assert {server.ask("GET", "/api/openapi.json").status for _ in range(10)} == {200}
        os.kill(int(min(first)), signal.SIGKILL)
        while len(now := set(children.read_text().split()) - {min(first)}) < 2:
            assert server.process.poll() is None
        assert max(first) in now
        assert {server.ask("GET", "/api/openapi.json").status for _ in range(10)} == {200}
        found = server.ask("GET", "/metrics").body.decode()
        line = 'treadle_requests_total{method="GET",route="/api/openapi.json",status="200"} '
        assert float(found.partition(line)[2].split()[0]) == 20
        code, _, _ = server.end()
        assert code == 0


def test_workers_do_not_outlive_the_process_that_started_them(tmp_path: Path) -> None:
    with Process(tmp_path, "--workers", "2") as server:
        assert server.process.stderr is not None
        server.process.kill()
        server.process.communicate(timeout=PATIENCE_S)  # the end of all who hold its stderr
        with pytest.raises(ConnectionRefusedError):
            server.connect()


def test_a_stop_with_open_streams_takes_no_time(tmp_path: Path, url: str) -> None:
    with Process(tmp_path, "--database", url) as server:
        assert server.process.stdout is not None
        token = server.process.stdout.readline().strip()
        with server.connect() as stream:
            stream.sendall(request("GET", "/api/changes", token))
            assert stream.recv(12) == b"HTTP/1.1 200"
            assert server.end()[0] == 0


@for_every_row(
    "options, code, words",
    [
        (("--host", "0.0.0.0"), 2, "plain HTTP shows tokens"),
        (("--host", "nowhere.invalid", "--behind-proxy"), 2, "no address of this machine"),
        (("--key", __file__), 2, "belong together"),
        (("--database", "nonsense"), 2, "database"),
        (("--database", "postgresql://127.0.0.1:1/x"), 75, "cannot be used"),
        (("--body-max", "1"), 2, "--body-max"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_line(
    tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    found = serve(tmp_path, "--port", "0", *options)
    assert (found.returncode, found.stdout) == (code, "")
    assert words in found.stderr
    assert "Traceback" not in found.stderr


def test_a_port_in_use_is_said_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = serve(tmp_path, "--port", str(taken.getsockname()[1]))
    assert found.returncode == 75
    assert "cannot listen on 127.0.0.1 port" in found.stderr
    assert "Traceback" not in found.stderr


def test_workers_that_are_told_to_stop_while_they_are_forked_stop(tmp_path: Path) -> None:
    """The signal comes between the fork and the line that notes the worker."""
    program = (
        "import os, signal, sys\n"
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "sys.argv = ['treadle', 'serve', '--port', '0', '--workers', '2']\n"
        "from treadle.cli.entry_point import main; main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TREADLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 0, found.stderr


def test_workers_that_cannot_serve_do_not_say_that_they_listen(tmp_path: Path) -> None:
    no_certificate = ("--certificate", __file__, "--key", __file__)
    found = serve(tmp_path, "--port", "0", "--workers", "2", *no_certificate)
    assert found.returncode == 1
    assert "worker_ended" in found.stderr
    assert "listening on" not in found.stderr


@pytest.mark.parametrize("library", ["uvicorn", "sqlalchemy"])
@pytest.mark.parametrize("command", ["'serve', '--port', '0'", "'admin', 'users', 'list'"])
def test_without_its_libraries_it_says_how_to_install_them(
    tmp_path: Path, library: str, command: str
) -> None:
    program = (
        f"import sys; sys.modules['{library}'] = None\n"
        f"sys.argv = ['treadle', {command}]\n"
        "from treadle.cli.entry_point import main; main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TREADLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 5
    assert f"the team server is not installed: {library} is missing" in found.stderr
    assert 'pip install ".[server]"' in found.stderr


def test_a_provider_is_one_of_https_and_goes_with_where_people_reach_the_server(
    tmp_path: Path,
) -> None:
    issuer = ("--oidc-issuer", "https://login.example.org")
    client = ("--oidc-client", "treadle")
    base = ("--base-url", "https://t.example")
    wrong = {
        "belong together": issuer,
        "needs --base-url": (*issuer, *client),
        "is an address of https": ("--oidc-issuer", "http://login.example.org", *client, *base),
        "--base-url is an address": (*issuer, *client, "--base-url", "http://t.example"),
        "names no domain": (*issuer, *client, *base, "--oidc-domain", "acme"),
        "says nothing without": ("--oidc-domain", "acme.example=acme"),
    }
    found = {text: serve(tmp_path, *options) for text, options in wrong.items()}
    assert {text: one.returncode for text, one in found.items()} == dict.fromkeys(wrong, 2)
    assert [text for text, one in found.items() if text not in one.stderr] == []
    with Process(tmp_path, *issuer, *client, *base) as server:
        page = server.ask("GET", "/sign-in", accept="text/html").body.decode()
        assert "Sign in at login.example.org" in page
        server.end()
