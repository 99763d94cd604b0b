"""Where this user's things are on this machine; apart from the store, which imports far more."""

from __future__ import annotations

from treadle.store.paths import Places


def user_folders() -> Places:
    """The folders of this user: settings, data, state. Nothing is made."""
    return Places.find()
