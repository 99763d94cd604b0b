"""What a server records in the thread of a fleet's task, as one more process that may hold it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from treadle.core.approval import Decision
from treadle.core.events import ApprovalDecided
from treadle.errors import UsageError
from treadle.fleet.task_acts import ANSWERED
from treadle.server.journals.postgres_store import PostgresStore
from treadle.store.thread_writer import ThreadWriter
from treadle.store.threads import Threads
from treadle.thread.codec import Entry
from treadle.thread.facts import RequestTaken
from treadle.thread.fold import ThreadFold
from treadle.thread.question_digest import digest_question

PATIENCE_S: Final = 5.0
"""Seconds that somebody waits for a database that does not answer."""
_CHANGED: Final = "this question was answered already, or has changed since the page was loaded"


class TaskPlace(Struct, frozen=True):
    """Where the thread of a task is: the database, and the name of its owner."""

    url: str
    owner: str


def record_facts(place: TaskPlace, thread_id: str, *facts: Entry) -> ThreadFold:
    """Record facts in a thread, and give it as it stands then.

    Raises:
        ThreadBusyError: somebody works on it.
        StoreError: the database refused.
    """
    with _open(place, thread_id) as writer:
        _commit(writer, *facts)
        return writer.fold


def record_answer(
    place: TaskPlace, thread_id: str, ground: str, decision: Decision, taken: RequestTaken
) -> int:
    """Record what a person says of a call that waits, and who said it; the version it has then.

    Args:
        place: where the thread is.
        thread_id: its id.
        ground: the digest of the question as the person has seen it.
        decision: what they said.
        taken: who they are, and which call they meant.

    Raises:
        UsageError: the question is another one by now, or was answered.
        ThreadBusyError: somebody works on it.
        StoreError: the database refused.
    """
    with _open(place, thread_id) as writer:
        asked = {
            digest_question(thread_id, one): one.call.id for one in writer.fold.machine.questions
        }
        if asked.get(ground) != taken.call_id:
            raise UsageError(_CHANGED)
        _commit(writer, taken, ApprovalDecided(taken.call_id, decision, writer.now()), ANSWERED)
        return writer.head.seq


@contextmanager
def _open(place: TaskPlace, thread_id: str) -> Iterator[ThreadWriter]:
    with PostgresStore(place.url, place.owner, patience_s=PATIENCE_S) as store:
        writer = Threads(store).open(thread_id)
        try:
            yield writer
        finally:
            writer.close()


def _commit(writer: ThreadWriter, *entries: Entry) -> None:
    for entry in entries:
        writer.stage(entry)
    writer.write()
    writer.sync()
