"""`treadle export`: a thread for people, for programs, for another machine."""

from __future__ import annotations

import sys
from typing import Final

import click

from treadle.cli.notices import print_line

_FORMATS: Final = ("json", "jsonl", "markdown", "html")


@click.command("export")
@click.argument("thread", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="markdown",
    show_default=True,
    help="json: the thread document. jsonl: the records, to import elsewhere.",
)
@click.option("-o", "--output", metavar="FILE", help="Where to; by default stdout.")
@click.option("--version", type=click.IntRange(min=1), help="As it stood at this version.")
@click.option("--team", "wants_team", is_flag=True, help="As the server has it; also others' ones.")
@click.option("--force", is_flag=True, help="Export a private thread; replace FILE.")
@click.option("--with-secrets", is_flag=True, help="Export it even if it holds known secrets.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    thread: str,
    form: str,
    output: str | None,
    version: int | None,
    **given: bool,
) -> None:
    """Export a thread. Needs neither its folder, nor a model, nor the thread to be free.

    \b
    treadle export 7c1e93f0 --format html -o thread.html     one page, to be sent to somebody
    treadle export 7c1e93f0 --format jsonl -o thread.jsonl   the journal, to be imported elsewhere
    treadle export 7c1e93f0 --team                           a colleague's, as the server has it

    What holds a secret that this machine knows is not exported, nor is a private thread, unless
    with --force: the export can be read by whoever gets it. Of a damaged thread the intact part
    is, with exit code 1.
    """  # noqa: D301  click reads the backspace
    from pathlib import Path

    import msgspec

    from treadle.app.exchange import thread_export
    from treadle.app.json_text import escape_json
    from treadle.app.stores import open_store
    from treadle.cli.renderers import make_printable

    def warn(text: str) -> None:
        print_line(f"treadle: {text}", err=True)

    target = None if output in (None, "-") else Path(output or "").expanduser()
    if target is not None:
        thread_export.check_target(target, force=given["force"])
    make = thread_export.export_thread
    if given["wants_team"]:
        from treadle.app.team_copies import export_team_thread

        make = export_team_thread
    export = make(
        open_store(),
        thread,
        form,
        version=version,
        notify=warn,
        with_secrets=given["with_secrets"],
        force=given["force"],
    )
    data = export.data
    if form == "json":
        data = escape_json(msgspec.json.format(data, indent=2).decode()).encode() + b"\n"
    if target is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        thread_export.write_file(target, data, force=given["force"])
        click.echo(f"{len(data)} bytes in {make_printable(str(target))}", err=True)
    if export.problem:
        warn(make_printable(export.problem))
        ctx.exit(1)
