"""Whom the lines of a file come from: who committed them, or which agent left them uncommitted.

A line that is committed is its commit's, and the commit's trailer names the thread. Any other line
is looked for in the states of the files that were kept for threads (`refs/treadle`): if it came in
with a state from after a round of calls, that thread's agent wrote it. Of a commit older than that
state it had the line; it did not write it.

Git blames commits, so the file as it lies in the folder is made one, in an object store of our own
outside the repository. Nothing in the repository changes, and no program that it or its
configuration names is run: no filter, hook, text conversion, signing program or transport.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import UsageError
from treadle.process.result import Ran
from treadle.scratch_folders import scratch_folder
from treadle.workspace.git import Layout, Repository
from treadle.workspace.provenance import (
    LOG,
    OFFLINE,
    OUT_SIZE_MAX,
    Commit,
    checked,
    present,
    read_log,
)

STATES: Final = "refs/treadle/"
"""Where the states of the files are kept, a reference for each thread."""

STATE_LAG_S: Final = 10
"""Seconds from a commit of an agent's round to the state of the files after it, at most."""

THREAD_COUNT_MAX: Final = 50
"""Threads that changed the file whose states are looked at, newest first; each takes a blame."""

FILE_SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes of a file whose lines are looked at."""

LINE_COUNT_MAX: Final = 200_000
"""Lines that are asked for at a time; each is judged by itself."""

_BINARY_SIZE: Final = 8000
"""A zero among so many first bytes makes a file binary, as for git."""

_QUIET: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.splitIndex=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "i18n.logOutputEncoding=UTF-8", "-c", "grep.patternType=basic"),
)
"""Git's words do not depend on what a person, or a repository, has configured for people."""

_NEWEST: Final = ("rev-list", "--max-count=1", "--regexp-ignore-case")
_AFTER: Final = re.compile(r"^Treadle-Moment:[ \t]*after[ \t]*$", re.IGNORECASE | re.MULTILINE)
_GROUP: Final = re.compile(rb"([0-9a-f]{40,64}) [0-9]+ ([0-9]+) ([0-9]+)")


class SavedBy(Struct, frozen=True):
    """A state of the files in which lines were new: its commit, and the thread it was kept for."""

    commit: str
    thread: str


class Run(Struct, frozen=True):
    """Lines in a row, numbered from 1, that came the same way.

    `commit` is `None` for lines that are not committed. `saved` says which thread's agent wrote
    them, if one did, and no trailer says so. `is_oldest` says that the commit is where a shallow
    clone ends: the lines may be older. `name` is what the file was called in it, if not as now.
    """

    first: int
    last: int
    commit: Commit | None = None
    saved: SavedBy | None = None
    is_oldest: bool = False
    name: str = ""


class Blamed(Struct, frozen=True):
    """Where the lines of a file come from.

    `name` is the file's name in its repository, `text` holds the lines that were asked for.
    `is_tracked` says whether git knows the file; `is_cut` that more than `THREAD_COUNT_MAX` threads
    have changed it, so that a line without a thread may be that of an older one.
    """

    name: str
    text: tuple[str, ...]
    runs: tuple[Run, ...]
    is_tracked: bool
    is_cut: bool = False


class _Origin(Struct, frozen=True):
    """Where git saw a line come in: the commit, and the file's name there."""

    commit: str
    name: bytes


async def blame(path: str | Path, first: int = 1, last: int | None = None) -> Blamed:
    """Where each line of a file, as it lies in the folder now, comes from.

    Differences in nothing but line endings are none.

    Args:
        path: the file; links are followed.
        first: the first line asked for, from 1.
        last: the last one; the file's last by default.

    Raises:
        UsageError: there is no such file or line, it holds no text, or it is in no repository.
        TreadleError: git is not there, or failed.
    """
    file, data = await asyncio.to_thread(_contents, path)
    count = data.count(b"\n") + (data[-1:] not in (b"", b"\n"))
    end = count if last is None else last
    if count or last is not None or first != 1:
        _refuse_range(path, first, end, count)
    repository = Repository(file.parent)
    layout = present(await repository.layout())
    name = layout.prefix + file.name
    with scratch_folder() as folder:
        bench = _Bench(repository, layout, Path(folder), name, data)
        is_tracked = await bench.is_tracked()
        runs, is_cut = await _runs(bench, first, end) if count else ((), False)
    return Blamed(name, _cut_out(data, first, end), runs, is_tracked, is_cut)


