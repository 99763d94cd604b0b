"""A small machine to break out to: a home with secrets, neighbours, listeners, a process.

Everything that an escape could reach is watched from here, outside of the sandbox.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from escapes.machine import ROOM, is_inside
from treadle.sandbox.box import Sandbox

SYSTEM_PYTHON: Final = "/usr/bin/python3"
WAIT_S: Final = 60.0

_SECRETS: Final = (
    *("home/.ssh/id_ed25519", "home/.aws/credentials", "home/.netrc", "home/.config/gh/hosts.yml"),
    *("home/.config/treadle/config.toml", "home/.git-credentials", "home/.bash_history"),
    *("home/.gnupg/private.key", "home/.local/share/treadle/threads/t.jsonl", "state/t.jsonl"),
    *("outside/victims/secret", "outside/secret"),
)
_PLAIN: Final = {
    "home/.bashrc": "true\n",
    "home/.local/bin/tool": "#!/bin/sh\necho tool\n",
    "outside/file": "outside\n",
    "outside/victims/victim.here": "",
    "outside/victims/file": "outside\n",
    "home/ws é 1/README": "read me\n",
    "home/ws é 1/.treadle/config.toml": "",
}
_VICTIM: Final = """
import os, signal, sys, time
secret = os.environ["CANARY"]
def note(number, frame):
    open(sys.argv[1], "a").write(f"{number}\\n")
for number in 1, 2, 10, 12, 14, 15:
    signal.signal(number, note)
signal.signal(34, lambda number, frame: os.write(1, b"."))
open(sys.argv[2], "w").close()
while True:
    time.sleep(100)
