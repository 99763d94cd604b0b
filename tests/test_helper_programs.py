"""Helper programs are found, and find others, only where no command can write."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from house.source import nodes

from test_tidy import ROOT, modules, name_of
from treadle import helper_programs

pytestmark = pytest.mark.usefixtures("forget_trees")

STARTS: Final = {
    "src/treadle/terminal/external_programs.py": {
        # Treadle again, with the whole environment, which it gives to the commands of its agents.
        ("run_cli_command", "subprocess.Popen(words, cwd=folder)"),
    },
    "src/treadle/cli/demo/demonstration.py": {
        ("_start_treadle", "env=self._environment"),  # Treadle again
        ("_read_output", "env=self._environment"),
        ("_make_path_line", "shutil.which('treadle')"),  # only told, not started
    },
    "src/treadle/config/keys.py": {("_run_key_command", "given, bounds")},  # made above it
    # What the person types, and what the agent runs.
    "src/treadle/terminal/shell.py": {("run_shell", "env=os.environ")},
    "src/treadle/tools/bash.py": {
        ("_run_free", "env={**clean_environment(os.environ), **named}"),
        ("_run_held", "env=launch.env"),
    },
    "src/treadle/app/sessions/confined_hooks.py": {("__call__", "env=launch.env")},
    "src/treadle/helper_programs.py": {
        ("find_program", "shutil.which(name, path=folder)"),
        ("why_missing", "shutil.which(name, path=searched)"),
    },
    "src/treadle/server/http/process.py": {
        ("_fork_worker", "os.fork()")
    },  # the server's own workers
    "src/treadle/tools/grep.py": {("_nominate", "subprocess.run(argv,")},  # started by search_files
    # Who calls these says what environment the program gets.
    "src/treadle/process/command.py": {
        ("run_command", "env=dict(environment)"),
    },
    "src/treadle/process/program.py": {("__init__", "env=dict(order.environment)")},
    "src/treadle/process/service.py": {("__init__", "env=dict(environment)")},
    "src/treadle/process/leash.py": {  # what it was told, in the environment that it has
        ("main", "os.fork()"),
        ("_become", "os.execvp(argv[0], argv)"),
    },
    "src/treadle/sandbox/detect.py": {
        ("_version", "{}"),
        ("_probe", "prepared.env"),
    },
    # The environment of helper programs, or one without any PATH.
    "src/treadle/sandbox/git_settings.py": {("run_git", "environment")},
    "src/treadle/web/page_text.py": {("_run_converter", "{}")},  # Python, with no environment
    # In the sandbox, or on its way into it.
    "src/treadle/sandbox/launcher.py": {("main", "os.fork()"), ("_start", "os.execve(")},
    "src/treadle/sandbox/seatbelt_launcher.py": {
        ("main", "os.fork()"),
        ("_start", "os.execv(argv[0], argv)"),
    },
    "src/treadle/workspace/git.py": {("_change_now", "inherited"), ("_run", "environment")},
}
"""Each place that looks for a program, or starts one with another environment than helper programs
have: its function, and a part of the call."""

STARTING: Final = {
    *("run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    *("subprocess_exec", "subprocess_shell", "create_subprocess_exec", "create_subprocess_shell"),
    *("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile", "spawn"),
    *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "execlpe", "which"),
    *("spawnv", "spawnve", "spawnvp", "spawnl", "spawnlp", "open_in_editor", "find_library"),
    *("launch", "edit", "echo_via_pager", "run_system_command", "open_new_tab"),
}
RUNNERS: Final = {"run", "run_bounded", "run_command"}
"""Those of `treadle.process`, which are given an environment and start what they are told."""
MODULES: Final = {"subprocess", "os", "shutil", "pty", "click", "webbrowser", "ctypes.util"}


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test excludes is not excluded in the next one."""
    monkeypatch.setattr(helper_programs, "_folders", set())
    monkeypatch.setattr(helper_programs, "_identities", set())
    helper_programs._kept.cache_clear()
    yield
    helper_programs._kept.cache_clear()


def starts(path: Path) -> Iterator[tuple[str, str]]:
    """The function and the text of each call that starts a program, or looks for one."""
    all_nodes = nodes(path)
    runners = {
        alias.name
        for node in all_nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treadle.process.")
        for alias in node.names
    } & RUNNERS
    for function in all_nodes:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _starts(node.func, runners):
                yield function.name, ast.unparse(node)


def _starts(called: ast.expr, runners: set[str]) -> bool:
    if isinstance(called, ast.Name):
        return called.id in runners
    if not isinstance(called, ast.Attribute):
        return False
    of = ast.unparse(called.value)
    is_of_loop = called.attr.startswith(("subprocess_", "create_subprocess_"))
    return called.attr in STARTING and (of in MODULES or is_of_loop)


