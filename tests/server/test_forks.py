"""Forks: they go on from what is here and may be seen, and stand by themselves afterwards."""

from __future__ import annotations

import msgspec
import pytest

from core.samples import answer, said
from server.chains import chain, document, kept, push, refused, thread_id
from server.people import People
from treadle.api.codes import Code
from treadle.server.data import schema
from treadle.server.data.folding import FOLDS
from treadle.server.kept import threads
from treadle.thread.facts import Shared


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
