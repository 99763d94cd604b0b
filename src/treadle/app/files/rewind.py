"""Going back to an earlier place of a thread, its files included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from treadle.app.files.file_history import (
    explain_missing_states,
    find_gap,
    is_in_round,
    list_saved_states,
    open_states,
    select_states,
)
from treadle.app.files.name_text import format_names
from treadle.app.notices import Notify, ignore_notice
from treadle.app.threads.inherited_turns import find_inherited_rest
from treadle.core.conversation import View
from treadle.core.events import CancelRequested, Rewound
from treadle.errors import FileStateError, UsageError
from treadle.runtime.defaults import make_user_redactor
from treadle.store.local_store import LocalStore
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.fold import TASK, ThreadFold
from treadle.thread.history import Rest, find_rest_after_turn, find_rest_at
from treadle.thread.ids import is_name_of
from treadle.workspace.files.capture import Capture
from treadle.workspace.files.entries import FileChange, touched
from treadle.workspace.files.states import FileStates
from treadle.workspace.files.undo_plan import Plan, plan

_OUTCOMES = {"A": "made again", "D": "removed", "M": "put back"}


class RewindRequest(Struct, frozen=True):
    """Where to go back to, and what goes with it.

    `version` or `turn` names the place; neither means where the last turn began. With `of` the
    version is one of the thread that a fork goes on from; only the conversation goes back there.
    `force` puts back files that others changed too. `folder` is where the files are now, if not
    where they were. `dry_run` changes nothing.
    """

    version: int | None = None
    turn: int | None = None
    wants_files: bool = False
    force: bool = False
    dry_run: bool = False
    folder: str | None = None
    of: str = ""


class RestoredFile(Struct, frozen=True):
    """A file that was put back, and what became of it."""

    path: str
    what: str


class RewindResult(Struct, frozen=True):
    """What was done, or with `dry_run` would be.

    `turn` is the last one in view now, 0 before the first. `conflicts` are files that others have
    changed too, `left` those that stay as they are. `gap` says why some of what the agent changed
    is not known. `back` is the version that leads back to how it was.
    """

    thread: str
    version: int
    turn: int
    messages_hidden: int
    messages_shown_again: int
    files: tuple[RestoredFile, ...]
    conflicts: tuple[str, ...]
    gap: str | None
    left: tuple[str, ...]
    back: int | None
    dry_run: bool


class _FileUndo(NamedTuple):
    """How the files get back: what is to be done, from how they are, by whom.

    `gap` says why some of what the agent changed is not known; empty if all of it is.
    """

    plan: Plan
    present: Capture
    states: FileStates
    is_of_agent: bool
    gap: str


async def rewind_thread(
    store: LocalStore,
    thread: str,
    request: RewindRequest = RewindRequest(),  # noqa: B008  it is frozen
    *,
    notify: Notify = ignore_notice,
) -> RewindResult:
    """Go back in a conversation.

    Args:
        store: where the thread is.
        thread: the beginning or the end of its id.
        request: where to, and what goes with it.
        notify: gets sentences for people, while it goes on.

    Raises:
        UsageError: there is no such place, the thread stands there already, or files that others
            changed too are in the way.
        StoreError: the thread is busy, damaged or newer, or the disk refused.
    """
    thread_id = store.resolve(thread)
    loaded = store.load(thread_id)
    if loaded.fold.header.machine == TASK:
        raise UsageError(
            f"thread {thread_id} is a task, which has no turns to go back to",
            hint=f"go on from an earlier version of it: treadle fork {thread_id} --version N",
        )
    writer = None if request.dry_run else store.open(thread_id)
    try:
        if note := loaded.problem if writer is None else writer.note:
            notify(note)
        fold = loaded.fold if writer is None else writer.fold
        rest = _find_target(store, fold, request)
        view = fold.conversation.view
        now, then = _list_visible_messages(view), _list_visible_messages(rest.view)
        undo = await _plan_undo(store, fold, rest, request) if request.wants_files else None
        if undo is not None and not (request.force or request.dry_run):
            _refuse_gap(undo.gap)
            _refuse_conflicts(undo.plan, thread_id)
        if shows_the_same(view, rest.view) and fold.is_idle and not (undo and undo.plan.changes):
            raise UsageError(f"thread {thread_id} stands there already; nothing was changed")
        if not fold.is_idle:
            notify("what was unfinished or waited for an answer is given up")
        back, left = (0, []) if writer is None else await _apply_rewind(writer, rest, undo, notify)
    finally:
        problem = None if writer is None else writer.close()
    if problem is not None:
        notify(str(problem))
    return RewindResult(
        thread=thread_id,
        version=rest.version,
        turn=rest.turn,
        messages_hidden=len(now - then),
        messages_shown_again=len(then - now),
        files=() if undo is None else _list_restored(undo.plan.changes, left),
        conflicts=() if undo is None else tuple(one.name for one in undo.plan.conflicts),
        gap=(undo and undo.gap) or None,
        left=tuple(one.name for one in (*left, *(() if undo is None else undo.plan.unkept))),
        back=back or None,
        dry_run=request.dry_run,
    )


def _find_target(store: LocalStore, fold: ThreadFold, request: RewindRequest) -> Rest:
    """Where to go back to.

    Raises:
        UsageError: there is no such place.
    """
    version, turn = request.version, request.turn
    thread_id, found = fold.header.thread, store.list_rests(fold.header.thread)
    if request.of and not is_name_of(request.of, thread_id):
        return _find_inherited_target(store, thread_id, request)
    if version is not None:
        if version > fold.version:
            raise UsageError(f"thread {thread_id} has versions 1 to {fold.version}, not {version}")
        rest, what = find_rest_at(found, version), f"version {version}"
    elif turn is not None:
        rest, what = find_rest_after_turn(found, turn), f"turn {turn}"
    elif not fold.is_idle:
        rest, what = (found[-1] if found else None), "its last turn"
    else:
        rest, what = _find_rest_before_last_turn(found), "its last turn"
    if rest is None and version is None and turn is None:
        raise UsageError(f"thread {thread_id} has no turn in view that could be taken back")
    if rest is None:
        raise UsageError(
            f"thread {thread_id} has no place to go back to for {what}",
            hint=f"treadle show {thread_id}",
        )
    return rest


def _find_inherited_target(store: LocalStore, thread_id: str, request: RewindRequest) -> Rest:
    if request.version is None:
        raise UsageError("which version of the other thread?", hint="say it with --version N")
    if request.wants_files:
        raise UsageError(
            "files go back within a thread, not to what it was forked from",
            hint=f"without --files the conversation goes back; for the files: treadle rewind "
            f"{request.of} --version {request.version} --files",
        )
    return find_inherited_rest(store, thread_id, request.of, request.version)


def _find_rest_before_last_turn(found: list[Rest]) -> Rest | None:
    """The last place before the turn that is in view now; what stood there may be a rewind."""
    if not found or not found[-1].turn:
        return None
    began = next(place for place, rest in enumerate(found) if rest.turn == found[-1].turn)
    return found[began - 1] if began else None


def shows_the_same(view: View, other: View) -> bool:
    """Whether a model is shown the same messages in both."""
    is_same = (view.compaction, view.masking) == (other.compaction, other.masking)
    return is_same and _list_visible_messages(view) == _list_visible_messages(other)


def _list_visible_messages(view: View) -> frozenset[int]:
    """The messages, by number from 0, that no summary stands for."""
    hidden = {at for start, end in view.hidden for at in range(start, end)}
    first = 0 if view.compaction is None else view.compaction.through
    return frozenset(range(first, view.length)) - hidden


async def _plan_undo(
    store: LocalStore, fold: ThreadFold, rest: Rest, request: RewindRequest
) -> _FileUndo:
    """What putting the files back takes.

    Raises:
        UsageError: the states of the files cannot be had.
    """
    gap = find_gap(store, fold.header.thread, rest.version, fold.version)
    known = list_saved_states(store, fold.header.thread)
    saved = select_states(known, rest.version, fold.version)
    is_cut_short = fold.files is not None and is_in_round(fold)
    try:
        if not known and fold.imported_from:
            raise FileStateError(explain_missing_states(fold))
        states = open_states(fold, request.folder, make_user_redactor().redact)
        steps = await states.steps(saved)
        present = await (states.look_aside() if request.dry_run else states.capture())
        if fold.files is not None and is_cut_short:
            steps += await states.steps_since(fold.files, present)
    except FileStateError as error:
        raise UsageError(
            f"the files cannot be put back: {error.message}",
            hint=error.hint or "without --files only the conversation goes back",
        ) from error
    found = plan(touched(steps), present.entries)
    return _FileUndo(found, present, states, is_cut_short or found.is_half_done, gap)


def _refuse_gap(gap: str) -> None:
    if gap:
        raise UsageError(
            f"nothing was changed, because {gap}",
            hint="--force puts back what is known; without --files only the conversation goes back",
        )


def _refuse_conflicts(plan: Plan, thread_id: str) -> None:
    if plan.conflicts:
        raise UsageError(
            f"nothing was changed, because others than the agent of {thread_id} have changed "
            f"files that it changed: {format_names([one.name for one in plan.conflicts])}",
            hint="--force puts these back too; how they are now is kept in the thread",
        )


async def _apply_rewind(
    writer: ThreadWriter, rest: Rest, undo: _FileUndo | None, notify: Notify
) -> tuple[int, list[FileChange]]:
    """Do it; returns the version that leads back here, and the files that were left alone.

    The files as they are come first, so that nothing is lost whatever happens then. A process that
    dies before `Rewound` is recorded leaves a thread where it was, and files that are each old or
    new: the same command finishes that.
    """
    fold, left, restored = writer.fold, [], None
    if undo is not None:
        moment: Literal["before", "after"] = "after" if undo.is_of_agent else "before"
        saved = await undo.states.record(undo.present, moment, fold.files)
        if saved is not None:
            writer.stage(saved)
    if not fold.is_idle:
        writer.stage(CancelRequested(reason="the thread was rewound", at=writer.now()))
    writer.commit()
    back = writer.head.seq
    if undo is not None:
        left = await undo.states.restore(undo.plan.changes)
        restored = await undo.states.save("after", fold.files)
        if undo.states.problem:
            notify(f"the files as they are now were not kept: {undo.states.problem}")
    writer.stage(Rewound(rest.version, rest.view, writer.now()))
    if restored is not None:  # behind it: the turn that one leaves ended with other files
        writer.stage(restored)
    writer.commit()
    return back, left


def _list_restored(
    changes: Sequence[FileChange], left: Sequence[FileChange]
) -> tuple[RestoredFile, ...]:
    alone = {one.path for one in left}
    return tuple(
        RestoredFile(one.name, _OUTCOMES[one.status]) for one in changes if one.path not in alone
    )
