"""`treadle rewind`: go back to an earlier place of a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from treadle.cli.json_output import print_json
from treadle.cli.options import folder_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.core.conversation import View
    from treadle.store.local import LocalStore
    from treadle.store.writer import ThreadWriter
    from treadle.thread.fold import ThreadFold
    from treadle.thread.history import Rest
    from treadle.workspace.files.capture import Capture
    from treadle.workspace.files.entries import FileChange
    from treadle.workspace.files.states import FileStates
    from treadle.workspace.files.undo_plan import Plan

NAMES_COUNT_MAX: Final = 20
"""Names of files that people are shown of a list."""


class _Way(NamedTuple):
    """How the files get back: what is to be done, from how they are, by whom.

    `gap` says why some of what the agent changed is not known; empty if all of it is.
    """

    plan: Plan
    present: Capture
    states: FileStates
    is_of_agent: bool
    gap: str


@click.command("rewind")
@click.argument("thread", metavar="ID")
@click.option(
    "--version",
    type=click.IntRange(min=1),
    help="Back to this version, or to the last place before it where nothing was open.",
)
@click.option(
    "--turn", type=click.IntRange(min=0), help="Back to the end of this turn; 0: before the first."
)
@click.option("--files", "wants_files", is_flag=True, help="Put back the files it changed since.")
@click.option(
    "--force", is_flag=True, help="With --files: also those that somebody else changed as well."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as a JSON object.")
@folder_option
def command(thread: str, **given: Any) -> None:
    """Go back in a conversation, by default to where its last turn began.

    \b
    treadle rewind ID                    take back the last turn
    treadle rewind ID --turn 2 --files   to the end of turn 2, and its files with it
    treadle rewind ID --version 31       to version 31; so one comes back from a rewind, too

    Nothing is deleted: the messages stay in the thread, the model is not shown them any more. Work
    that is unfinished is given up. With --files, the files that the agent changed since then
    become what they were before; what you changed stays. If you changed the same files nothing at
    all is done, unless with --force. Files that git ignores are never touched.
    """  # noqa: D301  click reads the backspace
    if given["version"] is not None and given["turn"] is not None:
        raise click.UsageError("--version and --turn name different places: give one of them")
    if given["force"] and not given["wants_files"]:
        raise click.UsageError("--force goes with --files")
    if given["cwd"] is not None and not given["wants_files"]:
        raise click.UsageError("-C goes with --files: it says where they are now")
    asyncio.run(_rewind(thread, **given))


async def _rewind(
    thread: str,
    *,
    version: int | None,
    turn: int | None,
    wants_files: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
    cwd: str | None,
) -> None:
    from treadle.errors import UsageError
    from treadle.store.local import LocalStore
    from treadle.store.paths import Places
    from treadle.thread.fold import TASK

    store = LocalStore(Places.find())
    thread_id = store.resolve(thread)
    loaded = store.load(thread_id)
    if loaded.fold.header.machine == TASK:
        raise UsageError(
            f"thread {thread_id} is a task, which has no turns to go back to",
            hint=f"go on from an earlier version of it: treadle fork {thread_id} --version N",
        )
    writer = None if dry_run else store.open(thread_id)
    try:
        if note := loaded.problem if writer is None else writer.note:
            _say(note)
        fold = loaded.fold if writer is None else writer.fold
        rest = _target(store, fold, version, turn)
        now, then = _in_view(fold.conversation.view), _in_view(rest.view)
        way = await _way(store, fold, rest, cwd, is_dry=dry_run) if wants_files else None
        if way is not None and not (force or dry_run):
            _refuse_gap(way.gap)
            _refuse_conflicts(way.plan, thread_id)
        shows_the_same = (now, fold.conversation.compaction) == (then, rest.view.compaction)
        if shows_the_same and fold.is_idle and not (way and way.plan.changes):
            raise UsageError(f"thread {thread_id} stands there already; nothing was changed")
        if not fold.is_idle:
            _say("what was unfinished or waited for an answer is given up")
        back, left = (0, []) if writer is None else await _go_back(writer, rest, way)
    finally:
        problem = None if writer is None else writer.close()
    if problem is not None:
        _say(str(problem))
    _show(
        {
            "thread": thread_id,
            "version": rest.version,
            "turn": rest.turn,
            "messages_hidden": len(now - then),
            "messages_shown_again": len(then - now),
            "files": [] if way is None else _told(way.plan.changes, left),
            "conflicts": [] if way is None else [one.name for one in way.plan.conflicts],
            "gap": (way and way.gap) or None,
            "left": [one.name for one in (*left, *(() if way is None else way.plan.unkept))],
            "back": back or None,
            "dry_run": dry_run,
        },
        as_json=as_json,
        wants_files=wants_files,
    )


def _target(store: LocalStore, fold: ThreadFold, version: int | None, turn: int | None) -> Rest:
    """Where to go back to.

    Raises:
        UsageError: there is no such place.
    """
    from treadle.errors import UsageError
    from treadle.thread.history import rest_after, rest_at

    thread_id, found = fold.header.thread, store.rests(fold.header.thread)
    if version is not None:
        if version > fold.version:
            raise UsageError(f"thread {thread_id} has versions 1 to {fold.version}, not {version}")
        rest, what = rest_at(found, version), f"version {version}"
    elif turn is not None:
        rest, what = rest_after(found, turn), f"turn {turn}"
    elif not fold.is_idle:
        rest, what = (found[-1] if found else None), "its last turn"
    else:
        rest, what = _before_last_turn(found), "its last turn"
    if rest is None and version is None and turn is None:
        raise UsageError(f"thread {thread_id} has no turn in view that could be taken back")
    if rest is None:
        raise UsageError(
            f"thread {thread_id} has no place to go back to for {what}",
            hint=f"treadle show {thread_id}",
        )
    return rest


def _before_last_turn(found: list[Rest]) -> Rest | None:
    """The last place before the turn that is in view now; what stood there may be a rewind."""
    if not found or not found[-1].turn:
        return None
    began = next(place for place, rest in enumerate(found) if rest.turn == found[-1].turn)
    return found[began - 1] if began else None


def _in_view(view: View) -> frozenset[int]:
    """The messages, by number from 0, that a model is shown word by word."""
    hidden = {at for start, end in view.hidden for at in range(start, end)}
    first = 0 if view.compaction is None else view.compaction.through
    return frozenset(range(first, view.length)) - hidden


async def _way(
    store: LocalStore, fold: ThreadFold, rest: Rest, folder: str | None, *, is_dry: bool
) -> _Way:
    """What putting the files back takes.

    Raises:
        UsageError: the states of the files cannot be had.
    """
    from treadle.app.files.file_history import (
        between,
        find_gap,
        is_in_round,
        open_states,
        saved_states,
        why_stateless,
    )
    from treadle.errors import FileStateError, UsageError
    from treadle.runtime.defaults import own_redactor
    from treadle.workspace.files.entries import touched
    from treadle.workspace.files.undo_plan import plan

    gap = find_gap(store, fold.header.thread, rest.version, fold.version)
    known = saved_states(store, fold.header.thread)
    saved = between(known, rest.version, fold.version)
    is_cut_short = fold.files is not None and is_in_round(fold)
    try:
        if not known and fold.imported_from:
            raise FileStateError(why_stateless(fold))
        states = open_states(fold, folder, own_redactor().redact)
        steps = await states.steps(saved)
        present = await (states.look_aside() if is_dry else states.look())
        if fold.files is not None and is_cut_short:
            steps += await states.steps_since(fold.files, present)
    except FileStateError as error:
        raise UsageError(
            f"the files cannot be put back: {error.message}",
            hint=error.hint or "without --files only the conversation goes back",
        ) from error
    found = plan(touched(steps), present.entries)
    return _Way(found, present, states, is_cut_short or found.is_half_done, gap)


def _refuse_gap(gap: str) -> None:
    from treadle.errors import UsageError

    if gap:
        raise UsageError(
            f"nothing was changed, because {gap}",
            hint="--force puts back what is known; without --files only the conversation goes back",
        )


def _refuse_conflicts(plan: Plan, thread_id: str) -> None:
    from treadle.errors import UsageError

    if plan.conflicts:
        raise UsageError(
            f"nothing was changed, because others than the agent of {thread_id} have changed "
            f"files that it changed: {_named([one.name for one in plan.conflicts])}",
            hint="--force puts these back too; how they are now is kept in the thread",
        )


async def _go_back(
    writer: ThreadWriter, rest: Rest, way: _Way | None
) -> tuple[int, list[FileChange]]:
    """Do it; returns the version that leads back here, and the files that were left alone.

    The files as they are come first, so that nothing is lost whatever happens then. A process that
    dies before `Rewound` is recorded leaves a thread where it was, and files that are each old or
    new: the same command finishes that.
    """
    from treadle.core.events import CancelRequested, Rewound

    fold, left, restored = writer.fold, [], None
    if way is not None:
        moment: Literal["before", "after"] = "after" if way.is_of_agent else "before"
        saved = await way.states.record(way.present, moment, fold.files)
        if saved is not None:
            writer.stage(saved)
    if not fold.is_idle:
        writer.stage(CancelRequested(reason="the thread was rewound", at=writer.now()))
    writer.commit()
    back = writer.head.seq
    if way is not None:
        left = await way.states.restore(way.plan.changes)
        restored = await way.states.save("after", fold.files)
        if way.states.problem:
            _say(f"the files as they are now were not kept: {way.states.problem}")
    writer.stage(Rewound(rest.version, rest.view, writer.now()))
    if restored is not None:  # behind it: the turn that one leaves ended with other files
        writer.stage(restored)
    writer.commit()
    return back, left


def _told(changes: Sequence[FileChange], left: Sequence[FileChange]) -> list[dict[str, str]]:
    """The files that were put back, and what became of each."""
    words = {"A": "made again", "D": "removed", "M": "put back"}
    alone = {one.path for one in left}
    return [
        {"path": one.name, "what": words[one.status]} for one in changes if one.path not in alone
    ]


def _show(done: dict[str, Any], *, as_json: bool, wants_files: bool) -> None:
    if as_json:
        print_json(done)
        return
    place = f"the end of turn {done['turn']}" if done["turn"] else "before the first prompt"
    verb = "would go" if done["dry_run"] else "went"
    click.echo(f"{done['thread']} {verb} back to {place} (version {done['version']})")
    for key, words in (
        ("messages_hidden", "no longer in view"),
        ("messages_shown_again", "in view again"),
    ):
        if count := done[key]:
            click.echo(f"{count} message{'s' if count > 1 else ''} {words}")
    for one in done["files"]:
        click.echo(f"{one['what']}: {_printable(one['path'])}")
    if wants_files and not done["files"]:
        _say("no file had to be put back")
    if done["dry_run"] and done["conflicts"]:
        _say(f"changed by others too, so --force is needed: {_named(done['conflicts'])}")
    if done["gap"]:
        _say(done["gap"] + ("; so --force is needed" if done["dry_run"] else ""))
    if done["left"]:
        _say(f"left as they are (ignored, not kept, or in the way): {_named(done['left'])}")
    if done["back"]:
        more = " --files" if wants_files else ""
        _say(f"to come back: treadle rewind {done['thread']} --version {done['back']}{more}")


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMES_COUNT_MAX
    shown = ", ".join(_printable(name) for name in names[:NAMES_COUNT_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def _printable(text: str) -> str:
    from treadle.cli.render import printable

    return printable(text).replace("\n", "⏎")


def _say(text: str) -> None:
    from treadle.cli.render import printable

    click.echo(f"treadle: {printable(text)}", err=True)
