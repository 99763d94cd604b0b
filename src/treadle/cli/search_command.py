"""`treadle search`: finds threads by what was said and done in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli.filters import (
    check_state,
    filter_options,
    filters_of,
    limit_of,
    limit_options,
    local_time,
    title_of,
)

if TYPE_CHECKING:
    from treadle.store.index.search import Hit

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
@click.option("--json", "as_json", is_flag=True, help="A JSON array, best first.")
def command(
    query: tuple[str, ...], as_json: bool, limit: int | None, wants_all: bool, **chosen: Any
) -> None:
    """Find threads: in titles, tags, notes, messages, tool calls and output, paths, branches.

    All words must stand in one text, in any order and whatever their case and accents.
    '"in quotes"' is a phrase, weav* a beginning, -word must not stand there. Four or more hex
    digits find commits that begin so, the beginning of an id finds the thread. What a fork shares
    with the thread it was made from is found there. Exits with 1 if nothing is found.
    """
    from treadle.cli.exits import FAILED
    from treadle.errors import UsageError
    from treadle.store.index.lookup import Index
    from treadle.store.local import LocalStore
    from treadle.store.places import Places

    for word in query:
        if word.startswith("--"):
            raise UsageError(
                f"there is no option {word}", hint=f"to look for it, quote it twice: '\"{word}\"'"
            )
    index = Index(LocalStore(Places.find()), partial(click.echo, err=True))
    try:
        most = limit_of(limit, LIMIT, wants_all=wants_all, as_json=as_json)
        # One more than is shown tells whether there are more.
        filters = filters_of(chosen)
        check_state(index, filters)
        hits = index.search(" ".join(query), filters, None if most is None else most + 1)
    finally:
        index.close()
    shown = hits[:most]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2))
    else:
        for hit in shown:
            _show(hit)
    if not shown:
        click.echo("nothing was found", err=True)
        raise SystemExit(FAILED)
    if len(hits) > len(shown):
        click.echo("there are more; --all shows them", err=True)
    if not as_json:
        first = shown[0]
        click.echo(f"to look at it: treadle show {first.thread.id} --version N", err=True)


def _show(hit: Hit) -> None:
    line = hit.thread
    more = f" ({hit.count} places)" if hit.count > 1 else ""
    click.echo(f"{line.id}  {local_time(line.updated_at)}  {title_of(line)}{more}")
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
