"""`treadle admin usage`: what each user keeps on a team server, and has used of models."""

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
@click.option("--models", is_flag=True, help="What each has used of each model, day by day.")
@click.option(
    "--since", metavar="TIME", help="With --models: from this day on; or all.  [default: 30d]"
)
@click.option("--csv", "as_csv", is_flag=True, help="With --models: as a table for programs.")
@database_option
@json_option
def show_usage(
    models: bool, since: str | None, as_csv: bool, database: str | None, as_json: bool
) -> None:
    """Show what each user keeps, and may keep; who keeps most comes first.

    \b
    treadle admin usage
    treadle admin usage --models --since 7d
    treadle admin usage --models --since all --csv > usage.csv

    Days are those of UTC. What a sub-agent used counts once. A price that nobody knew is said to be
    unknown, and not counted as nothing.
    """  # noqa: D301  click reads the backspace
    if models:
        from treadle.cli.admin_model_usage import print_model_usage

        print_model_usage(database, since, as_csv=as_csv, as_json=as_json)
        return
    if since is not None or as_csv:
        from treadle.errors import UsageError

        raise UsageError("--since and --csv are about models", hint="add --models")
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
