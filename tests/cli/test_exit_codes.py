"""The exit code of every error is the documented one."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("error", "code"),
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
    ids=lambda value: type(value).__name__ if isinstance(value, TreadleError) else "",
)
def test_an_error_has_the_exit_code_of_its_class(error: TreadleError, code: int) -> None:
    assert code_of(error) == code
