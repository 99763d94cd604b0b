"""Retention: what rules put away and remove, what is kept, and that a run may die anywhere."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import count
from typing import Any, Final

import pytest
from msgspec import UNSET, Struct
from sqlalchemy import text

from core.samples import said
from server.chains import Chain, chain, document, kept, push
from server.people import People, at
from server.test_documents import body_of
from server.test_documents import put as put_document
from treadle.api.retention_types import NewHold, RetentionChange, RetentionPlan, RetentionRule
from treadle.server.accounts import access, audit
from treadle.server.accounts.access import DeletionState
from treadle.server.context import Context
from treadle.server.refusals import Refusal
from treadle.server.threads import legal_holds, retention, retention_run, threads
from treadle.server.threads.retention import Due
from treadle.server.threads.retention_run import RetentionReport, run_retention
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Renamed
from treadle.thread.record import encode_batch

DAY: Final = 24 * 3600
LIVE, DELETED, PURGED = DeletionState


def set_rule(people: People, organization: str | None = None, **days: Any) -> None:
    with people.writing("admin") as context:
        retention.change_rule(context, RetentionChange(organization, **days))


def plan(people: People, day: float) -> RetentionPlan:
    with people.reading("admin", at(day * DAY)) as context:
        return retention.make_plan(context)


def run(people: People, day: float) -> RetentionReport:
    return run_retention(people.database, lambda: at(day * DAY))


def states(people: People) -> dict[str, DeletionState]:
    """How each thread stands, by its number."""
    with people.database.read() as db:
        rows = db.execute(text("SELECT id, deleted_at, purged_at FROM threads")).all()
    return {row.id[-1]: access.get_deletion_state(row) for row in rows}


def told(found: RetentionPlan) -> list[tuple[str, str]]:
    return [(one.act, one.thread[-1]) for one in found.due]


def test_what_nothing_came_to_is_put_away_and_then_removed(people: People) -> None:
    old, other = chain(1), chain(2)
    push(people, old)
    push(people, other, name="outsider")
    set_rule(people, idle_days=30, trash_days=10)
    set_rule(people, "rivals", idle_days=0)
    assert told(plan(people, 29)) == []
    found = plan(people, 31)
    assert told(found) == [("put_away", "1")]
    assert (found.due[0].owner, found.due[0].organization) == ("owner", "acme")
    assert run(people, 31) == RetentionReport(put_away=1)
    assert states(people) == {"1": DELETED, "2": LIVE}
    assert b'"trashed"' in kept(people, old.thread), "machines are told by a record, as of a person"
    assert run(people, 40) == RetentionReport()
    found = plan(people, 42)
    assert told(found) == [("remove", "1")]
    size = found.due[0].size
    assert size == len(kept(people, old.thread))
    assert run(people, 42) == RetentionReport(removed=1, size=size)
    assert states(people) == {"1": PURGED, "2": LIVE}
    assert kept(people, old.thread) == b""
    with people.reading() as context:
        [head] = threads.list_heads(context).heads
        lines = audit.list_lines(Context(context.db, people["admin"], at()), 9).lines
    assert (head.thread, head.is_purged) == (old.thread, True)
    by_rule = [(one.actor, one.detail) for one in lines if one.action == "thread_expired"]
    assert by_rule == [
        ("operator", "removed: put away on 2026-12-22"),
        ("operator", "put away: nothing came since 2026-11-21"),
    ]


def test_what_comes_to_a_thread_by_the_clock_of_the_server_counts(people: People) -> None:
    """An import of old sessions, and what a machine has recorded long ago, is new here."""
    one = chain(1)
    push(people, one)
    set_rule(people, idle_days=30)
    with people.writing("owner", at(20 * DAY)) as context:
        threads.set_visibility(context, one.thread, None, "public")
    assert told(plan(people, 49)) == []
    assert told(plan(people, 51)) == [("put_away", "1")]
    assert run(people, 51).put_away == 1
    with people.writing("owner", at(52 * DAY)) as context:
        threads.restore_thread(context, one.thread, None)
    assert (run(people, 81).put_away, run(people, 83).put_away) == (0, 1)


def test_what_a_hold_a_fork_or_a_parent_keeps_is_kept_and_the_plan_says_why(
    people: People,
) -> None:
    base = chain(1)
    fork = chain(2, [(said("instead"),)], base=base.base(3))
    further = chain(3, [(said("further"),)], base=fork.base(2))
    parent = chain(4)
    child = chain(5, parent=parent.thread, parent_call="c1")
    held = chain(6)
    for one in (base, parent, child, held):
        push(people, one)
    push(people, fork, name="member")
    push(people, further, name="member")
    set_rule(people, idle_days=30, trash_days=10)
    with people.writing("admin") as context:
        legal_holds.place_hold(context, NewHold("case 14", held.thread))
        legal_holds.place_hold(context, NewHold("case 15", further.thread))
    with people.writing("owner", at(20 * DAY)) as context:
        threads.set_visibility(context, parent.thread, None, "public")
    found = plan(people, 31)
    assert told(found) == []
    assert {one.thread[-1]: one.why for one in found.kept} == {
        "1": f"{fork.thread} goes on from it",
        "2": f"{further.thread} goes on from it",
        "3": f"hold 2 on the thread {further.thread}: case 15",
        "5": f"it worked for {parent.thread}",
        "6": f"hold 1 on the thread {held.thread}: case 14",
    }
    assert run(people, 31) == RetentionReport()
    assert {*states(people).values()} == {LIVE}
    with people.writing("admin") as context:
        for number in (1, 2):
            legal_holds.lift_hold(context, number)
    found = plan(people, 51)
    assert [one.thread[-1] for one in found.due].index("1") == 2, "forks go before their bases"
    assert [one.thread[-1] for one in found.due][:2] == ["3", "2"]
    assert (found.kept, len(found.due)) == ((), 6)
    assert run(people, 51).put_away == 6
    assert [one.thread[-1] for one in plan(people, 62).due][:3] == ["3", "2", "1"]
    assert run(people, 62).removed == 6
    assert {*states(people).values()} == {PURGED}


class Death(BaseException):
    """As of a process that is killed."""


@pytest.mark.parametrize("act", ["put_away", "remove"])
def test_a_run_that_dies_has_done_each_thread_whole_or_not_at_all(
    people: People, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    monkeypatch.setattr(retention_run, "SQLITE_STEP_COUNT", 2)
    base = chain(1)
    chains = [base, chain(2, [(said("on"),)], base=base.base(3)), *map(chain, (3, 4, 5))]
    for one in chains:
        push(people, one)
    set_rule(people, idle_days=30, trash_days=10)
    day = 31
    if act == "remove":
        assert run(people, day).put_away == 5
        day = 42
    before, after = (LIVE, DELETED) if act == "put_away" else (DELETED, PURGED)
    for deaths in count(1):
        monkeypatch.setattr(retention_run.audit, "log_action", _dying(audit.log_action, 3))
        try:
            run(people, day)
            break
        except Death:
            pass
        finally:
            monkeypatch.undo()
            monkeypatch.setattr(retention_run, "SQLITE_STEP_COUNT", 2)
        found = states(people)
        assert {*found.values()} <= {before, after}
        assert (found["1"], found["2"]) != (after, before), "a base never goes before its fork"
        for one in chains:
            _assert_whole(people, one, found[one.thread[-1]])
        assert deaths < 9
    assert deaths > 1
    assert {*states(people).values()} == {after}
    assert plan(people, day).due == ()


def _dying(log: Any, after: int) -> Any:
    """Notes what is done, and dies the third time that a thread has expired."""
    seen = count(1)

    def write(context: Context, action: audit.Action, *rest: Any) -> None:
        if action == "thread_expired" and next(seen) == after:
            raise Death
        log(context, action, *rest)

    return write


def _assert_whole(people: People, one: Chain, state: DeletionState) -> None:
    lines = kept(people, one.thread)
    assert lines.startswith(one.data) if state is not PURGED else lines == b""
    if state is LIVE:
        assert document(people, one.thread)["id"] == one.thread


def test_who_goes_on_with_a_thread_during_a_run_comes_first(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = chain(1), chain(2)
    push(people, one)
    push(people, two)
    set_rule(people, idle_days=30)
    found = people.database.run(
        lambda db: retention.schedule(Context(db, people["admin"], at(31 * DAY))), is_write=False
    )
    assert len(found.due) == 2
    with people.writing("owner", at(31 * DAY)) as context:
        more = one.more((Renamed("on"),))
        threads.push_records(context, one.thread, one.mark, more.after(one.head.seq))
    with people.writing("admin") as context:
        legal_holds.place_hold(context, NewHold("why", two.thread))
    monkeypatch.setattr(retention, "schedule", lambda _: found)
    assert run(people, 31) == RetentionReport(skipped=2)
    assert {*states(people).values()} == {LIVE}


def test_rules_are_for_admins_and_each_change_is_noted(people: People) -> None:
    for name in ("owner", "chief", "support", ""):
        for work in (
            retention.list_rules,
            retention.make_plan,
            lambda context: retention.change_rule(context, RetentionChange(idle_days=1)),
        ):
            with pytest.raises(Refusal), people.writing(name) as context:
                work(context)
    with pytest.raises(Refusal), people.writing("admin") as context:
        retention.change_rule(context, RetentionChange("nobody", 1))
    set_rule(people, idle_days=365)
    set_rule(people, "acme", trash_days=0)
    set_rule(people, "acme", trash_days=0)
    set_rule(people, idle_days=UNSET, trash_days=30)
    with people.reading("admin") as context:
        assert retention.list_rules(context).rules == (
            RetentionRule(None, 365, 30),
            RetentionRule("acme", None, 0),
        )
        lines = audit.list_lines(context, 9).lines
    assert [(one.action, one.detail) for one in lines] == [
        ("retention_changed", "the whole server: put away after 365 days, removed after 30 days"),
        ("retention_changed", "acme: put away after -, removed after never"),
        ("retention_changed", "the whole server: put away after 365 days, removed after -"),
    ]


KILLED: Final = """
import os, signal, sys
from treadle.server.data.database import Database
from treadle.server.threads import removal, retention_run
publish, count = removal.publish_change, 0
def publish_and_die(*given):
    global count
    count += 1
    if count == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return publish(*given)
