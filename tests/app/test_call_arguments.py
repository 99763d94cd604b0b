"""Who shows or judges a call sees the arguments as its tool takes them."""

from __future__ import annotations

import json
from typing import Any

from case_tables import for_every_row
from treadle.app.sessions.hooks import _describe_call
from treadle.app.threads.call_arguments import _fits, read_arguments
from treadle.app.threads.call_diffs import preview_diff
from treadle.app.threads.call_text import describe_call
from treadle.core.messages import ToolCall
from treadle.terminal.call_text import title_of
from treadle.tools.builtin import builtin_tools

EDIT = {"file_path": "a.py", "old_string": "e", "new_string": "E"}


def asked(tool: str, arguments: Any) -> ToolCall:
    return ToolCall("c1", tool, json.dumps(arguments))


@for_every_row(
    "tool, given, taken",
    [
        ("bash", {"cmd": "rm -rf x"}, {"command": "rm -rf x"}),
        ("bash", {"command": ["bash", "-lc", "rm -rf x"]}, {"command": "rm -rf x"}),
        ("bash", {"command": "ls", "description": "List"}, {"command": "ls"}),
        ("edit_file", EDIT, {"path": "a.py", "edits": [{"old_str": "e", "new_str": "E"}]}),
        (
            "edit_file",
            {"path": "a.py", "edits": [{"oldText": "e", "newText": "E"}]},
            {"path": "a.py", "edits": [{"old_str": "e", "new_str": "E"}]},
        ),
        ("write_file", {"path": "a", "file_text": "x"}, {"path": "a", "content": "x"}),
        ("write_file", {"path": "a", "content": "x"}, {"path": "a", "content": "x"}),
        ("read_file", {"path": "a", "file_path": "b"}, {"path": "a", "file_path": "b"}),
        ("deploy", {"cmd": "x", "path": "y"}, {"cmd": "x", "path": "y"}),
        ("bash", [1], None),
    ],
)
def test_the_arguments_are_those_that_the_tool_takes(tool: str, given: Any, taken: Any) -> None:
    assert read_arguments(asked(tool, given)) == taken


def test_a_hook_judges_what_would_run() -> None:
    told = _describe_call(asked("bash", {"cmd": ["sh", "-c", "rm -rf x"]}))
    assert told == {"id": "c1", "tool": "bash", "arguments": {"command": "rm -rf x"}}
    assert _describe_call(asked("edit_file", EDIT))["arguments"]["path"] == "a.py"
    assert _describe_call(ToolCall("c1", "bash", "{"))["arguments"] == "{"


def test_people_see_what_would_run_and_change() -> None:
    assert describe_call(asked("bash", {"cmd": "rm -rf x"})) == "$ rm -rf x"
    assert title_of(asked("edit_file", EDIT)) == "edit_file a.py"
    assert preview_diff(asked("edit_file", EDIT)) == "-e\n+E"


def test_what_is_taken_for_fitting_as_it_is_fits_a_tool() -> None:
    """The short way past the tools must not miss a name that they do not have."""
    names = {
        name for tool in builtin_tools() for name in tool.definition.input_schema["properties"]
    }
    for name in (*names, "file_path", "cmd", "oldText"):
        assert _fits({name: None}) is False
    assert _fits({"command": "ls", "timeout_s": 3, "network": True})
    assert not _fits({"edits": [{"old_str": "a", "newText": "b"}]})
    assert not _fits({"edits": ["{}"]})
