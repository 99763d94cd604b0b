"""Files that somebody wrote in Python, and what one name in them is good for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Final, TypeVar

from treadle.errors import BuildError, UsageError
from treadle.models.catalog import suggest_name

MODULE_NAME: Final = "treadle_python_file"
"""The file's name while it runs: its own could be that of a module that others import."""

T = TypeVar("T")


def use_name_in_file(place: str, what: str, use: Callable[[object], T]) -> T:
    """What comes of a value in a file. The file is run.

    Args:
        place: `FILE.py:NAME`.
        what: what the name is to be, for the person.
        use: makes something of the value, while the file can import what lies beside it.

    Raises:
        UsageError: there is no such file or name, or the file or `use` raised something.
        BuildError: `use` raised it, about what is in the file.
    """
    file, colon, name = place.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"{place} does not say which {what}", hint="give FILE.py:NAME")
    if not Path(file).is_file():
        raise UsageError(f"{file} is not a file", hint="give FILE.py:NAME")
    with _script_environment(Path(file), shown=file):
        values = vars(_run_file(Path(file)))
        if name in values:
            return use(values[name])
    names = [other for other in values if not other.startswith("__")]
    raise UsageError(f"{file} has no {name}{suggest_name(name, names)}")


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

    What it prints goes to stderr: stdout is for what is asked for. What it raises is told by its
    line.

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
        kind, hint = type(error).__name__, getattr(error, "hint", "")
        if variable := _find_variable(error):
            hint = f"export {variable}=..., in the shell that runs this, and try again"
            kind, told = "this environment variable is not set", variable
        raise UsageError(
            f"{where}: {kind}: {told}" if told else f"{where}: {kind}", hint=hint
        ) from error
    finally:
        sys.path[:], sys.dont_write_bytecode = before
        sys.modules.pop(MODULE_NAME, None)


def _find_variable(error: BaseException) -> str:
    """The variable that `os.environ[...]` did not have; empty if the error is another one."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    is_environment = frames[-1].f_locals.get("self") is os.environ
    return str(error.args[0]) if isinstance(error, KeyError) and is_environment else ""


def _find_error_line(path: Path, error: BaseException) -> int | None:
    """The innermost line of the file that led to the error."""
    file = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [
        line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file
    ]
    return lines[-1] if lines else None
