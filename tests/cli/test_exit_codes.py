"""The exit code of every error is the documented one."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.errors import (
    AgentFailed,
    ApprovalNeeded,
    BudgetExceeded,
    BuildError,
    ConfigError,
    DiskError,
    InternalError,
    InvalidTransition,
    NotConfiguredError,
    ReadOnlyThreadError,
    ThreadBusyError,
    TreadleError,
    UsageError,
)
from treadle.exit_codes import code_of


@for_every_row(
    "error, code",
    [
        (UsageError(""), 2),
        (ConfigError(""), 2),
        (BuildError(""), 2),
        (BudgetExceeded(""), 3),
        (ApprovalNeeded("T-1", ["bash: ls"]), 4),
        (NotConfiguredError(""), 5),
        (AgentFailed(""), 1),
        (InvalidTransition("a", "b"), 1),
        (ReadOnlyThreadError(""), 1),
        (InternalError(""), 1),
        (ThreadBusyError(""), 75),
        (DiskError("write", "x", OSError(28, "full")), 75),
    ],
)
def test_an_error_has_the_exit_code_of_its_class(error: TreadleError, code: int) -> None:
    assert code_of(error) == code
