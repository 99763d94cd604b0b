"""A call that needs a person's yes, as a block: all of what would run, behind a bar.

The rules are those of `treadle.cli.questions`: what a model wrote is shown as it is, with a mark
for each character that cannot be seen, and can pass neither for the question nor for another
argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from treadle.cli.chat.blocks.diffs import diff_block
from treadle.cli.chat.blocks.frames import BAR, PLAIN_BAR, Barred
from treadle.cli.chat.changes import Read, planned
from treadle.cli.chat.styles import rich_style
from treadle.cli.questions import (
    SHOWN_LENGTH_MAX,
    cut_words,
    in_line,
    read_object,
    unseen_words,
    visible,
    without_gaps,
)
from treadle.core.approval import Question
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel

SHOWN_LINES_MAX: Final = 200
"""Lines of a diff that are asked about. Of more it is said how many there are."""
_DIFFED: Final = {"edit_file": "edits", "write_file": "content"}
"""The argument that is shown as a diff, by tool."""


def question_block(
    question: Question, *, read: Read | None = None, is_plain: bool = False
) -> RenderableType:
    """What is asked: command or change, its risk, why it is asked about, what would hold it.

    Args:
        question: the call.
        read: reads the file that would be changed, for a diff with line numbers.
        is_plain: whether it is for a terminal that shows lines only.
    """
    name, risk = in_line(question.call.tool_name), question.risk.name.lower()
    loud = "bad" if question.risk >= RiskLevel.HIGH else "warn"
    blocks: list[RenderableType] = [
        Text(f"{name} needs your approval; its risk is {risk}:", f"bold {rich_style(loud)}"),
        call_block(question.call, read=read, is_plain=is_plain),
    ]
    return Group(*blocks, *circumstances(question, question.reason))


def circumstances(question: Question, reason: str = "") -> Iterator[RenderableType]:
    """What is dangerous about a call, a reason to ask, and what would hold it."""
    for why in _dangers(question):
        yield Text(f"  careful: {visible(why)}", rich_style("bad"))
    if reason:
        yield Text(f"  {visible(reason)}", rich_style("dim"))
    if question.scope.confined:
        words = f"  it would run confined: {visible(question.scope.confined)}"
        yield Text(words, rich_style("dim"))


def call_block(
    call: ToolCall, *, read: Read | None = None, is_plain: bool = False
) -> RenderableType:
    """A call as it would run, behind a bar."""
    bar = PLAIN_BAR if is_plain else BAR
    return Barred(Group(*_told(call, read, is_plain=is_plain)), bar, rich_style("warn"))


def _dangers(question: Question) -> Iterator[str]:
    yield from question.scope.reasons
    text = question.call.arguments_json
    arguments = read_object(text)
    told = [text] if arguments is None else [*_strings(arguments)]
    yield from filter(None, [cut_words(text), unseen_words([*told, *question.scope.kinds])])


def _strings(value: Any) -> Iterator[str]:
    """Every text in it, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _told(call: ToolCall, read: Read | None, *, is_plain: bool) -> Iterator[RenderableType]:
    """Each argument: a command as it would be typed, a change as a diff, others by their name."""
    arguments = read_object(call.arguments_json)
    if arguments is None:
        yield from _cut(call.arguments_json)
        return
    diff = planned(call, read)
    diffed = None if diff is None else _DIFFED[call.tool_name]
    for name, value in arguments.items():
        if name == diffed:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if call.tool_name == "bash" and name == "command":
            yield from _cut("\n  ".join(text.split("\n")), "$ ", "code")
        else:
            # Indented, so that a line of a value cannot pass for another argument.
            lines = text.split("\n")
            yield from _cut(
                text if len(lines) == 1 else "\n  ".join(["", *lines]), f"{in_line(name)}: "
            )
    if diff is not None:
        yield diff_block(diff, lines_max=SHOWN_LINES_MAX, is_plain=is_plain)


def _cut(text: str, head: str = "", style: str = "") -> Iterator[Text]:
    text = without_gaps(text)
    shown = Text(head, rich_style("dim"))
    shown.append(visible(text[:SHOWN_LENGTH_MAX]), rich_style(style))
    yield shown
    if (more := len(text) - SHOWN_LENGTH_MAX) > 0:
        yield Text(f"... {more} more characters", rich_style("warn"))
