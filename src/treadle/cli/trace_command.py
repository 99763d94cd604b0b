"""`treadle trace`: what a task did, step by step; any thread as spans of OpenTelemetry."""

from __future__ import annotations

import click


@click.command("trace")
@click.argument("thread", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per entry.")
@click.option(
    "--otlp",
    metavar="URL",
    help="Send it to this collector as spans and metrics; - prints what would be sent.",
)
@click.option("--content", is_flag=True, help="With --otlp: what was said, too.")
@click.pass_context
def command(
    ctx: click.Context, thread: str, as_json: bool, otlp: str | None, content: bool
) -> None:
    """Print the trace of a task: each step, when, in which state, what happened and with what.

    \b
    treadle trace 7c1e93f0
    treadle trace 7c1e93f0 --otlp http://localhost:4318

    Needs neither its folder, nor a model, nor the thread to be free. The table shows the beginning
    of long data; --json has all of it.

    With --otlp any thread is exported, a conversation too, and with it those of its sub-agents:
    finished, crashed, imported or at work. Doing it again makes the same spans. A private thread is
    not sent. docs/telemetry.md says what stands in the spans.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store

    if otlp is not None:
        _export(ctx, thread, otlp, with_content=content, as_json=as_json)
        return
    if content:
        raise click.UsageError("--content goes with --otlp")
    from treadle.app.json_text import escape_json
    from treadle.app.threads.task_trace import read_trace
    from treadle.cli.renderers import make_printable

    found = read_trace(open_store(), thread)
    if found.problem:
        click.echo(f"treadle: {found.problem}", err=True)
    trace = found.trace
    click.echo(escape_json(trace.to_json()) if as_json else make_printable(trace.to_table()))


def _export(
    ctx: click.Context, thread: str, url: str, *, with_content: bool, as_json: bool
) -> None:
    from treadle.app.json_text import escape_json
    from treadle.app.stores import open_store
    from treadle.app.telemetry.trace_export import export_trace
    from treadle.cli.renderers import make_printable

    if as_json:
        raise click.UsageError("--json and --otlp do not go together; --otlp - prints JSON")
    target = "" if url == "-" else url
    if not url:
        raise click.UsageError("--otlp takes the address of a collector, or -")
    found = export_trace(open_store(), thread, target, with_content=with_content)
    for line in found.lines:
        click.echo(escape_json(line.decode()))
    if target:
        spans = "span" if found.span_count == 1 else "spans"
        threads = "thread" if len(found.threads) == 1 else "threads"
        click.echo(f"sent {found.span_count} {spans} of {len(found.threads)} {threads}", err=True)
    if found.problem:
        click.echo(f"treadle: {make_printable(found.problem)}", err=True)
        ctx.exit(1)
