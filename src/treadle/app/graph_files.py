"""Graphs that somebody wrote, read from the file they are in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from inspect import iscoroutinefunction
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Final

from treadle.core.task.events import Graph
from treadle.core.task.graph import check_graph, draw_task_machine
from treadle.core.task.table import TransitionTable
from treadle.errors import BuildError, UsageError
from treadle.models.catalog import suggest_name

MODULE_NAME: Final = "treadle_graph_file"
"""The file's name while it runs: its own could be that of a module that others import."""


def draw_graph_of_file(place: str) -> str:
    """A custom graph as a Mermaid diagram, checked. Its file is run.

    Args:
        place: `FILE.py:NAME`. The name is a `Graph`, a `TransitionTable`, something with a
            `.graph`, or a function without parameters that returns one of these.

    Raises:
        UsageError: there is no such file or name, it is no graph, or the file raised something.
        BuildError: the graph cannot run.
    """
    file, colon, name = place.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"{place} does not say which graph", hint="give FILE.py:NAME")
    if not Path(file).is_file():
        raise UsageError(f"{file} is not a file", hint="give FILE.py:NAME")
    with _script_environment(Path(file), shown=file):
        values = vars(_run_file(Path(file)))
        table = _resolve_table(values[name]) if name in values else None
    if name not in values:
        names = [other for other in values if not other.startswith("__")]
        raise UsageError(f"{file} has no {name}{suggest_name(name, names)}")
    if table is None:
        raise UsageError(
            f"{name} in {file} is not a graph, but of type {type(values[name]).__name__}",
            hint="it can be a Graph, a TransitionTable, something with a .graph, or a function "
            "without parameters that returns one of these",
        )
    return draw_task_machine(table)


def _resolve_table(found: object) -> TransitionTable | None:
    """The table that somebody's object stands for; `None` if it stands for none.

    Raises:
        BuildError: its graph cannot run.
    """
    is_maker = isinstance(found, type) or not hasattr(found, "graph")
    if is_maker and callable(found) and not iscoroutinefunction(found):
        found = found()
    if hasattr(found, "graph"):
        inner = found.graph() if callable(found.graph) else found.graph
        found = Graph() if inner is None else inner  # an agent without a graph has the default
    if isinstance(found, Graph):
        return check_graph(found)
    return found if isinstance(found, TransitionTable) else None


def _run_file(path: Path) -> ModuleType:
    loader = SourceFileLoader(MODULE_NAME, str(path.resolve()))
    spec = spec_from_loader(MODULE_NAME, loader)
    assert spec is not None
    module = sys.modules[MODULE_NAME] = module_from_spec(spec)
    loader.exec_module(module)
    return module


@contextmanager
def _script_environment(path: Path, shown: str) -> Iterator[None]:
    """Somebody's file runs in here as Python would run it, and leaves nothing behind.

    What it prints goes to stderr: stdout is for the diagram. What it raises is told by its line.

    Raises:
        UsageError: it raised something; its hint is kept, which may draw a graph.
    """
    before = sys.path[:], sys.dont_write_bytecode
    sys.path.insert(0, str(path.resolve().parent))
    sys.dont_write_bytecode = True
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        line = _find_error_line(path, error)
        if line is None and isinstance(error, BuildError):
            raise  # it is about the graph, which nothing in the file checks
        where = f"{shown}, line {line}" if line is not None else shown
        told = error.msg if isinstance(error, SyntaxError) else str(error)
        kind = type(error).__name__
        hint = getattr(error, "hint", "")
        raise UsageError(
            f"{where}: {kind}: {told}" if told else f"{where}: {kind}", hint=hint
        ) from error
    finally:
        sys.path[:], sys.dont_write_bytecode = before
        sys.modules.pop(MODULE_NAME, None)


def _find_error_line(path: Path, error: BaseException) -> int | None:
    """The innermost line of the file that led to the error."""
    file = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [
        line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file
    ]
    return lines[-1] if lines else None
