"""What the commands of `treadle admin` share: options, a run as operator, answers in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import click

if TYPE_CHECKING:
    from treadle.server.context import Context

Result = TypeVar("Result")

database_option: Final = click.option(
    "--database",
    metavar="URL",
    envvar="TREADLE_DATABASE_URL",
    help="The server's database; by default the one `treadle serve` uses.",
)
json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="JSON, as the API has it."
)


def run_as_operator(
    url: str | None,
    work: Callable[[Context], Result],
    *,
    is_write: bool = True,
    about: tuple[str, str] = ("", ""),
) -> Result:
    """As `treadle.app.server_operator` has it, which is imported when it is needed."""
    from treadle.app.server_operator import run_as_operator as run

    return run(url, work, is_write=is_write, about=about)


def describe_user(name: str) -> tuple[str, str]:
    """What is missing if there is no such user, and the command that lists users."""
    return f"user {name!r}", "treadle admin users list"


def format_day(at: str | None, otherwise: str) -> str:
    """The day of a time; what stands for no time."""
    return otherwise if at is None else at[:10]


def format_count(count: int, what: str) -> str:
    """A number of things: `1 user`, `2 users`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def print_answer(answer: object, rows: Iterable[Sequence[str]], *, as_json: bool) -> None:
    """The answer as JSON, or its rows in columns."""
    from treadle.thread.safe_text import sanitize_text

    if as_json:
        from treadle.cli.json_output import print_json

        print_json(answer)
        return
    table = [[sanitize_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
