"""Git objects, made and read without anything that people see of a repository being touched."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

from treadle import helper_programs
from treadle.errors import FileStateError
from treadle.process.result import Ran
from treadle.scratch_folders import scratch_folder
from treadle.workspace.files import pack_writer
from treadle.workspace.files.entries import FileChange, FileEntry, parse_changes
from treadle.workspace.files.loose_objects import LooseObjects, format_trees
from treadle.workspace.files.private_refs import remove_dead_lock, write_ref
from treadle.workspace.git import Absent, Layout, Repository
from treadle.workspace.git_durability import durable_objects, sync_objects, sync_refs

OUT_SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes that are read of a list of files or of a difference: hundreds of thousands of files."""

BLOB_COUNT_MAX: Final = 256
"""Contents that are read at a time."""

_QUIET: Final = (
    *("-c", "core.hooksPath=/dev/null"),  # looking and keeping run nothing of the repository's
    *("-c", "core.logAllRefUpdates=false"),
    *("-c", "i18n.commitEncoding=UTF-8"),
    *("-c", "core.quotePath=false"),
)
_ALONE: Final = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}
"""Objects are what they are: not what `git replace` says, and never fetched from elsewhere."""

_WHO: Final = "Treadle <treadle@localhost>"
_NO_FILES: Final[Mapping[bytes, FileEntry]] = MappingProxyType({})

ASKED_COUNT_MIN: Final = 8
"""Trees that are written without asking git whether it has them in a pack; they are small."""

_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?(?:\^\{tree\})?")
_ESCAPED: Final = {byte: f"\\{byte:03o}" for byte in (*range(32), ord('"'), ord("\\"), 127)}


