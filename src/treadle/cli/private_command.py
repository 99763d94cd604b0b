"""`treadle private`: a thread never leaves this machine, or may do so again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

if TYPE_CHECKING:
    from treadle.store.local import LocalStore
    from treadle.sync.credentials import Account
    from treadle.thread.fold import ThreadFold
    from treadle.thread.model import ThreadSummary

_COULD_SEE: Final = {
    "organization": "everybody in your organization could read it",
    "private": "you alone could read it",
    "public": "everybody could read it",
}


@click.command("private")
@click.argument("thread", metavar="ID")
@click.option("--off", is_flag=True, help="It may leave this machine again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(ctx: click.Context, thread: str, off: bool, yes: bool) -> None:
    """Keep a thread on this machine from now on, with its sub-agents' threads and its forks.

    \b
    treadle private 0190         it stays on this machine, and leaves the server
    treadle private 0190 --off   it may be sent again; says what goes with it

    What of it was sent before is removed from the server: now, or as soon as that can be reached
    (exit code 75 until then). Copies that people or other machines have made stay theirs.

    With --off it is sent with the next sync; what that will be is told, and asked about.

    Commits of a private thread do not name it. The model's provider sees prompts, as ever.
    """  # noqa: D301  click reads the backspace
    from treadle.app.threads.thread_lookup import resolve_anywhere
    from treadle.runtime.defaults import own_store

    store = own_store("treadle private")
    thread_id = resolve_anywhere(store, thread)
    fold = store.load(thread_id).fold
    _refuse_child(store, fold)
    ctx.exit(_let_go(store, fold, yes=yes) if off else _keep(store, fold))


def _refuse_child(store: LocalStore, fold: ThreadFold) -> None:
    """A sub-agent's thread is as private as the one it works for.

    Raises:
        UsageError: it is one, and the other is here.
    """
    from treadle.errors import UnknownThreadError, UsageError

    parent = fold.header.parent
    if parent is None:
        return
    try:
        store.folders.find(parent)
    except UnknownThreadError:
        return
    raise UsageError(
        f"thread {fold.header.thread} is a sub-agent's: it is as private as the one it works for",
        hint=f"treadle private {parent}",
    )


def _keep(store: LocalStore, fold: ThreadFold) -> int:
    """Make it private; have the server remove what it has. The exit code."""
    from treadle import exit_codes
    from treadle.errors import TreadleError
    from treadle.store.send_lock import set_private
    from treadle.sync.credentials import find_account

    thread_id = fold.header.thread
    is_news = set_private(store, thread_id)
    family = below(store, thread_id)
    told = "never leaves this machine from now on" if is_news else "is private"
    click.echo(f"{thread_id}: {told}")
    if family:
        what = "thread hangs on it and stays" if len(family) == 1 else "threads hang on it and stay"
        click.echo(f"  {len(family)} {what} here too: {' '.join(sorted(family))}", err=True)
    try:
        account = find_account(store.places, os.environ)
        copies = find_copies(store, account, [thread_id, *family])
    except TreadleError as error:
        # It is private already; what was sent is found again by the next sync.
        click.echo(f"treadle: what was sent before is not removed: {error.message}", err=True)
        return exit_codes.TRY_LATER
    for where, count in copies.elsewhere.items():
        what = "a copy" if count == 1 else f"{count} copies"
        click.echo(
            f"treadle: {where} has {what} too, and this machine is not logged in there: what is "
            "private is removed there by the first sync after a login",
            err=True,
        )
    if copies.problem:
        click.echo(f"treadle: whether {copies.problem}", err=True)
    code = exit_codes.FAILED if copies.elsewhere else exit_codes.DONE
    if copies.problem:
        code = exit_codes.TRY_LATER
    if account is None or not copies.here:
        return code
    could = _COULD_SEE[fold.visibility]
    click.echo(f"copies had been sent to {account.url}: {could}, and may have copied it", err=True)
    return _remove(store, account, copies.here) or code


def _remove(store: LocalStore, account: Account, sent: Sequence[str]) -> int:
    """Have the server remove it now; what cannot be done now waits. The exit code."""
    from treadle import exit_codes
    from treadle.app.sync.sync_engine import open_engine
    from treadle.sync.send_queue import Pending
    from treadle.thread.safe_text import legible

    # Noted before the first attempt, so that it is known to wait whatever becomes of that.
    Pending(store.folders.disk, store.places).begin(dict.fromkeys(sent, "delete"))
    with open_engine(store, account) as (engine, cursors, _):
        report = engine.sync(sent)
        known = {one: cursors.get(one) for one in sent}
    left = [one for one, cursor in known.items() if cursor is not None and not cursor.is_purged]
    if count := len(sent) - len(left):
        click.echo(f"removed from the server: {count} thread{'' if count == 1 else 's'}", err=True)
    if not left:
        return exit_codes.DONE
    problems = (*report.waiting, *report.refused, *report.held)
    why = report.unreachable or next((one.why for one in problems), "")
    click.echo(
        legible(f"treadle: not yet removed there: {why or 'it waits'}; the next sync does it"),
        err=True,
    )
    return exit_codes.FAILED if report.refused and not report.unreachable else exit_codes.TRY_LATER


def _let_go(store: LocalStore, fold: ThreadFold, *, yes: bool) -> int:
    """Let it leave again, if that is meant. The exit code."""
    from treadle import exit_codes
    from treadle.cli.ask import is_somebody_there
    from treadle.errors import UsageError
    from treadle.store.send_lock import set_private

    thread_id = fold.header.thread
    _refuse_under_private_base(store, fold)
    if not fold.is_private:
        click.echo(f"{thread_id}: is not private", err=True)
        return exit_codes.DONE
    goes = _goes_with(below(store, thread_id), thread_id)
    _tell_what_goes(store, fold, goes)
    if not yes:
        if not is_somebody_there():
            raise UsageError("nobody can be asked whether this is meant", hint="add --yes")
        if not click.confirm("May it leave this machine?", err=True):
            click.echo("it stays private", err=True)
            return exit_codes.FAILED
    # Sub-agents' threads first: they hang on this one, so that nothing goes before all may.
    for one, line in goes.items():
        if line.is_private:
            set_private(store, one, is_private=False)
    _allow(store, [thread_id, *goes])
    set_private(store, thread_id, is_private=False)
    click.echo(f"{thread_id}: may leave this machine")
    return exit_codes.DONE


def _goes_with(below: Mapping[str, ThreadSummary], thread_id: str) -> dict[str, ThreadSummary]:
    """What of all that hangs on a thread may leave with it; each before what it hangs on.

    Sub-agents' threads do. A fork does, unless it was made private by itself.
    """
    found: dict[str, ThreadSummary] = {}
    todo = [thread_id]
    while todo:
        above = todo.pop()
        for one, line in below.items():
            is_its = line.parent == above or (line.forked_from == above and not line.is_private)
            if is_its and one not in found:
                found[one] = line
                todo.append(one)
    return dict(reversed(found.items()))


def _allow(store: LocalStore, thread_ids: Sequence[str]) -> None:
    """Note that these may be sent, though the server says that they were removed there.

    They were, because they were private; nobody else has to be asked about that.
    """
    from msgspec.structs import replace

    from treadle.sync.credentials import find_account
    from treadle.sync.cursors import Cursors

    account = find_account(store.places, os.environ)
    if account is None:
        return
    cursors = Cursors(store.folders.disk, store.places, account.url, account.user)
    for one in thread_ids:
        if cursors.get(one) is None:
            cursors.put(one, replace(cursors.new(), is_purged=True, is_anew=True))


def _tell_what_goes(store: LocalStore, fold: ThreadFold, goes: Mapping[str, ThreadSummary]) -> None:
    from treadle.sync.credentials import find_account
    from treadle.sync.cursors import Cursors
    from treadle.thread.safe_text import legible

    account = find_account(store.places, os.environ)
    where = "a server, once this machine is logged in to one" if account is None else account.url
    who = _COULD_SEE[fold.visibility].replace("could", "can then")
    when = "the next sync"
    if account is not None:
        cursors = Cursors(store.folders.disk, store.places, account.url, account.user)
        cursor = cursors.get(fold.header.thread)
        # What was removed there on its owner's word goes back on that word alone.
        if cursor is not None and cursor.is_purged and not cursor.is_anew:
            when = f"`treadle sync {fold.header.thread}`"
    count = fold.summary().message_count
    click.echo(
        f"with {when} all of it goes to {where}: {count} messages, all commands and their "
        f"outputs, names of files and folders; {who}",
        err=True,
    )
    if goes:
        click.echo("and so do these, which hang on it, each as its own visibility says:", err=True)
    for one, line in reversed(list(goes.items())):
        what = "sub-agent" if line.parent is not None else "fork"
        title = f"  {line.title}" if line.title else ""
        click.echo(legible(f"  {one}  {what}, {line.visibility}{title}"), err=True)


def _refuse_under_private_base(store: LocalStore, fold: ThreadFold) -> None:
    """A fork has its history from its base.

    Raises:
        UsageError: that is private.
    """
    from treadle.errors import TreadleError, UsageError

    base = fold.header.base
    while base is not None:
        try:
            below = store.load(base.thread).fold
        except TreadleError:
            return
        if below.is_private:
            raise UsageError(
                f"thread {fold.header.thread} goes on from {base.thread}, which is private",
                hint=f"treadle private {base.thread} --off",
            )
        base = below.header.base


def below(store: LocalStore, thread_id: str) -> Mapping[str, ThreadSummary]:
    """All that hangs on a thread: its sub-agents' threads and its forks, and theirs."""
    from treadle.store.index.filters import Filters
    from treadle.store.index.lookup import Index

    index = Index(store)
    try:
        lines = [*index.threads(), *index.threads(Filters(is_trashed=True))]
    finally:
        index.close()
    found: dict[str, ThreadSummary] = {}
    todo = [thread_id]
    while todo:
        above = todo.pop()
        for line in lines:
            if above in (line.parent, line.forked_from) and line.id not in found:
                found[line.id] = line
                todo.append(line.id)
    found.pop(thread_id, None)
    return found


