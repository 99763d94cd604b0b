"""Removes for good what nothing needs, after a plan that says what."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.sync.remote_removal import FileStateRemover, ThreadFileStates, make_unsynced_check
from treadle.sandbox.caches import OldCache, find_old_caches, remove_old_caches
from treadle.sandbox.thread_scratch import OldScratch, find_old_scratch, remove_old_scratch
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.disk_usage import DiskUsageShare
from treadle.store.upkeep.garbage import GarbageCollector, GarbageOptions, GarbagePlan, Leftover
from treadle.store.upkeep.trash import TrashedThread
from treadle.thread.ids import is_thread_id


class GarbageRemoval(Struct, frozen=True):
    """What would be removed, or was: files, and the states of files of the threads among them.

    `choice` is what a person wants removed, `at_s` the time of the plan in seconds since 1970.
    """

    files: GarbagePlan
    states: tuple[ThreadFileStates, ...]
    choice: GarbageOptions
    at_s: float

    @property
    def shares(self) -> list[DiskUsageShare]:
        """What there is of each kind of file; kinds of which there is nothing are left out."""
        plan = self.files
        parts: tuple[tuple[str, Sequence[Leftover | TrashedThread]], ...] = (
            ("threads", plan.threads),
            ("large outputs", plan.blobs),
            ("drafts", plan.drafts),
            ("quarantined ends", plan.quarantine),
            ("caches", plan.caches),
            ("scratch folders", plan.scratch),
        )
        return [
            DiskUsageShare(name, len(found), sum(one.size for one in found))
            for name, found in parts
            if found
        ]

    @property
    def dropped_states(self) -> list[ThreadFileStates]:
        """The states that go with their threads."""
        return [one for one in self.states if not one.why]

    @property
    def reasons_to_keep(self) -> list[str]:
        """What is not removed, and why: sentences."""
        return [*self.files.kept, *(one.why for one in self.states if one.why)]


def plan_removal(
    store: LocalStore, *, days_min: float = 0.0, has_quarantine: bool = False
) -> GarbageRemoval:
    """What would be removed now: see `GarbageOptions`. Reads each file of a thread.

    Raises:
        StoreError: a file cannot be read, so that nobody knows what it names.
    """
    choice, at_s = (
        GarbageOptions(days_min, has_quarantine),
        datetime.fromisoformat(store.now()).timestamp(),
    )
    files = GarbageCollector(store, make_unsynced_check(store)).plan(choice)
    needs = _make_need_check(store, files)
    files = replace(
        files,
        caches=_make_leftovers(find_old_caches(store.places.caches, at_s)),
        scratch=_make_leftovers(find_old_scratch(store.places.scratch, at_s, needs)),
    )
    return GarbageRemoval(
        files, tuple(FileStateRemover(store).find_states(files.threads)), choice, at_s
    )


def remove_garbage(store: LocalStore, plan: GarbageRemoval) -> GarbageRemoval:
    """Remove what was planned, if nothing needs it still; what was removed, and what was kept.

    Raises:
        StoreError: what was removed so far is gone; do it again.
    """
    states = FileStateRemover(store)
    files = GarbageCollector(store, make_unsynced_check(store)).remove(
        plan.files, plan.choice, states.drop_states
    )
    paths = (one.path for one in plan.files.caches)
    caches = _make_leftovers(remove_old_caches(store.places.caches, plan.at_s, paths))
    paths = (one.path for one in plan.files.scratch)
    needs = _make_need_check(store, files)
    scratch = _make_leftovers(remove_old_scratch(store.places.scratch, plan.at_s, needs, paths))
    files = replace(files, caches=caches, scratch=scratch)
    return replace(plan, files=files, states=tuple(states.done))


def _make_need_check(store: LocalStore, files: GarbagePlan) -> Callable[[str], bool]:
    """Whether a thread is there, also in the trash, and is none of those that go."""
    going = {one.id for one in files.threads}

    def is_needed(thread_id: str) -> bool:
        if not is_thread_id(thread_id):
            return True  # whatever it is, it is none of ours
        places = (
            store.folders.path(thread_id, JOURNAL_SUFFIX, in_trash=one) for one in (False, True)
        )
        return thread_id not in going and any(map(os.path.lexists, places))

    return is_needed


def _make_leftovers(found: Sequence[OldCache | OldScratch]) -> tuple[Leftover, ...]:
    return tuple(Leftover(one.path, one.size) for one in found)
