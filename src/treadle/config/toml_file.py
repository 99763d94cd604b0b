"""What stands in a TOML file that a person wrote: its values, and the line of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

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


class Statement(Struct, frozen=True):
    """One header or one value of a text, in the lines from `start` to before `end`, from 0.

    `header` is the line of the table that it stands in; that of a header is itself.
    """

    start: int
    end: int
    header: str
    rows: tuple[str, ...]

    @property
    def is_header(self) -> bool:
        """Whether a table begins here."""
        return self.rows[0].lstrip().startswith("[")

    @property
    def is_comment(self) -> bool:
        """Whether nothing is said here."""
        return self.rows[0].lstrip().startswith("#")

    def parse(self, rows: str | None = None) -> dict[str, Any]:
        """The tables that hold its value alone, or what stands in its place."""
        import tomllib

        body = "\n".join(self.rows) if rows is None else rows
        return tomllib.loads(body if self.is_header else f"{self.header}\n{body}")


def _find_lines(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    for statement in split_statements(text):
        for path in _list_paths(statement.parse()):
            lines.setdefault(path, statement.start + 1)
    return lines


def split_statements(text: str) -> Iterator[Statement]:
    """Every statement of a valid text, in its order; CRLF counts as LF.

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
        found = Statement(start, end, header, tuple(rows[start:end]))
        if found.is_header:
            header = "\n".join(found.rows)
            yield replace(found, header=header)
        elif any(row.strip() for row in found.rows):
            yield found
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
