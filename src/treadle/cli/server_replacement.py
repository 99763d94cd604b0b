"""Around a scrub: what the server has more comes first, and its copy is replaced afterwards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from treadle.errors import TreadleError
from treadle.store.local import LocalStore
from treadle.sync.credentials import find_account, is_logged_in
from treadle.thread.safe_text import legible

if TYPE_CHECKING:
    from treadle.sync.client import HttpRemote
    from treadle.sync.cursors import Cursors

_NOT_YET = "a text that is being scrubbed"
_LATER = "the server's copy may hold it still; `treadle sync` replaces it"


def fetch_first(store: LocalStore, thread_ids: Sequence[str]) -> bool:
    """Take in what other machines have sent of these threads, so that a scrub sees that too.

    Nothing is sent meanwhile: it is not scrubbed yet. What failed is told.

    Returns:
        Whether this machine has a server that has, or may have, a copy of one of them.
    """
    if not is_logged_in(store.places, os.environ):
        return False
    try:
        return _fetch(store, thread_ids)
    except TreadleError as error:
        why = legible(error.message)
        click.echo(f"treadle: what other machines have sent was not looked at: {why}", err=True)
        return True


def _fetch(store: LocalStore, thread_ids: Sequence[str]) -> bool:
    from treadle.app.sync.sync_engine import open_engine

    account = find_account(store.places, os.environ)
    if account is None:
        return False
    with open_engine(store, account, looks=lambda _: [_NOT_YET]) as (engine, cursors, *_):
        known = {thread_id: cursors.get(thread_id) for thread_id in thread_ids}
        sent = [one for one, cursor in known.items() if cursor and not cursor.is_purged]
        if not sent:
            return False
        report = engine.sync(sent)
    for problem in (*report.refused, *report.waiting):
        click.echo(f"treadle: thread {problem.thread_id}: {legible(problem.why)}", err=True)
    if report.unreachable:
        click.echo(f"treadle: {legible(report.unreachable)}", err=True)
    return True


def replace_on_server(store: LocalStore, thread_ids: Sequence[str]) -> bool:
    """Have the server's copies replaced by what the threads are now.

    Threads that were never sent are left to `treadle sync`. What failed is told, with what to do.

    Returns:
        Whether no server is known to hold what was taken out.
    """
    if not is_logged_in(store.places, os.environ):
        return True
    try:
        return _replace(store, thread_ids)
    except TreadleError as error:
        click.echo(f"treadle: {legible(error.message)}: {_LATER}", err=True)
        return False


def _replace(store: LocalStore, thread_ids: Sequence[str]) -> bool:
    from treadle.app.sync.sync_engine import open_engine

    account = find_account(store.places, os.environ)
    if account is None:
        return True
    with open_engine(store, account) as (engine, cursors, remote):
        known = {thread_id: cursors.get(thread_id) for thread_id in thread_ids}
        sent = [one for one, cursor in known.items() if cursor and not cursor.is_purged]
        removed = [one for one, cursor in known.items() if cursor and cursor.is_purged]
        is_gone = all(_remove_forks(store, cursors, remote, one) for one in removed)
        if not sent:
            return is_gone
        report = engine.sync(sent)
    done = {*report.replaced, *report.removed}
    for thread_id in sent:
        if thread_id in done:
            click.echo(f"{thread_id}  the server's copy is replaced")
    for problem in (*report.held, *report.refused, *report.waiting):
        click.echo(f"treadle: thread {problem.thread_id}: {legible(problem.why)}", err=True)
    if report.unreachable:
        click.echo(f"treadle: {legible(report.unreachable)}", err=True)
    if left := [thread_id for thread_id in sent if thread_id not in done]:
        click.echo(f"treadle: of {', '.join(left)}: {_LATER}", err=True)
    return is_gone and not left


def _remove_forks(store: LocalStore, cursors: Cursors, remote: HttpRemote, thread_id: str) -> bool:
    """Have the server remove what goes on from a scrubbed thread that it has not got any more.

    Such a fork stands by itself there, with the history that it shared: no scrub of the thread it
    went on from reaches that, and it cannot be replaced without that thread.

    Returns:
        Whether all are removed.
    """
    from msgspec.structs import replace

    from treadle.cli.private_command import below

    left = []
    for one in below(store, thread_id):
        cursor = cursors.get(one)
        if cursor is None or cursor.is_purged:
            continue
        try:
            remote.purge(one)
        except TreadleError as error:
            left.append(one)
            click.echo(f"treadle: thread {one}: {legible(error.message)}", err=True)
            continue
        cursors.put(one, replace(cursors.new(), is_purged=True))
        click.echo(
            f"{one}  the server's copy is removed: it had its history from {thread_id}, which is "
            f"not there any more; `treadle sync {thread_id} {one}` sends both again"
        )
    for one in left:
        click.echo(
            f"treadle: of {one}: the server's copy may hold it still; `treadle private {one}` "
            "removes it there",
            err=True,
        )
    return not left
