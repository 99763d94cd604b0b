"""`treadle graph`: the transition table as a diagram."""

from __future__ import annotations

import click


@click.command("graph")
@click.option("--check", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
def command(check: str | None) -> None:
    """Print the conversation machine's transition table as a Mermaid diagram.

    With --check, compare it with FILE instead and fail if FILE is stale.
    """
    from treadle.core.chat.table import TRANSITIONS
    from treadle.core.diagram import draw
    from treadle.errors import TreadleError

    drawn = draw(TRANSITIONS)
    if check is None:
        click.echo(drawn, nl=False)
    elif click.open_file(check, encoding="utf-8").read() != drawn:
        raise TreadleError(f"{check} is not what the table says", hint="run `make fmt`")
