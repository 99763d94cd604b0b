"""`treadle admin retention`: how long a team server keeps threads."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.admin_output import (
    database_option,
    json_option,
    print_answer,
    run_as_operator,
)
from treadle.cli.retention_output import describe_report, format_plan, name_days, summarize_plan

_WORDS = {"never": 0, "server": None}
_DAYS_MAX = 36_500


def _parse_days(_: click.Context, __: click.Parameter, text: str | None) -> str | int | None:
    """A number of days, as `365` or `365d`; or a word."""
    if text is None or text in _WORDS:
        return text
    number = text.removesuffix("d")
    is_short = number.isascii() and number.isdecimal() and len(number) <= 6
    if not (is_short and 0 < int(number) <= _DAYS_MAX):
        raise click.BadParameter(f"{text!r} is no number of days; or say never or server")
    return int(number)


@click.group("retention")
def retention() -> None:
    """How long threads are kept: put away when nothing comes to them, then removed for good."""


@retention.command("show")
@database_option
@json_option
def show_rules(database: str | None, as_json: bool) -> None:
    """Show the rules, that of the whole server first."""
    from treadle.server.threads.retention import list_rules

    found = run_as_operator(database, list_rules, is_write=False)
    rows = [
        (
            one.organization or "the whole server",
            f"put away after {name_days(one.idle_days, one.organization)}",
            f"removed after {name_days(one.trash_days, one.organization)}",
        )
        for one in found.rules
    ]
    print_answer(found, rows, as_json=as_json)
    if not rows and not as_json:
        click.echo("all is kept for ever")


@retention.command("set")
@click.option("--organization", metavar="NAME", help="Whose threads; by default all.")
@click.option(
    "--put-away-after",
    "idle",
    metavar="DAYS",
    callback=_parse_days,
    help="Days in which nothing came to a thread; never; server: as for the whole server.",
)
@click.option(
    "--remove-after",
    "trash",
    metavar="DAYS",
    callback=_parse_days,
    help="Days after it was put away, by whomever; never; server.",
)
@database_option
def set_rule(organization: str | None, database: str | None, **given: Any) -> None:
    """Say how long threads are kept, and show what that means now.

    \b
    treadle admin retention set --put-away-after 365d --remove-after 30d
    treadle admin retention set --organization acme --put-away-after never
    """  # noqa: D301  click reads the backspace
    from treadle.api.retention_types import RetentionChange
    from treadle.server.threads import retention as rules

    names = {"idle": "idle_days", "trash": "trash_days"}
    told = {
        names[name]: _WORDS.get(value, value) for name, value in given.items() if value is not None
    }
    if not told:
        raise click.UsageError("say --put-away-after or --remove-after")
    change = RetentionChange(organization, **told)
    run_as_operator(
        database,
        lambda context: rules.change_rule(context, change),
        about=(f"organization {organization!r}", "treadle admin organizations list"),
    )
    plan = run_as_operator(database, rules.make_plan, is_write=False)
    click.echo(f"a run would now {summarize_plan(plan)}", err=True)
    click.echo("`treadle admin retention run --dry-run` names them", err=True)


@retention.command("run")
@click.option("--dry-run", is_flag=True, help="Only name what would be done, and what is kept.")
@database_option
@json_option
def run_rules(dry_run: bool, database: str | None, as_json: bool) -> None:
    """Put away and remove now what the rules say; the server does it each hour."""
    from treadle.app.server_operator import keep_retention
    from treadle.server.threads.retention import make_plan

    if not dry_run:
        done = keep_retention(database)
        print_answer(done, [(describe_report(done),)], as_json=as_json)
        return
    plan = run_as_operator(database, make_plan, is_write=False)
    print_answer(plan, format_plan(plan), as_json=as_json)
    if not as_json:
        click.echo(f"would {summarize_plan(plan)}", err=True)
