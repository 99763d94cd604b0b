"""Arguments as other agents' tools have them, made those of a tool here.

Models have learnt several shapes of the same tools (`file_path`, `old_string`, `offset` and
`limit`). What such a name means is not in doubt, so a call is not sent back for it. The names are
not shown: a model that reads the schema uses its own. Nothing is guessed where two arguments say
different things.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

MILLISECONDS_MIN: Final = 1000.0
"""A `timeout` of so much is in milliseconds: no command may run for so many seconds."""

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "path": "filepath filename file targetfile targetfilepath absolutepath absolutefilepath "
    "relativepath relativeworkspacepath dirpath directory directorypath dir folder folderpath "
    "searchpath searchdirectory basepath",
    "content": "contents filetext text filecontent filecontents newcontent codecontent data body",
    "old_str": "oldstring oldtext oldcode oldcontent old search searchtext searchstring find "
    "targetcontent original",
    "new_str": "newstring newtext newcode newcontent new replace replacewith replacetext "
    "replacement replacementcontent replacementtext updated",
    "replace_all": "replaceallmatches replaceeverywhere allowmultiple isglobal global",
    "edits": "replacements changes replacementchunks edit",
    "start_line": "linestart start startlinenumber startlineoneindexed "
    "startlineoneindexedinclusive fromline firstline offset lineoffset",
    "end_line": "lineend end endlinenumber endlineoneindexed endlineoneindexedinclusive toline "
    "lastline",
    "pattern": "query regex regexp search searchterm searchpattern searchquery expression",
    "glob": "include includes includepattern filepattern globpattern includefilepattern",
    "command": "cmd commandline bashcommand shellcommand script",
    "cwd": "workdir workingdirectory workingdir directory dir dirpath",
    "timeout_s": "timeoutseconds timeoutsec timeoutsecs timeouts",
    "depth": "maxdepth levels",
    "input": "patch patchtext patchcontent patchcontents diff",
}
"""For each parameter what it is called elsewhere: small letters, without what joins words."""
_COMMENTS: Final = frozenset(
    {
        *("description", "explanation", "instruction", "instructions", "justification", "reason"),
        *("reasoning", "rationale", "summary", "toolsummary", "toolaction", "securityrisk"),
        *("requiresapproval", "shouldreadentirefile"),
    }
)
"""What models are made to say of a call elsewhere; it changes nothing of what the call does."""
_SUBCOMMANDS: Final = ("view", "str_replace", "create", "read", "write", "edit")
"""What `command` says where one tool has several; here the tool's name says it."""
_SHELL: Final = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh")
_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d{1,15})?\Z")


class ArgumentConflictError(ValueError):
    """Two arguments of a call mean the same and say different things."""


