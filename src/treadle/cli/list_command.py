"""`treadle list`: the threads of this machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli.filters import (
    filter_options,
    filters_of,
    limit_of,
    limit_options,
    local_time,
    title_of,
)

if TYPE_CHECKING:
    from treadle.thread.model import ThreadSummary

LIMIT: Final = 50


@click.command("list")
@filter_options
@limit_options(LIMIT)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, in the same order.")
def command(as_json: bool, limit: int | None, wants_all: bool, **chosen: Any) -> None:
    """List the threads on this machine: pinned ones (★), then those that changed last.

    What is asked for must all hold. Tasks are marked as such; so is what waits for approval, which
    `treadle approve ID` shows.
    """
    from treadle.store.index.filters import Filters
    from treadle.store.index.lookup import Index
    from treadle.store.local import LocalStore
    from treadle.store.places import Places

    filters = filters_of(chosen)
    index = Index(LocalStore(Places.find()), partial(click.echo, err=True))
    try:
        most = limit_of(limit, LIMIT, wants_all=wants_all, as_json=as_json)
        threads, count = index.page(filters, most)
    finally:
        index.close()
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(threads), indent=2))
        return
    for line in threads:
        click.echo(_shown(line))
    if not threads:
        click.echo(_nothing(filters == Filters(), is_trashed=filters.is_trashed), err=True)
    elif count > len(threads):
        click.echo(f"{count - len(threads)} more; --all shows them", err=True)


def _shown(line: ThreadSummary) -> str:
    return (
        f"{line.id}  {local_time(line.updated_at)}  {line.message_count:>4} messages"
        f"  {_kind(line):<9}  {_state(line):<22}  {title_of(line)}"
    )


def _nothing(is_unfiltered: bool, *, is_trashed: bool) -> str:
    if is_unfiltered:
        return "no threads yet; `treadle demo` makes one, `treadle -p PROMPT` too"
    return "no such thread in the trash" if is_trashed else "no such thread"


def _kind(line: ThreadSummary) -> str:
    if line.parent is not None:
        return "sub-agent"
    return "task" if line.machine == "task" else ""


def _state(line: ThreadSummary) -> str:
    if line.problem:
        return "damaged"
    return "waits for approval" if line.questions else line.state.replace("_", " ")
