"""From the name of a model to somebody who answers: catalog, keys, prices, recording."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from decimal import Decimal
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict, replace

from treadle.app.sessions.model_list_cache import ModelListCache, today
from treadle.app.stores import CREATOR
from treadle.config.keys import find_key, make_missing_key_error, make_no_model_error
from treadle.config.loader import LoadedSettings
from treadle.core.config import choose_model
from treadle.core.llm import ModelTraits, Usage
from treadle.core.tool_families import find_family_of
from treadle.errors import UsageError
from treadle.models.catalog import ModelRef, ProviderEntry, has_key
from treadle.models.scripted.provider import ScriptedModel
from treadle.models.wire.provider import RequestExtras
from treadle.runtime.ports import Provider

if TYPE_CHECKING:
    from treadle.models.recording.recorder import RecordingProvider


PLAYED_KINDS: Final = ("scripted", "recorded")
"""What is no provider: these are followed by a file."""

_CLASSES: Final = {
    "anthropic-messages": ("treadle.models.anthropic.provider", "AnthropicProvider"),
    "openai-responses": ("treadle.models.openai.responses", "OpenAiResponsesProvider"),
    "openai-chat": ("treadle.models.openai.chat", "OpenAiChatProvider"),
}
"""Of each wire format: module and class."""


def is_played(name: str) -> bool:
    """Whether a lasting name is that of a script or a recording."""
    return name.partition(":")[0] in PLAYED_KINDS


SEARCHING_APIS: Final = frozenset({"anthropic-messages", "openai-responses"})
"""The languages in which a provider can be asked to search the web."""


class Models:
    """The models of one run: who answers to which name.

    Args:
        loaded: the settings that hold here.
        record: a file that keeps what the models stream.
        cache: the folder that keeps what providers' lists say.
        redact: keeps known secrets out of that file.
    """

    def __init__(
        self, loaded: LoadedSettings, *, record: str | None = None, cache: Path | None = None
    ) -> None:
        self._loaded = loaded
        self._record = record
        self._lists = ModelListCache(cache)
        self._opened: dict[str, Provider] = {}
        self._closing = AsyncExitStack()
        self._recorder: RecordingProvider | None = None
        self.keys: dict[str, str] = {}
        """The keys in use, by what each is called where it is replaced in a text."""
        self.redact: Callable[[str], str] = str

    def resolve_name(self, wanted: str | None) -> str:
        """The lasting name of a model: `provider:model`, or `scripted:` with an absolute path.

        Args:
            wanted: as a person writes it; without it the settings decide, and without those the
                first provider that has a key.

        Raises:
            NotConfiguredError: nothing is configured, or the provider has no default model.
            UsageError: there is no such model.
        """
        wanted = wanted or choose_model(self._loaded.settings.models)
        if not wanted:
            provider = self._loaded.catalog.find_provider_with_key(os.environ)
            if provider is None:
                raise make_no_model_error(self._loaded.catalog, os.environ)
            wanted = f"{provider}:"
        kind, _, rest = wanted.partition(":")
        if kind not in PLAYED_KINDS:
            return self._loaded.catalog.resolve(wanted).name
        if not rest:
            raise UsageError(f"{kind!r} names no file", hint=f"write {kind}:FILE")
        return f"{kind}:{Path(rest).expanduser().resolve()}"

    def open(self, name: str) -> Provider:
        """Who answers for a lasting name; the same for all models of a provider.

        Raises:
            NotConfiguredError: the provider has no key.
            UsageError: the file is no script or recording, the key cannot be had, or only models
                on this machine are allowed.
        """
        kind, _, rest = name.partition(":")
        owner = name if kind in PLAYED_KINDS else kind
        if owner not in self._opened:
            provider = self._play(kind, rest) if kind in PLAYED_KINDS else self._connect(name)
            self._opened[owner] = provider
            self._closing.push_async_callback(provider.aclose)
        return self._opened[owner]

    def lacks_web_search(self, name: str) -> bool:
        """Whether the provider of a lasting name cannot be asked to search the web."""
        kind = name.partition(":")[0]
        if kind in PLAYED_KINDS:
            return False
        entry = self._loaded.catalog.providers[self._loaded.catalog.resolve(name).provider]
        return entry.api not in SEARCHING_APIS

    def find_family(self, name: str) -> str:
        """The family of a model, in whose shape it is offered tools; empty is the default one.

        Of a recording it is the one that has the tools of its requests: only the same ones are
        answered. Of a script it is the one that has the tools that its replies call.

        Args:
            name: a lasting name, which `resolve_name` has given.
        """
        kind, _, path = name.partition(":")
        if kind == "recorded":
            from treadle.models.recording.file import load_recording

            exchanges = load_recording(path).exchanges
            return find_family_of({tool.name for one in exchanges for tool in one.settings.tools})
        if kind == "scripted":
            from treadle.models.scripted.script import load_script

            return find_family_of(
                {call.tool for reply in load_script(path).replies for call in reply.calls}
            )
        catalog = self._loaded.catalog
        if kind not in catalog.providers:
            return ""
        return catalog.traits(catalog.resolve(name)).family

    async def aclose(self) -> None:
        """Free connections, finish the recording: all of it, whatever fails."""
        await self._closing.aclose()

    def _play(self, kind: str, path: str) -> Provider:
        if kind == "scripted":
            from treadle.models.scripted.script import load_script

            return self._add_recorder(ScriptedModel(load_script(path)))
        from treadle.models.recording.file import load_recording
        from treadle.models.recording.player import RecordedModel

        return RecordedModel(load_recording(path))

    def _connect(self, name: str) -> Provider:
        from treadle.models.prices.provider import PricedProvider

        catalog = self._loaded.catalog
        ref = catalog.resolve(name)
        entry = catalog.providers[ref.provider]
        excluded = self._loaded.find_exclusion(ref.provider, os.environ)
        if excluded is not None:
            raise excluded
        provider = make_provider(
            ref.provider, entry, self._find_key(ref.provider, entry), self._loaded
        )
        answering = self._add_recorder(provider)
        if not (entry.needs_key or entry.prices) and catalog.is_local(ref.provider, os.environ):
            return answering  # nobody sends a bill; "price unknown" at each turn says nothing
        return PricedProvider(answering, _make_price_function(ref.provider, entry))

    def fetch_unknown_traits(self, name: str) -> str:
        """Ask the provider what nobody here knows of a model, and say what stays unknown, once.

        A conversation whose window is not known is compacted only when the provider refuses it.

        Args:
            name: a lasting name, which `open` has taken.

        Returns:
            What the person should be told; empty if there is nothing.
        """
        if is_played(name) or name in _LISTED_TRAITS:
            return ""
        catalog = self._loaded.catalog
        ref = catalog.resolve(name)
        if find_traits(self._loaded, ref).context_tokens_max is not None:
            return ""
        entry = catalog.providers[ref.provider]
        place = f"{entry.url(os.environ)} {name}"
        known = self._lists.find(place)
        if known is not None and known.day == today():
            _LISTED_TRAITS[name] = known.traits
            return ""
        key = self.keys.get(f"{ref.provider}_api_key", "")
        told = _fetch_listed_traits(
            lambda: make_provider(ref.provider, entry, key, self._loaded), ref.model
        )
        self._lists.put(place, told)
        _LISTED_TRAITS[name] = told or ModelTraits()
        if known is not None or _LISTED_TRAITS[name].context_tokens_max is not None:
            return ""
        return (
            f"the context window of {name} is not known, so a conversation is compacted only when "
            f'it is refused as too long; set context_tokens_max under [model_traits."{name}"]'
        )

    def _find_key(self, provider: str, entry: ProviderEntry) -> str:
        key = find_key(entry, os.environ)
        if key is None:
            if entry.needs_key:
                raise make_missing_key_error(provider, entry)
            return ""
        self.keys[f"{provider}_api_key"] = key.value
        return key.value

    def _add_recorder(self, provider: Provider) -> Provider:
        if self._record is None:
            return provider
        from treadle.models.recording.recorder import RecordingProvider

        if self._recorder is not None:
            return self._recorder.share_file_with(provider)

        def redact(text: str) -> str:
            return self.redact(text)

        path = Path(self._record).expanduser()
        self._recorder = RecordingProvider(provider, path, redact, program=CREATOR)
        return self._recorder


def list_ready_models(loaded: LoadedSettings) -> tuple[str, ...]:
    """What short names stand for, and default models, of the providers that have a key.

    No list is asked for, and no key is looked at.
    """
    catalog = loaded.catalog
    ready = {
        name
        for name, entry in catalog.providers.items()
        if loaded.find_exclusion(name, os.environ) is None and has_key(entry, os.environ)
    }
    defaults = (name for name in ready if catalog.providers[name].default_model)
    found = (catalog.resolve(one) for one in (*catalog.aliases, *sorted(defaults)))
    return tuple(dict.fromkeys(one.name for one in found if one.provider in ready))


def make_provider(name: str, entry: ProviderEntry, key: str, loaded: LoadedSettings) -> Any:
    """The provider of an entry; nothing is sent yet."""
    module, kind = _CLASSES[entry.api]
    return getattr(import_module(module), kind)(
        key,
        name=name,
        base_url=entry.url(os.environ),
        traits=lambda model: find_traits(loaded, ModelRef(name, model)),
        extras=RequestExtras(entry.headers, entry.query, entry.cache_lifetime),
    )


LIST_ASKED_S_MAX: Final = 3.0
"""A provider's list is asked for before the first request; nobody waits longer for it."""

