"""The public names of the application layer: listed, documented, alike in how they are called."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from click import Group

from treadle import app
from treadle.cli.main import cli

LISTED: Final = (Path(__file__).parent / "public-api.txt").read_text().splitlines()
PAGE: Final = (Path(__file__).parents[2] / "docs" / "app.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def functions() -> dict[str, inspect.Signature]:
    values = {name: getattr(app, name) for name in LISTED}
    return {
        name: inspect.signature(value)
        for name, value in values.items()
        if inspect.isfunction(value)
    }


def test_the_public_names_are_the_listed_ones_and_each_says_what_it_is() -> None:
    advice = "a public name stands in _HOME of app/__init__.py and in tests/app/public-api.txt"
    assert sorted(app.__all__) == LISTED == sorted(set(LISTED)), advice
    assert dir(app) == LISTED
    aliases = {"Notify", "OpenThread", "Output", "Store"}
    things = {name: getattr(app, name) for name in LISTED if name not in aliases}
    assert [name for name, value in things.items() if not inspect.getdoc(value)] == []
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = app.nonsense


def test_each_public_name_is_imported_for_type_checkers_from_where_it_is_loaded() -> None:
    source = Path(app.__file__).read_text(encoding="utf-8")
    imported = {
        (one.asname, str(node.module))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if one.asname is not None
    }
    loaded = {(name, f"treadle.{module}") for name, module in app._HOME.items()}
    advice = "a public name stands twice in app/__init__.py: below TYPE_CHECKING, and in _HOME"
    assert sorted(imported ^ loaded) == [], advice


def test_functions_are_called_alike() -> None:
    """The store comes first; `notify` is optional and named; nothing takes `**kwargs`."""
    misses = []
    for name, signature in functions().items():
        parameters = list(signature.parameters.values())
        names = [parameter.name for parameter in parameters]
        if "store" in names and names[0] != "store":
            misses.append(f"{name}: the store is not first")
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                misses.append(f"{name}: {parameter}")
            if parameter.annotation is parameter.empty or parameter.annotation == "Any":
                misses.append(f"{name}: {parameter.name} has no type")
            if parameter.name == "notify" and (
                parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty
            ):
                misses.append(f"{name}: `notify` is not optional and named")
    assert misses == []


def test_the_page_has_every_function_and_every_command_and_no_other_name() -> None:
    missing = [name for name in functions() if f"`{name}`" not in PAGE]
    assert missing == [], f"{missing}: name them in the table of docs/app.md"
    table = PAGE.partition("\n## Which function does what a command does\n")[2]
    rows = re.findall(r"^\|.*\|(.*)\|$", table, re.MULTILINE)
    named = re.findall(r"`(\w+)`", "\n".join(rows)) + re.findall(r"\bapp\.(\w+)", PAGE)
    unknown = sorted({*named} - {*LISTED})
    assert unknown == [], f"{unknown}: docs/app.md names them, and treadle.app has no such name"
    assert isinstance(cli, Group)
    no_use_case = {"admin", "completion", "config", "demo", "models", "serve"}
    commands = {name for name, one in cli.commands.items() if not one.hidden}
    assert sorted(name for name in commands - no_use_case if f"`{name}" not in PAGE) == []


def test_the_programs_of_the_page_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    namespace: dict[str, object] = {}
    for language, name, text in BLOCKS:
        if language == "python":
            exec(compile(text, "app.md", "exec"), namespace)
        else:
            (folder / name).write_text(text)
    assert len(BLOCKS) >= 5
