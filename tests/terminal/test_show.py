"""`show` in a terminal: Markdown laid out, through the person's pager by git's rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.conftest import Run
from terminal.harness import TREADLE, Screen

LINES = 60
ANSWER = f"""
[[replies]]
text = '''
# Sums

They were **differences**; see `calc.py`.

| a | b |
|---|---|
| 1 | 2 |

{chr(10).join(f"{number}. step {number}" for number in range(1, LINES + 1))}
'''
"""

Show = Callable[..., Screen]


@pytest.fixture
def show(
    treadle: Run, script: Callable[[str], str], repository: Path, environment: dict[str, str]
) -> Iterator[Show]:
    """Shows a long answer in a terminal; arguments in capitals are its environment."""
    assert treadle("-p", "what was it?", "-m", script(ANSWER)).returncode == 0
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    with ExitStack() as stack:

        def begin(*arguments: str, rows: int = 24, **env: str) -> Screen:
            command = [*TREADLE, "show", thread, *arguments]
            screen = Screen(command, cwd=repository, env={**environment, **env}, rows=rows)
            return stack.enter_context(screen)

        yield begin


def test_it_pages_and_leaving_the_pager_is_no_failure(show: Show) -> None:
    screen = show()
    screen.wait_for("thread ")
    screen.wait_for(lambda s: s.lines[-1].startswith(":"))
    assert f"step {LINES}" not in screen.text
    screen.type("q")
    assert screen.wait_for_end() == 0
    assert screen.is_cooked


def test_one_screen_needs_no_pager_and_markdown_is_laid_out(show: Show) -> None:
    screen = show(rows=120)
    assert screen.wait_for_end() == 0
    for words in ("# Sums", "They were differences; see calc.py.", f" {LINES} step {LINES}"):
        assert words in screen.text
    line = screen.line_with("They were")
    assert screen.style_at(line, screen.lines[line].index("diff")).bold
    assert "**" not in screen.text


def test_the_pager_is_the_one_that_is_named_and_gets_colours(show: Show, tmp_path: Path) -> None:
    pager = tmp_path / "programs" / "pager"
    pager.parent.mkdir()
    pager.write_text(f"#!/bin/sh\necho paged $1\ncat > '{tmp_path}/said'\n")
    pager.chmod(0o755)
    screen = show(TREADLE_PAGER=f"{pager} -x", PAGER="false")
    assert screen.wait_for_end() == 0
    assert screen.text == "paged -x"
    said = (tmp_path / "said").read_text()
    assert f"step {LINES}" in said
    assert "\x1b[1m" in said
    assert show(TREADLE_PAGER="no-such-pager").wait_for_end() == 2


@pytest.mark.parametrize(
    ("arguments", "env"),
    [(("--no-pager",), {}), ((), {"PAGER": "cat"}), ((), {"TREADLE_PAGER": ""})],
    ids=["option", "cat", "empty"],
)
def test_there_are_ways_to_have_none(
    show: Show, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    screen = show(*arguments, **env)
    assert screen.wait_for_end() == 0
    assert f"step {LINES}" in screen.text


def test_in_a_pipe_the_words_are_those_of_the_answer(treadle: Run, show: Show) -> None:
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    assert "They were **differences**; see `calc.py`." in treadle("show", thread).stdout
