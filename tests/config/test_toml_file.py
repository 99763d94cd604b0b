"""Every value of a TOML file is found on its line, and what is no TOML is told with its line."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.config.toml_file import STATEMENT_LINES_MAX, parse_toml
from treadle.errors import ConfigError

TEXT = '''\
# a comment with a = 1 in it
a = 1

b.c = """
d = 2
[e]
"""
[table]  # a comment
list = [
  "x", # ]
  """
]
""",
]
inline = { x = 1, y = { z = 2 } }

  [table."quoted.name"]
"key with = and ]" = 'b'
[[rows]]
n = 1
[[rows]]
n = 2
'''


def lines_of(text: str) -> dict[str, int]:
    return {"/".join(path): line for path, line in parse_toml(text.encode(), "f").lines.items()}


def test_a_value_is_on_the_line_on_which_its_statement_begins() -> None:
    assert lines_of(TEXT) == {
        "a": 2,
        "b": 4,
        "b/c": 4,
        "table": 8,
        "table/list": 9,
        "table/inline": 15,
        "table/inline/x": 15,
        "table/inline/y": 15,
        "table/inline/y/z": 15,
        "table/quoted.name": 17,
        "table/quoted.name/key with = and ]": 18,
        "rows": 19,
    }


def test_line_ends_and_a_byte_order_mark_do_not_count() -> None:
    assert lines_of("\ufeff" + TEXT.replace("\n", "\r\n")) == lines_of(TEXT)


def test_a_missing_value_is_placed_at_the_table_around_it() -> None:
    file = parse_toml(b"\n[a.b]\nc = 1\n", "f")
    assert file.format_location(("a", "b", "nothing")) == "f:2"
    assert file.format_location(("nothing",)) == "f"


def test_a_value_of_very_many_lines_ends_the_numbers_and_nothing_else() -> None:
    rows = '"x",\n' * (STATEMENT_LINES_MAX + 1)
    file = parse_toml(f"a = 1\nb = [\n{rows}]\nc = 2\n".encode(), "f")
    assert file.tables["c"] == 2
    assert file.lines == {("a",): 1}


@for_every_row(
    "data, told",
    [
        (b"a = 1\nb = \n", "f:2: not valid TOML: Invalid value"),
        (b"a = 1\n\nb = [\n1,\n", "f:4: not valid TOML: "),
        (b"a = 1\na = 2\n", "f:2: not valid TOML: Cannot overwrite a value"),
        (b"[a]\n[a]\n", "f:2: not valid TOML: Cannot declare"),
        (b"a = 1\n\xff = 2\n", "f:2: not UTF-8: "),
        (b"\x00", "f:1: not valid TOML: "),
        (b"garbage", "f:1: not valid TOML: "),
        (b"a = " + b"[" * 5000, "f: nested too deeply"),
        (b".".join([b"a"] * 3000) + b" = 1", "f: nested too deeply"),
        (b"a = " + b"1" * 5000, "f: not valid TOML: "),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(data: bytes, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_toml(data, "f")
    assert raised.value.message.startswith(told)


KEYS = st.text("ab.\"'[]=# \n", min_size=1, max_size=4)
VALUES = st.recursive(
    st.integers(0, 9) | st.text("a\"'[]{}=#\n", max_size=6),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def written(value: Any, gap: str) -> str:
    if isinstance(value, list):
        return f"[{gap}{''.join(f'{written(item, gap)},{gap}' for item in value)}]"
    if isinstance(value, str) and "\n" in value and '"' not in value:
        return f'"""\n{value}"""'
    return quoted(value) if isinstance(value, str) else str(value)


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.sampled_from(["", "\n", " # ]\n"]))
def test_every_statement_is_found_however_it_is_written(table: dict[str, Any], gap: str) -> None:
    text, expected = "", {}
    for key, value in table.items():
        expected[(key,)] = text.count("\n") + 1
        text += f"{quoted(key)} = {written(value, gap)}\n"
    assert tomllib.loads(text) == table
    assert parse_toml(text.encode(), "f").lines == expected


@given(st.text("ab=[]\"'{}.,#\n ", max_size=40))
def test_no_text_brings_the_reader_down(text: str) -> None:
    try:
        file = parse_toml(text.encode(), "f")
    except ConfigError:
        return
    assert {path[0] for path in file.lines} == set(file.tables)
