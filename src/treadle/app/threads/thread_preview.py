"""What was said last in a thread, for whoever chooses one."""

from __future__ import annotations

from treadle.store.local_store import LocalStore
from treadle.thread.typed_words import strip_additions


def read_last_words(store: LocalStore, thread_id: str) -> tuple[str, str]:
    """The last prompt in view, in one line, and what was answered to it so far; may be empty.

    Raises:
        StoreError: the thread cannot be read.
    """
    answer = ""
    for message in reversed(store.load(thread_id).fold.conversation.in_view):
        if message.role == "user" and message.name is None:
            return " ".join(strip_additions(message.content).split()), answer
        if message.role == "assistant" and not answer:
            answer = message.content.strip()
    return "", answer
