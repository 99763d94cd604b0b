"""The programs that Treadle itself starts, outside any sandbox: git, ripgrep, editors, hooks.

Whoever can write a file that is found as `git` runs code as the person. Commands of the agent write
in the workspace, and an activated virtual environment puts a folder of it first in `PATH`. So a
helper program is looked for only where no command can write, and finds nothing else in its own
environment: git starts gpg, ssh and hooks. What the agent runs in the sandbox keeps the whole
`PATH` of the person.

Whoever lets commands or tools write in a folder says so by `exclude`, before anything is started.
It counts for the whole process and is never taken back: a file stays when its thread has ended.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_PROGRAMS: Final = "PATH"
_PRELOADED: Final = frozenset({"DYLD_INSERT_LIBRARIES", "LD_AUDIT", "LD_PRELOAD"})
"""Entries without a slash are names, which are looked for in folders of the system."""
SEARCHED: Final = (
    _PROGRAMS,
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH"),
    *sorted(_PRELOADED),
    *("PYTHONPATH", "PYTHONHOME", "PERL5LIB", "RUBYLIB", "NODE_PATH", "BASH_ENV", "ENV"),
    *("PERLLIB", "PYTHONSTARTUP", "PYTHONUSERBASE", "GEM_HOME", "GEM_PATH", "ZDOTDIR"),
    *("GCONV_PATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES"),
    *("GIT_EXEC_PATH", "GIT_TEMPLATE_DIR"),
)
"""Variables with a list of places from which a program takes code."""
_OF_SYSTEM: Final = ("/bin", "/usr/bin")
_LINK_COUNT_MAX: Final = 40
"""As many symbolic links as Linux follows in one path."""

_folders: Final[set[str]] = set()
_identities: Final[set[tuple[int, int]]] = set()


def exclude(*folders: str | os.PathLike[str]) -> None:
    """Never look for a program in these folders again, or below them: commands may write there.

    A folder that has the programs of the system in it is ignored: nothing would be left, and no
    sandbox holds commands there.
    """
    for folder in folders:
        real = os.path.realpath(Path(folder).expanduser())
        if any(_is_in(os.path.realpath(one), real) for one in _OF_SYSTEM):
            continue
        identity = _identity_of(real)
        if real in _folders and identity in _identities:
            continue
        _folders.add(real)
        if identity is not None:
            _identities.add(identity)
        _kept.cache_clear()


def is_excluded(path: str) -> bool:
    """Whether looking up a path leads through an excluded folder, or ends at one.

    Each symbolic link on the way counts by where it stands: who may replace it chooses the file.
    """
    if not path.startswith("/"):
        return True  # whoever chooses the current folder chooses the file
    todo = path.split("/")[::-1]
    here = "/"
    for _ in range(_LINK_COUNT_MAX):
        while todo:
            if _is_known(here):
                return True
            part = todo.pop()
            place = os.path.normpath(os.path.join(here, part))  # noqa: PTH118  no link is in `here`
            try:
                target = os.readlink(place)  # noqa: PTH115
            except OSError:  # it is no link, or not there
                here = place
                continue
            here = "/" if target.startswith("/") else here
            todo += target.split("/")[::-1]
            break
        else:
            return _is_known(here)
    return True


def find_program(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The path of a program that no command can have put there; `None` if there is none.

    Args:
        name: looked for in `PATH`. With a slash in it, it is a path that a person chose: it stays.
        environ: by default that of the process.
    """
    if "/" in name:
        return name
    searched = (os.environ if environ is None else environ).get(_PROGRAMS, os.defpath)
    for folder in _kept(_PROGRAMS, searched):
        found = shutil.which(name, path=folder)
        if found is not None and not is_excluded(found):
            return found
    return None


