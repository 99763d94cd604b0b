"""The work of a turn as a table with bars: what was done, when, how long, how it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from treadle.telemetry.attributes import (
    CALL_ID,
    CHAT,
    EXECUTE_TOOL,
    INPUT_TOKENS,
    INVOKE_AGENT,
    OPERATION,
    OUTCOME,
    OUTPUT_TOKENS,
    TOOL,
)
from treadle.telemetry.span_fold import format_nanoseconds
from treadle.telemetry.spans import AttributeValue, FinishedSpan

ROW_COUNT: Final = 500
"""Rows of a turn; of more the first ones are shown."""
BAR_WIDTH: Final = 1000
"""How long the bar of the whole turn is."""

_SECOND_NS: Final = 1_000_000_000


class WorkRow(Struct, frozen=True, kw_only=True):
    """A piece of work.

    Args:
        name: what it was, in words.
        kind: `turn`, `model`, `tool` or `other`.
        depth: of how many others it is a part.
        begin: after how long it began.
        length: how long it took.
        outcome: how it ended; empty if as one would hope.
        is_failed: whether that is a failure.
        used: tokens in and out.
        call_id: of a call, its id.
        x: where its bar begins.
        width: how long that is.
    """

    name: str
    kind: str
    depth: int
    begin: str
    length: str
    outcome: str
    is_failed: bool
    used: str
    call_id: str
    x: int
    width: int


class WorkTrace(Struct, frozen=True):
    """The work of one turn, counted from 1 among those in which something was done."""

    turn: int
    turn_count: int
    at: str
    rows: Sequence[WorkRow]
    more: int


def make_trace(spans: Sequence[FinishedSpan], turn: int | None) -> WorkTrace | None:
    """The work of a turn.

    Args:
        spans: of the thread.
        turn: which one; `None` for the last.

    Returns:
        `None` if there is no such turn.
    """
    roots = [span for span in spans if span.attributes.get(OPERATION) == INVOKE_AGENT]
    turn = len(roots) if turn is None else turn
    if not 1 <= turn <= len(roots):
        return None
    root = roots[turn - 1]
    depths = {root.context.span_id: 0}
    parts = [root]
    for span in sorted(spans, key=lambda one: one.begin_ns):
        if span.trace_id == root.trace_id and span.parent_id in depths and span is not root:
            depths[span.context.span_id] = depths[span.parent_id] + 1
            parts.append(span)
    rows = [_make_row(span, root, depths[span.context.span_id]) for span in parts[:ROW_COUNT]]
    return WorkTrace(
        turn, len(roots), format_nanoseconds(root.begin_ns), rows, len(parts) - len(rows)
    )


def describe_length(length_ns: int) -> str:
    """A time for people: `40 ms`, `2.5 s`, `3 min 4 s`, `2 h 5 min`."""
    if length_ns < _SECOND_NS:
        return f"{length_ns // 1_000_000} ms"
    if length_ns < 60 * _SECOND_NS:
        return f"{length_ns / _SECOND_NS:.1f} s"
    minutes, seconds = divmod(length_ns // _SECOND_NS, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _make_row(span: FinishedSpan, root: FinishedSpan, depth: int) -> WorkRow:
    told = span.attributes
    whole_ns = max(1, root.end_ns - root.begin_ns)
    start_ns, length_ns = max(0, span.begin_ns - root.begin_ns), span.end_ns - span.begin_ns
    x = min(BAR_WIDTH, start_ns * BAR_WIDTH // whole_ns)
    kind = _KINDS.get(str(told.get(OPERATION, "")), "other")
    outcome = span.error.kind if span.error else str(told.get(OUTCOME, ""))
    return WorkRow(
        name=_name_work(span, kind),
        kind=kind,
        depth=min(depth, 3),
        begin=f"+{describe_length(start_ns)}" if depth else "",
        length=describe_length(length_ns),
        outcome="" if outcome in ("done", "success", "ok") else outcome.replace("_", " "),
        is_failed=span.error is not None,
        used=_describe_tokens(told),
        call_id=str(told.get(CALL_ID, "")),
        x=x,
        width=max(4, min(BAR_WIDTH - x, length_ns * BAR_WIDTH // whole_ns)),
    )


_KINDS: Final = {INVOKE_AGENT: "turn", CHAT: "model", EXECUTE_TOOL: "tool"}


def _name_work(span: FinishedSpan, kind: str) -> str:
    if kind == "turn":
        return "The turn"
    if kind == "tool":
        return str(span.attributes.get(TOOL, "")) or span.name
    return span.name.removeprefix(f"{CHAT} ") if kind == "model" else span.name.replace("_", " ")


def _describe_tokens(told: Mapping[str, AttributeValue]) -> str:
    read, written = told.get(INPUT_TOKENS), told.get(OUTPUT_TOKENS)
    if not isinstance(read, int) or not isinstance(written, int):
        return ""
    return f"{read:,} in, {written:,} out"
