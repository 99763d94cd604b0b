"""What a person may write, and what is said of everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from config.conftest import Desk
from treadle.config.approval_modes import APPROVAL_MODES
from treadle.config.loader import ENVIRONMENT, _SettingLayers
from treadle.config.mcp_servers import Effect, Risk, ServerSetting
from treadle.config.settings import (
    HOOK_RULES,
    MCP_RULES,
    PROVIDER_RULES,
    TABLES,
    TOP_LEVEL_RULES,
    TRAIT_RULES,
    ApprovalMode,
    Family,
    Hook,
    Settings,
    Thinking,
    find_faults,
    format_dotted_key,
)
from treadle.config.toml_file import TomlFile
from treadle.core.llm import ModelTraits
from treadle.core.tool_families import FAMILIES
from treadle.core.tools import EffectClass, RiskLevel
from treadle.errors import ConfigError
from treadle.models.catalog import ProviderEntry, make_catalog, read_defaults

Mistake = Callable[[str], str]
LOCAL = '[providers.local]\napi = "openai-chat"\nbase_url = "http://localhost:1/v1"\n'


def test_every_field_has_a_rule_and_every_rule_a_field() -> None:
    assert set(Settings.__struct_fields__) == {*TOP_LEVEL_RULES, "models", "hooks", "mcp"}
    assert set(Hook.__struct_fields__) == set(HOOK_RULES)
    assert set(ServerSetting.__struct_fields__) == set(MCP_RULES)
    assert {one.value for one in EffectClass} == {*get_args(Effect)}
    assert {one.name.lower() for one in RiskLevel} == {*get_args(Risk)}
    assert set(ProviderEntry.__struct_fields__) == set(PROVIDER_RULES)
    assert set(ModelTraits.__struct_fields__) == set(TRAIT_RULES)
    assert get_type_hints(ModelTraits)["reasoning"] == Thinking
    assert (*FAMILIES,) == get_args(Family)
    assert tuple(APPROVAL_MODES) == get_args(ApprovalMode)
    assert {path[0] for path, _ in ENVIRONMENT.values()} == {*TOP_LEVEL_RULES, "models"} - {
        "sandbox_writable",
        "sandbox_readable",
    }


def test_the_built_in_table_keeps_the_rules() -> None:
    assert list(find_faults(read_defaults())) == []


@for_every_row(
    "text, told",
    [
        (
            'a = 1\n# x\nmax_steps = "many"\n',
            "FILE:1: unknown key a",
        ),
        (
            '\n\nmax_steps = "many"\n',
            "FILE:3: max_steps must be a whole number of at least 1 and at most 1000000000, "
            'not "many"',
        ),
        ("max_step = 3\n", "FILE:1: unknown key max_step; did you mean max_steps?"),
        ("provider = 3\n", "FILE:1: unknown key provider; did you mean providers?"),
        (
            '[providers.openai]\napi_key = "sk-1"\n',
            "FILE:2: unknown key providers.openai.api_key; a key never stands in a file of "
            "settings: name its key_env, key_file or key_command",
        ),
        ("max_steps = 0\n", "not 0"),
        ("max_steps = true\n", "not true"),
        ("max_steps = 1.5\n", "not 1.5"),
        ("max_tokens = -1\n", "not -1"),
        ("compact_at = 9999\n", "a whole number of tokens, at least 10000, not 9999"),
        ("compact_at = 0.8\n", "a whole number of tokens, at least 10000, not 0.8"),
        ("max_tokens = 9223372036854775808\n", "not 9223372036854775808"),
        ("max_tokens = 0x" + "f" * 5000, "FILE:1: max_tokens must be a whole number"),
        ("temperature = 2.1\n", "FILE:1: temperature must be a number from 0 to 2, not 2.1"),
        ("temperature = nan\n", "not NaN"),
        ("temperature = inf\n", "not Infinity"),
        ('temperature = "1"\n', 'not "1"'),
        (
            'approval_mode = "yolo"\n',
            'approval_mode must be "plan", "ask", "auto-edit" or "auto", not "yolo"',
        ),
        ("approval_mode = true\n", "not true"),
        ('reasoning = "High"\n', '"default", "off", "low", "medium" or "high", not "High"'),
        ("auto_commit = 1\n", "auto_commit must be true or false, not 1"),
        ('local_only = "yes"\n', "local_only must be true or false"),
        ("local_only = 2026-01-01\n", 'not "2026-01-01"'),
        ("max_steps = [1, 2]\n", "not [1, 2]"),
        ("[max_steps]\nx = 1\n", "FILE:1: max_steps must be"),
        ("models = 3\n", "FILE:1: models must be a table: [models]"),
        ("[[models]]\na = 1\n", "models must be a table"),
        ("[models]\ndefault = 3\n", "FILE:2: models.default must be the name of a model"),
        ('[models]\ndefault = ""\n', 'not ""'),
        ('[models]\n"" = "x:y"\n', "the key must be a kind of task"),
        ('[aliases]\n"a:b" = "x:y"\n', 'aliases."a:b": the key must be a name'),
        ('[aliases]\nOpus = "x:y"\n', "FILE:2: aliases.Opus: the key must be"),
        ('[aliases]\nscripted = "x:y"\n', "neither scripted nor recorded"),
        ('[providers.OpenAI]\napi = "openai-chat"\n', "providers.OpenAI: the key must be"),
        ("[providers]\nlocal = 3\n", "FILE:2: providers.local must be a table"),
        ("[providers.new]\nneeds_key = false\n", "FILE:1: providers.new needs api and base_url"),
        ("[providers.new]\n", "FILE:1: providers.new needs api and base_url"),
        ("[hooks.new]\n", "FILE:1: hooks.new needs on and command"),
        (LOCAL + 'key = "sk-1"\n', "FILE:4: unknown key providers.local.key"),
        ('[providers.openai]\napi = "grpc"\n', "FILE:2: providers.openai.api must be"),
        ('[model_traits."x:y"]\nreasoning = "much"\n', "FILE:2: model_traits."),
        ("[model_traits.x]\nhas_tools = true\n", 'the key must be "provider:model"'),
        ("a = \n", "FILE:1: not valid TOML"),
        ('reasoning = "\\u001b[31m\\u202e"\n', 'not "\\u001b[31m\\u202e"'),
    ],
)
def test_a_mistake_is_told_with_its_file_and_line(text: str, told: str, mistake: Mistake) -> None:
    said = mistake(text)
    assert told in said
    assert said.startswith("FILE:")
    assert "\n" not in said


@for_every_row(
    "line",
    [
        'key_env = "sk-hunter2"',
        'key_env = "hunter2"',
        'key_env = ""',
        'base_url_env = "https://hunter2"',
        'base_url = "https://user:hunter2@host.invalid/v1"',
        'base_url = "hunter2"',
        'key_file = "hunter2"',
        'key_command = "say \'hunter2"',
        'key_command = ["", "hunter2"]',
        "key_command = []",
        'key_command = ["a\\u0000hunter2"]',
        "key_command = { hunter2 = 1 }",
        'headers = { Authorization = "hunter2" }',
        'headers = { x-api-key = "hunter2" }',
        'headers = { Helicone-Auth = "Bearer hunter2" }',
        'headers = { x-apikey = "hunter2" }',
        'headers = { X-Auth-Token-2 = "hunter2" }',
        'headers = { cf-aig-authorization = "Bearer hunter2" }',
        'headers = { X-Team = "sk-proj-hunter2aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z" }',
        'headers = { Host = "hunter2" }',
        'headers = { Cookie = "hunter2" }',
        'headers = { "a b" = "hunter2" }',
        'headers = { a = "hunter2\\n" }',
        "headers = { hunter2 = 1 }",
        'query = { key = "hunter2" }',
        'query = { access_token = "hunter2" }',
        'query = { v = "https://me:hunter2@host/" }',
    ],
)
def test_what_may_be_a_key_in_the_wrong_place_is_not_shown(line: str, mistake: Mistake) -> None:
    said = mistake(f"[providers.openai]\n{line}\n")
    assert said.startswith("FILE:2: ")
    assert "not shown" in said
    assert "hunter2" not in said


def test_a_long_value_is_told_in_short(mistake: Mistake) -> None:
    assert len(mistake(f'reasoning = "{"x" * 5000}"\n')) < 250


def test_everything_that_can_be_set_arrives(desk: Desk) -> None:
    desk.write_user(
        'approval_mode = "auto"\nauto_commit = false\nmax_steps = 7\nmax_tokens = 8\n'
        'compact_at = 90000\ntemperature = 1\nreasoning = "low"\nlocal_only = true\n'
        "web_search = true\n"
        'sync = "manual"\nsandbox = "off"\nnetwork = "on"\nread = "ask"\nkeys = "vim"\n'
        'theme = "dark"\nremote = "answer"\nremote_critical = true\n'
        'sandbox_writable = ["/a"]\nsandbox_readable = ["~/b"]\n'
        '[models]\ndefault = "fast"\n"any kind" = "local:b"\n'
        '[aliases]\nfast = "local:a:b"\n'
        f'{LOCAL}base_url_env = "LOCAL_URL"\nkey_env = "LOCAL_KEY"\nkey_file = "~/k"\n'
        'key_command = ["say", "it"]\nneeds_key = false\ndefault_model = "m"\nprices = "x"\n'
        'cache_lifetime = "1h"\nheaders = { X-A = "b" }\nquery = { v = "1" }\n'
        '[model_traits."local:a:b"]\ncontext_tokens_max = 9\noutput_tokens_max = 8\n'
        'reasoning = "budget"\nhas_tools = false\nhas_temperature = false\n'
    )
    loaded = desk.load()
    assert loaded.settings == Settings(
        "auto",
        False,
        7,
        8,
        1.0,
        "low",
        True,
        "manual",
        {"default": "fast", "any kind": "local:b"},
        sandbox="off",
        network="on",
        read="ask",
        sandbox_writable=("/a",),
        sandbox_readable=("~/b",),
        compact_at=90_000,
        web_search=True,
        keys="vim",
        theme="dark",
        remote="answer",
        remote_critical=True,
    )
    assert loaded.catalog.providers["local"] == ProviderEntry(
        "openai-chat",
        "http://localhost:1/v1",
        "LOCAL_URL",
        "LOCAL_KEY",
        "~/k",
        ("say", "it"),
        False,
        "m",
        "x",
        "1h",
        {"X-A": "b"},
        {"v": "1"},
    )
    assert loaded.values["providers.local.headers.X-A"] == "(set, not shown)"
    ref = loaded.catalog.resolve("fast")
    assert ref.name == "local:a:b"
    assert loaded.catalog.traits(ref) == ModelTraits(9, 8, "budget", False, False)


def test_settings_are_a_value_that_can_be_kept() -> None:
    assert msgspec.structs.replace(Settings(), max_steps=3).max_steps == 3
    assert Settings() == Settings()


@pytest.mark.parametrize(
    ("path", "text"),
    [(("a", "b-1"), "a.b-1"), (("m", 'x:"y'), 'm."x:\\"y"'), (("", "."), '""."."')],
)
def test_a_path_is_written_as_toml_writes_it(path: tuple[str, ...], text: str) -> None:
    assert format_dotted_key(path) == text


def test_the_rules_name_every_table(desk: Desk) -> None:
    tables: dict[str, Any] = read_defaults()
    assert set(tables) | {"models", "hooks", "mcp"} == set(TABLES)
    assert desk.load().values.keys() >= TOP_LEVEL_RULES.keys()


KEYS = st.sampled_from(
    [
        *TOP_LEVEL_RULES,
        *TABLES,
        *PROVIDER_RULES,
        *TRAIT_RULES,
        *MCP_RULES,
        "openai",
        "mine",
        "openai:m",
        "Mine",
        "",
        "\x1b",
    ]
)
SCALARS = (
    st.sampled_from(["plan", "http://localhost/v1", "openai-chat", "false", "", "\u202e\x1b\n"])
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_whatever_stands_in_a_file_it_holds_or_one_line_says_why_not(tables: Any) -> None:
    layers, said = _SettingLayers(), ""
    try:
        layers.add_file(TomlFile("FILE", tables, {}))
    except ConfigError as error:
        said = error.message
    if said:
        assert said.isprintable()
        assert said.startswith("FILE: ")
    else:
        make_catalog(layers.tables)
        chosen = {key: value for key, value in layers.tables.items() if key in TOP_LEVEL_RULES}
        assert isinstance(msgspec.convert(chosen, Settings), Settings)
