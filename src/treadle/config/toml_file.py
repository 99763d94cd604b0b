"""What stands in a TOML file that a person wrote: its values, and the line of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from treadle.config.settings import KeyPath
from treadle.errors import ConfigError

STATEMENT_LINES_MAX: Final = 1000
"""Where one value has more lines, it and what follows have no line numbers."""

_HINT: Final = "docs/configuration.md describes the keys"
_ERROR_POSITION: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_VALUE_ENDINGS: Final = ("]", "}", '"""', "'''")
"""The last line of a value of several lines holds one of these."""


class TomlFile(Struct, frozen=True):
    """The values of a file, and the line on which each first appears."""

    path: str
    tables: dict[str, Any]
    lines: Mapping[KeyPath, int]

    def format_location(self, path: KeyPath) -> str:
        """`FILE:LINE` of a value, or of the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.path}:{self.lines[path]}" if path else self.path

    def make_error(self, path: KeyPath, problem: str) -> ConfigError:
        """The error that something is wrong with a value."""
        return ConfigError(f"{self.format_location(path)}: {problem}", hint=_HINT)


def parse_toml(data: bytes, path: str) -> TomlFile:
    """The values in `data`.

    Raises:
        ConfigError: it is no TOML; names `path` and the line.
    """
    import tomllib

    try:
        text = data.decode("utf-8-sig")
        tables = tomllib.loads(text)
        return TomlFile(path, tables, _find_lines(text))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8: {error.reason}", hint=_HINT) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply", hint=_HINT) from error
    except ValueError as error:
        found = _ERROR_POSITION.search(str(error))
        problem = str(error)[: found.start()] if found else str(error)
        last = text.rstrip().count("\n") + 1
        line = int(found[1] or last) if found else 0
        place = f"{path}:{line}" if line else path
        raise ConfigError(f"{place}: not valid TOML: {problem}", hint=_HINT) from error


def _find_lines(text: str) -> dict[KeyPath, int]:
    import tomllib

    lines: dict[KeyPath, int] = {}
    for line, statement in _split_statements(text):
        for path in _list_paths(tomllib.loads(statement)):
            lines.setdefault(path, line)
    return lines


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Every statement of a valid text, below the header that it belongs to, with its first line.

    A value of several lines is no TOML before its last line: the shortest run of lines that is
    TOML by itself is the statement.
    """
    rows = text.replace("\r\n", "\n").split("\n")
    header = ""
    start = 0
    while start < len(rows):
        end = _find_end(rows, start)
        if end is None:
            return
        statement = "\n".join(rows[start:end])
        if statement.lstrip().startswith("["):
            header = statement
            yield start + 1, statement
        elif statement.strip():
            yield start + 1, f"{header}\n{statement}"
        start = end


def _find_end(rows: list[str], start: int) -> int | None:
    import tomllib

    for end in range(start + 1, min(len(rows), start + STATEMENT_LINES_MAX) + 1):
        if end > start + 1 and not any(mark in rows[end - 1] for mark in _VALUE_ENDINGS):
            continue
        try:
            tomllib.loads("\n".join(rows[start:end]))
        except ValueError:
            continue
        return end
    return None


def _list_paths(tables: Mapping[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in tables.items():
        path = (*above, key)
        yield path
        if isinstance(value, dict):
            yield from _list_paths(value, path)