def _cut_out(data: bytes, first: int, last: int) -> tuple[str, ...]:
    """The text of these lines, without that of a whole file being taken apart."""
    if not last:
        return ()
    ends = (found.start() for found in re.finditer(b"\n", data))
    start = 0 if first == 1 else next(islice(ends, first - 2, None)) + 1
    stop = next(islice(ends, last - first, None), len(data))
    text = data[start:stop].decode("utf-8", "replace")
    return tuple(text.split("\n"))


class _Bench:
    """The file as a commit, in an object store of its own, and git's judgement of its lines.

    Args:
        repository: where the file is.
        layout: how it lies.
        folder: an empty folder outside of it.
        name: the file, relative to the root.
        data: its contents.
    """

    def __init__(
        self, repository: Repository, layout: Layout, folder: Path, name: str, data: bytes
    ) -> None:
        self.name = name
        self._repository = repository
        self._layout = layout
        self._folder = folder
        self._data = data
        (folder / "info").mkdir()
        self._nothing = folder / "nothing"
        self._nothing.mkdir()
        objects = os.fsencode(layout.common_dir / "objects")
        (folder / "info" / "alternates").write_bytes(objects + b"\n")
        self._environment = {
            **OFFLINE,
            "GIT_OBJECT_DIRECTORY": str(folder),
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }
        self._trees: dict[bytes, str] = {}
        self.oldest = frozenset(_words(layout.common_dir / "shallow"))

    async def git(
        self, *arguments: str, data: bytes | None = None, index: Path | None = None
    ) -> Ran:
        """Run git with our object store: at the root of the repository, or on an index of ours."""
        extra = {} if index is None else self._beside(index)
        return await self._repository.read(
            *_QUIET,
            *arguments,
            folder=self._layout.root if index is None else self._nothing,
            data=data,
            out_size_max=OUT_SIZE_MAX,
            ends_when_full=True,
            environment={**self._environment, **extra},
        )

    def _beside(self, index: Path) -> dict[str, str]:
        """What makes git write an index without looking at the folder.

        To write one it reads files again that may have changed unseen, through their filters.
        """
        return {
            "GIT_INDEX_FILE": str(index),
            "GIT_DIR": str(self._layout.git_dir),
            "GIT_WORK_TREE": str(self._nothing),
        }

    async def is_tracked(self) -> bool:
        """Whether the file is in the index."""
        ran = await self.git("ls-files", "-z", "--cached", "--", self.name)
        return bool(checked(ran, "ls-files"))

    async def heads(self) -> list[str]:
        """What the next commit would follow: HEAD, and what is being merged."""
        found = list[str]()
        for name in ("HEAD", "MERGE_HEAD"):
            ran = await self.git("rev-parse", "--verify", "--quiet", name + "^{commit}")
            found += ran.out.decode().split() if ran.status == 0 else []
        return found

    async def blob_at(self, commit: str) -> str | None:
        """The file's contents in a commit; `None` if it is not there."""
        ran = await self.git("ls-tree", "-z", commit, "--", self.name)
        mode, _, rest = checked(ran, "ls-tree").partition(b" ")
        kind, _, rest = rest.partition(b" ")
        is_file = kind == b"blob" and mode.startswith(b"100")
        return rest.partition(b"\t")[0].decode() if is_file else None

    async def judge(
        self, parents: Sequence[str], ranges: Iterable[tuple[int, int]], *limits: str
    ) -> dict[int, _Origin | None]:
        """Where lines come from, if the file were committed on top of `parents`.

        Args:
            parents: commits.
            ranges: first and last lines.
            limits: what git is told of how far to go back.

        Returns:
            For each line where; `None` if from that very commit.
        """
        final = await self._commit(parents)
        wanted = [f"-L{first},{last}" for first, last in ranges]
        arguments = ("blame", "--incremental", "--no-textconv", "--no-ext-diff", "-M")
        ran = await self.git(*arguments, *wanted, final, *limits, "--", self.name)
        found = dict[int, _Origin | None]()
        group: re.Match[bytes] | None = None
        for line in checked(ran, "blame").split(b"\n"):
            if group is None:
                group = _GROUP.match(line)
            elif line.startswith(b"filename "):
                commit = group[1].decode()
                origin = None if commit == final else _Origin(commit, line[9:])
                start = int(group[2])
                found |= dict.fromkeys(range(start, start + int(group[3])), origin)
                group = None
        return found

    async def _commit(self, parents: Sequence[str]) -> str:
        """The commit that would follow these, with the file as it is now."""
        data = self._data
        blob = await self.blob_at(parents[0]) if parents else None
        if blob is not None and b"\r\n" in data:
            # Which line endings a file has in a folder is often git's doing, nobody's writing.
            before = await self.git("cat-file", "blob", blob)
            if b"\r\n" not in checked(before, "cat-file"):
                data = data.replace(b"\r\n", b"\n")
        written = await self.git("hash-object", "-w", "--no-filters", "--stdin", data=data)
        blob_id = checked(written, "hash-object").strip()
        if blob_id not in self._trees:
            self._trees[blob_id] = await self._tree(blob_id)
        tree = self._trees[blob_id]
        nobody = b"nobody <> 0 +0000\n"
        lines = [b"tree ", tree.encode(), b"\n"]
        for parent in parents:
            lines += [b"parent ", parent.encode(), b"\n"]
        lines += [b"author ", nobody, b"committer ", nobody, b"\nas it lies in the folder\n"]
        made = await self.git("hash-object", "-t", "commit", "-w", "--stdin", data=b"".join(lines))
        return checked(made, "hash-object").decode().strip()

    async def _tree(self, blob: bytes) -> str:
        """What the index holds, with this file; so that git sees which files were renamed."""
        entry = b"100644 %b 0\t%b\0" % (blob, os.fsencode(self.name))
        index = self._folder / "index"
        with suppress(FileNotFoundError):
            shutil.copyfile(self._layout.git_dir / "index", index)
        while True:
            update = ("update-index", "-z", "--add", "--replace", "--index-info")
            ran = await self.git(*update, data=entry, index=index)
            if ran.status == 0:
                ran = await self.git("write-tree", "--missing-ok", index=index)
            if ran.status == 0 or not index.exists():
                return checked(ran, "write-tree").decode().strip()
            index.unlink()  # it holds conflicts, or cannot be read: the file alone must do


