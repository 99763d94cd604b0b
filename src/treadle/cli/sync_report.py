"""What `treadle sync` tells: of what it is about to do, of what it did, of how things stand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from treadle import exit_codes
from treadle.app.sync.first_sync import FirstSync
from treadle.app.sync.sync_runs import SyncOutcome, is_scrub_lost
from treadle.app.sync.sync_status import SyncStatus
from treadle.app.threads.times import local_time
from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line
from treadle.thread.safe_text import sanitize_text

PROGRESS_COUNT_MIN: Final = 50
"""Threads from which on it is told how far a sync is; in a log, so many between two lines."""

NAMED_COUNT_MAX: Final = 20
"""Threads that are named one by one."""

_VISIBILITY_TEXTS: Final = {
    "organization": "everybody in your organization",
    "private": "you alone",
    "public": "everybody, with or without an account",
}

# ---- before and meanwhile ------------------------------------------------------------------------


def print_first_sync(plan: FirstSync) -> None:
    """Say how many threads would be sent for the first time, and who could read them."""
    threads, them = ("one thread", "it") if plan.count == 1 else (f"{plan.count} threads", "them")
    click.echo(
        f"{threads} from before the login would be sent to {plan.url}. There can read {them}:",
        err=True,
    )
    for visibility, number in sorted(plan.readers.items()):
        click.echo(f"  {number:>6}  {_VISIBILITY_TEXTS[visibility]}", err=True)
    if plan.private_count:
        click.echo(f"{describe_private_count(plan.private_count)} on this machine.", err=True)


def print_start(url: str) -> None:
    """Say that a sync begins."""
    _print_if_interactive(f"syncing with {url} ...")


def print_watch_start(url: str, left: Sequence[str]) -> None:
    """Say that it is synced from now on, and what is left out."""
    for line in _describe_unsent(left):
        print_line(sanitize_text(line), err=True)
    _print_if_interactive(f"syncing with {url}; Ctrl-C ends it")


def print_thread_count(done: int, count: int) -> None:
    """How far a long sync is: in a terminal as it goes, in a log now and then."""
    if count < PROGRESS_COUNT_MIN:
        return
    is_last = done == count
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {count} threads", err=True, nl=is_last)
    elif is_last or done % PROGRESS_COUNT_MIN == 0:
        click.echo(f"{done} of {count} threads", err=True)


def _print_if_interactive(text: str) -> None:
    """A line that is for whoever looks on, and for nobody else."""
    if sys.stderr.isatty():
        print_line(sanitize_text(text), err=True)


# ---- what was done -------------------------------------------------------------------------------


def make_outcome_printer(*, as_json: bool) -> Callable[[SyncOutcome], None]:
    """What prints the syncs of a watch, JSON in one line; what is as it was is not told again."""
    before: list[str] = []

    def print_news(outcome: SyncOutcome) -> None:
        nonlocal before
        lines = list(_describe_outcome(outcome))
        if lines and lines != before:
            if as_json:
                print_json(_to_dict(outcome), is_one_line=True)
            else:
                _print_lines(lines)
        before = lines

    return print_news


def print_outcome(outcome: SyncOutcome, *, as_json: bool) -> None:
    """Print what a sync did, and what it left."""
    if as_json:
        print_json(_to_dict(outcome))
        return
    lines = list(_describe_outcome(outcome))
    lines = [*(lines or ["nothing new"] * (not outcome.left)), *_describe_unsent(outcome.left)]
    if outcome.report.private_count:
        lines.append(f"{describe_private_count(outcome.report.private_count)} here")
    _print_lines(lines)


def code_of_outcome(outcome: SyncOutcome) -> int:
    """The exit code."""
    report = outcome.report
    if outcome.left or report.held or report.refused:
        return exit_codes.FAILED
    return exit_codes.TRY_LATER if report.unreachable or report.waiting else exit_codes.DONE


def describe_private_count(count: int) -> str:
    """So many private threads stay."""
    return "one private thread stays" if count == 1 else f"{count} private threads stay"


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print_line(sanitize_text(line))


def _to_dict(outcome: SyncOutcome) -> dict[str, Any]:
    """For programs."""
    plain: dict[str, Any] = msgspec.to_builtins(outcome.report)
    is_complete = outcome.report.is_complete and not outcome.left
    return {"is_complete": is_complete, **plain, "unasked": outcome.left}


def _describe_unsent(left: Sequence[str]) -> Iterator[str]:
    how = "nobody could be asked whether it may be sent"
    for one in left[:NAMED_COUNT_MAX]:
        yield f"{one}  not sent: {how}: `treadle sync {one}` sends it"
    if left:
        more = len(left) - NAMED_COUNT_MAX
        yield (f"{more} more like these; " if more > 0 else "") + "`treadle sync --yes` sends all"


def _describe_outcome(outcome: SyncOutcome) -> Iterator[str]:
    report = outcome.report
    counted = (
        (len(report.sent), "sent"),
        (len(report.replaced), "replaced after a scrub"),
        (len(report.received), "received"),
        (len(report.removed), "removed from the server"),
    )
    done = [f"{count} {what}" for count, what in counted if count]
    if done:
        yield ", ".join(done)
    for conflict in report.conflicts:
        yield _describe_conflict(conflict.thread_id, conflict.fork, conflict.note)
    yield from report.notes
    for one in report.held:
        yield f"{one.thread_id}  {_describe_held(one.thread_id, one.found, one.why)}"
    for one in report.refused:
        yield f"{one.thread_id}  refused: {one.why}"
    for one in report.waiting:
        yield f"{one.thread_id}  waits: {one.why}"
    if report.unreachable:
        again = f"; it is tried again at {local_time(report.next_try_at)}"
        yield f"not all is synced: {report.unreachable}" + (again if report.next_try_at else "")


def _describe_held(thread_id: str, found: tuple[str, ...], why: str) -> str:
    what = "; ".join(found) or why
    if is_scrub_lost(found):  # nobody here knows the text: `--found` would find nothing
        return f"held back: {what}"
    return f"held back: {what}; to take it out: treadle scrub {thread_id} --found"


def _describe_conflict(thread_id: str, fork: str, note: str) -> str:
    how = f"the other branch is thread {fork}" if fork else "both were merged"
    note = f" ({note})" if note else ""
    return f"{thread_id}  two machines had gone on with it: {how}{note}"


# ---- how things stand ----------------------------------------------------------------------------


def print_status(found: SyncStatus, *, as_json: bool) -> int:
    """Print how things stand; the exit code."""
    if as_json:
        print_json({**msgspec.to_builtins(found.status), "unasked": found.unasked})
    else:
        _print_lines([*_describe_status(found)])
    status = found.status
    if any(one.parked for one in status.pending):
        return exit_codes.FAILED
    is_waiting = status.pending or status.unsent or status.unfetched
    return exit_codes.TRY_LATER if is_waiting else exit_codes.DONE


def _describe_status(found: SyncStatus) -> Iterator[str]:
    status = found.status
    who = f" as {found.user} of {found.organization}" if found.user else ""
    yield f"{found.url}{who}"
    yield f"last synced: {local_time(status.synced_at)}" if status.synced_at else "not synced yet"
    if status.failed_at:
        yield f"not reached at {local_time(status.failed_at)}: {status.last_error}"
    if status.next_try_at:
        yield f"asked again from {local_time(status.next_try_at)} on"
    yield from _describe_pending(found)
    told = {one.thread_id for one in status.pending}
    counted = (
        (len(set(status.unsent) - told), "to be sent"),
        (len(set(status.unfetched) - told), "to be fetched"),
        (len(found.unasked), "from before the login: `treadle sync` asks before it sends them"),
        (status.private_count, "private: never sent"),
    )
    yield from (f"{count:>6}  {what}" for count, what in counted if count)
    for one in status.conflicts:
        line = _describe_conflict(one.thread_id, one.fork, one.note)
        kept = f"; what was here before: {one.kept}" if one.kept else ""
        yield f"{line}; {local_time(one.at)}; `treadle show {one.thread_id}`{kept}"
    if not (status.pending or status.unsent or status.unfetched):
        yield "nothing waits"


def _describe_pending(found: SyncStatus) -> Iterator[str]:
    doing = {"upsert": "waits to be sent", "delete": "waits to be removed from the server"}
    for one in found.status.pending:
        if one.parked == "held":
            words = _describe_held(one.thread_id, one.found, one.last_error)
        elif one.parked:
            words = f"refused: {one.last_error}; `treadle sync` tries it again"
        else:
            words = doing.get(one.operation, "waits to be replaced after a scrub")
            if one.last_error:
                often = "once" if one.retry_count == 1 else f"{one.retry_count} times, last"
                words += f"; failed {often} at {local_time(one.failed_at)}: {one.last_error}"
        yield f"{one.thread_id}  {words}"
