"""A machine to throw away, in which everything in this folder runs: probes do real harm.

It is made of namespaces. Its disk is that of this machine with a layer on top which takes every
change and is gone afterwards. Its devices are the harmless ones, its processes, network, memory
segments and name are its own, and root has no powers in it that lead out: `umount`, `rm -rf /`
and `kill -9 -1` do not reach the machine of who runs the tests. One thing remains: root may write
to `/proc/sys`, so a probe only opens what lies there.

As a program, it is what `unshare` starts: it makes the machine, and is its first process. It runs
nothing if anything of that fails.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

SIGN: Final = "/run/inside-a-treadle-test-machine"
"""Stands in such a machine, and nowhere else: /run is its own."""
ROOM: Final = "/srv"
"""A folder for everybody, in memory."""
NOBODY: Final = 65534
STAND_INS: Final = ("mem", "kmem", "port", "kvm", "fuse", "kmsg", "vda", "sda", "loop0")
"""Plain files in the place of devices that a probe would like to open."""
PROCESSES_MAX: Final = 4000
END_S_MAX: Final = 60.0
FIRST_PID: Final = 20_000
MEMORY_SIZE_MAX: Final = 16 * 2**30
"""Address space of each process, bytes."""

_RDONLY, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 4, 32, 4096, 16384, 1 << 18
_DETACH: Final = 2
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_NEW_NAMESPACES: Final = 0x00020000 | 0x10000000  # of mounts, of users
_DROP_CAPABILITY: Final = 24
_POWERS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 18, 19, 23, 24, 27, 31)
"""Of root, in there: files, signals, users, chroot, ptrace, mknod, raw sockets; not SYS_ADMIN."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def is_inside() -> bool:
    """Whether this process runs in such a machine."""
    return Path(SIGN).exists()


