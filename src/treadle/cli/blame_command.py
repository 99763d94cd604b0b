"""`treadle blame`: the thread, turn and prompt behind each line of a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.json_output import print_json
from treadle.cli.options import folder_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.app.files.provenance import Behind, Pasts
    from treadle.workspace.blame import Blamed, Run

_LINES = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?\Z", re.DOTALL)

_HASH_LENGTH = 7
_DATE_LENGTH = 10
_ID_LENGTH = 15
"""Of a thread: up to its millisecond. Commands take that much of an id."""


@click.command("blame")
@click.argument("what", metavar="FILE[:LINE[-LINE]]")
@click.option("--json", "as_json", is_flag=True, help="A JSON object with all that is known.")
@folder_option
def command(what: str, as_json: bool, cwd: str | None) -> None:
    """Name the thread, turn and prompt behind each line of a file.

    A committed line is told by its commit, one that is not by the states of the files that were
    kept while an agent worked. Lines of people name the author. Changes nothing.

    \b
    treadle blame src/calc.py
    treadle blame src/calc.py:12
    treadle blame src/calc.py:12-20
    """  # noqa: D301  click reads the backspace
    import asyncio

    from treadle.app.files.provenance import Pasts
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places
    from treadle.workspace.blame import THREAD_COUNT_MAX, blame

    file, first, last = _parse(Path(cwd or "."), what)
    found = asyncio.run(blame(file, first, last))
    pasts = Pasts(LocalStore(Places.find()))
    if as_json:
        _print_json(found, pasts)
        return
    if found.is_cut:
        text = (
            f"more than {THREAD_COUNT_MAX} threads have changed this file; older ones are not told"
        )
        click.echo(f"treadle: {text}", err=True)
    if last is not None and first == last:
        _show_line(found, pasts)
    else:
        _show_runs(found, pasts)


def _parse(folder: Path, what: str) -> tuple[Path, int, int | None]:
    """The file and the lines; a file whose whole name it is comes first."""
    split = _LINES.match(what)
    if split is None or (folder / what).exists():
        return folder / what, 1, None
    first = int(split[2])
    return folder / split[1], first, int(split[3] or first)


def _behind(run: Run, pasts: Pasts) -> list[Behind]:
    if run.saved is not None:
        return [pasts.behind_state(run.saved)]
    return [] if run.commit is None else [pasts.behind(one) for one in run.commit.threads]


def _print_json(found: Blamed, pasts: Pasts) -> None:
    import msgspec

    runs: list[dict[str, Any]] = []
    for run in found.runs:
        fields: dict[str, Any] = msgspec.to_builtins(run)
        if fields["commit"] is not None:
            del fields["commit"]["threads"]  # they stand beside it, with all that is known
        fields["threads"] = [one.told() for one in _behind(run, pasts)]
        runs.append(fields)
    told = {
        "file": found.name,
        "is_tracked": found.is_tracked,
        "is_cut": found.is_cut,
        "runs": runs,
    }
    print_json(told)


def _show_line(found: Blamed, pasts: Pasts) -> None:
    """One line, in several."""
    from treadle.cli.render import printable

    (run,) = found.runs
    facts = [(f"line {run.first}", found.text[0].removesuffix("\r"))]
    commit = run.commit
    if commit is None:
        facts.append(("commit", _uncommitted(found)))
    else:
        facts.append(("commit", f"{commit.hash[:_HASH_LENGTH]} {commit.subject}"))
        facts.append(("", f"{commit.at[:_DATE_LENGTH]} by {commit.author}{_older(run)}"))
    if run.name:
        facts.append(("file", f"{run.name}, as it was called then"))
    behind = _behind(run, pasts)
    for one in behind:
        at = "" if one.version is None else f" at version {one.version}"
        facts.append(("thread", one.thread + at))
        facts.append(("", one.words))
        facts.append(("look", one.command))
    if not behind:
        facts.append(("thread", "(no thread)"))
    for name, value in facts:
        if value or name.startswith("line"):
            click.echo(printable(f"{name:<8} {value}".rstrip()))


def _show_runs(found: Blamed, pasts: Pasts) -> None:
    """A line for lines in a row that came the same way."""
    from treadle.cli.render import printable

    rows = [_row(run, _behind(run, pasts), _uncommitted(found)) for run in found.runs]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo(printable("  ".join([*cells, row[-1]]).rstrip()))


def _uncommitted(found: Blamed) -> str:
    return "not committed" if found.is_tracked else "not committed (untracked)"


def _row(run: Run, behind: Sequence[Behind], uncommitted: str) -> tuple[str, str, str, str]:
    """Lines, commit and date, who, what for."""
    lines = str(run.first) if run.first == run.last else f"{run.first}-{run.last}"
    commit = run.commit
    when = uncommitted
    if commit is not None:
        when = f"{commit.hash[:_HASH_LENGTH]} {commit.at[:_DATE_LENGTH]}"
    if behind:
        more = f" (and {len(behind) - 1} more)" if len(behind) > 1 else ""
        return lines, when, behind[-1].thread[:_ID_LENGTH], behind[-1].words + more + _older(run)
    if commit is None:
        return lines, when, "", ""
    return lines, when, commit.author, commit.subject + _older(run)


def _older(run: Run) -> str:
    return " (or older: the clone is shallow)" if run.is_oldest else ""
