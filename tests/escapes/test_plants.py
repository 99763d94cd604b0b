"""T5: what a command leaves behind does not run when the person uses their own, plain git."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from escapes.boxes import BUBBLEWRAP, LANDLOCK, OFF, text_of
from escapes.machine import ROOM, is_inside
from escapes.plants import (
    DEEP,
    LINKS,
    ODD,
    PLAIN,
    PLANTS,
    REPOSITORY,
    SUBFOLDER,
    Plant,
    bare,
    nested,
)
from treadle.core.messages import ToolCall
from treadle.core.tools import ToolProgress
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from treadle.workspace.git_repository import find_repository

TIMEOUT_S: Final = 60
PLANT_STEP: Final = 4
"""One of so many is tried in each change as nobody, with Landlock, and where nothing holds it."""

USES: Final = (("status", "--short"), ("add", "-A", "-n"), ("commit", "--allow-empty", "-qm", "x"))
"""What a person does anywhere."""
NOTHING: Final = Plant(())


class Place:
    """A workspace, and what its person does there."""

    def __init__(self, kind: str, plant: Plant) -> None:
        assert is_inside(), "this is a machine that somebody needs"
        self.base: Final = Path(tempfile.mkdtemp(prefix="treadle-plants-", dir=ROOM))
        home = self.base / "home"
        top = home / "top"
        self.workspace: Final = top / "ws" if kind == SUBFOLDER else top
        self.workspace.mkdir(parents=True)
        self.pwned: Final = self.base / "pwned"
        (home / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@b\n")
        self.env: Final = {
            "HOME": str(home),
            "PATH": f"{top}/bin:{os.environ['PATH']}",
            "LC_ALL": "C",
        }
        self.env["GIT_EDITOR"] = "true"
        evil = self.workspace / "evil"
        evil.write_text(f"#!/bin/sh\ntouch '{self.pwned}'\n")
        evil.chmod(0o755)
        (top / "bin").mkdir()
        shutil.copy(evil, top / "bin/git-merge-evil")
        if kind != PLAIN:
            (self.workspace / "a").write_text("1")
            for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "1")):
                self.git(top, *arguments)
            self.git(top, "commit", "-q", "--allow-empty", "-m", "2")
        subprocess.run(["sh", "-ec", plant.prepared], cwd=self.workspace, env=self.env, check=True)
        for name, value in plant.variables:
            self.env[name] = value.replace("WS", str(self.workspace))

    def git(self, folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT_S,
        )
        return done.stdout + done.stderr

    def use(self, plant: Plant) -> str:
        """The use of git that ran what was planted; empty if none did."""
        for name in plant.in_folders:
            for arguments in (*(tuple(one.split()) for one in plant.more_uses), *USES):
                if (self.workspace / name).is_dir():
                    said = self.git(self.workspace / name, *arguments)
                    if self.pwned.exists():
                        return f"git {' '.join(arguments)} in {name}: {said[-300:]}"
        return ""

    def registry(self, backend: str) -> Registry:
        level = Level.OFF if backend == OFF else Level.WORKSPACE_WRITE
        backends = () if backend == OFF else (backend,)
        box = Sandbox(Policy(level), self.workspace, environ=self.env, backends=backends)
        if backend != OFF:
            assert box.standing(False).is_confined, box.standing(False).confined
            assert backend in box.standing(False).confined.lower()
        return Registry(builtin_tools(), workspace=self.workspace, sandbox=box)


@contextmanager
def a_place(
    monkeypatch: pytest.MonkeyPatch, kind: str = REPOSITORY, plant: Plant = NOTHING
) -> Iterator[Place]:
    place = Place(kind, plant)
    try:
        with monkeypatch.context() as variables:
            for name, value in place.env.items():
                variables.setenv(name, value)
            yield place
    finally:
        shutil.rmtree(place.base, ignore_errors=True)


async def execute(registry: Registry, command: str, on: asyncio.Event | None = None) -> str:
    call = ToolCall(
        "c", "bash", json.dumps({"command": command, "access": "write", "timeout_s": TIMEOUT_S})
    )

    def hear(progress: ToolProgress) -> None:
        if on is not None:
            on.set()

    return text_of(await registry.execute(call, key="c", progress=hear))


async def attempt(place: Place, backend: str, plant: Plant) -> str:
    """How the plant came to run, in words; empty if it did not."""
    said = [await execute(place.registry(backend), command) for command in plant.commands]
    used = place.use(plant)
    return f"{used}; the commands said: {said}" if used else ""


def in_part(*backends: str) -> list[object]:
    """For each sandbox the sample of each change, and all under torture."""
    often = [pytest.param(one, PLANT_STEP) for one in backends]
    return often + [pytest.param(one, 1, marks=pytest.mark.torture) for one in backends]


@pytest.mark.parametrize(("backend", "step"), [(BUBBLEWRAP, 1), *in_part(OFF, LANDLOCK)])
async def test_the_persons_own_git_runs_nothing_that_was_planted(
    monkeypatch: pytest.MonkeyPatch, backend: str, step: int
) -> None:
    await check(monkeypatch, backend, tuple(PLANTS)[::step])


@pytest.mark.as_nobody
@pytest.mark.parametrize(("backend", "step"), in_part(BUBBLEWRAP, LANDLOCK))
async def test_nor_that_of_somebody_who_is_not_root(
    monkeypatch: pytest.MonkeyPatch, backend: str, step: int
) -> None:
    # Others than those that are tried without a sandbox.
    await check(monkeypatch, backend, tuple(PLANTS)[step // 2 :: step])


async def check(monkeypatch: pytest.MonkeyPatch, backend: str, names: tuple[str, ...]) -> None:
    """Without a sandbox each plant must be seen to run, or git refuses it."""
    missed = {}
    for name in names:
        plant = PLANTS[name]
        with a_place(monkeypatch, plant.kind, plant) as place:
            ran = await attempt(place, backend, plant)
        if bool(ran) is (backend != OFF or plant.git_refuses):
            missed[name] = ran or "it did not run"
    assert missed == {}, "\n".join(f"{name}: {ran}" for name, ran in missed.items())


async def test_while_a_command_runs_the_persons_own_git_is_not_led_astray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By what can be shut; what a command makes anew stands until it ends, and in Landlock all."""
    evil = 'git config -f {0} core.fsmonitor "$PWD/evil; false"'
    planted = {
        REPOSITORY: f"cp -r .git c; {evil.format('c/config')}; (echo ../c > .git/commondir)",
        PLAIN: bare("."),
    }
    for kind, command in planted.items():
        with a_place(monkeypatch, kind) as place:
            on = asyncio.Event()
            wait = "mkfifo go; echo on; read x < go"
            running = asyncio.ensure_future(
                execute(place.registry(BUBBLEWRAP), f"{command} 2> /dev/null; {wait}", on)
            )
            await on.wait()
            used = await asyncio.to_thread(place.use, NOTHING)
            await asyncio.to_thread((place.workspace / "go").write_text, "x\n")
            await running
            assert used == "", kind


