"""What an editor shows of a call: its kind, its files, what it changes, what came of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from treadle.app.editors.session_updates import (
    CallBegun,
    CallChanged,
    CallKind,
    CallStatus,
    ShownChange,
)
from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.app.threads.call_changes import FileReader, apply_call, read_originals
from treadle.app.threads.call_text import describe_call
from treadle.core.messages import ToolCall
from treadle.core.tool_families import FILE_CHANGES, ToolKind, kind_of
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.thread.question_text import mark_unseen, read_object
from treadle.thread.safe_text import sanitize_text

_KINDS: Final[Mapping[ToolKind, CallKind]] = MappingProxyType(
    {
        ToolKind.READ: "read",
        ToolKind.LIST: "search",
        ToolKind.SEARCH: "search",
        ToolKind.EDIT: "edit",
        ToolKind.WRITE: "edit",
        ToolKind.PATCH: "edit",
        ToolKind.RUN: "execute",
        ToolKind.BACKGROUND: "execute",
        ToolKind.FETCH: "fetch",
        ToolKind.PLAN: "think",
        ToolKind.EXPLORE: "other",
        ToolKind.DELEGATE: "other",
    }
)
_EXIT_CODE: Final = re.compile(r"^\[exit code (\d+)\]$", re.MULTILINE)
"""As `bash` tells how a command has ended."""


def begin_call(
    call: ToolCall,
    call_id: str,
    status: CallStatus,
    folder: str,
    read: FileReader | None = None,
) -> CallBegun:
    """A call as it is shown when it is heard of.

    Args:
        call: as the model asked.
        call_id: what the editor is told to call it.
        status: how it stands.
        folder: the absolute path of the workspace.
        read: reads the files as they are before the call; without it, a change is told from the
            arguments alone.
    """
    kind = kind_of(call.tool_name)
    arguments = read_arguments(call) or {}
    command = arguments.get("command") if kind is ToolKind.RUN else ""
    return CallBegun(
        call_id,
        mark_unseen(describe_call(call)),
        "other" if kind is None else _KINDS[kind],
        status,
        tuple(_absolute(folder, path) for path in _list_paths(call)),
        read_object(call.arguments_json),
        list_changes(call, folder, read),
        mark_unseen(command) if isinstance(command, str) else "",
    )


def end_call(call: ToolCall | None, call_id: str, outcome: Outcome) -> CallChanged:
    """A call that has ended. What it changed was told when it began."""
    has_succeeded = isinstance(outcome, ToolExecutionOutcome.Success)
    text = outcome.output if has_succeeded else outcome.error.text  # type: ignore[union-attr]
    return end_call_with(call, call_id, text, has_failed=not has_succeeded)


def end_call_with(
    call: ToolCall | None, call_id: str, text: str, *, has_failed: bool
) -> CallChanged:
    """A call that has ended, by its result as the model reads it."""
    kind = None if call is None else kind_of(call.tool_name)
    is_command = kind is ToolKind.RUN
    if kind in FILE_CHANGES and not has_failed:
        text = ""  # what it has changed is shown already
    found = _EXIT_CODE.findall(text) if is_command else []
    return CallChanged(
        call_id,
        "failed" if has_failed or (found and found[-1] != "0") else "completed",
        sanitize_text(text),
        is_command=is_command,
        exit_code=int(found[-1]) if found else None,
    )


def list_changes(
    call: ToolCall, folder: str, read: FileReader | None = None
) -> tuple[ShownChange, ...]:
    """What the call makes of its files, as far as it can be shown; empty if it changes none.

    Whole files where all of them can be read and the call would succeed, else the parts that its
    arguments name.
    """
    arguments = read_arguments(call)
    if arguments is None or not list_written_paths(call):
        return ()
    before = read_originals(call, read)
    after = None if before is None else apply_call(call, arguments, before.contents)
    if before is not None and after is not None:
        try:
            return tuple(
                ShownChange(
                    _absolute(folder, path),
                    None if (old := before.contents[path]) is None else old.decode(),
                    "" if new is None else new.decode(),
                )
                for path, new in after.items()
            )
        except UnicodeDecodeError:
            pass  # the parts that the arguments name are text in any case
    return tuple(_list_named_parts(call, folder))


def _list_named_parts(call: ToolCall, folder: str) -> list[ShownChange]:
    arguments = read_arguments(call) or {}
    path, content, edits = (arguments.get(name) for name in ("path", "content", "edits"))
    if not isinstance(path, str):
        return []
    where = _absolute(folder, path)
    if isinstance(content, str):
        return [ShownChange(where, None, content)]
    parts = []
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, dict):
            old, new = (str(edit.get(name, "")) for name in ("old_str", "new_str"))
            parts.append(ShownChange(where, old or None, new))
    return parts


def _list_paths(call: ToolCall) -> list[str]:
    """The files and folders that a call names."""
    if written := list_written_paths(call):
        return written
    path = (read_arguments(call) or {}).get("path")
    is_file = kind_of(call.tool_name) in (ToolKind.READ, ToolKind.LIST, ToolKind.SEARCH)
    return [path] if is_file and isinstance(path, str) and not path.startswith("output:") else []


def _absolute(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118  links stay as they are