async def _runs(bench: _Bench, first: int, last: int) -> tuple[tuple[Run, ...], bool]:
    """The lines from first to last, in runs, and whether threads were left out."""
    origins = await bench.judge(await bench.heads(), [(first, last)])
    used = {one.commit for one in origins.values() if one is not None}
    commits = {commit.hash: commit for commit, _ in await _describe(bench, used)}
    open_lines = dict[int, int | None]()
    for line in range(first, last + 1):
        origin = origins.get(line)
        commit = None if origin is None else commits[origin.commit]
        if commit is None or not commit.threads:
            open_lines[line] = None if commit is None else commit.made_s
    saved, is_cut = await _find_states(bench, open_lines)
    name = os.fsencode(bench.name)
    runs = list[Run]()
    for (origin, state), group in groupby(
        range(first, last + 1), lambda line: (origins.get(line), saved.get(line))
    ):
        lines = list(group)
        run = Run(lines[0], lines[-1], saved=state)
        if origin is not None:
            other = "" if origin.name == name else origin.name.decode("utf-8", "replace")
            is_oldest = origin.commit in bench.oldest
            run = replace(run, commit=commits[origin.commit], is_oldest=is_oldest, name=other)
        runs.append(run)
    return tuple(runs), is_cut


async def _find_states(
    bench: _Bench, lines: dict[int, int | None]
) -> tuple[dict[int, SavedBy], bool]:
    """Which of these lines an agent wrote, as the newest thread has it; and if some were left out.

    Args:
        bench: the file.
        lines: each with when it was committed, in seconds since 1970, if it was.
    """
    found = dict[int, SavedBy]()
    left, seen_count = list(lines), 0
    for head in await _state_heads(bench):
        if not left:
            break
        limits = await _limits(bench, head)
        if not await _changed(bench, *limits, head) or await bench.blob_at(head) is None:
            continue
        if seen_count == THREAD_COUNT_MAX:
            return found, True
        seen_count += 1
        origins = await bench.judge([head], _ranges(left), *limits)
        used = {one.commit for one in origins.values() if one is not None}
        states = {commit.hash: (commit, text) for commit, text in await _describe(bench, used)}
        for line in left:
            origin = origins.get(line)
            state, message = states.get(origin.commit, (None, "")) if origin else (None, "")
            if state is None or not state.threads or not _AFTER.search(message):
                continue
            # What was committed before the agent had it, the agent has only fetched.
            made_s = lines[line]
            if made_s is None or await _had_line(bench, state, made_s):
                found[line] = SavedBy(state.hash, state.threads[-1].thread)
        left = [line for line in left if line not in found]
    return found, False


