"""What this machine's threads know of a commit: the turn that led to it, and its prompt."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from treadle.errors import TreadleError, UnknownThreadError
from treadle.store.local_store import LocalStore
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Base, FilesSaved, ThreadCreated
from treadle.thread.history import NumberedEntry, Turn, list_turns
from treadle.workspace.blame import THREAD_COUNT_MAX, Blamed, Run, SavedBy, blame
from treadle.workspace.provenance import Commit, Reference, list_commits

ThreadLocation: TypeAlias = Literal["here", "trash", "elsewhere", "unreadable"]
"""Where a thread is: `elsewhere` on another machine, or nowhere any more."""

LOCATION_TEXTS: Final[dict[ThreadLocation, str]] = {
    "here": "",
    "trash": "in the trash",
    "elsewhere": "not on this machine",
    "unreadable": "cannot be read here",
}
"""What people are told of it."""

PROMPT_LENGTH_MAX: Final = 60


class ThreadOrigin(Struct, frozen=True):
    """What stands behind a commit or a line: a thread at a version, and the turn it was in.

    `turn` counts the thread's own from 1. `turn_thread` is the thread that the turn is of: another
    one where a fork went on in the middle of it. All of that is empty where it is not known.
    """

    thread: str
    version: int | None = None
    place: ThreadLocation = "here"
    turn: int | None = None
    turn_thread: str = ""
    prompt: str = ""

    @property
    def prompt_line(self) -> str:
        """The first line of the prompt that says something, cut to width."""
        lines = [line.strip() for line in self.prompt.splitlines() if line.strip()]
        line = lines[0] if lines else ""
        return line if len(line) <= PROMPT_LENGTH_MAX else line[: PROMPT_LENGTH_MAX - 1] + "…"

    @property
    def summary(self) -> str:
        """One line for people: the turn and its prompt, and where the thread is if not here."""
        where = f" ({LOCATION_TEXTS[self.place]})" if LOCATION_TEXTS[self.place] else ""
        if self.turn is not None:
            return f"turn {self.turn}: {self.prompt_line}{where}"
        return where.strip() or "(no turn of it is known)"

    @property
    def command(self) -> str:
        """What shows the thread as it stood then; empty if nothing does."""
        if self.place == "trash":
            return f"treadle restore {self.thread}"
        at = "" if self.version is None or self.turn is None else f" --version {self.version}"
        return f"treadle show {self.thread}{at}" if self.place == "here" else ""


class CommitOrigin(Struct, frozen=True):
    """A commit, and what stands behind it."""

    commit: Commit
    threads: tuple[ThreadOrigin, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {**to_builtins(self.commit), "threads": [asdict(one) for one in self.threads]}


class RunOrigin(Struct, frozen=True):
    """Lines in a row that came the same way, and what stands behind them."""

    run: Run
    threads: tuple[ThreadOrigin, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        fields: dict[str, Any] = to_builtins(self.run)
        if fields["commit"] is not None:
            del fields["commit"]["threads"]  # they stand beside it, with all that is known
        return {**fields, "threads": [asdict(one) for one in self.threads]}


class FileOrigin(Struct, frozen=True):
    """Where the lines of a file come from; what git says of it all is in `blamed`."""

    blamed: Blamed
    runs: tuple[RunOrigin, ...]

    @property
    def notice(self) -> str:
        """Why some lines may have no thread that have one; empty if none does."""
        count = f"more than {THREAD_COUNT_MAX} threads have changed this file"
        return f"{count}; older ones are not told" if self.blamed.is_cut else ""

    def to_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "file": self.blamed.name,
            "is_tracked": self.blamed.is_tracked,
            "is_cut": self.blamed.is_cut,
            "runs": [one.to_dict() for one in self.runs],
        }


async def list_commit_origins(
    store: LocalStore, folder: str, span: str | None, count_max: int
) -> tuple[list[CommitOrigin], bool]:
    """The newest commits of a range with what stands behind each; whether there are more.

    Args:
        store: the threads of this machine.
        folder: a folder of the repository.
        span: the range as git takes it; by default all that HEAD reaches.
        count_max: how many commits, at most.

    Raises: as `list_commits`.
    """
    commits, has_more = await list_commits(folder, span, count_max)
    pasts = OriginFinder(store)
    origins = [
        CommitOrigin(one, tuple(map(pasts.find_commit_origin, one.threads))) for one in commits
    ]
    return origins, has_more


async def find_line_origins(
    store: LocalStore, file: Path, first: int, last: int | None
) -> FileOrigin:
    """Where lines of a file come from, counted from 1; without `last`, all from the first on.

    Raises: as `blame`.
    """
    blamed = await blame(file, first, last)
    pasts = OriginFinder(store)
    return FileOrigin(
        blamed, tuple(RunOrigin(run, pasts.find_run_origins(run)) for run in blamed.runs)
    )


class _ThreadOutline(Struct, frozen=True):
    """What is looked up in a thread: its turns, its states of the files, and its base."""

    place: ThreadLocation
    turns: tuple[Turn, ...] = ()
    states: dict[str, int] = {}
    base: Base | None = None
    last: int = 0


class OriginFinder:
    """The threads of a store, each read once.

    Args:
        store: the threads of this machine.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._known: dict[str, _ThreadOutline] = {}

    def find_commit_origin(self, reference: Reference) -> ThreadOrigin:
        """What stands behind a commit whose trailer says this. Never raises."""
        past = self._get_outline(reference.thread)
        version = reference.version
        if past.place not in ("here", "trash") or version is None or version > past.last:
            return ThreadOrigin(reference.thread, version, past.place)
        thread, turn = self._find_turn(reference.thread, version)
        if turn is None:
            return ThreadOrigin(reference.thread, version, past.place)
        return ThreadOrigin(reference.thread, version, past.place, turn.number, thread, turn.prompt)

    def find_state_origin(self, saved: SavedBy) -> ThreadOrigin:
        """What stands behind lines that came in with a state of the files. Never raises."""
        version = self._get_outline(saved.thread).states.get(saved.commit)
        return self.find_commit_origin(Reference(saved.thread, version))

    def find_run_origins(self, run: Run) -> tuple[ThreadOrigin, ...]:
        """What stands behind lines in a row. Never raises."""
        if run.saved is not None:
            return (self.find_state_origin(run.saved),)
        return () if run.commit is None else tuple(map(self.find_commit_origin, run.commit.threads))

    def _find_turn(self, thread: str, version: int) -> tuple[str, Turn | None]:
        """The turn a version is in, and the thread that began it: a fork goes on in its base's."""
        seen = set[str]()
        while thread not in seen:
            seen.add(thread)
            past = self._get_outline(thread)
            begun = [turn for turn in past.turns if turn.version <= version]
            if begun:
                return thread, begun[-1]
            if past.base is None:
                break
            thread, version = past.base.thread, past.base.version
        return thread, None

    def _get_outline(self, thread: str) -> _ThreadOutline:
        if thread not in self._known:
            self._known[thread] = self._read_outline(thread)
        return self._known[thread]

    def _read_outline(self, thread: str) -> _ThreadOutline:
        try:
            is_in_trash = self._store.folders.find(thread)[1]
        except UnknownThreadError:
            return _ThreadOutline("elsewhere")
        except TreadleError:
            return _ThreadOutline("unreadable")
        try:
            records = self._store.scan(thread).records
        except TreadleError:
            return _ThreadOutline("unreadable")
        entries = list[NumberedEntry]()
        for record in records:
            try:
                entries.append((record.seq, record.at, decode_entry(record.event)))
            except UnknownEntryError:
                continue  # of a newer program: it cannot be told, and hides nothing that can
        return _make_outline(entries, "trash" if is_in_trash else "here")


def _make_outline(entries: Iterable[NumberedEntry], place: ThreadLocation) -> _ThreadOutline:
    entries = list(entries)
    if not entries:
        return _ThreadOutline("unreadable")
    first = entries[0][2]
    states = {entry.commit: seq for seq, _, entry in entries if isinstance(entry, FilesSaved)}
    base = first.base if isinstance(first, ThreadCreated) else None
    return _ThreadOutline(place, tuple(list_turns(entries)), states, base, entries[-1][0])