def test_every_place_that_starts_a_program_is_known_and_says_what_environment_it_gets() -> None:
    wrong = []
    seen = set()
    for path in modules():
        name = name_of(path)
        if not name.startswith("src/"):
            continue
        for node in nodes(path):  # so that none is called by its bare name
            if isinstance(node, ast.ImportFrom) and node.module in MODULES:
                wrong += [(name, one.name) for one in node.names if one.name in STARTING]
        for function, call in starts(path):
            known = [
                (name, *one)
                for one in STARTS.get(name, ())
                if one[0] == function and one[1] in call
            ]
            seen.update(known)
            if not known and "helper_programs.environment(" not in call:
                wrong.append((name, f"{function}: {call}"))
    assert wrong == [], "start it with helper_programs.find_program and .environment"
    assert seen == {(name, *one) for name, found in STARTS.items() for one in found}
    assert (ROOT / "src/treadle/helper_programs.py").exists()


def test_a_place_counts_by_every_link_that_leads_to_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "bin", outside / "bin"):
        folder.mkdir(parents=True)
    (outside / "to-inside").symlink_to(inside / "bin")
    (inside / "to-outside").symlink_to(outside / "bin")
    (outside / "by-inside").symlink_to("../inside/to-outside")
    (outside / "round").symlink_to("round")
    (outside / "git").symlink_to(inside / "bin/git")
    (tmp_path / "again").symlink_to("inside")
    helper_programs.exclude(tmp_path / "again")
    expected = {
        f"{outside}/bin": False,
        f"{outside}/missing/bin": False,
        f"{tmp_path}": False,
        "/usr/bin": False,
        f"{inside}": True,
        f"{inside}/bin": True,
        f"{inside}/missing": True,
        f"{outside}/../inside/bin": True,
        f"{inside}/../outside/bin": True,
        f"{outside}/to-inside": True,
        f"{inside}/to-outside": True,
        f"{outside}/by-inside": True,
        f"{outside}/round": True,
        f"{outside}/git": True,
        f"{tmp_path}/again/bin": True,
        "": True,
        ".": True,
        "bin": True,
    }
    assert {path: helper_programs.is_excluded(path) for path in expected} == expected


def test_a_folder_is_known_under_another_name_too(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    helper_programs.exclude(tmp_path / "ws")
    (tmp_path / "ws").rename(tmp_path / "moved")
    assert helper_programs.is_excluded(f"{tmp_path}/moved/bin")
    assert helper_programs.is_excluded(f"{tmp_path}/ws/bin")


def test_the_folders_of_the_system_are_never_excluded() -> None:
    helper_programs.exclude("/", "/usr", "/usr/bin", "/bin")
    assert helper_programs.find_program("sh") is not None


def test_a_helper_gets_no_place_that_commands_write(tmp_path: Path) -> None:
    workspace, other = tmp_path / "ws", tmp_path / "other"
    for folder in (workspace / "bin", other / "venv/bin", other / "bin", other / "node_modules/b"):
        folder.mkdir(parents=True)
        (folder / "git").write_text("#!/bin/sh\n")
        (folder / "git").chmod(0o755)
    (other / "venv/pyvenv.cfg").touch()
    (other / "links").mkdir()
    (other / "links/git").symlink_to(workspace / "bin/git")
    helper_programs.exclude(workspace)
    path = os.pathsep.join(
        map(
            str,
            (
                *("", ".", "bin", workspace / "bin", other / "venv/bin", other / "node_modules/b"),
                *(other / "links", other / "bin", "/usr/bin"),
            ),
        )
    )
    environ = dict.fromkeys(helper_programs.SEARCHED, f"{workspace}/lib")
    environ |= {"PATH": path, "LD_PRELOAD": f"libok.so {workspace}/x.so", "HOME": str(workspace)}
    assert helper_programs.find_program("git", environ) == str(other / "bin/git")
    assert helper_programs.find_program("./git", environ) == "./git"
    assert helper_programs.environment(environ) == {
        "PATH": f"{other}/links:{other}/bin:/usr/bin",
        "LD_PRELOAD": "libok.so",
        "HOME": str(workspace),
    }
    assert ("PATH", f"{workspace}/bin") in set(helper_programs.left_out(environ))
    only = {"PATH": f"{workspace}/bin"}
    assert helper_programs.find_program("git", only) is None
    assert "commands may change it" in helper_programs.why_missing("git", only)
    assert helper_programs.why_missing("no-such", only) == "no-such is not installed"
    assert helper_programs.environment(only) == {"PATH": ""}
