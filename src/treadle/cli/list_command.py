"""`treadle list`: the threads of this machine."""

from __future__ import annotations

import click


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, last changed first.")
def command(as_json: bool) -> None:
    """List the threads on this machine, last changed first."""
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
        state = "damaged" if line.problem else line.state.replace("_", " ")
        title = line.title or "(nothing said yet)"
        if len(title) > 50:
            title = title[:49] + "…"
        private = " [private]" if line.is_private else ""
        click.echo(
            f"{line.id}  {line.updated_at[:16].replace('T', ' ')}  {line.message_count:>4} messages"
            f"  {state:<22}  {title}{private}"
        )
