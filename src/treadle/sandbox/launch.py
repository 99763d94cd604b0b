"""How a confined command is started: descriptors, arguments, and what comes back."""

from __future__ import annotations

import importlib.util
import marshal
import os
import platform
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.process.termination import MARK
from treadle.sandbox import landlock, seccomp
from treadle.sandbox.bubblewrap import Mounts, make_options
from treadle.sandbox.groups import JOIN, make_group, remove_group
from treadle.sandbox.policy import Limits
from treadle.sandbox.seatbelt import make_profile

_REPORT_SIZE_MAX: Final = 65536
ENVIRONMENT: Final[Mapping[str, str]] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
"""What bubblewrap and the launcher themselves are started with."""


class Backend(Struct, frozen=True):
    """What holds commands here: `bubblewrap`, `landlock`, `seatbelt`, or nothing: an empty `name`.

    `program` is the path of bubblewrap or of `sandbox-exec`; `version` that of bubblewrap or
    Landlock. `why_not` says why bubblewrap, or nothing at all, works here.
    """

    name: str = ""
    program: str = ""
    version: tuple[int, ...] = ()
    why_not: str = ""

    def describe(self) -> str:
        """What holds commands, and what it does not hold, in words."""
        if self.name == "bubblewrap":
            return self.name
        if self.name == "seatbelt":
            return "Seatbelt, never tried by us; not held: memory, number of processes"
        still_open = "names, modes and times of files outside"
        if self.version[0] < landlock.ABI_OF_SIGNALS:
            still_open += ", signals to other programs"
        return f"Landlock and seccomp; not held: {still_open}"