def adapt_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the schema has them, as far as there is no doubt what was meant.

    Args:
        arguments: those of a call, as JSON has them; they are not changed.
        schema: of an object, without references.

    Raises:
        ArgumentConflictError: see there.
    """
    properties = schema.get("properties", {})
    adapted = _rename(arguments, properties)
    for reshape in (_spread_range, _count_lines, _take_single_edit, _join_command, _take_timeout):
        reshape(adapted, properties)
    for name, value in [*adapted.items()]:
        if name not in properties:
            if _plain(name) in _COMMENTS or (name == "command" and value in _SUBCOMMANDS):
                del adapted[name]
            continue
        is_needless = name not in schema.get("required", ()) and value is None
        if is_needless and "null" not in _types_of(properties[name]):
            del adapted[name]
        else:
            value = _adapt_value(value, properties[name])
            if isinstance(value, list) and len(value) == 1 and _wraps(value[0], name):
                value = _adapt_value(value[0][name], properties[name])
            adapted[name] = value
    return adapted


def _wraps(value: Any, name: str) -> bool:
    """Whether it is an object with the argument alone in it."""
    return isinstance(value, dict) and [*value] == [name]


def _plain(name: str) -> str:
    return re.sub(r"[_\-\s]", "", name).lower()


def _rename(arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    meant: dict[str, str] = {}
    for canonical in reversed([*properties]):
        for other in (_plain(canonical), *_OTHER_NAMES.get(canonical, "").split()):
            meant[other] = canonical
    # What a parameter is called itself is never taken for another one.
    meant |= {_plain(canonical): canonical for canonical in properties}
    renamed = {name: value for name, value in arguments.items() if name in properties}
    given = dict.fromkeys(renamed)
    for name, value in arguments.items():
        if name in properties:
            continue
        canonical = meant.get(_plain(name), name)
        first = given.get(canonical) or canonical
        if canonical in renamed and renamed[canonical] != value:
            raise ArgumentConflictError(
                f"`{first}` and `{name}` mean the same and differ: give `{canonical}` alone"
            )
        renamed[canonical] = value
        given.setdefault(canonical, name)
    return renamed


def _set(arguments: dict[str, Any], name: str, value: Any, source: str) -> None:
    """Give an argument that another one says."""
    if arguments.setdefault(name, value) != value:
        raise ArgumentConflictError(
            f"`{name}` and `{source}` mean the same and differ: give `{name}` alone"
        )


def _pop(arguments: dict[str, Any], properties: Mapping[str, Any], *names: str) -> tuple[str, Any]:
    """The first argument of one of these plain names that is no parameter, taken out."""
    for name in [*arguments]:
        if name not in properties and _plain(name) in names:
            return name, arguments.pop(name)
    return "", None


def _to_int(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value.strip()):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _spread_range(arguments: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """`view_range` is the first line and the last, -1 for the end."""
    if "start_line" not in properties:
        return
    source, value = _pop(arguments, properties, "viewrange", "linerange", "range", "lines")
    if value is None:
        return
    found = _load(value) if isinstance(value, str) else value
    if isinstance(value, str) and (words := re.fullmatch(r"\s*(\d+)\s*[-:,]\s*(\d+)\s*", value)):
        found = [int(words[1]), int(words[2])]
    numbers = [_to_int(one) for one in found] if isinstance(found, list) else []
    if len(numbers) != 2 or None in numbers:
        arguments[source] = value
        return
    _set(arguments, "start_line", max(1, numbers[0] or 1), source)
    if numbers[1] != -1:
        _set(arguments, "end_line", numbers[1], source)


def _count_lines(arguments: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """`limit` is how many lines; an `offset` of 0 is the beginning, where lines count from 0."""
    if not {"start_line", "end_line"} <= {*properties}:
        return
    start = _to_int(arguments.get("start_line"))
    if start == 0:
        start = arguments["start_line"] = 1
    source, value = _pop(
        arguments,
        properties,
        "limit",
        "linecount",
        "numlines",
        "numberoflines",
        "maxlines",
        "nlines",
        "count",
    )
    count = _to_int(value)
    if count is not None and count > 0:
        _set(arguments, "end_line", (start or 1) + count - 1, source)
    elif value is not None:
        arguments[source] = value


def _take_single_edit(arguments: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """One edit that stands among the arguments themselves."""
    items = properties.get("edits", {}).get("items", {}).get("properties")
    if not items or "old_str" in properties:
        return
    single = _rename({name: arguments[name] for name in arguments if name not in properties}, items)
    if "old_str" not in single or "edits" in arguments:
        return
    edit = {name: value for name, value in single.items() if name in items}
    for name in [*arguments]:
        if name not in properties and _rename({name: None}, items).keys() & items.keys():
            del arguments[name]
    arguments["edits"] = [edit]


def _join_command(arguments: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """A command as a list of words; `bash -lc TEXT` is the text."""
    import shlex

    command = arguments.get("command")
    if "command" not in properties or not isinstance(command, list):
        return
    if command and all(isinstance(word, str) for word in command):
        is_shell = len(command) == 3 and command[0] in _SHELL
        is_shell = is_shell and re.fullmatch(r"-[a-z]*c", command[1]) is not None
        arguments["command"] = command[2] if is_shell else shlex.join(command)


def _take_timeout(arguments: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """`timeout` is in seconds or milliseconds, as its size says."""
    if "timeout_s" not in properties:
        return
    source, value = _pop(arguments, properties, "timeout", "timeoutms", "timeoutmilliseconds")
    if isinstance(value, str) and _NUMBER.match(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        if source and value is not None:
            arguments[source] = value
        return
    is_milliseconds = _plain(source) != "timeout" or value >= MILLISECONDS_MIN
    _set(arguments, "timeout_s", value / 1000 if is_milliseconds else value, source)


# ---- values -------------------------------------------------------------------------------------


def _types_of(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema takes; empty if it takes all."""
    parts: Sequence[Mapping[str, Any]] = schema.get("anyOf", (schema,))
    types = [part.get("type") for part in parts]
    return {one for one in types if isinstance(one, str)}


def _adapt_value(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value in the type that the schema takes, if it is a text of one, or one of a list."""
    types = _types_of(schema)
    if isinstance(value, str) and types and "string" not in types:
        value = next((read(value) for type_, read in _READERS if type_ in types), value)
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        value = int(value)
    for part in schema.get("anyOf", (schema,)):
        items = part.get("items")
        if part.get("type") == "array" and isinstance(items, Mapping):
            if isinstance(value, dict) and items.get("type") == "object":
                value = [value]
            if isinstance(value, list):
                return [_adapt_item(one, items) for one in value]
    return value


def _adapt_item(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and schema.get("type") == "object":
        value = _load(value)
    if isinstance(value, dict) and schema.get("type") == "object" and "properties" in schema:
        return adapt_arguments(value, schema)
    return _adapt_value(value, schema)


def _read_number(text: str) -> Any:
    plain = text.strip()
    if not _NUMBER.match(plain):
        return text
    return float(plain) if "." in plain else int(plain)


def _read_flag(text: str) -> Any:
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def _load(text: str) -> Any:
    """What the text is as JSON; itself if it is none, or no list or object.

    Line breaks within its texts are taken as they are: who writes JSON within JSON forgets to
    escape them twice.
    """
    import json

    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, list | dict) else text


_READERS: Final[Sequence[tuple[str, Callable[[str], Any]]]] = (
    ("integer", _read_number),
    ("number", _read_number),
    ("boolean", _read_flag),
    ("array", _load),
    ("object", _load),
)
"""How a text is read where another type is wanted, the likeliest first."""
