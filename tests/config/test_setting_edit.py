"""One value of a settings file is changed; every other letter of it stays as it was written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.config.setting_edit import parse_key, parse_value, remove_table, set_value
from treadle.errors import UsageError

FILE = """\
# Mine.

approval_mode = "ask"   # I want to be asked
max_steps=50

sandbox_writable = [
  "~/.cache/uv",  # uv
]

# Which model.
[models]
default = "sonnet" # "fast" # enough

title = "haiku"

[providers.local]
api = "openai-chat"
base_url = "http://localhost:9000/v1"
"""

EDITS: list[tuple[str, str, str, str]] = [
    ("approval_mode", "auto", 'approval_mode = "ask"   #', 'approval_mode = "auto"  #'),
    ("max_steps", "7", "max_steps=50", "max_steps = 7"),
    (
        "sandbox_writable",
        '["/a", "/b"]',
        'sandbox_writable = [\n  "~/.cache/uv",  # uv\n]',
        'sandbox_writable = ["/a", "/b"]',
    ),
    ("models.default", "a#b", '"sonnet" # "fast"', '"a#b"  # "fast"'),
    ("models.title", '"opus"', 'title = "haiku"', 'title = "opus"'),
    (
        "models.commit_message",
        "haiku",
        'title = "haiku"\n',
        'title = "haiku"\ncommit_message = "haiku"\n',
    ),
    ("auto_commit", "false", "]\n\n# Which", "]\nauto_commit = false\n\n# Which"),
    ("providers.local.default_model", "4.1", '/v1"\n', '/v1"\ndefault_model = "4.1"\n'),
    ("aliases.c", "local:coder", '/v1"\n', '/v1"\n\n[aliases]\nc = "local:coder"\n'),
    (
        'model_traits."local:coder".has_tools',
        "true",
        '/v1"\n',
        '/v1"\n\n[model_traits."local:coder"]\nhas_tools = true\n',
    ),
    (
        "providers.local.headers.x-a",
        "1",
        '/v1"\n',
        '/v1"\n\n[providers.local.headers]\nx-a = "1"\n',
    ),
]


def change(text: str, key: str, value: str) -> str:
    path = parse_key(key)
    return set_value(text, path, parse_value(path, value))


def test_a_value_is_changed_where_it_stands_and_nothing_else_is() -> None:
    wrong = []
    for key, value, before, after in EDITS:
        assert FILE.count(before) == 1, before
        for mark, end in (("", "\n"), ("\ufeff", "\r\n")):
            text = mark + FILE.replace("\n", end)
            wanted = mark + FILE.replace(before, after).replace("\n", end)
            if change(text, key, value) != wanted:
                wrong.append((key, change(text, key, value)))
    assert wrong == []


def test_a_new_file_and_one_that_is_a_comment_or_tables_alone() -> None:
    assert change("", "max_steps", "5") == "max_steps = 5\n"
    assert change("", "models.default", "opus") == '[models]\ndefault = "opus"\n'
    assert change("# Mine.\n", "max_steps", "5") == "# Mine.\nmax_steps = 5\n"
    heading = "# Mine.\n\n[models]\ndefault = 'a'\n"
    assert change(heading, "max_steps", "5") == heading.replace("\n\n", "\n\nmax_steps = 5\n\n")


@pytest.mark.parametrize(
    "text",
    [
        "models = { default = 'a', title = 'b' }\n",
        "[models]\n[models.default]\nx = 1\n",
    ],
)
def test_what_stands_within_a_larger_value_is_left_to_its_person(text: str) -> None:
    with pytest.raises(UsageError, match=r"models.default|is no table") as refused:
        change(text, "models.default", "c")
    assert "hand" in refused.value.hint or "stands within" in refused.value.message


def test_dotted_keys_are_changed_as_they_were_written() -> None:
    text = "models.default = 'a'\nmodels . \"title\" = 'b' # c\n"
    assert change(text, "models.title", "d") == text.replace("= 'b' #", '= "d"  #')


NAMES = st.sampled_from(["a", "b", "c d", "é", "x.y"])
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.lists(st.text("a\"'\\#[]=\n\x7f", max_size=4), max_size=3),
)
TABLES = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=5)


def written(tables: dict[str, Any]) -> str:
    """As TOML, by what is tested: each value is added by itself."""
    text = "# begin\n"
    for name, value in tables.items():
        below = value.items() if isinstance(value, dict) else [("", value)]
        for key, item in below:
            text = set_value(text, (name, key) if key else (name,), item)
    return text


@given(TABLES, st.tuples(NAMES) | st.tuples(NAMES, NAMES), VALUES)
def test_whatever_is_set_is_read_and_all_else_is_as_before(
    tables: dict[str, Any], path: tuple[str, ...], value: Any
) -> None:
    text = written(tables)
    before = {name: one for name, one in tables.items() if one != {}}
    assert tomllib.loads(text) == before
    if isinstance(before.get(path[0]), dict) != (len(path) == 2) and path[0] in before:
        return  # a table where a value stands, or the reverse
    changed = set_value(text, path, value)
    assert "# begin\n" in changed
    table = before
    for key in path[:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value
    assert tomllib.loads(changed) == before


def test_a_table_goes_with_all_that_stands_in_it_and_nothing_else() -> None:
    before = "# Mine.\nmax_steps = 3\n\n[mcp.other]\ncommand = 'b'\n"
    after = "\n# Which model.\n[models]\ndefault = 'x'\n"
    env = "[mcp.files.env]\nA = 'b'\n"
    for table in (
        f"[mcp.files]\n# what it is\ncommand = 'a'\nargs = [\n  '-y',\n]\n\n{env}",
        f"{env}\n[mcp.files]\ncommand = 'a'\n",
    ):
        for ends in ("\n", "\r\n"):
            text = f"{before}\n{table}{after}".replace("\n", ends)
            changed = remove_table(text, ("mcp", "files"))
            assert changed == (before + after).replace("\n", ends)
    dotted = "[mcp]\nfiles.command = 'a'\nfiles.env.A = 'b'\nother.command = 'c'\n"
    changed = remove_table(dotted + after, ("mcp", "files"))
    assert changed == f"[mcp]\nother.command = 'c'\n{after}"
    with pytest.raises(UsageError, match="stands within a larger value"):
        remove_table("mcp = { files = { command = 'a' }, b = {} }\n", ("mcp", "files"))
