"""A call that needs a person's yes, as a block: all of what would run, behind a bar.

The rules are those of `treadle.app.threads.question_text`: what a model wrote is shown as it is,
with a mark for each character that cannot be seen, and can pass neither for the question nor for
another argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from treadle.app.threads.call_arguments import read_arguments
from treadle.app.threads.question_text import (
    SHOWN_LENGTH_MAX,
    collapse_gaps,
    describe_unseen,
    escape_name,
    mark_unseen,
    read_object,
)
from treadle.core.approval import Question
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import RiskLevel
from treadle.terminal.blocks.diffs import LINE_LENGTH_MAX, describe_diff_omission, diff_block
from treadle.terminal.blocks.frames import BAR, PLAIN_BAR, PrefixedBlock
from treadle.terminal.call_diffs import preview_diff
from treadle.terminal.styles import rich_style

SHOWN_LINES_MAX: Final = 200
"""Lines of a diff that are asked about. Of more it is said how many there are."""
WHOLE_LENGTH_MAX: Final = 200_000
"""Characters of a call that are shown when all of it is asked for."""
WHOLE_LINES_MAX: Final = 5000
"""Lines of it then; terminals keep few more, and drawing these takes a part of a second."""
_DIFF_ARGUMENTS: Final = {
    ToolKind.EDIT: "edits",
    ToolKind.WRITE: "content",
    ToolKind.PATCH: "input",
}
"""The argument that is shown as a diff, by what its tool does."""


class _CallArgument(NamedTuple):
    """One argument as it is told."""

    head: str
    text: str
    style: str = ""


class _ArgumentBounds(NamedTuple):
    """How much of one argument is shown."""

    length: int
    lines: int | None = None

    def crop(self, text: str) -> str:
        """The beginning of the text that is shown; never less than usually."""
        kept = text[: self.length]
        if self.lines is None or kept.count("\n") < self.lines:
            return kept
        lines = "\n".join(kept.split("\n", self.lines)[: self.lines])
        return max(lines, text[:SHOWN_LENGTH_MAX], key=len)


class _DiffExcerpt(NamedTuple):
    """How much of a diff is shown: its beginning, and of that so many lines, so long."""

    kept: str
    lines_max: int | None
    line_length_max: int


_DEFAULT_BOUNDS: Final = _ArgumentBounds(SHOWN_LENGTH_MAX)


def question_block(
    question: Question, diff: str | None, *, is_plain: bool = False, is_whole: bool = False
) -> RenderableType:
    """What is asked: command or change, its risk, why it is asked about, what would hold it.

    Args:
        question: the call.
        diff: what the call was `planned` to change.
        is_plain: whether it is for a terminal that shows lines only.
        is_whole: whether all of the call is shown, up to `WHOLE_LENGTH_MAX` and `WHOLE_LINES_MAX`.
    """
    call = question.call
    name, risk = escape_name(call.tool_name), question.risk.name.lower()
    blocks: list[RenderableType] = [
        Text(f"{name} needs your approval; its risk is {risk}:", f"bold {_style(question)}"),
        _render_call(call, diff, is_plain=is_plain, is_whole=is_whole),
    ]
    cut = _describe_omission(call, diff, is_whole=is_whole)
    return Group(*blocks, *describe_risk(question, question.reason, unshown=cut))


def describe_risk(
    question: Question, reason: str = "", *, unshown: str = ""
) -> Iterator[RenderableType]:
    """What is dangerous about a call, what is not shown, a reason to ask, what would hold it."""
    for why in _list_dangers(question, unshown):
        yield Text(f"  careful: {mark_unseen(why)}", _style(question))
    if reason:
        yield Text(f"  {mark_unseen(reason)}", rich_style("dim"))
    if question.scope.confined:
        words = f"  it would run confined: {mark_unseen(question.scope.confined)}"
        yield Text(words, rich_style("dim"))


def _style(question: Question) -> str:
    """Red is for what is critical alone: who sees it at each question sees it no more."""
    return rich_style("bad" if question.risk >= RiskLevel.CRITICAL else "warn")


def call_block(call: ToolCall, *, is_plain: bool = False, is_whole: bool = False) -> RenderableType:
    """A call as it would run, behind a bar; a change by its arguments alone."""
    return _render_call(call, preview_diff(call), is_plain=is_plain, is_whole=is_whole)


def describe_omission(question: Question, diff: str | None, *, is_whole: bool = False) -> str:
    """What the block of this question leaves out of its call, in words; empty if nothing."""
    return _describe_omission(question.call, diff, is_whole=is_whole)


def _describe_omission(call: ToolCall, diff: str | None, *, is_whole: bool) -> str:
    parts = _list_arguments(call, diff)
    bounds = _compute_bounds(len(parts), diff, is_whole=is_whole)
    texts = [part.text for part in parts]
    of_diff = ""
    change = None if diff is None else _excerpt_diff(diff, bounds, is_whole=is_whole)
    if change is not None and change.lines_max is None:
        texts.append(diff or "")
    elif change is not None:
        of_diff = describe_diff_omission(change.kept, change.lines_max or 0, change.line_length_max)
    more = sum(len(text) - len(bounds.crop(text)) for text in texts)
    size = sum(map(len, texts))
    of_texts = f"{more:,} of {size:,} characters are not shown" if more else ""
    return "; ".join(filter(None, [of_texts, of_diff]))


def _compute_bounds(count: int, diff: str | None, *, is_whole: bool) -> _ArgumentBounds:
    """What each of `count` arguments and the diff may take."""
    if not is_whole:
        return _DEFAULT_BOUNDS
    count = max(1, count + (diff is not None))
    length = max(SHOWN_LENGTH_MAX, WHOLE_LENGTH_MAX // count)
    return _ArgumentBounds(length, max(SHOWN_LINES_MAX, WHOLE_LINES_MAX // count))


def _excerpt_diff(diff: str, bounds: _ArgumentBounds, *, is_whole: bool) -> _DiffExcerpt:
    """What is shown of the change; of all of it never less than usually."""
    if not is_whole:
        return _DiffExcerpt(diff, SHOWN_LINES_MAX, LINE_LENGTH_MAX)
    kept = bounds.crop(diff)
    if kept == diff or kept.count("\n") > SHOWN_LINES_MAX:
        return _DiffExcerpt(kept, None, bounds.length)
    lines = diff.split("\n", SHOWN_LINES_MAX + 1)[: SHOWN_LINES_MAX + 1]
    long_count = sum(len(line) > LINE_LENGTH_MAX for line in lines)
    length = max(LINE_LENGTH_MAX, bounds.length // max(1, long_count))
    return _DiffExcerpt(diff, SHOWN_LINES_MAX, length)


def _list_dangers(question: Question, unshown: str) -> Iterator[str]:
    yield from question.scope.reasons
    text = question.call.arguments_json
    arguments = read_object(text)
    told = [text] if arguments is None else [*_collect_strings(arguments)]
    yield from filter(None, [unshown, describe_unseen([*told, *question.scope.kinds])])


def _collect_strings(value: Any) -> Iterator[str]:
    """Every text in it, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _collect_strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _collect_strings(one)


