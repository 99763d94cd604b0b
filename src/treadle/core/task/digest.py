"""The digest of a task's older history, made of what was said and called, without a model. Pure.

What decided a step and how its calls ended is what later steps need: so the agent's words stay
beside each call, and of a long result its end, where commands and tests say what came of it. The
newest messages have most room, older ones a line, and of the oldest only the number is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.core.messages import Message
from treadle.core.task.memory import SUMMARY, HistoryEntry

LINE_DIGEST_LENGTH_MAX: Final = 8000
"""Characters of a digest of lines; beyond, the oldest are only counted."""
ARGUMENTS_LENGTH_MAX: Final = 120
OBSERVATION_LENGTH_MAX: Final = 200


_WHAT_IT_IS: Final = """\
[Taken from your own messages, calls and results, oldest first, which you no longer see; no model \
and no person wrote this. Long ones are cut; of a result the end is kept.]"""


class _Room(Struct, frozen=True):
    """How many bytes stay of the beginning and of the end of each part of a message."""

    words: tuple[int, int]
    arguments: tuple[int, int]
    result: tuple[int, int]
    glue: str


_FULL: Final = _Room((200, 600), (200, 100), (200, 800), "\n")
_BRIEF: Final = _Room((0, 160), (80, 0), (0, 120), " ")
_FULL_SHARE: Final = 3 / 4
"""How much of the digest has full room; what is older has to be brief."""


def make_digest(messages: Sequence[Message], size_max: int) -> str:
    """What was said, called and found, oldest first, in at most about so many bytes of UTF-8.

    Args:
        messages: of the task, from its first one on; that is the task itself, and left out.
        size_max: bytes of all of it, but for the lines that say what it is and what is left out.
    """
    kept: list[str] = []
    room = size_max
    for message in reversed(messages[1:]):
        has_full_room = room > size_max * (1 - _FULL_SHARE)
        text = _format_message(message, _FULL if has_full_room else _BRIEF)
        room -= len(text.encode()) + 1
        if room < 0:
            break
        kept.append(text)
    left_out = len(messages) - 1 - len(kept)
    head = [f"[{left_out} earlier messages are left out.]"] if left_out > 0 else []
    return "\n".join([_WHAT_IT_IS, *head, *reversed(kept)])


def _format_message(message: Message, room: _Room) -> str:
    def shorten(text: str, ends: tuple[int, int]) -> str:
        return _keep_ends(room.glue.join(text.split("\n")), *ends)

    if message.role == "tool":
        return f"-> {message.name}: {shorten(message.content, room.result)}"
    who = "Agent" if message.role == "assistant" else "Note"
    said = [f"{who}: {shorten(message.content, room.words)}"] if message.content.strip() else []
    calls = (
        f"Call of {call.tool_name}: {shorten(call.arguments_json, room.arguments)}"
        for call in message.tool_calls
    )
    return "\n".join([*said, *calls])


def _keep_ends(text: str, head: int, tail: int) -> str:
    """The text, or its beginning and its end with the number of characters between them."""
    text = text.strip()
    data = text.encode()
    if len(data) <= head + tail:
        return text
    start = data[:head].decode(errors="ignore")
    end = data[len(data) - tail :].decode(errors="ignore")
    left_out = f"[... {len(text) - len(start) - len(end)} characters ...]"
    return " ".join(filter(None, (start, left_out, end)))


# ---- the digest of tasks that say nothing of its size: so they were begun, and so they fold ------

_HEAD: Final = "... "
_TAIL: Final = " earlier calls"


def make_line_digest(entries: Sequence[HistoryEntry]) -> str:
    """A line for each entry, those of an earlier digest kept; bounded, the newest lines stay."""
    count, lines = 0, list[str]()
    for entry in entries:
        if entry.tool.tool_name != SUMMARY:
            lines.append(_format_entry(entry))
            continue
        earlier = entry.observation.split("\n")
        first = earlier[0].removeprefix(_HEAD).removesuffix(_TAIL)
        if earlier[0] == f"{_HEAD}{first}{_TAIL}" and first.isdecimal():
            count += int(first)
            del earlier[0]
        lines += earlier
    room = LINE_DIGEST_LENGTH_MAX - len(f"{_HEAD}{count + len(lines)}{_TAIL}")
    kept = 0
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    count += len(lines) - kept
    head = [f"{_HEAD}{count}{_TAIL}"] if count else []
    return "\n".join([*head, *lines[len(lines) - kept :]])


def _format_entry(entry: HistoryEntry) -> str:
    arguments = _shorten_line(entry.tool.arguments_json, ARGUMENTS_LENGTH_MAX)
    observation = _shorten_line(entry.observation, OBSERVATION_LENGTH_MAX)
    return f"step {entry.step}: {entry.tool.tool_name} {arguments} -> {observation}"


def _shorten_line(text: str, length_max: int) -> str:
    line = " ".join(text[: 4 * length_max].split())
    is_whole = len(line) <= length_max and len(text) <= 4 * length_max
    return line if is_whole else line[:length_max].rstrip() + "…"
