"""Runs in front of a confined command, as a program of its own: starts it, watches it, reports.

It is of Linux alone: it reads /proc and calls this kernel by its numbers. It is given to an
interpreter by a descriptor (`python -I -S`), and imports nothing of this package. In bubblewrap it
is the first process of the namespace: when it ends, the kernel kills all others. Without bubblewrap
it stays outside of what it lays upon the command: Landlock and the filter.

Its arguments are two descriptors: one with the order, a marshalled `dict`; one that takes the
report, lines of a name and a value: `started 1`, then how it ended: `code` (negative for a signal),
`left` (processes that were still running), `limit` (`processes`, `memory` or `disk`, if it was
ended because of that). `failed` says why it could not be started.

Every command waits for this to start, so it does without modules that take long to import.
"""

# ruff: noqa: PTH115, PTH116, PTH123, PTH208
from __future__ import annotations

import ctypes
import marshal
import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WATCH_S = 0.04
"""Between two looks at what the command uses up: a fork bomb makes some hundreds in that time."""
FILES_EVERY = 5
"""One of so many looks also counts files in memory that have no name: that takes longer."""

_NO_DUMP, _NO_NEW_PRIVILEGES, _SUBREAPER, _SECCOMP, _DROP_CAPABILITY = 4, 38, 36, 22, 24
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Carry out the order; ends with the process."""
    order_fd, report_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(report_fd, False)
    with open(order_fd, "rb") as file:
        order = marshal.load(file)  # noqa: S302  who started this has written it
    # Nothing in the sandbox may write into this process, or hold what it has open.
    _prctl(_NO_DUMP, 0)
    if not order["is_init"]:
        _prctl(_SUBREAPER, 1)
        mark = os.environ.get(order["mark"])
        if mark:
            order["env"][order["mark"]] = mark
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        try:
            _start(order, report_fd)
        except BaseException as error:  # noqa: BLE001  whatever it is, the command must not run
            why = error.strerror if isinstance(error, OSError) else ""
            _report(report_fd, {"failed": why or f"{type(error).__name__}: {error}"})
        finally:
            os._exit(127)
    _close_others(report_fd, 0)
    _report(report_fd, _watch(child, order))
    os._exit(0)


def _start(order: dict[str, Any], report_fd: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    _close_others(report_fd, 3)
    os.chdir(order["cwd"])
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, order["file_size"])
    if order["limits_processes"]:
        # Outside of a namespace of its own, all that this user runs is counted.
        others = 0 if order["is_init"] else _threads_of_user()
        _limit(resource.RLIMIT_NPROC, order["processes"] + others)
    if order["landlock"] is not None:
        for capability in range(64):  # of root; others have none, and may not drop any
            _libc.prctl(_DROP_CAPABILITY, ctypes.c_ulong(capability), 0, 0, 0)
        _prctl(_NO_NEW_PRIVILEGES, 1)
        _restrict(order["landlock"])
    if order["seccomp"]:
        _filter(order["seccomp"])
    _report(report_fd, {"started": 1})
    os.execve(order["argv"][0], order["argv"], order["env"])  # noqa: S606  that is what it is for


def _close_others(fd: int, first: int) -> None:
    os.closerange(first, fd)
    os.closerange(max(first, fd + 1), 65536)


def _limit(kind: int, size: int) -> None:
    hard = resource.getrlimit(kind)[1]
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(kind, (size, size))


def _restrict(order: dict[str, Any]) -> None:
    """Lay Landlock upon this process and all it starts."""
    words = [order["files"], order["network"], order["scoped"]][: order["word_count"]]
    attributes = (ctypes.c_uint64 * len(words))(*words)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    for path, access in order["rules"]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # it has gone since
            continue
        rule = access.to_bytes(8, "little") + fd.to_bytes(4, "little")
        _call(_ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), 0)
        os.close(fd)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _filter(code: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("code", ctypes.c_char_p))

    program = Program(len(code) // 8, code)
    _prctl(_SECCOMP, 2, ctypes.addressof(program))


def _call(number: int, *arguments: Any) -> int:
    whole = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *whole)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(number))
    return result


def _prctl(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *padded) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"prctl {option}")


def _report(fd: int, what: dict[str, Any]) -> None:
    lines = "".join(f"{name} {' '.join(str(value).split())}\n" for name, value in what.items())
    os.write(fd, lines.encode(errors="replace"))


def _watch(child: int, order: dict[str, Any]) -> dict[str, Any]:
    """Until the command has ended, or has used up too much: then nothing of it is left alive."""
    used_before = _disk_use(order["written"])
    look = 0
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, WATCH_S)
        status = _reap(child)
        if order["is_init"] and _count() > order["processes"]:
            # Looking at each would take so long that there are many more afterwards.
            return {"code": -signal.SIGKILL, "left": 0, "limit": "processes"}
        pids = _others(order["is_init"])
        if status is not None:
            if not order["is_init"]:
                _kill_all()
            return {"code": os.waitstatus_to_exitcode(status), "left": len(pids)}
        look += 1
        limit = ""
        if len(pids) > order["processes"]:
            limit = "processes"
        elif _uses_too_much_memory(pids, order, counts_files=look % FILES_EVERY == 0):
            limit = "memory"
        elif _has_grown(used_before, order):
            limit = "disk"
        if limit:
            if not order["is_init"]:
                _kill_all()
            return {"code": -signal.SIGKILL, "left": 0, "limit": limit}


def _count() -> int:
    """How many there are besides the first."""
    return sum(name.isdecimal() for name in os.listdir("/proc")) - 1


def _reap(child: int) -> int | None:
    """The status of the command itself, once it has ended; daemons come here too."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _others(is_init: bool) -> list[int]:
    """Every living process of the command."""
    if is_init:
        return [pid for pid, _ in _processes() if pid != 1]
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        fresh = children.get(todo.pop(), [])
        found += fresh
        todo += fresh
    return found


