"""`treadle list`: the threads of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.thread.model import ThreadSummary


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, last changed first.")
def command(as_json: bool) -> None:
    """List the threads on this machine, last changed first.

    Tasks are marked as such; so is what waits for approval, which `treadle approve ID` shows.
    """
    from treadle.store.local import LocalStore
    from treadle.store.places import Places

    threads = LocalStore(Places.find()).list()
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(threads), indent=2))
        return
    if not threads:
        click.echo("no threads yet; `treadle demo` makes one, `treadle -p PROMPT` too", err=True)
        return
    for line in threads:
        title = line.title or "(nothing said yet)"
        if len(title) > 50:
            title = title[:49] + "…"
        private = " [private]" if line.is_private else ""
        click.echo(
            f"{line.id}  {line.updated_at[:16].replace('T', ' ')}  {line.message_count:>4} messages"
            f"  {_kind(line):<9}  {_state(line):<22}  {title}{private}"
        )


def _kind(line: ThreadSummary) -> str:
    if line.parent is not None:
        return "sub-agent"
    return "task" if line.machine == "task" else ""


def _state(line: ThreadSummary) -> str:
    if line.problem:
        return "damaged"
    return "waits for approval" if line.questions else line.state.replace("_", " ")
