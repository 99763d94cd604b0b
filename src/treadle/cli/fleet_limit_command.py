"""`treadle fleet limits`: how many tasks are at work at a time, over all queues and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from treadle.fleet.port import Limit

_KINDS: Final = click.Choice(("user", "model", "repository", "organization"))


@click.group("limits", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="As one JSON object.")
@click.pass_context
def limits(context: click.Context, *, is_json: bool) -> None:
    """Show how many tasks of each kind may be at work at a time, and how many are.

    \b
    treadle fleet limit user "*" 4             each user who has no limit of their own
    treadle fleet limit user ann 10
    treadle fleet limits
    treadle fleet limits remove user ann
    """  # noqa: D301  click reads the backspace
    if context.invoked_subcommand is not None:
        return
    from treadle.agent.fleet_file import use_fleet
    from treadle.cli.json_output import print_json

    found = use_fleet(context.obj, lambda fleet: fleet.limits.list())
    if is_json:
        print_json({"limits": found})
    else:
        for one in found:
            click.echo(_describe(one))


def _describe(one: Limit) -> str:
    from treadle.fleet.overview import describe_limit
    from treadle.thread.safe_text import sanitize_text

    return sanitize_text(describe_limit(one))


@click.command("limit")
@click.argument("kind", type=_KINDS)
@click.argument("name")
@click.argument("number", type=click.IntRange(1))
@click.pass_obj
def limit(place: str, kind: str, name: str, number: int) -> None:
    """Let no more tasks be at work at a time; those that are go on.

    `*` is each name that has no limit of its own.

    \b
    treadle fleet limit user "*" 4
    treadle fleet limit model anthropic: 20
    treadle fleet limit repository git@example.com:shop.git 2
    """  # noqa: D301  click reads the backspace
    from treadle.agent.fleet_file import use_fleet

    click.echo(_describe(use_fleet(place, lambda fleet: fleet.limits.set(kind, name, number))))


@limits.command("remove")
@click.argument("kind", type=_KINDS)
@click.argument("name")
@click.pass_obj
def remove(place: str, kind: str, name: str) -> None:
    """Remove a limit, by the name that `treadle fleet limits` shows."""
    from treadle.agent.fleet_file import use_fleet

    use_fleet(place, lambda fleet: fleet.limits.remove(kind, name))
    click.echo("removed", err=True)
