"""From the name of a model to who answers, as the command line has it."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.app.sessions.providers import Models
from treadle.config.loader import load_settings
from treadle.runtime.ports import Provider


def open_model(name: str) -> tuple[Provider, str]:
    """Who answers to a name, and the lasting name by which it is asked.

    Providers, keys and aliases are those of this user's settings, and of the project of the current
    folder if its settings are trusted.

    Raises:
        ConfigError: a setting is not valid.
        UsageError: there is no such model, or the file is no script or recording.
        NotConfiguredError: the provider has no key.
    """
    models = _load_models()
    lasting = models.resolve_name(name)
    return models.open(lasting), lasting


def find_lasting_name(name: str) -> str:
    """The lasting name of a model, as `open_model` has it; it needs no key, and raises the rest."""
    return _load_models().resolve_name(name)


def _load_models() -> Models:
    return Models(load_settings(Path.cwd(), os.environ))