class Copies(Struct, frozen=True):
    """Who may have copies: the threads of which this server has one, how many others have.

    `problem` says why it is not known of all threads what this server has, if it is not.
    """

    here: tuple[str, ...]
    elsewhere: Mapping[str, int]
    problem: str = ""


def find_copies(store: LocalStore, account: Account | None, thread_ids: Sequence[str]) -> Copies:
    """Who may have copies of threads: as far as this machine has noted, and the server says.

    No thread is named to the server. What has been private from its beginning is nowhere.

    Raises:
        DiskError: the disk refused.
    """
    from treadle.errors import DiskError, TreadleError
    from treadle.sync.cursors import Cursors

    url, user = ("", "") if account is None else (account.url, account.user)
    cursors = Cursors(store.folders.disk, store.places, url, user)
    elsewhere: Counter[str] = Counter()
    for one in thread_ids:
        others = cursors.elsewhere(one)
        elsewhere.update(f"{it.url} as {it.user}" if it.user else it.url for it in others)
    if account is None:
        return Copies((), elsewhere)
    known = {one: cursors.get(one) for one in thread_ids}
    sent = [one for one, cursor in known.items() if cursor is not None and not cursor.is_purged]
    asked = [one for one in thread_ids if one not in sent and _may_have_left(store, one)]
    problem = ""
    try:
        there = _there(account) if asked else frozenset[str]()
    except DiskError:
        raise
    except TreadleError as error:
        there = frozenset()
        # With cursors it is known what was sent; without any they may have been lost.
        if not cursors.ids():
            problem = f"{account.url} has a copy is not known: {error.message}; say this again"
    for one in asked:
        if one in there:
            cursors.put(one, cursors.new())
            sent.append(one)
    return Copies(tuple(sent), elsewhere, problem)


def _may_have_left(store: LocalStore, thread_id: str) -> bool:
    """Whether a thread was not private at some time."""
    path, _ = store.folders.find(thread_id)
    data = store.folders.disk.read(path)
    return b'"is_private":true' not in data.partition(b"\n")[0] or b'"privacy_set"' in data


def _there(account: Account) -> frozenset[str]:
    """All threads of which the server has records of this user."""
    from treadle.sync.client import HttpRemote

    found: dict[str, bool] = {}
    after = 0
    with HttpRemote(account) as remote:
        while True:
            page = remote.heads(after)
            found.update((one.thread, one.is_purged) for one in page.heads)
            if page.is_last or page.change <= after:
                return frozenset(one for one, is_purged in found.items() if not is_purged)
            after = page.change
