"""`treadle search`: finds threads by what was said and done in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import click

from treadle import app
from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line
from treadle.cli.thread_filters import (
    choose_limit,
    convert_to_bad_parameter,
    filter_options,
    limit_options,
)
from treadle.cli.thread_rows import format_hit, highlight_snippet, report_unreadable

LIMIT: Final = 20

# Words may begin with a minus, `-h` among them.
_CONTEXT_SETTINGS: Final = {
    "ignore_unknown_options": True,
    "help_option_names": ["--help"],
    "max_content_width": 100,
}


@click.command("search", context_settings=_CONTEXT_SETTINGS)
@click.argument("query", nargs=-1, required=True)
@filter_options
@limit_options(LIMIT)
@click.option("--team", "wants_team", is_flag=True, help="Ask the server; also of others' threads.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, best first.")
def command(
    query: tuple[str, ...],
    as_json: bool,
    limit: int | None,
    wants_all: bool,
    wants_team: bool,
    **chosen: Any,
) -> None:
    """Find threads: in titles, tags, notes, messages, tool calls and output, paths, branches.

    \b
    treadle search "weak reference"
    treadle search deadlock --branch main --since 30d
    treadle search --team "weak reference"       in what others share, too

    All words must stand in one text, in any order and whatever their case and accents.
    '"in quotes"' is a phrase, weav* a beginning, -word must not stand there. Four or more hex
    digits find commits that begin so, the beginning of an id finds the thread. What a fork shares
    with the thread it was made from is found there. Exits with 1 if nothing is found,
    with 75 if a thread could not be read.
    With --team the query is sent to the server; of the other options it knows --workspace.
    """  # noqa: D301  click reads the backspace
    from treadle.errors import UsageError
    from treadle.exit_codes import FAILED

    for word in query:
        if word.startswith("--"):
            raise UsageError(
                f"there is no option {word}", hint=f"to look for it, quote it twice: '\"{word}\"'"
            )
    most = choose_limit(limit, LIMIT, wants_all=wants_all, as_json=as_json)
    # One more than is shown tells whether there are more.
    asked = None if most is None else most + 1
    hits, unreadable = _search(" ".join(query), chosen, asked, wants_team=wants_team)
    shown = hits[:most]
    if as_json:
        print_json([one.plain for one in shown])
    else:
        for one in shown:
            _show_hit(one)
    code = report_unreadable(unreadable)
    if not shown:
        click.echo("nothing was found", err=True)
        raise SystemExit(code or FAILED)
    if len(hits) > len(shown):
        click.echo("there are more; --all shows them", err=True)
    if not as_json:
        first = shown[0].hit.thread.id
        team = " --team" if wants_team else ""
        show = click.echo if wants_team else print_line
        show(f"to look at it: treadle show {first}{team} --version N", err=True)
    raise SystemExit(code)


class _FoundHit(NamedTuple):
    """A hit; whose thread it is, if it is from the server; and the object that programs get."""

    hit: app.Hit
    owner: str
    plain: object


def _search(
    query: str, chosen: dict[str, Any], most: int | None, *, wants_team: bool
) -> tuple[list[_FoundHit], Sequence[app.ThreadSummary]]:
    """What was found, and the threads that could not be searched."""
    store, filters = app.open_store(), app.ThreadFilters(**chosen)
    if wants_team:
        team = app.search_team_threads(store, query, filters, limit=most)
        return [_FoundHit(one.hit, one.line.owner, one.to_dict()) for one in team], []
    notify = partial(click.echo, err=True)
    with convert_to_bad_parameter(app.UnknownStateError):
        result = app.search_threads(store, query, filters, limit=most, notify=notify)
    return [_FoundHit(hit, "", hit) for hit in result.hits], result.unreadable


def _show_hit(found: _FoundHit) -> None:
    hit = found.hit
    click.echo(format_hit(hit.thread, hit.count, found.owner))
    click.echo(f"    {f'version {hit.version}':<13} {hit.kind:<7} {highlight_snippet(hit)}")
