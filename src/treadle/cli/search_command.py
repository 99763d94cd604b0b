"""`treadle search`: finds threads by what was said and done in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from treadle.app.threads.local_times import local_time
from treadle.cli.json_output import print_json
from treadle.cli.thread_filters import (
    check_state,
    filter_options,
    filters_of,
    limit_of,
    limit_options,
    title_of,
)

if TYPE_CHECKING:
    from treadle.store.index.search import Hit
    from treadle.thread.model import ThreadSummary

    _Shown: TypeAlias = tuple[Hit, str, object]
    """A hit, whose it is if that is not this user alone, and the same for programs."""

LIMIT: Final = 20

# Words may begin with a minus, `-h` among them.
_SETTINGS: Final = {
    "ignore_unknown_options": True,
    "help_option_names": ["--help"],
    "max_content_width": 100,
}


@click.command("search", context_settings=_SETTINGS)
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
    from treadle.cli.list_command import tell_unreadable
    from treadle.errors import UsageError
    from treadle.exit_codes import FAILED

    for word in query:
        if word.startswith("--"):
            raise UsageError(
                f"there is no option {word}", hint=f"to look for it, quote it twice: '\"{word}\"'"
            )
    most = limit_of(limit, LIMIT, wants_all=wants_all, as_json=as_json)
    # One more than is shown tells whether there are more.
    asked = None if most is None else most + 1
    unreadable: list[ThreadSummary] = []
    if wants_team:
        hits = _search_team(" ".join(query), chosen, asked)
    else:
        hits, unreadable = _search(" ".join(query), chosen, asked)
    shown = hits[:most]
    if as_json:
        plain = [plain for _, _, plain in shown]
        print_json(plain)
    else:
        for hit, owner, _ in shown:
            _show(hit, owner)
    code = tell_unreadable(unreadable)
    if not shown:
        click.echo("nothing was found", err=True)
        raise SystemExit(code or FAILED)
    if len(hits) > len(shown):
        click.echo("there are more; --all shows them", err=True)
    if not as_json:
        first = shown[0][0].thread.id
        team = " --team" if wants_team else ""
        click.echo(f"to look at it: treadle show {first}{team} --version N", err=True)
    if code:
        raise SystemExit(code)


def _search(
    query: str, chosen: dict[str, Any], most: int | None
) -> tuple[list[_Shown], list[ThreadSummary]]:
    """What was found, and the threads that could not be looked through."""
    from treadle.store.index.filters import DAMAGED, Filters
    from treadle.store.index.lookup import Index
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    index = Index(LocalStore(Places.find()), partial(click.echo, err=True))
    try:
        filters = filters_of(chosen)
        check_state(index, filters)
        hits: list[_Shown] = [(hit, "", hit) for hit in index.search(query, filters, most)]
        return hits, index.threads(Filters(state=DAMAGED))
    finally:
        index.close()


def _search_team(query: str, chosen: dict[str, Any], most: int | None) -> list[_Shown]:
    from treadle.app.sync.team_threads import search_team

    found = search_team(query, chosen, most)
    return [(one.hit, one.line.owner, one.plain()) for one in found]


def _show(hit: Hit, owner: str) -> None:
    line = hit.thread
    whose = f"{owner}  " if owner else ""
    more = f" ({hit.count} places)" if hit.count > 1 else ""
    click.echo(f"{line.id}  {local_time(line.updated_at)}  {whose}{title_of(line)}{more}")
    click.echo(f"    {f'version {hit.version}':<13} {hit.kind:<7} {_highlighted(hit)}")


def _highlighted(hit: Hit) -> str:
    """The snippet, on a terminal with what was looked for in bold."""
    from treadle.cli.render import printable

    pieces: list[str] = []
    end = 0
    for start, stop in hit.ranges:
        pieces.append(printable(hit.snippet[end:start]))
        pieces.append(click.style(printable(hit.snippet[start:stop]), bold=True))
        end = stop
    return "".join([*pieces, printable(hit.snippet[end:])])
