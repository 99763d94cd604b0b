"""`treadle diff`: what a thread's agent changed in its workspace."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from treadle.cli.json_output import print_json
from treadle.cli.options import folder_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.store.local import LocalStore
    from treadle.store.thread_reader import LoadedThread
    from treadle.workspace.files.entries import Touched
    from treadle.workspace.files.states import FileStates

NAMES_COUNT_MAX: Final = 20
"""Names of files that are listed in a notice."""

_SPAN: Final = re.compile(r"(\d*)\.\.(\d*)")


@click.command("diff")
@click.argument("thread", metavar="ID")
@click.argument("span", metavar="[V1..V2]", required=False)
@click.option("--stat", "wants_stat", is_flag=True, help="How many lines of which files.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of files, with line counts.")
@click.option("--color/--no-color", default=None, help="Default: if a person is looking.")
@folder_option
def command(
    thread: str,
    span: str | None,
    wants_stat: bool,
    as_json: bool,
    color: bool | None,
    cwd: str | None,
) -> None:
    """Show what the agent changed, by tools and by commands: each file before and after.

    \b
    treadle diff ID              all of the thread
    treadle diff ID 12..40       what it changed after version 12, up to version 40
    treadle diff ID 12..         since version 12

    What you changed before the agent first touched a file is not shown, nor what you changed after
    the last time; what you changed in between is part of it, and those files are named. Needs the
    repository, where the states of the files are kept, but nothing of what is checked out; -C says
    where it is if the folder has another name now.
    """  # noqa: D301  click reads the backspace
    asyncio.run(_diff(thread, span, cwd, wants_stat=wants_stat, as_json=as_json, color=color))


async def _diff(
    thread: str,
    span: str | None,
    folder: str | None,
    *,
    wants_stat: bool,
    as_json: bool,
    color: bool | None,
) -> None:
    from treadle.app.files.file_history import (
        between,
        end_of_write,
        find_gap,
        open_states,
        saved_states,
        steps_of,
        why_stateless,
    )
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places
    from treadle.workspace.files.entries import touched

    store = LocalStore(Places.find())
    thread_id = store.resolve(thread)
    loaded = store.load(thread_id)
    fold = loaded.fold
    latest = fold.version
    after, through = _parse_span(span, latest)
    records = store.scan(thread_id).records
    after, through = (end_of_write(records, bound) for bound in (after, through))
    states = saved_states(store, thread_id)
    if gap := find_gap(store, thread_id, after, through):
        _say(gap)
    unknown = _unknown(store, loaded) if through >= latest else ""
    if not states:
        if as_json:
            click.echo("[]")
        _say(unknown or why_stateless(fold))
        return
    files = open_states(fold, folder)
    found = touched(await steps_of(files, between(states, after, through)))
    await _show(files, found, wants_stat=wants_stat, as_json=as_json, color=color, unknown=unknown)


def _unknown(store: LocalStore, loaded: LoadedThread) -> str:
    """Why it is not known all that the agent changed up to now; empty if it is."""
    from treadle.app.files.file_history import is_in_round

    thread_id = loaded.fold.header.thread
    if loaded.problem:
        return f"{loaded.problem}; what the agent changed after that is not known"
    if not is_in_round(loaded.fold):
        return ""
    if store.holder(thread_id) is not None:
        return f"a round is under way: what it changes is not known yet: treadle watch {thread_id}"
    words = "a round is unfinished: what it has changed is not known yet"
    return f"{words}: treadle resume {thread_id}"


def _parse_span(span: str | None, latest: int) -> tuple[int, int]:
    """After which version, and up to which."""
    match = _SPAN.fullmatch("..") if span is None else _SPAN.fullmatch(span)
    if match is None:
        raise click.UsageError(f"{span!r} names no versions: write 12..40, 12.. or ..40")
    after, through = int(match[1] or 0), int(match[2] or latest)
    if not after <= through <= latest:
        raise click.UsageError(f"the thread has versions 1 to {latest}, and {span} is not in them")
    return after, through


async def _show(
    files: FileStates,
    found: dict[bytes, Touched],
    *,
    wants_stat: bool,
    as_json: bool,
    color: bool | None,
    unknown: str,
) -> None:
    """The differences on stdout; what else there is to know beside them."""
    changed = [one for one in found.values() if one.change.old != one.change.new]
    if unknown:
        _say(unknown)
    if as_json:
        await _print_json(files, changed)
        return
    if not changed:
        if found or not unknown:
            _say("what the agent changed is as it was" if found else "the agent changed no file")
        return
    out = await files.diff_of([one.change for one in changed], is_stat=wants_stat)
    is_seen = sys.stdout.isatty()
    is_colored = color
    if is_colored is None:
        is_colored = is_seen and click.get_current_context().color is not False
    shown = _fit_for_terminal(out, is_colored=is_colored) if is_seen or is_colored else out
    click.echo(shown, nl=False, color=True)
    if shared := [one.change.name for one in changed if one.by_others]:
        _say(f"others changed these between the agent's changes, or later: {_named(shared)}")
    if unkept := [one.change.name for one in changed if not one.change.is_kept]:
        _say(f"not shown, their contents were not saved: {_named(unkept)}")


async def _print_json(files: FileStates, changed: Sequence[Touched]) -> None:

    counts = {}
    out = await files.diff_of([one.change for one in changed], is_counted=True)
    for record in out.split(b"\0")[:-1]:
        added, deleted, path = record.split(b"\t", 2)
        counts[path] = None if added == b"-" else (int(added), int(deleted))
    lines: list[dict[str, Any]] = []
    for one in changed:
        count = counts.get(one.change.path)
        lines.append(
            {
                "path": one.change.name,
                "status": one.change.status,
                "old": one.change.old and one.change.old._asdict(),
                "new": one.change.new and one.change.new._asdict(),
                "added": count and count[0],
                "deleted": count and count[1],
                "is_binary": one.change.is_kept and count is None,
                "is_kept": one.change.is_kept,
                "by_others": one.by_others,
            }
        )
    print_json(lines)


def _fit_for_terminal(out: bytes, *, is_colored: bool) -> str:
    """Colored by us, if at all: what steers a terminal is taken out of the text first."""
    from treadle.cli.render import printable

    lines = [printable(line) for line in out.decode("utf-8", "replace").split("\n")[:-1]]
    if is_colored:
        lines = [click.style(line, **_style_of(line)) for line in lines]
    return "".join(f"{line}\n" for line in lines)


def _style_of(line: str) -> dict[str, Any]:
    for head, style in _STYLES:
        if line.startswith(head):
            return style
    return {}


_STYLES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("diff ", {"bold": True}),
    ("index ", {"bold": True}),
    ("--- ", {"bold": True}),
    ("+++ ", {"bold": True}),
    ("@@", {"fg": "cyan"}),
    ("+", {"fg": "green"}),
    ("-", {"fg": "red"}),
)
"""How a line looks, by how it begins; the first that fits."""


def _named(names: Sequence[str]) -> str:
    from treadle.cli.render import printable

    more = len(names) - NAMES_COUNT_MAX
    shown = ", ".join(printable(name).replace("\n", "⏎") for name in names[:NAMES_COUNT_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def _say(text: str) -> None:
    from treadle.cli.render import printable

    click.echo(f"treadle: {printable(text)}", err=True)
