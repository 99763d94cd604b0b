"""The first minute: a prompt on the command line, a provider to choose, a key that nobody sees."""

from __future__ import annotations

import json
from pathlib import Path

from terminal.harness import ENTER, TREADLE, Screen
from terminal.talks import Start, told


def test_a_prompt_on_the_command_line_begins_the_talk(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    talk = start("good morning")
    talk.type("and once more" + ENTER)  # typed before anything was ready: it comes behind
    talk.wait_for(lambda screen: screen.text.count("Hello there.") == 2)
    assert talk.text.index("> good morning") < talk.text.index("> and once more")
    assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert line["title"] == "good morning"


def test_a_word_like_a_command_is_no_prompt(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    with Screen([*TREADLE, "verfy"], cwd=repository, env=environment) as screen:
        screen.wait_for("did you mean verify?")
        assert screen.wait_for_end() == 2
    start("--", "verfy").wait_for("> verfy")