class Objects:
    """The objects and private refs of the repository around a folder.

    All methods raise `FileStateError` when git fails, with what it said.

    Args:
        repository: it.
        aside: a folder that new objects go to instead of the repository, so that looking leaves
            nothing behind; the repository's own are seen as well.
    """

    def __init__(self, repository: Repository, *, aside: Path | None = None) -> None:
        self._repository = repository
        self._aside = aside
        self._pending: dict[str, None] = {}
        """What was made, or found to be there, since a ref was set."""
        self._durable: set[str] = set()
        """What a ref was led to."""

    def beside(self, folder: Path) -> Objects:
        """The same objects; new ones go into this folder."""
        return Objects(self._repository, aside=folder)

    async def layout(self) -> Layout:
        """Where the repository lies."""
        layout = await self._repository.layout()
        if isinstance(layout, Absent):
            raise FileStateError(layout.text)
        return layout

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Alone among those that record states here and those that remove objects.

        It is the folder of the repository that is locked, so nothing is left behind. Where folders
        cannot be locked (some network file systems) one goes without.
        """
        common = (await self.layout()).common_dir
        folder = os.open(common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.to_thread(fcntl.flock, folder, fcntl.LOCK_EX)
            except OSError:
                pass
            yield
        finally:
            os.close(folder)

    async def run(
        self, *arguments: str, data: bytes | None = None, extra: Mapping[str, str] | None = None
    ) -> Ran:
        """Run git, whatever comes of it."""
        environment = {**_ALONE, **(extra or {})}
        if self._aside is not None:
            own = (await self.layout()).common_dir / "objects"
            environment["GIT_OBJECT_DIRECTORY"] = str(self._aside)
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted_folder(own)
        # Durable when it is made: a commit of the same contents finds these objects, and moves a
        # branch before they are synced once more for the record.
        program = helper_programs.find_program("git")
        options = (*_QUIET, *(durable_objects(program) if program else ()))
        return await self._repository.read(
            *options, *arguments, data=data, out_size_max=OUT_SIZE_MAX, environment=environment
        )

    async def out(
        self, *arguments: str, data: bytes | None = None, extra: Mapping[str, str] | None = None
    ) -> bytes:
        """What git writes."""
        ran = await self.run(*arguments, data=data, extra=extra)
        if ran.status != 0 or ran.is_cut:
            command = next((one for one in arguments if one[0] != "-"), "")
            said = ran.err.decode("utf-8", "replace").strip().partition("\n")[0]
            what = "it took too long" if ran.was_ended else said or f"status {ran.status}"
            raise FileStateError(f"git {command} failed: {what}")
        return ran.out

    async def types(
        self, ids: Sequence[str], *, own: Sequence[str] = ()
    ) -> list[tuple[str, str, int] | None]:
        """Object id, type and size of each name; `None` where there is no such object.

        Args:
            ids: whole object ids as they were recorded, by this machine or another; what is none
                names nothing, whatever git would take it for. `^{tree}` may stand behind one.
            own: refs of our choice; they are answered first.
        """
        asked = [*own, *(name for name in ids if _ID.fullmatch(name))]
        if not asked:
            return [None for _ in ids]
        data = "".join(f"{name}\n" for name in asked).encode()
        lines = (await self.out("cat-file", "--batch-check", data=data)).split(b"\n")[:-1]
        found: list[tuple[str, str, int] | None] = []
        for line in lines:
            fields = line.decode("utf-8", "replace").rsplit(" ", 2)
            is_there = len(fields) == 3 and fields[2].isdigit()
            found.append((fields[0], fields[1], int(fields[2])) if is_there else None)
        count = len(own)
        answers = dict(zip(asked[count:], found[count:], strict=True))
        return [*found[:count], *(answers.get(name) for name in ids)]

    async def hash_files(self, paths: Sequence[str]) -> list[str]:
        """Write the bytes of these files as blobs, as they are; absolute paths, no links."""
        if len(paths) >= pack_writer.COUNT_MIN:
            return await self._pack(paths)
        store = await self._store()

        def write() -> list[str]:
            return [store.write("blob", pack_writer.read_file(path)) for path in paths]

        return self._note(await asyncio.to_thread(write))

    async def _pack(self, paths: Sequence[str]) -> list[str]:
        """Write them all at once; each group of them has the whole time of a look."""
        found: list[str] = []
        while len(found) < len(paths):
            count, data = await asyncio.to_thread(pack_writer.read_batch, paths[len(found) :])
            oids = (await self.out(*pack_writer.COMMAND, data=data)).decode().split()
            if len(oids) != count:
                raise FileStateError("git fast-import failed: it did not take all in")
            found += oids
        return found

    async def hash_bytes(self, contents: Sequence[bytes]) -> list[str]:
        """Write these bytes as blobs."""
        if len(contents) < pack_writer.COUNT_MIN:
            store = await self._store()

            def write() -> list[str]:
                return [store.write("blob", content) for content in contents]

            return self._note(await asyncio.to_thread(write))
        with scratch_folder() as folder:
            paths = [Path(folder, str(number)) for number in range(len(contents))]
            for path, content in zip(paths, contents, strict=True):
                path.write_bytes(content)
            return await self.hash_files([str(path) for path in paths])

    async def write_tree(
        self, entries: Mapping[bytes, FileEntry], base: Mapping[bytes, FileEntry] = _NO_FILES
    ) -> str:
        """The tree of these files; each of the contents is there.

        Args:
            entries: the files, by path; no path is a folder of another.
            base: files of a tree that a ref leads to, so that its contents are there.

        Raises:
            FileStateError: a content is not there, or the disk refused.
        """
        store = await self._store()
        own = (entry for path, entry in entries.items() if base.get(path) != entry)
        await self._check({entry.oid for entry in own if entry.is_kept}, store)
        trees = await asyncio.to_thread(format_trees, entries, store)
        new = [oid for oid in trees if oid not in self._durable]
        lost = [oid for oid in new if not store.has(oid)]
        if len(lost) > ASKED_COUNT_MIN:  # most are those of the last commit, in a pack
            found = zip(lost, await self.types(lost), strict=True)
            lost = [oid for oid, one in found if one is None]

        def write() -> None:
            for oid in lost:
                store.write("tree", trees[oid])

        await asyncio.to_thread(write)
        self._note(new)
        return list(trees)[-1]

    async def _check(self, oids: set[str], store: LooseObjects) -> None:
        """That these contents are there."""
        unknown = sorted(oid for oid in oids if not store.has(oid))
        for oid, found in zip(unknown, await self.types(unknown), strict=True):
            if found is None:
                raise FileStateError(f"the object {oid} is missing from the repository")

    async def _store(self) -> LooseObjects:
        layout = await self.layout()
        return LooseObjects(self._aside or layout.common_dir / "objects", layout.digest)

    def forget(self) -> None:
        """Believe nothing to be there that was there: somebody else has moved our ref."""
        self._pending.clear()
        self._durable.clear()

    def _note(self, oids: list[str]) -> list[str]:
        """Keep in mind what a ref may come to lead to."""
        self._pending.update(dict.fromkeys(oids))
        return oids

    async def read_tree(self, tree: str) -> dict[bytes, FileEntry]:
        """The files of a tree, by path; it is named as in `types`."""
        if not _ID.fullmatch(tree):
            raise FileStateError("a state of the files is not in the repository any more")
        found: dict[bytes, FileEntry] = {}
        out = await self.out("ls-tree", "-r", "-z", "--full-tree", tree)
        for record in out.split(b"\0")[:-1]:
            what, _, path = record.partition(b"\t")
            mode, _, oid = what.decode().split(" ")
            found[path] = FileEntry(mode, oid)
        return found

    async def contents(self, oids: Iterable[str]) -> dict[str, bytes]:
        """The bytes of these blobs."""
        found: dict[str, bytes] = {}
        wanted = list(dict.fromkeys(oids))
        for at in range(0, len(wanted), BLOB_COUNT_MAX):
            data = "".join(f"{oid}\n" for oid in wanted[at : at + BLOB_COUNT_MAX]).encode()
            found.update(_parse_contents(await self.out("cat-file", "--batch", data=data)))
        return found

    async def parents(self, commits: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """What each of these commits stands on; those that are not there are left out."""
        names = list(dict.fromkeys(commits))
        found = await self.types(names)
        there = [one[0] for one in found if one is not None and one[1] == "commit"]
        contents = await self.contents(there)
        return {
            name: tuple(
                line[7:].decode()
                for line in contents[name].partition(b"\n\n")[0].split(b"\n")
                if line.startswith(b"parent ")
            )
            for name in there
        }

    async def differences(self, pairs: Sequence[tuple[str, str]]) -> list[list[FileChange]]:
        """What differs between each two trees."""
        data = "".join(f"{old} {new}\n" for old, new in pairs).encode()
        out = await self.out("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", data=data)
        found, at = [], 0
        heads = [f"{old} {new}\n".encode() for old, new in pairs]
        for place, head in enumerate(heads):
            start = at + len(head)
            following = heads[place + 1 : place + 2]
            end = _find_head(out, start, following[0]) if following else len(out)
            found.append(parse_changes(out[start:end]))
            at = end
        return found

    async def ignored(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of these paths, relative to the root, that git is to ignore.

        Also those that somebody has made known to git all the same (`git add -f`).
        """
        if not paths:
            return set()
        root = os.fsencode((await self.layout()).root) + b"/"
        data = b"".join(root + path + b"\0" for path in paths)
        ran = await self.run("check-ignore", "--no-index", "-z", "--stdin", data=data)
        if ran.status not in (0, 1):
            raise FileStateError(f"git check-ignore failed: {ran.err.decode('utf-8', 'replace')}")
        return {path.removeprefix(root) for path in ran.out.split(b"\0") if path}

    async def commit(
        self,
        tree: str,
        parents: Sequence[str],
        message: str,
        dates: Mapping[str, str] | None = None,
    ) -> str:
        """A commit by nobody in particular: no hooks, no signature, no branch.

        Args:
            tree: its files.
            parents: what it stands on.
            message: all of it.
            dates: of `author` and `committer`, as git has them (`1700000000 +0100`); now, if not
                given.
        """
        now = f"{int(time.time())} +0000"
        lines = [f"tree {tree}", *(f"parent {one}" for one in parents)]
        lines += [f"{who} {_WHO} {(dates or {}).get(who, now)}" for who in ("author", "committer")]
        content = "\n".join((*lines, "", message)).encode()
        store = await self._store()
        return self._note([await asyncio.to_thread(store.write, "commit", content)])[0]

    async def set_ref(
        self,
        ref: str,
        commit: str | None,
        *,
        old: str = "",
        known: Sequence[str] = (),
        contents: Iterable[str] | None = None,
    ) -> None:
        """Point a private ref to a commit, or remove it; durable, and noted in no reflog.

        What the commit has is durable before the ref is, whoever has written it.

        Args:
            ref: whole name.
            commit: object id; `None` to remove the ref.
            old: if given, only if it points there now.
            known: commits whose objects are durable, or are left to who made them; without any,
                all that no branch, tag or remote leads to is made durable.
            contents: what the commit has besides the known ones and what was made here since a ref
                was set last; git is asked for all of that if it is not given.
        """
        layout = await self.layout()
        if commit is not None:
            if contents is None:
                written = await self._reached(commit, known)
            else:
                written = list(dict.fromkeys((*self._pending, *contents)))
            await asyncio.to_thread(sync_objects, layout.common_dir / "objects", written)
            # Where refs are files, a new one is written in the time that git takes to start.
            if not old and await asyncio.to_thread(write_ref, layout.common_dir, ref, commit):
                self._settle()
                return
        what = ["-d", ref] if commit is None else [ref, commit]
        what += [old] if old else []
        ran = await self.run("update-ref", "--no-deref", *what)
        if ran.status != 0 and remove_dead_lock(layout.common_dir, ref):
            ran = await self.run("update-ref", "--no-deref", *what)
        if ran.status != 0:
            said = ran.err.decode("utf-8", "replace").strip().partition("\n")[0]
            raise FileStateError(f"git update-ref failed: {said}")
        if commit is not None:
            await asyncio.to_thread(sync_refs, {layout.common_dir / ref: layout.common_dir})
            self._settle()

    def _settle(self) -> None:
        """A ref leads to all that was pending, and all of it is durable."""
        self._durable.update(self._pending)
        self._pending.clear()

    async def _reached(self, commit: str, known: Sequence[str]) -> list[str]:
        """The objects that a commit leads to and these do not, and some more at most."""
        if commit in known:
            return []
        if not known:
            others = ("--not", "--branches", "--tags", "--remotes")
            out = await self.out("rev-list", "--objects", commit, *others)
            return [line.partition(" ")[0] for line in out.decode("utf-8", "replace").splitlines()]
        out = await self.out("rev-list", "--format=%T", commit, *(f"^{one}" for one in known), "--")
        # Of each commit "commit", its id, and the tree that no entry of a difference names.
        found = [word for word in out.decode().split() if word != "commit"]
        differ = ("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev")
        for old, new in pairwise([known[-1], *reversed(found[::2])]):
            changes = parse_changes(await self.out(*differ, old, new))
            found += (one.new.oid for one in changes if one.new is not None)
        return found


