"""Exit codes: one table, the same for every command.

0 done, 1 failed, 2 usage, 3 stopped by a limit, 4 a call waits for approval, 5 not configured,
75 try again later, 129, 130, 131 or 143 ended by SIGHUP,
SIGINT, SIGQUIT or SIGTERM, 141 nobody reads the answer.
Never 0 when unconfigured or failed.
"""

from __future__ import annotations

from typing import Final

from treadle.core.llm import LlmErrorKind
from treadle.core.retry import RETRYABLE
from treadle.errors import (
    ApprovalNeeded,
    BudgetExceeded,
    DamagedJournalError,
    NotConfiguredError,
    ReadOnlyThreadError,
    RemoteUnavailableError,
    StoreError,
    TreadleError,
    UsageError,
)

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
LIMIT: Final = 3
APPROVAL: Final = 4
NOT_CONFIGURED: Final = 5
TRY_LATER: Final = 75
HANGUP: Final = 129
INTERRUPTED: Final = 130
QUIT: Final = 131
UNREAD: Final = 141
"""Nobody reads the answer any more, as when it is piped into `head`."""
TERMINATED: Final = 143

_CODES: Final[tuple[tuple[type[TreadleError], int], ...]] = (
    (UsageError, USAGE),
    (NotConfiguredError, NOT_CONFIGURED),
    (BudgetExceeded, LIMIT),
    (ApprovalNeeded, APPROVAL),
    (DamagedJournalError, FAILED),
    (ReadOnlyThreadError, FAILED),
    (StoreError, TRY_LATER),
    (RemoteUnavailableError, TRY_LATER),
    (TreadleError, FAILED),
)
"""The first row whose class fits decides."""

_CODE_OF_KIND: Final = {
    LlmErrorKind.AUTHENTICATION: NOT_CONFIGURED,
    **dict.fromkeys(RETRYABLE, TRY_LATER),
}
"""Of what a model could not answer; all other kinds are plain failures."""


def code_of(error: TreadleError) -> int:
    """The exit code of an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def code_of_kind(kind: LlmErrorKind) -> int:
    """The exit code of a request that a provider did not answer."""
    return _CODE_OF_KIND.get(kind, FAILED)