removal.publish_change = publish_and_die
retention_run.SQLITE_STEP_COUNT = 2
retention_run.run_retention(Database(sys.argv[1]), lambda: sys.argv[2])
"""


def test_a_process_that_is_killed_in_a_run_leaves_the_rest_to_the_next(
    people: People, database_url: str
) -> None:
    """At the end of a removal, before anything of it is durable."""
    for number in range(1, 6):
        push(people, chain(number))
    set_rule(people, idle_days=30, trash_days=10)
    assert run(people, 31).put_away == 5
    done = subprocess.run([sys.executable, "-c", KILLED, database_url, at(42 * DAY)])
    assert done.returncode == -signal.SIGKILL
    found = states(people)
    assert [*found.values()].count(PURGED) == 2
    for number, state in found.items():
        lines = kept(people, chain(int(number)).thread)
        assert (lines == b"") == (state is PURGED)
    assert run(people, 42).removed == 3
    assert {*states(people).values()} == {PURGED}


def test_who_goes_on_with_a_thread_during_a_run_keeps_what_has_worked_for_it(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = chain(1)
    push(people, parent)
    push(people, chain(2, parent=parent.thread, parent_call="c1"))
    set_rule(people, idle_days=30)
    found = people.database.run(
        lambda db: retention.schedule(Context(db, people["admin"], at(31 * DAY))), is_write=False
    )
    assert len(found.due) == 2
    with people.writing("owner", at(31 * DAY)) as context:
        more = parent.more((Renamed("on"),))
        threads.push_records(context, parent.thread, parent.mark, more.after(parent.head.seq))
    monkeypatch.setattr(retention, "schedule", lambda _: found)
    assert run(people, 31) == RetentionReport(skipped=2)
    assert {*states(people).values()} == {LIVE}


@pytest.mark.parametrize("year", ["2099", "9999"])
def test_a_clock_that_was_ahead_keeps_no_thread_longer(people: People, year: str) -> None:
    one = chain(1)
    event = encode_entry(said("from the future"))[1]
    data, head = encode_batch(one.head, f"{year}-12-31T23:59:59.999999Z", [event])
    push(people, Chain(one.thread, one.data + data, head))
    set_rule(people, idle_days=30, trash_days=10)
    assert told(plan(people, 29)) == []
    assert (run(people, 31).put_away, run(people, 42).removed) == (1, 1)


def test_a_document_that_somebody_goes_on_with_in_the_trash_is_not_removed(people: People) -> None:
    """A simple client does not know that it was put away."""
    put_document(people, body_of())
    set_rule(people, idle_days=30, trash_days=10)
    assert run(people, 31).put_away == 1
    with people.writing("owner", at(41 * DAY)) as context:
        threads.put_document(context, chain(1).thread, body_of(version=2), 1)
    assert (told(plan(people, 42)), run(people, 42)) == ([], RetentionReport())
    assert run(people, 52).removed == 1


def test_a_plan_takes_a_time_that_grows_with_what_is_due(people: People) -> None:
    """Each fork of a thread that has many is looked at a few times, not once for each other."""
    push(people, chain(1))
    with people.database.read() as db:
        row = db.execute(text("SELECT * FROM threads")).one()
    looks = count()

    class Fork(Struct):
        name: str

        @property
        def key(self) -> str:
            next(looks)
            return self.name

    names = [f"{number:04}" for number in range(1000)]
    due = {name: Due(row, "remove", "") for name in names}
    forks: Any = {"0000": list(map(Fork, names[1:])), "0001": [Fork("0002")]}
    ordered = [*retention.put_in_order(due, forks)]
    assert ordered == ["0002", "0001", *names[3:], "0000"]
    assert next(looks) < 5000
