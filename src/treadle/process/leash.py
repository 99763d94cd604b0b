"""Runs in front of a service, as a program of its own: when its leash breaks, it ends their group.

The leash is a pipe of which the process that started the service holds the other end, and nobody
else. When that process is gone, also by `kill -9`, the pipe ends, and nothing of the service is
left. It is given to an interpreter as `python -I -S leash.py LEASH PROGRAM...`, and imports nothing
of this package.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Start the program and hold it; ends as it ends."""
    leash, argv = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(leash, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        _become(argv)
    # The group is asked to end: that is for the service to do, and then this ends too.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Who reads what the service says must hear when it is gone.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    while True:
        ready, _, _ = select.select([leash, woken], [], [])
        if leash in ready:
            os.killpg(0, signal.SIGKILL)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        os.read(woken, 64)


def _become(argv: list[str]) -> None:
    # What Python, or a shell that began us in the background, has taken of the program's signals is
    # given back; some are nobody's to set.
    for number in signal.valid_signals():
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606  the program that was asked for
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


if __name__ == "__main__":
    main()
