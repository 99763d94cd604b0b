"""Run a program, and note which functions of `treadle` are called between two moments.

    python house/call_trace.py OUT FIRST LAST PROGRAM [ARGUMENT ...]

`FIRST` and `LAST` are patterns of a `FILE FUNCTION`; `PROGRAM` is the name of a module. Noting
begins with SIGUSR1 or the first call that `FIRST` matches, and ends with SIGUSR2, with a call that
`LAST` matches, or with the program. `OUT` then holds a `FILE FUNCTION` a line. An empty pattern
matches no call.
"""

from __future__ import annotations

import atexit
import os
import re
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

MARK = f"{os.sep}src{os.sep}treadle{os.sep}"


class Trace:
    """What is called while noting is on."""

    def __init__(self, out: Path, first: str, last: str) -> None:
        self._out = out
        self._first = re.compile(first or "(?!)")
        self._last = re.compile(last or "(?!)")
        self._is_on = False
        self._is_over = False
        self._called: set[str] = set()

    def begin(self, *_: object) -> None:
        """Note from here on."""
        self._is_on = True

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A call or a return of this thread."""
        if event != "call" or self._is_over:
            return
        code = frame.f_code
        _, found, path = code.co_filename.rpartition(MARK)
        if not found or code.co_name == "<module>":
            return
        called = f"{path} {code.co_qualname}"
        if not self._is_on:
            self._is_on = self._first.search(called) is not None
        if self._is_on:
            self._called.add(called)
            self._is_over = self._last.search(called) is not None

    def write(self, *_: object) -> None:
        """End noting, and keep what was noted; the file is whole or not there."""
        self._is_over = True
        draft = self._out.with_suffix(".draft")
        draft.write_text("".join(f"{one}\n" for one in sorted(self._called)), encoding="utf-8")
        draft.replace(self._out)


def main() -> None:
    """Run the program of the command line under its trace."""
    out, first, last, program, *arguments = sys.argv[1:]
    trace = Trace(Path(out), first, last)
    signal.signal(signal.SIGUSR1, trace.begin)
    signal.signal(signal.SIGUSR2, trace.write)
    atexit.register(trace.write)
    threading.setprofile(trace.note)  # of threads that begin later: from the start therefore
    sys.setprofile(trace.note)
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


main()
