"""A command that says it only reads changes nothing outside, tells nobody and leaves nobody."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from escapes.boxes import BUBBLEWRAP, LANDLOCK, OFF, execute, sandbox, text_of
from escapes.reading_commands import GROUPS, PLACES, sample
from escapes.world import World, a_world, forget_template
from treadle.sandbox import launch, seccomp
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Network

BACKENDS: Final = (BUBBLEWRAP, LANDLOCK)
SYSTEM: Final = ("/etc", "/var/spool/cron", "/usr/local/bin")
"""What a command could change besides the world: looked at once for some commands."""
SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm", "/run")
"""Where others of this machine work meanwhile: what commands make there has a mark."""
SAMPLE_STEP: Final = 41
COUNT_MIN: Final = 500
PART_SIZE: Final = 12
PARTS: Final = tuple(
    (group, begin)
    for group, commands in GROUPS.items()
    for begin in range(0, len(commands), PART_SIZE)
)
"""Of a group so many commands at a time, as a test has a time."""


@pytest.fixture(scope="module", autouse=True)
def template() -> Iterator[None]:
    yield
    forget_template()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world() as made:
        for name, value in made.environment(is_loader_noted=False).items():
            monkeypatch.setenv(name, value)
        yield made


def box_of(world: World, backend: str) -> Sandbox:
    """One that lets commands have the network, which those that only read do not get."""
    box = sandbox(world, backend, network=Network.ON, caches=str(world.home / ".cache/commands"))
    assert backend in box.reading.standing().confined.lower()
    return box


def facts_of(top: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """All that can be known of files without reading them, but when they were read."""
    todo = [top]
    while todo:
        path = todo.pop()
        try:
            at = path.lstat()
            names = os.listxattr(path, follow_symlinks=False)
            attributes = [(one, os.getxattr(path, one, follow_symlinks=False)) for one in names]
            inside = sorted(path.iterdir()) if stat.S_ISDIR(at.st_mode) else []
        except OSError:
            continue
        todo += inside
        times = (at.st_mtime_ns, at.st_ctime_ns)
        yield str(path), (at.st_mode, at.st_uid, at.st_gid, at.st_nlink, times, attributes)


def contents_of(top: Path) -> Iterator[tuple[str, object]]:
    for name, facts in facts_of(top):
        path = Path(name)
        told: object = None
        if path.is_symlink():
            told = str(path.readlink())
        elif path.is_file():
            told = hashlib.sha256(path.read_bytes()).hexdigest()
        yield name, (facts, told)


def state_of(world: World) -> dict[str, object]:
    """The world, to the last bit."""
    return {name: facts for top in (world.base, world.tmp) for name, facts in contents_of(top)}


def system_of(world: World) -> dict[str, object]:
    found: dict[str, object] = {"name": os.uname().nodename}
    for top in SYSTEM:
        for name, facts in facts_of(Path(top)):
            # This machine is an overlay, which copies a folder where somebody opens a file
            # without a name in it, though that fails: number of links and change time are new.
            found[name] = facts[:3] if Path(name).is_dir() else facts
    left = (path for top in SHARED for path in Path(top).glob(f"*{world.mark}*"))
    return found | {str(path): "" for path in left}


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name) != after.get(name))


async def attempt_reading(world: World, box: Sandbox, command: str) -> list[str]:
    """Run a command that only reads; what it reached, in words: nothing if it is held."""
    assert box.is_off or box.reading.standing().is_confined, "this would run without a sandbox"
    world.tidy()
    world.tell_places(command)
    before = state_of(world)
    places = '. ./places && [ -d "$OUT" ] || exit 99; export TMPDIR="${TMPDIR:-/tmp}"'
    held = f"{places}\n{command}\n"
    output = text_of(await execute(world, box, held, access="read"))
    world.settle()
    found = [f"changed {name}" for name in differences(before, state_of(world))]
    found += ["the kernel let it"] if "REACHED" in output.splitlines() else []
    found += ["a secret was told"] if world.is_told(output) else []
    if count := world.callers():
        found.append(f"{count} called outside")
    if harm := world.harm_to_victim():
        found.append(harm)
    if pids := world.survivors():
        found.append(f"these live on: {pids}")
    if "[exit code 99]" in output:
        found.append("it did not begin")
    return [f"{words}; it said: {output[-400:]}" for words in found]


async def attempt_all(
    world: World, backend: str, commands: Iterable[tuple[str, str]]
) -> dict[str, list[str]]:
    box = box_of(world, backend)
    before = system_of(world)
    reached = {name: await attempt_reading(world, box, command) for name, command in commands}
    reached["the system"] = differences(before, system_of(world))
    return {name: found for name, found in reached.items() if found}


HARMLESS_HERE: Final = frozenset({*PLACES, "git"} - {"the system"})
"""What changes the world only, and not the machine in which the next test runs."""


def commands_of(group: str, begin: int) -> Iterable[tuple[str, str]]:
    return list(GROUPS[group].items())[begin:][:PART_SIZE]


def test_there_are_as_many_as_promised() -> None:
    assert sum(map(len, GROUPS.values())) >= COUNT_MIN


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_sample_reaches_nothing(world: World, backend: str) -> None:
    assert await attempt_all(world, backend, sample(SAMPLE_STEP).items()) == {}


@pytest.mark.as_nobody
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_sample_of_somebody_who_is_not_root_reaches_nothing(
    world: World, backend: str
) -> None:
    assert await attempt_all(world, backend, sample(SAMPLE_STEP + 20).items()) == {}


@pytest.mark.torture
@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_is_reached(world: World, backend: str, part: tuple[str, int]) -> None:
    assert await attempt_all(world, backend, commands_of(*part)) == {}


@pytest.mark.torture
@pytest.mark.as_nobody
@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_is_reached_by_who_is_not_root(
    world: World, backend: str, part: tuple[str, int]
) -> None:
    assert await attempt_all(world, backend, commands_of(*part)) == {}


@pytest.mark.torture
@pytest.mark.parametrize("part", [one for one in PARTS if one[0] in HARMLESS_HERE], ids=str)
async def test_without_a_sandbox_most_of_them_are_seen(
    monkeypatch: pytest.MonkeyPatch, part: tuple[str, int]
) -> None:
    """Not all: a program may be missing here, or a file system not know of something."""
    unseen, commands = [], commands_of(*part)
    for name, command in commands:
        with a_world() as world:
            for variable, value in world.environment(is_loader_noted=False).items():
                monkeypatch.setenv(variable, value)
            if not await attempt_reading(world, sandbox(world, OFF), command):
                unseen.append(name)
    assert len(unseen) <= len(commands) // 2, unseen


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_workspace_that_is_open_for_writing_is_seen_by_this(
    world: World, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """A check that cannot fail is none: with the mount made writable, and without the filter."""
    box = box_of(world, backend)
    vars(box.reading)["_writable"] = (box.workspace,)
    monkeypatch.setattr(launch, "_outside", lambda backend: seccomp.OPEN)
    names = ("writing", "deleting", "another mode", "another time", "python: an attribute")
    commands = {name: GROUPS["the workspace"][name] for name in names}
    commands["adding"] = GROUPS["git"]["adding"]
    held = [
        name
        for name, command in commands.items()
        if not await attempt_reading(world, box, f"cp -a README kept; {command}")
    ]
    assert held == []
    assert box.policy.level is Level.WORKSPACE_WRITE
