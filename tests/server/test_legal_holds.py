"""Legal holds: while one stands nobody removes anything, and who is refused reads why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from core.samples import said
from server.chains import Chain, chain, kept, push
from server.people import People, at
from server.test_threads import scrubbed
from treadle.api.error_codes import ErrorCode
from treadle.api.retention_types import NewHold
from treadle.server.context import Context
from treadle.server.refusals import Refusal
from treadle.server.threads import legal_holds, threads
from treadle.thread.facts import Trashed

ONE: Final = chain(1)
TARGETS: Final = {"thread": ONE.thread, "user": "owner", "organization": "acme"}

Work = Callable[[Context, Chain], Any]


def put_away(context: Context, one: Chain) -> object:
    return threads.delete_thread(context, one.thread, None)


def purge(context: Context, one: Chain) -> object:
    return threads.purge_thread(context, one.thread)


def scrub(context: Context, one: Chain) -> object:
    return threads.replace_records(context, one.thread, one.mark, scrubbed(one).data)


REMOVALS: Final = (put_away, scrub, purge)


def place(people: People, **target: str) -> int:
    with people.writing("admin") as context:
        return legal_holds.place_hold(context, NewHold("case  14\n of 2026", **target)).id


def lift(people: People, number: int) -> None:
    with people.writing("admin") as context:
        legal_holds.lift_hold(context, number)


def refuse(people: People, work: Work, one: Chain, name: str = "owner") -> Refusal:
    with pytest.raises(Refusal) as raised, people.writing(name) as context:
        work(context, one)
    return raised.value


def test_while_a_hold_stands_nobody_removes_anything_and_the_refusal_names_it(
    people: People,
) -> None:
    push(people, ONE)
    for number, (kind, name) in enumerate(TARGETS.items(), 1):
        assert place(people, **{kind: name}) == number
        what = f"hold {number} on the {kind} {name} by admin since {at()[:10]} (case 14 of 2026)"
        for removal in REMOVALS:
            refusal = refuse(people, removal, ONE)
            assert refusal.code is ErrorCode.LEGAL_HOLD, removal
            assert what in str(refusal), removal
        assert refuse(people, put_away, ONE, "chief").code is ErrorCode.LEGAL_HOLD
        assert kept(people, ONE.thread) == ONE.data
        lift(people, number)
    for number in (1, 2, 3):
        lift(people, number)  # fine if it was
    place(people, user="member")
    place(people, organization="rivals")
    for removal in REMOVALS[1:]:
        with people.writing() as context:
            removal(context, ONE)
    assert kept(people, ONE.thread) == b""


def test_a_push_is_taken_whatever_it_says_and_stays_whole(people: People) -> None:
    push(people, ONE)
    place(people, thread=f"{ONE.thread}@owner")
    gone = ONE.more((Trashed(),))
    push(people, gone, ONE.mark)
    assert refuse(people, purge, ONE).code is ErrorCode.LEGAL_HOLD
    assert kept(people, ONE.thread) == gone.data


def test_what_a_held_thread_goes_on_from_is_held(people: People) -> None:
    fork = chain(2, [(said("instead"),)], base=ONE.base(3))
    further = chain(3, [(said("further"),)], base=fork.base(2))
    push(people, ONE)
    push(people, fork, name="member")
    push(people, further, name="member")
    number = place(people, thread=further.thread)
    for removal in (scrub, purge):
        refusal = refuse(people, removal, ONE)
        assert refusal.code is ErrorCode.LEGAL_HOLD
        assert f"{further.thread}, which goes on from it, is held: hold {number}" in str(refusal)
    with people.writing() as context:
        put_away(context, ONE)  # that removes nothing of its history
    lift(people, number)
    with people.writing() as context:
        purge(context, ONE)


def test_who_has_placed_a_hold_can_rely_on_it(people: People) -> None:
    """A removal that is under way ends first; one that comes later finds the hold."""
    push(people, ONE)
    for target in TARGETS:
        new = NewHold("why", **{target: TARGETS[target]})
        with pytest.raises(ZeroDivisionError), people.writing() as context:
            purge_until_the_end(context, people, new)
    assert kept(people, ONE.thread) == ONE.data


def purge_until_the_end(context: Context, people: People, new: NewHold) -> None:
    """Have somebody try to place a hold while this removal is under way, and give that up."""
    row = legal_holds.find_any_thread(context, ONE.thread)
    legal_holds.check_not_held(context, row)

    def try_to_hold(db: Any) -> None:
        legal_holds.place_hold(Context(db, people["admin"], at()), new)

    with pytest.raises(Refusal) as raised:
        people.database.run(try_to_hold, is_write=True, wait_s=0.05)
    assert raised.value.code is ErrorCode.UNAVAILABLE
    raise ZeroDivisionError


def test_holds_are_for_admins_and_on_what_there_is(people: People) -> None:
    push(people, ONE)
    for name in ("owner", "chief", "support", ""):
        for work in (
            lambda context: legal_holds.place_hold(context, NewHold("why", user="owner")),
            legal_holds.list_holds,
            lambda context: legal_holds.lift_hold(context, 1),
        ):
            with pytest.raises(Refusal), people.writing(name) as context:
                work(context)
    wrong: tuple[dict[str, str], ...] = (
        *({}, {"thread": ONE.thread, "user": "owner"}, {"user": "nobody"}),
        *({"organization": "none"}, {"thread": chain(9).thread}, {"thread": f"{ONE.thread}@chief"}),
    )
    for target in wrong:
        with pytest.raises(Refusal), people.writing("admin") as context:
            legal_holds.place_hold(context, NewHold("why", **target))
    push(people, chain(1), name="member")
    with pytest.raises(Refusal, match="several"):
        place(people, thread=ONE.thread)
    place(people, thread=f"{ONE.thread}@member")
    with people.writing() as context:
        purge(context, ONE)
    with pytest.raises(Refusal, match="gone already"):
        place(people, thread=f"{ONE.thread}@owner")
    with people.reading("admin") as context:
        [hold] = legal_holds.list_holds(context).holds
    assert (hold.placed_by, hold.lifted_at, hold.lifted_by) == ("admin", None, None)


def test_what_has_worked_for_a_held_thread_is_held(people: People) -> None:
    child = chain(2, parent=ONE.thread, parent_call="c1")
    further = chain(3, parent=child.thread, parent_call="c1")
    circle = chain(4, parent=chain(4).thread, parent_call="c1")
    for one in (ONE, child, further, circle):
        push(people, one)
    push(people, further, name="member")  # of another user: it has worked for nobody here
    number = place(people, thread=ONE.thread)
    for one in (child, further):
        for removal in REMOVALS:
            refusal = refuse(people, removal, one)
            assert refusal.code is ErrorCode.LEGAL_HOLD
            assert f"hold {number} on the thread {ONE.thread}" in str(refusal)
    for name, one in (("owner", circle), ("member", further)):
        with people.writing(name) as context:
            purge(context, one)
    lift(people, number)
    with people.writing() as context:
        purge(context, further)