class Order(Struct, frozen=True):
    """A command to be started: the program with its arguments, all else it gets, its bounds.

    One that `only_reads` changes nothing but what is gone afterwards.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    limits: Limits = Limits()
    has_network: bool = False
    only_reads: bool = False


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """How it went: see `launcher.py`. With neither of the first two, nothing ran."""

    started: bool = False
    failed: str = ""
    code: int | None = None
    left: int = 0
    limit: str = ""


class Prepared:
    """A command to be started as `argv` with `env` and `pass_fds`; `close` when it is over."""

    def __init__(
        self,
        backend: Backend,
        mounts: Mounts,
        order: Order,
        data: Mapping[str, bytes] | None = None,
    ) -> None:
        self._fds: list[int] = []
        # One more than the launcher lets there be, and the two that are not of the command.
        is_seatbelt = backend.name == "seatbelt"
        has_group = os.getuid() == 0 and not is_seatbelt
        self._group = make_group(order.limits.processes_max + 3) if has_group else None
        self._report_fd, far_end = os.pipe()
        self._fds.append(far_end)
        os.set_blocking(self._report_fd, False)
        try:
            if is_seatbelt:
                argv = _confine_by_seatbelt(backend, mounts, order, far_end)
            else:
                argv = self._make(backend, mounts, order, data or {}, far_end)
        except BaseException:
            self.close()
            raise
        self.argv: Final = argv if self._group is None else [*JOIN, self._group, *argv]
        self.env: Final = order.env if is_seatbelt else ENVIRONMENT
        self.pass_fds: Final = tuple(self._fds)

    def report(self) -> Report:
        """What the launcher has said so far."""
        said: dict[str, str] = {}
        with suppress(OSError):
            text = os.read(self._report_fd, _REPORT_SIZE_MAX).decode(errors="replace")
            said = {
                name: value
                for name, _, value in (line.partition(" ") for line in text.split("\n"))
                if name
            }
        try:
            return msgspec.convert(said, Report, strict=False)
        except msgspec.ValidationError:
            return Report()

    def close(self) -> None:
        """Give everything back; more than once does no harm."""
        if self._group is not None:
            remove_group(self._group)
            self._group = None
        for fd in (*self._fds, self._report_fd):
            with suppress(OSError):
                os.close(fd)
        self._fds, self._report_fd = [], -1

    def _make(
        self,
        backend: Backend,
        mounts: Mounts,
        order: Order,
        data: Mapping[str, bytes],
        report_fd: int,
    ) -> list[str]:
        is_bubblewrap = backend.name == "bubblewrap"
        code = seccomp.make_filter(
            os.uname().machine,
            families(
                is_bubblewrap=is_bubblewrap,
                has_network=order.has_network,
                only_reads=order.only_reads,
            ),
            has_own_ipc=is_bubblewrap,
            outside=_outside(backend) if order.only_reads else seccomp.OPEN,
        )
        told = {
            "argv": order.argv,
            "env": dict(order.env),
            "cwd": order.cwd,
            "is_init": is_bubblewrap,
            "mark": MARK,
            "file_size": order.limits.file_size_max,
            "processes": order.limits.processes_max,
            "limits_processes": os.getuid() != 0 and (not is_bubblewrap or _counts_by_namespace()),
            "memory": order.limits.memory_size_max,
            "disk": order.limits.disk_growth_max,
            "scratch": mounts.scratch if is_bubblewrap else (),
            "written": mounts.writable,
            "landlock": _landlock_rules(backend, mounts, order),
            # Bubblewrap lays it on the launcher already.
            "seccomp": b"" if is_bubblewrap else code,
        }
        order_fd = self._keep(marshal.dumps(told))
        # Its file may lie where the command cannot see it.
        program = f"/proc/self/fd/{self._keep(_launcher())}"
        launcher = [_interpreter(), "-I", "-S", program, str(order_fd), str(report_fd)]
        if not is_bubblewrap:
            return launcher
        mounts = msgspec.structs.replace(
            mounts, data=tuple((self._keep(text), path) for path, text in data.items())
        )
        options = make_options(
            mounts,
            has_network=order.has_network,
            seccomp_fd=self._keep(code),
            version=backend.version,
        )
        # Not as arguments: there can be many, and everybody sees those.
        options_fd = self._keep(
            "".join(f"{option}\0" for option in options).encode(errors="surrogateescape")
        )
        return [backend.program, "--args", str(options_fd), "--", *launcher]

    def _keep(self, data: bytes) -> int:
        fd = os.memfd_create("treadle", 0)
        self._fds.append(fd)
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd


def _landlock_rules(backend: Backend, mounts: Mounts, order: Order) -> dict[str, Any] | None:
    """What Landlock lets a command do; `None` if nothing is for it to hold.

    A mount that is read-only keeps nobody from writing into a pipe that has a name. So where
    bubblewrap holds a command that only reads, Landlock holds it too, if the kernel has it.
    """
    if backend.name != "bubblewrap":
        return landlock.make_rules(mounts, backend.version[0])
    version = landlock.abi() if order.only_reads else 0
    return landlock.make_write_rules(mounts, version) if version >= landlock.ABI_MIN else None


def _outside(backend: Backend) -> seccomp.Outside:
    """What the filter has to keep a command that only reads from, as nothing else does."""
    if backend.name == "bubblewrap":
        return seccomp.OPEN
    has_scopes = backend.version[0] >= landlock.ABI_OF_SIGNALS
    return seccomp.UNCHANGED if has_scopes else seccomp.UNCHANGED_AND_UNSIGNALLED


def _confine_by_seatbelt(
    backend: Backend, mounts: Mounts, order: Order, report_fd: int
) -> list[str]:
    profile = make_profile(_resolve_links(mounts), has_network=order.has_network)
    launcher = [_interpreter(), "-I", "-S", "-c", _seatbelt_launcher(), str(report_fd)]
    held = [backend.program, "-p", profile, *order.argv]
    return [*launcher, order.cwd, str(order.limits.file_size_max), *held]


def _resolve_links(mounts: Mounts) -> Mounts:
    """Bubblewrap follows links in what is mounted; a rule is compared with where they lead."""
    seen = dict.fromkeys(one for path in mounts.readable for one in (path, os.path.realpath(path)))
    return msgspec.structs.replace(mounts, readable=tuple(seen))


def families(
    *, is_bubblewrap: bool, has_network: bool, only_reads: bool = False
) -> tuple[int, ...]:
    """The socket families of a command.

    One that only reads gets none in the file system, however it is held: a program that listens
    there under a name of which the kernel does not say the folder could do something lasting for
    it. (Pairs of sockets need no family.)

    Bubblewrap gives it a file system of its own, which hides others' sockets, and without the
    network a loopback of its own, on which nobody else listens: programs may look at its addresses
    too. Landlock gives it neither.
    """
    own = (seccomp.AF_UNIX,) if is_bubblewrap and not only_reads else ()
    is_open = is_bubblewrap or has_network
    internet = (seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK) if is_open else ()
    return (*own, *internet)


def _interpreter() -> str:
    return os.path.realpath(sys.executable)


@cache
def _launcher() -> bytes:
    """The program as an interpreter keeps it, so that it is compiled once and not each time."""
    path = Path(__file__).with_name("launcher.py")
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


@cache
def _seatbelt_launcher() -> str:
    return Path(__file__).with_name("seatbelt_launcher.py").read_text(encoding="utf-8")


def _counts_by_namespace() -> bool:
    """Whether the kernel counts a user's processes by user namespace. Those of root never count."""
    return [int(number) for number in re.findall(r"\d+", platform.release())[:2]] >= [5, 14]
