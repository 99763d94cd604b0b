"""What an agent has where nothing else is said: this user's threads, and their secrets kept out."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.store.local import LocalStore
from treadle.store.places import Places
from treadle.workspace.redact import Redactor, collect_secrets


def own_store(program: str = "") -> LocalStore:
    """The threads of this user; `program` is told to whoever finds one open here."""
    return LocalStore(Places.find(), program=program)


def own_redactor() -> Redactor:
    """Knows the credentials in the environment and in the well-known files of the home folder."""
    return Redactor(collect_secrets(os.environ, Path.home()))
