"""The path corpus and the race of the acceptance suite (T1), with `openat2` and without."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tools.definitions import list_path_tools
from tools.descriptors import opened
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolExecutionOutcome
from treadle.errors import UsageError
from treadle.platform.open_beneath import OpenBeneath, open_beneath, open_by_walk
from treadle.tool_failure import ToolFailure
from treadle.tools.builtin import OWN_TOOLS
from treadle.tools.files import overwrite
from treadle.tools.grep import answer
from treadle.tools.paths import Root
from treadle.tools.registry import Registry
from treadle.tools.search_files import make_request

SECRET = "SECRET"

# path -> the operations that must succeed: read, write, create, edit, list. All others must be
# refused, and none may show or change anything outside.
CORPUS = {
    "a.txt": "rwe",
    "./a.txt": "rwe",
    "sub/b.txt": "rwe",
    "sub//b.txt": "rwe",
    "sub/./b.txt": "rwe",
    "sub/../a.txt": "rwe",
    "sub/deep/../../a.txt": "rwe",
    "sub/deep/c.txt": "rwe",
    "{ws}/a.txt": "rwe",
    "/{ws}/a.txt": "rwe",
    "{ws}/sub/../a.txt": "rwe",
    "with space/ä ö.txt": "rwe",
    "-dash.txt": "rwe",
    "..data": "rwe",
    ".../d.txt": "rwe",
    "~tilde.txt": "rwe",
    "back\\slash.txt": "rwe",
    "line\nbreak.txt": "rwe",
    "empty.txt": "rwc",
    "hard.txt": "rwe",
    "link": "rwe",
    "link_twice": "rwe",
    "link_dotted": "rwe",
    "sub/link_up": "rwe",
    "link_absolute": "rwe",
    "link_dir/b.txt": "rwe",
    "link_dir/../a.txt": "rwe",
    "link_dir_absolute/b.txt": "rwe",
    "link_dir_absolute/deep/c.txt": "rwe",
    "new.txt": "wc",
    "made/for/this/new.txt": "wc",
    "sub/new.txt": "wc",
    "link_dir/new.txt": "wc",
    "link_dir_absolute/new/er.txt": "wc",
    "dangling_inside": "wc",
    "sub/../new.txt": "wc",
    ".gitignore": "wc",
    ".github/new.yml": "wc",
    ".": "l",
    "sub": "l",
    "sub/": "l",
    "sub/deep/..": "l",
    "{ws}": "l",
    "{ws}/": "l",
    "link_dir": "l",
    "link_dir_absolute": "l",
    ".git": "l",
    ".git/config": "r",
    ".git/hooks": "l",
    ".git/hooks/pre-commit": "",
    ".git/new/folder/file": "",
    "link_git/config": "r",
    "link_git/hooks/pre-commit": "",
    "link_config": "r",
    "sub/.git": "",
    "sub/.git/config": "",
    "sub/.GIT/config": "",
    ".treadle": "l",
    ".treadle/config.toml": "r",
    ".treadle/hooks.toml": "",
    "link_own/config.toml": "r",
    "link_own/new/file": "",
    "link_settings": "r",
    "sub/.treadle": "",
    "sub/.Treadle/config.toml": "",
    "": "",
    "..": "",
    "../": "",
    "../outside": "",
    "../outside/secret.txt": "",
    "../outside/new.txt": "",
    "../ws-evil/secret.txt": "",
    "{ws}-evil/secret.txt": "",
    "{ws}/../outside/secret.txt": "",
    "../ws/a.txt": "",
    "sub/../../outside/secret.txt": "",
    "sub/../../outside/new.txt": "",
    "{out}/secret.txt": "",
    "{out}/new.txt": "",
    "/etc/passwd": "",
    "/": "",
    "//etc/passwd": "",
    "/proc/self/root/etc/passwd": "",
    "/dev/stdin": "",
    "/dev/zero": "",
    "~": "",
    "~/secret.txt": "",
    "missing/../a.txt": "",
    "missing/../../outside/secret.txt": "",
    "missing/../../outside/new.txt": "",
    "missing/../new.txt": "",
    "a.txt/b": "",
    "a.txt/../a.txt": "",
    "a\0.txt": "",
    "a.txt\0/../../outside/secret.txt": "",
    "x" * 300: "",
    "d/" * 3000 + "f": "",
    "out_file": "",
    "out_relative": "",
    "out_chain": "",
    "out_dir": "",
    "out_dir/secret.txt": "",
    "out_dir/new.txt": "",
    "out_dir/new/folder/file": "",
    "out_dir_relative/secret.txt": "",
    "out_dir_twice/secret.txt": "",
    "sub/out_up/secret.txt": "",
    "out_and_back": "",
    "out_dangling": "",
    "out_dangling_relative": "",
    "out_dangling_dir/file": "",
    "out_root/etc/passwd": "",
    "out_cwd": "",
    "loop": "",
    "loop/x": "",
    "loop_a": "",
    "fifo": "",
    "socket": "",
    "device": "",
    "link_fifo": "",
}

OPERATIONS = {
    "r": ("read_file", {}),
    "w": ("write_file", {"content": "written"}),
    "c": ("edit_file", {"edits": [{"old_str": "", "new_str": "created"}]}),
    "e": ("edit_file", {"edits": [{"old_str": "plain", "new_str": "edited"}]}),
    "l": ("list_files", {}),
    "rl": ("search_files", {"pattern": "plain|written|created"}),
    "w:add": ("apply_patch", {"patch": "*** Add File: {path}\n+written"}),
    "e:update": ("apply_patch", {"patch": "*** Update File: {path}\n@@\n-plain\n+edited"}),
    "w:move": ("apply_patch", {"patch": "*** Update File: origin\n*** Move to: {path}"}),
    "d:delete": ("apply_patch", {"patch": "*** Delete File: {path}"}),
}
"""By letters of `CORPUS`: where one of them stands, the operation must succeed. `d` is where `r`
and `w` do: what is not there cannot be removed."""
SEARCH_STEP = 13
"""One of so many paths is searched as all are: by a process of its own, which takes its time."""


def build(folder: Path) -> tuple[Path, Path]:
    """A workspace with everything that may lead astray, and what lies around it."""
    ws, out = folder / "ws", folder / "outside"
    for made in ("ws/sub/deep", "ws/with space", "ws/...", "ws/.git/hooks", "outside", "ws-evil"):
        (folder / made).mkdir(parents=True)
    names = ["a.txt", "sub/b.txt", "sub/deep/c.txt", "-dash.txt", "..data", ".../d.txt"]
    names += ["~tilde.txt", "with space/ä ö.txt", "back\\slash.txt", "line\nbreak.txt"]
    (ws / ".treadle").mkdir()
    for name in [*names, ".git/config", ".treadle/config.toml"]:
        (ws / name).write_text("plain")
    (ws / "empty.txt").touch()
    (out / "secret.txt").write_text(f"plain {SECRET}")
    (folder / "ws-evil/secret.txt").write_text(f"plain {SECRET}")
    (out / "hard.txt").write_text("plain")
    os.link(out / "hard.txt", ws / "hard.txt")
    links = {
        "link": "a.txt",
        "link_twice": "link",
        "link_dotted": "sub/../a.txt",
        "sub/link_up": "../a.txt",
        "link_absolute": ws / "a.txt",
        "link_dir": "sub",
        "link_dir_absolute": ws / "sub",
        "dangling_inside": "nowhere.txt",
        "link_git": ".git",
        "link_config": ".git/config",
        "link_own": ".treadle",
        "link_settings": ".treadle/config.toml",
        "out_file": out / "secret.txt",
        "out_relative": "../outside/secret.txt",
        "out_chain": "out_relative",
        "out_dir": out,
        "out_dir_relative": "../outside",
        "out_dir_twice": "out_dir",
        "sub/out_up": "../../outside",
        "out_and_back": "../ws/a.txt",
        "out_dangling": out / "new.txt",
        "out_dangling_relative": "../outside/new.txt",
        "out_dangling_dir": out / "new",
        "out_root": "/proc/self/root",
        "out_cwd": "/proc/self/cwd",
        "loop": "loop",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
        "link_fifo": "fifo",
    }
    for name, target in links.items():
        (ws / name).symlink_to(target)
    os.mkfifo(ws / "fifo")
    os.mknod(ws / "socket", stat.S_IFSOCK | 0o600)
    if os.geteuid() == 0:
        os.mknod(ws / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    return ws, out


def content(*places: Path) -> dict[str, bytes | None]:
    """Every name beneath the places, and what the files hold; links are not followed."""
    found: dict[str, bytes | None] = {}
    for place in places:
        for entry in os.scandir(place):
            is_file = entry.is_file(follow_symlinks=False)
            found[entry.path] = Path(entry.path).read_bytes() if is_file else None
            if entry.is_dir(follow_symlinks=False):
                found |= content(Path(entry.path))
    return found


def search_here(root: Root, path: str, pattern: str) -> Outcome:
    """What `search_files` does on both sides of the border to its process, in this one."""
    try:
        found = "\n".join(answer(make_request(root, pattern, path)))
        return ToolExecutionOutcome.Success("1", found)
    except ToolFailure as failure:
        return ToolExecutionOutcome.Error("1", ToolError(failure.kind, failure.message))


OPENERS = list(dict.fromkeys((open_beneath, open_by_walk)))
"""Both ways where the kernel has its own; that it has is said in tests/platform."""


@pytest.fixture(params=OPENERS, ids=lambda opener: str(opener.__name__))
def opener(request: pytest.FixtureRequest) -> OpenBeneath:
    return cast("OpenBeneath", request.param)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_nothing_outside_is_touched_and_nothing_inside_is_refused(
    operation: str, opener: OpenBeneath, tmp_path: Path
) -> None:
    name, arguments = OPERATIONS[operation]
    wrong = []
    folder = tmp_path
    ws, out = build(folder)
    for number, (template, allowed) in enumerate(CORPUS.items()):
        path = template.replace("{ws}", str(ws)).replace("{out}", str(out))
        if not can_stand_in_patch(path) and "patch" in arguments:
            continue
        (ws / "origin").write_text("plain")
        before = content(folder)
        registry = Registry(OWN_TOOLS, workspace=Root(ws, opener=opener))
        asked = ToolCall("1", name, json.dumps(arguments_for(path, arguments)))
        if name == "search_files" and number % SEARCH_STEP:
            outcome = search_here(Root(ws, opener=opener), path, **arguments)
        else:
            outcome = await registry.execute(asked, key="", progress=lambda _: None)
        succeeded = isinstance(outcome, ToolExecutionOutcome.Success)
        # A link is named in vain to be removed: it is no file, and what it leads to was not named.
        allowed += "d" if {*"rw"} <= {*allowed} and not is_link(ws, path) else ""
        if succeeded != any(letter in allowed for letter in operation.partition(":")[0]):
            wrong.append((template, outcome))
        after = content(folder)
        changed = {name for name in before.keys() | after if before.get(name) != after.get(name)}
        if SECRET in repr(outcome) or not all(name.startswith(f"{ws}/") for name in changed):
            wrong.append((template, "ESCAPED", outcome))
        if any(name.startswith((f"{ws}/.git/", f"{ws}/.treadle/")) for name in changed):
            wrong.append((template, "CHANGED what is protected", outcome))
        if not succeeded and (changed or outcome.error.kind is ToolErrorKind.INTERNAL):
            wrong.append((template, outcome, changed))
        if changed:
            folder = tmp_path / str(number)
            folder.mkdir()
            ws, out = build(folder)
    assert wrong == []


def is_link(folder: Path, path: str) -> bool:
    return os.path.islink(os.path.join(folder, path))  # noqa: PTH114, PTH118  they know any text


def can_stand_in_patch(path: str) -> bool:
    """Whether it is one line that does not begin or end with blanks."""
    return "\n" not in path and path == path.strip() != ""


def arguments_for(path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if "patch" not in arguments:
        return {"path": path, **arguments}
    lines = arguments["patch"].replace("{path}", path)
    return {"input": f"*** Begin Patch\n{lines}\n*** End Patch"}


def test_every_tool_that_takes_a_path_is_tried_with_the_corpus() -> None:
    tried = {name for name, _ in OPERATIONS.values()}
    missing = [name for name in list_path_tools() if name not in tried]
    assert missing == [], f"{missing} take a path: give each a row in OPERATIONS of this file"


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CORPUS) >= 60


SWAP = """
import ctypes, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
print("ready", flush=True)
HERE, EXCHANGE = -100, 2
while True:
    for name in (b"dir", b"file"):
        assert libc.renameat2(HERE, name, HERE, name + b".link", EXCHANGE) == 0
