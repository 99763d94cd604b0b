"""A call that needs a person's yes, as blocks: all of what would run, behind a bar.

The rules are those of `treadle.thread.question_text`: what a model wrote is shown as it is,
with a mark for each character that cannot be seen, and can pass neither for the question nor for
another argument. What would run is the brightest of it; red is for what is critical alone, as who
sees it at each question sees it no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from treadle.app.threads.call_arguments import read_arguments
from treadle.app.threads.call_diffs import name_diffed_argument
from treadle.core.approval import Question
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import RiskLevel
from treadle.terminal.blocks.diffs import diff_block
from treadle.terminal.blocks.frames import BAR, PLAIN_BAR, PrefixedBlock, TrimmedBlock
from treadle.terminal.styles import rich_style
from treadle.thread.question_text import (
    collapse_gaps,
    describe_reason,
    escape_name,
    list_dangers,
    mark_unseen,
)

SHOWN_LENGTH_MAX: Final = 200_000
"""Characters of a call that are shown; of more it is said how many there are."""
SHOWN_LINES_MAX: Final = 5000
"""Lines of it; drawing these takes a part of a second."""
COMMAND_STYLE: Final = "bold"
_SHORT_LENGTH_MAX: Final = 200
"""Characters of an argument in one line that stands before the long ones, so that none of these
pushes it out of sight."""


class QuestionBlocks(NamedTuple):
    """A question: what is to be known of the call, the call itself, why it is asked about."""

    head: RenderableType
    body: RenderableType
    foot: RenderableType


class _CallArgument(NamedTuple):
    """One argument as it is told."""

    head: str
    text: str
    style: str = ""

    @property
    def is_long(self) -> bool:
        return len(self.text) > _SHORT_LENGTH_MAX or "\n" in self.text


class _ShownCall(NamedTuple):
    """What is shown of a call: its arguments, each up to a bound, and its change."""

    parts: tuple[_CallArgument, ...]
    diff: str | None

    @property
    def _count(self) -> int:
        return max(1, len(self.parts) + (self.diff is not None))

    def crop(self, text: str) -> str:
        """The part of one text that is shown: each may take as much as the others."""
        kept = text[: SHOWN_LENGTH_MAX // self._count]
        lines_max = max(1, SHOWN_LINES_MAX // self._count)
        return kept if kept.count("\n") < lines_max else "\n".join(kept.split("\n")[:lines_max])

    def describe_omission(self) -> str:
        """What is left out, in words; empty if nothing."""
        texts = [*(part.text for part in self.parts), self.diff or ""]
        more = sum(len(text) - len(self.crop(text)) for text in texts)
        return f"{more:,} of {sum(map(len, texts)):,} characters are not shown" if more else ""


def question_blocks(
    question: Question, diff: str | None, *, thread: str = "", is_plain: bool = False
) -> QuestionBlocks:
    """What is asked: command or change, its risk, why it is asked about, what would hold it.

    Args:
        question: the call.
        diff: what the call would change.
        thread: the id of the thread, which has all of a call that is too long to be shown.
        is_plain: whether it is for a terminal that shows lines only.
    """
    name, risk = escape_name(question.call.tool_name), question.risk.name.lower()
    title = f"{name} needs your approval · {risk} risk"
    foot = [*_describe_grounds(question), *_describe_place(question.call, diff, thread)]
    return QuestionBlocks(
        _render_head(question, diff, title),
        call_block(question.call, diff, is_plain=is_plain),
        Group(*foot),
    )


def doubt_blocks(
    question: Question, diff: str | None, *, thread: str = "", is_plain: bool = False
) -> QuestionBlocks:
    """A call that was running when its process died, and what running it again would mean."""
    title = "The process died while this was running. It may or may not have happened:"
    risk = Text(f"  to run it again: {question.risk.name.lower()} risk", rich_style("dim"))
    held = _describe_confinement(question)
    return QuestionBlocks(
        _render_head(question, diff, title),
        call_block(question.call, diff, is_plain=is_plain),
        Group(risk, *held, *_describe_place(question.call, diff, thread)),
    )


def describe_omission(call: ToolCall, diff: str | None) -> str:
    """What a question leaves out of the call, in words; empty if nothing."""
    return _ShownCall(_list_arguments(call, diff), diff).describe_omission()


def call_block(call: ToolCall, diff: str | None, *, is_plain: bool = False) -> RenderableType:
    """A call as it would run, behind a bar."""
    bar = PLAIN_BAR if is_plain else BAR
    told = Group(*_render_arguments(call, diff, is_plain=is_plain))
    return TrimmedBlock(PrefixedBlock(told, bar, rich_style("warn")))


def _render_head(question: Question, diff: str | None, title: str) -> RenderableType:
    """What it is, and what is dangerous about it."""
    style = rich_style("bad" if question.risk >= RiskLevel.CRITICAL else "warn")
    cut = describe_omission(question.call, diff)
    dangers = (Text(f"  careful: {mark_unseen(why)}", style) for why in list_dangers(question, cut))
    return TrimmedBlock(Group(Text(title, style), *dangers))


def _describe_grounds(question: Question) -> Iterator[RenderableType]:
    yield Text(f"  {mark_unseen(describe_reason(question))}", rich_style("dim"))
    yield from _describe_confinement(question)


def _describe_confinement(question: Question) -> Iterator[RenderableType]:
    if held := question.scope.confined:
        yield Text(f"  confined: {mark_unseen(held)}", rich_style("dim"))


def _describe_place(call: ToolCall, diff: str | None, thread: str) -> Iterator[RenderableType]:
    """Where all of a call is that is too long to be shown."""
    if thread and describe_omission(call, diff):
        yield Text(f"  all of it: treadle show {thread} --json", rich_style("dim"))


def _list_arguments(call: ToolCall, diff: str | None) -> tuple[_CallArgument, ...]:
    """Each argument: a command as it would be typed, others by their name; not what the diff is.

    The short ones stand first, so that none is pushed out of sight; of these the command does.
    """
    arguments = read_arguments(call)
    if arguments is None:
        return (_CallArgument("", collapse_gaps(call.arguments_json)),)
    kind = kind_of(call.tool_name)
    diffed = None if diff is None else name_diffed_argument(call)
    parts = []
    for name, value in arguments.items():
        if name == diffed:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        # Indented, so that a line of a value cannot pass for another argument.
        lines = text.split("\n")
        if kind is ToolKind.RUN and name == "command":
            parts.append(_CallArgument("$ ", collapse_gaps("\n  ".join(lines)), COMMAND_STYLE))
        else:
            told = text if len(lines) == 1 else "\n  ".join(["", *lines])
            parts.append(_CallArgument(f"{escape_name(name)}: ", collapse_gaps(told)))
    return tuple(sorted(parts, key=lambda part: (part.is_long, part.style != COMMAND_STYLE)))


def _render_arguments(
    call: ToolCall, diff: str | None, *, is_plain: bool
) -> Iterator[RenderableType]:
    """The arguments, and the change as a diff."""
    shown = _ShownCall(_list_arguments(call, diff), diff)
    for part in shown.parts:
        kept = shown.crop(part.text)
        head, told = (part.head, rich_style("dim")), (mark_unseen(kept), rich_style(part.style))
        yield Text.assemble(head, told)  # the style of a first text would hold for all behind it
        yield from _render_crop_notice(part.text, kept)
    if diff is not None:
        kept = shown.crop(diff)
        yield diff_block(kept, lines_max=None, line_length_max=SHOWN_LENGTH_MAX, is_plain=is_plain)
        yield from _render_crop_notice(diff, kept)


def _render_crop_notice(text: str, kept: str) -> Iterator[Text]:
    if more := len(text) - len(kept):
        yield Text(f"... {more} more characters", rich_style("warn"))
