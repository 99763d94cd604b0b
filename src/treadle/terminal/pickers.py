"""The lists that a person picks from: threads, and the prompts of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from treadle.terminal.columns import crop, crop_start
from treadle.terminal.ports import ListRow
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.stores import Store
    from treadle.app.threads.inherited_turns import PastTurn

_LENGTH_MAX: Final = 200
_PLACE_WIDTH_MAX: Final = 18
_PREVIEW_LINES_MAX: Final = 8


def filter_rows(rows: Sequence[ListRow], text: str) -> Sequence[ListRow]:
    """The rows in which every word of the text occurs."""
    words = text.lower().split()
    told = ((row, " ".join((row.text, *row.cells, row.detail)).lower()) for row in rows)
    return [row for row, shown in told if all(word in shown for word in words)]


def to_row_text(text: str) -> str:
    """A text as a line of a list."""
    line = sanitize_text(" ".join(text.split()))
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 1] + "…"


def find_conversation_rows(folder: str, text: str) -> Sequence[ListRow]:
    """A row for each conversation of a folder; for those of all folders if words are typed."""
    from treadle.app.stores import open_store
    from treadle.app.threads.short_ids import list_short_ids
    from treadle.app.threads.thread_search import find_conversations
    from treadle.pages.thread_cells import make_cells

    store = open_store()
    ids, rows = list_short_ids(store), []
    for line in find_conversations(store, folder, text):
        cells = make_cells(line, ids, here=folder)
        place = crop_start(cells.folder, _PLACE_WIDTH_MAX)
        branch = crop(cells.branch, _PLACE_WIDTH_MAX)
        row = (cells.state, place, branch, cells.age, cells.id)
        rows.append(ListRow(line.id, to_row_text(cells.title), cells=row))
    return rows


def preview_conversation(thread_id: str) -> Sequence[str]:
    """What was said last in a thread: lines. Raises `StoreError`."""
    from treadle.app.stores import open_store
    from treadle.app.threads.thread_preview import read_last_words

    prompt, answer = read_last_words(open_store(), thread_id)
    lines = [line for line in answer.splitlines() if line.strip()]
    return [f"> {prompt}" if prompt else "nothing was said yet", *lines[:_PREVIEW_LINES_MAX]]


class PromptList:
    """The prompts of a thread that are in view, the last one first.

    Args:
        thread_id: the thread.
        turns: the turns, in order, those from before it was forked too.
    """

    def __init__(self, thread_id: str, turns: Sequence[PastTurn]) -> None:
        self._thread_id = thread_id
        self._turns = turns[::-1]

    def __len__(self) -> int:
        return len(self._turns)

    def __getitem__(self, value: str) -> PastTurn:
        """The turn of a row that was picked."""
        return self._turns[int(value)]

    def search(self, text: str) -> Sequence[ListRow]:
        """The rows for what was typed."""
        rows = [
            ListRow(str(at), to_row_text(one.turn.prompt), self._describe(one))
            for at, one in enumerate(self._turns)
        ]
        return filter_rows(rows, text)

    def _describe(self, one: PastTurn) -> str:
        return f"turn {one.turn.number}" if one.thread == self._thread_id else "before the fork"


def find_prompts(store: Store, thread_id: str) -> PromptList:
    """The prompts one can go back to.

    Raises:
        StoreError: the thread, or what it goes on from, cannot be read.
    """
    from treadle.app.threads.inherited_turns import find_past_turns

    return PromptList(thread_id, find_past_turns(store, thread_id))