"""


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[Path]:
    """A workspace in which somebody keeps swapping a folder and a file with links outside."""
    ws, out = tmp_path / "ws", tmp_path / "outside"
    for place in (ws / "dir", out):
        place.mkdir(parents=True)
        (place / "f.txt").write_text("plain" if place != out else SECRET)
    (ws / "file").write_text("plain")
    (ws / "dir.link").symlink_to(out)
    (ws / "file.link").symlink_to(out / "f.txt")
    with subprocess.Popen([sys.executable, "-c", SWAP, ws], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield ws
        swapper.kill()


def test_a_link_that_is_swapped_in_meanwhile_leads_nowhere(
    swapped: Path, opener: OpenBeneath
) -> None:
    out = swapped.parent / "outside"
    root = Root(swapped, opener=opener)
    done = written = refused = turn = 0
    while turn < 1000 or done <= 20 or written <= 1 or refused <= 20:  # both had their chance
        for path in ("dir/f.txt", "file"):
            try:
                with os.fdopen(root.open_file(path), "rb") as file:
                    assert SECRET.encode() not in file.read()
                os.close(root.open_folder("dir"))
                done += 1
            except ToolFailure:
                refused += 1
        turn += 1
        for path in ("dir/f.txt", "dir/new/f.txt")[: 2 * (turn % 8 == 0)]:
            try:
                overwrite(root, path, b"plain")
                written += 1
            except ToolFailure:
                refused += 1
    assert sorted(file.name for file in out.iterdir()) == ["f.txt"]
    assert (out / "f.txt").read_text() == SECRET


def test_an_absolute_path_may_use_the_name_the_workspace_was_given(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.txt").touch()
    (tmp_path / "alias").symlink_to("real")
    root = Root(tmp_path / "alias")
    os.close(root.open_file(f"{tmp_path}/alias/a.txt"))
    os.close(root.open_file(f"{tmp_path}/real/a.txt"))
    assert root.name_of(f"{tmp_path}/alias/a.txt") == "a.txt"


def test_the_name_of_a_file_is_without_links(tmp_path: Path) -> None:
    ws, _ = build(tmp_path)
    root = Root(ws)
    assert root.name_of("link_dir/../link_twice") == "a.txt"
    assert root.name_of("link_dir_absolute/new.txt") == "sub/new.txt"
    assert root.name_of(".") == "."
    assert root.name_of("out_file") == "out_file", "what lies outside is not named"


def test_the_words_of_a_refusal_say_what_is_wrong(tmp_path: Path) -> None:
    root = Root(build(tmp_path)[0])
    expected = {
        "../x": (ToolErrorKind.PATH_OUTSIDE_WORKSPACE, "../x"),
        "missing": (ToolErrorKind.FILE_NOT_FOUND, "missing"),
        "sub": (ToolErrorKind.FAILED, "sub: it is a folder, not a file"),
        "a.txt/b": (ToolErrorKind.FAILED, "a.txt/b: a part of the path is not a folder"),
        "loop": (ToolErrorKind.FAILED, "loop: too many links on the way"),
        "socket": (ToolErrorKind.FAILED, "socket is not a regular file but a socket"),
        "link_fifo": (ToolErrorKind.FAILED, "fifo is not a regular file but a pipe"),
        "x" * 300: (ToolErrorKind.IO, f"{'x' * 300}: File name too long"),
        "": (ToolErrorKind.INVALID_ARGUMENTS, "the path is empty"),
        "a\0": (ToolErrorKind.INVALID_ARGUMENTS, "the path contains a NUL"),
    }
    for path, (kind, message) in expected.items():
        with pytest.raises(ToolFailure) as caught:
            root.open_file(path)
        assert (caught.value.kind, caught.value.message) == (kind, message)


def test_parents_are_not_made_for_a_path_that_is_refused(
    tmp_path: Path, opener: OpenBeneath
) -> None:
    ws, _ = build(tmp_path)
    root = Root(ws, opener=opener)
    for path in ("new/../../outside/x", "new/../x", "new/.git/x", "out_dangling_dir/x"):
        with pytest.raises(ToolFailure):
            overwrite(root, path, b"")
    assert not (ws / "new" / ".git").exists()
    assert not (ws / "x").exists()


def test_a_workspace_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file", "missing"):
        with pytest.raises(UsageError, match="cannot be a workspace"):
            Root(tmp_path / path)


def test_no_descriptor_is_left_open(tmp_path: Path, opener: OpenBeneath) -> None:
    ws, out = build(tmp_path)
    without = opened()
    root = Root(ws, opener=opener)
    before = opened()
    assert len(before - without) == 1
    for template in CORPUS:
        path = template.replace("{ws}", str(ws)).replace("{out}", str(out))
        for open_it in (root.open_file, root.open_folder):
            try:
                os.close(open_it(path))
            except ToolFailure:
                continue
        try:
            overwrite(root, path, b"")
        except ToolFailure:
            continue
    assert opened() <= before
    root.close()
    assert opened() <= without


async def test_a_moved_workspace_stays_the_workspace(tmp_path: Path, opener: OpenBeneath) -> None:
    ws, _ = build(tmp_path)
    root = Root(ws, opener=opener)
    ws.rename(tmp_path / "moved")
    await asyncio.to_thread(overwrite, root, "sub/b.txt", b"here")
    assert (tmp_path / "moved/sub/b.txt").read_text() == "here"
