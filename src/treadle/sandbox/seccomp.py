"""The system calls a confined command may not make, as a program for the kernel's filter. Pure.

What is denied fails with EPERM, so that programs that try it go on without; `clone3`, whose flags
a filter cannot see, is said not to exist, and the C library falls back to `clone`. A call in
another binary interface than the machine's own (32 bits, x32) kills the caller: its numbers mean
other calls. No file gets a mode that makes it run as its owner, nor a new one as its group: it
would stay behind. (Folders may get that of a group: there it means whose the files in them are.)
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

from msgspec import Struct

AF_UNIX: Final = 1
AF_INET: Final = 2
AF_INET6: Final = 10
AF_NETLINK: Final = 16
"""Programs ask the kernel for the machine's addresses with it before they resolve a name. Nothing
else of it is open: there are many parts of the kernel behind it.
"""

_X86: Final = 0xC000003E
_ARM: Final = 0xC00000B7
_X32: Final = 0x40000000
_NEW_NAMESPACES: Final = 0x7E020080
"""`CLONE_NEW*`: time, mount, cgroup, uts, ipc, user, pid, net."""
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C

_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_AND: Final = 0x54
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_NR: Final = 0
_ARCH: Final = 4

_DENIED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "kcmp": (312, 272),
        "pidfd_getfd": (438, 438),
        "process_madvise": (440, 440),
        "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        "add_key": (248, 217),
        "request_key": (249, 218),
        "keyctl": (250, 219),
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fspick": (433, 433),
        "mount_setattr": (442, 442),
        "open_tree_attr": (467, 467),
        "unshare": (272, 97),
        "setns": (308, 268),
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "open_by_handle_at": (304, 265),
        "fanotify_init": (300, 262),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "reboot": (169, 142),
        "acct": (163, 89),
        "syslog": (103, 116),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "vhangup": (153, 58),
        "lookup_dcookie": (212, 18),
    }
)
"""By name, the numbers on x86-64 and on 64-bit ARM."""
_SHARED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "semget": (64, 190),
        "semop": (65, 193),
        "semctl": (66, 191),
        "semtimedop": (220, 192),
        "msgget": (68, 186),
        "msgsnd": (69, 189),
        "msgrcv": (70, 188),
        "msgctl": (71, 187),
        "mq_open": (240, 180),
    }
)
"""Of memory segments, semaphores and queues, which outlive the programs that make them."""
_METADATA: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "chmod": (90, -1),
        "fchmod": (91, 52),
        "fchmodat": (268, 53),
        "fchmodat2": (452, 452),
        "chown": (92, -1),
        "fchown": (93, 55),
        "lchown": (94, -1),
        "fchownat": (260, 54),
        "utime": (132, -1),
        "utimes": (235, -1),
        "futimesat": (261, -1),
        "utimensat": (280, 88),
        "setxattr": (188, 5),
        "lsetxattr": (189, 6),
        "fsetxattr": (190, 7),
        "setxattrat": (463, 463),
        "removexattr": (197, 14),
        "lremovexattr": (198, 15),
        "fremovexattr": (199, 16),
        "removexattrat": (466, 466),
        "file_setattr": (469, 469),
        "setpriority": (141, 140),
        "ioprio_set": (251, 30),
    }
)
"""Of modes, owners, times and attributes of files, and of how fast other programs run: Landlock
does not know of them."""
_OF_ANOTHER: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "prlimit64": (302, 261),
        "sched_setaffinity": (203, 122),
        "sched_setscheduler": (144, 119),
        "sched_setparam": (142, 118),
        "sched_setattr": (314, 274),
    }
)
"""The same; their first argument is a program, and 0 the caller itself."""
_SIGNALS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "kill": (62, 129),
        "tkill": (200, 130),
        "tgkill": (234, 131),
        "rt_sigqueueinfo": (129, 138),
        "rt_tgsigqueueinfo": (297, 240),
        "pidfd_send_signal": (424, 424),
    }
)
_FCNTL: Final = (72, 25)
_SET_OWNER: Final = (8, 15)
"""`F_SETOWN` and `F_SETOWN_EX`, whom the kernel signals."""
_OLD_IOCTL: Final = 0xFFFFFF00
_TERMINALS, _SOCKETS = 0x5400, 0x8900
"""The numbers of terminals, with those of all descriptors, and of sockets."""
_SET_OWNER_IOCTL: Final = (0x8901, 0x8902)
_IOCTLS: Final = (
    0x802C542A,  # TCGETS2
    0x80086601,  # FS_IOC_GETFLAGS
    0x801C581F,  # FS_IOC_FSGETXATTR
    0xC020660B,  # FS_IOC_FIEMAP
    0x40049409,  # FICLONE: the file that it writes is open for that
    0x4020940D,  # FICLONERANGE
)
"""All others may change a file that is open for reading, or make a new one, by the file system."""
_DENIED_X86: Final = (172, 173, 174, 177, 178, 180)
"""`iopl`, `ioperm` and what is left of old module and NFS calls."""
_OTHERS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "clone": (56, 220),
        "clone3": (435, 435),
        "openat2": (437, 437),
        "socket": (41, 198),
        "ioctl": (16, 29),
    }
)
_CHANGE_MODE: Final[Mapping[str, tuple[int, int, int]]] = MappingProxyType(
    {
        "chmod": (90, -1, 1),
        "fchmod": (91, 52, 1),
        "fchmodat": (268, 53, 2),
        "fchmodat2": (452, 452, 2),
    }
)
"""By name, the numbers of calls that take a mode (-1: there is none), and which argument it is."""
_MAKE_FILE: Final[Mapping[str, tuple[int, int, int]]] = MappingProxyType(
    {"creat": (85, -1, 1), "mknod": (133, -1, 1), "mknodat": (259, 33, 2)}
)
_OPEN: Final[Mapping[str, tuple[int, int, int]]] = MappingProxyType(
    {"open": (2, -1, 2), "openat": (257, 56, 3)}
)
"""The argument before the mode says whether there is one: else anything may stand there."""
_MAKES: Final = 0o100 | 0o20000000
"""`O_CREAT` and `O_TMPFILE`."""
_AS_OWNER, _AS_GROUP = 0o4000, 0o2000
_WITH_MODE: Final = {**_CHANGE_MODE, **_MAKE_FILE, **_OPEN}
_MODE_BITS: Final = {
    **dict.fromkeys(_CHANGE_MODE, _AS_OWNER),
    **dict.fromkeys((*_MAKE_FILE, *_OPEN), _AS_OWNER | _AS_GROUP),
}
"""Which bits of a mode each must not have."""
_NO_CALL: Final = -1
_ROUTES: Final = 0
"""The part of `AF_NETLINK` that knows addresses."""

MACHINES: Final[Mapping[str, int]] = MappingProxyType({"x86_64": 0, "aarch64": 1})
"""The machines there is a table for, as `os.uname` calls them, with its column."""


class Outside(Struct, frozen=True):
    """What a filter does for what lies outside, where nothing else does it.

    With `keeps_metadata` it keeps modes, owners, times and attributes of files, and how programs
    run; with `denies_signals` no program is signalled.
    """

    keeps_metadata: bool = False
    denies_signals: bool = False


OPEN: Final = Outside()
UNCHANGED: Final = Outside(keeps_metadata=True)
UNCHANGED_AND_UNSIGNALLED: Final = Outside(keeps_metadata=True, denies_signals=True)


def make_filter(
    machine: str,
    families: Iterable[int],
    *,
    has_own_ipc: bool = True,
    outside: Outside = OPEN,
) -> bytes:
    """The filter as `--seccomp` of bubblewrap and `prctl(PR_SET_SECCOMP)` take it.

    Args:
        machine: a key of `MACHINES`.
        families: the socket families that may be opened; pairs of sockets always may.
        has_own_ipc: whether segments and queues are in a namespace that ends with the command;
            otherwise they would stay, and those of others be open, so there are none.
        outside: what else it keeps from being changed; inside of the scratch folder too, as it
            cannot see which file is meant.
    """
    column = MACHINES[machine]
    code: list[bytes] = []

    def add(op: int, value: int, when_true: int = 0, when_false: int = 0) -> None:
        code.append(struct.pack("=HBBI", op, when_true, when_false, value))

    def deny(number: int) -> None:
        add(_JUMP_EQUAL, number, 0, 1)
        add(_RETURN, _fails_with(errno.EPERM))

    add(_LOAD, _ARCH)
    add(_JUMP_EQUAL, (_X86, _ARM)[column], 1, 0)
    add(_RETURN, _KILL)
    add(_LOAD, _NR)
    if column == 0:
        add(_JUMP_AT_LEAST, _X32, 0, 1)
        add(_RETURN, _KILL)
    denied = [_DENIED, *([] if has_own_ipc else [_SHARED])]
    denied += [_METADATA] if outside.keeps_metadata else []
    denied += [_SIGNALS] if outside.denies_signals else []
    for numbers in chain.from_iterable(table.values() for table in denied):
        if numbers[column] != _NO_CALL:
            deny(numbers[column])
    for number in _DENIED_X86 if column == 0 else ():
        deny(number)
    # Of these the filter cannot see what they ask for.
    for name in ("clone3", "openat2"):
        add(_JUMP_EQUAL, _OTHERS[name][column], 0, 1)
        add(_RETURN, _fails_with(errno.ENOSYS))
    # Each block below is skipped unless its call is made, and otherwise decides.
    add(_JUMP_EQUAL, _OTHERS["clone"][column], 0, 4)
    add(_LOAD, _argument(0))
    add(_JUMP_ANY_BIT, _NEW_NAMESPACES, 0, 1)
    add(_RETURN, _fails_with(errno.EPERM))
    add(_RETURN, _ALLOW)
    for rule in (
        *_rules_of_ioctl(column, outside),
        *_rules_of_others(column, outside),
        *_rules_of_modes(column),
        *_rules_of_sockets(column, families),
    ):
        add(*rule)
    add(_RETURN, _ALLOW)
    return b"".join(code)


def _rules_of_ioctl(column: int, outside: Outside) -> Iterator[tuple[int, ...]]:
    """For the call that can do anything: what is typed into a terminal, and more, is denied."""
    body: list[tuple[int, ...]] = [(_LOAD, _argument(1))]

    def decide(number: int, answer: int) -> None:
        body.extend(((_JUMP_EQUAL, number, 0, 1), (_RETURN, answer)))

    refused = _fails_with(errno.EPERM)
    for number in (_TIOCSTI, _TIOCLINUX, *(_SET_OWNER_IOCTL if outside.denies_signals else ())):
        decide(number, refused)
    if outside.keeps_metadata:
        for number in _IOCTLS:
            decide(number, _ALLOW)
        body.append((_AND, _OLD_IOCTL))
        for number in (_TERMINALS, _SOCKETS):
            decide(number, _ALLOW)
    body.append((_RETURN, refused if outside.keeps_metadata else _ALLOW))
    yield _JUMP_EQUAL, _OTHERS["ioctl"][column], 0, len(body)
    yield from body


def _rules_of_others(column: int, outside: Outside) -> Iterator[tuple[int, ...]]:
    """For calls that name another program: they fail unless they name the caller."""
    for numbers in _OF_ANOTHER.values() if outside.keeps_metadata else ():
        yield _JUMP_EQUAL, numbers[column], 0, 4
        yield _LOAD, _argument(0)
        yield _JUMP_EQUAL, 0, 0, 1
        yield _RETURN, _ALLOW
        yield _RETURN, _fails_with(errno.EPERM)
    if outside.denies_signals:
        yield _JUMP_EQUAL, _FCNTL[column], 0, 5
        yield _LOAD, _argument(1)
        yield _JUMP_EQUAL, _SET_OWNER[0], 1, 0
        yield _JUMP_EQUAL, _SET_OWNER[1], 0, 1
        yield _RETURN, _fails_with(errno.EPERM)
        yield _RETURN, _ALLOW


def _rules_of_modes(column: int) -> Iterator[tuple[int, ...]]:
    """For each call that gives a file a mode: it fails if the mode is not allowed."""
    for name, bits in _MODE_BITS.items():
        number, argument = _WITH_MODE[name][column], _WITH_MODE[name][2]
        if number == _NO_CALL:
            continue
        yield _JUMP_EQUAL, number, 0, 7 if name in _OPEN else 4
        if name in _OPEN:
            yield _LOAD, _argument(argument - 1)
            yield _JUMP_ANY_BIT, _MAKES, 1, 0
            yield _RETURN, _ALLOW
        yield _LOAD, _argument(argument)
        yield _JUMP_ANY_BIT, bits, 0, 1
        yield _RETURN, _fails_with(errno.EPERM)
        yield _RETURN, _ALLOW


def _rules_of_sockets(column: int, families: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """For the call that opens a socket: it fails unless the family is one of these."""
    allowed = tuple(families)
    plain = [family for family in allowed if family != AF_NETLINK]
    netlink_size = 4 if AF_NETLINK in allowed else 0
    yield _JUMP_EQUAL, _OTHERS["socket"][column], 0, 2 + 2 * len(plain) + netlink_size
    yield _LOAD, _argument(0)
    for family in plain:
        yield _JUMP_EQUAL, family, 0, 1
        yield _RETURN, _ALLOW
    if netlink_size:
        yield _JUMP_EQUAL, AF_NETLINK, 0, 3
        yield _LOAD, _argument(2)
        yield _JUMP_EQUAL, _ROUTES, 0, 1
        yield _RETURN, _ALLOW
    yield _RETURN, _fails_with(errno.EPERM)


def _argument(index: int) -> int:
    """Where the lower half of an argument stands; both machines are little-endian."""
    return 16 + 8 * index


def _fails_with(number: int) -> int:
    return 0x00050000 | number
