"""The lists that a person picks from: threads, and the prompts of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from treadle.terminal.ports import ListRow
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.stores import Store
    from treadle.thread.document import ThreadSummary
    from treadle.thread.history import Turn

_LENGTH_MAX: Final = 200


def filter_rows(rows: Sequence[ListRow], text: str) -> Sequence[ListRow]:
    """The rows in which every word of the text occurs."""
    words = text.lower().split()
    return [
        row for row in rows if all(word in f"{row.text} {row.detail}".lower() for word in words)
    ]


def to_row_text(text: str) -> str:
    """A text as a line of a list."""
    line = sanitize_text(" ".join(text.split()))
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 1] + "…"


def find_conversation_rows(folder: str, text: str) -> Sequence[ListRow]:
    """A row for each conversation of a folder; for those of all folders if words are typed."""
    from treadle.app.stores import open_store
    from treadle.app.threads.thread_search import find_conversations

    return [_conversation_row(line) for line in find_conversations(open_store(), folder, text)]


def _conversation_row(line: ThreadSummary) -> ListRow:
    from treadle.app.threads.times import local_time

    title = to_row_text(line.title or "(nothing said yet)")
    return ListRow(line.id, title, f"{local_time(line.updated_at)}  {line.id}")


class PromptList:
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

    def search(self, text: str) -> Sequence[ListRow]:
        """The rows for what was typed; the value is the version of the prompt."""
        rows = [
            ListRow(str(one.version), to_row_text(one.prompt), f"turn {one.number}") for one in self
        ]
        return filter_rows(rows, text)


def find_prompts(store: Store, thread_id: str) -> PromptList:
    """The prompts one can go back to.

    Raises:
        StoreError: the thread cannot be read.
    """
    from treadle.app.threads.thread_search import find_turns

    return PromptList(find_turns(store, thread_id))
