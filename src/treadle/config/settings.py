"""What can be set: every key, what it takes, and how a value that does not fit is described."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from treadle.config.mcp_servers import ServerSetting, ToolSetting, is_server_name
from treadle.config.secret_values import (
    SECRET_NAME,
    are_headers,
    are_parameters,
    are_variables,
    are_words,
    hold_no_secret,
    is_address,
)
from treadle.core.config import COMPACT_AT_TOKENS
from treadle.core.llm import Reasoning
from treadle.models.catalog import Api, is_base_url, suggest_name
from treadle.models.prompt_cache import CacheLifetime

COUNT_MAX: Final = 1_000_000_000
COMPACT_AT_MIN: Final = 10_000
"""Below this what has to stay of a conversation would fill it again at once."""
_SHOWN_LENGTH_MAX: Final = 60

KeyPath: TypeAlias = tuple[str, ...]
"""Where a value stands: `("providers", "local", "base_url")`."""

ApprovalMode: TypeAlias = Literal["plan", "ask", "auto-edit", "auto"]
"""`config/approval_modes.py` says what each means."""
SandboxLevel: TypeAlias = Literal["read-only", "workspace-write", "off"]
"""What of the file system a command may change; `sandbox/policy.py` says what each means."""
NetworkMode: TypeAlias = Literal["off", "ask", "on"]
"""Whether a command reaches the network."""
ReadMode: TypeAlias = Literal["allow", "ask"]
"""Whether a command that only reads is asked about like one that writes."""
KeyStyle: TypeAlias = Literal["default", "vim"]
"""Which keys the chat's input has."""
ThemeName: TypeAlias = Literal["auto", "dark", "light", "high-contrast"]
"""Which colours the chat has; `auto` by the terminal's background."""
SyncMode: TypeAlias = Literal["auto", "manual"]
"""Whether sessions send what they record by themselves, or only `treadle sync` does."""
RemoteMode: TypeAlias = Literal["off", "answer", "steer", "start"]
"""What another device of the user may do here: nothing, answer questions, also say something, also
begin a conversation."""
Count: TypeAlias = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Thinking: TypeAlias = Literal["none", "effort", "budget", "adaptive"]
"""As `ModelTraits.reasoning`; a test holds them together."""
Family: TypeAlias = Literal["default", "claude", "openai", "gemini"]
"""The names of `core/tool_families.py`; a test holds them together."""


HookMoment: TypeAlias = Literal[
    "before_tool", "after_tool", "before_turn", "after_turn", "approval_needed", "idle"
]
"""When a hook runs."""


class Hook(Struct, frozen=True):
    """A command of the person's that runs around calls or turns.

    `tools` are names of tools it is for, with `*` for anything. `command` is one text, split into
    words as a shell splits them, or the words. It may take `timeout_s` seconds.
    """

    on: HookMoment
    command: str | tuple[str, ...]
    tools: tuple[str, ...] = ("*",)
    timeout_s: float = 10.0

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command


class Settings(Struct, frozen=True):
    """The settings that hold; `None` is no bound, or the provider's own value.

    `models` are names of models by kind of task. `web_search` lets providers search the web, those
    that can. `local_only` refuses every model that is not on this machine. `max_tokens` bounds what
    one response may write. `compact_at` is at how many tokens a conversation is compacted, or at
    80 % of what its model reads, if that is less. `sandbox_writable` and `sandbox_readable` are
    folders besides the workspace. `keys` are those of the chat's input. `notify` lets the terminal
    call a person who has gone elsewhere. `remote` is what another device of theirs may do here,
    `remote_critical` whether that may be a yes to a call of critical risk.
    """

    approval_mode: ApprovalMode = "plan"
    auto_commit: bool = True
    max_steps: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning: Reasoning = "default"
    local_only: bool = False
    sync: SyncMode = "auto"
    models: Mapping[str, str] = MappingProxyType({})
    hooks: Mapping[str, Hook] = MappingProxyType({})
    mcp: Mapping[str, ServerSetting] = MappingProxyType({})
    sandbox: SandboxLevel = "workspace-write"
    network: NetworkMode = "ask"
    read: ReadMode = "allow"
    sandbox_writable: tuple[str, ...] = ()
    sandbox_readable: tuple[str, ...] = ()
    compact_at: int = COMPACT_AT_TOKENS
    web_search: bool = False
    keys: KeyStyle = "default"
    theme: ThemeName = "auto"
    notify: bool = True
    remote: RemoteMode = "off"
    remote_critical: bool = False


