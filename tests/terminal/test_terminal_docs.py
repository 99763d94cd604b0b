"""The page on the terminal tells every key, mark and command, in the words of the program."""

from __future__ import annotations

import re
from pathlib import Path

from treadle.terminal.chat import Chat
from treadle.terminal.chat_session import ChatOptions
from treadle.terminal.commands import all_commands
from treadle.terminal.keys import INPUT_PREFIXES, KEYS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "terminal.md").read_text()


def rows() -> list[tuple[str, str]]:
    return re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)


def test_every_key_mark_and_command_has_a_row_and_every_row_one() -> None:
    keys = [(f"`{'`, `'.join(key.shown.split(', '))}`", key.words) for key in KEYS]
    marks = [(f"`{mark}`", words) for mark, words in INPUT_PREFIXES]
    commands = [
        ("`" + f"/{'`, `/'.join(one.names)} {one.argument}".strip() + "`", one.words)
        for one in all_commands(Chat(ChatOptions()))
    ]
    heads = {"key", "mark", "command", "---"}
    advice = "the tables of docs/terminal.md, in the order of /help"
    assert [row for row in rows() if row[0] not in heads] == [*keys, *marks, *commands], advice


def test_the_page_names_the_commands_that_wait_for_no_turn() -> None:
    told = re.search(r"\n((?:`/\w+`[, and]+)+)work at any time", PAGE)
    assert told is not None, "docs/terminal.md, below the table of commands"
    commands = [one.name for one in all_commands(Chat(ChatOptions())) if not one.waits_for_turn]
    advice = "docs/terminal.md, below the table: the commands with waits_for_turn=False"
    assert sorted(re.findall(r"`/(\w+)`", told[1])) == sorted(commands), advice


def test_the_pictures_of_the_page_are_there() -> None:
    pictures = re.findall(r"\]\((pictures/[^)]+)\)", PAGE)
    assert len(pictures) >= 3
    for picture in pictures:
        assert "<svg" in (DOCS / picture).read_text()
