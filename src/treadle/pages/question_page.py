"""A question as a page shows it: all of the call, what is dangerous about it, what can be said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from treadle.core.approval import Question
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import RiskLevel
from treadle.pages.call_blocks import BlockKind, CallBlock, make_patch_block
from treadle.thread.question_digest import digest_question

SHOWN_SIZE_MAX: Final = 200_000
"""Characters of a part of a call that are shown; of more it is said how many there are."""


class QuestionView(Struct, frozen=True, kw_only=True):
    """A call that needs a person's yes.

    Args:
        call_id: its id.
        tool: the name of its tool.
        risk: how risky it is, in a word.
        is_critical: whether a yes is asked for twice.
        dangers: what is dangerous about it, and what of it is not shown.
        reason: why it is asked about.
        confined: what would hold it.
        blocks: all of it.
        covers: what a yes for the rest of the thread would be for; empty if there is no such yes.
        ground: the digest of the question as it is shown here.
        command: the command, if it runs one.
        arguments: the arguments as JSON, laid out to be changed.
    """

    call_id: str
    tool: str
    risk: str
    is_critical: bool
    dangers: tuple[str, ...]
    reason: str
    confined: str
    blocks: tuple[CallBlock, ...]
    covers: str
    ground: str
    command: str
    arguments: str


def make_question_view(
    thread_id: str,
    question: Question,
    arguments: dict[str, Any] | None,
    dangers: Sequence[str],
    covers: str,
    *,
    diff: str | None = None,
    diffed: str | None = None,
) -> QuestionView:
    """A question for a page.

    Args:
        thread_id: the thread in which it is asked.
        question: the call, as a yes to it would be recorded.
        arguments: its arguments as its tool takes them; `None` if they are no object.
        dangers: what is dangerous about it, in words.
        covers: what a yes for the rest of the thread would be for.
        diff: what it would change, as a unified diff.
        diffed: the argument that the diff stands for.
    """
    blocks = tuple(_list_blocks(question, arguments, diff, diffed))
    size = sum(len(one) for one in _list_texts(question, diff))
    more = max(0, size - SHOWN_SIZE_MAX)
    cut = (f"{more:,} of {size:,} characters are not shown",) if more else ()
    command = (arguments or {}).get("command")
    is_command = kind_of(question.call.tool_name) is ToolKind.RUN and isinstance(command, str)
    return QuestionView(
        call_id=question.call.id,
        tool=question.call.tool_name,
        risk=question.risk.name.lower(),
        is_critical=question.risk >= RiskLevel.CRITICAL,
        dangers=(*cut, *dangers),
        reason=question.reason,
        confined=question.scope.confined,
        blocks=blocks,
        covers="" if cut else covers,
        ground=digest_question(thread_id, question),
        command=str(command) if is_command else "",
        arguments=question.call.arguments_json
        if arguments is None
        else json.dumps(arguments, ensure_ascii=False, indent=2),
    )


def _list_texts(question: Question, diff: str | None) -> Iterator[str]:
    yield question.call.arguments_json
    yield diff or ""


def _list_blocks(
    question: Question, arguments: dict[str, Any] | None, diff: str | None, diffed: str | None
) -> Iterator[CallBlock]:
    """The command, then the other arguments, then the change; none is left out."""
    if arguments is None:
        yield _make_text_block(question.call.arguments_json)
        return
    command = arguments.get("command")
    is_command = kind_of(question.call.tool_name) is ToolKind.RUN and isinstance(command, str)
    if is_command:
        yield CallBlock(BlockKind.COMMAND, str(command)[:SHOWN_SIZE_MAX])
    told = {"command"} if is_command else {diffed} if diff is not None else set()
    rest = {name: value for name, value in arguments.items() if name not in told}
    if rest:
        lines = (f"{name}: {_indent(value)}" for name, value in rest.items())
        yield _make_text_block("\n".join(lines))
    if diff is not None:
        yield make_patch_block(diff[:SHOWN_SIZE_MAX])


def _make_text_block(text: str) -> CallBlock:
    return CallBlock(BlockKind.TEXT, text[:SHOWN_SIZE_MAX])


def _indent(value: Any) -> str:
    """The lines of a value are indented, so that none can pass for another argument."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    lines = text.split("\n")
    return text if len(lines) == 1 else "\n  ".join(["", *lines])
