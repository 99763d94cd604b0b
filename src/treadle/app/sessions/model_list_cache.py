"""What the providers' lists say of models that no table knows, kept: a list is asked once a day."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from treadle.config.plain_file import read_plain_file
from treadle.core.llm import ModelTraits
from treadle.errors import StoreError
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import replace_file

_COUNT_MAX: Final = 500
"""The models that were asked for last are kept."""

_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a file that is read; this program writes a fifth of that."""


class ModelListEntry(Struct, frozen=True, omit_defaults=True):
    """What a list said of a model, and on which day; without a day it could not be had."""

    traits: ModelTraits = ModelTraits()
    day: str = ""


class ModelListCache:
    """A file with what lists have said; one that is damaged or cannot be written is ignored.

    Args:
        folder: of caches; nothing is kept without one.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / "models.json"

    def find(self, name: str) -> ModelListEntry | None:
        """What is known of a model; `None` if its list was never asked for."""
        return self._read().get(name)

    def put(self, name: str, traits: ModelTraits | None) -> None:
        """Keep what a list has just said of a model; `None`: it could not be had."""
        if self._path is None:
            return
        known = self._read()
        known.pop(name, None)
        known[name] = ModelListEntry() if traits is None else ModelListEntry(traits, today())
        kept = dict(list(known.items())[-_COUNT_MAX:])
        with suppress(StoreError, UnicodeEncodeError):  # a name from a terminal may be any bytes
            replace_file(PosixDisk(), str(self._path), msgspec.json.encode(kept))

    def _read(self) -> dict[str, ModelListEntry]:
        if self._path is None:
            return {}
        try:
            data = read_plain_file(self._path, _SIZE_MAX).data
            known = msgspec.json.decode(data, type=dict[str, ModelListEntry])
        except (OSError, ValueError, RecursionError):
            return {}
        return {name: one for name, one in known.items() if _is_sound(one.traits)}


def _is_sound(traits: ModelTraits) -> bool:
    """Whether a conversation could work with it."""
    return traits.context_tokens_max is None or traits.context_tokens_max > 0


def today() -> str:
    """The day, as in `2026-11-23`, in UTC."""
    return datetime.now(UTC).date().isoformat()
