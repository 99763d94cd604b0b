"""What is there of a JSON document while it arrives: an answer of a type, before it is whole."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec
from msgspec import UNSET

from treadle.outputs import Output, StateStarted, TextDelta, ToolStarted

DEPTH_MAX: Final = 500
"""Levels of nesting; answers have a handful."""

_CLOSING: Final = {"{": "}", "[": "]"}
_CUTS_MAX: Final = 3


def read_partial(text: str) -> Any:
    """The value of the beginning of a JSON document; `UNSET` while there is none.

    What is open is closed where it stands: a text has what has come of it. A key without its value,
    a number or a word that may go on, and a text that is a key are left out. Of one that is nested
    deeper than `DEPTH_MAX` nothing is said: whoever walks over it would break.

    Args:
        text: the beginning; a Markdown fence may stand before it.
    """
    starts = [at for at in map(text.find, "{[") if at >= 0]
    if not starts:
        return UNSET
    document = text[min(starts) :]
    for end, closing in reversed(_find_cuts(document)):
        try:
            return msgspec.json.decode(document[:end] + closing)
        except msgspec.DecodeError:
            continue
    return UNSET


def _find_cuts(document: str) -> deque[tuple[int, str]]:
    """The last places where it may be cut, and what closes it there; none if it is too deep."""
    stack, in_string, is_escaped = list[str](), False, False
    cuts = deque[tuple[int, str]](maxlen=_CUTS_MAX)
    for index, character in enumerate(document):
        if in_string:
            in_string = is_escaped or character != '"'
            is_escaped = not is_escaped and character == "\\"
        elif character == '"':
            in_string = True
        elif character in _CLOSING:
            stack.append(_CLOSING[character])
            if len(stack) > DEPTH_MAX:
                return deque()
            cuts.append((index + 1, "".join(reversed(stack))))
        elif character in "}]" and stack:
            stack.pop()
            cuts.append((index + 1, "".join(reversed(stack))))
            if not stack:
                break
        elif character == ",":
            cuts.append((index, "".join(reversed(stack))))
    if stack and in_string:
        end = len(document) - is_escaped
        cuts.append((end, '"' + "".join(reversed(stack))))
    return cuts


async def follow_answer(stream: AsyncGenerator[Output, None]) -> AsyncGenerator[Any, None]:
    """The values that an answer has while it arrives, each once, the whole one last.

    Args:
        stream: everything that happens in a turn or a task.
    """
    text, last = "", UNSET
    async with aclosing(stream):
        async for output in stream:
            if isinstance(output, StateStarted | ToolStarted):
                text = ""  # what was said before a call, or sent back, is no answer
            elif isinstance(output, TextDelta):
                text += output.text
                value = read_partial(text)
                if value is not UNSET and value != last:
                    yield value
                    last = value
