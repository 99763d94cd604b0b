"""The workspace's files as they were, kept as git commits under a private ref of each thread.

What a person sees of a repository is never touched: not the index, HEAD, branches, stash,
configuration or reflogs. No hook, filter, monitor or signature runs. Ignored files are neither kept
nor changed; repositories within the repository stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

from treadle.errors import FileStateError
from treadle.thread.facts import FilesSaved
from treadle.workspace.files.capture import FILE_SIZE_MAX, Camera, Capture
from treadle.workspace.files.entries import FileChange, FileEntry, Step, compare, names
from treadle.workspace.files.newly_visible_files import find_uncovered
from treadle.workspace.files.objects import Objects, set_aside
from treadle.workspace.files.restore import Put, put_back
from treadle.workspace.files.rewrite import StateRewrite, purge, rewrite_chain
from treadle.workspace.git import Absent, Layout, Repository
from treadle.workspace.status import Status

FAILURE_COUNT_MAX: Final = 2
"""What took too long or found no room so often in a row is not tried before each round again."""

REFS: Final = "refs/treadle/"
GROUP_COUNT: Final = 64
"""Files that are put back at a time: their contents are in memory."""

SKIPPED_COUNT_MAX: Final = 5
"""Names of files that were not kept, as they are recorded."""


class FileStates:
    """The states of one thread's workspace.

    Args:
        folder: the workspace; only what lies in it is kept, even if the repository is larger. Or
            the repository around it, if it is shared with who looks at it just before a state is
            kept: git is asked once.
        thread_id: the thread.
        file_size_max: bytes of a file whose content is kept.
        redact: replaces known secrets; a file that holds one is not kept, unless git has it.
        hides: whether a path is hidden from tools; what is is not kept either, or a command would
            find it in the repository.
    """

    def __init__(
        self,
        folder: str | Path | Repository,
        thread_id: str,
        *,
        file_size_max: int = FILE_SIZE_MAX,
        redact: Callable[[str], str] | None = None,
        hides: Callable[[str], bool] | None = None,
    ) -> None:
        self._thread_id = thread_id
        self._repository = folder if isinstance(folder, Repository) else Repository(folder)
        self._objects = Objects(self._repository)
        self._camera = Camera(
            self._objects, file_size_max=file_size_max, redact=redact, hides=hides
        )
        self._last: tuple[dict[bytes, FileEntry] | None, str] = (None, "")
        self._recorded: Capture | None = None
        """The files as they were recorded last, or found to be unchanged."""
        self._tip = ""
        """The commit that this process has led the ref to, with those files."""
        self._failure_count = 0
        self.problem = ""
        """Why files are not kept; empty while they are."""

    @property
    def ref(self) -> str:
        """The private ref; it keeps all states of the thread from git's garbage collection."""
        return REFS + self._thread_id

    async def save(
        self, moment: Literal["before", "after"], previous: FilesSaved | None
    ) -> FilesSaved | None:
        """See `treadle.runtime.ports.FileStateSaver`. Never raises: `problem` says why.

        Cancelled in between, it leaves objects that git collects some day. What is remembered of
        earlier looks may be out of date (a scrub of another thread removes contents): after an
        error it is forgotten, and all is done once more.
        """
        status = self._repository.take_status()
        layout = await self._repository.layout()
        if isinstance(layout, Absent):
            self.problem = layout.text
        if self._failure_count == FAILURE_COUNT_MAX or isinstance(layout, Absent):
            return None
        try:
            saved = await self._save(moment, previous, status)
        except (FileStateError, OSError) as error:
            self._failure_count += 1
            self._recorded, self._tip = None, ""
            self.problem = str(error)
            return None
        self.problem, self._failure_count = "", 0
        return saved

    async def _save(
        self,
        moment: Literal["before", "after"],
        previous: FilesSaved | None,
        status: Status | None,
    ) -> FilesSaved | None:
        try:
            return await self.record(await self._camera.capture(None, status), moment, previous)
        except (FileStateError, OSError):
            self._last, self._tip = (None, ""), ""
            if not self._camera.forget():
                raise
        return await self.record(await self._camera.capture(), moment, previous)

    async def capture(self, objects: Objects | None = None) -> Capture:
        """The files as they are now, without keeping that as a state.

        Args:
            objects: where contents go, if not into the repository.

        Raises:
            FileStateError: they cannot be looked at.
        """
        return await self._camera.capture(objects)

    async def record(
        self, files: Capture, moment: Literal["before", "after"], previous: FilesSaved | None
    ) -> FilesSaved | None:
        """Keep what `look` has seen. As `save`, but raises.

        Nothing is removed from the repository by a scrub meanwhile: contents that are missing are
        found here, and those that are found stay.

        Raises:
            FileStateError: git failed, or contents are missing by now.
        """
        async with self._objects.locked():
            saved = await self._record(files, moment, previous)
        self._recorded = files
        return saved

    async def _record(
        self, files: Capture, moment: Literal["before", "after"], previous: FilesSaved | None
    ) -> FilesSaved | None:
        known = "" if previous is None else previous.commit
        base = await self._find_base(known)
        if base is None:
            recorded = [known] if known else []
            head, ref, *last = await self._objects.types(recorded, own=("HEAD", self.ref))
            is_there, is_kept = bool(last) and last[0] is not None, ref is not None
        else:
            head, is_there, is_kept = None, True, True
        # A tree that the ref leads to is whole; any other is checked by being written.
        if files.entries != self._last[0] or not is_there or not is_kept:
            tree = await self._objects.write_tree(files.entries, base or {})
            self._last = files.entries, tree
        tree = self._last[1]
        if previous is not None and is_there and tree == previous.tree:
            if not is_kept:  # a fork has the state of its base, and keeps it by a ref of its own
                await self._objects.set_ref(self.ref, known, known=[known])
            self._tip = known
            return None
        parents = durable = [known] if is_there else [] if head is None else [head[0]]
        if moment == "after" and previous is not None and is_there:
            parents = [await self._between(files, previous)]
        commit = await self._objects.commit(tree, parents, self._message(moment))
        contents = None if base is None else _find_contents(files.entries, base)
        await self._objects.set_ref(self.ref, commit, known=durable, contents=contents)
        self._tip = commit
        return FilesSaved(commit, tree, moment, names(files.skipped, SKIPPED_COUNT_MAX))

    async def _find_base(self, known: str) -> Mapping[bytes, FileEntry] | None:
        """The files of the newest state, if it is the one that this process has kept last.

        Then all that it has is there. A scrub, or a `git pack-refs`, ends that: git is asked.
        """
        layout = await self._objects.layout()
        if self._recorded is not None and known and self._tip == known:
            with suppress(OSError):
                if (layout.common_dir / self.ref).read_text(encoding="ascii") == f"{known}\n":
                    return self._recorded.entries
        self._objects.forget()
        return None

    def _message(self, moment: str) -> str:
        return f"{moment}\n\nTreadle-Thread: {self._thread_id}\nTreadle-Moment: {moment}\n"

    async def _between(self, files: Capture, previous: FilesSaved) -> str:
        """What a state after a round stands on: the one before, with what only came into view.

        Such a state in between is in no record: `steps` finds it by the parents.
        """
        earlier = self._recorded or await self._known(previous.commit)
        opened = find_uncovered(earlier, files)
        if not opened:
            return previous.commit
        shown = {path: files.entries[path] for path in opened}
        tree = await self._objects.write_tree(_without_clashes({**earlier.entries, **shown}))
        return await self._objects.commit(tree, [previous.commit], self._message("before"))

    async def _known(self, commit: str) -> Capture:
        """What a recorded state says of the files: as if they had been looked at then."""
        entries = await self._objects.read_tree(commit)
        out = await self._objects.out("show", "--no-patch", "--format=%ct", commit)
        return Capture(entries, (), at_ns=int(out) * 10**9)

    async def exists(self, commit: str) -> bool:
        """Whether a state is still there.

        Raises:
            FileStateError: there is no repository to ask.
        """
        (found,) = await self._objects.types([f"{commit}^{{tree}}"])
        return found is not None

    async def changes(self, old: str, new: str) -> list[FileChange]:
        """What differs between two states (commits or trees), by path.

        Raises:
            FileStateError: one of them is not there any more.
        """
        (found,) = await self.differences([(old, new)])
        return found

    async def differences(self, pairs: Sequence[tuple[str, str]]) -> list[list[FileChange]]:
        """`changes` of many pairs, in one go. Raises as `changes`, and without a repository."""
        await self._objects.layout()
        wanted = list(dict.fromkeys(name for pair in pairs for name in pair))
        found = await self._objects.types([f"{name}^{{tree}}" for name in wanted])
        trees = dict(zip(wanted, found, strict=True))
        if gone := [name for name, one in trees.items() if one is None]:
            raise FileStateError(
                f"{len(gone)} of the states of the files are not in the repository any more",
                hint="it was cloned anew, or they were removed with the thread's other data",
            )
        ids = [tuple(one[0] for name in pair if (one := trees[name])) for pair in pairs]
        return await self._objects.differences([(old, new) for old, new in ids])

    async def diff(
        self,
        old: str,
        new: str,
        paths: Iterable[bytes] | None = None,
        *,
        is_stat: bool = False,
    ) -> bytes:
        """The difference of two states, as a unified diff or its statistics.

        Args:
            old: the one state.
            new: the other.
            paths: the files meant, relative to the root; all by default.
            is_stat: whether to tell lines only.

        Raises:
            FileStateError: one of them is not there any more.
        """
        wanted = None if paths is None else set(paths)
        found = await self.changes(old, new)
        kept = [one for one in found if wanted is None or one.path in wanted]
        return await self.diff_of(kept, is_stat=is_stat)

    async def diff_of(
        self,
        changes: Sequence[FileChange],
        *,
        is_stat: bool = False,
        is_counted: bool = False,
    ) -> bytes:
        """The unified diff of these changes, whatever states they come from.

        Nothing of the repository's choice is run to show it. Files without kept content are left
        out. With `is_counted` it is lines added, lines deleted and path, ended by NULs.
        """
        kept = [one for one in changes if one.is_kept]
        before = {one.path: one.old for one in kept if one.old is not None}
        after = {one.path: one.new for one in kept if one.new is not None}
        form = "--numstat" if is_counted else "--stat=100" if is_stat else "--patch"
        more = ("-z",) if is_counted else ()
        with set_aside(self._objects) as aside:
            old = await aside.write_tree(_without_clashes(before))
            new = await aside.write_tree(_without_clashes(after))
            flags = (
                "-r",
                "--no-ext-diff",
                "--no-textconv",
                "--no-renames",
                "--full-index",
                "--no-color",
            )
            return await aside.out("diff-tree", *flags, form, *more, old, new)

    async def look_aside(self) -> Capture:
        """The files as they are now; nothing at all is left of the look.

        Raises:
            FileStateError: they cannot be looked at.
        """
        with set_aside(self._objects) as aside:
            return await self.capture(aside)

    async def entries(self, state: str) -> dict[bytes, FileEntry]:
        """The files of a state, by path.

        Raises:
            FileStateError: it is not there any more.
        """
        return await self._objects.read_tree(state)

    async def steps(self, saved: Sequence[FilesSaved]) -> list[Step]:
        """What changed from each of these states to the next.

        Files that a round only brought into view are a step of their own, and not the agent's.

        Raises:
            FileStateError: one of them is not there any more.
        """
        await self._objects.layout()
        above = await self._objects.parents(one.commit for one in saved if one.moment == "after")
        known = {one.commit for one in saved}
        between = [one for found in above.values() for one in found if one not in known]
        beyond = await self._objects.parents(between)
        spans: list[tuple[str, str, bool]] = []
        for old, new in pairwise(saved):
            start = old.commit
            for middle in above.get(new.commit, ()) if new.moment == "after" else ():
                if beyond.get(middle) == (start,):
                    spans.append((start, middle, False))
                    start = middle
            spans.append((start, new.commit, new.moment == "after"))
        found = await self.differences([(old, new) for old, new, _ in spans])
        return [Step(span[2], tuple(one)) for span, one in zip(spans, found, strict=True)]

    async def steps_since(self, saved: FilesSaved, present: Capture) -> list[Step]:
        """What changed since a state, in a round whose process died.

        What such a round did is not told apart from what others did meanwhile: it counts as both.

        Raises:
            FileStateError: the state is not there any more.
        """
        earlier = await self._known(saved.commit)
        opened = find_uncovered(earlier, present)
        since = compare(earlier.entries, present.entries)
        shown = tuple(one for one in since if one.path in opened)
        rest = tuple(one for one in since if one.path not in opened)
        return [Step(False, shown), Step(True, rest), Step(False, rest)]

    async def restore(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Put files from `old` (as they are now) to `new`.

        Files that git ignores are not removed: rules of what is ignored are put back first, and
        what the agent only uncovered by changing them is not its work.

        Returns:
            Those that were left alone: they had changed meanwhile, stand behind a link, or are
            ignored.

        Raises:
            FileStateError: a content is missing, or the disk refused; what was put back is whole.
        """
        layout = await self._objects.layout()
        rules = [one for one in changes if one.path.rpartition(b"/")[2] == b".gitignore"]
        ruled = {one.path for one in rules}
        left = await self._put(layout, rules)
        gone = [one for one in changes if one.new is None and one.path not in ruled]
        ignored = await self._objects.ignored([one.path for one in gone])
        left += [one for one in gone if one.path in ignored]
        left += await self._put(layout, [one for one in gone if one.path not in ignored])
        rest = [one for one in changes if one.new is not None and one.path not in ruled]
        return left + await self._put(layout, rest)

    async def _put(self, layout: Layout, changes: Sequence[FileChange]) -> list[FileChange]:
        """Put these back, not too many contents at a time."""
        kept = [one for one in changes if one.is_kept]
        left = []
        for at in range(0, len(kept), GROUP_COUNT):
            some = kept[at : at + GROUP_COUNT]
            contents = await self._objects.contents(
                one.new.oid for one in some if one.new is not None
            )
            puts = [Put(one, b"" if one.new is None else contents[one.new.oid]) for one in some]
            left += put_back(layout.root, layout.prefix, puts)
        return left

    async def tip(self) -> str | None:
        """The commit that keeps all states of the thread; `None` if none are kept.

        Raises:
            FileStateError: git failed, or there is no repository.
        """
        (found,) = await self._objects.types([], own=[self.ref])
        return None if found is None else found[0]

    async def drop(self, thread_id: str | None = None, *, tip: str = "") -> None:
        """Let go of all states of a thread; git collects them in its own time.

        Args:
            thread_id: another thread than the own one.
            tip: if given, only if this is still their last one.

        Raises:
            FileStateError: git failed, or there is no repository, or it is not.
        """
        await self._objects.set_ref(REFS + (thread_id or self._thread_id), None, old=tip)

    async def rewrite(
        self, commits: Sequence[str], replace: Callable[[bytes], bytes]
    ) -> StateRewrite:
        """Replace contents in all states of the thread. See `rewrite.rewrite_chain`."""
        return await rewrite_chain(self._objects, self.ref, commits, replace)

    async def purge(self, rewritten: StateRewrite) -> dict[str, str]:
        """Remove what `rewrite` has replaced, once that is recorded. See `rewrite.purge`."""
        return await purge(self._objects, rewritten)


def _without_clashes(entries: dict[bytes, FileEntry]) -> dict[bytes, FileEntry]:
    """Of a file and a folder of the same name only the files in the folder: a tree has one."""
    folders = {path[:at] for path in entries for at in _slashes(path)}
    return {path: entry for path, entry in entries.items() if path not in folders}


def _slashes(path: bytes) -> Iterable[int]:
    return (place for place, byte in enumerate(path) if byte == ord("/"))


def _find_contents(entries: Mapping[bytes, FileEntry], base: Mapping[bytes, FileEntry]) -> set[str]:
    return {one.oid for path, one in entries.items() if one.is_kept and base.get(path) != one}
