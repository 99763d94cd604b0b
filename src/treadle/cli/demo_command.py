"""`treadle demo`: the main job in half a minute, without keys or network."""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import click

from treadle import helper_programs
from treadle.errors import NotConfiguredError


@click.command("demo")
@click.option("-v", "--verbose", is_flag=True, help="Show every record of the journal at the end.")
def command(verbose: bool) -> None:
    """See the main job: a bug fixed, a kill -9 in the middle survived, a commit made. No keys.

    \b
    treadle demo        no key and no network needed; it works in a folder of its own
    treadle demo -v     with the table of all that was recorded

    Works in a temporary folder and leaves it there for you to look at.
    """  # noqa: D301  click reads the backspace
    from treadle.cli.demo.demonstration import Demonstration

    # It is often tried in a project, whose environment may be the first in PATH.
    helper_programs.exclude(Path.cwd())
    if helper_programs.find_program("git") is None:
        raise NotConfiguredError(f"the demo needs git: {helper_programs.why_missing('git')}")
    demo = Path(tempfile.mkdtemp(prefix="treadle-demo-"))
    with as_file(files("treadle.cli") / "demo") as source:
        Demonstration(demo, source, is_verbose=verbose).run()
