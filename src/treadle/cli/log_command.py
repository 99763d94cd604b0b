"""`treadle log`: the threads behind commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line
from treadle.cli.options import folder_option
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.app.files.provenance import CommitOrigin

COUNT = 20
"""How many commits are listed where no range is named."""

COUNT_MAX = 1000
"""How many of a range, if nothing else is asked for."""

_HASH_LENGTH = 7
_DATE_LENGTH = 10


@click.command("log")
@click.argument("span", metavar="[RANGE]", required=False)
@click.option(
    "--limit",
    metavar="COUNT",
    type=click.IntRange(1, 1_000_000),
    help=f"List at most so many commits ({COUNT}; with RANGE {COUNT_MAX}).",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, newest first.")
@folder_option
def command(span: str | None, limit: int | None, as_json: bool, cwd: str | None) -> None:
    """List commits, newest first, with the thread, turn and prompt behind each.

    \b
    treadle log              the threads behind the last commits
    treadle log v1.2..HEAD   those between two of them

    RANGE is as git takes it: `main..`, `COMMIT..`, `A..B`. Changes nothing.
    """  # noqa: D301  click reads the backspace
    import asyncio

    from treadle.app.files.provenance import list_commit_origins
    from treadle.app.stores import open_store

    count_max = limit or (COUNT if span is None else COUNT_MAX)
    commits, has_more = asyncio.run(list_commit_origins(open_store(), cwd or ".", span, count_max))
    if as_json:
        print_json([one.to_dict() for one in commits])
    else:
        _show_commits(commits)
    if not commits:
        print_line("no commits", err=True)
    if has_more:
        print_line(f"these are the newest {count_max}; --limit COUNT lists more", err=True)


def _show_commits(listed: Sequence[CommitOrigin]) -> None:
    for one in listed:
        commit = one.commit
        merge = " (merge)" if len(commit.parents) > 1 else ""
        when = f"{commit.hash[:_HASH_LENGTH]} {commit.at[:_DATE_LENGTH]}"
        print_line(sanitize_text(f"{when}  {commit.subject}{merge}"))
        for behind in one.threads:
            print_line(sanitize_text(f"    {behind.thread}  {behind.summary}"))
        if not one.threads:
            print_line("    (no trailer)")
    if listed:
        print_line("\n" + sanitize_text(_describe_totals(listed)))


def _describe_totals(listed: Sequence[CommitOrigin]) -> str:
    """How many commits of how many threads, and which, the newest first."""
    counts = dict[str, int]()
    for one in listed:
        for thread in dict.fromkeys(behind.thread for behind in one.threads):
            counts[thread] = counts.get(thread, 0) + 1
    threadless_count = sum(not one.threads for one in listed)
    lines = [f"{_format_count(len(listed), 'commit')} by {_format_count(len(counts), 'thread')}"]
    if threadless_count:
        lines[0] += f", {threadless_count} without a trailer"
    lines += [f"    {thread}  {_format_count(count, 'commit')}" for thread, count in counts.items()]
    return "\n".join(lines)


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
