"""T2: nothing gets out of the sandbox, whatever a command tries."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Final

import pytest

from escapes.boxes import BUBBLEWRAP, LANDLOCK, OFF, attempt, execute, ready, sandbox
from escapes.machine import NOBODY
from escapes.probes.files import FILES, PROTECTED
from escapes.probes.network import NETWORK
from escapes.probes.probe import Probe
from escapes.probes.processes import KERNEL, PROCESSES
from escapes.probes.secrets import SECRETS
from escapes.world import World, a_world, forget_template

IS_ROOT: Final = os.geteuid() == 0
CORPUS: Final = (*FILES, *PROTECTED, *SECRETS, *NETWORK, *PROCESSES, *KERNEL)
PROBES: Final = tuple(probe for probe in CORPUS if IS_ROOT or not probe.as_root_only)
LANDLOCK_STEP: Final = 3
OFTEN_AND_RARELY: Final = tuple(
    pytest.param(probe, marks=[] if number % LANDLOCK_STEP == 0 else [pytest.mark.torture])
    for number, probe in enumerate(PROBES)
)
"""One of so many is tried with Landlock in each change: it is the sandbox of few."""
CONTROLS: Final = tuple(probe for probe in PROBES if probe.control)
CONTROL_STEP: Final = 10
"""One of so many is tried without a sandbox in each change."""
NOBODY_STEP: Final = 4
OF_NOBODY: Final = tuple(probe for probe in CORPUS if not probe.as_root_only)[::NOBODY_STEP]


def named(probe: Probe) -> str:
    return probe.name


@pytest.fixture(scope="module", autouse=True)
def template() -> Iterator[None]:
    yield
    forget_template()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One for all probes that are held."""
    with a_world() as made:
        yield made


def live_in(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_loader_noted: bool = False
) -> None:
    for name, value in world.environment(is_loader_noted=is_loader_noted).items():
        monkeypatch.setenv(name, value)


def test_the_corpus_is_as_large_as_promised_and_its_names_are_unique() -> None:
    assert len(CORPUS) >= 60
    assert len({probe.name for probe in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("probe", PROBES, ids=named)
async def test_bubblewrap_holds_it(
    world: World, monkeypatch: pytest.MonkeyPatch, probe: Probe
) -> None:
    await check(world, monkeypatch, probe, BUBBLEWRAP, probe.open_in_bubblewrap)


@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_no_program_outside_is_started_with_the_whole_environment(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    with a_world() as world:
        live_in(world, monkeypatch, is_loader_noted=True)
        box = await ready(world, backend)
        for note in world.outside.glob("loader*"):
            note.unlink()  # of git, that was asked for the person's name
        await execute(world, box, "true")
        assert list(world.outside.glob("loader*")) == []
        await (await asyncio.create_subprocess_exec("true")).wait()  # with all of it, for once
        assert list(world.outside.glob("loader*"))


@pytest.mark.parametrize("probe", OFTEN_AND_RARELY, ids=named)
async def test_landlock_holds_it(
    world: World, monkeypatch: pytest.MonkeyPatch, probe: Probe
) -> None:
    await check(world, monkeypatch, probe, LANDLOCK, probe.open_in_landlock)


async def check(
    world: World, monkeypatch: pytest.MonkeyPatch, probe: Probe, backend: str, is_open: str
) -> None:
    if is_open or (backend == LANDLOCK and probe in PROTECTED):
        with a_world() as other:  # it does harm, or leaves less of a repository than there was
            live_in(other, monkeypatch)
            found = await attempt(other, await ready(other, backend), probe, is_control=False)
        if is_open:
            assert found, f"it is held, but said to be open: {is_open}"
        else:
            assert found == []
        return
    live_in(world, monkeypatch)
    assert await attempt(world, await ready(world, backend), probe, is_control=False) == []


@pytest.mark.as_nobody
@pytest.mark.parametrize("probe", OF_NOBODY, ids=named)
@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_it_is_held_for_who_is_not_root(
    world: World, monkeypatch: pytest.MonkeyPatch, probe: Probe, backend: str
) -> None:
    is_open = probe.open_in_bubblewrap
    if backend == LANDLOCK:
        is_open = probe.open_in_landlock or (probe.open_to_user if os.getuid() == NOBODY else "")
    await check(world, monkeypatch, probe, backend, is_open)


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(probe, marks=[] if number % CONTROL_STEP == 0 else [pytest.mark.torture])
        for number, probe in enumerate(CONTROLS)
    ],
    ids=named,
)
async def test_without_a_sandbox_it_is_seen_to_escape(
    monkeypatch: pytest.MonkeyPatch, probe: Probe
) -> None:
    with a_world() as world:
        live_in(world, monkeypatch)
        assert await attempt(world, sandbox(world, OFF), probe, is_control=True)
