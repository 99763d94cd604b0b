"""The status line: the facts in the order of their worth, as many as the width takes."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from treadle.terminal.columns import crop, text_width
from treadle.terminal.ports import StatusFields, StyledLine
from treadle.thread.safe_text import sanitize_text

FULL_SHARE: Final = 0.8
"""From here on the share of the context is coloured."""

CRITICAL_SHARE: Final = 0.95

MODEL_LENGTH_MAX: Final = 40
"""Of a longer name the beginning is told, so that it does not push out all that follows."""

SEPARATOR: Final = " · "

_UNATTENDED_MODES: Final = ("auto-edit", "auto")
_SHORT_WORDS: Final = {"workspace-write": "ws-write", "no network": "no net", "network": "net"}


def status_line(facts: StatusFields, width: int) -> StyledLine:
    """One line of at most `width` columns.

    If not all of it fits, what holds commands is told in short; then what does not fit is dropped
    from the right; the first part alone is cut. In a mode that runs commands or changes files
    unasked, what holds them comes before the name of the model.
    """
    width = max(width, 0)
    line: list[tuple[str, str]] = []
    used = 0
    parts = _parts(facts)
    if sum(text_width(text) for _, text in parts) + len(SEPARATOR) * (len(parts) - 1) > width:
        parts = _parts(replace(facts, sandbox=_shorten_sandbox(facts.sandbox)))
    for style, text in parts:
        room = text_width(text) + (len(SEPARATOR) if line else 0)
        if used + room > width:
            break
        line += [("dim", SEPARATOR)] * bool(line) + [(style, text)]
        used += room
    else:
        return line
    if line:
        return line
    style, text = parts[0]
    while text_width(text) > width:
        text = text[:-1]
    return [(style, text)]


def _parts(facts: StatusFields) -> list[tuple[str, str]]:
    is_unasked = facts.mode in _UNATTENDED_MODES
    parts = [
        ("warn", "private" if facts.is_private else ""),
        ("accent", facts.mode),
        ("warn", f"remote {facts.remote}" if facts.remote not in ("", "off") else ""),
        ("dim", facts.sandbox if is_unasked else ""),
        _describe_context(facts),
        ("dim", "" if facts.cost_usd is None else f"${facts.cost_usd:.2f}"),
        ("dim", crop(facts.model, MODEL_LENGTH_MAX)),
        ("dim", facts.branch and facts.branch + "*" * facts.is_dirty),
        ("dim", _describe_sum(facts)),
        ("dim", "" if is_unasked else facts.sandbox),
        ("dim", facts.sync),
    ]
    return [(style, sanitize_text(" ".join(text.split()))) for style, text in parts if text]


def _shorten_sandbox(sandbox: str) -> str:
    """`ws-write, no net` for `workspace-write, no network, bubblewrap`."""
    level, *rest = sandbox.partition(":")[0].split(", ")[:2]
    return ", ".join(_SHORT_WORDS.get(part, part) for part in (level, *rest))


def _describe_context(facts: StatusFields) -> tuple[str, str]:
    """How much of the window is used: `12.3k of 200k (6%)`."""
    used, window = facts.context
    if not used:
        return "", ""
    if not window:
        return "dim", f"{format_count(used)} context"
    share = used / window
    style = "dim" if share <= FULL_SHARE else "warn" if share <= CRITICAL_SHARE else "bad"
    return style, f"{format_count(used)} of {format_count(window)} ({share:.0%})"


def _describe_sum(facts: StatusFields) -> str:
    """The sum over all requests, each of which sends the conversation again."""
    used, from_cache = facts.sums
    if not used:
        return ""
    cached = f", {format_count(from_cache)} from cache" if from_cache else ""
    return f"all requests {format_count(used)}{cached}"


def format_count(number: int) -> str:
    """A count that stays short: 950, 12.3k, 200k, 4.5M."""
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            digits = f"{number / limit:.1f}".removesuffix(".0")
            return f"{digits}{unit}"
    return str(number)
