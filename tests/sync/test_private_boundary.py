"""No byte of a private thread leaves this machine: all that clients send is captured and searched.

Real commands, a real server, and between them a network that hears everything. What is looked for
is looked for in every form it could have (`forms.py`); what is not private is found there, or the
search would prove nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import warm_process
from server.databases import Templates
from server.serving import Served
from sync.forms import hits
from sync.proxy import FAULTS, Fault, Proxy

SCRIPT: Final = """
[[replies]]
text = "canary-answer-%(name)s"
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo canary-output-%(name)s | tee canary-path-%(name)s" }

[[replies]]
text = "canary-last-%(name)s"
"""

pytestmark = pytest.mark.timeout(600)  # dozens of commands, on a machine that does other things

PLACES: Final = ("prompt", "answer", "output", "path", "last", "title", "tag", "note")


class Home:
    """A user's machine, whose only way out is the proxy."""

    def __init__(self, folder: Path, served: Served, proxy: Proxy) -> None:
        self.folder = folder
        self.served = served
        self.proxy = proxy
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        self.environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(folder / "user"),
            "TREADLE_HOME": str(folder / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "treadle", *arguments]

    def run(self, *arguments: str, stdin: str = "", codes: tuple[int, ...] = (0,)) -> str:
        """A command to its end; what it prints."""
        done = warm_process.run(arguments, self.workspace, self.environment, stdin, timeout_s=120)
        assert done.returncode in codes, f"{arguments}: {done.returncode} {done.stderr}"
        return done.stdout

    def login(self) -> None:
        self.run("login", self.proxy.url, "--token-stdin", stdin=self.served.owner_token())

    def talk(self, name: str, *options: str) -> str:
        """A session with a tool in a new thread, and what a person adds; the thread's id."""
        script = self.folder / f"{name}.toml"
        script.write_text(SCRIPT % {"name": name})
        before = self.ids()
        self.run(
            *("-p", f"canary-prompt-{name}", "-m", f"scripted:{script}"),
            *("--approval-mode", "auto", *options),
        )
        [thread] = self.ids() - before
        self.mark(thread, name)
        return thread

    def mark(self, thread: str, name: str) -> None:
        self.run("rename", thread, f"canary-title-{name}")
        self.run("tag", thread, f"canary-tag-{name}")
        self.run("note", thread, f"canary-note-{name}")

    def ids(self) -> set[str]:
        return {one["id"] for one in json.loads(self.run("list", "--all", "--json"))}

    def found(self, name: str, thread: str) -> list[str]:
        """Which canaries of a thread have left."""
        return hits(self.proxy.captured(), canaries(name, thread))

    def told_in(self, name: str, thread: str) -> list[bytes]:
        """The first lines of the requests that a canary of a thread has left with."""
        return [
            bytes(one.sent.partition(b"\r\n")[0])
            for one in self.proxy.exchanges
            if hits(bytes(one.sent), canaries(name, thread))
        ]


def canaries(name: str, thread: str) -> list[str]:
    """All that tells of a thread."""
    digest = hashlib.sha256(thread.encode()).hexdigest()
    texts = [f"canary-{place}-{name}" for place in PLACES]
    return [*texts, thread, thread.removeprefix("T-"), digest]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    templates = Templates()
    folder = tmp_path_factory.mktemp("server")
    found = Served(templates.copy("sqlite", folder), folder / "home", "--rate", "0")
    try:
        yield found.start()
    finally:
        found.kill()
        templates.close()


@pytest.fixture
def make_home(tmp_path: Path, served: Served) -> Iterator[Callable[..., Home]]:
    """Makes a machine behind a proxy with a plan."""
    opened: list[Proxy] = []

    def make(plan: Callable[[int], Fault] | None = None) -> Home:
        proxy = Proxy(served.port, plan)
        opened.append(proxy)
        return Home(tmp_path / f"machine-{len(opened)}", served, proxy)

    yield make
    for proxy in opened:
        proxy.close()


