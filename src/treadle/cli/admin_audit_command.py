"""`treadle admin audit`: who changed what about who may see or do something."""

from __future__ import annotations

import click

from treadle.cli.admin_output import (
    database_option,
    json_option,
    print_answer,
    run_as_operator,
)
from treadle.cli.reader_output import format_reads
from treadle.errors import UsageError


@click.command("audit")
@click.option("-l", "--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--before", type=click.IntRange(1, 2**63 - 1), metavar="NUMBER", help="Older lines.")
@click.option("--reads", "wants_reads", is_flag=True, help="Who has read threads of others.")
@click.option("--thread", metavar="ID", help="With --reads: only this thread, by its whole id.")
@click.option("--user", metavar="NAME", help="With --reads: only what this user has read.")
@database_option
@json_option
def show_audit(
    limit: int,
    before: int | None,
    wants_reads: bool,
    thread: str | None,
    user: str | None,
    database: str | None,
    as_json: bool,
) -> None:
    """Show who changed what about who may see or do something, newest first.

    With --reads it shows who has read threads of others instead: a line for each reader, thread and
    hour, how and from which addresses.
    """
    from treadle.server.accounts import audit

    if wants_reads:
        _show_reads(limit, before, thread, user, database, as_json=as_json)
        return
    if thread is not None or user is not None:
        raise UsageError("--thread and --user are about reads", hint="add --reads")
    found = run_as_operator(
        database, lambda context: audit.list_lines(context, limit, before), is_write=False
    )
    rows = [
        (str(one.id), one.at[:19] + "Z", one.actor, one.action, one.thread or "-", one.detail)
        for one in found.lines
    ]
    print_answer(found, rows, as_json=as_json)


def _show_reads(
    limit: int,
    before: int | None,
    thread: str | None,
    user: str | None,
    database: str | None,
    *,
    as_json: bool,
) -> None:
    from treadle.server.threads.thread_reads import list_reads

    found = run_as_operator(
        database, lambda context: list_reads(context, limit, before, thread, user), is_write=False
    )
    print_answer(found, format_reads(found.reads), as_json=as_json)
