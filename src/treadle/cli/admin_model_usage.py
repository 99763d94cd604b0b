"""What the people of a team server have used of models, in columns or as a table of commas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from treadle.cli.admin_output import format_count, print_answer, run_as_operator

if TYPE_CHECKING:
    from treadle.api.usage_types import ModelUsage

_SINCE: Final = "30d"
_COLUMNS: Final = (
    *("day", "user", "organization", "model", "requests", "input_tokens", "output_tokens"),
    *("cache_read_tokens", "unpriced_tokens", "cost_usd"),
)
_FORMULAS: Final = ("=", "+", "-", "@")
"""With these a cell begins that a spreadsheet computes, whoever has written it."""


def print_model_usage(
    database: str | None, since: str | None, *, as_csv: bool, as_json: bool
) -> None:
    """Print what each user has used of each model, day by day, the newest first.

    Args:
        database: its URL; `None` for the one of the server here.
        since: from which time on, as a person says it; `all` for all.
        as_csv: with commas between, for programs.
        as_json: as the API has it.
    """
    from treadle.cli.thread_filters import parse_moment
    from treadle.models.prices.usage_text import describe_priced
    from treadle.server.accounts.model_usage import read_model_usage

    day = "" if since == "all" else parse_moment(since or _SINCE)[:10]
    found = run_as_operator(
        database, lambda context: read_model_usage(context, day), is_write=False
    )
    if as_csv:
        _print_csv(found)
        return
    rows = [
        (
            one.day,
            one.user,
            one.model or "(merged)",
            format_count(one.requests, "request"),
            f"{one.input_tokens:,} in",
            f"{one.output_tokens:,} out",
            describe_priced(one.cost_usd, one.unpriced_tokens),
        )
        for one in found.lines
    ]
    if rows or as_json:
        print_answer(found, rows, as_json=as_json)
    else:
        click.echo("no model was asked in that time", err=True)


def _print_csv(found: ModelUsage) -> None:
    import csv
    import io

    from treadle.thread.safe_text import sanitize_text

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    for one in found.lines:
        model = sanitize_text(one.model)
        cells = {name: getattr(one, name) for name in _COLUMNS}
        cells["model"] = f"'{model}" if model.startswith(_FORMULAS) else model
        cells["cost_usd"] = "" if one.cost_usd is None else f"{one.cost_usd:f}"
        table.writerow(cells.values())
    click.echo(text.getvalue(), nl=False)
