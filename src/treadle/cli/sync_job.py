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
from msgspec.structs import replace

from treadle import exit_codes
from treadle.app.sync.continuous_sync import watch
from treadle.app.sync.sync_engine import open_engine
from treadle.app.threads.local_times import local_time
from treadle.cli.ask import is_somebody_there
from treadle.cli.json_output import print_json
from treadle.errors import TreadleError
from treadle.store.index.lookup import Index
from treadle.store.local import LocalStore
from treadle.sync.context import OnConflict, Problem, Report
from treadle.sync.credentials import Account, needed_account
from treadle.sync.cursors import Cursors
from treadle.sync.refusals import LOST_SCRUB
from treadle.sync.send_queue import Conflict, Entry, Pending
from treadle.sync.status import Status, standing
from treadle.thread.facts import Shared
from treadle.thread.model import ThreadSummary
from treadle.thread.safe_text import legible

COUNTED_MIN: Final = 50
"""Threads from which on it is told how far a sync is; in a log, so many between two lines."""

NAMED_MAX: Final = 20
"""Threads that are named one by one."""

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
    """
    account = needed_account(store.places, os.environ)
    left = () if wanted.thread_ids else _not_to_be_sent(store, account, wanted)
    if left is None:
        return exit_codes.FAILED
    with open_engine(store, account, progress=_count) as (engine, _, _):
        _progress(f"syncing with {account.url} ...")
        report = engine.sync(
            wanted.thread_ids or None, on_conflict=wanted.on_conflict, without=left
        )
    _take_in(store, report)
    _tell(report, as_json=wanted.as_json, left=left)
    return exit_codes.FAILED if left else _code(report)


def keep_synchronized(store: LocalStore, wanted: Wanted) -> int:
    """Sync until interrupted, and tell of everything that was done. Raises as `synchronize`."""
    account = needed_account(store.places, os.environ)
    left = () if wanted.thread_ids else _not_to_be_sent(store, account, wanted)
    if left is None:
        return exit_codes.FAILED
    for line in _left_lines(left):
        click.echo(legible(line), err=True)
    before = ""

    def tell(report: Report) -> None:
        """What is as it was is not told again."""
        nonlocal before
        _take_in(store, report)
        told = "\n".join(_news(report))
        if told and told != before:
            _tell(report, as_json=wanted.as_json, is_watching=True)
        before = told

    cursors = Cursors(store.folders.disk, store.places, account.url, account.user)

    def sync() -> Report:
        # What has been named since is sent like all others.
        still = [one for one in left if cursors.get(one) is None]
        return engine.sync(
            wanted.thread_ids or None,
            on_conflict=wanted.on_conflict,
            is_wanted=False,
            without=still,
        )

    with open_engine(store, account) as (engine, _, _):
        _progress(f"syncing with {account.url}; Ctrl-C ends it")
        pending = Pending(store.folders.disk, store.places)
        watch(
            store,
            account,
            lambda: pending.state().change,
            sync,
            tell,
        )
    return exit_codes.DONE


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
        return exit_codes.FAILED
    return exit_codes.TRY_LATER if report.unreachable or report.waiting else exit_codes.DONE


def _progress(text: str) -> None:
    """A line that is for whoever looks on, and for nobody else."""
    if sys.stderr.isatty():
        click.echo(legible(text), err=True)


def _count(done: int, count: int) -> None:
    """How far a long sync is: in a terminal as it goes, in a log now and then."""
    if count < COUNTED_MIN:
        return
    is_last = done == count
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {count} threads", err=True, nl=is_last)
    elif is_last or done % COUNTED_MIN == 0:
        click.echo(f"{done} of {count} threads", err=True)


# ---- the first time ------------------------------------------------------------------------------


class Unasked(Struct, frozen=True):
    """Threads from before the login that were never sent, and how many others stay."""

    lines: Sequence[ThreadSummary]
    private_count: int


def _not_to_be_sent(store: LocalStore, account: Account, wanted: Wanted) -> tuple[str, ...] | None:
    """The threads from before the login that are left alone: nobody can be asked about them.

    `None` if somebody was asked, and said no.
    """
    found = never_sent(store, account)
    if not found.lines:
        return ()
    # A person who wants to be alone with new threads does not want the old ones to be seen more.
    is_alone = account.visibility == "private"
    seen: Counter[str] = Counter("private" if is_alone else one.visibility for one in found.lines)
    count = len(found.lines)
    threads, them = ("one thread", "it") if count == 1 else (f"{count} threads", "them")
    click.echo(
        f"{threads} from before the login would be sent to {account.url}. There can read {them}:",
        err=True,
    )
    for visibility, number in sorted(seen.items()):
        click.echo(f"  {number:>6}  {_WHO[visibility]}", err=True)
    if found.private_count:
        stay = _private_words(found.private_count)
        click.echo(f"{stay} on this machine.", err=True)
    if not wanted.is_sure:
        if not is_somebody_there():
            return tuple(line.id for line in found.lines)
        if not click.confirm(f"Send {them}?", err=True):
            click.echo("nothing was sent", err=True)
            return None
    return None if is_alone and not _narrow(store, found.lines) else ()


def _left_lines(left: Sequence[str]) -> Iterator[str]:
    how = "nobody could be asked whether it may be sent"
    for one in left[:NAMED_MAX]:
        yield f"{one}  not sent: {how}: `treadle sync {one}` sends it"
    if left:
        more = len(left) - NAMED_MAX
        yield (f"{more} more like these; " if more > 0 else "") + "`treadle sync --yes` sends all"


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


def never_sent(store: LocalStore, account: Account) -> Unasked:
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
    return Unasked(never, len(private))


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


def _tell(
    report: Report, *, as_json: bool, left: Sequence[str] = (), is_watching: bool = False
) -> None:
    """What was done; while it is watched, only that, and JSON in one line."""
    if as_json:
        plain: dict[str, Any] = msgspec.to_builtins(report)
        found = {"is_complete": report.is_complete and not left, **plain, "unasked": left}
        if is_watching:
            print_json(found, is_one_line=True)
        else:
            _print_json(found)
        return
    lines = list(_news(report))
    if not is_watching:
        lines = [*(lines or ["nothing new"] * (not left)), *_left_lines(left)]
        if report.private_count:
            lines.append(f"{_private_words(report.private_count)} here")
    for line in lines:
        click.echo(legible(line))


def _news(report: Report) -> Iterator[str]:
    counted = (
        (len(report.sent), "sent"),
        (len(report.replaced), "replaced after a scrub"),
        (len(report.received), "received"),
        (len(report.removed), "removed from the server"),
    )
    done = [f"{count} {what}" for count, what in counted if count]
    if done:
        yield ", ".join(done)
    yield from (_conflict_line(one) for one in report.conflicts)
    yield from report.notes
    for one in report.held:
        yield _held_line(one)
    for one in report.refused:
        yield f"{one.thread_id}  refused: {one.why}"
    for one in report.waiting:
        yield f"{one.thread_id}  waits: {one.why}"
    if report.unreachable:
        again = f"; it is tried again at {local_time(report.next_try_at)}"
        yield f"not all is synced: {report.unreachable}" + (again if report.next_try_at else "")


def _private_words(count: int) -> str:
    return "one private thread stays" if count == 1 else f"{count} private threads stay"


def _held_line(one: Problem) -> str:
    return f"{one.thread_id}  {_held_words(one.thread_id, one.found, one.why)}"


def _held_words(thread_id: str, found: Sequence[str], why: str) -> str:
    what = "; ".join(found) or why
    if LOST_SCRUB in found:  # nobody here knows the text: `--found` would find nothing
        return f"held back: {what}"
    return f"held back: {what}; to take it out: treadle scrub {thread_id} --found"


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
    disk = store.folders.disk
    cursors = Cursors(disk, store.places, account.url, account.user)
    status = standing(store, cursors, Pending(disk, store.places), store.now())
    # What nobody was asked about yet waits for a person, and not to be sent.
    unasked = {one.id for one in never_sent(store, account).lines} & set(status.unsent)
    unsent = [one for one in status.unsent if one not in unasked]
    if as_json:
        _print_json({**msgspec.to_builtins(status), "unsent": unsent, "unasked": sorted(unasked)})
    else:
        for line in _status_lines(account, replace(status, unsent=tuple(unsent)), len(unasked)):
            click.echo(legible(line))
    if any(one.parked for one in status.pending):
        return exit_codes.FAILED
    is_waiting = status.pending or unsent or status.unfetched
    return exit_codes.TRY_LATER if is_waiting else exit_codes.DONE


def _status_lines(account: Account, status: Status, unasked_count: int) -> Iterator[str]:
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
        (unasked_count, "from before the login: `treadle sync` asks before it sends them"),
        (status.private_count, "private: never sent"),
    )
    yield from (f"{count:>6}  {what}" for count, what in counted if count)
    for one in status.conflicts:
        kept = f"; what was here before: {one.kept}" if one.kept else ""
        yield f"{_conflict_line(one)}; {local_time(one.at)}; `treadle show {one.thread_id}`{kept}"
    if not (status.pending or status.unsent or status.unfetched):
        yield "nothing waits"


def _entry_words(one: Entry) -> str:
    if one.parked == "held":
        return _held_words(one.thread_id, one.found, one.last_error)
    if one.parked:
        return f"refused: {one.last_error}; `treadle sync` tries it again"
    doing = {"upsert": "waits to be sent", "delete": "waits to be removed from the server"}
    words = doing.get(one.operation, "waits to be replaced after a scrub")
    if one.last_error:
        often = "once" if one.retry_count == 1 else f"{one.retry_count} times, last"
        words += f"; failed {often} at {local_time(one.failed_at)}: "
        words += one.last_error
    return words


def _print_json(value: object) -> None:
    print_json(value)
