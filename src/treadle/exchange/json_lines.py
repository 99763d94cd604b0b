"""JSON out of files that another program wrote, maybe is writing: line by line, any line garbage.

No line, however bad, stops the reading. What a file holds is bounded before it is held.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.thread.record import replace_surrogates

LINE_SIZE_MAX: Final = 32 * 1024 * 1024
"""Bytes of a line that is looked at: pictures stand in them."""

FILE_SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes of a file that is imported: what it holds is in memory once, as is what becomes of it."""

Fields: TypeAlias = Mapping[str, Any]

_HALF_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may be half of a pair: JavaScript writes halves alone where a text was cut."""


class JsonLine(Struct, frozen=True):
    """A line: its text, and the JSON object in it; `None` if it holds none."""

    text: str
    fields: Fields | None


def parse_json(text: str) -> Any:
    """The JSON value of a text; no text in it has half a surrogate pair.

    Raises:
        ValueError: it is none; nested too deeply counts as none.
    """
    try:
        value = json.loads(text)
        return replace_surrogates(value) if _HALF_SURROGATE.search(text) else value
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def dump_json(value: Any) -> str:
    """A JSON value as text; one that JSON has no form for as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return str(value)[:1000]


def read_lines(pieces: Iterable[bytes], faults: Counter[str]) -> Iterator[JsonLine]:
    """The lines of a file that are not blank.

    Args:
        pieces: the file's lines, each with its end; a longer one than `LINE_SIZE_MAX` in several.
        faults: counts what is wrong, in words.
    """
    is_inside = False
    for piece in pieces:
        is_whole = piece.endswith(b"\n")
        was_inside, is_inside = is_inside, not is_whole
        if was_inside or len(piece) > LINE_SIZE_MAX:
            if not was_inside:
                faults["too long to be read"] += 1
            continue
        text = piece.decode("utf-8", "replace").strip("\ufeff \t\r\n")
        if not text:
            continue
        try:
            value = parse_json(text)
        except ValueError:
            faults["no JSON" if is_whole else "unfinished at the end of the file"] += 1
            value = None
        yield JsonLine(text, value if isinstance(value, dict) else None)


def to_text(value: Any) -> str:
    """A value as text: itself if it is text, nothing if there is none, else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dump_json(value)


def as_string(value: Any) -> str:
    """The value if it is text, else none."""
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> Fields:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


_COUNT_MAX: Final = 2**53


def as_count(value: Any) -> int:
    """The value if it can be a count of tokens, else 0."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _COUNT_MAX
    return value if is_count else 0


def format_problems(faults: Counter[str]) -> tuple[str, ...]:
    """What was counted, in words: `records that are no JSON: 3`."""
    return tuple(
        f"records that are {what}: {count}" for what, count in sorted(faults.items()) if count
    )
