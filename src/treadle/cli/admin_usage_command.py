"""`treadle admin usage`: what each user keeps on a team server."""

from __future__ import annotations

import click

from treadle.cli.admin_output import (
    database_option,
    format_count,
    format_quota,
    json_option,
    print_answer,
    run_as_operator,
)


@click.command("usage")
@database_option
@json_option
def show_usage(database: str | None, as_json: bool) -> None:
    """Show what each user keeps, and may keep; who keeps most comes first."""
    from treadle.app.sizes import human_size
    from treadle.server.accounts import quotas

    found = run_as_operator(database, quotas.read_usage, is_write=False)
    rows = [
        (
            one.user,
            one.organization,
            format_count(one.thread_count, "thread"),
            human_size(one.size),
            format_quota(one.threads_max, one.storage_max),
        )
        for one in found.users
    ]
    print_answer(found, rows, as_json=as_json)
