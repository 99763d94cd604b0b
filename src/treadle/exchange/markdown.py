"""A thread as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from treadle.core.llm import Usage
from treadle.exchange.fenced_code import make_code_block, split_fenced_code
from treadle.exchange.readable_thread import (
    ReadableCall,
    ReadableItem,
    ReadableNote,
    ReadableThread,
    format_usage,
    list_thread_properties,
)
from treadle.thread.safe_text import sanitize_text

_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
_ACTIVE_MARKUP: Final = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")
"""Where a tag or a picture begins."""

_INDENTED_FENCE: Final = re.compile(r"^( {1,3})(?=`{3}|~{3})(.)")
"""In a list it would end with its item, elsewhere not: it is made none."""

_LINE_LENGTH_MAX: Final = 10_000
"""In a longer line no code is looked for: nobody reads it, and looking costs too much."""


def to_markdown(story: ReadableThread, describe: Callable[[Usage], str]) -> str:
    """The whole thread, ending with a line break.

    Args:
        story: the thread.
        describe: puts a usage into words.
    """
    return "\n\n".join(_render_blocks(story, describe)) + "\n"


def _render_blocks(story: ReadableThread, describe: Callable[[Usage], str]) -> Iterator[str]:
    yield f"# {_escape_line(story.document.metadata.title or story.document.id)}"
    rows = [
        f"| {name} | {_format_cell(value)} |"
        for name, value in list_thread_properties(story, describe)
    ]
    yield "\n".join(["| | |", "|---|---|", *rows])
    for turn in story.turns:
        if turn.number:
            yield f"## Turn {turn.number}"
            yield f"*{turn.at}*"
        for item in turn.items:
            yield from _render_item(item)
        if used := format_usage(turn.usage, describe):
            yield f"*Turn {turn.number}: {used}*"


def _render_item(item: ReadableItem) -> Iterator[str]:
    if isinstance(item, ReadableNote):
        yield f"*{_escape_line(item.text)}*"
        if item.detail:
            yield make_code_block(item.detail)
        return
    gone = " (gone back from)" if item.is_hidden else ""
    if isinstance(item, ReadableCall):
        yield f"**{_escape_line(item.tool_name)}** {_format_code(item.call_id)}{gone}"
        yield make_code_block(item.arguments, "json")
        yield "*(no result)*" if item.result is None else make_code_block(item.result)
        return
    yield f"**{item.who}**{' (interrupted)' if item.is_cut else ''}{gone}"
    if item.text:
        yield quote_markdown(item.text) if item.who == "user" else sanitize_markdown(item.text)


def quote_markdown(text: str) -> str:
    """The text as a quotation; nothing in it can end it."""
    return "\n".join(f"> {line}" if line else ">" for line in sanitize_markdown(text).split("\n"))


def sanitize_markdown(text: str) -> str:
    """Markdown that somebody else wrote, so that it ends where it ends, and loads nothing.

    A fence that is left open is closed, and tags outside code stay text: an open comment would
    swallow what follows. Pictures stay text too: showing one tells its host who reads this.
    """
    lines: list[str] = []
    for piece in split_fenced_code(text, only_flush=True):
        if piece.is_code:
            # A border of a cell makes a table of it, for some readers.
            lines += (piece.opening.replace("|", " "), *piece.lines, piece.closing)
        else:
            lines += _escape_outside_code(piece.lines)
    return "\n".join(lines)


def _escape_outside_code(lines: Sequence[str]) -> Iterator[str]:
    """Code in the lines is left as it is if each line opens and closes all of its own.

    Otherwise a line may be out of what looks like code in it, as code goes on over lines; so may be
    what stands behind an escaped backtick, or behind the border of a cell.
    """
    told = [_INDENTED_FENCE.sub(r"\1\\\2", line) for line in lines]
    has_code = all(map(_has_closed_code, told))
    for line in told:
        done = 0
        parts: list[str] = []
        for found in _CODE.finditer(line) if has_code else ():
            parts += (_escape_active_markup(line[done : found.start()]), found[0])
            done = found.end()
        yield "".join((*parts, _escape_active_markup(line[done:])))


def _has_closed_code(line: str) -> bool:
    if "`" not in line:
        return True
    if len(line) > _LINE_LENGTH_MAX or "\\`" in line or "|" in line:
        return False
    return "`" not in _CODE.sub("", line)


def _escape_active_markup(text: str) -> str:
    """No tag begins in the text, and no picture. What is escaped already stays so."""
    parts: list[str] = []
    done = 0
    for found in _ACTIVE_MARKUP.finditer(text):
        start = found.start()
        before = text[done:start]
        backslashes = len(before) - len(before.rstrip("\\"))
        parts += (before, "" if backslashes % 2 else "\\")
        done = start
    return "".join((*parts, text[done:]))


def _escape_line(text: str) -> str:
    """A text of one line in which no character has a meaning."""
    flat = " ".join(sanitize_text(text).split())
    return re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", flat)


def _format_cell(text: str) -> str:
    return _escape_line(text) or " "


def _format_code(text: str) -> str:
    flat = " ".join(text.split())
    return f"`{flat}`" if flat and "`" not in flat else _escape_line(flat)