class SettingRule(Struct, frozen=True):
    """What one key takes: a type, words for it, and what the type cannot say.

    A value that may be a secret by mistake (a key where its variable's name belongs) is not shown.
    """

    kind: Any
    words: str
    accepts: Callable[[Any], bool] = lambda value: True
    may_show: bool = True

    def find_fault(self, value: object) -> str:
        """Why the value does not fit, to be put behind the key; empty if it does."""
        try:
            if self.accepts(msgspec.convert(value, self.kind)):
                return ""
        except msgspec.ValidationError:
            pass
        given = (
            f", not {_format_value(value)}" if self.may_show else "; what stands there is not shown"
        )
        return f"must be {self.words}{given}"


def _format_value(value: object) -> str:
    """A value in TOML's way of writing, one short line without what would steer a terminal."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return "this"
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[: _SHOWN_LENGTH_MAX - 1]}…"


def _format_choices(choices: object) -> str:
    names = [f'"{choice}"' for choice in get_args(choices)]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _is_command(value: str | tuple[str, ...]) -> bool:
    if isinstance(value, tuple):
        return bool(value and value[0]) and not any("\0" in word for word in value)
    try:
        return bool(shlex.split(value)) and "\0" not in value
    except ValueError:
        return False


def _is_key_file(value: str) -> bool:
    return value.startswith(("/", "~/")) and "\0" not in value


def is_model(text: str) -> bool:
    """Whether it is `provider:model`, as the traits of a model are filed; `*:` is any provider."""
    provider, _, model = text.partition(":")
    return (provider == "*" or is_name(provider)) and bool(model) and model.isprintable()


def is_name(text: str) -> bool:
    """Whether a provider or an alias may be called so; no two differ by case only."""
    is_taken = text in ("scripted", "recorded")
    return bool(re.fullmatch(r"[a-z0-9][a-z0-9._-]*", text)) and not is_taken


def _are_folders(value: tuple[str, ...]) -> bool:
    return all(_is_key_file(path) for path in value)


_BOOL: Final = SettingRule(bool, "true or false")
_COUNT: Final = SettingRule(Count, f"a whole number of at least 1 and at most {COUNT_MAX}")
_MODEL: Final = SettingRule(
    Text, 'the name of a model ("provider:model" or an alias)', str.isprintable
)
_FOLDERS: Final = SettingRule(tuple[str, ...], "a list of paths, each from / or ~/", _are_folders)
_TEXT: Final = SettingRule(Text, "a text in one line", str.isprintable)
_VARIABLE: Final = SettingRule(
    str,
    "the name of an environment variable, in capitals",
    lambda value: bool(re.fullmatch(r"[A-Z_][A-Z0-9_]*", value)),
    may_show=False,
)

TOP_LEVEL_RULES: Final[Mapping[str, SettingRule]] = MappingProxyType(
    {
        "approval_mode": SettingRule(ApprovalMode, _format_choices(ApprovalMode)),
        "auto_commit": _BOOL,
        "max_steps": _COUNT,
        "max_tokens": _COUNT,
        "compact_at": SettingRule(
            Annotated[int, Meta(ge=COMPACT_AT_MIN, le=COUNT_MAX)],
            f"a whole number of tokens, at least {COMPACT_AT_MIN}",
        ),
        "temperature": SettingRule(Temperature, "a number from 0 to 2", math.isfinite),
        "reasoning": SettingRule(Reasoning, _format_choices(Reasoning)),
        "web_search": _BOOL,
        "notify": _BOOL,
        "remote": SettingRule(RemoteMode, _format_choices(RemoteMode)),
        "remote_critical": _BOOL,
        "local_only": _BOOL,
        "sync": SettingRule(SyncMode, _format_choices(SyncMode)),
        "sandbox": SettingRule(SandboxLevel, _format_choices(SandboxLevel)),
        "network": SettingRule(NetworkMode, _format_choices(NetworkMode)),
        "read": SettingRule(ReadMode, _format_choices(ReadMode)),
        "keys": SettingRule(KeyStyle, _format_choices(KeyStyle)),
        "sandbox_writable": _FOLDERS,
        "sandbox_readable": _FOLDERS,
        "theme": SettingRule(ThemeName, _format_choices(ThemeName)),
    }
)
"""The keys outside any table."""

PROVIDER_RULES: Final[Mapping[str, SettingRule]] = MappingProxyType(
    {
        "api": SettingRule(Api, _format_choices(Api)),
        "base_url": SettingRule(
            str,
            "an address like https://HOST/v1, without a password, `?` or `#`",
            is_base_url,
            may_show=False,
        ),
        "base_url_env": _VARIABLE,
        "key_env": _VARIABLE,
        "key_file": SettingRule(
            str, "the path of a file, from / or ~/", _is_key_file, may_show=False
        ),
        "key_command": SettingRule(
            str | tuple[str, ...],
            "a command, as one text or as a list of words",
            _is_command,
            may_show=False,
        ),
        "needs_key": _BOOL,
        "default_model": _TEXT,
        "prices": _TEXT,
        "cache_lifetime": SettingRule(CacheLifetime, _format_choices(CacheLifetime)),
        "headers": SettingRule(
            dict[str, str],
            "a table of headers, names and texts, without those that hold a key or belong to HTTP",
            are_headers,
            may_show=False,
        ),
        "query": SettingRule(
            dict[str, str],
            "a table of parameters, names and texts, without one that holds a key",
            are_parameters,
            may_show=False,
        ),
    }
)
"""The keys of a `[providers.NAME]`."""

TRAIT_RULES: Final[Mapping[str, SettingRule]] = MappingProxyType(
    {
        "context_tokens_max": _COUNT,
        "output_tokens_max": _COUNT,
        "reasoning": SettingRule(Thinking, _format_choices(Thinking)),
        "has_tools": _BOOL,
        "has_temperature": _BOOL,
        "sees_images": _BOOL,
        "reads_pdf": _BOOL,
        "family": SettingRule(Family, _format_choices(Family)),
        "native_output": _BOOL,
    }
)
"""The keys of a `[model_traits."PROVIDER:MODEL"]`."""

HOOK_RULES: Final[Mapping[str, SettingRule]] = MappingProxyType(
    {
        "on": SettingRule(HookMoment, _format_choices(HookMoment)),
        "command": SettingRule(
            str | tuple[str, ...],
            "a command, as one text or as a list of words",
            _is_command,
            may_show=False,
        ),
        "tools": SettingRule(
            tuple[Text, ...],
            "a list of names of tools, `*` for anything",
            bool,
        ),
        "timeout_s": SettingRule(
            Annotated[float, Meta(gt=0, le=600)], "a number of seconds, at most 600", math.isfinite
        ),
    }
)
"""The keys of a `[hooks.NAME]`."""


MCP_RULES: Final[Mapping[str, SettingRule]] = MappingProxyType(
    {
        "command": SettingRule(Text, "the name or the path of a program", str.isprintable),
        "args": SettingRule(
            tuple[str, ...],
            "a list of words; one that is a secret is named by its variable: ${NAME}",
            are_words,
            may_show=False,
        ),
        "env": SettingRule(
            dict[str, str],
            "a table of variables; one that is a secret names another: ${NAME}",
            are_variables,
            may_show=False,
        ),
        "url": SettingRule(
            str,
            "an address like https://HOST/mcp, with what is secret in it as ${NAME}",
            is_address,
            may_show=False,
        ),
        "headers": SettingRule(
            dict[str, str],
            "a table of headers; one that is a secret names a variable: ${NAME}",
            hold_no_secret,
            may_show=False,
        ),
        "enabled": _BOOL,
        "network": _BOOL,
        "write": _BOOL,
        "tools": SettingRule(
            dict[Text, ToolSetting],
            'a table of tools, each with effect ("read", "idempotent" or "mutate") and risk '
            '("low", "medium", "high" or "critical")',
        ),
    }
)
"""The keys of a `[mcp.NAME]`."""


class SettingTable(Struct, frozen=True):
    """A table whose keys a person chooses: what a key looks like, and what stands under it."""

    is_name: Callable[[str], bool]
    words: str
    below: SettingRule | Mapping[str, SettingRule]


_NAME_WORDS: Final = (
    "a name of small letters, digits, `.`, `_` and `-`, and neither scripted nor recorded"
)

TABLES: Final[Mapping[str, SettingTable]] = MappingProxyType(
    {
        "models": SettingTable(
            lambda name: bool(name) and name.isprintable(), "a kind of task", _MODEL
        ),
        "aliases": SettingTable(is_name, _NAME_WORDS, _MODEL),
        "providers": SettingTable(is_name, _NAME_WORDS, PROVIDER_RULES),
        "model_traits": SettingTable(is_model, '"provider:model"', TRAIT_RULES),
        "hooks": SettingTable(is_name, _NAME_WORDS, HOOK_RULES),
        "mcp": SettingTable(
            is_server_name,
            "a name of letters, digits, `-` and single `_`, 32 characters at most",
            MCP_RULES,
        ),
    }
)

Fault: TypeAlias = tuple[KeyPath, str]
"""Where, and the whole sentence that says what is wrong there."""


def find_faults(tables: Mapping[str, Any]) -> Iterator[Fault]:
    """Everything that is wrong with the tables of one file, in its order."""
    for key, value in tables.items():
        table = TABLES.get(key)
        if table is None:
            yield from _find_key_faults({key: value}, TOP_LEVEL_RULES, (), extra=TABLES)
        elif not isinstance(value, dict):
            yield (key,), f"{key} must be a table: [{key}]"
        else:
            yield from _find_table_faults(value, table, key)


def _find_table_faults(value: Mapping[str, Any], table: SettingTable, key: str) -> Iterator[Fault]:
    for name, item in value.items():
        path = (key, name)
        if not table.is_name(name):
            yield path, f"{format_dotted_key(path)}: the key must be {table.words}"
        elif isinstance(table.below, SettingRule):
            yield from _find_key_faults({name: item}, {name: table.below}, (key,))
        elif not isinstance(item, dict):
            yield path, f"{format_dotted_key(path)} must be a table: [{format_dotted_key(path)}]"
        else:
            yield from _find_key_faults(item, table.below, path)


def _find_key_faults(
    items: Mapping[str, Any],
    rules: Mapping[str, SettingRule],
    path: KeyPath,
    extra: Iterable[str] = (),
) -> Iterator[Fault]:
    for key, value in items.items():
        here = (*path, key)
        if key not in rules:
            guess = suggest_name(key, [*rules, *extra])
            if SECRET_NAME.search(key):
                guess = "; a key never stands in a file of settings: name its key_env, key_file or "
                guess += "key_command"
            yield here, f"unknown key {format_dotted_key(here)}{guess}"
        elif fault := rules[key].find_fault(value):
            yield here, f"{format_dotted_key(here)} {fault}"


def flatten_tables(tables: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value in nested tables, with where it stands."""
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from flatten_tables(value, (*path, key))
        else:
            yield (*path, key), value


def format_dotted_key(path: KeyPath) -> str:
    """A path as TOML writes it: `providers.local.base_url`, quotes where they are needed."""
    return ".".join(
        key if key and _BARE_CHARACTERS.issuperset(key) else json.dumps(key) for key in path
    )


_BARE_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)
"""What a key of TOML is made of that needs no quotes."""
