"""The toy chat, and `treadle` itself, in terminals of their own."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cli.conftest import desktop as desktop
from cli.conftest import environment as environment
from cli.conftest import fresh_treadle as fresh_treadle
from cli.conftest import laptop as laptop
from cli.conftest import patient as patient
from cli.conftest import repository as repository
from cli.conftest import script as script
from cli.conftest import team as team
from cli.conftest import treadle as treadle
from terminal.harness import Screen
from terminal.talks import BRISK, SCRIPT, Start, Talk

TESTS = Path(__file__).parents[1]

BRACKETED = b"\x1b[?2004h"
"""From here on the real input hears."""

StartToy = Callable[..., Screen]


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[StartToy]:
    """Starts the toy, and waits until it hears; arguments in capitals are its environment."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with contextlib.ExitStack() as stack:

        def start(
            *arguments: str,
            columns: int = 80,
            rows: int = 24,
            in_shell: bool = False,
            keeps_cleared: bool = False,
            **env: str,
        ) -> Screen:
            toy = [sys.executable, "-m", "terminal.toy", str(tmp_path / "history"), *arguments]
            command = ["bash", "--norc", "--noprofile", "-i"] if in_shell else toy
            screen = Screen(
                command,
                cwd=folder,
                env={"PYTHONPATH": str(TESTS), "HOME": str(tmp_path), **env},
                columns=columns,
                rows=rows,
                keeps_cleared=keeps_cleared,
            )
            stack.enter_context(screen)
            if in_shell:
                screen.type(shlex.join(toy) + "\r")
            screen.wait_for("a toy\n")
            if "--plain" not in arguments and "TERM" not in env:
                screen.wait_for(lambda s: s.raw.rfind(BRACKETED) > s.raw.rfind(b"a toy"))
            return screen

        yield start


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A scripted model that says what `talks.SCRIPT` says."""
    (tmp_path / "talk.toml").write_text(SCRIPT)
    return f"scripted:{tmp_path / 'talk.toml'}"


@pytest.fixture
def start(repository: Path, environment: dict[str, str], model: str) -> Iterator[Start]:
    """Starts chats in the repository; what still runs at the end is killed."""
    with contextlib.ExitStack() as ending:

        def begin(
            *arguments: str,
            columns: int = 80,
            rows: int = 40,
            constants: Mapping[str, float] = BRISK,
        ) -> Talk:
            named = any(one in ("-c", "-r") for one in arguments)
            given = arguments if named else ("-m", model, *arguments)
            talk = Talk(repository, environment, given, columns, rows, constants)
            ending.enter_context(talk)
            # What is typed before belongs to the shell; a question may stand where the input was.
            talk.wait_for(lambda screen: ">" in screen.text or screen.is_asking)
            return talk

        yield begin
