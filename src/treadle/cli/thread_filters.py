"""The options that say which threads: the same for `list` and `search`."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from treadle.app.threads import times

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def convert_to_bad_parameter(kind: type[ValueError]) -> Generator[None, None, None]:
    """Of an error of this kind: raise `click.BadParameter` instead, with the same text."""
    try:
        yield
    except kind as error:
        raise click.BadParameter(str(error)) from error


def parse_moment(text: str, now: str | None = None, *, wants_end: bool = False) -> str:
    """As `times.parse_moment`; raises `click.BadParameter` if it is no time."""
    with convert_to_bad_parameter(times.TimeTextError):
        return times.parse_moment(text, now, wants_end=wants_end)


def parse_moment_end(text: str, now: str) -> str:
    """As `times.parse_moment_end`; raises `click.BadParameter` if it is no time."""
    with convert_to_bad_parameter(times.TimeTextError):
        return times.parse_moment_end(text, now)


def _parse_time(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else parse_moment(value, wants_end=param.name == "until")


def _check_commit(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-fA-F]{4,64}", value):
        raise click.BadParameter(f"{value!r} is no beginning of a commit: 4 hex digits or more")
    return value


def _resolve_folder(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """As threads record it: without links."""
    return None if value is None else str(Path(value).expanduser().resolve())


_OPTIONS: Final = (
    click.option(
        "--workspace",
        metavar="[FOLDER]",
        is_flag=False,
        flag_value=".",
        callback=_resolve_folder,
        help="Threads that work in FOLDER or below it; without FOLDER, here.",
    ),
    click.option("--branch", metavar="NAME", help="Last on this branch; * stands for anything."),
    click.option(
        "--commit",
        metavar="SHA",
        callback=_check_commit,
        help="Saw or made the commit that begins so.",
    ),
    click.option("--remote", metavar="TEXT", help="The remote (host/path) has TEXT in it."),
    click.option(
        "--tag", "tags", metavar="TAG", multiple=True, help="Has the tag; repeat for several."
    ),
    click.option(
        "--state",
        metavar="STATE",
        help="unfinished (also what waits), waiting (for approval), damaged, or a state: done, ...",
    ),
    click.option("--model", metavar="TEXT", help="The model's name has TEXT in it."),
    click.option("--provider", metavar="NAME", help="Works with this provider."),
    click.option(
        "--since",
        metavar="TIME",
        callback=_parse_time,
        help="Changed since: 2026-11-21, 2026-11-21T15:30, today, yesterday, 12h, 7d, 2w.",
    ),
    click.option(
        "--until",
        metavar="TIME",
        callback=_parse_time,
        help="Last changed before; a day is included.",
    ),
    click.option(
        "--imported", "is_imported", is_flag=True, help="Recorded by other programs and imported."
    ),
    click.option("--trashed", "is_trashed", is_flag=True, help="The trash instead."),
)


def filter_options(command: F) -> F:
    """All of them; the command gets them as `list_threads` takes them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def limit_options(default: int) -> Callable[[F], F]:
    """`--limit` and `--all`."""

    def add(command: F) -> F:
        command = click.option("--all", "wants_all", is_flag=True, help="Leave nothing out.")(
            command
        )
        return click.option(
            "--limit",
            metavar="COUNT",
            type=click.IntRange(min=1),
            help=f"Show so many at most.  [default: {default}; with --json: all]",
        )(command)

    return add


def choose_limit(limit: int | None, default: int, *, wants_all: bool, as_json: bool) -> int | None:
    """How many to show; `None` for all. Programs get all unless they say otherwise."""
    if wants_all:
        return None
    return limit if limit is not None or as_json else default
