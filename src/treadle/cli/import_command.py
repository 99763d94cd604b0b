"""`treadle import`: threads from other machines, and sessions of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from treadle.cli.notices import print_line

if TYPE_CHECKING:
    from treadle.app.exchange.session_import import ImportOutcome

_SOURCES: Final = (
    *("auto", "claude-code", "codex", "gemini", "pi", "opencode", "swe-agent", "treadle"),
)

_TITLE_LENGTH_MAX: Final = 80


@click.command("import")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--from",
    "source",
    type=click.Choice(_SOURCES),
    default="auto",
    help="The program. Without a PATH, its own folder is searched.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be imported; change nothing.")
@click.option("--again", is_flag=True, help="Import sessions that have grown as new threads.")
@click.option("--private", is_flag=True, help="The new threads never leave this machine.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object per session.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    source: str,
    dry_run: bool,
    again: bool,
    private: bool,
    as_json: bool,
) -> None:
    """Import threads (exported as jsonl) and sessions of other programs.

    \b
    treadle import                       what other programs have recorded, found and chosen
    treadle import --dry-run ~/.claude   what there is
    treadle import thread.jsonl          an exported journal

    A PATH is a file, or a folder that is searched with all below it. What is imported twice is
    found again, not doubled. Known secrets are replaced. Exit code 1 if something could not be
    imported, 75 if that was the disk or another process, so that the same again may do.
    """  # noqa: D301  click reads the backspace
    from treadle.app.exchange.session_import import import_sessions
    from treadle.app.stores import open_store
    from treadle.cli.json_output import print_json
    from treadle.cli.renderers import make_printable
    from treadle.exit_codes import DONE, FAILED, TRY_LATER

    outcomes: list[ImportOutcome] = []
    for outcome in import_sessions(
        open_store(), paths, source, wants_copies=again, is_dry=dry_run, is_private=private
    ):
        outcomes.append(outcome)
        if not as_json:
            print_line(make_printable(_describe_outcome(outcome)), err=outcome.outcome == "failed")
    if as_json:
        print_json(outcomes)
    failed = [one.is_for_later for one in outcomes if one.outcome == "failed"]
    ctx.exit(DONE if not failed else TRY_LATER if all(failed) else FAILED)


def _describe_outcome(one: ImportOutcome) -> str:
    if one.outcome == "failed":
        return f"treadle: {one.reason}"
    counts = [f"{one.messages} messages"] if one.messages else []
    counts += [f"{one.repaired} repaired"] if one.repaired else []
    counts += [f"{one.foreign} records kept as they were"] if one.foreign else []
    title = one.title if len(one.title) <= _TITLE_LENGTH_MAX else one.title[:79] + "…"
    head = f"{one.thread}  {one.outcome}: {title or '(no title)'} [{one.source}]"
    lines = [head, f"  {', '.join([*counts, f'from {one.path}'])}"]
    lines += [f"  {problem}" for problem in (*one.problems, one.reason) if problem]
    if one.outcome == "grown":
        lines[-1] += "; --again imports it as a new thread"
    return "\n".join(lines)
