"""T3: where no sandbox works, nothing runs without one, unless a person says so."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from escapes.boxes import BUBBLEWRAP, LANDLOCK, execute, ready, sandbox, text_of
from escapes.test_attack_plans import kept_text, script
from escapes.world import World, a_world, forget_template
from treadle.sandbox import box, folders

NO_LANDLOCK: Final = b"".join(
    struct.pack("=HBBI", *line)
    for line in (
        (0x20, 0, 0, 0),  # load the number of the call
        (0x15, 0, 1, 444),  # is it landlock_create_ruleset?
        (0x06, 0, 0, 0x00050000 | 38),  # there is no such call
        (0x06, 0, 0, 0x7FFF0000),  # all others are made
    )
)
WITHOUT_NAMESPACES: Final = ("--disable-userns",)
WITHOUT_PROGRAM: Final = ("--ro-bind", "/dev/null", "/usr/bin/bwrap")

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not here")


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        yield made
    forget_template()


def on_machine(
    world: World,
    tmp_path: Path,
    options: tuple[str, ...],
    *,
    has_landlock: bool,
    level: str = "",
    mode: str = "auto",
) -> subprocess.CompletedProcess[str]:
    """`treadle -p` with a model that wants `touch ran`, on a machine that lacks something."""
    model = script(tmp_path, [("bash", {"command": "touch ran", "access": "write"})])
    environment = {
        **world.environment(is_loader_noted=False),
        "TREADLE_HOME": str(tmp_path / "home"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    arguments = ["-p", "go", "-m", model, "--approval-mode", mode]
    arguments += ["--sandbox", level] if level else []
    filter_fd = os.memfd_create("filter", 0)
    os.write(filter_fd, NO_LANDLOCK)
    os.lseek(filter_fd, 0, os.SEEK_SET)
    outer = ["bwrap", "--unshare-user", "--dev-bind", "/", "/", *options]
    outer += [] if has_landlock else ["--seccomp", str(filter_fd)]
    try:
        return subprocess.run(
            [*outer, "--", sys.executable, "-m", "treadle", *arguments],
            cwd=world.workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            pass_fds=(filter_fd,),
        )
    finally:
        os.close(filter_fd)


@pytest.mark.parametrize("lacks", [WITHOUT_NAMESPACES, WITHOUT_PROGRAM], ids=["userns", "program"])
@pytest.mark.parametrize(("mode", "code"), [("ask", 4), ("auto", 0)])
def test_without_any_sandbox_a_command_waits_for_a_yes_or_is_refused_where_nobody_is_asked(
    world: World, tmp_path: Path, lacks: tuple[str, ...], mode: str, code: int
) -> None:
    done = on_machine(world, tmp_path, lacks, has_landlock=False, mode=mode)
    assert done.returncode == code, done.stdout + done.stderr
    assert not (world.workspace / "ran").exists()
    assert "nothing can hold commands here" in kept_text(tmp_path / "home")


@pytest.mark.parametrize("lacks", [WITHOUT_NAMESPACES, WITHOUT_PROGRAM], ids=["userns", "program"])
def test_without_bubblewrap_landlock_holds_it_and_the_record_says_so(
    world: World, tmp_path: Path, lacks: tuple[str, ...]
) -> None:
    done = on_machine(world, tmp_path, lacks, has_landlock=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (world.workspace / "ran").exists()
    assert "workspace-write, no network, Landlock and seccomp" in kept_text(tmp_path / "home")


def test_the_level_is_in_the_record(world: World, tmp_path: Path) -> None:
    assert on_machine(world, tmp_path, (), has_landlock=True).returncode == 0
    assert "workspace-write, no network, bubblewrap" in kept_text(tmp_path / "home")


def test_a_person_who_wants_no_sandbox_gets_none_and_the_record_says_so(
    world: World, tmp_path: Path
) -> None:
    done = on_machine(world, tmp_path, WITHOUT_PROGRAM, has_landlock=False, level="off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (world.workspace / "ran").exists()
    assert '"no sandbox"' in kept_text(tmp_path / "home")


def test_a_program_in_path_is_not_taken_for_bubblewrap(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = world.workspace / "bwrap"
    fake.write_text(f"#!/bin/sh\ntouch '{world.outside}/pwned'\n")
    fake.chmod(0o755)
    for name, value in world.environment(is_loader_noted=False).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{world.workspace}:{os.environ['PATH']}")
    assert subprocess.run(["bwrap"], check=False).returncode == 0  # the person would get it
    (world.outside / "pwned").unlink()

    async def check() -> str:
        return text_of(await execute(world, await ready(world, BUBBLEWRAP), "echo held"))

    import asyncio

    assert asyncio.run(check()) == "held\n[exit code 0]"
    assert not (world.outside / "pwned").exists()


@pytest.mark.parametrize("name", [".git/hooks", ".git/config", ".treadle", "sub/.git"])
async def test_a_link_in_place_of_what_is_protected_stops_the_command(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable, value in world.environment(is_loader_noted=False).items():
        monkeypatch.setenv(variable, value)
    box = await ready(world, BUBBLEWRAP)
    path = world.workspace / name
    path.rename(world.workspace / "real")
    path.symlink_to(world.workspace / "real")
    said = text_of(await execute(world, box, "touch ran"))
    assert "symbolic link" in said
    assert not (world.workspace / "ran").exists()


@pytest.mark.as_nobody
async def test_what_cannot_be_looked_at_stops_no_command(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket in a private folder of another user, a folder in PATH, homes, settings: no access.

    A folder of one's own without permissions is as closed as one of somebody else.
    """
    closed = world.base / "closed"
    for name in ("bin", "home", "seen", "written", "hidden"):
        (closed / name).mkdir(parents=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(closed / "socket"))
    listener.listen()
    for variable, value in world.environment(is_loader_noted=False).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("PATH", f"{closed}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(box, "SECRET_FILES", (*box.SECRET_FILES, f"{closed}/file"))
    monkeypatch.setattr(folders, "EMPTY", (*folders.EMPTY, f"{closed}/home"))
    closed.chmod(0)
    said = {}
    try:
        with pytest.raises(PermissionError):
            (closed / "socket").is_socket()
        for backend in (BUBBLEWRAP, LANDLOCK):
            held = sandbox(
                world,
                backend,
                readable=(f"{closed}/seen",),
                writable=(f"{closed}/written",),
                hidden=(*world.hidden, f"{closed}/hidden"),
            )
            said[backend] = text_of(await execute(world, held, "echo held"))
    finally:
        closed.chmod(0o700)
        listener.close()
    assert said == dict.fromkeys((BUBBLEWRAP, LANDLOCK), "held\n[exit code 0]")
