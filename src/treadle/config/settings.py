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

from treadle.core.llm import Reasoning
from treadle.models.catalog import Api, is_base_url, nearest
from treadle.models.prompt_cache import CacheLifetime
from treadle.secrets.environment import is_credential

COUNT_MAX: Final = 1_000_000_000
_SHOWN_LENGTH_MAX: Final = 60

Path: TypeAlias = tuple[str, ...]
"""Where a value stands: `("providers", "local", "base_url")`."""

ApprovalMode: TypeAlias = Literal["plan", "ask", "auto-edit", "auto"]
"""`config/approval.py` says what each means."""
SandboxLevel: TypeAlias = Literal["read-only", "workspace-write", "off"]
"""What of the file system a command may change; `tools/sandbox/policy.py` says what each means."""
NetworkMode: TypeAlias = Literal["off", "ask", "on"]
"""Whether a command reaches the network."""
SyncMode: TypeAlias = Literal["auto", "manual"]
"""Whether sessions send what they record by themselves, or only `treadle sync` does."""
Count: TypeAlias = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Degree: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Thinking: TypeAlias = Literal["none", "effort", "budget", "adaptive"]
"""As `ModelTraits.reasoning`; a test holds them together."""


HookMoment: TypeAlias = Literal["before_tool", "after_tool", "before_turn", "after_turn"]
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
    def words(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command


class Settings(Struct, frozen=True):
    """The settings that hold; `None` is no bound, or the provider's own value.

    `models` are names of models by kind of task. `local_only` refuses every model that is not on
    this machine. `max_tokens` bounds what one response may write. `sandbox_writable` and
    `sandbox_readable` are folders besides the workspace.
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
    sandbox: SandboxLevel = "workspace-write"
    network: NetworkMode = "ask"
    sandbox_writable: tuple[str, ...] = ()
    sandbox_readable: tuple[str, ...] = ()


class Rule(Struct, frozen=True):
    """What one key takes: a type, words for it, and what the type cannot say.

    A value that may be a secret by mistake (a key where its variable's name belongs) is not shown.
    """

    kind: Any
    words: str
    accepts: Callable[[Any], bool] = lambda value: True
    may_show: bool = True

    def fault(self, value: object) -> str:
        """Why the value does not fit, to be put behind the key; empty if it does."""
        try:
            if self.accepts(msgspec.convert(value, self.kind)):
                return ""
        except msgspec.ValidationError:
            pass
        given = f", not {_shown(value)}" if self.may_show else "; what stands there is not shown"
        return f"must be {self.words}{given}"


def _shown(value: object) -> str:
    """A value in TOML's way of writing, one short line without what would steer a terminal."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return "this"
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[: _SHOWN_LENGTH_MAX - 1]}…"


def _one_of(choices: object) -> str:
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


_SECRET: Final = re.compile(r"(^|[_-])(key|token|secret|password)$", re.IGNORECASE)
"""What people call a key when they write it where it must not stand."""

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TAKEN_HEADERS: Final = frozenset(
    (
        *("accept-encoding", "authorization", "connection", "content-encoding", "content-length"),
        *("content-type", "cookie", "host", "proxy-authorization", "te", "transfer-encoding"),
    )
)
"""Those of keys, which have places of their own, and those that say how bytes are framed."""


def _is_secret(name: str, text: str) -> bool:
    """What commands would not get as a variable stands in no header: `Helicone-Auth`, `sk-...`.

    A value from here is not among those that are looked for in texts.
    """
    return bool(_SECRET.search(name)) or is_credential(name, text)


def _are_headers(value: dict[str, str]) -> bool:
    return all(
        _HEADER.fullmatch(name)
        and name.lower() not in _TAKEN_HEADERS
        and not _is_secret(name, text)
        and text.isascii()
        and text.isprintable()
        for name, text in value.items()
    )


def _are_parameters(value: dict[str, str]) -> bool:
    return all(
        name.isprintable() and not _is_secret(name, text) and text.isprintable()
        for name, text in value.items()
    )


_BOOL: Final = Rule(bool, "true or false")
_COUNT: Final = Rule(Count, f"a whole number of at least 1 and at most {COUNT_MAX}")
_MODEL: Final = Rule(Text, 'the name of a model ("provider:model" or an alias)', str.isprintable)
_FOLDERS: Final = Rule(tuple[str, ...], "a list of paths, each from / or ~/", _are_folders)
_TEXT: Final = Rule(Text, "a text in one line", str.isprintable)
_VARIABLE: Final = Rule(
    str,
    "the name of an environment variable, in capitals",
    lambda value: bool(re.fullmatch(r"[A-Z_][A-Z0-9_]*", value)),
    may_show=False,
)

TOP: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "approval_mode": Rule(ApprovalMode, _one_of(ApprovalMode)),
        "auto_commit": _BOOL,
        "max_steps": _COUNT,
        "max_tokens": _COUNT,
        "temperature": Rule(Degree, "a number from 0 to 2", math.isfinite),
        "reasoning": Rule(Reasoning, _one_of(Reasoning)),
        "local_only": _BOOL,
        "sync": Rule(SyncMode, _one_of(SyncMode)),
        "sandbox": Rule(SandboxLevel, _one_of(SandboxLevel)),
        "network": Rule(NetworkMode, _one_of(NetworkMode)),
        "sandbox_writable": _FOLDERS,
        "sandbox_readable": _FOLDERS,
    }
)
"""The keys outside any table."""

