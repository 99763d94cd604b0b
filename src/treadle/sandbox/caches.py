"""A cache of its own for each workspace, in which package managers keep what they fetch.

The person's own caches stay as they are: commands see some of them, and write none. A command can
put anything into the cache of its workspace, and only commands of that workspace read it: nothing
outside the sandbox takes anything from there, and what makes links in it follows none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.sandbox.folders import is_folder, size_of
from treadle.sandbox.path_rules import is_below

UNUSED_S_MAX: Final = 30 * 24 * 3600.0
"""Seconds after its last command from which on a cache counts as one that nobody needs."""
_LINK_COUNT_MAX: Final = 50_000
_NOTE: Final = ".workspace"
"""Beside a cache: a file with the path of its workspace. Its time is that of the last use."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_VARIABLES: Final = (
    ("XDG_CACHE_HOME", "xdg", ".cache"),
    ("PIP_CACHE_DIR", "pip", ".cache/pip"),
    ("UV_CACHE_DIR", "uv", ".cache/uv"),
    ("npm_config_cache", "npm", ".npm"),
    ("YARN_GLOBAL_FOLDER", "yarn", ".yarn/berry"),
    ("BUN_INSTALL_CACHE_DIR", "bun", ".bun/install/cache"),
    ("GOCACHE", "go-build", ".cache/go-build"),
    ("GOMODCACHE", "go-mod", "go/pkg/mod"),
    ("CARGO_HOME", "cargo", ".cargo"),
    ("GRADLE_USER_HOME", "gradle", ".gradle"),
    ("NUGET_PACKAGES", "nuget", ".nuget/packages"),
)
"""The variable, the name in the cache, and where the person's own is if no variable says it."""
_MAVEN: Final = ".m2/repository"
_GO_PROXY: Final = "https://proxy.golang.org,direct"
"""What go takes if nothing is set."""
_OF_CARGO: Final = (
    (("config.toml",), 0),
    (("registry", "cache"), 2),
    (("registry", "src"), 2),
    (("registry", "index"), 8),
    (("git", "db"), 1),
    (("git", "checkouts"), 2),
)
"""What cargo finds in its own home, and at which depth a part is left or fetched as a whole."""


class OldCache(Struct, frozen=True):
    """The folder of a cache that nobody needs, and the bytes of its files."""

    path: str
    size: int


def make_cache(base: str, workspace: str) -> str:
    """The folder for the cache of a workspace, made if it is not there; empty if it cannot be.

    Args:
        base: the folder of all caches, which no command can change.
        workspace: a path without links.
    """
    folder = _folder_of(base, workspace)
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        note = folder.with_suffix(_NOTE)
        if not note.exists():
            note.write_bytes(os.fsencode(workspace))
        os.utime(note)
        for _, name, _ in _VARIABLES:
            # If it is there it may be a link that a command has made: it is not looked at.
            with suppress(FileExistsError):
                (folder / name).mkdir(0o700)
    except OSError:
        return ""  # a home that cannot be written; commands then have no cache, as before
    return os.path.realpath(folder)


def find_cache(base: str, workspace: str) -> str:
    """The folder for the cache of a workspace, if it is there; empty if not."""
    folder = str(_folder_of(base, workspace))
    return os.path.realpath(folder) if is_folder(folder) else ""


def variables_of(
    cache: str, environ: Mapping[str, str], home: str, chosen: Iterable[str]
) -> dict[str, str]:
    """What tells programs to use a cache.

    Args:
        cache: its folder.
        environ: what the person has set.
        home: the home folder.
        chosen: folders that the person lets commands see or change. Who names a cache there means
            it, and gets no other one.
    """
    chosen = [*map(os.path.realpath, map(os.path.expanduser, chosen))]

    def is_chosen(place: str) -> bool:
        return any(is_below(place, one) or is_below(one, place) for one in chosen)

    found = {
        name: f"{cache}/{folder}"
        for name, folder, own in _VARIABLES
        if not is_chosen(environ.get(name) or f"{home}/{own}")
    }
    if "GOMODCACHE" in found:
        found |= make_go_proxy(environ, home)
    if not is_chosen(f"{home}/{_MAVEN}"):
        # Older ones than 3.9 know neither this variable nor a second repository: they go without.
        options = f"-Dmaven.repo.local={cache}/maven -Dmaven.repo.local.tail={home}/{_MAVEN}"
        found["MAVEN_ARGS"] = f"{options} {environ.get('MAVEN_ARGS', '')}".rstrip()
    return found


