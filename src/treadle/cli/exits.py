"""Exit codes: one table, the same for every command.

0 done, 1 failed, 2 usage, 3 stopped by a limit, 5 not configured, 75 try again later, 129, 130 or
143 ended by SIGHUP, SIGINT or SIGTERM. Never 0 when unconfigured or failed.
"""

from __future__ import annotations

from typing import Final

from treadle.errors import (
    DamagedJournalError,
    NotConfiguredError,
    ReadOnlyThreadError,
    StoreError,
    TreadleError,
    UsageError,
)

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
LIMIT: Final = 3
NOT_CONFIGURED: Final = 5
TRY_LATER: Final = 75
HANGUP: Final = 129
INTERRUPTED: Final = 130
TERMINATED: Final = 143

_CODES: Final[tuple[tuple[type[TreadleError], int], ...]] = (
    (UsageError, USAGE),
    (NotConfiguredError, NOT_CONFIGURED),
    (DamagedJournalError, FAILED),
    (ReadOnlyThreadError, FAILED),
    (StoreError, TRY_LATER),
    (TreadleError, FAILED),
)
"""The first row whose class fits decides."""


def code_of(error: TreadleError) -> int:
    """The exit code of an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))