@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_in_a_folder_of_a_repository_head_is_a_commit_and_no_file(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Beside a file of this name, `git diff HEAD` says that it could be either."""
    for kind, is_there in ((SUBFOLDER, False), (PLAIN, True)):
        with a_place(monkeypatch, kind) as place:
            said = await execute(place.registry(backend), "ls")
        assert ("HEAD" in said.split()) == is_there, kind


@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_no_link_that_a_command_leaves_makes_all_later_ones_fail(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    for name, command in LINKS.items():
        with a_place(monkeypatch) as place:
            said = await execute(place.registry(backend), command)
            assert "put aside" in said or "put back" in said, name
            again = await execute(place.registry(backend), "touch ran")
            assert "symbolic link" not in again, name
            assert (place.workspace / "ran").exists(), name


@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_nothing_odd_hides_a_plant_beside_it(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    await check_odd(monkeypatch, backend, step=1)


@pytest.mark.as_nobody
@pytest.mark.parametrize(("backend", "step"), in_part(BUBBLEWRAP, LANDLOCK))
async def test_nor_from_somebody_who_is_not_root(
    monkeypatch: pytest.MonkeyPatch, backend: str, step: int
) -> None:
    await check_odd(monkeypatch, backend, step=step)


async def check_odd(monkeypatch: pytest.MonkeyPatch, backend: str, *, step: int) -> None:
    """What comes beside an odd one is put aside; later commands, and Treadle's own git, run."""
    missed = {}
    for name, odd in tuple(ODD.items())[::step]:
        with a_place(monkeypatch) as place:
            said = await execute(place.registry(backend), f"{nested('n', 'git add n')}; {odd}")
            again = await execute(place.registry(backend), "touch ran")
            if (place.workspace / "n/.git").exists() or not (place.workspace / "ran").exists():
                missed[name] = said, again
            for folder in place.workspace.iterdir():
                if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK):
                    find_repository(folder)
    with a_place(monkeypatch, PLAIN) as place:
        (place.workspace / ".git").write_bytes(b"gitdir: a\0b")
        assert find_repository(place.workspace) is None
        assert await execute(place.registry(backend), "true") == "[exit code 0]"
    assert missed == {}, "\n".join(f"{name}: {ran}" for name, ran in missed.items())


