"""The tool that replaces text in files.

It works on bytes, so that whatever is not replaced stays as it is, valid or not. The rules follow
the original program, with two of its faults mended: a text must occur exactly once, and a file that
exists is never appended to by an empty `old_str`. A text that differs from the file in white space
alone is found too (`white_space.py`), and one that is not there is explained (`edit_causes.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from treadle.core.sightings import Sightings
from treadle.core.tools import EffectClass, RiskLevel, ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.edit_causes import Missing, find_cause, show_cause
from treadle.tools.files import EDIT_SIZE_MAX, check_rewrite, digest_of, read_if_there, rewrite
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.known_files import refuse_changed
from treadle.tools.near_names import with_near_names
from treadle.tools.paths import Root
from treadle.tools.shown_lines import show_lines
from treadle.tools.tool_return import ToolReturn
from treadle.tools.white_space import fit_replacement
from treadle.tools.write_scope import make_write_result, risk_of_writing, scope_of_writing

PLACE_COUNT_MAX: Final = 5
"""Places named of a text that occurs more than once."""
OTHER_FILE_COUNT_MAX: Final = 5
"""Files that were seen last, in which a text is looked for that is not in its own."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old_str: Annotated[str, Meta(description="The text to replace, exactly as in the file.")]
    new_str: Annotated[str, Meta(description="What comes in its place.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence instead of exactly one.")
    ] = False


class EditNames(NamedTuple):
    """What the model calls the arguments of an edit; `is_single` if it is no list of them."""

    old: str = "old_str"
    new: str = "new_str"
    replace_all: str = "replace_all"
    is_single: bool = False

    def place(self, index: int) -> str:
        """Where the text to replace of an edit stands."""
        return self.old if self.is_single else f"edits[{index}].{self.old}"


OWN_NAMES: Final = EditNames()


class Applied(NamedTuple):
    """A content after some edits, how often they replaced something, and what else is told."""

    content: bytes
    replaced: int
    remarks: tuple[str, ...] = ()


