"""Tool calls in words: what runs, how it ended, the head of what it said. No drawing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.app.threads.call_arguments import list_written_paths
from treadle.app.threads.call_text import describe_call
from treadle.core.approval import MODIFIED_HEAD
from treadle.core.messages import ToolCall
from treadle.core.tool_families import FILE_CHANGES, PERSONS_COMMAND, ToolKind, kind_of
from treadle.core.tools import (
    FAILURE_HEAD,
    Outcome,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.thread.safe_text import sanitize_text

HEAD_LINES_MAX: Final = 3
TAIL_LINES_MAX: Final = 3
COMMAND_LINES_MAX: Final = 5
"""Lines of a command's output that are shown: its end, where its errors are."""
OWN_LINES_MIN: Final = 10
_SCREEN_REST: Final = 8
"""Rows that a screenful leaves to what stands around it: the command, the input, the status."""
TAIL_SIZE_MAX: Final = 2000
"""Characters of output that are kept of a running call."""

_EXIT: Final = re.compile(
    r"(?:\A|(?<=\n))\[(exit code (\d+)|killed by signal [^\]\n]*)\]"
    r"(?=\Z|\n\[(?:a hook of the user's says: |this command (?:could|had) ))"
)
"""The line of a command's end; behind it stands what a hook said of the call, and what a command
is told that it could not do."""
_FAILURE: Final = re.compile(
    rf"(?P<modified>{re.escape(MODIFIED_HEAD)}[^\n]*\]\n)?{FAILURE_HEAD} "
    rf"(?P<kind>{'|'.join(re.escape(kind.value) for kind in ToolErrorKind)})(?:: ?|\n|\Z)"
)
"""The beginning of what a model reads of a failure, where a person has changed the call too."""
_MINUTE_S: Final = 60
_BAR_WIDTH: Final = 10
_KILO: Final = 1000


class CallResultText(Struct, frozen=True):
    """A result as people read it.

    `how` is `exit code 1`, `failed`, or empty where there is nothing to say; `is_good` is false for
    a failure, also of a command; `lines` are the output without that. `is_part` says that more of
    it is kept elsewhere.
    """

    lines: Sequence[str]
    how: str
    is_good: bool
    is_part: bool


def title_of(call: ToolCall) -> str:
    """A call in one line that steers no terminal: the command, or the tool and what it works on."""
    paths = list_written_paths(call)
    title = f"{call.tool_name} {', '.join(paths)}" if paths else describe_call(call)
    return to_single_line(title)


def is_command(call: ToolCall) -> bool:
    """Whether it runs a command, a model's or a person's: its progress is output then."""
    return call.tool_name == PERSONS_COMMAND or kind_of(call.tool_name) is ToolKind.RUN


def is_file_change(call: ToolCall) -> bool:
    """Whether it is a call of a tool that changes files by itself."""
    return kind_of(call.tool_name) in FILE_CHANGES


def to_single_line(text: str) -> str:
    """A text in one line that steers no terminal."""
    return sanitize_text(text).replace("\n", "⏎").replace("\t", " ")


def describe_outcome(outcome: Outcome) -> CallResultText:
    """How a call ended."""
    if isinstance(outcome, ToolExecutionOutcome.Error):
        kind, message = outcome.error.kind.value, outcome.error.message
        text = "\n".join(part for part in (message, outcome.error.output) if part)
        if _EXIT.search(text):
            return _parse_output(text, is_part=outcome.blob is not None)
        # Of a command the end is shown: why it was stopped stands there.
        text = "\n".join(part for part in (outcome.error.output, message) if part)
        return CallResultText(lines_of(text), f"failed: {kind}", False, outcome.blob is not None)
    return _parse_output(outcome.output, is_part=outcome.blob is not None)


def parse_result_message(text: str) -> CallResultText:
    """How a call ended, by what the model was told of it; a failure says of which kind it is.

    Other text that begins as a failure does is an output: commands print such lines.
    """
    found = _FAILURE.match(text)
    if found is None:
        return _parse_output(text, is_part=False)
    said = (found["modified"] or "") + text[found.end() :]
    if _EXIT.search(said):
        return _parse_output(said, is_part=False)
    return CallResultText(lines_of(said), f"failed: {found['kind']}", False, False)


