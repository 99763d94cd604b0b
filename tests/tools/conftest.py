"""A workspace on disk, and calls as the runtime makes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolErrorKind, ToolExecutionOutcome, ToolProgress
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

Call = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest.fixture
def reports() -> list[ToolProgress]:
    """What the tools reported while they ran."""
    return []


@pytest.fixture
def call(folder: Path, reports: list[ToolProgress]) -> Call:
    """Run a built-in tool by name, with arguments that pass through JSON."""
    registry = Registry(builtin_tools(), workspace=folder)
    ids = itertools.count()

    async def execute(name: str, **arguments: object) -> Outcome:
        asked = ToolCall(f"call-{next(ids)}", name, json.dumps(arguments))
        return await registry.execute(asked, key=asked.id, progress=reports.append)

    return execute


@pytest.fixture
def succeed(call: Call) -> Callable[..., Awaitable[str]]:
    """Run a built-in tool that must succeed; its output."""

    async def execute(name: str, **arguments: object) -> str:
        outcome = await call(name, **arguments)
        assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
        return outcome.output

    return execute


@pytest.fixture
def fail(call: Call) -> Callable[..., Awaitable[tuple[ToolErrorKind, str]]]:
    """Run a built-in tool that must fail; the kind and the message."""

    async def execute(name: str, **arguments: object) -> tuple[ToolErrorKind, str]:
        outcome = await call(name, **arguments)
        assert isinstance(outcome, ToolExecutionOutcome.Error), outcome
        return outcome.error.kind, outcome.error.message

    return execute