def check_edit(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `edit_file` would."""
    path, edits = arguments["path"], arguments["edits"]
    with _explain_failure(context, path, edits):
        check_rewrite(
            context.workspace, path, lambda old: _apply(context, path, edits, old).content
        )


@tool(
    effect=EffectClass.MUTATE,
    risk=RiskLevel.MEDIUM,
    risk_of=risk_of_writing,
    scope_of=scope_of_writing,
    check=check_edit,
)
def edit_file(
    context: ToolContext, path: str, edits: Annotated[list[Edit], Meta(min_length=1)]
) -> ToolReturn:
    """Replace text in a file: all edits or none.

    Each old_str must occur exactly once, so give enough lines around it, or set replace_all. Later
    edits see the result of earlier ones. The file keeps its line ends and its encoding. An empty
    old_str makes a new file out of new_str; missing folders are made.

    Args:
        context: The workspace.
        path: The file, relative to the workspace.
        edits: What to replace, in order.
    """
    applied = Applied(b"", 0)

    def change(old: bytes | None) -> bytes:
        nonlocal applied
        applied = _apply(context, path, edits, old)
        return applied.content

    with _explain_failure(context, path, edits):
        written = rewrite(context.workspace, path, change)
    if written.size_before is None:
        return make_write_result(written, f"created {written.name}, {written.size} bytes")
    what = f"{applied.replaced} replacement{'' if applied.replaced == 1 else 's'}"
    sizes = f"{written.size_before} -> {written.size} bytes"
    said = (f"edited {written.name}: {what}, {sizes}", *applied.remarks)
    return make_write_result(written, "\n".join(said))


def _apply(context: ToolContext, path: str, edits: Sequence[Edit], old: bytes | None) -> Applied:
    """What the edits make of a file that the model knows as it is."""
    refuse_changed(context.sightings, context.workspace.name_of(path), digest_of(old), old)
    names = EditNames(
        context.argument("edits.old_str"),
        context.argument("edits.new_str"),
        context.argument("edits.replace_all"),
        is_single=context.shape is not None and bool(context.shape.spread),
    )
    return apply_edits(old, edits, path, names)


@contextmanager
def _explain_failure(context: ToolContext, path: str, edits: Sequence[Edit]) -> Iterator[None]:
    """Say of what is not found where it may be, to who will read that."""
    if not context.explains:
        yield
        return
    try:
        with with_near_names(context.workspace, path):
            yield
    except ToolFailure as failure:
        if failure.kind is ToolErrorKind.TARGET_NOT_FOUND:
            failure.message += _find_elsewhere(context.workspace, path, edits, context.sightings)
        raise


def apply_edits(
    content: bytes | None, edits: Sequence[Edit], path: str, names: EditNames = OWN_NAMES
) -> Applied:
    """The content after all edits. Pure.

    Args:
        content: of the file; `None` if there is none.
        edits: in order.
        path: for messages.
        names: for messages too.

    Raises:
        ToolFailure: one of the edits cannot be made.
    """
    data, count, remarks = content or b"", 0, list[str]()
    for index, edit in enumerate(edits):
        place = names.place(index)
        if edit.old_str == edit.new_str:
            words = f"{place} and {names.new} are the same"
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, words)
        if not edit.old_str and data:
            raise ToolFailure(
                ToolErrorKind.FAILED, f"{place} is empty, which makes new files; {path} has content"
            )
        if edit.old_str and content is None and not data:
            raise ToolFailure(ToolErrorKind.FILE_NOT_FOUND, path)
        if not edit.old_str:
            data, count = edit.new_str.encode(), count + 1
            continue
        try:
            applied = _FileText(data, path, names).replace(edit, place)
        except ToolFailure as failure:
            is_missing = failure.kind is ToolErrorKind.TARGET_NOT_FOUND
            if is_missing and index and _FileText(content or b"", path).has(edit.old_str):
                why = "an edit before it in this call has changed that text"
                failure.message = f"{place} does not occur in {path} any more: {why}"
            raise
        data, count = applied.content, count + applied.replaced
        remarks += applied.remarks
    return Applied(data, count, tuple(remarks))


def _find_elsewhere(
    root: Root, path: str, edits: Sequence[Edit], sightings: Sightings | None
) -> str:
    """In which of the files that were seen last the first text is that is not in its own."""
    if sightings is None:
        return ""
    mine = root.name_of(path)
    recent = dict.fromkeys(one.file.name for one in sightings.newest() if one.file.name != mine)
    content = _read_or_none(root, path) or b""
    old = next((one.old_str for one in edits if not _FileText(content, path).has(one.old_str)), "")
    for name in islice(recent, OTHER_FILE_COUNT_MAX):
        other = _read_or_none(root, name)
        if other is not None and len(old.strip()) > 1 and _FileText(other, name).has(old):
            return f"; it stands in {name}, which you have seen too"
    return ""


def _read_or_none(root: Root, path: str) -> bytes | None:
    try:
        return read_if_there(root, path)
    except (ToolFailure, OSError):
        return None


def _find_all(data: bytes, wanted: bytes, step: int) -> Iterator[int]:
    """Where it stands, each place `step` bytes behind the one before at least."""
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + step)


def _list_longer_ends(data: bytes) -> list[int]:
    """The places of line ends of two bytes, in the data with one byte for each."""
    return [place - count for count, place in enumerate(_find_all(data, b"\r\n", 2))]


class _FileText:
    """The bytes of a file, and how text is written in it."""

    def __init__(self, data: bytes, path: str, names: EditNames = OWN_NAMES) -> None:
        self._data = data
        self._names = names
        self._path = path
        crlf_count = data.count(b"\r\n")
        is_crlf = crlf_count > data.count(b"\n") - crlf_count
        self._line_end = b"\r\n" if is_crlf else b"\n"
        try:
            data.decode()
            self._encoding = "utf-8"
        except UnicodeDecodeError:
            # Every byte is a character in it, so whatever the file is, nothing else changes.
            self._encoding = "latin-1"
        # A plain search in this takes no longer where all lines are the same, as a pattern would.
        self._plain = data.replace(b"\r\n", b"\n")
        self._longer = _list_longer_ends(data)

    def has(self, text: str) -> bool:
        """Whether the text occurs, whatever the line ends."""
        try:
            return self._encode(text) in self._plain
        except ToolFailure:  # it has characters that the file cannot have
            return False

    def replace(self, edit: Edit, place: str) -> Applied:
        """The bytes with the text replaced once, or everywhere if that is meant."""
        old = self._encode(edit.old_str)
        if edit.replace_all:
            starts = list(_find_all(self._plain, old, len(old)))
        else:
            # `aa` stands twice in `aaa`.
            starts = list(islice(_find_all(self._plain, old, 1), PLACE_COUNT_MAX + 1))
        new = self._encode(edit.new_str).replace(b"\n", self._line_end)
        if not starts:
            return self._replace_fitted(edit, place)
        if len(starts) > 1 and not edit.replace_all:
            raise self._ambiguous(starts, place)
        self._check_size(len(self._data) + len(starts) * len(new))
        parts, at = list[bytes](), 0
        for start in starts:
            parts += self._data[at : self._find_offset(start)], new
            at = self._find_offset(start + len(old))
        return Applied(b"".join((*parts, self._data[at:])), len(starts))

    def _find_offset(self, at: int) -> int:
        """Where a place of `_plain` is in the file."""
        return at + bisect_left(self._longer, at)

    def _replace_fitted(self, edit: Edit, place: str) -> Applied:
        """The text replaced where it stands but for its white space, if that is one place."""
        text = self._data.decode(self._encoding)
        plain = text.replace("\r\n", "\n")
        old, new = (one.replace("\r\n", "\n") for one in (edit.old_str, edit.new_str))
        fit = fit_replacement(plain, old, new)
        # A file with line ends of both kinds would not come back as it was.
        is_one_kind = plain == text or plain.replace("\n", "\r\n") == text
        if fit is None or not is_one_kind:
            missing = Missing(plain, old, new, self._names.new)
            cause = find_cause(missing)
            raise ToolFailure(
                ToolErrorKind.TARGET_NOT_FOUND,
                f"{place} does not occur in {self._path}: {cause.words}",
                show_cause(missing, cause),
            )
        (start, end), fitted = fit
        changed = plain[:start] + fitted + plain[end:]
        if plain != text:
            changed = changed.replace("\n", "\r\n")
        data = changed.encode(self._encoding)
        self._check_size(len(data))
        first, last = plain.count("\n", 0, start) + 1, plain.count("\n", 0, max(start, end - 1)) + 1
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        indented = "" if fitted == new else f", and {self._names.new} was indented as they are"
        remark = f"[{place} differed from {where} in white space only: taken for them{indented}]"
        return Applied(data, 1, (remark,))

    def _check_size(self, size: int) -> None:
        if size > EDIT_SIZE_MAX:
            message = f"{self._path} would become too large to edit"
            raise ToolFailure(ToolErrorKind.FAILED, message)

    def _ambiguous(self, starts: Sequence[int], place: str) -> ToolFailure:
        numbers = [self._plain.count(b"\n", 0, start) + 1 for start in starts[:PLACE_COUNT_MAX]]
        more = ", ..." if len(starts) > PLACE_COUNT_MAX else ""
        where = ", ".join(map(str, numbers)) + more
        message = f"{place} occurs more than once in {self._path} (lines {where})"
        return ToolFailure(
            ToolErrorKind.FAILED,
            f"{message}: give more lines around it, or set {self._names.replace_all}",
            show_lines(self._data.decode(self._encoding).split("\n"), numbers),
        )

    def _encode(self, text: str) -> bytes:
        try:
            return text.replace("\r\n", "\n").encode(self._encoding)
        except UnicodeEncodeError as error:
            message = (
                f"{self._path} is not UTF-8 and is edited as Latin-1, "
                f"which has no {error.object[error.start : error.end]!r}"
            )
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, message) from error