@contextmanager
def set_aside(objects: Objects) -> Iterator[Objects]:
    """The same objects, where all that is made is gone afterwards."""
    with scratch_folder() as folder:
        yield objects.beside(Path(folder))


def _quoted(path: bytes) -> bytes:
    """A path as git reads one from a line, quoted in the manner of C."""
    text = path.decode("latin-1").translate(_ESCAPED)
    return b'"' + text.encode("latin-1") + b'"'


def _quoted_folder(path: Path) -> str:
    """A folder as git reads one from a list that is separated by colons."""
    return os.fsdecode(_quoted(os.fsencode(path)))


def _find_head(output: bytes, start: int, head: bytes) -> int:
    """Where the differences of the next pair begin.

    A header follows the NUL of a path, and records begin with a colon, so that a file whose name
    is such a header is not taken for one.
    """
    at = start
    while output[at : at + 1] == b":":
        at = output.index(b"\0", output.index(b"\0", at) + 1) + 1
    assert output.startswith(head, at)
    return at


def _parse_contents(output: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        oid, *rest = output[at:end].decode().split(" ")
        if len(rest) != 2:
            raise FileStateError(f"the object {oid} is missing from the repository")
        at = end + 1 + int(rest[1]) + 1
        yield oid, output[end + 1 : at - 1]
