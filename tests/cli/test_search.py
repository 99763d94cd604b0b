"""`search`: what it prints, and when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.conftest import Run
from core.samples import answer, said
from store.shelf import Shelf
from treadle.cli.search_command import command
from treadle.errors import UsageError
from treadle.thread.facts import Renamed, Tagged

Search = Callable[..., "tuple[str, str]"]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "home")


@pytest.fixture
def searched(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Search:
    """The command on the threads of the shelf: what it says on both streams."""
    monkeypatch.setenv("TREADLE_HOME", str(shelf.places.data.parent))

    def run(*arguments: str, code: int = 0, color: bool = False) -> tuple[str, str]:
        done = CliRunner().invoke(command, arguments, color=color)
        if isinstance(done.exception, UsageError):
            raise done.exception
        assert done.exit_code == code, done.output
        return done.stdout, done.stderr

    return run


def test_a_hit_names_thread_version_and_what_was_said(shelf: Shelf, searched: Search) -> None:
    thread = shelf.create((said("mend the shuttle"),), (answer("the shuttle is mended"),))
    out, err = searched("shuttle")
    first, second = out.splitlines()
    assert first.startswith("mend the shuttle (2 places)  ")
    assert first.endswith(f"  {thread}")
    assert second.split() == ["version", "2", "prompt", "mend", "the", "shuttle"]
    assert err == f"to look at it: treadle show {thread} --version N\n"


def test_what_was_looked_for_is_bold_on_a_terminal_only(shelf: Shelf, searched: Search) -> None:
    shelf.create((said("mend the shuttle \x1b[2J"),))
    assert "\x1b[1mshuttle\x1b[0m" in searched("shuttle", color=True)[0]
    assert "\x1b" not in searched("shuttle")[0]


def test_json_holds_the_snippet_and_the_ranges(shelf: Shelf, searched: Search) -> None:
    thread = shelf.create((said("mend the shuttle"),))
    out, err = searched("SHUTTLE", "mend", "--json")
    (hit,) = json.loads(out)
    assert (hit["thread"]["id"], hit["version"], hit["kind"]) == (thread, 2, "prompt")
    assert [hit["snippet"][start:end] for start, end in hit["ranges"]] == ["mend", "shuttle"]
    assert (hit["count"], hit["score"] > 0, err) == (1, True, "")


def test_nothing_found_is_said_and_fails_as_grep_does(shelf: Shelf, searched: Search) -> None:
    shelf.create((said("mend"),))
    assert searched("shuttle", code=1) == ("", "nothing was found\n")
    assert json.loads(searched("shuttle", "--json", code=1)[0]) == []


def test_words_that_begin_with_a_minus_exclude(shelf: Shelf, searched: Search) -> None:
    shelf.create((said("mend the shuttle here"),))
    kept = shelf.create((said("mend the loom"),))
    for word in ("-shuttle", "-here", '-"the shuttle"'):
        (hit,) = json.loads(searched("mend", word, "--json")[0])
        assert hit["thread"]["id"] == kept


@pytest.mark.parametrize("arguments", [[""], ["-word"], ["!"]])
def test_a_query_without_words_is_a_usage_error(searched: Search, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="no word"):
        searched(*arguments)
    searched(code=2)


def test_a_misspelled_option_is_no_word_to_exclude(searched: Search) -> None:
    with pytest.raises(UsageError, match="no option --jsno"):
        searched("mend", "--jsno")


def test_filters_and_limits_are_those_of_list(shelf: Shelf, searched: Search) -> None:
    for number in range(22):
        shelf.create((said(f"mend {number}"), Renamed(f"title {number}")))
    tagged = shelf.create((said("mend it"), Tagged(("red",))))
    out, err = searched("mend")
    assert len(out.splitlines()) == 40
    assert "there are more; --all shows them" in err
    assert len(searched("mend", "--all")[0].splitlines()) == 46
    assert len(json.loads(searched("mend", "--json")[0])) == 23
    assert len(json.loads(searched("mend", "--json", "--limit", "3")[0])) == 3
    (hit,) = json.loads(searched("mend", "--tag", "red", "--json")[0])
    assert hit["thread"]["id"] == tagged


def test_the_real_command_finds_what_an_agent_did(
    treadle: Run, script: Callable[[str], str]
) -> None:
    calls = '[{ tool = "read_file", arguments = { path = "calc.py" } }]'
    model = script(f'[[replies]]\ncalls = {calls}\n[[replies]]\ntext = "It subtracts."\n')
    assert treadle("-p", "what does add do?", "-m", model).returncode == 0
    for words in (["calc.py"], ["return", "a"], ["subtracts"], ["main"], ['"what does"']):
        done = treadle("search", *words)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stderr
    done = treadle("search", "treadled")
    assert (done.returncode, done.stdout) == (1, "")
    done = treadle("search", "*")
    assert done.returncode == 2