_LISTED_TRAITS: Final[dict[str, ModelTraits]] = {}
"""What lists have told, by lasting name, for the life of the process."""


def find_traits(loaded: LoadedSettings, ref: ModelRef) -> ModelTraits:
    """What the table knows of a model, then the price data, then the provider's own list."""
    traits = loaded.catalog.traits(ref)
    if traits.context_tokens_max is None:
        window = _find_context_window(
            loaded.catalog.providers[ref.provider].prices or ref.provider, ref.model
        )
        traits = replace(traits, context_tokens_max=window)
    listed, unknown = asdict(_LISTED_TRAITS.get(ref.name, ModelTraits())), ModelTraits()
    fresh = {
        name: value
        for name, value in listed.items()
        if getattr(traits, name) == getattr(unknown, name)
    }
    return replace(traits, **fresh)


def _fetch_listed_traits(connected: Callable[[], Any], model: str) -> ModelTraits | None:
    """What a provider's list says, asked on a loop of its own: this one may be running."""

    async def ask() -> ModelTraits | None:
        provider = connected()
        try:
            told: ModelTraits | None = await provider.fetch_traits(model, LIST_ASKED_S_MAX)
            return told
        finally:
            await provider.aclose()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(ask())).result()


@cache
def _find_context_window(provider: str, model: str) -> int | None:
    """Kept, because it is asked for with every request, and the package takes a while to load."""
    from treadle.models.prices.table import get_context_window

    return get_context_window(provider, model)


def _make_price_function(
    provider: str, entry: ProviderEntry
) -> Callable[[str, str, Usage], Decimal | None]:
    def price(_: str, model: str, usage: Usage) -> Decimal | None:
        from treadle.models.prices.table import compute_price as price_of

        return price_of(entry.prices or provider, model.removeprefix(f"{provider}:"), usage)

    return price
