"""What the file tools change, as unified diffs: before a call for the question, after it for all.

A diff with line numbers (`@@` heads) is one that was checked against the file. Where that cannot be
(the file is large, or somebody else writes it), the diff is told from the arguments alone and has
no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.app.threads.call_changes import FileReader as FileReader
from treadle.app.threads.call_changes import OriginalFiles, apply_call, read_originals
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of

COMPARED_LINES_MAX: Final = 1000
"""Lines between the first and the last difference that are compared; of more, all are shown."""
CONTEXT_LINES: Final = 3
DIFFED_ARGUMENTS: Final[Mapping[ToolKind, str]] = {
    ToolKind.EDIT: "edits",
    ToolKind.WRITE: "content",
    ToolKind.PATCH: "input",
}
"""The argument whose place a diff takes, by what its tool does."""
NO_NEWLINE_MARK: Final = "\\ no newline at the end"
"""Stands below the last line of one side of a diff if only the other one ends with a newline."""


def preview_diff(call: ToolCall, read: FileReader | None = None) -> str | None:
    """What the call would change now; `None` if it is not a call that changes a file."""
    arguments = read_arguments(call)
    if arguments is None or not list_written_paths(call):
        return None
    before = read_originals(call, read)
    after = None if before is None else apply_call(call, arguments, before.contents)
    if before is not None and after is not None:
        return _diff_files(call, before.contents, after)
    return _diff_arguments(call, arguments)


def name_diffed_argument(call: ToolCall) -> str | None:
    """The argument whose place a diff of the call takes; `None` if it changes no file."""
    kind = kind_of(call.tool_name)
    return None if kind is None else DIFFED_ARGUMENTS.get(kind)


def compute_diff(
    call: ToolCall, before: OriginalFiles | None, read: FileReader | None
) -> str | None:
    """What a call that has ended well has changed; `None` if it is not such a call."""
    arguments = read_arguments(call)
    if arguments is None or not list_written_paths(call):
        return None
    after = None if before is None else apply_call(call, arguments, before.contents)
    if before is not None and after is not None and read is not None:
        try:
            # `before` may have been read when the change was made already.
            has_changed = any(before.contents[path] != new for path, new in after.items())
            if has_changed and all(read(path) == new for path, new in after.items()):
                return _diff_files(call, before.contents, after)
        except (OSError, ValueError):
            pass
    return _diff_arguments(call, arguments)


def _diff_files(
    call: ToolCall, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]
) -> str:
    """The changes of all files; of a patch each begins with a line that names its file."""
    if kind_of(call.tool_name) is not ToolKind.PATCH:
        return "\n".join(unified_diff(before[path], new or b"") for path, new in after.items())
    parts: list[str] = []
    for path, new in after.items():
        old = before[path]
        what = "removed" if new is None else "new" if old is None else "changed"
        parts.append(f"@@ {path}: {what} @@")
        if diff := unified_diff(old, new or b""):
            parts.append(diff)
    return "\n".join(parts)


def _diff_arguments(call: ToolCall, arguments: dict[str, Any]) -> str | None:
    """The change by its arguments alone."""
    if kind_of(call.tool_name) is ToolKind.PATCH:
        return _diff_patch(str(arguments.get("input", "")))
    if kind_of(call.tool_name) is ToolKind.WRITE:
        content = arguments.get("content")
        return "\n".join(_prefix_lines("+", content)) if isinstance(content, str) else None
    edits = arguments.get("edits")
    if not isinstance(edits, list):
        return None
    lines: list[str] = []
    for edit in edits:
        if not isinstance(edit, dict):
            return None
        if edit.get("replace_all"):
            lines.append("@@ everywhere in the file @@")
        elif lines:
            lines.append("@@")
        lines += _prefix_lines("-", str(edit.get("old_str", "")))
        lines += _prefix_lines("+", str(edit.get("new_str", "")))
    return "\n".join(lines)


def _diff_patch(text: str) -> str:
    """A patch that can be read, as it is written: its lines are those of a diff."""
    from treadle.tools.patch_format import Operation, parse_patch

    lines: list[str] = []
    for section in parse_patch(text):
        moved = f", moved to {section.move_to}" if section.move_to else ""
        what = {Operation.DELETE: "removed", Operation.ADD: "new"}.get(section.operation, "changed")
        lines.append(f"@@ {section.path}: {what}{moved} @@")
        lines += _prefix_lines("+", section.content)
        for chunk in section.chunks:
            lines += [f"@@ {context}".rstrip() for context in chunk.contexts or ("",)]
            lines += [f"{sign}{line}" for sign, line in chunk.lines]
    return "\n".join(lines)


def _prefix_lines(sign: str, text: str) -> Iterator[str]:
    if text:
        yield from (f"{sign}{line}" for line in text.removesuffix("\n").split("\n"))


def unified_diff(before: bytes | None, after: bytes) -> str:
    """The difference of two contents, with three lines around each change."""
    old, new = _decode_lines(before or b""), _decode_lines(after)
    if before and after and before.endswith(b"\n") != after.endswith(b"\n"):
        unended = old if after.endswith(b"\n") else new
        unended[-1] += f"\n{NO_NEWLINE_MARK}"  # so that it is another line than one that ends
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    most -= head
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    start = max(0, head - CONTEXT_LINES)
    kept = max(0, tail - CONTEXT_LINES)
    a, b = old[start : len(old) - kept], new[start : len(new) - kept]
    return "\n".join(_hunks(a, b, start))


def _hunks(a: Sequence[str], b: Sequence[str], start: int) -> Iterator[str]:
    """The changes of two pieces that both begin behind line `start`."""
    if max(len(a), len(b)) > COMPARED_LINES_MAX:
        yield _hunk_header(start, len(a), start, len(b))
        yield from (f"-{line}" for line in a)
        yield from (f"+{line}" for line in b)
        return
    import difflib  # for questions about changes alone: a turn without one need not load it

    for group in difflib.SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT_LINES):
        (_, a0, _, b0, _), (_, _, a1, _, b1) = group[0], group[-1]
        yield _hunk_header(start + a0, a1 - a0, start + b0, b1 - b0)
        for kind, i0, i1, j0, j1 in group:
            if kind == "equal":
                yield from (f" {line}" for line in a[i0:i1])
                continue
            yield from (f"-{line}" for line in a[i0:i1])
            yield from (f"+{line}" for line in b[j0:j1])


def _hunk_header(old: int, old_count: int, new: int, new_count: int) -> str:
    # Of nothing the line before it is named.
    first, second = old + bool(old_count), new + bool(new_count)
    return f"@@ -{first},{old_count} +{second},{new_count} @@"


def _decode_lines(content: bytes) -> list[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
