"""What a call did, laid out for a page: a line, and blocks of text, commands and changes."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.core.tool_families import ToolKind, find_shape, kind_of
from treadle.exchange.readable_thread import ReadableCall
from treadle.pages.diff_runs import DiffRun, LineKind, list_runs

TITLE_LENGTH_MAX: Final = 120
DIFF_SIZE_MAX: Final = 200_000
"""Characters of both sides of an edit that are compared; what is longer is shown as it came."""


class BlockKind(Enum):
    """How a block is set."""

    COMMAND = "command"
    DIFF = "diff"
    TEXT = "text"


class CallBlock(Struct, frozen=True):
    """A part of a call: a text, or lines of a change with what each is."""

    kind: BlockKind
    text: str = ""
    lines: tuple[tuple[LineKind, str], ...] = ()

    @property
    def has_two_sides(self) -> bool:
        """Whether something stood there before and something stands there now."""
        kinds = {kind for kind, _ in self.lines}
        return LineKind.REMOVED in kinds or {LineKind.SAME, LineKind.ADDED} <= kinds

    def list_runs(self) -> Iterator[DiffRun]:
        """The lines of a change, laid out."""
        return list_runs(self.lines)


class CallView(Struct, frozen=True):
    """A call for people."""

    title: str
    blocks: tuple[CallBlock, ...]


def make_call_view(call: ReadableCall) -> CallView:
    """What a call did. Its arguments may be of any form: models made them."""
    arguments = _read_arguments(call)
    kind = kind_of(call.tool_name)
    if arguments is None:
        return CallView(call.tool_name, (CallBlock(BlockKind.TEXT, call.arguments),))
    command = arguments.get("command")
    if kind is ToolKind.RUN and isinstance(command, str):
        title = f"$ {_cut(command)}"
        return CallView(title, tuple(_list_command_blocks(arguments, command)))
    patch = arguments.get("input")
    if kind is ToolKind.PATCH and isinstance(patch, str):
        return CallView(call.tool_name, (make_patch_block(patch),))
    path = arguments.get("path")
    if kind in (ToolKind.EDIT, ToolKind.WRITE) and isinstance(path, str):
        blocks = tuple(_list_change_blocks(arguments))
        if blocks:
            return CallView(f"{call.tool_name} {_cut(path)}", blocks)
    words = [_cut(one) for one in arguments.values() if isinstance(one, str)]
    title = " ".join((call.tool_name, *words))
    # What the line says already is not said again.
    is_said = words == list(arguments.values()) and len(title) <= TITLE_LENGTH_MAX
    text = () if is_said else (CallBlock(BlockKind.TEXT, call.arguments),)
    return CallView(_cut(title), text)


def _read_arguments(call: ReadableCall) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    shape = find_shape(call.tool_name)
    return found if shape is None else shape.restore(found)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH_MAX else line[: TITLE_LENGTH_MAX - 1] + "…"


def _list_command_blocks(arguments: dict[str, Any], command: str) -> Iterator[CallBlock]:
    yield CallBlock(BlockKind.COMMAND, command)
    more = {name: value for name, value in arguments.items() if name != "command"}
    if more:
        told = (f"{name}: {value}" for name, value in more.items())
        yield CallBlock(BlockKind.TEXT, "\n".join(told))


def _list_change_blocks(arguments: dict[str, Any]) -> Iterator[CallBlock]:
    content, edits = arguments.get("content"), arguments.get("edits")
    if isinstance(content, str):
        yield _make_diff_block("", content)
    for edit in edits if isinstance(edits, list) else ():
        old, new = (edit.get("old_str"), edit.get("new_str")) if isinstance(edit, dict) else (0, 0)
        if isinstance(old, str) and isinstance(new, str):
            yield _make_diff_block(old, new)


def _make_diff_block(old: str, new: str) -> CallBlock:
    before, after = old.splitlines(), new.splitlines()
    if not old or not new or len(old) + len(new) > DIFF_SIZE_MAX:
        lines = [(LineKind.REMOVED, line) for line in before]
        lines += [(LineKind.ADDED, line) for line in after]
        return CallBlock(BlockKind.DIFF, lines=tuple(lines))
    compared = list(unified_diff(before, after, lineterm="", n=max(len(before), len(after))))
    return CallBlock(BlockKind.DIFF, lines=tuple(map(_read_diff_line, compared[3:])))


def make_patch_block(patch: str) -> CallBlock:
    """Lines that begin as those of a diff do. LF alone ends one: a text could feign another."""
    lines = [
        (LineKind.PLACE, line) if line.startswith(("***", "@@")) else _read_diff_line(line)
        for line in patch.removesuffix("\n").split("\n")
    ]
    return CallBlock(BlockKind.DIFF, lines=tuple(lines))


_LINE_KINDS: Final = {"+": LineKind.ADDED, "-": LineKind.REMOVED}


def _read_diff_line(line: str) -> tuple[LineKind, str]:
    return _LINE_KINDS.get(line[:1], LineKind.SAME), line[1:]
