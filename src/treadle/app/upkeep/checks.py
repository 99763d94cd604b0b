"""What `treadle doctor` looks at: each check gives lines that say ok, warning or failure.

A failure means that Treadle cannot do its job here; a warning, that a part of it will be missing,
slow or less safe. Each that is not ok says what to do. Nothing is changed but the search index,
which is brought up to date. What is said of threads is in `store_checks`.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import stat
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from treadle import helper_programs
from treadle.app.sessions.provider_reachability import ProviderReachability
from treadle.errors import TreadleError
from treadle.platform.file_sync import sync_file
from treadle.process.command import run_command
from treadle.process.result import Bounds
from treadle.store.paths import Places
from treadle.version import __version__

FREE_BYTES_MIN: Final = 64 * 2**20
FREE_BYTES_LOW: Final = 2**30
SYNC_MS_SLOW: Final = 25.0
SYNC_COUNT: Final = 15
COMMAND_S_MAX: Final = 10.0
GIT_MIN: Final = (2, 11)
"""`git status --porcelain=v2 --branch` needs it."""

_NOT_SEARCHED: Final = "commands could put programs there, so git, hooks and editors do without it"

LIBRARIES: Final = ("genai-prices", "httpx2", "msgspec")
"""Those of which the version says most; all of them are installed with the command."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """One line: what was looked at, how it is, and what to do if it is not ok."""

    name: str
    status: Literal["ok", "warning", "failure"]
    text: str
    advice: str = ""


def ok(name: str, text: str) -> Finding:
    """All is well."""
    return Finding(name, "ok", text)


def warning(name: str, text: str, advice: str) -> Finding:
    """A part will be missing, slow or less safe."""
    return Finding(name, "warning", text, advice)


def failure(name: str, text: str, advice: str) -> Finding:
    """Treadle cannot do its job here."""
    return Finding(name, "failure", text, advice)


def check_versions() -> Iterator[Finding]:
    """This program, the interpreter, the libraries that answer for models."""
    helper_programs.answer_for_platform()
    yield ok("treadle", f"{__version__} in {Path(__file__).parents[1]}")
    yield ok("python", f"{platform.python_version()} at {sys.executable}, {platform.platform()}")
    for name in LIBRARIES:
        try:
            yield ok(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield failure(name, "not installed", "install Treadle again: it brings what it needs")


def check_folders(places: Places) -> Iterator[Finding]:
    """The folders of this user: private, writable, or not there yet."""
    for name in ("data", "state", "config"):
        path: Path = getattr(places, name)
        try:
            yield _check_folder(name, path)
        except OSError as error:
            advice = "make the folder reachable, or set TREADLE_HOME to one that is"
            yield failure(name, f"{path}: {error.strerror}", advice)


def _check_folder(name: str, path: Path) -> Finding:
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not os.access(nearest, os.W_OK | os.X_OK) or not nearest.is_dir():
        advice = f"make {nearest} a folder you may write to, or set TREADLE_HOME to one"
        return failure(name, f"{nearest} cannot be written to", advice)
    if nearest != path:
        return ok(name, f"{path} (will be made when it is needed)")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return warning(name, f"{path} is open to others ({mode:04o})", f"chmod 700 {path}")
    return ok(name, f"{path} ({mode:04o})")


def check_programs() -> Iterator[Finding]:
    """Git and ripgrep."""
    git = helper_programs.find_program("git")
    version = _read_output(git, "--version") if git else ""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not version:
        advice = "install git: without it nothing is observed and nothing committed"
        yield warning("git", helper_programs.why_missing("git"), advice)
    elif numbers < GIT_MIN:
        yield warning("git", f"{version} is too old", "install git 2.11 or newer")
    else:
        yield ok("git", f"{version} at {git}")
    rg = helper_programs.find_program("rg")
    ripgrep = _read_output(rg, "--version").partition("\n")[0] if rg else ""
    yield ok("ripgrep", ripgrep or "not found: searching is done in Python, which is slower")


def check_environment() -> Iterator[Finding]:
    """What of this program's own surroundings an agent that works here could change."""
    for text in helper_programs.warnings():
        yield warning("own code", text, "docs/sandbox.md says more: Treadle's own programs")
    for name, place in helper_programs.left_out(os.environ):
        text = f"{name} has {place or 'an empty entry'}: {_NOT_SEARCHED}"
        yield warning("environment", text, "name what you need from there by its whole path")