def _parse_output(text: str, *, is_part: bool) -> CallResultText:
    """A command tells its exit code at the end."""
    found = _EXIT.search(text)
    if found is None:
        return CallResultText(lines_of(text), "", True, is_part)
    lines = [*lines_of(text[: found.start()]), *lines_of(text[found.end() :].lstrip("\n"))]
    return CallResultText(lines, found[1], found[2] == "0", is_part)


def lines_of(text: str) -> list[str]:
    """The lines of an output, as a terminal may show them: none of them blank at the end.

    What a line has overwritten by going back to its beginning (a progress bar) is left out.
    """
    told = (line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n"))
    lines = [sanitize_text(line).rstrip() for line in told]
    return [] if lines == [""] else lines


def preview_lines(
    call: ToolCall, how: CallResultText, screen_rows: int, *, is_plain: bool = False
) -> list[str]:
    """What is shown of an output, with how much more there is.

    Of a command that is the end; of one that the person ran themselves, a screenful of it.

    Args:
        call: the call.
        how: how it ended.
        screen_rows: rows of the screen.
        is_plain: whether it is for a terminal that shows lines only.
    """
    is_own = call.tool_name == PERSONS_COMMAND
    most = COMMAND_LINES_MAX if is_command(call) else HEAD_LINES_MAX
    most = max(OWN_LINES_MIN, screen_rows - _SCREEN_REST) if is_own else most
    more = max(0, len(how.lines) - most)
    if not (more or how.is_part):
        return [*how.lines]
    told = more_lines_text(more, is_part=how.is_part, is_plain=is_plain, is_above=is_command(call))
    if is_command(call):
        return [told, *how.lines[more:]]
    return [*how.lines[:most], told]


def more_lines_text(count: int, *, is_part: bool, is_plain: bool, is_above: bool = False) -> str:
    """That there is more, how much if that is known, and the key that shows it.

    Lines that stand above those that are shown are earlier ones.
    """
    kind = "earlier" if is_above else "more"
    how_many = f"{kind} lines" if is_part else f"{count} {kind} line{'' if count == 1 else 's'}"
    return f"... {how_many}" if is_plain else f"… {how_many} (Ctrl+O)"


def format_duration(seconds: float) -> str:
    """A duration: `0.4 s`, `12 s`, `2 min 5 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class RunningCall:
    """A call that runs.

    Args:
        call: what it is.
        started_s: when it began, by the view's clock.
    """

    def __init__(self, call: ToolCall, started_s: float) -> None:
        self.call = call
        self.started_s = started_s
        self.title = title_of(call)
        self._progress = ToolProgress()
        self._tail = ""

    def update_progress(self, progress: ToolProgress) -> None:
        """What it tells of itself. A command tells its output in pieces, others tell how it is."""
        self._progress = progress
        if progress.message is None:
            return
        before = self._tail if is_command(self.call) else ""
        self._tail = (before + progress.message)[-TAIL_SIZE_MAX:]

    def progress_text(self) -> str:
        """Fraction and units, if it tells any."""
        progress, parts = self._progress, []
        if progress.fraction is not None:
            share = min(max(progress.fraction, 0.0), 1.0)
            full = round(share * _BAR_WIDTH)
            parts.append(f"{'▰' * full}{'▱' * (_BAR_WIDTH - full)} {share:.0%}")
        if progress.units_processed is not None:
            count = progress.units_processed
            is_output = is_command(self.call)
            parts.append(_format_size(count) if is_output else f"{count:,} done")
        return " ".join(parts)

    def last_lines(self) -> list[str]:
        """The end of what it has said."""
        return [line for line in lines_of(self._tail) if line][-TAIL_LINES_MAX:]


def _format_size(count: int) -> str:
    if count < _KILO:
        return f"{count} B"
    return f"{count / _KILO:.0f} kB" if count < _KILO**2 else f"{count / _KILO**2:.1f} MB"
