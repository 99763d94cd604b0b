"""Which providers there are, what their models are called, and what is known of each model.

The built-in table is `defaults.toml`, beside this module; configuration lays its own over it.
`scripted:FILE` and `recorded:FILE` are no providers of the catalog: who takes names from a person
handles them first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from treadle.core.llm import ModelTraits
from treadle.errors import NotConfiguredError, UsageError
from treadle.models.model_names import family_name
from treadle.models.prompt_cache import CacheLifetime

DEFAULTS: Final = Path(__file__).with_name("defaults.toml")

_BASE_URL: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]+)?(?:/[!-\[\]-~]*)?", re.IGNORECASE
)
"""The host is spelt out, so that all who read it agree on where it leads."""

_NOT_IN_PATHS: Final = re.compile(r"[@?#]")


_MAKERS: Final[Mapping[str, str]] = {"claude-": "anthropic", "gpt-": "openai"}
"""Who makes the models whose names begin so: a name without its provider is told with it."""

Api: TypeAlias = Literal["anthropic-messages", "openai-responses", "openai-chat"]
"""The languages that providers speak; one adapter each."""


class ProviderEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One endpoint: what it speaks, where it is, where its key comes from.

    `base_url_env` names the variable that wins over `base_url` where it is set. The key comes from
    the first of `key_env`, `key_file` and `key_command` that is there. `prices` is the provider's
    name in the price data; empty is its own name. `headers` and `query` go with every request.
    """

    api: Api
    base_url: str
    base_url_env: str = ""
    key_env: str = ""
    key_file: str = ""
    key_command: str | tuple[str, ...] = ""
    needs_key: bool = True
    default_model: str = ""
    prices: str = ""
    cache_lifetime: CacheLifetime = "5m"
    headers: Mapping[str, str] = MappingProxyType({})
    query: Mapping[str, str] = MappingProxyType({})

    def url(self, environ: Mapping[str, str]) -> str:
        """The base URL that holds in this environment.

        Raises:
            UsageError: the variable that replaces it holds no base URL.
        """
        chosen = environ.get(self.base_url_env, "") if self.base_url_env else ""
        if chosen and not is_base_url(chosen):
            raise UsageError(
                f"{self.base_url_env} is no base URL (its value is not shown)",
                hint="like https://HOST/v1, without a password, `?` or `#`; unset it to do without",
            )
        return chosen or self.base_url


class ModelRef(Struct, frozen=True):
    """A model of a provider, by the provider's own name for it."""

    provider: str
    model: str

    @property
    def name(self) -> str:
        """As a person writes it and a thread keeps it: `provider:model`."""
        return f"{self.provider}:{self.model}"


