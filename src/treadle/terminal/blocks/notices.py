"""Everything else that is told between prompts, answers and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from treadle.core.llm import LlmError
from treadle.core.messages import Attachment, describe_attachment
from treadle.models.prices.usage_text import describe_usage
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.terminal.blocks.frames import PrefixedBlock
from treadle.terminal.call_text import format_duration
from treadle.terminal.styles import rich_style
from treadle.thread.safe_text import sanitize_text

PROMPT_BAR: Final = "> "
"""Before each line of a prompt: reversed, so that the eye finds prompts in a long scrollback."""
PROMPT_LENGTH_MAX: Final = 10_000
PROMPT_LINES_MAX: Final = 40
"""Characters and lines of a prompt that are shown again, of a paste the first; Ctrl+O has all."""


def prompt_block(
    text: str, attachments: Sequence[Attachment] = (), *, is_whole: bool = False
) -> RenderableType:
    """What the person said, and the pictures and documents that go along."""
    head = "\n".join(text.split("\n", PROMPT_LINES_MAX)[:PROMPT_LINES_MAX])[:PROMPT_LENGTH_MAX]
    shown = sanitize_text(text if is_whole else head)
    if not is_whole and (rest := text[len(head) :]):
        lines = rest.count("\n")
        shown += f"\n… {lines:,} more lines" if lines > 1 else f"\n… {len(rest):,} more characters"
        shown += " (Ctrl+O)"
    said = Text().append(shown, f"bold {rich_style('accent')}")
    for attachment in attachments:
        line = sanitize_text(describe_attachment(attachment))
        said.append(f"\n· {line}", rich_style("dim"))
    return PrefixedBlock(said, PROMPT_BAR, f"bold reverse {rich_style('accent')}")


def line_block(text: str, style: str = "dim", mark: str = "") -> RenderableType:
    """A line or several; `mark` stands before the first of them.

    Args:
        text: from whomever.
        style: one of `STYLES`.
        mark: what tells what kind of line it is, without colours.
    """
    return Text(f"{mark}{sanitize_text(text)}", rich_style(style))


def retry_text(error: LlmError, seconds: float, *, is_begun: bool) -> str:
    """That a request failed and is made again; `is_begun` if a part of its answer was shown."""
    words = f"{error.text}; trying again in {format_duration(seconds)}"
    return f"{words}: the answer above broke off and begins again" if is_begun else words


def turn_end_block(
    finished: TurnFinished, took_s: float | None, *, is_plain: bool
) -> RenderableType:
    """How a turn ended, unless it is done, what it used, and how long it took."""
    text = Text()
    words, style = _OUTCOME_TEXTS[finished.outcome]
    if words:
        error = f": {finished.error}" if finished.error else ""
        text.append(sanitize_text(f"{words}{error}\n"), rich_style(style))
    took = "" if took_s is None else format_duration(took_s)
    rule = "" if is_plain else "─ "
    text.append(f"{rule}{', '.join(_list_usage(finished, took))}", rich_style("dim"))
    return text


def _list_usage(finished: TurnFinished, took: str) -> Sequence[str]:
    return [part for part in (describe_usage(finished.turn_usage), took) if part]


_OUTCOME_TEXTS: Final = {
    TurnOutcome.DONE: ("", ""),
    TurnOutcome.FAILED: ("failed", "bad"),
    TurnOutcome.CANCELLED: ("interrupted", "warn"),
    TurnOutcome.LIMIT: ("stopped by a limit", "warn"),
    TurnOutcome.APPROVAL: ("waits for your approval", "warn"),
    TurnOutcome.INTERRUPTED: ("stopped before it was finished; it is safe on disk", "warn"),
}