def check_sandbox() -> Iterator[Finding]:
    """What holds commands here: found by starting a sandbox."""
    from treadle.sandbox.detect import find_backend, find_program

    found = find_backend()
    version = ".".join(map(str, found.version))
    if found.name == "bubblewrap":
        yield ok("sandbox", f"bubblewrap {version} at {found.program} holds commands")
        return
    if found.name == "seatbelt":
        text = f"{found.program} holds commands, which has never been tried by us on a Mac"
        yield warning("sandbox", text, "docs/sandbox.md says what it holds, as far as is known")
        return
    advice = "install bubblewrap (Debian, Ubuntu, Fedora: the package `bubblewrap`)"
    if find_program() is not None:
        advice = (
            "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1` or `sysctl "
            "user.max_user_namespaces=15000`; on Ubuntu 23.10 and newer an AppArmor profile for "
            "/usr/bin/bwrap (docs/sandbox.md has it)"
        )
    if found.name:
        text = f"Landlock {version} and seccomp hold commands, which is less: {found.why_not}"
    else:
        text = f"nothing holds commands, so each is asked about: {found.why_not}"
    yield warning("sandbox", text, advice)


def _read_output(*command: str) -> str:
    """What the command says; empty if it is not there or fails."""
    try:
        ran = run_command(command, helper_programs.environment(), Bounds(COMMAND_S_MAX))
    except OSError:
        return ""
    return ran.out.decode(errors="replace").strip() if ran.status == 0 else ""


def check_disk(places: Places) -> Iterator[Finding]:
    """Room, the time a sync takes, and whether locks hold, where the threads are."""
    place = next(one for one in (places.data, *places.data.parents) if one.is_dir())
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:,.1f} GiB free at {place}"
    if free < FREE_BYTES_MIN:
        yield failure("disk", text, "make room: threads are written before anything is done")
    elif free < FREE_BYTES_LOW:
        yield warning("disk", text, "make room soon")
    else:
        yield ok("disk", text)
    try:
        yield from _measure_sync(place)
    except OSError as error:
        advice = "threads cannot be kept here: set TREADLE_HOME to a folder on a local disk"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "make room: threads are written before anything is done"
        yield failure("sync", f"{place}: {error.strerror}", advice)


def _measure_sync(place: Path) -> Iterator[Finding]:
    with tempfile.NamedTemporaryFile(dir=place, prefix=".treadle-doctor-") as file:
        took_ms: list[float] = []
        for _ in range(SYNC_COUNT):
            began_s = time.perf_counter()
            os.write(file.fileno(), bytes(2048))
            sync_file(file.fileno())
            took_ms.append(1000 * (time.perf_counter() - began_s))
        text = f"{statistics.median(took_ms):.2f} ms to make a record durable (median)"
        if statistics.median(took_ms) > SYNC_MS_SLOW:
            advice = "a turn needs four of these: set TREADLE_HOME to a folder on a faster disk"
            yield warning("sync", text, advice)
        else:
            yield ok("sync", text)
        yield _check_lock(file.name)


def _check_lock(path: str) -> Finding:
    import fcntl

    one, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ok("locks", "one writer per thread is enforced")
    except OSError as error:
        advice = "set TREADLE_HOME to a folder on a local disk"
        return failure("locks", f"this file system has no locks: {error.strerror}", advice)
    finally:
        os.close(one)
        os.close(other)
    advice = "two processes could write one thread: set TREADLE_HOME to a folder on a local disk"
    return failure("locks", "this file system does not enforce locks", advice)


def check_model(name: str, reached: Iterable[ProviderReachability], *, is_named: bool) -> Finding:
    """The model of new threads.

    Args:
        name: its lasting name.
        reached: the providers, as they are from here.
        is_named: whether somebody chose it, rather than that there is a key for its provider.
    """
    one = next((one for one in reached if one.provider == name.partition(":")[0]), None)
    if one is None or not one.is_excluded:
        return ok("model", f"new threads use {name}")
    text = f"new threads would use {name}, but {one.provider} {one.problem}"
    advice = "choose a local model with models.default, or set local_only = false"
    return failure("model", text, advice) if is_named else warning("model", text, advice)


def check_provider(one: ProviderReachability, *, is_used: bool) -> Finding:
    """Whether a provider answers.

    Args:
        one: the provider, as it is from here.
        is_used: whether the model of new threads is one of its models.
    """
    what = f"{one.provider} at {one.address}"
    if one.is_excluded:
        return ok("provider", f"{what}: not asked: local_only")
    if not one.problem:
        key = f"; key from {one.key}" if one.key else ""
        return ok("provider", f"{what}: {len(one.models or ())} models{key}")
    if one.is_ready:
        advice = f"check the network, the address and the key ({one.key or 'none'})"
        return warning("provider", f"{what}: {one.problem}", advice)
    hint = one.error.hint if isinstance(one.error, TreadleError) else ""
    advice = hint or "`treadle config show --origin` tells where its settings come from"
    say = failure if is_used else warning
    return say("provider", f"{what}: {one.problem}", advice)


def worst_status(findings: Iterable[Finding]) -> str:
    """The most serious status of all."""
    order = ("ok", "warning", "failure")
    return max((finding.status for finding in findings), key=order.index, default="ok")