async def _had_line(bench: _Bench, state: Commit, made_s: int) -> bool:
    """Whether an agent had a line, which came in with a state, when it was committed.

    A commit that it makes itself in a round comes a moment before the state after the round.
    """
    if state.made_s <= made_s:
        return True
    if state.made_s > made_s + STATE_LAG_S:
        return False
    ran = await bench.git("log", "-1", "--format=%ct", f"{state.hash}^")
    return ran.status == 0 and int(ran.out) <= made_s  # the first state has none before it


async def _state_heads(bench: _Bench) -> list[str]:
    """The newest state of each thread, the newest of all first; none if none changed the file."""
    # One walk over all states spares one for each thread, for most files of most repositories.
    if not await _changed(bench, "--first-parent", f"--glob={STATES}"):
        return []
    ran = await bench.git(
        *("for-each-ref", "--sort=-committerdate"),
        *("--format=%(objecttype) %(objectname)", STATES),
    )
    words = [line.split(" ") for line in checked(ran, "for-each-ref").decode().splitlines()]
    return list(dict.fromkeys(name for kind, name in words if kind == "commit"))


async def _changed(bench: _Bench, *what: str) -> bool:
    """Whether the file was changed by a round of calls, among these states."""
    ran = await bench.git(*_NEWEST, "--grep=^Treadle-Moment:[ ]*after", *what, "--", bench.name)
    return bool(checked(ran, "rev-list"))


async def _limits(bench: _Bench, head: str) -> list[str]:
    """How far to go back in a thread's states: not into the history that they begin on."""
    ran = await bench.git(
        *(*_NEWEST, "--first-parent", "--invert-grep", "--grep=^Treadle-Moment:", head)
    )
    below = checked(ran, "rev-list").decode().split()
    return ["--first-parent", *(f"^{commit}" for commit in below)]


def _ranges(lines: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending line numbers as first and last of those in a row."""
    found = list[tuple[int, int]]()
    for line in lines:
        if found and found[-1][1] == line - 1:
            found[-1] = found[-1][0], line
        else:
            found.append((line, line))
    return found


async def _describe(bench: _Bench, commits: Iterable[str]) -> list[tuple[Commit, str]]:
    """What there is to say of commits, with their messages."""
    names = "".join(commit + "\n" for commit in sorted(commits))
    if not names:
        return []
    ran = await bench.git(*LOG, "--no-walk=unsorted", "--stdin", data=names.encode())
    return read_log(checked(ran, "log"))


def _contents(path: str | Path) -> tuple[Path, bytes]:
    """Where a file that holds text really is, and its bytes."""
    try:
        file = Path(path).resolve()
        if file.is_dir():
            raise UsageError(f"{path} is a folder", hint="name a file in it")
        if not file.is_file():
            raise UsageError(f"there is no file {path}")
        if file.stat().st_size > FILE_SIZE_MAX:
            raise UsageError(f"{path} is larger than {FILE_SIZE_MAX >> 20} MiB")
        data = file.read_bytes()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {path}: {why}") from error
    if b"\0" in data[:_BINARY_SIZE]:
        raise UsageError(f"{path} is a binary file: it has no lines")
    return file, data


def _refuse_range(path: str | Path, first: int, last: int, count: int) -> None:
    """Refuse lines that the file does not have."""
    if first < 1 or last < first:
        raise UsageError(f"{first}-{last} are no lines: they are counted from 1, upwards")
    if last > count:
        has = "1 line" if count == 1 else f"{count} lines"
        raise UsageError(f"{path} has {has}: there is no line {last}")
    if last - first >= LINE_COUNT_MAX:
        raise UsageError(
            f"{path} has {count} lines, too many to ask for at a time: {last - first + 1}",
            hint=f"name at most {LINE_COUNT_MAX}: {path}:1-{LINE_COUNT_MAX}",
        )


def _words(path: Path) -> list[str]:
    """The words of a file of git's; none if it is not there."""
    try:
        return path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []
