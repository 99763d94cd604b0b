"""`treadle blame`: the thread, turn and prompt behind each line of a file."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line, print_notice, shorten_for_people
from treadle.cli.options import folder_option
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.files.provenance import FileOrigin, RunOrigin

_LINE_RANGE = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?\Z", re.DOTALL)

_HASH_LENGTH, _DATE_LENGTH = 7, 10


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
    from treadle.app.files.provenance import find_line_origins
    from treadle.app.stores import open_store

    file, first, last = _parse_line_range(Path(cwd or "."), what)
    found = asyncio.run(find_line_origins(open_store(), file, first, last))
    if as_json:
        print_json(found.to_dict())
        return
    if found.notice:
        print_notice(found.notice)
    show = _show_line if first == last else _show_runs
    show(found)


def _parse_line_range(folder: Path, what: str) -> tuple[Path, int, int | None]:
    """The file and the lines; a file whose whole name it is comes first."""
    split = _LINE_RANGE.match(what)
    if split is None or (folder / what).exists():
        return folder / what, 1, None
    first = int(split[2])
    return folder / split[1], first, int(split[3] or first)


def _show_line(found: FileOrigin) -> None:
    """One line, in several."""
    (origin,) = found.runs
    run = origin.run
    facts = [(f"line {run.first}", found.blamed.text[0].removesuffix("\r"))]
    commit = run.commit
    if commit is None:
        facts.append(("commit", _describe_uncommitted(found)))
    else:
        author = f"{commit.author}{_describe_shallow_clone(origin)}"
        facts.append(("commit", f"{commit.hash[:_HASH_LENGTH]} {commit.subject}"))
        facts.append(("", f"{commit.at[:_DATE_LENGTH]} by {author}"))
    if run.name:
        facts.append(("file", f"{run.name}, as it was called then"))
    for one in origin.threads:
        at = "" if one.version is None else f" at version {one.version}"
        facts.append(("thread", one.thread + at))
        facts.append(("", one.summary))
        facts.append(("look", one.command))
    if not origin.threads:
        facts.append(("thread", "(no thread)"))
    for name, value in facts:
        if value or name.startswith("line"):
            print_line(sanitize_text(f"{name:<8} {value}".rstrip()))


def _show_runs(found: FileOrigin) -> None:
    """A line for lines in a row that came the same way."""
    rows = [_make_row(one, _describe_uncommitted(found)) for one in found.runs]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo(sanitize_text("  ".join([*cells, row[-1]]).rstrip()))


def _describe_uncommitted(found: FileOrigin) -> str:
    return "not committed" if found.blamed.is_tracked else "not committed (untracked)"


def _make_row(origin: RunOrigin, uncommitted: str) -> tuple[str, str, str, str]:
    """Lines, commit and date, who, what for."""
    run, behind = origin.run, origin.threads
    lines = str(run.first) if run.first == run.last else f"{run.first}-{run.last}"
    commit = run.commit
    when = (commit and f"{commit.hash[:_HASH_LENGTH]} {commit.at[:_DATE_LENGTH]}") or uncommitted
    if behind:
        more = f" (and {len(behind) - 1} more)" if len(behind) > 1 else ""
        words = behind[-1].summary + more + _describe_shallow_clone(origin)
        return lines, when, shorten_for_people(behind[-1].thread), words
    if commit is None:
        return lines, when, "", ""
    return lines, when, commit.author, commit.subject + _describe_shallow_clone(origin)


def _describe_shallow_clone(origin: RunOrigin) -> str:
    return " (or older: the clone is shallow)" if origin.run.is_oldest else ""
