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
from msgspec import Struct

from sandbox.boxes import BUBBLEWRAP, LANDLOCK, OFF, text_of
from sandbox.machine import ROOM, is_inside
from treadle.core.messages import ToolCall
from treadle.core.tools import ToolProgress
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from treadle.tools.sandbox.box import Sandbox
from treadle.tools.sandbox.policy import Level, Policy
from treadle.workspace.git_repository import find_repository

TIMEOUT_S: Final = 60

REPOSITORY: Final = "a repository"
PLAIN: Final = "no repository"
SUBFOLDER: Final = "a folder of a repository"


class Plant(Struct, frozen=True):
    """Commands that leave something for git, in a workspace of this kind.

    `evil` is a program in it. `in_folders` is where the person works afterwards. Git itself takes
    no notice of some: that is asserted too, so that a git that does is noticed.
    """

    commands: tuple[str, ...]
    kind: str = REPOSITORY
    in_folders: tuple[str, ...] = (".",)
    more_uses: tuple[str, ...] = ()
    git_refuses: bool = False


_NESTED: Final = "git init -q {0} && git -C {0} commit -q --allow-empty -m x"
_SET: Final = 'git config -f {0}/config core.fsmonitor "$PWD/evil; false"'
_BARE: Final = "mkdir -p {0}/objects {0}/refs && echo 'ref: refs/heads/main' > {0}/HEAD"
_BARE_SET: Final = (
    "git config -f {0}/config core.repositoryformatversion 0;"
    ' git config -f {0}/config core.worktree "$PWD/{0}";'
    ' git config -f {0}/config core.fsmonitor "$PWD/evil; false"'
)
_REBASE: Final = (
    "mkdir {0}/rebase-merge; touch {0}/rebase-merge/interactive;"
    " echo refs/heads/main > {0}/rebase-merge/head-name;"
    " git --git-dir {0} rev-parse HEAD | tee {0}/rebase-merge/onto > {0}/rebase-merge/orig-head;"
    ' echo "exec $PWD/evil" > {0}/rebase-merge/git-rebase-todo'
)


def _nested(at: str, *more: str) -> str:
    return "; ".join((_NESTED.format(at), _SET.format(f"{at}/.git"), *more))


def _bare(at: str) -> str:
    return f"{_BARE.format(at)}; {_BARE_SET.format(at)}"


