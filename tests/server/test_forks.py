"""Forks: they go on from what is here and may be seen, and stand by themselves afterwards."""

from __future__ import annotations

import msgspec
import pytest

from core.samples import answer, said
from server.chains import Chain, chain, document, kept, push, refused, thread_id
from server.people import People
from treadle.api.codes import Code
from treadle.server.data import schema
from treadle.server.data.folding import FOLDS
from treadle.server.kept import threads
from treadle.thread.branches import flat
from treadle.thread.facts import Base, Merged, Shared
from treadle.thread.record import scan


def test_a_fork_goes_on_from_what_is_here_and_stands_by_itself_afterwards(people: People) -> None:
    base = chain(1)
    fork = chain(2, [(said("instead"),)], base=base.base(base.head.seq))
    refusal = refused(people, fork)
    assert refusal.code is Code.UNFOLDABLE
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
        threads.purge(context, base.thread)
    FOLDS.clear()
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
        FOLDS.clear()
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
    assert refusal.code is Code.UNFOLDABLE
    if wrong == "hidden":
        absent = refused(people, chain(2, [], base=chain(7).base(2)), name=name)
        assert absent.problem == refusal.problem


def given_way() -> tuple[Chain, Base]:
    """A thread that another machine's branch was merged into, and the end of that branch."""
    common = chain(1, [(said("one"), answer("first"))])
    lost = common.more((said("lost"), answer("branch")))
    ours = scan(lost.data).records[common.head.seq :]
    merged = Merged(common.head.seq, common.head.hash, tuple(flat(ours)))
    one = common.more((said("mine"), answer("yes")), (merged,), (Shared("public"),))
    return one, lost.base(lost.head.seq)


def test_a_fork_of_a_branch_that_gave_way_finds_it_in_the_merge(people: People) -> None:
    one, base = given_way()
    fork = chain(2, [(said("on"), answer("and on"))], base=base)
    of_fork = chain(3, [(said("still"),)], base=fork.base(fork.head.seq))
    push(people, one)
    for each in (fork, of_fork):
        push(people, each)
    FOLDS.clear()
    with people.writing() as context:  # without their snapshots, from the records alone
        context.db.execute(schema.documents.delete())
    last = document(people, of_fork.thread)
    texts = [message.get("content", "") for message in last["conversation"]["messages"]]
    assert texts == ["one", "first", "lost", "branch", "on", "and on", "still"]


def test_a_merge_in_the_thread_of_somebody_else_is_no_base(people: People) -> None:
    one, base = given_way()
    push(people, one)
    refusal = refused(people, chain(2, [], base=base), name="member")
    assert refusal.code is Code.UNFOLDABLE
    push(people, chain(3, [], base=one.base(one.head.seq)), name="member")
