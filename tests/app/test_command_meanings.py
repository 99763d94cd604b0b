"""Words of other agents lead to the command of ours that does it, in both faces."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.app.command_meanings import MEANINGS, suggest_command, suggest_slash_command
from treadle.cli.main import COMMANDS
from treadle.terminal.chat import Chat
from treadle.terminal.chat_session import ChatOptions
from treadle.terminal.commands import all_commands

SLASH = [name for one in all_commands(Chat(ChatOptions())) for name in one.names]


def test_every_row_leads_somewhere() -> None:
    misses = [row for row in MEANINGS if row.slash and row.slash not in SLASH]
    misses += [row for row in MEANINGS if row.command and row.command not in COMMANDS]
    misses += [row for row in MEANINGS if not (row.slash or row.command or row.note)]
    assert misses == []


def test_every_word_is_answered_in_both_faces() -> None:
    words = {word for row in MEANINGS for word in row.words.split()}
    assert len(words) == sum(len(row.words.split()) for row in MEANINGS)
    silent = [w for w in words - {*SLASH} if not suggest_slash_command(w, SLASH)]
    assert silent == []
    assert [w for w in words - {*COMMANDS} if not suggest_command(w, COMMANDS)] == []


@for_every_row(
    "name, told",
    [
        ("q", "; did you mean /quit?"),
        ("RESET", "; did you mean /new?"),
        ("compress", "; did you mean /compact?"),
        ("stats", "; did you mean /cost?"),
        ("checkpoint", "; did you mean /rewind?"),
        ("restore", "; did you mean /rewind?"),
        ("doctor", "; in a shell, `treadle doctor` does that"),
        ("plugins", "; did you mean /mcp?"),
        ("trash", "; in a shell, `treadle trash` does that"),
        ("hepl", "; did you mean /help?"),
        ("xyzzy", ""),
    ],
)
def test_a_slash_command_that_is_none(name: str, told: str) -> None:
    assert suggest_slash_command(name, SLASH) == told


@for_every_row(
    "name, told",
    [
        ("undo", "; did you mean rewind?"),
        ("ls", "; did you mean list?"),
        ("compress", "; did you mean compact?"),
        ("mode", "; in the chat, /mode does that"),
        ("model", "; did you mean models?"),
        ("new", "; `treadle` alone begins a new thread"),
        ("lsit", "; did you mean list?"),
        ("xyzzy", ""),
    ],
)
def test_a_command_that_is_none(name: str, told: str) -> None:
    assert suggest_command(name, COMMANDS) == told