DEEP: Final = "x/b/c/d/e/f/g/h"
PLANTS: Final = {
    "a gitlink": Plant((_nested("n", "git add n"),)),
    "a gitlink of a work tree": Plant(
        (_nested("n", "mv n/.git git_of_n; echo 'gitdir: ../git_of_n' > n/.git; git add n"),)
    ),
    "a gitlink, made harmless first": Plant(
        (f"{_NESTED.format('n')}; git add n", _SET.format("n/.git"))
    ),
    "a gitlink, its repository later": Plant(
        (
            f"{_NESTED.format('n')}; git add n; rm -rf n/.git",
            _nested("n"),
        )
    ),
    "a gitlink far down": Plant((_nested(DEEP, f"git add {DEEP}"),)),
    "a gitlink among programs": Plant((_nested("node_modules/n", "git add -f node_modules/n"),)),
    "a gitlink behind many folders": Plant(
        (_nested("z/n", "git add z/n; for i in {1..1500}; do mkdir a$i; done"),)
    ),
    "a gitlink of a gitlink": Plant(
        (
            f"{_NESTED.format(DEEP)}; {_nested(f'{DEEP}/n', f'git -C {DEEP} add n')};"
            f" git add {DEEP}",
        ),
        in_folders=(".", DEEP),
    ),
    "a gitlink in a split index": Plant(
        (_nested("n", "git add n; git update-index --split-index"),)
    ),
    "a nested hook": Plant(
        (
            f"{_NESTED.format('n')}; cp evil n/.git/hooks/post-index-change; "
            "cp evil n/.git/hooks/pre-commit; cp evil n/.git/hooks/reference-transaction",
        ),
        in_folders=("n",),
    ),
    "a nested include": Plant(
        (
            f'{_NESTED.format("n")}; git config -f c core.fsmonitor "$PWD/evil; false";'
            ' git -C n config include.path "$PWD/c"',
        ),
        in_folders=("n",),
    ),
    "a nested commondir": Plant(
        (
            f"{_nested('m')}; {_NESTED.format('n')}; echo ../../m/.git > n/.git/commondir;"
            " rm -f m/.git/HEAD",
        ),
        in_folders=("n",),
    ),
    "a nested link": Plant(
        (_nested("n", "mv n/.git elsewhere; ln -s ../elsewhere n/.git"),), in_folders=("n",)
    ),
    "settings that are a link": Plant(
        (_nested("n", "mv n/.git/config c; ln -s ../../c n/.git/config"),), in_folders=("n",)
    ),
    "settings for one work tree": Plant(
        (
            f"{_NESTED.format('n')}; git -C n config extensions.worktreeConfig true;"
            ' git -C n config --worktree core.fsmonitor "$PWD/evil; false"',
        ),
        in_folders=("n",),
    ),
    "a new submodule": Plant(
        (
            _nested(
                "n",
                "mkdir -p .git/modules; mv n/.git .git/modules/n; "
                "echo 'gitdir: ../.git/modules/n' > n/.git; git add n",
            ),
        )
    ),
    "a bare layout": Plant((_bare("."),), PLAIN),
    "a bare layout in a folder of a repository": Plant((_bare("."),), SUBFOLDER),
    "a bare layout further down": Plant((_bare("n"),), in_folders=("n",)),
    "a bare layout that was harmless": Plant(
        (_BARE.format("n"), _BARE_SET.format("n")), in_folders=("n",)
    ),
    "a repository where there is none": Plant((_nested("."),), PLAIN),
    "a rebase": Plant(
        (_REBASE.format(".git"),),
        more_uses=("rebase --continue",),
    ),
    "a rebase by a link": Plant(
        (f"{_REBASE.format('.git')}; mv .git/rebase-merge r; ln -s ../r .git/rebase-merge",),
        more_uses=("rebase --continue",),
    ),
    "a rebase in a nested one": Plant(
        (f"{_NESTED.format('n')}; {_REBASE.format('n/.git')}",),
        in_folders=("n",),
        more_uses=("rebase --continue",),
    ),
    "a rebase with a strategy": Plant(
        (
            f"{_REBASE.format('.git')}; git commit-tree -p HEAD~1 -m x HEAD^{{tree}} > c;"
            ' echo "pick $(cat c) x" > .git/rebase-merge/git-rebase-todo;'
            " echo evil > .git/rebase-merge/strategy",
        ),
        more_uses=("rebase --continue",),
    ),
    "steps of a cherry-pick": Plant(
        (
            "mkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head;"
            ' echo "exec $PWD/evil" > .git/sequencer/todo;'
            " cp .git/sequencer/head .git/CHERRY_PICK_HEAD",
        ),
        git_refuses=True,
        more_uses=("cherry-pick --continue",),
    ),
    "a submodule with a command": Plant(
        (
            f"{_NESTED.format('n')}; git add n; s='git config -f .gitmodules submodule.n';"
            ' $s.path n; $s.url ./n; $s.update "!$PWD/evil"',
        ),
        git_refuses=True,
        more_uses=("submodule status", "submodule update --init"),
    ),
    "a filter without settings": Plant(
        ("mkdir -p .git/info; echo '* filter=evil diff=evil merge=evil' > .git/info/attributes",),
        git_refuses=True,
    ),
    "objects from elsewhere": Plant(
        (
            "cp -r .git g; echo $PWD/g/objects > .git/objects/info/alternates; "
            "git config -f g/config core.fsmonitor $PWD/evil; rm g/HEAD",
        ),
        git_refuses=True,
        more_uses=("gc -q", "fetch --all"),
    ),
    "an old kind of remote": Plant(
        ('mkdir -p .git/remotes; printf "URL: ext::%s\\n" "$PWD/evil" > .git/remotes/origin',),
        git_refuses=True,
        more_uses=("fetch", "fetch --all"),
    ),
    "a bisection": Plant(
        (
            'git rev-parse HEAD > .git/BISECT_START; echo "$PWD/evil" > .git/BISECT_RUN;'
            ' echo "\\$($PWD/evil)" > .git/BISECT_NAMES; echo "git bisect start" > .git/BISECT_LOG;'
            ' printf "bad\\ngood\\n" > .git/BISECT_TERMS',
        ),
        git_refuses=True,
        more_uses=("bisect skip",),
    ),
    "a work tree": Plant(
        (
            "git worktree add -q w; git config -f .git/worktrees/w/config.worktree core.fsmonitor"
            ' "$PWD/evil; false"',
        ),
        in_folders=(".", "w"),
        git_refuses=True,
    ),
}
LINKS: Final = {
    "settings": "mkdir -p x/.git; ln -s /etc/passwd x/.git/config",
    "hooks": "git init -q x; rm -rf x/.git/hooks; ln -s /etc x/.git/hooks",
    "a repository": "mkdir x; ln -s /etc x/.git",
    "work trees": "ln -s /etc .git/worktrees",
    "a work tree": "mkdir .git/worktrees; ln -s /etc .git/worktrees/x",
    "submodules": "ln -s /etc .git/modules",
    "a submodule": "mkdir .git/modules; ln -s /etc .git/modules/x",
    "settings of a work tree": "ln -s /etc/passwd .git/config.worktree",
}
"""Links that would have made every command after them fail."""
ODD: Final = {
    "a NUL": "mkdir 0; printf 'gitdir: a\\0b' > 0/.git",
    "a ring of links": "mkdir 0; ln -s loop 0/loop; echo 'gitdir: loop/x' > 0/.git",
    "a link to itself": "mkdir 0; ln -s .git 0/.git",
    "a name too long": "mkdir 0; (printf 'gitdir: '; printf 'a%.0s' {1..3000}) > 0/.git",
    "a path too long": "mkdir 0; (printf 'gitdir: '; printf 'a/%.0s' {1..2040}) > 0/.git",
    "a commondir of a NUL": f"{_BARE.format('g')}; printf '\\0' > g/commondir;"
    " mkdir 0; echo 'gitdir: ../g' > 0/.git",
    "a commondir in a ring": f"{_BARE.format('g')}; ln -s loop g/loop; echo loop/x > g/commondir;"
    " mkdir 0; echo 'gitdir: ../g' > 0/.git",
    "a pipe": "mkdir 0; mkfifo 0/.git",
    "a name that is no text": "mkdir $'0\\xff'; printf 'gitdir: a\\0b' > $'0\\xff/.git'",
    "a repository that is closed": f"{_NESTED.format('0')}; chmod 0 0/.git",
    "a named one that is closed": "mkdir 0 g; echo 'gitdir: ../g' > 0/.git; chmod 0 g",
    "one in a closed folder": "mkdir -p 0 g/g; echo 'gitdir: ../g/g' > 0/.git; chmod 0 g",
    "settings that are closed": f"{_NESTED.format('0')}; chmod 0 0/.git/config",
    "a work tree that is closed": "mkdir -p .git/worktrees/x; chmod 0 .git/worktrees/x",
    "work trees that are closed": "mkdir -p .git/worktrees; chmod 0 .git/worktrees",
    "a submodule that is closed": "mkdir -p .git/modules/x/hooks; chmod 0 .git/modules/x",
    "settings of a submodule that are closed": "git init -q --bare .git/modules/x;"
    " chmod 0 .git/modules/x/config",
    "submodules that are closed": "mkdir -p .git/modules; chmod 0 .git/modules",
    "an index in part a pipe": "git update-index --split-index; f=$(echo .git/sharedindex.*);"
    " rm $f; mkfifo $f",
    "a rebase that is closed": "mkdir .git/rebase-merge; chmod 0 .git/rebase-merge",
}
"""What raises when it is looked at, or keeps all later commands from beginning."""
USES: Final = (("status", "--short"), ("add", "-A", "-n"), ("commit", "--allow-empty", "-qm", "x"))
"""What a person does anywhere."""
NOBODY_STEP: Final = 4
"""One of so many is tried as somebody who is not root."""