@pytest.mark.as_nobody
@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_what_cannot_be_looked_at_is_said_and_looked_at_when_it_can(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    in_index = nested(f"{DEEP}/n", f"git add {DEEP}/n", f"chmod 0 {DEEP}")
    unseen = {
        "a closed folder": (f"{nested('c/n')}; chmod 0 c", "chmod 700 c", "c/n/.git"),
        "one that an index leads to": (in_index, f"chmod 700 {DEEP}", f"{DEEP}/n/.git"),
        "an index": (
            f"{nested(f'{DEEP}/n', f'git add {DEEP}/n')}; cp .git/index i;"
            " printf 'DIRC\\0\\0\\340\\0' > .git/index",
            "mv i .git/index",
            f"{DEEP}/n/.git",
        ),
    }
    for name, (hide, show, planted) in unseen.items():
        with a_place(monkeypatch) as place:
            said = await execute(place.registry(backend), hide)
            assert "not looked at, git may run programs because of it" in said, name
            said = await execute(place.registry(backend), show)
            assert not (place.workspace / planted).exists(), (name, said)
            assert "not looked at" not in said, name


@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_what_runs_nothing_stays_where_a_command_made_it(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    commands = {
        "a clone": "git clone -q . n && git -C n log --oneline",
        "a new repository": "git init -q n && git -C n commit -q --allow-empty -m x",
        "one that is bare": "git init -q --bare -b main n && git push -q ./n HEAD:main",
        "a work tree": "git worktree add -q n && git -C n status",
        "a gitlink": "git init -q n && git -C n commit -q --allow-empty -m x && git add n",
        "a rebase that stops": "git checkout -q -b s HEAD~1; echo 2 > a; git commit -qam 2;"
        " git checkout -q -b t HEAD~1; echo 3 > a; git commit -qam 3; ! git rebase -q s"
        " && test -e .git/rebase-merge/git-rebase-todo && mkdir n",
    }
    for name, command in commands.items():
        with a_place(monkeypatch) as place:
            said = await execute(place.registry(backend), f"({command}) > log 2>&1")
            assert said == "[exit code 0]", (name, said, (place.workspace / "log").read_text())
            again = await execute(place.registry(backend), "cd n && git rev-parse HEAD > /dev/null")
            assert again == "[exit code 0]", name
            if name == "a rebase that stops":
                done = "echo 4 > a; git add a; git rebase --continue > /dev/null 2>&1"
                assert await execute(place.registry(backend), done) == "[exit code 0]"
