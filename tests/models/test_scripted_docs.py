"""The page for script authors is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from case_tables import for_every_row
from treadle.core.llm import LlmErrorKind
from treadle.models.scripted import script
from treadle.models.scripted.script import parse_script

PAGE = (Path(__file__).parents[2] / "docs" / "scripted-models.md").read_text()
BLOCKS = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SCRIPTS = [(name, text) for language, name, text in BLOCKS if language in ("toml", "json")]


def test_the_page_has_scripts_and_programs():
    assert len(SCRIPTS) >= 3
    assert {language for language, _, _ in BLOCKS} == {"toml", "json", "python"}


@for_every_row("name, text", SCRIPTS)
def test_every_script_on_the_page_is_valid(name, text):
    assert parse_script(text.encode(), name).replies


def test_every_program_on_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for language, name, text in BLOCKS:
        if language == "python":
            exec(compile(text, "scripted-models.md", "exec"), namespace)
        else:
            Path(name).write_text(text)


@for_every_row(
    "struct",
    [
        script.Script,
        script.Reply,
        script.When,
        script.ScriptedCall,
        script.ScriptedUsage,
        script.ScriptedFailure,
    ],
)
def test_every_key_of_a_script_is_on_the_page(struct):
    missing = [
        key for key in struct.__struct_fields__ if not re.search(rf"`{key}( = true)?`", PAGE)
    ]
    assert missing == []


def test_every_error_kind_is_on_the_page():
    assert [kind.value for kind in LlmErrorKind if f"`{kind.value}`" not in PAGE] == []


def test_the_page_gives_the_limits_that_hold():
    assert f"at most {script.DELAY_S_MAX:.0f} seconds" in PAGE
    assert f"else {script.CHUNK_SIZE_DEFAULT} |" in PAGE
    assert f"must not begin with `{script.CALL_ID_PREFIX}`" in PAGE
