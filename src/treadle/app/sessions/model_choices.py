"""The models a person can choose from: what each provider serves, asked once a day, in bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from treadle.app.sessions.model_list_cache import today
from treadle.app.sessions.provider_reachability import (
    ProviderReachability,
    check_provider,
)
from treadle.config.loader import LoadedSettings
from treadle.config.plain_file import read_plain_file
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.errors import StoreError
from treadle.models.catalog import is_loopback_host
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import replace_file

LIST_S_MAX: Final = 3.0
"""A person waits for a list so long at most."""

_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of a file that is read."""

_MODELS_MAX: Final = 2_000
"""Of one provider so many are kept."""


class ModelChoice(Struct, frozen=True):
    """A model that could answer, or a provider that is in the way of its models.

    `kind` is `model`; `key` for a provider whose key is missing, which could be given; `problem`
    for one that cannot be asked or did not answer. `name` is what is written to have the model
    answer, of a provider its name and a colon. `note` is the lasting name behind a short one, or
    what is wrong. `is_current` says that it answers now, `lacks_key` of a model that it could not.
    """

    kind: Literal["model", "key", "problem"]
    name: str
    note: str = ""
    is_current: bool = False
    lacks_key: bool = False


class _ServedModels(Struct, frozen=True):
    """What an address served, on which day."""

    models: tuple[str, ...]
    day: str


async def list_model_choices(
    loaded: LoadedSettings, current: str, cache: Path | None
) -> Sequence[ModelChoice]:
    """The model that answers now, the short names, what each provider serves, then who lacks a key.

    Short names of models whose provider lacks a key stand behind what is served.

    A provider is asked once a day, one on this machine each time, all at once and for `LIST_S_MAX`
    at most; of one that does not answer the list of an earlier day is shown. Never fails.

    Args:
        loaded: the settings.
        current: the lasting name of the model that answers now; empty if nobody does.
        cache: the folder that keeps what providers said; nothing is kept without one.
    """
    catalog = loaded.catalog
    served = _ServedModelLists(cache)
    known = await asyncio.to_thread(served.read)
    found = await asyncio.gather(
        *(check_provider(loaded, name, served.ask) for name in catalog.providers)
    )
    if served.is_changed(known):
        await asyncio.to_thread(served.write)
    choices = [ModelChoice("model", current, is_current=True)] if current else []
    problems = {one.provider: _describe_provider(one) for one in found if one.models is None}
    out_of_reach = list[ModelChoice]()
    for alias in catalog.aliases:
        ref = catalog.resolve(alias)
        problem = problems.get(ref.provider)
        is_keyless = problem is not None and problem.kind == "key"
        choice = ModelChoice("model", alias, ref.name, ref.name == current, is_keyless)
        (out_of_reach if is_keyless else choices).append(choice)
    for one in found:
        for model in one.models or ():
            name = f"{one.provider}:{model}"
            if name != current:
                choices.append(ModelChoice("model", name))
    last = sorted(problems.values(), key=lambda choice: choice.kind != "problem")
    return [*choices, *out_of_reach, *last]


def _describe_provider(one: ProviderReachability) -> ModelChoice:
    is_keyless = not one.is_ready and not one.key and not one.is_excluded
    return ModelChoice("key" if is_keyless else "problem", f"{one.provider}:", one.problem)


class _ServedModelLists:
    """A file with what providers serve; one that is damaged or cannot be written is ignored."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / "served-models.json"
        self._lists: dict[str, _ServedModels] = {}

    def read(self) -> dict[str, _ServedModels]:
        """Take what is in the file, and return it."""
        if self._path is not None:
            with suppress(OSError, ValueError, RecursionError):
                data = read_plain_file(self._path, _SIZE_MAX).data
                self._lists = msgspec.json.decode(data, type=dict[str, _ServedModels])
        return dict(self._lists)

    def is_changed(self, known: dict[str, _ServedModels]) -> bool:
        """Whether something was heard that is not in the file."""
        return self._lists != known

    def write(self) -> None:
        """Keep what was heard."""
        if self._path is not None:
            with suppress(StoreError):
                replace_file(PosixDisk(), str(self._path), msgspec.json.encode(self._lists))

    async def ask(self, provider: Any, address: str) -> tuple[str, ...] | LlmError:
        """What a provider serves, from the file if that is of today."""
        kept = self._lists.get(address)
        is_near = is_loopback_host(urlsplit(address).hostname or "")
        if kept is not None and kept.day == today() and not is_near:
            return kept.models
        answer: tuple[str, ...] | LlmError = await provider.list_models(LIST_S_MAX)
        if not isinstance(answer, LlmError):
            self._lists[address] = _ServedModels(answer[:_MODELS_MAX], today())
        elif kept is not None and answer.kind is not LlmErrorKind.AUTHENTICATION and not is_near:
            return kept.models
        return answer
