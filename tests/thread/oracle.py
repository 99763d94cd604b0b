"""A second reading of a journal's bytes, made of the definition alone and of other parts.

It shares nothing with `treadle.thread.record`: its JSON, its search and its hashes are its own. It
is slow, and takes every place in every line for a possible beginning of a record.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, NamedTuple

_HASHED = re.compile(rb'^(.*),"hash":"([0-9a-f]{32})"\}$', re.DOTALL)


class Judgement(NamedTuple):
    """How many records are intact, where they end, and what the bytes are worth."""

    count: int
    size: int
    condition: str


def judge(data: bytes) -> Judgement:
    """The definition: intact records from the first on; then nothing, or a torn end, or damage."""
    count, size, previous = 0, 0, "0" * 32
    while (end := data.find(b"\n", size)) >= 0:
        line = data[size:end]
        parts = _HASHED.match(line)
        told = _record(line)
        if parts is None or told is None or told["seq"] != count + 1:
            break
        digest = sha256(previous.encode() + parts[1] + b"}").hexdigest()[:32]
        if digest != parts[2].decode():
            break
        count, size, previous = count + 1, end + 1, digest
    rest = data[size:]
    if not rest:
        return Judgement(count, size, "clean")
    condition = "torn" if _could_be_unfinished(rest, count + 1) else "corrupt"
    return Judgement(count, size, condition)


def _could_be_unfinished(rest: bytes, expected: int) -> bool:
    """Whether no well-formed record stands where an unfinished last write could not have put it.

    It can have put record `expected` at the very beginning of the rest, and after that the records
    that belong to the same write.
    """
    start = 0
    for line in rest.split(b"\n"):
        for found in re.finditer(rb"\{", line):
            told = _record(line[found.start() :])
            if told is None:
                continue
            first = told.get("batch", told["seq"])
            place = start + found.start()
            if place == 0 and told["seq"] == expected:
                continue
            if place > 0 and first <= expected < told["seq"]:
                continue
            return False
        start += len(line) + 1
    return True


def _record(line: bytes) -> dict[str, Any] | None:
    if _HASHED.match(line) is None:
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not {"seq", "at", "event"} <= told.keys():
        return None
    numbers = [told["seq"], told.get("batch", told["seq"])]
    if not all(type(number) is int for number in numbers) or type(told["at"]) is not str:
        return None
    return told
