"""Forks: they go on from what is here and may be seen, and stand by themselves afterwards."""

from __future__ import annotations

import copy
from typing import Final

import msgspec
import pytest
from psycopg import Error as PostgresError
from sqlalchemy.exc import DBAPIError

from core.samples import answer, said
from server.chains import Chain, chain, document, kept, push, refused, rows_of, thread_id
from server.people import People
from treadle.api.error_codes import ErrorCode
from treadle.server.data import schema
from treadle.server.data.fold_cache import FOLD_CACHE
from treadle.server.threads import threads
from treadle.thread.branches import flatten_records
from treadle.thread.facts import Base, Merged, Renamed, Scrubbed, Shared
from treadle.thread.record import scan_journal
from treadle.thread.scrub import RecordChange, scrub_journal


def test_a_fork_goes_on_from_what_is_here_and_stands_by_itself_afterwards(people: People) -> None:
    base = chain(1)
    fork = chain(2, [(said("instead"),)], base=base.base(base.head.seq))
    refusal = refused(people, fork)
    assert refusal.code is ErrorCode.UNFOLDABLE
    push(people, base)
    push(people, fork)
    whole = document(people, fork.thread)
    texts = [message.get("content", "") for message in whole["conversation"]["messages"]]
    assert texts[0] == "go"
    assert texts[-1] == "instead"
    longer = fork.more((said("word " * 70_000),))
    push(people, longer, fork.mark)  # so much that it has a snapshot there
    assert document(people, fork.thread, fork.head.seq) == whole
    with people.writing() as context:
        threads.purge_thread(context, base.thread)
    FOLD_CACHE.clear()
    assert document(people, fork.thread, fork.head.seq) == whole
    assert document(people, fork.thread, 1)["version"] == 1
    more = longer.more((said("and on"),))
    push(people, more, longer.mark)
    assert kept(people, fork.thread) == more.data


def test_a_fork_of_a_fork_is_folded_through_all_of_them(people: People) -> None:
    chains = [chain(1)]
    for number in range(2, 9):
        below = chains[-1]
        turn = [(said(f"{number}"), answer("yes"))]
        chains.append(chain(number, turn, base=below.base(below.head.seq)))
    for one in chains:
        push(people, one)
        FOLD_CACHE.clear()
    with people.writing() as context:  # without their snapshots, from the records alone
        context.db.execute(schema.documents.delete())
    last = document(people, chains[-1].thread)
    texts = [message.get("content", "") for message in last["conversation"]["messages"]]
    assert texts[-14::2] == [f"{number}" for number in range(2, 9)]


@pytest.mark.parametrize("wrong", ["version", "hash", "itself", "hidden"])
def test_a_base_that_is_another_or_hidden_is_not_there(people: People, wrong: str) -> None:
    base = chain(1, [(said("secret"),), (Shared("private"),)])
    push(people, base)
    known = base.base(2)
    bases = {
        "version": msgspec.structs.replace(known, version=99),
        "hash": msgspec.structs.replace(known, hash="0" * 32),
        "itself": msgspec.structs.replace(known, thread=thread_id(2)),
        "hidden": known,
    }
    name = "member" if wrong == "hidden" else "owner"
    refusal = refused(people, chain(2, [], base=bases[wrong]), name=name)
    assert refusal.code is ErrorCode.UNFOLDABLE
    if wrong == "hidden":
        absent = refused(people, chain(2, [], base=chain(7).base(2)), name=name)
        assert absent.problem == refusal.problem


def given_way() -> tuple[Chain, Base]:
    """A thread that another machine's branch was merged into, and the end of that branch."""
    common = chain(1, [(said("one"), answer("first"))])
    lost = common.more((said("lost"), answer("branch")))
    ours = scan_journal(lost.data).records[common.head.seq :]
    merged = Merged(common.head.seq, common.head.hash, tuple(flatten_records(ours)))
    one = common.more((said("mine"), answer("yes")), (merged,), (Shared("public"),))
    return one, lost.base(lost.head.seq)


def test_a_fork_of_a_branch_that_gave_way_finds_it_in_the_merge(people: People) -> None:
    one, base = given_way()
    fork = chain(2, [(said("on"), answer("and on"))], base=base)
    of_fork = chain(3, [(said("still"),)], base=fork.base(fork.head.seq))
    push(people, one)
    for each in (fork, of_fork):
        push(people, each)
    FOLD_CACHE.clear()
    with people.writing() as context:  # without their snapshots, from the records alone
        context.db.execute(schema.documents.delete())
    last = document(people, of_fork.thread)
    texts = [message.get("content", "") for message in last["conversation"]["messages"]]
    assert texts == ["one", "first", "lost", "branch", "on", "and on", "still"]


def test_a_merge_in_the_thread_of_somebody_else_is_no_base(people: People) -> None:
    one, base = given_way()
    push(people, one)
    refusal = refused(people, chain(2, [], base=base), name="member")
    assert refusal.code is ErrorCode.UNFOLDABLE
    push(people, chain(3, [], base=one.base(one.head.seq)), name="member")


