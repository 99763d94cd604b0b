"""Taking a text out of the states of a thread: the chain is made anew, the old objects removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.workspace.files.entries import FileEntry
from treadle.workspace.files.objects import BLOB_COUNT_MAX, Objects

PACKED: Final = "packed with other objects"
REACHED: Final = "used elsewhere in the repository"


class StateRewrite(Struct, frozen=True):
    """What became of a thread's states.

    `commits` and `trees` name for each old one the new one, the same if it held nothing. `contents`
    are the old contents that held something, `named` the old trees in which names of files or
    folders did; `left_out` says how many files are in no new tree, because no other name was free.
    """

    commits: Mapping[str, str]
    trees: Mapping[str, str]
    contents: frozenset[str]
    named: frozenset[str] = frozenset()
    left_out: int = 0


class _State(Struct, frozen=True):
    tree: str
    parents: tuple[str, ...]
    dates: Mapping[str, str]
    message: str


async def rewrite_chain(
    objects: Objects, ref: str, commits: Sequence[str], replace: Callable[[bytes], bytes]
) -> StateRewrite:
    """Replace contents and names in all states of a thread, and move its ref to the new ones.

    States that nobody recorded (their process died) are rewritten too if the ref still leads to
    them. The old ones stay until `purge`, or until git collects them: so done again after it was
    cut short, this says the same. Files on disk are not touched.

    Args:
        objects: the repository's.
        ref: the thread's private ref.
        commits: the states that are recorded; those that are gone are passed over.
        replace: the new content of a file; of its path as well.

    Raises:
        FileStateError: git failed.
    """
    states = await _states(objects, ref, commits)
    trees = {tree: await objects.read_tree(tree) for tree in {one.tree for one in states.values()}}
    blobs = await _replaced(objects, trees.values(), replace)
    new_trees, named, left_out = dict[str, str](), set[str](), set[bytes]()
    for tree, entries in trees.items():
        renamed, lost = rename(entries, replace)
        left_out |= lost
        if renamed.keys() != entries.keys():
            named.add(tree)
        changed = {
            path: FileEntry(entry.mode, blobs.get(entry.oid, entry.oid))
            for path, entry in renamed.items()
        }
        new_trees[tree] = tree if changed == entries else await objects.write_tree(changed)
    new_commits: dict[str, str] = {}
    for commit, state in states.items():
        parents = tuple(new_commits.get(parent, parent) for parent in state.parents)
        tree = new_trees[state.tree]
        is_same = (tree, parents) == (state.tree, state.parents)
        new_commits[commit] = (
            commit if is_same else await objects.commit(tree, parents, state.message, state.dates)
        )
    (tip,) = await objects.types([], own=[ref])
    if tip is not None and new_commits.get(tip[0], tip[0]) != tip[0]:
        await objects.set_ref(ref, new_commits[tip[0]])
    contents = frozenset(blobs)
    return StateRewrite(new_commits, new_trees, contents, frozenset(named), len(left_out))


def rename(
    entries: Mapping[bytes, FileEntry], replace: Callable[[bytes], bytes]
) -> tuple[dict[bytes, FileEntry], set[bytes]]:
    """The files of a tree, with the text taken out of their paths. Pure.

    Returns:
        The files by their new paths; and those that are left out, because the new path cannot be
        one, or is that of another file, or lies beneath or above one.
    """
    news = {path: replace(path) for path in entries}
    kept = {path: entry for path, entry in entries.items() if news[path] == path}
    taken = set(kept)
    folders = {folder for path in kept for folder in _folders(path)}
    lost = set[bytes]()
    for path in sorted(entries.keys() - kept.keys()):
        new = news[path]
        above = set(_folders(new))
        is_odd = any(part.lower() in _ODD for part in new.split(b"/")) or b"\0" in new
        if is_odd or new in taken or new in folders or above & taken:
            lost.add(path)
            continue
        kept[new] = entries[path]
        taken.add(new)
        folders |= above
    return kept, lost


_ODD: Final = frozenset({b"", b".", b"..", b".git"})
"""What git takes for no name in a tree."""


def _folders(path: bytes) -> list[bytes]:
    return [path[:at] for at, byte in enumerate(path) if byte == ord("/")]


async def _states(objects: Objects, ref: str, commits: Sequence[str]) -> dict[str, _State]:
    """The thread's states with all that they stand on, oldest first; only ours, no one else's."""
    asked = await objects.types(list(dict.fromkeys(commits)), own=[ref])
    found = [one[0] for one in asked if one is not None and one[1] == "commit"]
    if not found:
        return {}
    only_ours = ("--fixed-strings", "--committer=Treadle <treadle@localhost>")
    out = await objects.out("rev-list", "--topo-order", "--reverse", *only_ours, *found, "--")
    names = out.decode().split()
    contents = await objects.contents(names)
    return {name: _parse_state(contents[name]) for name in names}


def _parse_state(content: bytes) -> _State:
    head, _, message = content.decode("utf-8", "replace").partition("\n\n")
    fields = [line.partition(" ")[::2] for line in head.split("\n")]
    dates = {}
    for key, value in fields:
        if key in ("author", "committer"):
            dates[key] = " ".join(value.rsplit(" ", 2)[-2:])
    parents = tuple(value for key, value in fields if key == "parent")
    return _State(dict(fields)["tree"], parents, dates, message)


async def _replaced(
    objects: Objects,
    trees: Iterable[Mapping[bytes, FileEntry]],
    replace: Callable[[bytes], bytes],
) -> dict[str, str]:
    """The blobs whose content changes, with the new ones."""
    oids = list({entry.oid: None for tree in trees for entry in tree.values() if entry.is_kept})
    found: dict[str, str] = {}
    for at in range(0, len(oids), BLOB_COUNT_MAX):
        contents = await objects.contents(oids[at : at + BLOB_COUNT_MAX])
        changed = {
            oid: new for oid, content in contents.items() if (new := replace(content)) != content
        }
        found.update(zip(changed, await objects.hash_bytes(list(changed.values())), strict=True))
    return found


async def purge(objects: Objects, rewritten: StateRewrite) -> dict[str, str]:
    """Remove the old states of a chain from the repository, as far as nothing else reaches them.

    Git says itself what nothing reaches: no branch, tag, reflog, index or other ref, in any work
    tree. It is asked, and what it names removed, while no thread records a state. Commits go first,
    then trees, then contents: none is left that lacks something.

    Args:
        objects: the repository's.
        rewritten: what `rewrite_chain` did; the new states are recorded by now.

    Returns:
        The old contents, and the old trees with such names, that are still there, each with the
        reason.

    Raises:
        FileStateError: git failed.
    """
    if not rewritten.contents and not rewritten.named:
        return {}
    async with objects.locked():
        return await _purge(objects, rewritten)


async def _purge(objects: Objects, rewritten: StateRewrite) -> dict[str, str]:
    blobs = rewritten.contents
    commits = {one for one, other in rewritten.commits.items() if one != other}
    roots = {one for one, other in rewritten.trees.items() if one != other}
    stores = (await objects.layout()).common_dir / "objects"
    lines = (await objects.out("prune", "--dry-run", "--expire=now")).decode().splitlines()
    lost = {line.partition(" ")[0] for line in lines}
    trees: set[str] = set()
    for tree in roots:
        out = await objects.out("ls-tree", "-r", "-d", "-t", "--format=%(objectname)", tree)
        trees |= {tree, *out.decode().split()}
    for gone in (commits, trees, blobs):
        for oid in lost & gone:
            with suppress(FileNotFoundError):
                _loose(stores, oid).unlink()
    names = sorted(blobs | rewritten.named)
    found = zip(names, await objects.types(names), strict=True)
    return {
        oid: REACHED if _loose(stores, oid).exists() else PACKED
        for oid, one in found
        if one is not None
    }


def _loose(stores: Path, oid: str) -> Path:
    return stores / oid[:2] / oid[2:]
