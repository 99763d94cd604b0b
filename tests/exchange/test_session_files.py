"""Whose file it is, by what it holds; lines, times and ids."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from exchange.recorded import CLAUDE, CODEX, GEMINI, GEMINI_LOG
from treadle.errors import UsageError
from treadle.exchange.imported_ids import make_imported_id
from treadle.exchange.json_lines import FILE_SIZE_MAX, LINE_SIZE_MAX, read_lines
from treadle.exchange.session_files import (
    SOURCES,
    SessionFile,
    default_folders,
    find_session_files,
    identify_file,
    read_sessions,
)
from treadle.exchange.times import parse_timestamp
from treadle.thread.ids import is_thread_id


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


FILES = {
    "claude.jsonl": (lines(*CLAUDE), "claude-code"),
    "claude-broken.jsonl": (b"\xff\xfe\n\n" + lines(*CLAUDE), "claude-code"),
    "codex.jsonl": (lines(*CODEX), "codex"),
    "codex-old.jsonl": (lines({"id": "a", "timestamp": "x", "instructions": None}), "codex"),
    "gemini.json": (json.dumps(GEMINI).encode(), "gemini"),
    "gemini.jsonl": (lines(*GEMINI_LOG), "gemini"),
    "thread.jsonl": (b'{"seq":1,"at":"2026-', "treadle"),
    "package.json": (b'{"name": "x", "messages": []}', ""),
    "half.json": (json.dumps(GEMINI).encode()[:-9], ""),
    "data.jsonl": (lines({"type": "user"}, {"a": 1}, [1]), ""),
    "binary.jsonl": (bytes(range(256)) * 9, ""),
    "wide.jsonl": ("hello\n".encode("utf-16"), ""),
    "empty.jsonl": (b"", ""),
}


def test_a_line_that_is_too_long_is_told_with_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"trajectory": []}\n{"more": "')
    os.truncate(file, LINE_SIZE_MAX + 100)
    with pytest.raises(UsageError, match=f"a line of more than {LINE_SIZE_MAX} bytes") as raised:
        read_sessions(identify_file(file))
    assert "whose name ends in .json or .traj" in raised.value.hint


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_is_known_by_what_it_holds(name: str, tmp_path: Path) -> None:
    data, source = FILES[name]
    (tmp_path / name).write_bytes(data)
    found = identify_file(tmp_path / name)
    assert found.source == source
    if source == "":
        with pytest.raises(UsageError, match="no session of a program that is known here"):
            read_sessions(found)
    elif source != "treadle":
        assert len(read_sessions(found)) == 1


def test_what_is_no_file_or_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(UsageError, match="no regular file"):
        identify_file(tmp_path / "pipe.jsonl")
    with (tmp_path / "large.jsonl").open("wb") as file:
        file.truncate(FILE_SIZE_MAX + 1)
    with pytest.raises(UsageError, match=f"up to {FILE_SIZE_MAX} are imported"):
        identify_file(tmp_path / "large.jsonl")


def test_a_folder_is_searched_with_all_below_it_in_order(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "b/1.json", "a/x/3.jsonl", "a/logs.json", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path).as_posix() for path in find_session_files(tmp_path)]
    assert found == ["a/x/3.jsonl", "b/1.json", "b/2.jsonl"]


def test_each_program_has_its_folder_and_its_own_variables_move_it() -> None:
    home = Path("/home/ada")
    assert default_folders("claude-code", {}, home) == [home / ".claude/projects"]
    assert default_folders("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, home) == [
        Path("/c/projects")
    ]
    assert default_folders("codex", {"CODEX_HOME": "/x"}, home)[0] == Path("/x/sessions")
    assert default_folders("gemini", {}, home) == [home / ".gemini/tmp"]
    assert default_folders("treadle", {}, home) == default_folders("auto", {}, home) == []
    assert (
        *("claude-code", "codex", "gemini", "pi", "opencode", "swe-agent", "treadle"),
    ) == SOURCES


def test_a_program_that_is_not_known_has_no_sessions(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_sessions(SessionFile(tmp_path / "x.jsonl", "treadle"))


# ---- lines -------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_skipped_with_all_its_pieces() -> None:
    faults: Counter[str] = Counter()
    long = b"x" * (LINE_SIZE_MAX + 1)
    found = list(read_lines([b"{}\n", long, b"yyy", b"z\n", b'{"a":1}\n'], faults))
    assert [line.fields for line in found] == [{}, {"a": 1}]
    assert faults == {"too long to be read": 1}


def test_lines_that_are_no_json_are_counted_and_kept() -> None:
    faults: Counter[str] = Counter()
    deep = b"[" * 100_000 + b"\n"
    found = list(read_lines([b"\xef\xbb\xbf{}\r\n", b" \n", b"x\xff\n", deep, b'{"a":'], faults))
    assert [line.fields for line in found] == [{}, None, None, None]
    assert found[1].text == "x\N{REPLACEMENT CHARACTER}"
    assert faults == {"no JSON": 2, "unfinished at the end of the file": 1}


@given(st.lists(st.binary(max_size=20)))
def test_reading_lines_never_fails(pieces: list[bytes]) -> None:
    for line in read_lines(pieces, Counter()):
        assert line.text


# ---- times and ids -----------------------------------------------------------------------------


@for_every_row(
    "value, told",
    [
        ("2025-10-01T08:00:00.123Z", "2025-10-01T08:00:00.123000Z"),
        ("2025-10-01T10:00:00+02:00", "2025-10-01T08:00:00.000000Z"),
        ("2025-10-01T08:00:00", "2025-10-01T08:00:00.000000Z"),
        (1759305600, "2025-10-01T08:00:00.000000Z"),
        (1759305600123, "2025-10-01T08:00:00.123000Z"),
        *(
            (value, "")
            for value in ("", "soon", None, True, [], 0, -1, 10**400, float("nan"), "0001-01-01")
        ),
        ("0001-01-01T00:00:00+14:00", ""),
        ("9999-12-31T23:59:59-14:00", ""),
    ],
)
def test_times_of_other_programs_become_times_of_records(value: Any, told: str) -> None:
    assert parse_timestamp(value) == told


@given(st.text(), st.sampled_from(["", "2025-10-01T08:00:00.123000Z"]), st.integers(0, 9))
def test_an_id_has_the_form_of_all_ids_and_is_the_same_again(
    name: str, began: str, count: int
) -> None:
    found = make_imported_id("codex", name, began, count)
    assert is_thread_id(found)
    assert re.fullmatch(r"T-.{8}-.{4}-7.{3}-[89ab].{3}-.{12}", found)
    assert found == make_imported_id("codex", name, began, count)
    assert found != make_imported_id("gemini", name, began, count)
    assert found != make_imported_id("codex", name + "x", began, count)
    assert found != make_imported_id("codex", name, began, count + 1)


def test_an_id_begins_with_the_time_so_that_lists_are_in_order() -> None:
    assert make_imported_id("codex", "s", "2025-10-01T08:00:00.123000Z").startswith(
        "T-01999ec9-0c7b-7"
    )
    assert make_imported_id("codex", "s", "").startswith("T-00000000-0000-7")


@pytest.mark.parametrize("record", ['{"type": []}', '{"type": {}, "payload": {}}'])
def test_a_record_of_a_strange_type_is_nobodys(tmp_path: Path, record: str) -> None:
    path = tmp_path / "strange.jsonl"
    path.write_text(f"{record}\n")
    assert identify_file(path).source == ""
