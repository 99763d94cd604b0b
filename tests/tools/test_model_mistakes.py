"""The mistakes that models make with files, and the answers that let them go on.

`model_mistakes.json` is the table: what it is stands in it. An answer that changes is read by
people before it stands there.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from case_tables import for_every_row
from tools.calls_in_thread import CallsInThread, answer_of

TABLE: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("model_mistakes.json").read_text(encoding="utf-8")
)
CALLS: Final[list[dict[str, Any]]] = TABLE["calls"]
CALL_COUNT_MIN: Final = 120
HARMLESS: Final = {"line ends"}
"""Kinds that were answered well before: they are there so that it stays so."""


def write_all(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


async def replay(folder: Path, mistake: dict[str, Any]) -> str:
    write_all(folder, TABLE["files"])
    thread = CallsInThread(folder, mistake.get("family", ""))
    for tool, arguments in mistake.get("first", ()):
        await thread.call(tool, arguments)
    write_all(folder, mistake.get("between", {}))
    return answer_of(await thread.call(mistake["tool"], mistake["arguments"]))


def plain(answer: str) -> str:
    """The answer without the words of a parser, which each version of Python chooses anew."""
    answer = re.sub(r"Python 3\.\d+", "Python", answer)
    return re.sub(r"(?m)^(\[syntax: .* as \w+, line \d+): .*\]$", r"\1]", answer)


@for_every_row("place", range(len(CALLS)))
async def test_each_mistake_is_answered_as_the_table_says(tmp_path: Path, place: int) -> None:
    mistake = CALLS[place]
    answer = await replay(tmp_path / str(place), mistake)
    wanted = mistake["after"]
    if sys.version_info >= (3, 13):  # its parser of JSON finds a trailing comma a line sooner
        wanted = mistake.get("after_3_13", wanted)
    assert plain(answer) == plain(wanted), mistake["kind"]


def test_the_table_says_where_each_kind_is_from() -> None:
    count = Counter(mistake["kind"] for mistake in CALLS)
    assert count.keys() == TABLE["seen_in"].keys()
    assert len(CALLS) >= CALL_COUNT_MIN
    assert all(
        source.startswith("https://github.com/")
        for all_ in TABLE["seen_in"].values()
        for source in all_
    )


@for_every_row("kind", TABLE["seen_in"])
def test_some_of_each_kind_were_answered_otherwise_before(kind: str) -> None:
    mine = [one for one in CALLS if one["kind"] == kind]
    assert kind in HARMLESS or any(one["before"] != one["after"] for one in mine)
