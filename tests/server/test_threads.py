"""What the server itself does with threads: it says so in their chains, and tells who follows."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import inspect

from core.samples import answer, said, success
from server.chains import GENESIS, Chain, chain, event_types, kept, push, row, rows_of, thread_id
from server.people import People
from server.planting import plant
from thread.journals import write
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import NewShare, ThreadHead
from treadle.core.events import ToolCompleted
from treadle.core.messages import BlobRef
from treadle.exchange.journal_files import make_journal_part
from treadle.exchange.readable_thread import make_readable_thread
from treadle.server.accounts import share_links, support
from treadle.server.data import schema
from treadle.server.data.fold_cache import FOLD_CACHE
from treadle.server.refusals import Refusal
from treadle.server.threads import threads
from treadle.server.threads.stories import read_story
from treadle.thread.facts import Annotated, GitObserved, Scrubbed, Shared
from treadle.thread.record import Head

ID = thread_id(1)


def mark_of(head: ThreadHead) -> Mark:
    return Mark(head.version, head.hash)


def test_visibility_is_a_record_that_clients_pull(people: People) -> None:
    one = chain()
    push(people, one)
    with people.writing(now="2026-11-21T09:00:00.000000Z") as context:
        head = threads.set_visibility(context, ID, one.mark, "public")
        assert threads.set_visibility(context, ID, None, "public") == head
    assert head.version == one.head.seq + 1
    data = kept(people, ID)
    assert data.startswith(one.data)
    assert event_types(data)[-1] == "shared"
    assert row(people, schema.threads, id=ID).visibility == "public"
    with people.writing() as context, pytest.raises(Refusal) as caught:
        threads.set_visibility(context, ID, one.mark, "private")
    assert caught.value.code is ErrorCode.CONFLICT
    assert caught.value.problem.server_version == head.version
    longer = Chain(ID, data, Head(head.version, head.hash, "", len(data))).more((said("on"),))
    push(people, longer, mark_of(head))  # who pulled it goes on from there


def test_a_clock_that_stands_behind_the_thread_is_held_at_its_last_time(people: People) -> None:
    push(people, chain())
    with people.writing(now="2020-01-01T00:00:00.000000Z") as context:
        threads.delete_thread(context, ID, None)
    times = [record.at for record in rows_of(people, schema.records)]
    assert times == sorted(times)


def test_delete_and_restore_are_records_too(people: People) -> None:
    one = chain()
    push(people, one)
    with people.writing() as context:
        gone = threads.delete_thread(context, ID, one.head.seq)
        assert threads.delete_thread(context, ID, None) == gone
    assert (gone.version, gone.is_deleted) == (one.head.seq + 1, True)
    with people.reading() as context, pytest.raises(Refusal):
        threads.read_document(context, ID)
    with people.writing() as context:
        back = threads.restore_thread(context, ID, mark_of(gone))
    assert (back.version, back.is_deleted) == (one.head.seq + 2, False)
    assert event_types(kept(people, ID))[-2:] == ["trashed", "restored"]
    with people.reading() as context:
        assert threads.read_head(context, ID) == back
        assert threads.read_document(context, ID)[0] == mark_of(back)


def test_purged_means_gone_and_the_owner_may_begin_again(people: People) -> None:
    one = chain()
    push(people, one)
    blob = b"large output"
    name = sha256(blob).hexdigest()
    with people.writing() as context:
        threads.put_blob(context, ID, name, blob)
        head = threads.purge_thread(context, ID)
        assert threads.purge_thread(context, ID) == head
    assert (head.version, head.is_purged, head.is_deleted) == (0, True, False)
    for table in (schema.records, schema.documents, schema.blobs, schema.thread_commits):
        assert rows_of(people, table) == []
    for read in (threads.read_head, threads.read_document):
        with people.reading() as context, pytest.raises(Refusal) as caught:
            read(context, ID)
        assert caught.value.code is ErrorCode.NOT_FOUND
    with people.reading() as context:
        assert threads.list_heads(context).heads == (head,)
    with pytest.raises(Refusal) as caught:
        push(people, one, one.upto(3).mark)
    assert caught.value.problem.server_version == 0
    again = push(people, one)
    assert (again.version, again.is_purged, again.is_deleted) == (one.head.seq, False, False)
    assert kept(people, ID) == one.data


def test_what_is_pushed_again_after_a_purge_is_found_by_its_commits(people: People) -> None:
    one = chain(1, [(GitObserved("main", "c0ffee" * 6, remote="git.example/acme/x"),)])
    for _ in range(2):
        push(people, one)
        assert [one.commit_sha for one in rows_of(people, schema.thread_commits)] == ["c0ffee" * 6]
        with people.writing() as context:
            threads.purge_thread(context, ID)
        assert rows_of(people, schema.thread_commits) == []


SECRET = "hunter2-is-no-password"


def scrubbed(one: Chain) -> Chain:
    """The same journal without the secret, chained anew, which says so."""
    data, head = write(
        [
            *((said("nothing"),) for _ in range(2)),
            (Scrubbed(2, one.head.hash),),
        ],
        one.upto(1).head,
    )
    return Chain(one.thread, one.upto(1).data + data, head)


def with_secret() -> Chain:
    return chain(1, [(said(f"take {SECRET}"),), (Annotated(f"{SECRET} " * 30_000),)])


def test_a_scrubbed_chain_takes_the_place_of_the_old_one(people: People) -> None:
    one = with_secret()
    push(people, one)
    new = scrubbed(one)
    with people.writing() as context:
        head = threads.replace_records(context, ID, one.mark, new.data)
        again = threads.replace_records(context, ID, one.mark, new.data)
    assert mark_of(head) == mark_of(again) == new.mark
    assert kept(people, ID) == new.data
    assert event_types(new.data)[-1] == "scrubbed"
    with people.reading() as context:
        assert SECRET.encode() not in threads.read_document(context, ID)[1]
    everything = [rows_of(people, table) for table in schema.metadata.sorted_tables]
    assert SECRET not in repr(everything)
    push(people, new.more((said("on"),)), new.mark)
    with pytest.raises(Refusal) as caught:
        push(people, one.more((said("on"),)), one.mark)
    assert caught.value.code is ErrorCode.CONFLICT


def test_a_thread_that_is_watched_is_told_on_or_anew_where_its_records_are_others(
    people: People,
) -> None:
    one = with_secret()
    longer = one.more((said("on"),), (answer("done"),))
    new = scrubbed(longer)
    last = new.more(*((Annotated(f"note {number}"),) for number in range(longer.head.seq)))

    def replace_and_go_on() -> None:
        with people.writing() as context:
            threads.replace_records(context, ID, longer.mark, new.data)
        push(people, last, new.mark)

    steps: list[Callable[[], object]] = [
        lambda: push(people, one),
        lambda: push(people, longer, one.mark),
        replace_and_go_on,
    ]
    misses = []
    for number, step in enumerate(steps):
        step()
        with people.reading() as context:
            told = read_story(context, ID).shown.story
        whole = make_readable_thread([make_journal_part(kept(people, ID))])
        if told != whole or (SECRET in repr(told)) == (step is replace_and_go_on):
            misses.append(number)
    assert misses == []


@pytest.mark.parametrize("way", ["replaced", "purged"])
def test_what_was_removed_is_in_no_byte_of_the_files(
    people: People, fast_place: Path, way: str
) -> None:
    one = with_secret()
    push(people, one)
    assert SECRET.encode() in stored(people, fast_place)
    with people.writing() as context:
        if way == "replaced":
            threads.replace_records(context, ID, one.mark, scrubbed(one).data)
        else:
            threads.purge_thread(context, ID)
    assert b"hunter2" not in stored(people, fast_place)


def stored(people: People, folder: Path) -> bytes:
    """The files of SQLite; of PostgreSQL, which vacuums when it likes, all rows of all tables."""
    if people.database.dialect == "sqlite":
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    with people.database.read() as db:
        names = inspect(db).get_table_names()
        rows = [db.exec_driver_sql(f"SELECT * FROM {name}").all() for name in names]
    return repr(rows).encode()


def test_only_a_scrub_replaces_and_only_what_is_here(people: People) -> None:
    one = with_secret()
    push(people, one)
    new = scrubbed(one)
    cases = (
        (one.mark, chain(1, [(said("x"),)]), "owner", ErrorCode.BAD_REQUEST),
        (one.upto(1).mark, new, "owner", ErrorCode.CONFLICT),
        (one.mark, new, "member", ErrorCode.FORBIDDEN),
        (one.mark, new, "chief", ErrorCode.FORBIDDEN),
        (one.mark, new, "outsider", ErrorCode.NOT_FOUND),
        (one.mark, scrubbed(chain(2)), "owner", ErrorCode.BAD_REQUEST),
    )
    for base, journal, name, code in cases:
        with people.writing(name) as context, pytest.raises(Refusal) as caught:
            threads.replace_records(context, ID, base, journal.data)
        assert caught.value.code is code
    assert kept(people, ID) == one.data


def test_large_outputs_that_no_record_names_any_more_go_with_a_scrub(people: People) -> None:
    one = with_secret()
    push(people, one)
    blobs = [b"kept", b"holds the secret"]
    names = [sha256(blob).hexdigest() for blob in blobs]
    ended = ToolCompleted("a", success("a"))
    ref = BlobRef(names[0], len(blobs[0]))
    outcome = type(ended.outcome)(**{**asdict(ended.outcome), "blob": ref})
    naming = ToolCompleted("a", outcome)
    new = scrubbed(one).more((naming,))
    with people.writing() as context:
        for name, blob in zip(names, blobs, strict=True):
            assert threads.put_blob(context, ID, name, blob)
            assert not threads.put_blob(context, ID, name, blob)
        threads.replace_records(context, ID, one.mark, new.data)
    with people.reading() as context:
        assert threads.get_blob(context, ID, names[0]) == blobs[0]
        assert threads.find_blob_size(context, ID, names[0]) == len(blobs[0])
        assert threads.find_blob_size(context, ID, names[1]) is None
        with pytest.raises(Refusal):
            threads.get_blob(context, ID, names[1])


def asdict(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).__struct_fields__}  # type: ignore[attr-defined]


def test_an_output_has_the_name_of_its_bytes(people: People) -> None:
    push(people, chain())
    for name in ("0" * 64, "x", "../../x", "A" * 64):
        with people.writing() as context, pytest.raises(Refusal) as caught:
            threads.put_blob(context, ID, name, b"x")
        assert caught.value.code is ErrorCode.BAD_REQUEST


def test_heads_are_those_of_ones_own_threads_and_each_once(people: People) -> None:
    for number in range(1, 6):
        push(people, chain(number).upto(3))
    push(people, chain(8), name="member")
    one = chain(2)
    last = push(people, one, one.upto(3).mark)
    with people.reading() as context:
        first = threads.list_heads(context, 0, 2)
        rest = threads.list_heads(context, first.change, 10)
    found = [head.thread for head in (*first.heads, *rest.heads)]
    assert found == [thread_id(number) for number in (1, 3, 4, 5, 2)]
    assert (first.is_last, rest.is_last) == (False, True)
    assert rest.change == last.change
    with people.reading() as context:
        assert threads.list_heads(context, last.change).heads == ()
        assert threads.find_newest_change(context) == last.change


def test_who_knows_of_more_changes_than_there_are_hears_all_from_the_beginning(
    people: People,
) -> None:
    head = push(people, chain())  # as after a backup was put back
    with people.reading() as context:
        found = threads.list_heads(context, head.change + 50)
        assert threads.list_heads(context, head.change).is_reset is False
    assert (found.heads, found.change, found.is_last) == ((head,), head.change, True)
    assert found.is_reset


def test_a_change_that_is_another_one_now_is_noticed_by_its_stamp(people: People) -> None:
    """An older backup was put back, and others have gone on until the number was reached again."""
    with people.reading() as context:
        empty = threads.list_heads(context)
        assert threads.list_heads(context, empty.change, stamp=empty.stamp) == empty
    one = chain()
    head = push(people, one)
    with people.reading() as context:
        told = threads.list_heads(context)
        same = threads.list_heads(context, told.change, stamp=told.stamp)
    assert (same.heads, same.change, same.stamp, same.is_reset) == ((), 1, told.stamp, False)
    with people.writing() as context:
        rows = schema.changes
        context.db.execute(rows.update().values(thread_id=thread_id(9)))
    with people.reading() as context:
        found = threads.list_heads(context, told.change, stamp=told.stamp)
        assert threads.list_heads(context, found.change, stamp=found.stamp).is_reset is False
    assert (found.heads, found.is_reset) == ((head,), True)
    assert found.stamp not in (told.stamp, "")


def test_heads_are_of_threads_of_records_alone(people: People) -> None:
    head = push(people, chain())
    with people.writing() as context:
        plant(context.db, thread_id(2), people["owner"], kind="document", version=1, change=2)
    with people.reading() as context:
        assert threads.list_heads(context).heads == (head,)


def test_the_owner_alone_hears_of_what_is_gone(people: People) -> None:
    push(people, chain())
    with people.writing() as context:
        threads.purge_thread(context, ID)
    for name, count in (("owner", 2), ("member", 0)):
        with people.reading(name) as context:
            assert len(threads.list_changes(context)) == count


def said_to_support() -> Chain:
    return chain(1, [(said("go"),), (Shared(with_support=True),)])


def is_open_to_support(people: People) -> bool:
    with people.reading("support") as context:
        try:
            threads.read_head(context, ID)
        except Refusal:
            return False
    return True


def scrubbed_of(one: Chain, *last: Shared) -> Chain:
    return one.more((Scrubbed(2, one.head.hash),), *((fact,) for fact in last))


def test_a_scrub_shows_support_out_and_never_in_again(people: People) -> None:
    one = said_to_support()
    push(people, one)
    assert is_open_to_support(people)
    with people.writing() as context:
        support.end_access(context, ID)  # as when the days are over
    again = scrubbed_of(one)
    with people.writing() as context:
        threads.replace_records(context, ID, one.mark, again.data)
    assert not is_open_to_support(people)
    with people.writing() as context:
        support.grant_access(context, ID)
    kept_open = scrubbed_of(again)
    with people.writing() as context:
        threads.replace_records(context, ID, again.mark, kept_open.data)
    assert is_open_to_support(people)
    ended = scrubbed_of(kept_open, Shared(with_support=False))
    with people.writing() as context:
        threads.replace_records(context, ID, kept_open.mark, ended.data)
    assert not is_open_to_support(people)


def test_a_scrub_that_makes_a_thread_private_ends_its_links(people: People) -> None:
    one = chain(1, [(Shared("public"),)])
    push(people, one)
    with people.writing() as context:
        share_links.create_link(context, ID, NewShare(), "https://treadle.example")
    new = scrubbed_of(one, Shared("private"))
    with people.writing() as context:
        threads.replace_records(context, ID, one.mark, new.data)
    assert row(people, schema.shares).revoked_at is not None


def test_a_thread_that_comes_again_after_a_purge_is_closed_to_support(people: People) -> None:
    one = said_to_support()
    push(people, one)
    with people.writing() as context:
        threads.purge_thread(context, ID)
    assert rows_of(people, schema.support_access) == []
    push(people, one)
    assert not is_open_to_support(people)
    assert rows_of(people, schema.support_access) == []


def test_a_scrubbed_or_purged_thread_is_not_in_memory_any_more(people: People) -> None:
    one = with_secret()
    push(people, one)
    with people.writing() as context:
        threads.replace_records(context, ID, one.mark, scrubbed(one).data)
    assert FOLD_CACHE.pop(ID, one.mark) is None
    with people.writing() as context:
        threads.purge_thread(context, ID)
    assert FOLD_CACHE.pop(ID, scrubbed(one).mark) is None


def test_the_end_of_support_is_said_in_the_thread_once(people: People) -> None:
    one = said_to_support()
    push(people, one)
    for _ in range(2):
        with people.writing() as context:
            assert threads.end_support_access(context, ID).status == "none"
    assert event_types(kept(people, ID))[one.head.seq :] == ["shared"]
    assert row(people, schema.threads).version == one.head.seq + 1
    assert not is_open_to_support(people)
    push(people, chain(2))
    with people.writing() as context:
        support.grant_access(context, thread_id(2))
        threads.end_support_access(context, thread_id(2))
    assert kept(people, thread_id(2)) == chain(2).data, "it has never said otherwise"


def test_changes_are_told_in_order_to_those_who_may_see_the_thread(people: People) -> None:
    push(people, chain(1))
    push(people, chain(2, [(Shared("private"),)]))
    push(people, chain(3, [(Shared("public"),)]))
    with people.writing() as context:
        threads.delete_thread(context, thread_id(1), None)
    seen = {}
    for name in ("owner", "member", "outsider"):
        with people.reading(name) as context:
            seen[name] = [head.change for head in threads.list_changes(context)]
            assert [head.change for head in threads.list_changes(context, 2)] == [
                change for change in seen[name] if change > 2
            ]
    assert seen == {"owner": [1, 2, 3, 4], "member": [3], "outsider": [3]}


@pytest.mark.parametrize(("after", "limit"), [(-1, 1), (2**63, 1), (0, 0), (0, 1001)])
def test_numbers_out_of_bounds_are_refused(people: People, after: int, limit: int) -> None:
    for read in (threads.list_heads, threads.list_changes):
        with people.reading() as context, pytest.raises(Refusal) as caught:
            read(context, after, limit)
        assert caught.value.code is ErrorCode.BAD_REQUEST


def test_the_fold_in_memory_follows_what_others_have_written(people: People) -> None:
    """As if another process had: it finds nothing at the new mark, and reads it."""
    one = chain()
    push(people, one)
    held = FOLD_CACHE.pop(ID, one.mark)
    assert held is not None
    longer = one.more((said("by another process"),))
    push(people, longer, one.mark)
    FOLD_CACHE.clear()
    FOLD_CACHE.put(held)
    with people.reading() as context:
        assert threads.read_document(context, ID)[0] == longer.mark
    assert FOLD_CACHE.pop(ID, GENESIS) is None
