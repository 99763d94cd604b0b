"""Which providers could answer from here: their keys, and whether they are reachable."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from treadle.app.sessions.providers import make_provider
from treadle.config.keys import find_key, make_missing_key_error
from treadle.config.loader import LoadedSettings
from treadle.core.llm import LlmError
from treadle.errors import TreadleError


class ProviderReachability(Struct, frozen=True):
    """One provider, as it is from here.

    `key` says where the key comes from (empty if there is none), `models` what it offers (`None`
    if it was not asked or did not say), and `error` why it cannot answer: a `TreadleError` if it
    was not asked at all, else what it answered. `is_excluded` tells that `local_only` is the cause.
    """

    provider: str
    address: str
    key: str = ""
    default_model: str = ""
    models: tuple[str, ...] | None = None
    error: LlmError | TreadleError | None = None
    is_excluded: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether a request could be sent at all."""
        return not isinstance(self.error, TreadleError)

    @property
    def problem(self) -> str:
        """Why it cannot answer, in words that follow its name; empty if it can."""
        if isinstance(self.error, TreadleError):
            return self.error.message.removeprefix(f"{self.provider} ")
        return "" if self.error is None else self.error.text.removeprefix("LLM error: ")

    def to_dict(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "provider": self.provider,
            "address": self.address,
            "key": self.key,
            "is_ready": self.is_ready,
            "default_model": self.default_model,
            "models": self.models,
            "problem": self.problem,
        }


AskForModels: TypeAlias = Callable[[Any, str], Awaitable[tuple[str, ...] | LlmError]]


async def _ask_for_models(provider: Any, _: str) -> tuple[str, ...] | LlmError:
    answer: tuple[str, ...] | LlmError = await provider.list_models()
    return answer


async def check_providers(
    loaded: LoadedSettings, names: Iterable[str]
) -> list[ProviderReachability]:
    """Ask these providers, all at once, what models they offer. Never fails.

    Of one that `local_only` excludes not even the key is looked for.
    """
    return list(await asyncio.gather(*(check_provider(loaded, name) for name in names)))


async def check_provider(
    loaded: LoadedSettings, name: str, ask: AskForModels = _ask_for_models
) -> ProviderReachability:
    """Look for the key of a provider, and ask what it offers. Never fails.

    Args:
        loaded: the settings.
        name: the provider's.
        ask: asks it, given its client and its address.
    """
    entry = loaded.catalog.providers[name]
    model, address, origin = entry.default_model, entry.base_url, ""
    try:
        address = entry.url(os.environ)
        excluded = loaded.find_exclusion(name, os.environ)
        if excluded is not None:
            return ProviderReachability(name, address, "", model, error=excluded, is_excluded=True)
        key = await asyncio.to_thread(find_key, entry, os.environ)
        if key is None and entry.needs_key:
            return ProviderReachability(
                name, address, "", model, error=make_missing_key_error(name, entry)
            )
        origin = key.origin if key is not None else ""
        provider = make_provider(name, entry, key.value if key is not None else "", loaded)
    except TreadleError as error:
        return ProviderReachability(name, address, origin, model, error=error)
    answer = await ask(provider, address)
    await provider.aclose()
    if isinstance(answer, LlmError):
        return ProviderReachability(name, address, origin, model, error=answer)
    return ProviderReachability(name, address, origin, model, answer)
