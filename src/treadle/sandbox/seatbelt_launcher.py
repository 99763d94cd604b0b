"""Runs in front of a command that Seatbelt holds, as a program of its own: starts it, reports.

The counterpart of `launcher.py` for macOS, without its watch: of what a command uses up, only the
size of a file is bounded. It stays outside of the sandbox, and imports nothing of this package.
Its arguments are a descriptor that takes the report, as there, the folder, the bytes of a file, and
the program with its arguments: `sandbox-exec`, behind which the command stands.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Run the command; ends with the process."""
    report_fd = int(sys.argv[1])
    os.set_inheritable(report_fd, False)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        try:
            _start(report_fd, sys.argv[2], int(sys.argv[3]), sys.argv[4:])
        except BaseException as error:  # noqa: BLE001  whatever it is, the command must not run
            why = error.strerror if isinstance(error, OSError) else ""
            _report(report_fd, "failed", why or f"{type(error).__name__}: {error}")
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    _report(report_fd, "code", str(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _start(report_fd: int, folder: str, file_size: int, argv: list[str]) -> None:
    for number in (*_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(folder)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file_size)
    _report(report_fd, "started", "1")
    os.execv(argv[0], argv)  # noqa: S606  that is what it is for


def _limit(kind: int, size: int) -> None:
    hard = resource.getrlimit(kind)[1]
    size = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(kind, (size, size))


def _report(fd: int, name: str, value: str) -> None:
    os.write(fd, f"{name} {' '.join(value.split())}\n".encode(errors="replace"))


if __name__ == "__main__":
    main()