def _processes() -> list[tuple[int, int]]:
    """Each that lives, with its parent."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                # Its first thread may have ended, and look like a dead process, while others run.
                if fields[0] not in (b"Z", b"X") or int(fields[17]) > 1:
                    found.append((int(name), int(fields[1])))
            except (OSError, ValueError, IndexError):  # it has just gone
                continue
    return found


def _uses_too_much_memory(pids: list[int], order: dict[str, Any], *, counts_files: bool) -> bool:
    """Whether processes hold more than they may, with what they share and keep in memory files."""
    known: set[tuple[int, int]] = set()
    limit = int(order["memory"])
    resident = dict(map(_find_memory, pids))
    folders = list(resident)
    files = _size_of_files(folders, order, known) if counts_files else 0
    if sum(resident.values()) + files <= limit:
        return False
    # What several share was counted more than once, and so were their programs, which are files.
    files = files if counts_files else _size_of_files(folders, order, known)
    return files + sum(_own_share(folder, order, known) for folder in folders) > limit


def _find_memory(pid: int) -> tuple[str, int]:
    """The folder that tells of a process, and its bytes in memory, whosever else they are.

    Nothing is told of a first thread that has ended: then it is the folder of another.
    """
    folder = f"/proc/{pid}"
    size = _resident(folder)
    if size:
        return folder, size
    try:
        threads = os.listdir(f"{folder}/task")
    except OSError:  # it has just gone
        return folder, 0
    for thread in threads:
        size = _resident(f"{folder}/task/{thread}")
        if size:
            return f"{folder}/task/{thread}", size
    return folder, 0


def _resident(folder: str) -> int:
    try:
        with open(f"{folder}/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def _size_of_files(folders: list[str], order: dict[str, Any], known: set[tuple[int, int]]) -> int:
    """Bytes of files that are in memory only; those without a name are noted as known."""
    total = 0
    for scratch in order["scratch"]:
        try:
            found = os.statvfs(scratch)
            total += (found.f_blocks - found.f_bfree) * found.f_frsize
        except OSError:
            continue
    if order["is_init"]:
        try:
            with open("/proc/sysvipc/shm", "rb") as file:
                total += sum(int(line.split()[14]) for line in file.readlines()[1:])
        except (OSError, ValueError, IndexError):
            pass
    for folder in folders:
        try:
            for name in os.listdir(f"{folder}/fd"):
                path = f"{folder}/fd/{name}"
                if os.readlink(path).startswith("/memfd:"):
                    found_file = os.stat(path)
                    key = found_file.st_dev, found_file.st_ino
                    total += 0 if key in known else found_file.st_blocks * 512
                    known.add(key)
        except OSError:  # it has just gone, or does not let anybody look
            continue
    return total


def _own_share(folder: str, order: dict[str, Any], known: set[tuple[int, int]]) -> int:
    """Bytes of a process that are not in files; of what it shares, its part."""
    total = 0
    counts = False
    try:
        with open(f"{folder}/smaps", "rb") as file:
            for line in file:
                fields = line.split(None, 5)
                if not fields[0].endswith(b":"):
                    counts = _is_counted(fields, order, known)
                elif fields[0] == b"Anonymous:" or (fields[0] == b"Swap:" and not counts):
                    total += 0 if counts else int(fields[1]) * 1024
                elif counts and fields[0] in (b"Pss:", b"SwapPss:"):
                    total += int(fields[1]) * 1024
    except (OSError, ValueError, IndexError):
        return _anonymous(folder)
    return total


def _is_counted(fields: list[bytes], order: dict[str, Any], known: set[tuple[int, int]]) -> bool:
    """Whether a mapping is of memory that is shared, and not of a file that was counted."""
    name = fields[5].strip() if len(fields) > 5 else b""
    if name.startswith(b"/memfd:"):
        major, minor = (int(part, 16) for part in fields[3].split(b":"))
        return (os.makedev(major, minor), int(fields[4])) not in known
    if name.startswith(b"/SYSV"):
        return not order["is_init"]
    return name.startswith((b"/dev/zero (deleted)", b"[anon_shmem"))


def _anonymous(folder: str) -> int:
    """As `_own_share`, of a process that does not let anybody look; what it shares counts whole."""
    total = 0
    try:
        with open(f"{folder}/status", "rb") as file:
            for line in file:
                if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:")):
                    total += int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return 0
    return total


def _disk_use(folders: list[str]) -> dict[int, int]:
    """Bytes used on the disks of folders, by the number of the disk."""
    found = {}
    for folder in folders:
        try:
            disk = os.statvfs(folder)
            found[os.stat(folder).st_dev] = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        except OSError:
            continue
    return found


def _has_grown(before: dict[int, int], order: dict[str, Any]) -> bool:
    now = _disk_use(order["written"])
    grown = [now[disk] - before.get(disk, now[disk]) for disk in now]
    return max(grown, default=0) > int(order["disk"])


def _kill_all() -> None:
    """Stop until there is nobody new, then kill: who stands still has no more children."""
    stopped: set[int] = set()
    for _ in range(250):
        pids = set(_others(is_init=False))
        if not pids:
            return
        fresh = pids - stopped
        for pid in fresh or pids:
            try:
                os.kill(pid, signal.SIGSTOP if fresh else signal.SIGKILL)
            except OSError:
                continue
        stopped |= fresh
        signal.sigtimedwait({signal.SIGCHLD}, 0.004)
        _reap(0)


def _threads_of_user() -> int:
    count = 0
    for pid, _ in _processes():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            continue
    return count


if __name__ == "__main__":
    main()
