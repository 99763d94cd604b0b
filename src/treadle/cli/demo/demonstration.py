"""What the demo does: it works, is killed, goes on, and shows what there is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

from treadle import helper_programs
from treadle.config.loader import ENVIRONMENT
from treadle.errors import TreadleError
from treadle.thread.ids import ShortIds

PROMPT: Final = "The test suite fails. Find out why, and fix it."

INTRO: Final = """\
Treadle demo. The model is scripted: it says what treadle/cli/demo/script.toml tells it to.
Everything else is real: the repository, the tools, the processes, the kill, the commit.
"""

_POLL_S: Final = 0.05
_KILL_DELAY_S: Final = 0.6
_DEADLINE_POLLS: Final = 600


class Demonstration:
    """One run of the demo, in a folder of its own.

    Args:
        root: an empty folder.
        source: the project with the bug, and the model's script.
        is_verbose: whether every record of the journal is shown at the end.
    """

    def __init__(self, root: Path, source: Path, *, is_verbose: bool) -> None:
        self._is_verbose = is_verbose
        self._repository = root / "median"
        self._home = root / "home"
        self._script = root / "script.toml"
        shutil.copytree(source / "project", self._repository)
        (self._repository / "gitignore").rename(self._repository / ".gitignore")
        shutil.copy(source / "script.toml", self._script)
        given = helper_programs.environment()
        path = os.pathsep.join([str(Path(sys.executable).parent), given.get("PATH", "")])
        self._environment = {
            **{name: value for name, value in given.items() if not name.startswith("GIT_")},
            "TREADLE_HOME": str(self._home),
            "PATH": path,
        }
        for variable in ENVIRONMENT:  # the demo is the same whatever its user has set
            self._environment.pop(variable, None)

    def run(self) -> None:
        """Print and do all of it. Raises `TreadleError`: a step failed."""
        click.echo(INTRO)
        self._prepare_repository()
        thread_id = self._run_until_killed()
        self._resume(thread_id)
        self._show_result(thread_id)
        self._show_next_steps(thread_id)

    def _prepare_repository(self) -> None:
        _print_heading("1. A small repository whose test suite fails")
        self._run_git("init", "--quiet", "--initial-branch=main")
        for name, value in (
            ("user.name", "Demo"),
            ("user.email", "demo@example.invalid"),
            ("commit.gpgsign", "false"),
            ("core.hooksPath", ".git/hooks"),
        ):
            self._run_git("config", name, value)
        self._run_git("add", "--all")
        self._run_git("commit", "--quiet", "--message", "feat: add median")
        self._run_shell("python3 -m unittest 2>&1 | grep -E '^(FAIL|AssertionError|FAILED|OK)'")

    def _run_until_killed(self) -> str:
        _print_heading("2. The agent works on it, until its process is killed")
        arguments = ["-p", PROMPT, "-m", f"scripted:{self._script}", "--approval-mode", "auto"]
        shown = [f'"{PROMPT}"' if part == PROMPT else part for part in arguments]
        shown[3] = "scripted:script.toml"
        click.echo(f"$ treadle {' '.join(shown)}")
        process = self._start_treadle(*arguments)
        log = self._repository / "checks.log"
        for _ in range(_DEADLINE_POLLS):
            if log.exists() or process.poll() is not None:
                break
            _wait_for_exit(process, _POLL_S)
        _wait_for_exit(process, _KILL_DELAY_S)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            raise TreadleError("the demo's agent ended before it could be killed")
        click.secho(f"$ kill -9 {process.pid}      (in the middle of the check)", fg="red")
        threads = json.loads(self._run_treadle("list", "--json"))
        return str(threads[0]["id"])

    def _resume(self, thread_id: str) -> None:
        _print_heading("3. A new process goes on; nobody tells it what had happened")
        click.echo(f"$ treadle resume {ShortIds().shorten(thread_id)} < /dev/null")
        process = self._start_treadle("resume", thread_id)
        if process.wait() != 0:
            raise TreadleError(f"resuming failed with exit code {process.returncode}")

    def _show_result(self, thread_id: str) -> None:
        _print_heading("4. What there is now")
        self._run_shell("python3 -m unittest 2>&1 | tail -n 1")
        self._run_shell("git log --format='%h %s%n        %(trailers)' -n 1 | head -n 2")
        self._run_shell("git show --format= --stat HEAD; git status --short")
        replay = self._run_treadle("replay", thread_id)
        click.echo("$ treadle replay ...        (fold the journal again from nothing)")
        lines = replay.splitlines()
        for line in lines[:-1] if self._is_verbose else ():
            click.echo("  " + line)
        click.echo(lines[-1])
        if "Treadle-Thread: " + thread_id not in self._run_git("log", "-n", "1", "--format=%B"):
            raise TreadleError("the demo's commit does not name its thread")

    def _show_next_steps(self, thread_id: str) -> None:
        short_id = ShortIds().shorten(thread_id)
        _print_heading("5. What to do next")
        click.echo(
            f"{_make_path_line()}"
            "In a project of yours:\n"
            "  treadle login                   choose who answers: a key, or a local server\n"
            '  treadle "explain this project"  talk with it; kill it, and treadle -c goes on\n'
            "Here, where the demo was:\n"
            f"  cd {self._repository}\n"
            f"  export TREADLE_HOME={self._home}\n"
            f"  treadle show {short_id}           what was said and done\n"
            "  treadle blame stats.py          the prompt behind each line\n"
            f"  treadle replay {short_id}         its journal, folded again record by record\n"
            f"  rm -r {self._repository.parent}    when you have seen enough"
        )

    def _start_treadle(self, *arguments: str) -> subprocess.Popen[bytes]:
        sys.stdout.flush()
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "treadle", *arguments],
            cwd=self._repository,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    def _run_treadle(self, *arguments: str) -> str:
        return self._read_output(sys.executable, "-P", "-m", "treadle", *arguments)

    def _run_git(self, *arguments: str) -> str:
        return self._read_output("git", *arguments)

    def _run_shell(self, command_line: str) -> None:
        click.echo(f"$ {command_line}")
        output = self._read_output("sh", "-c", command_line).strip()
        click.echo(output or "(nothing)")

    def _read_output(self, *arguments: str) -> str:
        program = helper_programs.find_program(arguments[0]) or arguments[0]
        done = subprocess.run(
            [program, *arguments[1:]],
            cwd=self._repository,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise TreadleError(f"{' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


def _make_path_line() -> str:
    """How to reach the command, where the shell would not find it."""
    if shutil.which("treadle"):
        return ""
    return f'export PATH="{Path(sys.executable).parent}:$PATH"\n'


def _print_heading(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)


def _wait_for_exit(process: subprocess.Popen[bytes], time_s: float) -> None:
    try:
        process.wait(time_s)
    except subprocess.TimeoutExpired:
        return
