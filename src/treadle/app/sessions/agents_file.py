"""What `/init` says to the agent, so that it writes the AGENTS.md of a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from treadle.workspace.instructions import FILE_NAME

COMMAND_NAME: Final = "init"

AGENTS_FILE_PROMPT: Final = """\
Write AGENTS.md in the folder you work in: what an agent that works here for the first time has to
know and cannot guess. Every agent reads it at the beginning of each thread, so each line costs.

Look before you write:
- Read the README, the guide for contributors, the build files (package.json, pyproject.toml,
  Makefile, Cargo.toml, go.mod and the like), the CI workflows, the settings of linters and
  formatters, and enough of the source and the tests to see how they are laid out.
- Read what other agents were told here, if it is there: CLAUDE.md, GEMINI.md, .cursorrules,
  .cursor/rules, .windsurfrules, .github/copilot-instructions.md. Take over what holds.
- A command that you name must exist: look where it is defined. Run a cheap one to see that it
  works, if you may.

Then write, in 60 lines or fewer:
- what the project is, in one or two sentences;
- the commands: set up, build, format, lint, all tests, and one single test;
- the folders that matter, and what belongs where;
- conventions and traps that the code does not show by itself, with the reason where it helps;
- what must be true before a change is done.

Leave out what every programmer knows, what a linter enforces by itself, what a listing of the files
tells, and all secrets. Do not invent anything: if you could not find something out, do not say it.

If AGENTS.md is there already, do not begin anew: check each of its statements against the project,
correct what is not so any more, add what is missing, and keep the words of people as they are where
they hold.

At the end say in a few lines what you wrote and what you could not find out."""


def has_agents_file(folder: str | Path) -> bool:
    """Whether there is an AGENTS.md in this folder, whatever it is."""
    return os.path.lexists(Path(folder) / FILE_NAME)
