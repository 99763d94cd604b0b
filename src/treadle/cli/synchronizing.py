"""What `treadle sync` does: asks before a first sync, syncs, tells, watches."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from treadle.cli import exits
from treadle.cli.ask import is_somebody_there
from treadle.cli.filters import local_time
from treadle.cli.listening import watch
from treadle.cli.syncing import open_engine
from treadle.errors import TreadleError, UsageError
from treadle.store.index.lookup import Index
from treadle.store.local import LocalStore
from treadle.sync.credentials import Account, needed_account
from treadle.sync.cursors import Cursors
from treadle.sync.engine import Status
from treadle.sync.kit import OnConflict, Problem, Report
from treadle.sync.pending import Conflict, Entry, Pending
from treadle.thread.facts import Shared
from treadle.thread.legible import legible
from treadle.thread.model import ThreadSummary

_NOTHING: Final = "nothing new"

_WHO: Final = {
    "organization": "everybody in your organization",
    "private": "you alone",
    "public": "everybody, with or without an account",
}


class Wanted(Struct, frozen=True):
    """What a person wants: these threads, or all; what becomes of conflicts; not to be asked."""

    thread_ids: tuple[str, ...]
    on_conflict: OnConflict
    is_sure: bool
    as_json: bool


def synchronize(store: LocalStore, wanted: Wanted) -> int:
    """Sync once, tell what was done; the exit code.

    Raises:
        NotLoggedInError: there is no server, or it does not know this user.
        UsageError: nobody can be asked whether threads may be sent for the first time.
    """
    account = needed_account(store.places, os.environ)
    if not wanted.thread_ids and not _may_begin(store, account, wanted):
        return exits.FAILED
    with open_engine(store, account) as (engine, _, _):
        _progress(f"syncing with {account.url} ...")
        report = engine.sync(wanted.thread_ids or None, on_conflict=wanted.on_conflict)
    _take_in(store, report)
    _tell(report, as_json=wanted.as_json)
    return _code(report)


def keep_synchronized(store: LocalStore, wanted: Wanted) -> int:
    """Sync until interrupted, and tell of everything that was done. Raises as `synchronize`."""
    account = needed_account(store.places, os.environ)
    if not wanted.thread_ids and not _may_begin(store, account, wanted):
        return exits.FAILED
    before = ""

    def tell(report: Report) -> None:
        """What is as it was is not told again."""
        nonlocal before
        _take_in(store, report)
        told = "\n".join(_lines(report))
        if told not in (before, _NOTHING):
            _tell(report, as_json=wanted.as_json)
        before = told

    with open_engine(store, account) as (engine, _, _):
        _progress(f"syncing with {account.url}; Ctrl-C ends it")
        pending = Pending(store.folders.disk, store.places)
        watch(
            store,
            account,
            lambda: pending.state().change,
            lambda: engine.sync(
                wanted.thread_ids or None, on_conflict=wanted.on_conflict, is_wanted=False
            ),
            tell,
        )
    return exits.DONE


def _take_in(store: LocalStore, report: Report) -> None:
    """Have the index look at what came: what another machine has scrubbed leaves it at once."""
    if not report.received:
        return
    index = Index(store)
    try:
        index.threads(limit=1)
    finally:
        index.close()


def _code(report: Report) -> int:
    if report.held or report.refused:
        return exits.FAILED
    return exits.TRY_LATER if report.unreachable or report.waiting else exits.DONE


def _progress(text: str) -> None:
    """A line that is for whoever looks on, and for nobody else."""
    if sys.stderr.isatty():
        click.echo(legible(text), err=True)


# ---- the first time ------------------------------------------------------------------------------


class _Waiting(Struct, frozen=True):
    """Threads from before the login that were never sent, and how many others stay."""

    lines: Sequence[ThreadSummary]
    private_count: int


def _may_begin(store: LocalStore, account: Account, wanted: Wanted) -> bool:
    """Whether threads from before the login may be sent, if there are any: asked once."""
    found = _never_sent(store, account)
    if not found.lines:
        return True
    # A person who wants to be alone with new threads does not want the old ones to be seen more.
    is_alone = account.visibility == "private"
    seen: Counter[str] = Counter("private" if is_alone else one.visibility for one in found.lines)
    count = len(found.lines)
    threads = "one thread is" if count == 1 else f"{count} threads are"
    click.echo(f"{threads} here that {account.url} has never seen. There can read them:", err=True)
    for visibility, number in sorted(seen.items()):
        click.echo(f"  {number:>6}  {_WHO[visibility]}", err=True)
    if found.private_count:
        stay = (
            "one private thread stays"
            if found.private_count == 1
            else (f"{found.private_count} private threads stay")
        )
        click.echo(f"{stay} on this machine.", err=True)
    if not wanted.is_sure:
        if not is_somebody_there():
            raise UsageError("nobody can be asked whether they may be sent", hint="add --yes")
        if not click.confirm("Send them?", err=True):
            click.echo("nothing was sent", err=True)
            return False
    return not is_alone or _narrow(store, found.lines)


def _narrow(store: LocalStore, lines: Sequence[ThreadSummary]) -> bool:
    """Record that their user alone may see them, before anything is sent."""
    for line in lines:
        if line.visibility == "private":
            continue
        try:
            writer = store.open_any(line.id)
        except TreadleError as error:
            click.echo(f"treadle: nothing was sent: {legible(error.message)}", err=True)
            return False
        try:
            writer.stage(Shared("private"))
            writer.commit()
        finally:
            writer.close()
    return True


def _never_sent(store: LocalStore, account: Account) -> _Waiting:
    """What would be sent for the first time. What hangs on a private thread is private."""
    from treadle.store.index.filters import Filters

    index = Index(store)
    try:
        found = [*index.threads(), *index.threads(Filters(is_trashed=True))]
    finally:
        index.close()
    lines = {one.id: one for one in found}
    cursors = Cursors(store.folders.disk, store.places, account.url, account.user)
    private = {one for one in lines if _hangs_on_private(lines, one)}
    never = [
        line
        for line in found
        if line.id not in private
        and line.created_at < account.logged_in_at
        and not line.problem
        and cursors.get(line.id) is None
    ]
    return _Waiting(never, len(private))


def _hangs_on_private(lines: Mapping[str, ThreadSummary], thread_id: str) -> bool:
    seen: set[str] = set()
    todo = [thread_id]
    while todo:
        one = todo.pop()
        line = lines.get(one)
        if line is None or one in seen:
            continue
        if line.is_private:
            return True
        seen.add(one)
        todo += [above for above in (line.parent, line.forked_from) if above is not None]
    return False


# ---- telling -------------------------------------------------------------------------------------


def _tell(report: Report, *, as_json: bool) -> None:
    if as_json:
        plain: dict[str, Any] = msgspec.to_builtins(report)
        _print_json({"is_complete": report.is_complete, **plain})
        return
    for line in _lines(report):
        click.echo(legible(line))


def _lines(report: Report) -> Iterator[str]:
    counted = (
        (len(report.sent), "sent"),
        (len(report.replaced), "replaced after a scrub"),
        (len(report.received), "received"),
        (len(report.removed), "removed from the server"),
    )
    done = [f"{count} {what}" for count, what in counted if count]
    yield ", ".join(done) if done else _NOTHING
    yield from (_conflict_line(one) for one in report.conflicts)
    yield from report.notes
    for one in report.held:
        yield _held_line(one)
    for one in report.refused:
        yield f"{one.thread_id}  refused: {one.why}"
    for one in report.waiting:
        yield f"{one.thread_id}  waits: {one.why}"
    if report.private_count:
        count = report.private_count
        yield (
            "one private thread stays here"
            if count == 1
            else (f"{count} private threads stay here")
        )
    if report.unreachable:
        again = f"; it is tried again at {local_time(report.next_try_at)}"
        yield f"not all is synced: {report.unreachable}" + (again if report.next_try_at else "")


def _held_line(one: Problem) -> str:
    what = "; ".join(one.found) or one.why
    return (
        f"{one.thread_id}  held back: {what}; to take it out: treadle scrub {one.thread_id} --found"
    )


def _conflict_line(one: Conflict) -> str:
    how = f"the other branch is thread {one.fork}" if one.fork else "both were merged"
    note = f" ({one.note})" if one.note else ""
    return f"{one.thread_id}  two machines had gone on with it: {how}{note}"


def show_status(store: LocalStore, *, as_json: bool) -> int:
    """Tell how things stand, from this machine's files alone; the exit code.

    Raises:
        NotLoggedInError: there is no server.
    """
    account = needed_account(store.places, os.environ)
    with open_engine(store, account) as (engine, _, _):
        status = engine.status()
    if as_json:
        _print_json(status)
    else:
        for line in _status_lines(account, status):
            click.echo(legible(line))
    if any(one.parked for one in status.pending):
        return exits.FAILED
    is_waiting = status.pending or status.unsent or status.unfetched
    return exits.TRY_LATER if is_waiting else exits.DONE


def _status_lines(account: Account, status: Status) -> Iterator[str]:
    who = f" as {account.user} of {account.organization}" if account.user else ""
    yield f"{account.url}{who}"
    yield f"last synced: {local_time(status.synced_at)}" if status.synced_at else "not synced yet"
    if status.failed_at:
        yield f"not reached at {local_time(status.failed_at)}: {status.last_error}"
    if status.next_try_at:
        yield f"asked again from {local_time(status.next_try_at)} on"
    told = {one.thread_id for one in status.pending}
    for entry in status.pending:
        yield f"{entry.thread_id}  {_entry_words(entry)}"
    counted = (
        (len(set(status.unsent) - told), "to be sent"),
        (len(set(status.unfetched) - told), "to be fetched"),
        (status.private_count, "private: never sent"),
    )
    yield from (f"{count:>6}  {what}" for count, what in counted if count)
    yield from (f"{_conflict_line(one)}; {local_time(one.at)}" for one in status.conflicts)
    if not (status.pending or status.unsent or status.unfetched):
        yield "nothing waits"


def _entry_words(one: Entry) -> str:
    if one.parked == "held":
        what = "; ".join(one.found) or one.last_error
        return f"held back: {what}; to take it out: treadle scrub {one.thread_id} --found"
    if one.parked:
        return f"refused: {one.last_error}; `treadle sync` tries it again"
    doing = {"upsert": "waits to be sent", "delete": "waits to be removed from the server"}
    words = doing.get(one.operation, "waits to be replaced after a scrub")
    if one.last_error:
        words += f"; failed {one.retry_count} times, last at {local_time(one.failed_at)}: "
        words += one.last_error
    if one.next_try_at:
        words += f"; tried again from {local_time(one.next_try_at)} on"
    return words


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
