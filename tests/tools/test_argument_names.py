"""Arguments as other agents' tools have them are taken where they leave no doubt."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.tool_failure import ToolFailure
from treadle.tools.argument_names import ArgumentConflictError, adapt_arguments
from treadle.tools.bash import bash
from treadle.tools.edit_file import Edit, edit_file
from treadle.tools.function_tool import AnyTool, tool
from treadle.tools.list_files import list_files
from treadle.tools.read_file import read_file
from treadle.tools.search_files import search_files
from treadle.tools.write_file import write_file

A_TO_B = {"path": "a", "edits": [Edit("x", "y")]}


@for_every_row(
    "asked, given, taken",
    [
        (
            read_file,
            {"file_path": "a", "offset": 10, "limit": 5},
            {"path": "a", "start_line": 10, "end_line": 14},
        ),
        (
            read_file,
            {"filePath": "a", "offset": "0", "limit": "5"},
            {"path": "a", "start_line": 1, "end_line": 5},
        ),
        (read_file, {"path": "a", "limit": 5}, {"path": "a", "end_line": 5}),
        (read_file, {"path": "a", "offset": 7, "limit": None}, {"path": "a", "start_line": 7}),
        (
            read_file,
            {"command": "view", "path": "a", "view_range": [3, -1]},
            {"path": "a", "start_line": 3},
        ),
        (
            read_file,
            {"path": "a", "view_range": "[3, 9]"},
            {"path": "a", "start_line": 3, "end_line": 9},
        ),
        (read_file, {"path": "a", "lines": "3-9"}, {"path": "a", "start_line": 3, "end_line": 9}),
        (
            read_file,
            {"path": "a", "line_offset": 3, "n_lines": 2},
            {"path": "a", "start_line": 3, "end_line": 4},
        ),
        (
            read_file,
            {"path": "a", "start_line": None, "end_line": "9"},
            {"path": "a", "end_line": 9},
        ),
        (read_file, {"path": "a", "start_line": 3.0}, {"path": "a", "start_line": 3}),
        (
            read_file,
            {
                "target_file": "a",
                "should_read_entire_file": False,
                "start_line_one_indexed": 2,
                "end_line_one_indexed_inclusive": 20,
                "explanation": "to see it",
            },
            {"path": "a", "start_line": 2, "end_line": 20},
        ),
        (read_file, {"path": "a", "file_path": "a"}, {"path": "a"}),
        (edit_file, {"file_path": "a", "old_string": "x", "new_string": "y"}, A_TO_B),
        (edit_file, {"path": "a", "oldText": "x", "newText": "y"}, A_TO_B),
        (
            edit_file,
            {"path": "a", "old_str": "x", "new_str": "y", "command": "str_replace"},
            A_TO_B,
        ),
        (edit_file, {"path": "a", "search": "x", "replace": "y"}, A_TO_B),
        (
            edit_file,
            {
                "file_path": "a",
                "old_string": "x",
                "new_string": "y",
                "replace_all": "true",
                "instruction": "do",
            },
            {"path": "a", "edits": [Edit("x", "y", True)]},
        ),
        (edit_file, {"path": "a", "edits": '[{"oldText":"x","newText":"y"}]'}, A_TO_B),
        (edit_file, {"path": "a", "edits": ['{"old_string":"x","new_string":"y"}']}, A_TO_B),
        (edit_file, {"path": "a", "edits": {"old_str": "x", "new_str": "y"}}, A_TO_B),
        (edit_file, {"path": "a", "edits": '{"edits":[{"oldText":"x","newText":"y"}]}'}, A_TO_B),
        (
            edit_file,
            {"path": "a", "edits": '[{"oldText":"x\n\tz","newText":"y"}]'},
            {"path": "a", "edits": [Edit("x\n\tz", "y")]},
        ),
        (edit_file, {"path": "a", "replacements": [{"search": "x", "replace": "y"}]}, A_TO_B),
        (
            edit_file,
            {"path": "a", "edits": [{"old_str": "x", "new_str": "y", "description": "d"}]},
            A_TO_B,
        ),
        (write_file, {"file_path": "a", "content": "z"}, {"path": "a", "content": "z"}),
        (
            write_file,
            {"command": "create", "path": "a", "file_text": "z"},
            {"path": "a", "content": "z"},
        ),
        (write_file, {"filename": "a", "contents": "z"}, {"path": "a", "content": "z"}),
        (
            write_file,
            {"TargetFile": "a", "CodeContent": "z", "toolSummary": "s"},
            {"path": "a", "content": "z"},
        ),
        (bash, {"cmd": ["bash", "-lc", "ls -la"]}, {"command": "ls -la"}),
        (bash, {"command": ["ls", "a b"], "workdir": "src"}, {"command": "ls 'a b'", "cwd": "src"}),
        (
            bash,
            {"command": "ls", "description": "List", "timeout": 120000},
            {"command": "ls", "timeout_s": 120.0},
        ),
        (bash, {"command": "ls", "timeout": "20"}, {"command": "ls", "timeout_s": 20.0}),
        (bash, {"command": "ls", "timeout_ms": 500}, {"command": "ls", "timeout_s": 0.5}),
        (bash, {"CommandLine": "ls", "Cwd": "src"}, {"command": "ls", "cwd": "src"}),
        (search_files, {"query": "x", "include": "*.py"}, {"pattern": "x", "glob": "*.py"}),
        (
            search_files,
            {"regex": "x", "path": "src", "file_pattern": "*.ts"},
            {"pattern": "x", "path": "src", "glob": "*.ts"},
        ),
        (list_files, {"dir_path": "src", "max_depth": "2"}, {"path": "src", "depth": 2}),
        (list_files, {"directory": "src"}, {"path": "src"}),
    ],
)
def test_what_they_mean_is_taken(
    asked: AnyTool, given: dict[str, Any], taken: dict[str, Any]
) -> None:
    found = asked.signature.parse(json.dumps(given))
    assert {name: found[name] for name in taken} == taken
    rest = asked.signature.parse(json.dumps({**_required(asked)}))
    assert {name: value for name, value in found.items() if name not in taken} == {
        name: value for name, value in rest.items() if name not in taken
    }


def _required(asked: AnyTool) -> dict[str, Any]:
    samples = {"edits": [{"old_str": "x", "new_str": "y"}]}
    return {name: samples.get(name, "s") for name in asked.definition.input_schema["required"]}


@for_every_row(
    "asked, given, reason",
    [
        (
            read_file,
            {"path": "a", "file_path": "b"},
            "`path` and `file_path` mean the same and differ: give `path` alone",
        ),
        (
            read_file,
            {"filename": "a", "file_path": "b"},
            "`filename` and `file_path` mean the same and differ: give `path` alone",
        ),
        (
            read_file,
            {"path": "a", "offset": 2, "start_line": 3},
            "`start_line` and `offset` mean the same",
        ),
        (
            read_file,
            {"path": "a", "view_range": [2, 9], "end_line": 3},
            "`end_line` and `view_range` mean the same",
        ),
        (
            read_file,
            {"path": "a", "view_range": [2]},
            "Object contains unknown field `view_range` (accepted: path",
        ),
        (read_file, {"path": "a", "limit": "many"}, "Object contains unknown field `limit`"),
        (
            read_file,
            {"path": "a", "start_line": "first"},
            "Expected `int`, got `str` - at `$.start_line`",
        ),
        (
            read_file,
            {"path": "a", "start_line": 2.5},
            "Expected `int`, got `float` - at `$.start_line`",
        ),
        (read_file, {"path": ["a"]}, "Expected `str`, got `array` - at `$.path`"),
        (read_file, {"path": None}, "Expected `str`, got `null` - at `$.path`"),
        (edit_file, {"path": "a", "edits": "x"}, "Expected `array`, got `str` - at `$.edits`"),
        (
            edit_file,
            {"path": "a", "old_string": "x"},
            "Object missing required field `new_str` - at `$.edits[0]`",
        ),
        (
            edit_file,
            {"path": "a", "edits": [{"old_str": "x", "new_str": "y"}], "old_string": "z"},
            "Object contains unknown field `old_string`",
        ),
        (
            edit_file,
            {"path": "a", "edits": [{"old_str": "x", "old_string": "z", "new_str": "y"}]},
            "`old_str` and `old_string` mean the same",
        ),
        (
            write_file,
            {"path": "a", "content": {"key": 1}},
            "Expected `str`, got `object` - at `$.content`",
        ),
        (
            write_file,
            {"path": "a", "content": "x", "append": True},
            "Object contains unknown field `append`",
        ),
        (
            bash,
            {"command": "ls", "timeout": 10, "timeout_s": 20},
            "`timeout_s` and `timeout` mean the same",
        ),
        (
            bash,
            {"command": "ls", "run_in_background": True},
            "Object contains unknown field `run_in_background`",
        ),
        (bash, {"command": ["ls", 1]}, "Expected `str`, got `array` - at `$.command`"),
    ],
)
def test_what_leaves_a_doubt_is_refused(asked: AnyTool, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        asked.signature.parse(json.dumps(given))
    assert caught.value.message.startswith(reason)


def test_the_names_are_not_shown() -> None:
    shown = json.dumps(edit_file.definition.input_schema)
    assert "old_string" not in shown
    assert "file_path" not in shown


def test_a_parameter_of_a_tool_is_never_taken_for_another_one() -> None:
    @tool()
    def move(path: str, file: str = "-", description: str = "") -> str:
        """Move."""
        return f"{path} {file} {description}"

    found = move.signature.parse('{"path": "a", "file": "b", "description": "c"}')
    assert found == {"path": "a", "file": "b", "description": "c"}
    assert move.signature.parse('{"File": "b", "filepath": "a"}')["file"] == "b"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2000)
    | st.floats(allow_nan=False)
    | st.text('a1[{"', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    [
        "path",
        "file_path",
        "edits",
        "old_string",
        "new_str",
        "view_range",
        "limit",
        "offset",
        "timeout",
        "command",
        "x",
    ]
)


def fits(asked: AnyTool, text: str) -> bool:
    try:
        asked.signature._decoder.decode(text)
    except msgspec.DecodeError:
        return False
    return True


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(names, json_values, max_size=6),
    st.sampled_from([read_file, edit_file, write_file, bash, search_files, list_files]),
)
def test_whatever_is_asked_is_adapted_or_refused(given: dict[str, Any], asked: AnyTool) -> None:
    before = json.dumps(given)
    try:
        adapted = adapt_arguments(given, asked.definition.input_schema)
    except ArgumentConflictError:
        adapted = None
    assert json.dumps(given) == before
    if fits(asked, before):
        assert adapted == given, "what fits as it is means what it says"
    if adapted is not None:
        assert adapt_arguments(adapted, asked.definition.input_schema) == adapted
    with suppress(ToolFailure):
        asked.signature.parse(before)
