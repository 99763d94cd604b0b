"""What the commands of `treadle admin` share: options, a run as operator, answers in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from treadle.server.context import Context

Result = TypeVar("Result")

ANY: Final = "any"
"""No bound, as a person writes it."""
_DIGITS_MAX: Final = 9

database_option: Final = click.option(
    "--database",
    metavar="URL",
    envvar="TREADLE_DATABASE_URL",
    help="The server's database; by default the one `treadle serve` uses.",
)
json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="JSON, as the API has it."
)


def _parse_quota(
    _: click.Context, parameter: click.Parameter, text: str | None
) -> int | str | None:
    """A number of threads, or of bytes; `any` for no bound."""
    if text is None or text == ANY:
        return text
    from treadle.app.sizes import parse_size

    if parameter.name == "threads_max":
        if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
            raise click.BadParameter(f"{text!r} is no number of threads; or say {ANY}")
        return int(text)
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or say {ANY}") from error


def quota_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--threads-max` and `--storage-max`; `any` takes a bound away."""
    about = "of them together" if "organization" in command.__name__ else "of his"
    for name, metavar, words in (
        ("--storage-max", "SIZE", f"Bytes {about} that are kept, as 5GiB; or {ANY}."),
        ("--threads-max", "COUNT", f"Threads {about} that are kept; or {ANY}."),
    ):
        command = click.option(name, metavar=metavar, callback=_parse_quota, help=words)(command)
    return command


def read_changes(chosen: dict[str, Any]) -> dict[str, Any]:
    """What was given; `any` as the API says it."""
    given = {key: value for key, value in chosen.items() if value is not None}
    return {key: None if value == ANY else value for key, value in given.items()}


def format_quota(threads_max: int | None, storage_max: int | None) -> str:
    """The bounds in words; empty without any."""
    from treadle.app.sizes import human_size

    threads = "" if threads_max is None else f"{threads_max} threads"
    size = "" if storage_max is None else human_size(storage_max)
    told = " and ".join(filter(None, (threads, size)))
    return told and f"at most {told}"


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