def _render_call(
    call: ToolCall, diff: str | None, *, is_plain: bool, is_whole: bool
) -> RenderableType:
    told = Group(*_render_arguments(call, diff, is_plain=is_plain, is_whole=is_whole))
    return PrefixedBlock(told, PLAIN_BAR if is_plain else BAR, rich_style("warn"))


def _list_arguments(call: ToolCall, diff: str | None) -> list[_CallArgument]:
    """Each argument: a command as it would be typed, others by their name; not what the diff is."""
    arguments = read_arguments(call)
    if arguments is None:
        return [_CallArgument("", collapse_gaps(call.arguments_json))]
    kind = kind_of(call.tool_name)
    diffed = _DIFF_ARGUMENTS[kind] if diff is not None and kind is not None else None
    parts = []
    for name, value in arguments.items():
        if name == diffed:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        # Indented, so that a line of a value cannot pass for another argument.
        lines = text.split("\n")
        if kind is ToolKind.RUN and name == "command":
            parts.append(_CallArgument("$ ", collapse_gaps("\n  ".join(lines)), "code"))
        else:
            told = text if len(lines) == 1 else "\n  ".join(["", *lines])
            parts.append(_CallArgument(f"{escape_name(name)}: ", collapse_gaps(told)))
    return parts


def _render_arguments(
    call: ToolCall, diff: str | None, *, is_plain: bool, is_whole: bool
) -> Iterator[RenderableType]:
    """The arguments, and the change as a diff."""
    parts = _list_arguments(call, diff)
    bounds = _compute_bounds(len(parts), diff, is_whole=is_whole)
    for part in parts:
        kept = bounds.crop(part.text)
        shown = Text(part.head, rich_style("dim"))
        shown.append(mark_unseen(kept), rich_style(part.style))
        yield shown
        yield from _render_crop_notice(part.text, kept)
    if diff is None:
        return
    change = _excerpt_diff(diff, bounds, is_whole=is_whole)
    yield diff_block(
        change.kept,
        lines_max=change.lines_max,
        line_length_max=change.line_length_max,
        is_plain=is_plain,
    )
    yield from _render_crop_notice(diff, change.kept)


def _render_crop_notice(text: str, kept: str) -> Iterator[Text]:
    if more := len(text) - len(kept):
        yield Text(f"... {more} more characters", rich_style("warn"))
