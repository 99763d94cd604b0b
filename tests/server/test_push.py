"""Pushes: what follows is kept once, what does not changes nothing, and the row says what is so."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec
import pytest
from psycopg.errors import UniqueViolation
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from case_tables import for_every_row
from core.samples import said
from server.chains import (
    Chain,
    chain,
    document,
    event_types,
    kept,
    push,
    refused,
    row,
    rows_of,
    send,
    tables,
    thread_id,
)
from server.people import People, at
from thread.journals import EVERY_ENTRY, HEADER, PLAIN, fold_of, random_batches, records_of, write
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.core.llm import Usage
from treadle.server.data import schema
from treadle.server.data.fold_cache import FOLD_CACHE
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.thread.facts import (
    GitObserved,
    PrivacySet,
    Renamed,
    Scrubbed,
    Shared,
    ThreadCreated,
    Trashed,
)
from treadle.thread.record import encode_batch

ID = thread_id(1)

STATEMENT_COUNT_MAX = {"sqlite": 7, "postgresql": 1}
"""Of a push that follows what is here, its transaction's beginning among them. On PostgreSQL what
is written is sent with the commit; `test_round_trips.py` counts what goes over the wire."""


def test_a_journal_is_kept_byte_for_byte_and_folded_as_its_writer_folds_it(people: People) -> None:
    one = chain()
    head = push(people, one)
    assert (head.version, head.hash, head.is_deleted) == (one.head.seq, one.head.hash, False)
    assert kept(people, ID) == one.data
    fold = fold_of(records_of(one.data))
    assert document(people, ID) == json.loads(msgspec.json.encode(fold.document()))
    found = row(people, schema.threads, id=ID)
    assert found.summary.encode() == msgspec.json.encode(fold.summary())
    assert (found.version, found.hash, found.kind) == (one.head.seq, one.head.hash, "records")
    assert (found.title, found.message_count) == ("go", len(fold.conversation))
    assert (found.owner_id, found.deleted_at) == (people["owner"].user_id, None)


@pytest.mark.parametrize("cut", range(1, 9))
def test_pushed_in_two_parts_it_is_the_same(people: People, cut: int) -> None:
    one = chain()
    first = one.upto(cut)
    push(people, first)
    if cut % 2:
        FOLD_CACHE.clear()  # folded anew from what is kept
    push(people, one, first.mark)
    assert kept(people, ID) == one.data
    fold = fold_of(records_of(one.data))
    assert row(people, schema.threads, id=ID).summary.encode() == msgspec.json.encode(
        fold.summary()
    )
    for version in (1, cut, one.head.seq):
        assert document(people, ID, version) == json.loads(
            msgspec.json.encode(fold_of(records_of(one.upto(version).data)).document())
        )


def test_who_lost_the_answer_asks_again_and_hears_it(people: People) -> None:
    one = chain()
    first = push(people, one.upto(4))
    assert push(people, one.upto(4)) == first
    assert push(people, one.upto(2)) == first  # the beginning of what is here
    last = push(people, one, one.upto(4).mark)
    again = push(people, one, one.upto(4).mark)
    assert again == last
    assert push(people, one.upto(6), one.upto(2).mark) == last
    assert kept(people, ID) == one.data
    assert len(rows_of(people, schema.changes)) == 2


def test_what_does_not_follow_is_refused_with_where_the_thread_is(people: People) -> None:
    one = chain()
    other = one.upto(4).more((said("elsewhere"),))
    push(people, one)
    for base in (one.upto(4).mark, Mark(), one.upto(1).mark):
        refusal = refused(people, other, base)
        assert refusal.code is ErrorCode.CONFLICT
        assert refusal.problem.server_version == one.head.seq
        assert refusal.problem.server_hash == one.head.hash
        assert refusal.problem.client_version == base.seq
    longer = one.more((said("more"),))
    assert refused(people, longer, one.upto(3).mark).code is ErrorCode.CONFLICT


def test_a_thread_that_is_not_here_begins_at_its_beginning(people: People) -> None:
    one = chain()
    refusal = refused(people, one, one.upto(3).mark)
    assert (refusal.code, refusal.problem.server_version) == (ErrorCode.CONFLICT, 0)


def test_an_id_of_somebody_else_is_as_free_as_any(people: People) -> None:
    push(people, chain(1, [(Shared("private"),)]))
    for name in ("member", "outsider"):
        assert refused(people, chain(1), chain(1).upto(2).mark, name).code is ErrorCode.CONFLICT
        assert push(people, chain(1), name=name).thread == chain(1).thread
    assert refused(people, chain(3), name="").code is ErrorCode.UNAUTHORIZED


BAD: dict[str, tuple[bytes, ErrorCode]] = {
    "nothing": (b"", ErrorCode.BAD_REQUEST),
    "no line": (b"{}", ErrorCode.BAD_REQUEST),
    "an empty line": (b"\n", ErrorCode.BROKEN_CHAIN),
    "no record": (b"{}\n", ErrorCode.BROKEN_CHAIN),
    "another thread": (chain(9).data, ErrorCode.BAD_REQUEST),
    "a cut line": (chain().data[:-2] + b"\n", ErrorCode.BROKEN_CHAIN),
    "a gap": (chain().upto(3).data + chain().after(4), ErrorCode.BROKEN_CHAIN),
    "twice the same": (chain().upto(3).data + chain().after(2), ErrorCode.BROKEN_CHAIN),
    "no header": (write([(said("go"),)])[0], ErrorCode.UNFOLDABLE),
    "two headers": (
        chain(batches=[(ThreadCreated(1, ID, "chat", "x"),)]).data,
        ErrorCode.UNFOLDABLE,
    ),
    "a newer format": (chain(format=99).data, ErrorCode.UNFOLDABLE),
    "another machine": (chain(machine="loom").data, ErrorCode.UNFOLDABLE),
    "a private header": (chain(is_private=True).data, ErrorCode.REFUSED_PRIVATE),
    "private since": (
        chain(batches=[(PrivacySet(is_private=True),)]).data,
        ErrorCode.REFUSED_PRIVATE,
    ),
    "more tokens than there are": (
        chain(batches=[(Renamed("x", "model", Usage(2**62, 2**62)),)] * 2).data,
        ErrorCode.UNFOLDABLE,
    ),
}


@for_every_row("case", BAD)
def test_what_is_no_journal_is_refused_and_changes_nothing(people: People, case: str) -> None:
    body, code = BAD[case]
    before = tables(people)
    with pytest.raises(Refusal) as caught, people.writing() as context:
        threads.push_records(context, ID, Mark(), body)
    assert caught.value.code is code
    assert tables(people) == before


def forged(*events: bytes, moment: str = at()) -> bytes:
    """A journal whose further records hold these bytes, with a right chain."""
    one = chain().upto(1)
    return one.data + encode_batch(one.head, moment, events)[0]


@for_every_row(
    "event, code",
    [
        (b'{"type":"pinned","is_pinned":true,"is_pinned":true}', ErrorCode.BAD_REQUEST),
        (b'{"type":"annotated","text":"\\ud800"}', ErrorCode.BROKEN_CHAIN),
        (b'{"type":"extra_set","extra":{"x":1e999}}', ErrorCode.BAD_REQUEST),
        (b'{"type":"extra_set","extra":{"x":' + b"9" * 5000 + b"}}", ErrorCode.BAD_REQUEST),
        (
            b'{"type":"extra_set","extra":{"x":' + b"[" * 99 + b"]" * 99 + b"}}",
            ErrorCode.BAD_REQUEST,
        ),
        (b'{"type":"extra_set","extra":[]}', ErrorCode.UNFOLDABLE),
        (b'{"type":"of_tomorrow"}', ErrorCode.UNFOLDABLE),
        (b'{"type":"renamed","title":"x","usage":{"cost_usd":"sNaN"}}', ErrorCode.UNFOLDABLE),
        (b"7", ErrorCode.UNFOLDABLE),
    ],
)
def test_a_right_chain_of_wrong_things_is_refused(
    people: People, event: bytes, code: ErrorCode
) -> None:
    body = forged(event, event)  # what makes no sense may do so the second time only
    before = tables(people)
    with pytest.raises(Refusal) as caught, people.writing() as context:
        threads.push_records(context, ID, Mark(), body)
    assert caught.value.code is code
    assert tables(people) == before


@for_every_row("moment", ["yesterday", "2026-11-21T09:15:30Z", "x" * 5000])
def test_a_time_that_is_none_breaks_the_chain(people: People, moment: str) -> None:
    body = forged(b'{"type":"pinned"}', moment=moment)
    with pytest.raises(Refusal) as caught, people.writing() as context:
        threads.push_records(context, ID, Mark(), body)
    assert caught.value.code is ErrorCode.BROKEN_CHAIN


def test_every_kind_of_record_is_kept_as_it_is(people: People) -> None:
    """NUL, lone words of other programs, large numbers: JSON on both databases is text."""
    refusals = []
    for number, entry in enumerate(EVERY_ENTRY[1:], start=1):
        one = chain(number, [(said("a\0b\u2028"),), (entry,)])
        try:
            push(people, one)
        except Refusal as refusal:
            refusals.append((refusal.code, type(entry).__name__))
        else:
            assert kept(people, one.thread) == one.data
    of_tasks = {
        *("TaskGiven", "TaskInformed", "TaskResumed", "TimeRanOut"),
        *("StateCompleted", "StateFailed"),
    }
    assert {name for code, name in refusals if code is ErrorCode.UNFOLDABLE} == of_tasks
    assert [name for code, name in refusals if code is not ErrorCode.UNFOLDABLE] == ["PrivacySet"]


@pytest.mark.parametrize("seed", range(6))
def test_random_threads_pushed_in_random_pieces_are_what_they_are_at_home(
    people: People, seed: int
) -> None:
    random = Random(seed)
    batches = [
        tuple(entry for entry in batch if not isinstance(entry, PrivacySet | ThreadCreated))
        for batch in random_batches(random, 60)
    ]
    one = chain(seed + 1, [batch for batch in batches if batch])
    base = Mark()
    while base != one.mark:
        until = one.upto(min(one.head.seq, base.seq + random.randint(1, 9)))
        push(people, until, base)
        base = until.mark
        if random.random() < 0.3:
            FOLD_CACHE.clear()
    fold = fold_of(records_of(one.data))
    if not fold.is_trashed:
        assert document(people, one.thread) == json.loads(msgspec.json.encode(fold.document()))
    found = row(people, schema.threads, id=one.thread)
    assert found.summary.encode() == msgspec.json.encode(fold.summary())
    assert (found.deleted_at is not None) == fold.is_trashed
    assert found.visibility == fold.visibility
    commits = rows_of(people, schema.thread_commits, thread_id=one.thread)
    assert {one.commit_sha for one in commits} == set(fold.git.git_commits)


def test_a_refused_push_leaves_the_fold_in_memory_right(people: People) -> None:
    one = chain()
    push(people, one.upto(4))
    bad = one.upto(4).more((said("x"),), (PrivacySet(is_private=True),))
    assert refused(people, bad, one.upto(4).mark).code is ErrorCode.REFUSED_PRIVATE
    _push_and_fail(people, one)
    assert kept(people, ID) == one.upto(4).data
    other = one.upto(4).more((said("other"),))
    push(people, other, one.upto(4).mark)
    assert document(people, ID) == json.loads(
        msgspec.json.encode(fold_of(records_of(other.data)).document())
    )


def _push_and_fail(people: People, one: Chain) -> None:
    """The last thing that a push does fails: a thread may have one change only."""
    with people.database.write() as db:
        db.exec_driver_sql("CREATE UNIQUE INDEX one_change ON changes (thread_id)")
    with pytest.raises((IntegrityError, UniqueViolation)):
        push(people, one, one.upto(4).mark)
    with people.database.write() as db:
        db.exec_driver_sql("DROP INDEX one_change")


def test_commits_say_which_was_first_and_which_is_last_without_a_remote_too(
    people: People,
) -> None:
    """Also of a repository that has no remote, and after the last one has changed."""
    seen = [GitObserved("main", f"{number:040x}", number == 2) for number in (1, 2, 3)]
    one = chain(1, [(one,) for one in seen])
    push(people, one.upto(3))
    push(people, one, one.upto(3).mark)
    found = rows_of(people, schema.thread_commits)
    assert [(int(c.commit_sha, 16), c.is_initial, c.is_final, c.is_dirty) for c in found] == [
        (1, True, False, False),
        (2, False, False, True),
        (3, False, True, False),
    ]
    assert {c.repo_id for c in found} == {None}
    longer = one.more((GitObserved("main", f"{2:040x}", False, "host/path"),))
    push(people, longer, one.mark)
    found = rows_of(people, schema.thread_commits)
    assert [c.is_final for c in found] == [False, True, False]
    repo = row(people, schema.repos)
    assert {c.repo_id for c in found} == {repo.id}
    assert row(people, schema.threads, id=ID).repo_id == repo.id


def test_a_thread_in_the_trash_of_its_owner_is_deleted_here(people: People) -> None:
    one = chain().more((Trashed(),))
    assert push(people, one).is_deleted
    assert row(people, schema.threads, id=ID).deleted_at is not None


def test_visibility_that_comes_in_by_a_record_is_noted(people: People) -> None:
    one = chain()
    push(people, one)
    push(people, one.more((Shared("public"),)), one.mark)
    notes = rows_of(people, schema.audit, thread_id=ID)
    assert [(note.action, note.detail) for note in notes] == [
        ("thread_made", "organization"),
        ("visibility_set", "organization -> public"),
    ]
    assert row(people, schema.threads, id=ID).visibility == "public"


def test_support_that_comes_in_by_a_record_is_let_in_and_shown_out(people: People) -> None:
    one = chain()
    push(people, one)
    shared = one.more((Shared(with_support=True),))
    push(people, shared, one.mark)
    assert row(people, schema.threads, id=ID).is_shared_with_support
    assert row(people, schema.support_access).revoked_at is None
    push(people, shared.more((said("x"),)), shared.mark)
    assert row(people, schema.threads, id=ID).is_shared_with_support
    ended = shared.more((said("x"),))
    push(people, ended.more((Shared(with_support=False),)), ended.mark)
    assert not row(people, schema.threads, id=ID).is_shared_with_support
    assert row(people, schema.support_access).revoked_at is not None


def test_odd_texts_in_columns_are_the_same_trouble_to_nobody(people: People) -> None:
    """NUL, and texts longer than an index takes."""
    one = chain(
        1,
        [(Renamed("a\0b"), GitObserved("b" * 9000, "no commit", False, "h/" + "p" * 9000))],
        workspace="/" + "\N{SNOWMAN}" * 5000,
    )
    push(people, one)
    found = row(people, schema.threads, id=ID)
    assert found.title == "a\N{REPLACEMENT CHARACTER}b"
    assert len(found.workspace_root.encode()) <= 1000
    assert found.git_current_commit_sha is None
    assert kept(people, ID) == one.data


def test_a_long_thread_has_a_snapshot_and_is_read_from_it(people: People) -> None:
    one = chain(1, [(said("word " * 20_000),) for _ in range(4)])
    push(people, one.upto(4))
    push(people, one, one.upto(4).mark)
    found = rows_of(people, schema.documents)
    assert [kept.version for kept in found] == [4]
    FOLD_CACHE.clear()
    longer = one.more((said("more"),))
    push(people, longer, one.mark)
    assert document(people, ID) == json.loads(
        msgspec.json.encode(fold_of(records_of(longer.data)).document())
    )
    with people.writing() as context:
        context.db.execute(schema.documents.update().values(body="{}"))
    FOLD_CACHE.clear()
    assert document(people, ID)["version"] == longer.head.seq


def test_records_are_handed_out_in_pieces_from_any_place(people: People) -> None:
    one = chain()
    push(people, one)
    lines = one.data.split(b"\n")[:-1]
    with people.reading() as context:
        assert threads.read_records(context, ID, 0, 1000) == lines
        assert threads.read_records(context, ID, 3, 2) == lines[3:5]
        assert threads.read_records(context, ID, one.upto(3).mark, 1000) == lines[3:]
        assert threads.read_records(context, ID, one.mark, 1000) == []
        wrong = (Mark(3, "0" * 32), Mark(one.head.seq, "0" * 32), Mark(99, one.head.hash), 99)
        for after in wrong:
            for limit in (0, 1000):
                with pytest.raises(Refusal) as caught:
                    threads.read_records(context, ID, after, limit)
                assert caught.value.code is ErrorCode.CONFLICT
                assert caught.value.problem.server_hash == one.head.hash


@pytest.mark.parametrize("seed", range(2))
def test_mutated_pushes_never_harm_the_chain(people: People, seed: int) -> None:
    """Bytes flipped, cut, doubled and moved, at right and wrong bases; most are refused."""
    random = Random(seed)
    one = chain(1, random_plain(random))
    acknowledged = Mark()
    accepted = 0
    refused_with: list[ErrorCode] = []
    for _ in range(250):
        base = (
            one.upto(random.randint(0, one.head.seq)).mark
            if random.random() < 0.3
            else (acknowledged)
        )
        body = mutated(random, one.after(base.seq)[: random.randint(1, 4000)])
        if random.random() < 0.05:
            body = one.upto(min(one.head.seq, base.seq + 1)).after(base.seq)
        try:
            with people.writing() as context:
                head = threads.push_records(context, ID, base, body)
        except Refusal as refusal:
            refused_with.append(refusal.code)
        else:
            accepted += 1
            acknowledged = Mark(head.version, head.hash)
    assert {*refused_with} <= {ErrorCode.BAD_REQUEST, ErrorCode.BROKEN_CHAIN, ErrorCode.CONFLICT}
    assert len({*refused_with}) == 3
    assert accepted > 0
    data = kept(people, ID)
    assert one.data.startswith(data)
    assert len(data.splitlines()) == acknowledged.seq


def random_plain(random: Random) -> list[tuple[Any, ...]]:
    batches = random_batches(random, 40)
    plain = [
        tuple(e for e in batch if not isinstance(e, PrivacySet | ThreadCreated))
        for batch in batches
    ]
    return [batch for batch in plain if batch]


def mutated(random: Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(random.randint(0, 3)):
        place = random.randrange(len(data) + 1)
        change = random.randrange(4)
        if change == 0 and place < len(data):
            data[place] ^= 1 << random.randrange(8)
        elif change == 1:
            del data[place : place + random.randint(1, 20)]
        elif change == 2:
            data[place:place] = random.choice((b"\0", b"\n", b'"', b"{", b"\xff", b",,", b"1e999"))
        else:
            data[place:place] = data[: random.randint(0, 200)]
    return bytes(data)


def test_the_header_of_these_tests_is_the_one_of_the_others() -> None:
    assert chain(0).thread != HEADER.thread
    assert event_types(chain().data)[0] == "thread_created"
    assert len(PLAIN) == 7
    assert Scrubbed(1, "").count == 1


def test_a_push_is_one_transaction_of_few_statements_however_long_the_thread_is(
    people: People,
) -> None:
    at_home = GitObserved("main", "0" * 40, False, "host/path")
    one = chain(batches=[(at_home, said("b")), *([(said("a"), said("b"))] * 29)])
    push(people, one.upto(31))
    said_to_it: list[str] = []
    commits: list[None] = []
    engine = people.database.engine
    event.listen(engine, "before_cursor_execute", lambda *given: said_to_it.append(given[2]))
    event.listen(engine, "commit", lambda _: commits.append(None))
    send(people, one.upto(51), one.upto(31).mark)
    assert len(commits) == 1
    assert len(said_to_it) <= STATEMENT_COUNT_MAX[people.database.dialect], said_to_it
    assert not [text for text in said_to_it if "records.line" in text]  # nothing is folded anew