def make_go_proxy(environ: Mapping[str, str], home: str, cache: str = "") -> dict[str, str]:
    """What lets go take modules from where they have been fetched to before: `GOPROXY`.

    Args:
        environ: what the person has set.
        home: the home folder.
        cache: that of a workspace, from which modules are taken too.
    """
    modules = (*([f"{cache}/go-mod"] if cache else []), _modules_of(environ, home))
    found = [f"{one}/cache/download" for one in modules]
    there = [f"file://{one}" for one in found if is_folder(one)]
    return {"GOPROXY": ",".join((*there, environ.get("GOPROXY") or _GO_PROXY))} if there else {}


def link_crates(cache: str, environ: Mapping[str, str], home: str) -> None:
    """Let cargo find in a cache what the person's own has, by links that lead there.

    The cache belongs to commands, so each folder in it is opened in the one above it and is no
    link. Only links and folders are made, and links that lead nowhere removed.
    """
    own = Path(environ.get("CARGO_HOME") or f"{home}/.cargo")
    left = _LINK_COUNT_MAX
    for names, depth in _OF_CARGO:
        with suppress(OSError):
            place = os.open(f"{cache}/cargo", _FOLDER)
            try:
                for name in names[: len(names) if depth else -1]:
                    above, place = place, _made(name, place)
                    os.close(above)
                source = own.joinpath(*names)
                if depth:
                    left = _link(source, place, depth, left)
                elif source.is_file():
                    os.symlink(source, names[-1], dir_fd=place)
            finally:
                os.close(place)


def find_old_caches(base: str, now_s: float) -> tuple[OldCache, ...]:
    """The caches of workspaces that are gone, or in which no command ran for `UNUSED_S_MAX`.

    Args:
        base: as in `make_cache`; empty if there is none.
        now_s: what the clock says, in seconds since 1970.
    """
    folders = sorted(Path(base).glob("*")) if base else []
    return tuple(
        OldCache(str(folder), size_of(folder))
        for folder in folders
        if is_folder(str(folder)) and not folder.is_symlink() and _is_old(folder, now_s)
    )


def remove_old_caches(base: str, now_s: float, paths: Iterable[str]) -> tuple[OldCache, ...]:
    """Remove caches for good, if nobody needs them still; those that are gone."""
    paths = frozenset(paths)
    gone = []
    for cache in find_old_caches(base, now_s):
        if cache.path in paths:
            # Go makes the folders of modules read-only.
            for folder, _, _ in os.walk(cache.path):
                with suppress(OSError):
                    Path(folder).chmod(0o700)
            shutil.rmtree(cache.path, ignore_errors=True)
            if not Path(cache.path).exists():
                Path(cache.path).with_suffix(_NOTE).unlink(missing_ok=True)
                gone.append(cache)
    return tuple(gone)


def _folder_of(base: str, workspace: str) -> Path:
    return Path(base, hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24])


def _is_old(folder: Path, now_s: float) -> bool:
    note = folder.with_suffix(_NOTE)
    try:
        workspace = os.fsdecode(note.read_bytes())
        is_unused = now_s - note.stat().st_mtime > UNUSED_S_MAX
    except OSError:
        return True
    return is_unused or not is_folder(workspace)


def _modules_of(environ: Mapping[str, str], home: str) -> str:
    path = (environ.get("GOPATH") or f"{home}/go").partition(os.pathsep)[0]
    return environ.get("GOMODCACHE") or f"{path}/pkg/mod"


def _link(source: Path, place: int, depth: int, left: int) -> int:
    """Link what stands in a folder; how many more may be linked."""
    _remove_dead_links(place)
    with os.scandir(source) as entries:
        for entry in entries:
            if left <= 0:
                break
            if depth > 1 and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    inner = _made(entry.name, place)
                    try:
                        left = _link(Path(entry.path), inner, depth - 1, left)
                    finally:
                        os.close(inner)
            else:
                with suppress(FileExistsError):
                    os.symlink(entry.path, entry.name, dir_fd=place)
                left -= 1
    return left


def _remove_dead_links(place: int) -> None:
    """What a link led to may have been removed; a program could not write in its place."""
    for name in os.listdir(place):
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                try:
                    os.stat(name, dir_fd=place)
                except FileNotFoundError:
                    os.unlink(name, dir_fd=place)


def _made(name: str, place: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=place)
    return os.open(name, _FOLDER, dir_fd=place)
