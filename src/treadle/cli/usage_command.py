"""`treadle usage`: what the threads of this machine have used of models."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line
from treadle.cli.thread_filters import parse_moment

if TYPE_CHECKING:
    from treadle.app import DayUsage, UsageReport

_SINCE = "30d"


@click.command("usage")
@click.option(
    "--since", metavar="TIME", help=f"From this day on; all for everything.  [default: {_SINCE}]"
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object, by day and by model.")
def command(since: str | None, as_json: bool) -> None:
    """Show what models were used for how much: per day, per model, over all threads.

    \b
    treadle usage                    the last thirty days
    treadle usage --since today
    treadle usage --since all --json

    Each request counts all that it sends, what its provider had cached too. Threads in the trash
    and sub-agents count. Days are those of the clocks here.
    """  # noqa: D301  click reads the backspace
    from treadle.app import open_store, sum_usage
    from treadle.app.threads.times import local_time

    wanted = since or ("all" if as_json else _SINCE)
    day = "" if wanted == "all" else local_time(parse_moment(wanted))[:10]
    report = sum_usage(open_store(), since=day, notify=partial(print_line, err=True))
    if as_json:
        print_json(report.to_dict())
    elif not report.days:
        click.echo("no model was asked in that time", err=True)
    else:
        _show(report)


def _show(report: UsageReport) -> None:
    from treadle.terminal.columns import fit_columns

    rows, last = [], ""
    for one in report.days:
        rows.append(_make_row("" if one.day == last else one.day, one))
        last = one.day
    rows.append(("", *[""] * 5))
    rows += [_make_row("in all", one) for one in report.models]
    if len(report.models) > 1:
        rows.append(_make_row("together", report.total))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for text, rest in fit_columns(rows, width, (2, 4, 3)):
        click.echo((text + rest).rstrip())


def _make_row(label: str, one: DayUsage) -> tuple[str, ...]:
    from treadle.models.prices.usage_text import describe_cost
    from treadle.thread.safe_text import sanitize_text

    used = one.usage
    cached = f" ({used.cache_read_tokens:,} cached)" if used.cache_read_tokens else ""
    model = one.model or ("(merged)" if label != "together" else "")
    return (
        label,
        sanitize_text(" ".join(model.split())),
        f"{one.requests:,} request{'s' * (one.requests != 1)}",
        f"{used.input_tokens:,} in{cached}",
        f"{used.output_tokens:,} out",
        describe_cost(used),
    )