WORD: Final = "hunter2-is-no-password"


def without_the_word(one: Chain) -> Chain:
    """What a scrub makes of a journal."""
    new = scrub_journal(one.data, RecordChange(lambda text: text.replace(WORD, "[REDACTED:x]")))
    return Chain(one.thread, new.data, new.head).more((Scrubbed(1, one.head.hash, True),))


def assert_scrubbed(people: People, one: Chain, who: str) -> None:
    with people.reading(who) as context:
        shown = threads.read_document(context, one.thread)[1]
    assert b"[REDACTED:x]" in shown
    assert WORD.encode() not in shown


@pytest.mark.parametrize("who", ["owner", "member"])
def test_what_is_scrubbed_goes_out_of_all_forks_which_stay_as_they_are(
    people: People, who: str
) -> None:
    base = chain(1, [(said(f"take {WORD}"),), (answer("yes"),)])
    fork = chain(2, [(said("instead"),)], base=base.base(3))
    of_fork = chain(3, [(answer("further"),)], base=fork.base(2))
    FOLD_CACHE.clear()  # those of tasks, of other tests, cannot be copied
    push(people, base)
    for one in (fork, of_fork):
        push(people, one, name=who)
    stale = [copy.deepcopy(one) for one in FOLD_CACHE._folds.values() if one.key != base.thread]
    assert len(stale) >= 2
    new = without_the_word(base)
    with people.writing() as context:
        threads.replace_records(context, base.thread, base.mark, new.data)
    for one in stale:  # as another process has them in memory
        FOLD_CACHE.put(one)
    assert WORD not in repr([rows_of(people, table) for table in schema.metadata.sorted_tables])
    for one in (fork, of_fork):
        longer = one.more((said("on"),))
        push(people, longer, one.mark, name=who)
        assert_scrubbed(people, one, who)
        assert kept(people, one.thread) == longer.data
    late = chain(4, [(said("late"),)], base=base.base(3))  # made before its machine knew
    push(people, late, name=who)
    assert_scrubbed(people, late, who)
    again = without_the_word(new.more((said("and on"),)))
    with people.writing() as context:
        threads.replace_records(context, base.thread, new.mark, again.data)
    with people.reading(who) as context:
        told = {head.thread for head in threads.list_changes(context, 0, 100)}
    assert {fork.thread, of_fork.thread} <= told


def test_a_fork_of_what_the_scrubbed_records_do_not_hold_is_scrubbed_too(people: People) -> None:
    base = chain(1, [(said(f"take {WORD}"),), (answer("yes"),), (said("gone"),)])
    fork = chain(2, [(Renamed("instead"),)], base=base.base(base.head.seq))
    push(people, base)
    push(people, fork)
    with people.writing() as context:
        new = without_the_word(base.upto(base.head.seq - 1))
        threads.replace_records(context, base.thread, base.mark, new.data)
    assert WORD not in repr([rows_of(people, table) for table in schema.metadata.sorted_tables])
    messages = document(people, fork.thread)["conversation"]["messages"]
    assert [one["content"] for one in messages] == ["take [REDACTED:x]", "yes", "gone"]


# Of the thread that is rewritten, whose change is the last one.
NO_CHANGE: Final = {
    "sqlite": """CREATE TRIGGER refuse BEFORE INSERT ON changes
WHEN NEW.kind = 'rewritten' AND NEW.thread_id = '{key}' BEGIN SELECT RAISE(ABORT, 'no'); END""",
    "postgresql": """CREATE FUNCTION refuse() RETURNS trigger AS
'BEGIN RAISE EXCEPTION ''no''; END' LANGUAGE plpgsql;
CREATE TRIGGER refuse BEFORE INSERT ON changes FOR EACH ROW
WHEN (NEW.kind = 'rewritten' AND NEW.thread_id = '{key}') EXECUTE FUNCTION refuse()""",
}


def test_a_thread_is_scrubbed_with_all_its_forks_or_not_at_all(people: People) -> None:
    base = chain(1, [(said(f"take {WORD}"),), (answer("yes"),)])
    push(people, base)
    for number in (2, 3):
        push(people, chain(number, [(said("instead"),)], base=base.base(3)))
    before = [rows_of(people, table) for table in schema.metadata.sorted_tables]
    with people.writing() as context:
        refuse = NO_CHANGE[people.database.dialect].format(key=base.thread)
        context.db.exec_driver_sql(refuse)

    def scrub() -> None:
        with people.writing() as context:
            new = without_the_word(base)
            threads.replace_records(context, base.thread, base.mark, new.data)

    with pytest.raises((DBAPIError, PostgresError), match="no"):
        scrub()
    assert [rows_of(people, table) for table in schema.metadata.sorted_tables] == before
