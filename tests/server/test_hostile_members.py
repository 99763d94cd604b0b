"""What a member who means harm has kept costs others no more than its size, and often less."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from sqlalchemy import delete, event

from core.samples import said
from server.chains import chain, push, thread_id
from server.people import People
from treadle.api.error_codes import ErrorCode
from treadle.core.messages import Message
from treadle.server.accounts import shared_view
from treadle.server.data.fold_cache import FOLD_CACHE, load_fold
from treadle.server.data.schema import records
from treadle.server.refusals import Refusal
from treadle.server.search import thread_lists
from treadle.server.threads import threads
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot, Thread
from treadle.thread.facts import GitObserved, Renamed, Tagged

ID = thread_id(1)

LINE_SIZE_MAX = 16 * 1024

LONG = "\x01" * 20_000
"""In JSON each of its characters takes six bytes."""


def line_of(people: People) -> bytes:
    with people.reading("member") as context:
        (line,) = thread_lists.list_threads(context).threads
    return msgspec.json.encode(line)


def test_a_line_of_a_list_is_short_whatever_the_records_say(people: People) -> None:
    facts = [
        Renamed(LONG),
        *(GitObserved("main", f"{number:064x}") for number in range(500)),
        GitObserved(LONG, LONG, True, LONG),
        *(Tagged((f"{number}".rjust(200, "\x01"), LONG + str(number))) for number in range(20)),
    ]
    push(people, chain(1, [facts], workspace=LONG, creator=LONG, parent=LONG))
    assert len(line_of(people)) <= LINE_SIZE_MAX


def test_a_line_of_a_list_is_short_whatever_a_document_says(people: People) -> None:
    body = msgspec.json.encode(
        {
            "id": ID,
            "version": 1,
            **dict.fromkeys(("created_at", "updated_at", "last_activity_at"), "2026-11-21T00:00Z"),
            "conversation": {"messages": []},
            "agent_state": {"kind": LONG},
            **dict.fromkeys(("workspace_root", "provider", "model", "imported_from"), LONG),
            **dict.fromkeys(("git_branch", "git_remote_url", "git_initial_branch"), LONG),
            **dict.fromkeys(("git_initial_commit_sha", "git_current_commit_sha"), LONG),
            "git_commits": [LONG, *(f"{number:064x}" for number in range(500))],
            "forked_from": {"thread": LONG, "version": 1, "hash": "0" * 32},
            "metadata": {"title": LONG, "tags": ["first", *(f"t{n}" for n in range(5000)), LONG]},
        }
    ).replace(b"00:00Z", b"00:00:00Z")
    with people.writing() as context:
        threads.put_document(context, ID, body, None)
    told = line_of(people)
    assert len(told) <= LINE_SIZE_MAX
    summary = msgspec.json.decode(told)["summary"]
    assert summary["tags"][:2] == ["first", "t0"]
    assert summary["git_commits"][-1] == f"{499:064x}"


class Spans(tuple[tuple[int, int], ...]):
    """Spans that count how often they were gone through."""

    __slots__ = ()
    passes = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        Spans.passes += 1
        return super().__iter__()


def test_hidden_spans_are_gone_through_once_for_a_page() -> None:
    spans = Spans([(7, 9), (0, 0), (1, 4), (2, 3), (-5, 1), (30, 2), (19, 2**62), (5, -9)])
    Spans.passes = 0
    messages = tuple(Message.user(str(number)) for number in range(20))
    document = Thread(
        ID, 1, "", "", "", ConversationSnapshot(messages, hidden=spans), AgentStateSnapshot("idle")
    )
    found = [item.is_hidden for turn in shared_view._list_turns(document) for item in turn.items]
    assert Spans.passes == 1
    assert found == [any(start <= at < end for start, end in spans) for at in range(20)]


def test_an_earlier_version_is_folded_once_and_forgotten_with_its_thread(people: People) -> None:
    one = chain(1, [(said("one"),), (said("two"),), (said("three"),)])
    push(people, one)
    earlier = one.upto(2).mark
    for _ in range(2):
        with people.reading() as context:
            assert threads.read_document(context, ID, 2)[0] == earlier
        held = FOLD_CACHE.pop(ID, earlier)
        assert held is not None
        FOLD_CACHE.put(held)
    with people.writing() as context:
        threads.purge_thread(context, ID)
    assert FOLD_CACHE.pop(ID, earlier) is None
    assert FOLD_CACHE.pop(ID, one.mark) is None


def test_a_thread_that_is_removed_while_it_is_read_has_no_fold(people: People) -> None:
    one = chain(1, [(said("one"),), (said("two"),)])
    push(people, one)
    FOLD_CACHE.clear()
    looks: list[int] = []
    with people.database.write() as db:

        def remove(*_: object) -> None:
            """Once the thread was looked at: as another transaction may."""
            if not looks:
                looks.append(1)
                db.execute(delete(records).where(records.c.seq == one.mark.seq))

        event.listen(db, "after_cursor_execute", remove)
        with pytest.raises(Refusal) as caught:
            load_fold(db, ID, one.mark)
    assert caught.value.code is ErrorCode.UNFOLDABLE