class Machine:
    """One, with a program running in it.

    Args:
        argv: the program, by its whole path.
        user: number of who runs it, where root makes the machine; else it is who runs the tests.
        fds: descriptors that it gets.
    """

    def __init__(
        self,
        argv: list[str],
        *,
        cwd: str,
        env: dict[str, str] | None = None,
        user: int = 0,
        fds: tuple[int, ...] = (),
        needed: tuple[str, ...] = (),
    ) -> None:
        self._folder: Final = tempfile.mkdtemp(prefix="treadle-machine-")
        self._group: Final = _make_group()
        self.said: Final[IO[bytes]] = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        order = {
            "argv": argv,
            "cwd": cwd,
            "user": user,
            "folder": self._folder,
            "group": self._group,
            "outer_mounts": os.readlink("/proc/self/ns/mnt"),  # noqa: PTH115  the words
            "owner": [os.getuid(), os.getgid()],
            "fds": fds,
            "needed": [cwd, sys.prefix, sys.base_prefix, *needed],
        }
        options = ["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net"]
        options += [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        program = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), json.dumps(order)]
        self.process: Final = subprocess.Popen(
            ["unshare", *options, "--", *program],
            env=dict(os.environ) if env is None else env,
            stdin=subprocess.DEVNULL,
            stdout=self.said,
            stderr=subprocess.STDOUT,
            pass_fds=fds,
            start_new_session=True,
        )

    def close(self) -> str:
        """End everything in it; what was said there."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        first = task.read_text().split() if self.process.poll() is None else []
        fds = [os.pidfd_open(int(pid)) for pid in first]
        self.process.kill()
        self.process.wait()
        for fd in fds:  # when the first process of the machine has gone, all others have
            select.select([fd], [], [], END_S_MAX)
            os.close(fd)
        self.said.seek(0)
        words = self.said.read().decode(errors="replace")
        self.said.close()
        with suppress(OSError):
            Path(self._folder).rmdir()
        if self._group:
            _remove_group(Path(self._group))
        return words


def _make_group() -> str:
    """A control group that bounds how many processes there can be; nothing where there is none."""
    group = Path("/sys/fs/cgroup/pids", f"machine-{os.getpid()}-{os.urandom(3).hex()}")
    try:
        group.mkdir()
        (group / "pids.max").write_text(str(PROCESSES_MAX))
    except OSError:
        return ""
    return str(group)


def _remove_group(group: Path) -> None:
    for part in sorted([group, *filter(Path.is_dir, group.rglob("*"))], reverse=True):
        with suppress(OSError):
            part.rmdir()


# ---- inside ------------------------------------------------------------------------------------


def main() -> None:
    """Make the machine, run the program in it, wait for it."""
    order = json.loads(sys.argv[1])
    if os.readlink("/proc/self/ns/mnt") == order["outer_mounts"] or os.getpid() != 1:  # noqa: PTH115
        raise SystemExit("this is not a machine of its own")
    _build(order)
    if not is_inside():
        raise SystemExit("the machine was not made")
    _raise_loopback()
    # Small numbers are those of processes in a sandbox: a probe would take one for another.
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(FIRST_PID))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_SIZE_MAX, MEMORY_SIZE_MAX))
    _become(order)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.execv(order["argv"][0], order["argv"])
    for fd in order["fds"]:
        os.close(fd)
    while True:
        pid, status = os.wait()
        if pid == child:
            raise SystemExit(os.waitstatus_to_exitcode(status) % 256)


def _build(order: dict[str, Any]) -> None:
    folder = order["folder"]
    _mount("none", "/", "", _REC | _PRIVATE)
    others = [at for at in _mount_points() if at != "/" and _is_needed(at, order["needed"])]
    _mount("tmpfs", folder, "tmpfs", _NODEV, "mode=755,size=2g")
    new = f"{folder}/root"
    _lay(folder, "/", new)
    for at in others:
        _lay(folder, at, new + at)
    for at, mode in ((ROOM, "1777"), ("/run", "755"), ("/dev", "755")):
        os.makedirs(new + at, exist_ok=True)  # noqa: PTH103
        _mount("tmpfs", new + at, "tmpfs", _NODEV, f"mode={mode},size=1g")
    _make_devices(f"{new}/dev")
    _mount("/sys", f"{new}/sys", "", _BIND | _REC)
    for at in _mount_points():
        if at.startswith(f"{new}/sys"):
            _mount("none", at, "", _BIND | _REMOUNT | _RDONLY)
    if order["group"]:
        _mount(order["group"], f"{new}/sys/fs/cgroup/pids", "", _BIND)
        Path(order["group"], "cgroup.procs").write_text("0")
    _mount("proc", f"{new}/proc", "proc", 0)
    Path(new + SIGN).touch()
    if order["user"]:
        for path in order["needed"]:
            for above in Path(path).parents:
                there = Path(f"{new}{above}")
                if there.stat().st_mode & 0o5 != 0o5:
                    there.chmod(there.stat().st_mode | 0o5)
    os.chdir(new)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount2")
    os.chdir(order["cwd"])


def _lay(folder: str, lower: str, at: str) -> None:
    """Put what is at `lower` to `at`, with a layer that takes the changes."""
    layers = tempfile.mkdtemp(dir=folder)
    for name in "upper", "work":
        Path(layers, name).mkdir()
    os.makedirs(at, exist_ok=True)  # noqa: PTH103
    os.chdir(lower)
    is_root = Path("/proc/self/uid_map").read_text().split()[2] == "4294967295"
    options = f"lowerdir=.,upperdir={layers}/upper,workdir={layers}/work"
    options += "" if is_root else ",userxattr"
    Path(layers, "upper").chmod(Path(lower).stat().st_mode & 0o7777)
    _mount("overlay", at, "overlay", _NODEV, options)


def _make_devices(new: str) -> None:
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        Path(new, name).touch()
        _mount(f"/dev/{name}", f"{new}/{name}", "", _BIND)
    for name in ("pts", "shm"):
        Path(new, name).mkdir()
    _mount("devpts", f"{new}/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    _mount("tmpfs", f"{new}/shm", "tmpfs", _NODEV, "mode=1777,size=256m")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd"}
    links |= {name: f"/proc/self/fd/{number}" for number, name in enumerate(_STREAMS)}
    for name, to in links.items():
        Path(new, name).symlink_to(to)
    for name in STAND_INS:
        Path(new, name).touch(mode=0o600)


_STREAMS: Final = ("stdin", "stdout", "stderr")


def _become(order: dict[str, Any]) -> None:
    """Give up what leads out of here."""
    uid, gid = order["owner"]
    if uid != 0:
        _check(_libc.unshare(_NEW_NAMESPACES), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} 0 1")
        Path("/proc/self/gid_map").write_text(f"{gid} 0 1")
        return
    for capability in range(64):
        if capability not in _POWERS:
            _libc.prctl(_DROP_CAPABILITY, ctypes.c_ulong(capability), 0, 0, 0)
    held = next(
        int(line.split()[1], 16)
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("CapPrm:")
    )
    low = held & sum(1 << capability for capability in _POWERS)
    header = struct.pack("<Ii", 0x20080522, 0)
    _check(_libc.capset(header, struct.pack("<6I", low, low, 0, 0, 0, 0)), "capset")
    if order["user"]:
        os.setgroups([])
        os.setgid(order["user"])
        os.setuid(order["user"])


def _mount_points() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4].encode().decode("unicode_escape") for line in lines]


def _is_needed(at: str, needed: list[str]) -> bool:
    places = [*needed, "/usr", "/etc", "/bin", "/home", "/tmp", "/opt"]
    return any(place == at or place.startswith(f"{at}/") for place in places)


def _mount(what: str, at: str, kind: str, flags: int, options: str = "") -> None:
    arguments = (part.encode() or None for part in (what, at, kind))
    result = _libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None)
    _check(result, f"mount {what} at {at}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, struct.pack("16sh22x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def find_unshare() -> str | None:
    """The program that makes namespaces."""
    return shutil.which("unshare")


if __name__ == "__main__":
    main()
