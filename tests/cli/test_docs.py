"""The documents are true: examples run, every command is described, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from case_tables import for_every_row
from cli.commands_page import page
from cli.conftest import Run
from treadle.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_every_command_has_help_with_an_example_and_stands_in_the_readme() -> None:
    sections = page()
    readme = (ROOT / "README.md").read_text()
    missed = []
    for name in COMMANDS:
        section = sections.partition(f"## treadle {name}\n")[2].partition("\n## ")[0]
        usage, _, rest = section.partition("\n\n  ")
        has_help = f"Usage: treadle {name}" in usage and len(rest.splitlines()) > 1
        if not (has_help and f"\n  treadle {name}" in rest and f"`treadle {name}" in readme):
            missed.append(name)
    assert missed == [], "each has help, an example in it, and a line in the README"


def test_a_command_shows_its_help(treadle: Run) -> None:
    done = treadle("list", "--help")
    assert done.returncode == 0
    assert "treadle list [OPTIONS]" in done.stdout


def test_the_page_of_commands_is_what_they_say_of_themselves() -> None:
    written = (ROOT / "docs" / "commands.md").read_text()
    assert written == page(), "`make fmt` writes docs/commands.md anew"


def test_every_option_of_the_command_has_help(treadle: Run) -> None:
    shown = treadle("help", "--all").stdout
    for option in ("--print", "--continue", "--resume", "--model", "--cwd", "--private"):
        assert option in shown


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
PRINTS = [
    "2 + 3 is 5.\n" * 2,
    "A treadle is the pedal that drives a loom.\n",
    "SendLlmRequest in CallingLlm\n",
    "",  # there are no threads in a new home
]


@pytest.mark.parametrize(("source", "prints"), list(zip(EXAMPLES, PRINTS, strict=True)))
def test_the_examples_of_the_readme_run(source: str, prints: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=tmp_path,
        env={**os.environ, "TREADLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == (prints, "")


@for_every_row("path", DOCUMENTS)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_make_targets_have_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z]+):", makefile, re.MULTILINE)
    described = re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)
    assert set(targets) == set(described)
    for target in ("demo", "test"):
        assert f"make {target}" in (ROOT / "README.md").read_text()[:400]


def test_the_glossary_names_each_state_of_a_journal() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    for word in ("clean", "torn", "corrupt", "uncertain", "acknowledged"):
        assert f"**{word}**" in text
