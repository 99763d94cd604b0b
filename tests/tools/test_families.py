"""Every family is told of tools that do what ours do, in names that mean the same everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from app.test_call_arguments import asked
from case_tables import for_every_row
from tools.calls_in_thread import CallsInThread, answer_of
from treadle.app.sessions.hooks import _applies_to, _describe_call
from treadle.app.sessions.offered_tools import choose_tools
from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.app.threads.call_diffs import preview_diff
from treadle.app.threads.call_text import describe_call
from treadle.config.settings import Hook
from treadle.core.tool_families import (
    FAMILIES,
    OWN_NAMES,
    SUB_AGENTS,
    ToolKind,
    find_family,
    find_family_of,
    find_shape,
    kind_of,
    list_meant_names,
    names_of,
)
from treadle.sandbox.policy import Level
from treadle.terminal.call_text import is_command, title_of
from treadle.thread.plan import read_plan_call
from treadle.tools.builtin import OWN_TOOLS, builtin_tools, find_builtin_tool

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-e\n+E\n*** Add File: b\n+b\n*** End Patch"
EVERY: list[tuple[str, Any]] = [
    (family, tool) for family in FAMILIES for tool in builtin_tools(family)
]
OWN = {tool.definition.name: tool for tool in OWN_TOOLS}


@for_every_row("family, tool", EVERY)
def test_what_a_family_is_told_is_what_our_tool_takes(family: str, tool: Any) -> None:
    told, shape = tool.definition, find_shape(tool.definition.name)
    assert shape is not None
    own = OWN[OWN_NAMES[shape.kind]].definition
    assert (told.effect, told.risk) == (own.effect, own.risk)
    shown = told.input_schema["properties"]
    given = {name: example_of(part) for name, part in shown.items()}
    taken = tool.signature.parse(json.dumps(given))
    assert taken.keys() == own.input_schema["properties"].keys()
    required = {name: given[name] for name in told.input_schema.get("required", ())}
    tool.signature.parse(json.dumps(required))
    # Whoever looks at the call by its name alone, later, sees the same.
    named = find_builtin_tool(told.name)
    assert named is not None
    assert named.signature.parse(json.dumps(given)) == taken
    # And ours, as a person gives them who has edited the call.
    restored = read_arguments(asked(told.name, given))
    assert restored is not None
    assert tool.signature.parse(json.dumps(restored)) == taken


def example_of(part: dict[str, Any]) -> Any:
    """A value that fits a schema and is none that another argument has by default."""
    if "enum" in part:
        return part["enum"][-1]
    if "anyOf" in part:
        return example_of(part["anyOf"][0])
    if part["type"] == "array":
        return [example_of(part["items"])]
    if part["type"] == "object":
        return {name: example_of(one) for name, one in part["properties"].items()}
    return {"string": "x", "integer": 3, "number": 7.0, "boolean": True}[part["type"]]


@for_every_row("family, tool", EVERY)
def test_no_words_name_a_tool_or_an_argument_that_the_family_does_not_have(
    family: str, tool: Any
) -> None:
    told = json.dumps([tool.definition.description, tool.definition.input_schema])
    offered = {one.definition.name for one in builtin_tools(family)}
    distinct = {name for name in names_of(*ToolKind) if "_" in name}
    assert {name for name in distinct if re.search(rf"\b{name}\b", told)} <= offered
    mine = tool.definition.input_schema["properties"]
    others = {"old_str", "new_str", "old_string", "new_string", "replace_all", "timeout_s", "edits"}
    items = [one for part in mine.values() for one in part.get("items", {}).get("properties", ())]
    named = {name for name in others if re.search(rf"\b{name}\b", told)}
    assert named <= {*mine, *items}, tool.definition.name


def test_a_name_is_one_tool_and_one_argument_in_all_families() -> None:
    for name in names_of(*{*ToolKind} - SUB_AGENTS):
        shapes = [one for family in FAMILIES.values() for one in family.tools if one.name == name]
        assert len({one.kind for one in shapes}) == 1, name
        own = {*OWN[OWN_NAMES[shapes[0].kind]].definition.input_schema["properties"]}
        for theirs in {their for one in shapes for their in one.arguments.values() if their}:
            meant = {
                ours for one in shapes for ours, their in one.arguments.items() if their == theirs
            }
            assert len(meant) == 1, (name, theirs)
            assert theirs not in own or meant == {theirs}, (name, theirs)


def test_each_kind_has_a_place_in_each_family() -> None:
    for family in FAMILIES.values():
        kinds = {tool.kind for tool in family.tools}
        changes = kinds & {ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH}
        others = {*ToolKind} - {ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH} - SUB_AGENTS
        assert others <= kinds, family.name
        assert changes in ({ToolKind.EDIT, ToolKind.WRITE}, {ToolKind.PATCH}), family.name
    assert find_family("from a later version") is find_family("")
    assert find_family_of(["read_file"]) == find_family_of(["deploy"]) == ""
    assert find_family_of(["apply_patch", "read_file"]) == "openai"
    assert find_family_of(["glob", "explore"]) == "gemini"


@for_every_row(
    "tool, given, line, diff, paths",
    [
        ("apply_patch", {"input": PATCH}, "apply_patch a.py b", None, ["a.py", "b"]),
        (
            "replace",
            {"file_path": "a.py", "old_string": "e", "new_string": "E", "instruction": "up"},
            "replace a.py",
            "-e\n+E",
            ["a.py"],
        ),
        ("write_file", {"file_path": "b", "content": "b\n"}, "write_file b", "+b", ["b"]),
        ("shell_command", {"command": ["bash", "-lc", "ls"]}, "$ ls", None, []),
        ("run_shell_command", {"command": "ls", "description": "Look"}, "$ ls", None, []),
        ("grep_search", {"pattern": "x", "dir_path": "src"}, "grep_search x src", None, []),
        ("list_directory", {"dir_path": "src"}, "list_directory src", None, []),
    ],
)
def test_people_and_hooks_see_what_would_run_in_each_shape(
    tool: str, given: Any, line: str, diff: str | None, paths: list[str]
) -> None:
    call = asked(tool, given)
    assert describe_call(call).startswith(line)
    assert title_of(call).startswith(line.replace("a.py b", "a.py, b"))
    assert list_written_paths(call) == paths
    assert is_command(call) == line.startswith("$")
    if diff is not None:
        assert preview_diff(call) == diff
    told = _describe_call(call)
    kind = kind_of(tool)
    assert kind is not None
    assert told["tool"] == OWN_NAMES[kind]
    assert told.get("called", told["tool"]) == tool
    assert told.get("paths", []) == paths


def test_the_diff_of_a_patch_has_all_its_files() -> None:
    call = asked("apply_patch", {"input": PATCH})
    there: dict[str, bytes | None] = {"a.py": b"d\ne\nf\n", "b": None}
    assert preview_diff(call, there.__getitem__) == (
        "@@ a.py: changed @@\n@@ -1,3 +1,3 @@\n d\n-e\n+E\n f\n@@ b: new @@\n@@ -0,0 +1,1 @@\n+b"
    )
    there["a.py"] = b"changed since\n"
    assert preview_diff(call, there.__getitem__) == (
        "@@ a.py: changed @@\n@@\n-e\n+E\n@@ b: new @@\n+b"
    )
    assert preview_diff(asked("apply_patch", {"input": "nonsense"})) is None


@for_every_row("tool, status", [("update_plan", "completed"), ("write_todos", "in_progress")])
def test_a_plan_is_read_in_each_shape(tool: str, status: str) -> None:
    shapes = {"update_plan": ("plan", "step"), "write_todos": ("todos", "description")}
    steps, step = shapes[tool]
    plan = read_plan_call(asked(tool, {steps: [{step: "Write", "status": status}]}))
    assert plan is not None
    assert [(one.step, one.status.name) for one in plan.steps] == [
        ("Write", "DONE" if status == "completed" else "IN_PROGRESS")
    ]
    assert read_plan_call(asked(tool, {"something": "else"})) is None


@for_every_row(
    "patterns, tool, applies",
    [
        (("edit_file",), "apply_patch", True),
        (("write_file",), "apply_patch", True),
        (("edit_file",), "replace", True),
        (("write_file",), "replace", False),
        (("bash",), "shell_command", True),
        (("shell_*",), "shell_command", True),
        (("bash",), "bash", True),
        (("bash",), "deploy", False),
        (("read_file",), "list_directory", False),
    ],
)
def test_a_hook_is_for_a_tool_whatever_a_family_calls_it(
    patterns: tuple[str, ...], tool: str, applies: bool
) -> None:
    assert _applies_to(Hook("before_tool", "x", patterns), tool) == applies


def test_names_that_a_person_may_mean() -> None:
    assert list_meant_names("apply_patch") == ("apply_patch", "edit_file", "write_file")
    assert list_meant_names("deploy") == ("deploy",)


@for_every_row(
    "family, tool, arguments, words",
    [
        (
            "gemini",
            "replace",
            {"file_path": "a", "old_string": "zz", "new_string": "q"},
            "old_string ",
        ),
        (
            "gemini",
            "replace",
            {"file_path": "a", "old_string": "x", "new_string": "y"},
            "or set allow_multiple",
        ),
        ("gemini", "replace", {"file_path": "a", "old_string": "x"}, "required field `new_string`"),
        ("gemini", "read_file", {"start_line": 1}, "required field `file_path`"),
        ("gemini", "write_todos", {"todos": [{"description": 1}]}, "`$.todos[0].description`"),
        (
            "gemini",
            "replace",
            {"file_path": "a", "old_string": "x", "new_string": "y", "nu": 1},
            "(accepted: file_path,",
        ),
        ("openai", "shell_command", {"command": "x", "timeout_ms": 9e9}, "- at `$.timeout_ms`"),
        ("openai", "apply_patch", {"patch": "x"}, "line 1 of the patch"),
    ],
)
async def test_what_is_wrong_is_told_in_the_names_that_the_model_knows(
    tmp_path: Path, family: str, tool: str, arguments: Any, words: str
) -> None:
    (tmp_path / "a").write_text("x\nx\n")
    answer = answer_of(await CallsInThread(tmp_path, family).call(tool, arguments))
    assert words in answer, answer
    for ours in ("old_str ", "replace_all", "edits", "`path`"):
        assert ours not in answer, answer


def test_a_family_without_its_file_tools_can_still_look() -> None:
    """What a read-only sandbox leaves out, by its kind and not by a name."""
    for family in FAMILIES:
        chosen = choose_tools(
            builtin_tools(family),
            Level.READ_ONLY,
            family=family,
            only_reads=False,
            has_network=True,
        )
        kinds = {kind_of(one.definition.name) for one in chosen.tools}
        assert kinds == {*ToolKind} - {ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH} - SUB_AGENTS


@for_every_row("family", FAMILIES)
def test_what_a_family_is_told_besides_is_short(family: str) -> None:
    prompt = FAMILIES[family].prompt
    assert len(prompt) < 400
    assert not {name for name in names_of(*ToolKind) if "_" in name and name in prompt} - {
        tool.name for tool in FAMILIES[family].tools
    }