PROVIDER: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "api": Rule(Api, _one_of(Api)),
        "base_url": Rule(
            str,
            "an address like https://HOST/v1, without a password, `?` or `#`",
            is_base_url,
            may_show=False,
        ),
        "base_url_env": _VARIABLE,
        "key_env": _VARIABLE,
        "key_file": Rule(str, "the path of a file, from / or ~/", _is_key_file, may_show=False),
        "key_command": Rule(
            str | tuple[str, ...],
            "a command, as one text or as a list of words",
            _is_command,
            may_show=False,
        ),
        "needs_key": _BOOL,
        "default_model": _TEXT,
        "prices": _TEXT,
        "cache_lifetime": Rule(CacheLifetime, _one_of(CacheLifetime)),
        "headers": Rule(
            dict[str, str],
            "a table of headers, names and texts, without those that hold a key or belong to HTTP",
            _are_headers,
            may_show=False,
        ),
        "query": Rule(
            dict[str, str],
            "a table of parameters, names and texts, without one that holds a key",
            _are_parameters,
            may_show=False,
        ),
    }
)
"""The keys of a `[providers.NAME]`."""

TRAITS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "context_tokens_max": _COUNT,
        "output_tokens_max": _COUNT,
        "reasoning": Rule(Thinking, _one_of(Thinking)),
        "has_tools": _BOOL,
        "has_temperature": _BOOL,
    }
)
"""The keys of a `[model_traits."PROVIDER:MODEL"]`."""

HOOK: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "on": Rule(HookMoment, _one_of(HookMoment)),
        "command": Rule(
            str | tuple[str, ...],
            "a command, as one text or as a list of words",
            _is_command,
            may_show=False,
        ),
        "tools": Rule(
            tuple[Text, ...],
            "a list of names of tools, `*` for anything",
            bool,
        ),
        "timeout_s": Rule(
            Annotated[float, Meta(gt=0, le=600)], "a number of seconds, at most 600", math.isfinite
        ),
    }
)
"""The keys of a `[hooks.NAME]`."""


class Table(Struct, frozen=True):
    """A table whose keys a person chooses: what a key looks like, and what stands under it."""

    is_name: Callable[[str], bool]
    words: str
    below: Rule | Mapping[str, Rule]


_NAME_WORDS: Final = (
    "a name of small letters, digits, `.`, `_` and `-`, and neither scripted nor recorded"
)

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {
        "models": Table(lambda name: bool(name) and name.isprintable(), "a kind of task", _MODEL),
        "aliases": Table(is_name, _NAME_WORDS, _MODEL),
        "providers": Table(is_name, _NAME_WORDS, PROVIDER),
        "model_traits": Table(is_model, '"provider:model"', TRAITS),
        "hooks": Table(is_name, _NAME_WORDS, HOOK),
    }
)

Fault: TypeAlias = tuple[Path, str]
"""Where, and the whole sentence that says what is wrong there."""


def faults(tables: Mapping[str, Any]) -> Iterator[Fault]:
    """Everything that is wrong with the tables of one file, in its order."""
    for key, value in tables.items():
        table = TABLES.get(key)
        if table is None:
            yield from _faults_of_keys({key: value}, TOP, (), extra=TABLES)
        elif not isinstance(value, dict):
            yield (key,), f"{key} must be a table: [{key}]"
        else:
            yield from _faults_of_table(value, table, key)


def _faults_of_table(value: Mapping[str, Any], table: Table, key: str) -> Iterator[Fault]:
    for name, item in value.items():
        path = (key, name)
        if not table.is_name(name):
            yield path, f"{dotted(path)}: the key must be {table.words}"
        elif isinstance(table.below, Rule):
            yield from _faults_of_keys({name: item}, {name: table.below}, (key,))
        elif not isinstance(item, dict):
            yield path, f"{dotted(path)} must be a table: [{dotted(path)}]"
        else:
            yield from _faults_of_keys(item, table.below, path)


def _faults_of_keys(
    items: Mapping[str, Any],
    rules: Mapping[str, Rule],
    path: Path,
    extra: Iterable[str] = (),
) -> Iterator[Fault]:
    for key, value in items.items():
        here = (*path, key)
        if key not in rules:
            guess = nearest(key, [*rules, *extra])
            if _SECRET.search(key):
                guess = "; a key never stands in a file of settings: name its key_env, key_file or "
                guess += "key_command"
            yield here, f"unknown key {dotted(here)}{guess}"
        elif fault := rules[key].fault(value):
            yield here, f"{dotted(here)} {fault}"


def leaves(tables: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value in nested tables, with where it stands."""
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def dotted(path: Path) -> str:
    """A path as TOML writes it: `providers.local.base_url`, quotes where they are needed."""
    return ".".join(
        key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key) for key in path
    )
