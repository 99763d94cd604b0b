"""The lists that a person picks from: threads, and the prompts of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from treadle.terminal.ports import Row
from treadle.thread.safe_text import legible

if TYPE_CHECKING:
    from treadle.app.stores import Store
    from treadle.thread.history import Turn
    from treadle.thread.model import ThreadSummary

_LENGTH_MAX: Final = 200


def narrowed(rows: Sequence[Row], text: str) -> Sequence[Row]:
    """The rows in which every word of the text occurs."""
    words = text.lower().split()
    return [
        row for row in rows if all(word in f"{row.text} {row.detail}".lower() for word in words)
    ]


def in_line(text: str) -> str:
    """A text as a line of a list."""
    line = legible(" ".join(text.split()))
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 1] + "…"


def search_threads(folder: str, text: str) -> Sequence[Row]:
    """The conversations of a folder; those of all folders if words are typed."""
    from treadle.app.threads.thread_search import find_conversations

    return [_row(line) for line in find_conversations(folder, text)]


def _row(line: ThreadSummary) -> Row:
    from treadle.app.threads.times import local_time

    title = in_line(line.title or "(nothing said yet)")
    return Row(line.id, title, f"{local_time(line.updated_at)}  {line.id}")


class Prompts:
    """The prompts of a thread that are in view, the last one first.

    Args:
        turns: the turns, in order.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns[::-1]

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._turns)

    def __len__(self) -> int:
        return len(self._turns)

    def search(self, text: str) -> Sequence[Row]:
        """The rows for what was typed; the value is the version of the prompt."""
        rows = [Row(str(one.version), in_line(one.prompt), f"turn {one.number}") for one in self]
        return narrowed(rows, text)


def find_prompts(store: Store, thread_id: str) -> Prompts:
    """The prompts one can go back to.

    Raises:
        StoreError: the thread cannot be read.
    """
    from treadle.app.threads.thread_search import find_turns

    return Prompts(find_turns(store, thread_id))
