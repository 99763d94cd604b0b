"""`treadle admin audit`: who changed what about who may see or do something."""

from __future__ import annotations

import click

from treadle.cli.admin_output import (
    database_option,
    json_option,
    print_answer,
    run_as_operator,
)


@click.command("audit")
@click.option("-l", "--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--before", type=click.IntRange(1, 2**63 - 1), metavar="NUMBER", help="Older lines.")
@database_option
@json_option
def show_audit(limit: int, before: int | None, database: str | None, as_json: bool) -> None:
    """Show who changed what about who may see or do something, newest first."""
    from treadle.server.accounts import audit

    found = run_as_operator(
        database, lambda context: audit.list_lines(context, limit, before), is_write=False
    )
    rows = [
        (str(one.id), one.at[:19] + "Z", one.actor, one.action, one.thread or "-", one.detail)
        for one in found.lines
    ]
    print_answer(found, rows, as_json=as_json)
