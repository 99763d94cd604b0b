"""The options that several commands share: the same word means the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from treadle.app.sessions.limits import MODES
from treadle.app.sessions.limits import make_budget as make_budget
from treadle.errors import UsageError
from treadle.thread.safe_text import sanitize_text

SANDBOX_LEVELS: Final = ("read-only", "workspace-write", "off")
NETWORK_MODES: Final = ("off", "ask", "on")
"""Both as `sandbox/policy.py` has them."""

STEPS_MAX: Final = 50
"""Of a task for which nobody says how many: work on code needs more than the library's 15."""

SECONDS_MAX: Final = 10 * 365 * 86_400
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)", re.ASCII)
_UNIT_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600}

F = TypeVar("F", bound=Callable[..., Any])


def parse_seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """`90`, `90s`, `10m`, `1.5h`."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value.strip())
    time_s = 0.0 if found is None else float(found[1]) * _UNIT_S[found[2]]
    if not 0 < time_s <= SECONDS_MAX:
        raise click.BadParameter(f"{value!r} is no time: write 90, 90s, 10m or 1h")
    return time_s


def parse_dollars(_: click.Context, __: click.Parameter, value: str | None) -> Decimal | None:
    """An amount of US dollars above zero."""
    if value is None:
        return None
    try:
        amount = Decimal(value.strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(0)
    if not amount.is_finite() or amount <= 0:
        raise click.BadParameter(f"{value!r} is no amount of US dollars: write 0.50")
    return amount


def model_option(words: str) -> Callable[[F], F]:
    """`-m`."""
    return click.option("-m", "--model", metavar="MODEL", help=words)


def folder_option(command: F) -> F:
    """`-C`."""
    words = "Work in FOLDER instead of here."
    return click.option("-C", "--cwd", metavar="FOLDER", type=click.Path(), help=words)(command)


def worktree_option(command: F) -> F:
    """`--worktree`; `find_work_folder` makes a folder of it and of `-C`."""
    words = (
        "Work in a git worktree of its own beside the repository, on the branch NAME; both are "
        "made if they are not there."
    )
    return click.option("--worktree", metavar="NAME", help=words)(command)


def find_work_folder(folder: str | None, worktree: str | None) -> str | None:
    """The folder to work in; where a worktree is wanted, says which one.

    Raises: as `open_worktree`.
    """
    if worktree is None:
        return folder
    import asyncio

    from treadle.app.files.worktrees import open_worktree

    made = asyncio.run(open_worktree(Path(folder or ".").expanduser(), worktree))
    kind = "new worktree" if made.is_new else "worktree"
    one = made.left == 1
    stay = "file of yours stays where it is" if one else "files of yours stay where they are"
    left = f"; {made.left} changed {stay}" if made.left else ""
    text = f"{kind} {made.folder}, branch {made.branch}{left}"
    click.echo(sanitize_text(text), err=True)
    return str(made.folder)


def settings_folder_option(command: F) -> F:
    """`-C` of a command that looks at settings."""
    return click.option(
        "-C",
        "--cwd",
        "folder",
        metavar="FOLDER",
        type=click.Path(),
        default=".",
        help="Look there instead of here.",
    )(command)


def find_folder(folder: str) -> Path:
    """The folder that `settings_folder_option` names.

    Raises:
        UsageError: it is none.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", hint="-C takes the folder of a project")
    return path


def mode_option(words: str) -> Callable[[F], F]:
    """`--approval-mode`."""
    return click.option("--approval-mode", type=click.Choice(MODES), help=words)


def format_option(command: F) -> F:
    """`--output-format`."""
    choice = click.Choice(["text", "json", "stream-json"])
    words = "json: one object at the end. stream-json: a line for everything that happens."
    return click.option(
        "--output-format", type=choice, default="text", show_default=True, help=words
    )(command)


def quiet_option(command: F) -> F:
    """`-q`."""
    words = "Say nothing but the answer, errors, and what waits for a yes."
    return click.option("-q", "--quiet", is_flag=True, help=words)(command)


def budget_options(of: str) -> Callable[[F], F]:
    """`--max-tokens`, `--max-cost`, `--time-limit`; `of` says of what."""

    def add(command: F) -> F:
        command = click.option(
            "--time-limit",
            metavar="TIME",
            callback=parse_seconds,
            help=f"Time {of} may take: 90, 90s, 10m, 1h.",
        )(command)
        command = click.option(
            "--max-cost",
            metavar="USD",
            callback=parse_dollars,
            help=f"US dollars {of} may cost, as far as prices are known.",
        )(command)
        return click.option(
            "--max-tokens",
            metavar="COUNT",
            type=click.IntRange(min=1),
            help=f"Tokens {of} may use, read and written.",
        )(command)

    return add


def run_options(command: F) -> F:
    """`--sandbox`, `--network`, `--record` and `--no-commit`."""
    command = click.option(
        "--network",
        type=click.Choice(NETWORK_MODES),
        help="Whether commands reach the network. ask: each that says it needs it is asked about. "
        "Default: what the settings say, else ask.",
    )(command)
    command = click.option(
        "--sandbox",
        type=click.Choice(SANDBOX_LEVELS),
        help="What commands may change: nothing, the workspace, or (off) whatever you may. "
        "Default: what the settings say, else workspace-write.",
    )(command)
    command = click.option(
        "--no-commit", is_flag=True, help="Do not commit what the agent changes."
    )(command)
    return click.option(
        "--record", metavar="FILE", type=click.Path(), help="Keep what the model streams in FILE."
    )(command)
