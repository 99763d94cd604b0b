"""The types that an agent is generic in: what a program gives its tools, what it answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what has a default is in `typing` from Python 3.13 on, and checkers know it
    from typing_extensions import TypeVar

    AgentDepsT = TypeVar("AgentDepsT", default=None)
    OutputT = TypeVar("OutputT", default=str)
else:
    from typing import TypeVar

    AgentDepsT = TypeVar("AgentDepsT")
    OutputT = TypeVar("OutputT")
