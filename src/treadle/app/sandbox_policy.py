"""What a person's settings let commands, and servers of tools, do."""

from __future__ import annotations

from treadle.app.files.hidden_paths import treadle_folders
from treadle.config.settings import Settings
from treadle.sandbox.policy import Level, Network, Policy
from treadle.store.paths import Places


def make_policy(settings: Settings, places: Places) -> Policy:
    """What a person's settings let commands do."""
    return Policy(
        Level(settings.sandbox),
        Network(settings.network),
        writable=settings.sandbox_writable,
        readable=settings.sandbox_readable,
        hidden=treadle_folders(places),
        caches=places.caches,
        asks_to_read=settings.read == "ask",
    )
