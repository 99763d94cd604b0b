"""What lists tell of a thread, in few words: for pages, the command line, pickers and notices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.store import summaries
from treadle.thread.document import ThreadSummary
from treadle.thread.ids import ShortIds
from treadle.thread.safe_text import sanitize_text

UNTITLED: Final = "(nothing said yet)"

_STATES: Final = {"waiting_for_user_input": "ready", "error": "failed"}
"""States of a thread in which nothing is left to be done, in words for people."""


class ThreadCells(Struct, frozen=True):
    """A thread in a list: lines without what steers a terminal, some of them empty.

    `folder` is empty for one that works where the list is asked for, `age` is how long ago it
    changed, `id` the short one.
    """

    title: str
    state: str
    folder: str
    branch: str
    age: str
    id: str


def make_cells(
    line: ThreadSummary, ids: ShortIds, *, here: str = "", now: str | None = None
) -> ThreadCells:
    """The cells of a thread.

    Args:
        line: the thread.
        ids: how ids are shown.
        here: the folder where the list is asked for.
        now: the clock, as records have it; by default this machine's.
    """
    root = line.workspace_root or ""
    return ThreadCells(
        format_title(line),
        sanitize_text(describe_state(line)),
        "" if root == here else format_folder(root),
        _to_line(line.git_branch or ""),
        describe_age(line.updated_at, now),
        ids.shorten(line.id),
    )


def format_title(line: ThreadSummary, length_max: int | None = None) -> str:
    """The title in one line, cut if need be, with the mark of a pin before it, and tags behind."""
    title = " ".join((line.title or UNTITLED).split())
    if length_max is not None and len(title) > length_max:
        title = title[: length_max - 1] + "…"
    pin = "★ " if line.is_pinned else ""
    tags = "".join(f" #{tag}" for tag in line.tags)
    private = " [private]" if line.is_private else ""
    return _to_line(f"{pin}{title}{private}{tags}")


def describe_state(line: ThreadSummary) -> str:
    """What a thread is, if it is no usual one, and how it stands: `ready`, `task done`."""
    if line.parent is not None:
        kind = "sub-agent"
    else:
        kind = " ".join(["task"] * (line.machine == "task") + ["fork"] * bool(line.forked_from))
    if line.problem:
        words = {
            summaries.UNREADABLE: "cannot be read",
            summaries.UNSUPPORTED: summaries.UNSUPPORTED,
        }
        state = words.get(line.state, summaries.DAMAGED)
    elif line.questions:
        state = "waits for approval"
    elif line.is_unfinished:
        state = "unfinished"
    else:
        state = _STATES.get(line.state, line.state.replace("_", " "))
    return f"{kind} {state}".lstrip()


def format_folder(folder: str) -> str:
    """A folder as people write it: from their home on, where it is within."""
    home = str(Path.home())
    is_within = folder == home or folder.startswith(home + "/")
    return _to_line(f"~{folder.removeprefix(home)}" if is_within and home != "/" else folder)


def _to_line(text: str) -> str:
    return sanitize_text(" ".join(text.split()))


_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_AGES: Final = (
    (_MINUTE_S, 0, "now"),
    (_HOUR_S, _MINUTE_S, "min"),
    (_DAY_S, _HOUR_S, "h"),
    (14 * _DAY_S, _DAY_S, "d"),
    (60 * _DAY_S, 7 * _DAY_S, "wk"),
)
"""Up to how many seconds ago a time is told in which unit, and how many of them that is."""


def describe_age(at: str, now: str | None = None) -> str:
    """How long ago a record was made, for people: `now`, `5 min ago`, `2 h ago`, `3 d ago`.

    What is older than two months, or comes from a clock that is ahead, is told as its day. What is
    no time stays as it is.

    Args:
        at: the time, as records have it.
        now: the clock, likewise; by default this machine's.
    """
    try:
        moment = datetime.fromisoformat(at)
        clock = datetime.now(UTC) if now is None else datetime.fromisoformat(now)
        age = (clock - moment).total_seconds()
    except (ValueError, TypeError):
        return at[:16]
    for limit, unit_s, unit in _AGES:
        if -_MINUTE_S < age < limit:
            return f"{int(age // unit_s)} {unit} ago" if unit_s else unit
    return moment.astimezone().strftime("%Y-%m-%d")


def cut_pieces(text: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    """The snippet of a hit in parts; of each whether it is what was looked for."""
    pieces, place = [], 0
    for start, end in ranges:
        pieces += [(text[place:start], False), (text[start:end], True)]
        place = end
    return [piece for piece in [*pieces, (text[place:], False)] if piece[0]]
