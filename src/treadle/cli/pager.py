"""The person's pager, by git's rules: only where standard output is a terminal.

`TREADLE_PAGER` names it, else `PAGER`, else it is `less`; one that is empty or `cat` is none.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper

from treadle.errors import UsageError


def find_pager(environ: Mapping[str, str]) -> list[str]:
    """The pager's words; none if there is to be none.

    Raises:
        UsageError: the variable has an open quote.
    """
    name = "TREADLE_PAGER" if "TREADLE_PAGER" in environ else "PAGER"
    try:
        words = shlex.split(environ.get(name, "less"))
    except ValueError as error:
        message = f"{name} is no command: {error}"
        raise UsageError(message, hint=f"set {name} to a pager, or to nothing") from error
    return [] if words == ["cat"] else words


@contextmanager
def paged(*, is_wanted: bool = True) -> Iterator[None]:
    """What is printed to standard output meanwhile goes through the pager, as to a terminal.

    Who leaves the pager before the end has read enough: nothing more is printed.

    Raises:
        UsageError: the pager that the person has named cannot be started.
    """
    words = find_pager(os.environ) if is_wanted and sys.stdout.isatty() else []
    if not words:
        yield
        return
    from treadle.terminal.external_programs import start_pager, wait_for_pager

    try:
        process = start_pager(words)
    except OSError as error:
        if "TREADLE_PAGER" not in os.environ and "PAGER" not in os.environ:
            yield  # nobody has asked for `less`, and it is not everywhere
            return
        message = f"the pager {words[0]} cannot be started: {error.strerror}"
        raise UsageError(message, hint="set TREADLE_PAGER to another one, or --no-pager") from error
    assert process.stdin is not None
    stream = TextIOWrapper(process.stdin, encoding="utf-8", errors="backslashreplace")
    stream.isatty = lambda: True  # type: ignore[method-assign]  # it gets what a terminal gets
    try:
        with suppress(BrokenPipeError, KeyboardInterrupt), redirect_stdout(stream):
            yield
            stream.flush()
    finally:
        with suppress(OSError):
            stream.close()
        wait_for_pager(process)