class Catalog(Struct, frozen=True):
    """Everything known of providers and models, in the order of the tables it was made of."""

    providers: Mapping[str, ProviderEntry]
    aliases: Mapping[str, str]
    model_traits: Mapping[str, Mapping[str, Any]]
    """What each row gives, by `provider:model`; `*` as provider, or behind a model, is any."""

    def resolve(self, name: str) -> ModelRef:
        """The model that a name means.

        Args:
            name: `provider:model` (the model may hold colons and slashes), an alias, or `provider`
                or `provider:` for the provider's default model.

        Raises:
            UsageError: there is no such provider or alias, or an alias leads back to itself.
            NotConfiguredError: the provider has no default model.
        """
        seen = [name]
        while seen[-1] in self.aliases:
            target = self.aliases[seen[-1]]
            if target in seen:
                raise UsageError(
                    f"the alias {name!r} leads in a circle: {' -> '.join([*seen, target])}",
                    hint="`treadle config show --origin` says where each comes from",
                )
            seen.append(target)
        provider, has_colon, model = seen[-1].partition(":")
        via = "" if len(seen) == 1 else f" (the alias {name!r} leads to it)"
        entry = self.providers.get(provider)
        if entry is None:
            raise self._make_unknown_error(provider, via, is_provider=bool(has_colon))
        if not (model or entry.default_model):
            raise NotConfiguredError(
                f"the provider {provider!r} has no default model{via}",
                hint=f"name one: {provider}:MODEL",
            )
        return ModelRef(provider, model or entry.default_model)

    def _make_unknown_error(self, name: str, via: str, *, is_provider: bool) -> UsageError:
        known = list(self.providers) if is_provider else [*self.aliases, *self.providers]
        kind = "provider" if is_provider else "alias or provider"
        whole = [full for full in self.model_traits if full.partition(":")[2] == name]
        whole += [f"{each}:{name}" for start, each in _MAKERS.items() if name.startswith(start)]
        meant = f"; did you mean {whole[0]}?" if whole else suggest_name(name, known)
        return UsageError(
            f"there is no {kind} {name!r}{via}{meant}",
            hint=f"known: {', '.join(known)}; or write PROVIDER:MODEL",
        )

    def traits(self, ref: ModelRef) -> ModelTraits:
        """What the rows that are for a model give, the one that says most about it last.

        A row for one provider says more than one for all, a whole name more than a beginning, a
        long beginning more than a short one. Of a model without any row nothing is known.
        """
        names = {ref.model, family_name(ref.model)}
        found: list[tuple[tuple[bool, bool, int], Mapping[str, Any]]] = []
        for row, given in self.model_traits.items():
            provider, _, model = row.partition(":")
            start = model.removesuffix("*")
            is_whole = start == model
            is_meant = model in names if is_whole else any(_has_prefix(one, start) for one in names)
            if provider in (ref.provider, "*") and is_meant:
                found.append(((provider != "*", is_whole, len(start)), given))
        merged: dict[str, Any] = {}
        for _, given in sorted(found, key=lambda row: row[0]):
            merged |= given
        return msgspec.convert(merged, ModelTraits)

    def is_local(self, provider: str, environ: Mapping[str, str]) -> bool:
        """Whether a provider's address is this machine: `localhost`, 127.0.0.0/8 or `::1`.

        Raises:
            UsageError: there is no such provider, or a variable holds no base URL.
        """
        entry = self.providers.get(provider)
        if entry is None:
            raise self._make_unknown_error(provider, "", is_provider=True)
        return is_loopback_host(urlsplit(entry.url(environ)).hostname or "")

    def find_provider_with_key(self, environ: Mapping[str, str]) -> str | None:
        """The first provider, in the order of the table, with a default model and a key.

        A key file or command counts as a key; neither is looked at.
        """
        for name, entry in self.providers.items():
            if entry.default_model and has_key(entry, environ):
                return name
        return None


def has_key(entry: ProviderEntry, environ: Mapping[str, str]) -> bool:
    """Whether a provider has a key; a key file or command counts as one and is not looked at."""
    is_set = bool(entry.key_env and environ.get(entry.key_env, "").strip())
    return is_set or bool(entry.key_file or entry.key_command)


def _has_prefix(name: str, start: str) -> bool:
    """Whether a name begins so: a number at the end of the beginning is all of that number."""
    rest = name[len(start) :]
    return name.startswith(start) and not (start[-1:].isdigit() and rest[:1].isdigit())


def read_defaults() -> dict[str, Any]:
    """The built-in tables, `providers`, `aliases` and `model_traits`, as TOML values."""
    import tomllib

    return tomllib.loads(DEFAULTS.read_text(encoding="utf-8"))


def make_catalog(tables: Mapping[str, Any]) -> Catalog:
    """The catalog that valid tables describe.

    Args:
        tables: as of `read_defaults`; other keys are passed over.

    Raises:
        msgspec.ValidationError: the tables are not valid; whoever read them checks first.
    """
    wanted = {name: tables.get(name, {}) for name in Catalog.__struct_fields__}
    msgspec.convert(wanted["model_traits"], dict[str, ModelTraits])
    return Catalog(
        msgspec.convert(wanted["providers"], dict[str, ProviderEntry]),
        msgspec.convert(wanted["aliases"], dict[str, str]),
        wanted["model_traits"],
    )


def suggest_name(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` for what is spelt almost so, in whatever case; else nothing."""
    import difflib

    spelt = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), spelt, n=1)
    return f"; did you mean {spelt[found[0]]}?" if found else ""


def is_base_url(text: str) -> bool:
    """Whether it is an http address that paths can be put behind, without a password in it."""
    if not _BASE_URL.fullmatch(text) or _NOT_IN_PATHS.search(text):
        return False
    try:
        return urlsplit(text).port != 0
    except ValueError:
        return False


def is_loopback_host(host: str) -> bool:
    """Whether a host, as a URL names it, is this machine."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
