"""The page on configuration is true: its examples load, its tables are whole."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from config.conftest import Desk
from treadle.cli.main import COMMANDS, cli
from treadle.config.approval_modes import APPROVAL_MODES
from treadle.config.loader import ENVIRONMENT
from treadle.config.settings import (
    HOOK_RULES,
    MCP_RULES,
    PROVIDER_RULES,
    TABLES,
    TOP_LEVEL_RULES,
    TRAIT_RULES,
    Settings,
)
from treadle.core.approval import make_question
from treadle.core.messages import ToolCall
from treadle.core.tool_families import SUB_AGENTS, kind_of
from treadle.core.tools import EffectClass, RiskLevel
from treadle.errors import ConfigError
from treadle.models.catalog import read_defaults
from treadle.tools.builtin import OWN_TOOLS, builtin_tools

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
MODELS_PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OF_PROJECT = next(text for text in EXAMPLES if "providers.team" in text)
PAGES = ("configuration", "recordings")
ROWS = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_loads(desk: Desk, text: str) -> None:
    desk.write_user(text)
    loaded = desk.load()
    assert str(desk.user_file) in str(set(loaded.origins.values()))
    for name in loaded.settings.models.values():
        loaded.catalog.resolve(name)


def test_the_example_of_a_project_is_allowed_to_one_and_the_complete_one_is_not(desk: Desk) -> None:
    desk.write_project(OF_PROJECT)
    assert desk.load().settings.max_steps == 30
    desk.write_project(EXAMPLES[-1])
    with pytest.raises(ConfigError, match="a project's file may not"):
        desk.load()


def test_the_complete_example_has_every_key() -> None:
    tables = tomllib.loads(EXAMPLES[-1])
    assert tables.keys() == TOP_LEVEL_RULES.keys() | TABLES.keys()
    assert tables["providers"]["gateway"].keys() == PROVIDER_RULES.keys()
    (traits,) = tables["model_traits"].values()
    assert traits.keys() == TRAIT_RULES.keys()
    assert tables["hooks"]["guard"].keys() == HOOK_RULES.keys()
    servers = tables["mcp"].values()
    assert {key for entry in servers for key in entry} == MCP_RULES.keys()


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    below = (PROVIDER_RULES, TRAIT_RULES, HOOK_RULES, MCP_RULES)
    assert [*TOP_LEVEL_RULES, *TABLES, *(key for rules in below for key in rules)] == ROWS


def test_every_variable_and_every_built_in_provider_is_on_the_page() -> None:
    assert [name for name in ENVIRONMENT if f"`{name}`" not in PAGE] == []
    providers = read_defaults()["providers"]
    missing = [name for name in providers if f"`{name}`" not in PAGE]
    assert missing == [], f"{missing}: name them in docs/configuration.md"
    models = re.search(r"^\| `api` \|.*?\n\n", MODELS_PAGE, re.MULTILINE | re.DOTALL)
    assert models is not None
    told = re.sub(r"[^a-z0-9|,]", "", models[0].lower())
    missing = [name for name in providers if not re.search(rf"[|,]{name}[|,]", told)]
    assert missing == [], f"{missing}: name them in docs/models.md, Providers, as people know them"


def test_the_defaults_on_the_page_hold() -> None:
    row = {
        key: re.search(rf"^\| `{key}` \|.*\| (.*) \| `TREAD", PAGE, re.MULTILINE)
        for key in TOP_LEVEL_RULES
    }
    told = {key: found[1] for key, found in row.items() if found}
    settings = Settings()
    assert told == {
        "approval_mode": f'`"{settings.approval_mode}"`',
        "auto_commit": "`true`",
        "max_steps": "no bound",
        "max_tokens": "the model's own limit",
        "compact_at": f"`{settings.compact_at}`",
        "temperature": "the provider's own",
        "reasoning": f'`"{settings.reasoning}"`',
        "web_search": "`false`",
        "notify": "`true`",
        "local_only": "`false`",
        "sync": f'`"{settings.sync}"`',
        "sandbox": f'`"{settings.sandbox}"`',
        "network": f'`"{settings.network}"`',
        "read": f'`"{settings.read}"`',
        "keys": f'`"{settings.keys}"`',
        "remote": f'`"{settings.remote}"`',
        "remote_critical": "`false`",
        "theme": f'`"{settings.theme}"`',
    }
    assert (settings.auto_commit, settings.max_steps, settings.local_only) == (True, None, False)
    assert (settings.web_search, settings.notify) == (False, True)
    assert settings.remote_critical is False


def test_the_approval_modes_on_the_page_are_in_order_and_mean_what_it_says() -> None:
    """For the built-in tools: which are refused, run by themselves, or wait for a yes."""
    rows = re.findall(r'^\| `"([\w-]+)"` \| (.*) \| (.*) \| (.*) \|$', PAGE, re.MULTILINE)
    assert [name for name, *_ in rows] == list(APPROVAL_MODES)
    call = ToolCall("id", "")
    for name, *cells in rows:
        told = dict(zip(("read", "edit", "bash"), cells, strict=True))
        for tool in (one.definition for one in builtin_tools()):
            reads = tool.effect is EffectClass.READ
            kind = "read" if reads else "bash" if tool.name == "bash" else "edit"
            # Of a command the page says what becomes of one that writes.
            risk = RiskLevel.HIGH if kind == "bash" else tool.risk
            asks = make_question(APPROVAL_MODES[name], call, tool.risk, risk) is not None
            is_offered = reads or name != "plan"
            does = "asks first" if asks else "runs"
            assert told[kind] == (does if is_offered else "is refused"), (name, tool.name)


def test_the_table_of_built_in_tools_is_whole() -> None:
    page = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .* \| (\w+) \| (\w+) \|$", page, re.MULTILINE)
    rows = [row for row in rows if kind_of(row[0]) not in SUB_AGENTS]
    tools = [tool.definition for tool in OWN_TOOLS]
    advice = "docs/approvals.md, The built-in tools: in the order in which models are told of them"
    assert rows == [(one.name, one.effect.value, one.risk.name.lower()) for one in tools], advice


def test_the_layers_on_the_page_are_those_that_are_told() -> None:
    """Flags are none: `config show` cannot know of them."""
    table = re.search(r"^\| layer \|.*?\n\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert table is not None
    layers = [line.split("|")[1].strip() for line in table[0].splitlines() if line[:2] == "| "]
    assert layers[1:] == [
        "what is built in",
        "your file",
        "the project's file",
        "the environment",
    ]
    assert "win over all of" in table[1]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_line_on_the_page_is_one_that_treadle_has(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    lines = re.findall(r"(?:^|`)treadle ([^\s`]+[^`\n]*)", text, re.MULTILINE)
    assert lines
    options = {name for option in cli.params for name in option.opts}
    for line in lines:
        first, *rest = shlex.split(line)
        assert first in COMMANDS or first in options, line
        if first in options:
            assert {word for word in rest if word.startswith("-")} <= options, line
