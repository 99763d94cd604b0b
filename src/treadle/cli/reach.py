"""Which providers could answer from here: their keys, and whether they are reachable."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from msgspec import Struct

from treadle.cli.providers import connect
from treadle.config.keys import find_key
from treadle.config.load import Loaded
from treadle.core.llm import LlmError
from treadle.errors import TreadleError


class Reached(Struct, frozen=True):
    """One provider, as it is from here.

    `key` says where the key comes from (empty if there is none), `is_ready` whether a request
    could be sent at all, `models` what it offers (`None` if it was not asked or did not say), and
    `problem` why it cannot answer.
    """

    provider: str
    address: str
    key: str
    is_ready: bool
    default_model: str
    models: tuple[str, ...] | None = None
    problem: str = ""


async def reach(loaded: Loaded, names: Iterable[str]) -> list[Reached]:
    """Ask these providers, all at once, what models they offer. Never fails."""
    return list(await asyncio.gather(*(_reach(loaded, name) for name in names)))


async def _reach(loaded: Loaded, name: str) -> Reached:
    entry = loaded.catalog.providers[name]
    address, origin = entry.base_url, ""
    try:
        address = entry.url(os.environ)
        key = await asyncio.to_thread(find_key, entry, os.environ)
        origin = key.origin if key is not None else ""
        if key is None and entry.needs_key:
            how = f"set {entry.key_env}" if entry.key_env else "give it a key_file"
            problem = f"no key: {how}"
            return Reached(name, address, "", False, entry.default_model, problem=problem)
        if loaded.settings.local_only and not loaded.catalog.is_local(name, os.environ):
            problem = "not on this machine, and local_only allows no other"
            return Reached(name, address, origin, False, entry.default_model, problem=problem)
        provider = connect(name, entry, key.value if key is not None else "", loaded)
    except TreadleError as error:
        problem = error.message
        return Reached(name, address, origin, False, entry.default_model, problem=problem)
    answer = await provider.list_models()
    await provider.aclose()
    if isinstance(answer, LlmError):
        problem = answer.text.removeprefix("LLM error: ")
        return Reached(name, address, origin, True, entry.default_model, problem=problem)
    return Reached(name, address, origin, True, entry.default_model, answer)