def test_a_session_that_is_private_opens_no_connection(make_home: Callable[..., Home]) -> None:
    home = make_home()
    home.login()
    before = home.proxy.connection_count
    assert before > 0
    thread = home.talk("alone", "--private")
    for arguments in (
        ("show", thread),
        ("list", "--json"),
        ("search", "canary-note-alone"),
        ("export", thread, "--force"),
        ("-r", thread, "-p", "canary-prompt-alone", "-m", f"scripted:{home.folder}/alone.toml"),
        ("replay", thread),
        ("verify", thread),
    ):
        home.run(*arguments)
    assert home.proxy.connection_count == before
    assert home.found("alone", thread) == []


def test_nothing_private_is_sent_whatever_is_done_with_it(make_home: Callable[..., Home]) -> None:
    home = make_home()
    home.login()
    thread = home.talk("kept", "--private")
    shared = home.talk("open")
    home.run("sync", "--yes")
    home.run("sync", "--status", "--json")
    home.run("share", thread, "--link", codes=(1,))
    home.run("share", thread, "--visibility", "public", codes=(1,))
    home.run("unshare", thread, codes=(1,))
    home.run("scrub", thread, "-", "--yes", stdin="canary-output-kept")
    fork = home.run("fork", thread).strip()
    home.run("trash", thread)
    home.run("sync", "--yes")
    home.run("restore", thread)
    home.run("share", shared, "--link")
    home.run("sync", "--yes", thread)
    assert home.told_in("kept", thread) == []
    assert home.told_in("kept", fork) == []
    told = home.found("open", shared)
    assert set(canaries("open", shared)[:-3]) <= set(told), "the search must see what is sent"


def test_what_is_said_after_a_thread_was_made_private_is_not_sent_until_it_is_no_more(
    make_home: Callable[..., Home],
) -> None:
    home = make_home()
    home.login()
    thread = home.talk("first")
    home.run("sync", "--yes")
    assert "canary-note-first" in home.found("first", thread)
    home.run("private", thread, "--yes")
    home.mark(thread, "second")
    home.run("sync", "--yes")
    assert hits(home.proxy.captured(), canaries("second", thread)[:-3]) == []
    home.run("private", thread, "--off", "--yes")
    home.run("sync", "--yes")
    assert "canary-note-second" in home.found("second", thread)


def test_nothing_private_is_sent_over_a_network_that_fails(make_home: Callable[..., Home]) -> None:
    def plan(number: int) -> Fault:
        return Fault.NOTHING if number < 3 or number % 3 == 0 else FAULTS[number % len(FAULTS)]

    home = make_home(plan)
    home.login()
    thread = home.talk("rough", "--private")
    shared = home.talk("plain")
    for _ in range(4):
        home.run("sync", "--yes", codes=(0, 1, 75))
    home.run("private", shared, "--yes", codes=(0, 75))
    home.mark(shared, "later")
    for _ in range(3):
        home.run("sync", "--yes", codes=(0, 1, 75))
    assert home.proxy.fault_count > 3
    assert home.found("rough", thread) == []
    told = home.found("plain", shared)
    assert set(canaries("plain", shared)[:-3]) <= set(told), "the search must see what is sent"
    assert hits(home.proxy.captured(), canaries("later", shared)[:-3]) == []


def test_a_sync_that_watches_and_is_killed_has_sent_nothing_private(
    make_home: Callable[..., Home],
) -> None:
    home = make_home()
    home.login()
    thread = home.talk("watched", "--private")
    shared = home.talk("seen")
    process = subprocess.Popen(
        home.command("sync", "--watch", "--yes"),
        cwd=home.workspace,
        env=home.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"1 sent"), "the watcher must be at work"
        home.mark(thread, "watched-more")
        home.mark(shared, "seen-more")
        home.run("private", shared, "--yes", codes=(0, 75))
        home.mark(shared, "hidden")
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    home.run("sync", "--yes")
    assert home.found("watched", thread) == []
    assert hits(home.proxy.captured(), canaries("watched-more", thread)[:-3]) == []
    assert hits(home.proxy.captured(), canaries("hidden", shared)[:-3]) == []