"""


class World:
    """The places, and who watches them."""

    def __init__(self) -> None:
        assert is_inside(), "this is a machine that somebody needs"
        self.mark: Final = f"treadle-escape-{secrets.token_hex(6)}"
        self.canary: Final = f"canary{secrets.token_hex(12)}"
        self.survivor: Final = f"{self.mark}-survivor"
        # No sandbox replaces this folder by an empty one, unlike those under /tmp.
        self.base: Final = Path(tempfile.mkdtemp(prefix="treadle-escape-", dir=ROOM))
        self.tmp: Final = Path(tempfile.mkdtemp(prefix="treadle-escape-", dir="/tmp"))
        self.home: Final = self.base / "home"
        self.workspace: Final = self.home / "ws é 1"
        self.outside: Final = self.base / "outside"
        self.hidden: Final = (str(self.base / "state"),)
        self.boxes: Final[dict[str, Sandbox]] = {}
        self._sockets: Final[list[socket.socket]] = []
        self._victim: subprocess.Popen[bytes] | None = None
        self._places: Final[dict[str, str]] = {}
        self._segment: Final = secrets.randbelow(2**30) + 1
        self._build()

    def _build(self) -> None:
        for name in _SECRETS:
            self._write(name, f"{self.canary}\n")
        for name, text in _PLAIN.items():
            self._write(name, text)
        (self.home / ".local/bin/tool").chmod(0o755)
        (self.tmp / "secret").write_text(self.canary)
        (self.tmp / "file").write_text("outside\n")
        Path("/dev/shm", self.mark).write_text(self.canary)
        os.mkfifo(self.outside / "pipe")
        workspace = self.workspace
        (workspace / "link_to_file").symlink_to(self.outside / "file")
        (workspace / "link_to_folder").symlink_to(self.outside)
        (workspace / "link_to_key").symlink_to(self.home / ".ssh/id_ed25519")
        self._write("outside/linked", "outside\n")
        os.link(self.outside / "linked", workspace / "hard_link")
        for folder in (".", "sub", "we\nird \u202e"):
            shutil.copytree(_template(), workspace / folder / ".git")
        shutil.copytree(_template(), workspace / ".git/modules/module")
        (workspace / "module").mkdir()
        (workspace / "module/.git").write_text("gitdir: ../.git/modules/module\n")
        self._listen()
        self._make_segment()
        # As of a runtime that forgot to close something.
        self._fds = [os.open(at, os.O_RDONLY) for at in (self.outside, self.outside / "secret")]
        for fd in self._fds:
            os.set_inheritable(fd, True)
        self._names = {path.name for path in self.workspace.iterdir()}

    def _write(self, name: str, text: str) -> None:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _make_segment(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        number = libc.shmget(self._segment, 4096, 0o1600)
        libc.shmat.restype = ctypes.c_void_p
        at = libc.shmat(number, None, 0)
        ctypes.memmove(at, self.canary.encode(), len(self.canary))
        libc.shmdt(ctypes.c_void_p(at))
        self._segment_number = number

    def _listen(self) -> None:
        def listen(family: int, kind: int, address: object) -> str:
            one = socket.socket(family, kind)
            one.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                one.listen(16)
            one.setblocking(False)
            self._sockets.append(one)
            return str(one.getsockname()[1]) if family != socket.AF_UNIX else str(address)

        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        run = Path("/run") if os.access("/run", os.W_OK) else self.tmp
        agent = self.tmp / "ssh-agent"
        self._places.update(
            TCP=listen(socket.AF_INET, stream, ("127.0.0.1", 0)),
            TCP6=listen(socket.AF_INET6, stream, ("::1", 0)),
            UDP=listen(socket.AF_INET, datagram, ("127.0.0.1", 0)),
            AGENT=listen(socket.AF_UNIX, stream, str(agent)),
            RUN_SOCKET=listen(socket.AF_UNIX, stream, str(run / f"{self.mark}.sock")),
        )
        for path in (self.home / "agent.sock", self.tmp / "s", self.outside / "s"):
            listen(socket.AF_UNIX, stream, str(path))
        listen(socket.AF_UNIX, stream, f"\0{self.mark}")
        listen(socket.AF_UNIX, datagram, f"\0{self.mark}d")

    @property
    def victim(self) -> int:
        """The number of a process outside; it notes the signals that it gets."""
        if self._victim is None:
            is_up = self.base / "victim-is-up"
            program = SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else sys.executable
            self._victim = subprocess.Popen(
                [
                    *(program, "-I", "-S", "-c", _VICTIM, self.outside / "signals", is_up),
                    *(self.canary, f"{self.mark}-victim"),
                ],
                cwd=self.outside / "victims",
                env={"CANARY": self.canary, "SECRET_IN_ENVIRONMENT": self.canary},
                start_new_session=True,
                stdout=subprocess.PIPE,
            )
            ends = time.monotonic() + WAIT_S
            while not is_up.exists() and time.monotonic() < ends:
                os.sched_yield()
        return self._victim.pid

    def tell_places(self, command: str) -> None:
        """Write what a probe reads first: where everything is, and how to say that it got there."""
        words = [f"export {name}={shlex.quote(at)}" for name, at in self._all(command).items()]
        words.append("hit() { printf 'REA%s\\n' CHED; }")
        (self.workspace / "places").write_text("\n".join(words) + "\n")

    def tidy(self) -> None:
        """Remove what the last probe has left in the workspace, and forget who called."""
        for path in self.workspace.iterdir():
            if path.name not in self._names:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self.callers()

    def _all(self, command: str) -> dict[str, str]:
        found = {
            **self._places,
            "PY": SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else sys.executable,
            "OUT": str(self.outside),
            "OUT_QUOTED": f"'{self.outside}'",
            "WS": str(self.workspace),
            "HOME_": str(self.home),
            "TMP_OUT": str(self.tmp),
            "HIDDEN": self.hidden[0],
            "PREFIX": sys.prefix,
            "MARK": self.mark,
            "SURVIVOR": self.survivor,
            "RUNTIME": str(os.getpid()),
            "SHM_KEY": str(self._segment),
            "PID_NAMESPACE": str(Path("/proc/self/ns/pid").readlink()),
        }
        if "VICTIM" in command or "victim" in command:
            found["VICTIM"] = str(self.victim)
        return found

    def environment(self, *, is_loader_noted: bool) -> dict[str, str]:
        """What the runtime of a person in this world has in its environment.

        With `is_loader_noted` every program that is started outside with all of it leaves a file.
        """
        noted = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(self.outside / "loader")}
        return {
            **(noted if is_loader_noted else {}),
            "HOME": str(self.home),
            "PATH": f"{self.home}/.local/bin:{os.environ['PATH']}",
            "SSH_AUTH_SOCK": self._places["AGENT"],
            "MY_API_KEY": self.canary,
        }

    def snapshot(self, *, is_put_back: bool = False) -> dict[str, object]:
        """All that a command must not change, by name.

        With `is_put_back` times and what was put aside do not count in the workspace: there a
        sandbox that cannot shut files gives them their content back.
        """
        found: dict[str, object] = {}
        for top in (self.base, self.tmp):
            found.update(_tree(top, without=self.workspace))
        for top in (self.workspace / ".treadle", *self._git_parts()):
            for name, facts in _tree(top):
                if not is_put_back:
                    found[name] = facts
                elif not name.endswith(".put-aside"):
                    found[name] = (*facts[:4], *facts[5:])
        for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/dev", "/usr/local/bin"):
            found.update((str(name), "") for name in Path(folder).glob(f"*{self.mark}*"))
        found.update((str(name), "") for name in Path(sys.prefix).glob(f"*{self.mark}*"))
        found["mounts"] = Path("/proc/self/mountinfo").read_text().count(str(self.base))
        found["name"] = os.uname().nodename
        return found

    def _git_parts(self) -> Iterator[Path]:
        workspace = self.workspace
        for folder in (".git", "sub/.git", "we\nird \u202e/.git", ".git/modules/module"):
            yield workspace / folder / "hooks"
            yield workspace / folder / "config"
            yield workspace / folder / "commondir"

    def use_git(self) -> None:
        """What a person does in the workspace after the command, with every hook and setting."""
        for folder in (
            self.workspace,
            self.workspace / "sub",
            self.workspace / "we\nird \u202e",
            self.workspace / "module",
        ):
            if not folder.is_dir():
                continue
            for arguments in (["status", "--short"], ["commit", "--allow-empty", "-qm", "x"]):
                subprocess.run(
                    ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
                    cwd=folder,
                    capture_output=True,
                    check=False,
                    env={
                        "PATH": os.environ["PATH"],
                        "HOME": str(self.base),
                        "OUT": str(self.outside),
                        "GIT_CONFIG_GLOBAL": "/dev/null",
                    },
                )

    def callers(self) -> int:
        """How many have come to a listener since the last time."""
        count = 0
        for one in self._sockets:
            with suppress(BlockingIOError):
                while True:
                    if one.type == socket.SOCK_STREAM:
                        one.accept()[0].close()
                    else:
                        one.recv(100)
                    count += 1
        return count

    def harm_to_victim(self) -> str:
        """What was done to the process outside, if it was started."""
        if self._victim is None:
            return ""
        if self._victim.poll() is not None:
            return "the process outside was ended"
        return "the process outside was stopped" if self._state_of_victim() in "Tt" else ""

    def settle(self) -> None:
        """Wait until the process outside has taken note of every signal that it was sent."""
        if self._victim is None or self._state_of_victim() in "TtZX":
            return
        assert self._victim.stdout is not None
        with suppress(ProcessLookupError):
            self._victim.send_signal(34)  # those of lower numbers come first
        if select.select([self._victim.stdout], [], [], WAIT_S)[0]:
            os.read(self._victim.stdout.fileno(), 1)

    def _state_of_victim(self) -> str:
        assert self._victim is not None
        try:
            words = Path(f"/proc/{self._victim.pid}/stat").read_text()
        except OSError:
            return "X"
        return words.rpartition(")")[2].split()[0]

    def survivors(self) -> list[int]:
        """Processes of a command that is over."""
        return [pid for pid in _processes() if self.survivor.encode() in _arguments(pid)]

    def is_told(self, output: str) -> bool:
        """Whether a secret stands in an output, in whatever form a probe may have given it."""
        import base64

        raw = f"{self.canary}\n".encode()
        forms = (self.canary, base64.b64encode(raw).decode()[:-4], raw.hex(), self.canary[::-1])
        return any(form in output for form in forms)

    def close(self) -> None:
        """Tear everything down."""
        if self._victim is not None:
            self._victim.kill()
            self._victim.communicate()
        for pid in self.survivors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for one in self._sockets:
            one.close()
        for fd in self._fds:
            os.close(fd)
        ctypes.CDLL(None).shmctl(self._segment_number, 0, None)
        for folder in (
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/run",
            "/etc",
            "/dev",
            "/usr/local/bin",
            sys.prefix,
        ):
            for path in Path(folder).glob(f"*{self.mark}*"):
                with suppress(OSError):
                    path.unlink()
        for top in (self.base, self.tmp):
            shutil.rmtree(top, ignore_errors=True)


@contextmanager
def a_world() -> Iterator[World]:
    """One, gone afterwards with all that was left in it."""
    world = World()
    try:
        yield world
    finally:
        world.close()


_templates: Final[list[Path]] = []


def _template() -> Path:
    """A git folder with one commit, made once."""
    if not _templates:
        folder = Path(tempfile.mkdtemp(prefix="treadle-template-"))
        for arguments in (
            ["init", "-q", "-b", "main", "--template=", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"],
        ):
            environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null"}
            subprocess.run(["git", *arguments], cwd=folder, check=True, env=environment)
        (folder / ".git/hooks").mkdir()
        (folder / ".git/hooks/kept.sample").write_text("#!/bin/sh\n")
        _templates.append(folder)
    return _templates[0] / ".git"


def forget_template() -> None:
    """Remove what the worlds were copied from."""
    while _templates:
        shutil.rmtree(_templates.pop())


def _tree(top: Path, without: Path | None = None) -> Iterator[tuple[str, tuple[object, ...]]]:
    paths = [top]
    while paths:
        path = paths.pop()
        try:
            at = path.lstat()
            attributes = tuple(os.listxattr(path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            continue
        facts: list[object] = [at.st_mode, at.st_uid, at.st_gid, attributes]
        if stat.S_ISDIR(at.st_mode):
            if path != without:
                paths.extend(path.iterdir())
        elif stat.S_ISREG(at.st_mode):
            facts += [at.st_mtime_ns, hashlib.sha256(path.read_bytes()).digest()]
        elif stat.S_ISLNK(at.st_mode):
            facts.append(str(path.readlink()))
        yield str(path), tuple(facts)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208  faster


def _arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
