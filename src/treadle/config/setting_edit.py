"""Changes one value in the text of a settings file; all else in it stays as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from treadle.config.settings import (
    TABLES,
    TOP_LEVEL_RULES,
    KeyPath,
    SettingRule,
    find_faults,
    flatten_tables,
    format_dotted_key,
)
from treadle.config.toml_file import Statement, split_statements
from treadle.errors import UsageError

_KEY_HINT: Final = "like approval_mode, models.default or providers.NAME.base_url"


def parse_key(text: str) -> KeyPath:
    """The path that a dotted key means, as TOML writes it.

    Raises:
        UsageError: it is none.
    """
    import tomllib

    try:
        ((path, _),) = flatten_tables(tomllib.loads(f"{text} = 0"))
    except ValueError:
        raise UsageError(f"{text!r} is no key of the settings", hint=_KEY_HINT) from None
    return path


def parse_value(path: KeyPath, text: str) -> Any:
    """The value that a person means by a text: as TOML writes it, or the text itself.

    Raises:
        UsageError: the settings have no such key, or it takes no such value.
    """
    rule = _find_rule(path)
    candidates = [*_read_toml(text), text]
    for value in candidates:
        if rule is not None and not rule.find_fault(value):
            return value
        if rule is None and next(find_faults(_nest(path, value)), None) is None:
            return value
    _, problem = next(find_faults(_nest(path, candidates[0])))
    raise UsageError(problem, hint="docs/configuration.md describes the keys")


def set_value(text: str, path: KeyPath, value: Any) -> str:
    """The text of a valid file with one value in it changed or added.

    A value that stands alone in its line, or lines, is replaced there, and a comment behind it
    stays. A new one stands below the others of its table.

    Raises:
        UsageError: it is a part of something larger, an inline table say, that a person wrote.
    """
    wanted = _with_value(_parse(text), path, value)
    return _edit(text, path, lambda plain: _change_rows(plain, path, _format_value(value)), wanted)


def remove_table(text: str, path: KeyPath) -> str:
    """The text of a valid file without a table that is in it, nor those within it.

    Comments among its rows go with it. Raises as `set_value`.
    """
    wanted = deepcopy(_parse(text))
    *above, last = path
    tables = [wanted]
    for key in above:
        tables.append(tables[-1][key])
    del tables[-1][last]
    for outer, key in zip(reversed(tables[:-1]), reversed(above), strict=True):
        if not outer[key]:  # nothing else stood in it
            del outer[key]
    return _edit(text, path, lambda plain: _remove_rows(plain, path), wanted)


def _parse(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text.replace("\r\n", "\n").removeprefix("\ufeff"))


def _edit(text: str, path: KeyPath, edit: Callable[[str], str], wanted: dict[str, Any]) -> str:
    """The text as it is edited, if that says what is wanted and nothing else."""
    import tomllib

    is_crlf = "\r\n" in text
    plain = text.replace("\r\n", "\n")
    mark = "\ufeff" if plain.startswith("\ufeff") else ""
    changed = edit(plain.removeprefix(mark))
    try:
        is_right = tomllib.loads(changed) == wanted
    except ValueError:
        is_right = False
    if not is_right:
        raise UsageError(
            f"{format_dotted_key(path)} stands within a larger value, which is left alone",
            hint="change the file by hand",
        )
    return mark + (changed.replace("\n", "\r\n") if is_crlf else changed)


def _remove_rows(text: str, path: KeyPath) -> str:
    rows = text.split("\n")
    is_followed = False  # a comment at the end of a table is more likely one on the next
    for one in [*split_statements(text)][::-1]:
        if (_table_of(one) + _key_of(one))[: len(path)] != path:
            is_followed = False
        elif is_followed or not one.is_comment:
            is_followed, start = True, one.start
            while one.is_header and start and not rows[start - 1].strip():
                start -= 1
            del rows[start : one.end]
    return "\n".join(rows)


def _key_of(statement: Statement) -> KeyPath:
    """The path of a value in its table; of a header or a comment none."""
    if statement.is_header or statement.is_comment:
        return ()
    import tomllib

    path: list[str] = []
    table: Any = tomllib.loads("\n".join(statement.rows))
    while isinstance(table, dict) and len(table) == 1:
        ((key, table),) = table.items()
        path.append(key)
    return tuple(path)


def _find_rule(path: KeyPath) -> SettingRule | None:
    """What says which value a key takes; `None` where only the whole table can tell."""
    if len(path) == 1:
        return TOP_LEVEL_RULES.get(path[0])
    table = TABLES.get(path[0])
    if table is None or not table.is_name(path[1]):
        return None
    if isinstance(table.below, SettingRule):
        return table.below if len(path) == 2 else None
    return table.below.get(path[2]) if len(path) == 3 else None


def _read_toml(text: str) -> Iterator[Any]:
    import tomllib

    try:
        tables = tomllib.loads(f"value = {text}")
    except ValueError:
        return
    if set(tables) == {"value"}:
        yield tables["value"]


def _nest(path: KeyPath, value: Any) -> dict[str, Any]:
    nested: Any = value
    for key in reversed(path):
        nested = {key: nested}
    return dict(nested)


def _with_value(tables: Mapping[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = deepcopy(dict(tables))
    table: Any = changed
    for key in path[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise UsageError(f"{format_dotted_key(path[:-1])} is no table in this file")
    table[path[-1]] = value
    return changed


def _format_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, str):  # TOML has no pairs of surrogates, and wants DEL escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _change_rows(text: str, path: KeyPath, value: str) -> str:
    rows = text.split("\n")
    statements = [*split_statements(text)]
    for one in statements:
        if not one.is_header and [found for found, _ in flatten_tables(one.parse())] == [path]:
            rows[one.start : one.end] = [_replace_value(one, path, value)]
            return "\n".join(rows)
    row = f"{format_dotted_key(path[-1:])} = {value}"
    above = path[:-1]
    around = [one for one in statements if not one.is_comment and _table_of(one) == above]
    if around:
        rows.insert(around[-1].end, row)
    elif above:
        while rows and not rows[-1].strip():
            rows.pop()
        rows += [*[""] * bool(rows), f"[{format_dotted_key(above)}]", row, ""]
    else:
        _insert_first(rows, row)
    return "\n".join(rows)


def _insert_first(rows: list[str], row: str) -> None:
    """Above all tables, below a heading that is a comment by itself."""
    end = next((at for at, one in enumerate(rows) if not one.startswith("#")), len(rows))
    rest = any(one.strip() for one in rows[end:])
    is_heading = 0 < end < len(rows) and not rows[end].strip()
    at = (end + 1 if rest else end) if is_heading else 0
    rows[at:at] = [row, ""] if rest else [row]


def _table_of(statement: Statement) -> KeyPath:
    """The path of the table in which a statement stands; a header's is its own."""
    import tomllib

    path: list[str] = []
    table: Any = tomllib.loads(statement.header)
    while isinstance(table, dict) and table:
        ((key, table),) = table.items()
        path.append(key)
    return tuple(path)


def _replace_value(statement: Statement, path: KeyPath, value: str) -> str:
    first, last = statement.rows[0], statement.rows[-1]
    key = next(
        first[:at].rstrip()
        for at in _positions(first, "=")
        if _is_parsed_as(statement, f"{first[:at]}= 0", _nest(path, 0))
    )
    comment = ""
    if len(statement.rows) == 1:
        comment = next(
            (
                last[at:]
                for at in _positions(last, "#")
                if _is_parsed_as(statement, last[:at], statement.parse())
            ),
            "",
        )
    return f"{key} = {value}" + (f"  {comment}" if comment else "")


def _positions(text: str, letter: str) -> list[int]:
    return [at for at, one in enumerate(text) if one == letter]


def _is_parsed_as(statement: Statement, rows: str, tables: Mapping[str, Any]) -> bool:
    try:
        return statement.parse(rows) == tables
    except ValueError:
        return False
