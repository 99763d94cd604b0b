"""Tools have their names in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import treadle
from treadle.app.sessions.sub_agents import KINDS
from treadle.core.tool_families import OWN_NAMES, ToolKind, kind_of, names_of
from treadle.tools.builtin import OWN_TOOLS

SOURCE = Path(treadle.__file__).parent
HOME = SOURCE / "core" / "tool_families.py"
AMBIGUOUS = {"bash", "plan", "glob", "replace"}
"""Also a program, an approval mode, an argument, a method: as a text they may mean that."""


def find_literals(tree: ast.Module) -> set[tuple[int, str]]:
    """Names of tools that stand as texts in a module, but for those that may mean something else.

    Of these only what a `tool_name` is compared with, or a ToolCall is made of.
    """
    names = names_of(*ToolKind)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            about_name = any(getattr(one, "attr", "") == "tool_name" for one in sides)
            parts = [part for one in sides for part in ast.walk(one)] if about_name else []
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ToolCall":
            parts = list(node.args)
        else:
            parts = [node] if getattr(node, "value", None) not in AMBIGUOUS else []
        found |= {
            (one.lineno, one.value)
            for one in parts
            if isinstance(one, ast.Constant) and one.value in names
        }
    return found


def test_no_other_module_knows_a_tool_by_its_name() -> None:
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py") if path != HOME}
    quoted = [f'"{name}"' for name in names_of(*ToolKind)]
    found = {
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path, text in texts.items()
        if any(name in text for name in quoted)  # to parse all of them takes seconds
        for line, name in find_literals(ast.parse(text))
    }
    assert not found, sorted(found)


def test_the_search_for_names_finds_what_it_is_for() -> None:
    """A check that cannot fail would be none."""
    for text, name in (
        ('if call.tool_name == "bash": pass', "bash"),
        ('if call.tool_name in ("x", "plan"): pass', "plan"),
        ('ToolCall("c", "bash", "{}")', "bash"),
        ('TOOLS = {"edit_file"}', "edit_file"),
    ):
        assert {found for _, found in find_literals(ast.parse(text))} == {name}, text
    assert not find_literals(ast.parse('if mode == "plan": find_program("bash")'))


def test_each_kind_is_a_built_in_tool() -> None:
    built_in = {tool.definition.name for tool in OWN_TOOLS}
    assert built_in | {kind.name for kind in KINDS} == {*OWN_NAMES.values()}
    assert {kind_of(name) for name in OWN_NAMES.values()} == {*ToolKind}
    assert kind_of("deploy") is None
