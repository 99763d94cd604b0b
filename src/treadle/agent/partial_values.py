"""What is there of a JSON document while it arrives: an answer of a type, before it is whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import UNSET

from treadle.outputs import Output, StateStarted, TextDelta, ToolStarted

_CLOSING = {"{": "}", "[": "]"}


def read_partial(text: str) -> Any:
    """The value of the beginning of a JSON document; `UNSET` while there is none.

    What is open is closed where it stands: a text has what has come of it. A key without its value,
    a number or a word that may go on, and a text that is a key are left out.

    Args:
        text: the beginning; a Markdown fence may stand before it.
    """
    starts = [at for at in map(text.find, "{[") if at >= 0]
    if not starts:
        return UNSET
    document = text[min(starts) :]
    stack, in_string, is_escaped = list[str](), False, False
    cuts: list[tuple[int, str]] = []
    for index, character in enumerate(document):
        if in_string:
            in_string = is_escaped or character != '"'
            is_escaped = not is_escaped and character == "\\"
        elif character == '"':
            in_string = True
        elif character in _CLOSING:
            stack.append(_CLOSING[character])
            cuts.append((index + 1, "".join(reversed(stack))))
        elif character in "}]" and stack:
            stack.pop()
            cuts.append((index + 1, "".join(reversed(stack))))
            if not stack:
                break
        elif character == ",":
            cuts.append((index, "".join(reversed(stack))))
    if stack and in_string:
        cut = document[:-1] if is_escaped else document
        cuts.append((len(cut), '"' + "".join(reversed(stack))))
    for end, closing in reversed(cuts[-3:]):
        try:
            return msgspec.json.decode(document[:end] + closing)
        except msgspec.DecodeError:
            continue
    return UNSET


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