class Place:
    """A workspace, and what its person does there."""

    def __init__(self, kind: str) -> None:
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
def a_place(monkeypatch: pytest.MonkeyPatch, kind: str = REPOSITORY) -> Iterator[Place]:
    place = Place(kind)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    try:
        yield place
    finally:
        shutil.rmtree(place.base, ignore_errors=True)


async def execute(registry: Registry, command: str, on: asyncio.Event | None = None) -> str:
    call = ToolCall("c", "bash", json.dumps({"command": command, "timeout_s": TIMEOUT_S}))

    def hear(progress: ToolProgress) -> None:
        if on is not None:
            on.set()

    return text_of(await registry.execute(call, key="c", progress=hear))


async def attempt(place: Place, backend: str, plant: Plant) -> str:
    """How the plant came to run, in words; empty if it did not."""
    said = [await execute(place.registry(backend), command) for command in plant.commands]
    used = place.use(plant)
    return f"{used}; the commands said: {said}" if used else ""


@pytest.mark.parametrize("backend", [OFF, BUBBLEWRAP, LANDLOCK])
async def test_the_persons_own_git_runs_nothing_that_was_planted(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    await check(monkeypatch, backend, tuple(PLANTS))


@pytest.mark.as_nobody
@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_nor_that_of_somebody_who_is_not_root(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    await check(monkeypatch, backend, tuple(PLANTS)[::NOBODY_STEP])


async def check(monkeypatch: pytest.MonkeyPatch, backend: str, names: tuple[str, ...]) -> None:
    """Without a sandbox each plant must be seen to run, or git refuses it."""
    missed = {}
    for name in names:
        plant = PLANTS[name]
        with a_place(monkeypatch, plant.kind) as place:
            ran = await attempt(place, backend, plant)
        if bool(ran) is (backend != OFF or plant.git_refuses):
            missed[name] = ran or "it did not run"
    assert missed == {}


async def test_while_a_command_runs_the_persons_own_git_is_not_led_astray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By what can be shut; what a command makes anew stands until it ends, and in Landlock all."""
    evil = 'git config -f {0} core.fsmonitor "$PWD/evil; false"'
    planted = {
        REPOSITORY: f"cp -r .git c; {evil.format('c/config')}; (echo ../c > .git/commondir)",
        PLAIN: _bare("."),
    }
    for kind, command in planted.items():
        with a_place(monkeypatch, kind) as place:
            on = asyncio.Event()
            wait = "mkfifo go; echo on; read x < go"
            running = asyncio.ensure_future(
                execute(place.registry(BUBBLEWRAP), f"{command} 2> /dev/null; {wait}", on)
            )
            await on.wait()
            used = await asyncio.to_thread(place.use, Plant(()))
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
    await check_odd(monkeypatch, backend)


@pytest.mark.as_nobody
@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK])
async def test_nor_from_somebody_who_is_not_root(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    await check_odd(monkeypatch, backend)


async def check_odd(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """What comes beside an odd one is put aside; later commands, and Treadle's own git, run."""
    missed = {}
    for name, odd in ODD.items():
        with a_place(monkeypatch) as place:
            said = await execute(place.registry(backend), f"{_nested('n', 'git add n')}; {odd}")
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
    assert missed == {}


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