def why_missing(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Why `find_program` finds nothing, and what to do."""
    searched = (os.environ if environ is None else environ).get(_PROGRAMS, os.defpath)
    found = shutil.which(name, path=searched)
    if found is None:
        return f"{name} is not installed"
    return f"{found} is not used, because commands may change it: name it by its whole path"


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a helper program gets: the variables, without places that commands may write."""
    kept = dict(os.environ if environ is None else environ)
    for name in SEARCHED:
        if name in kept:
            entries = _kept(name, kept[name])
            kept[name] = os.pathsep.join(entries)
            # To most programs an empty list is one of the current folder.
            if not entries and name != _PROGRAMS:
                del kept[name]
    return kept


def left_out(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables and places in them that helper programs do not get; relative ones too."""
    for name in SEARCHED:
        if name in environ:
            kept = set(_kept(name, environ[name]))
            yield from ((name, one) for one in _split(name, environ[name]) if one not in kept)


def own_code() -> tuple[str, ...]:
    """Folders that commands may write and that Treadle's own code is loaded from, sorted.

    The environment of its interpreter, its package, its libraries. Of folders that lie in each
    other only the outer one is named.
    """
    found = {one for one in map(os.path.realpath, _own_folders()) if is_excluded(one)}
    return tuple(
        sorted(one for one in found if not any(_is_in(one, other) for other in found - {one}))
    )


def other_imports() -> tuple[str, ...]:
    """Folders that commands may write and that Python looks into besides, for any module, sorted.

    The current folder, where `python -m` puts it, is not named: `restrict_imports` is enough. It
    is where `PYTHONPATH` has it, also as an empty entry (`PYTHONPATH=$PYTHONPATH:/x`): Python has
    looked there for a `sitecustomize` already.
    """
    own, given = own_code(), os.environ.get("PYTHONPATH")
    asked_for = {os.path.realpath(one) for one in given.split(os.pathsep)} if given else set()
    found = {os.path.realpath(one) for one in sys.path if one and is_excluded(one)}
    found -= {str(Path.cwd())} - asked_for
    return tuple(sorted(one for one in found if not any(_is_in(one, top) for top in own)))


def warnings() -> Iterator[str]:
    """What a person is told who runs this program from where the agent works."""
    advice = "install Treadle in an environment of its own (`pipx install`, `uv tool install`)"
    for place in own_code():
        yield (
            f"Treadle itself runs from {place}, where the agent works: what is changed there runs "
            f"outside the sandbox. Commands in bubblewrap cannot change it; {advice}"
        )
    for place in other_imports():
        yield (
            f"Python looks for modules in {place}, where the agent works: a sitecustomize.py there "
            f"runs outside the sandbox when Treadle starts; take it out of PYTHONPATH, or {advice}"
        )


def restrict_imports() -> None:
    """Import nothing more from folders that commands may write, but for this program's own.

    For the command line only: a program that uses this library has its code where it wants.
    """
    own = [os.path.realpath(one) for one in _own_folders()]
    sys.path[:] = [
        one
        for one in sys.path
        if not is_excluded(one) or (one and any(_is_in(os.path.realpath(one), top) for top in own))
    ]


def _own_folders() -> tuple[str, ...]:
    libraries = Path(str(msgspec.__file__)).parents[1]
    return sys.prefix, sys.base_prefix, str(Path(__file__).parent), str(libraries)


@cache
def _kept(name: str, value: str) -> tuple[str, ...]:
    """Asked before each start, and always the same until another folder is excluded."""
    return tuple(one for one in _split(name, value) if _may_stay(name, one))


def _split(name: str, value: str) -> list[str]:
    return re.split("[: ]", value) if name in _PRELOADED else value.split(os.pathsep)


def _may_stay(name: str, entry: str) -> bool:
    if name in _PRELOADED and "/" not in entry:
        return entry != ""
    if is_excluded(entry):
        return False
    # Whoever works in a project writes in its environment, today or in another thread.
    is_foreign = entry != os.path.join(sys.prefix, "bin")  # noqa: PTH118
    is_of_project = _is_there(f"{entry}/../pyvenv.cfg") or "/node_modules/" in entry
    return not (name == _PROGRAMS and is_foreign and is_of_project)


def _is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110  `Path.exists` raises where one may not look


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_known(path: str) -> bool:
    return path in _folders or _identity_of(path) in _identities


def _identity_of(path: str) -> tuple[int, int] | None:
    """What stays the same under another name: in another case, or mounted elsewhere."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def answer_for_platform() -> None:
    """Tell `platform` which processor this is: else it starts `uname`, found in the whole `PATH`.

    Whoever asks it for all that it knows makes it do so; the SDKs of providers do, with their first
    request.
    """
    import platform  # a short command asks nothing of it

    platform.uname().__dict__.setdefault("processor", platform.machine())
