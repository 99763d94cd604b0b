"""What an agent has where nothing else is said: this user's threads, and their secrets kept out."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from treadle.errors import UsageError
from treadle.runtime.ports import ThreadStore, Writer
from treadle.secrets.redaction import Redactor, collect_secrets
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

SETTINGS_NAME: Final = "config.toml"


def open_user_store(program: str = "") -> LocalStore:
    """The threads of this user; `program` is told to whoever finds one open here."""
    return LocalStore(Places.find(), program=program)


def open_own_thread(store: ThreadStore, thread_id: str) -> Writer:
    """Open a thread to go on with it, if nobody else began it.

    Raises:
        UsageError: it was taken in from elsewhere: what was allowed there nobody here has allowed.
        StoreError: as `LocalStore.open`.
    """
    if isinstance(store, LocalStore) and store.adopted.is_foreign(thread_id):
        raise UsageError(
            f"thread {thread_id} was taken in from elsewhere; what is open in it, and what was "
            "allowed for it, nobody here has said yes to",
            hint=f"`treadle show {thread_id}` tells it; begin the task anew",
        )
    return store.open(thread_id)


def collect_user_secrets(workspace: Path | None = None) -> dict[str, str]:
    """The secrets that this machine knows of, by kind: those of this user, and of one project.

    They are in the environment, in the well-known files of the home folder, in the key files of all
    providers, those that the user's settings name and those of `treadle login`, and in the `.env`
    files of the project.

    Args:
        workspace: a folder of the project; without it the current one.
    """
    places = Places.find()
    if workspace is None:
        with suppress(OSError):  # the current folder may be gone
            workspace = Path.cwd()
    files = [
        ("remote", places.remote),
        *_list_key_files(places.config / SETTINGS_NAME),
        *((f"{path.stem}_api_key", path) for path in _list_folder(places.keys)),
    ]
    return collect_secrets(os.environ, Path.home(), workspace=workspace, files=files)


def make_user_redactor(workspace: Path | None = None) -> Redactor:
    """Takes the `collect_user_secrets` out of texts, and what looks like a token."""
    return Redactor(collect_user_secrets(workspace))


def _list_folder(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _list_key_files(settings: Path) -> Iterator[tuple[str, Path]]:
    """The key files that settings name, each with the kind of what is in it.

    Settings with a fault are passed over: who uses them reports it, and what is shown meanwhile
    goes through a redactor too.
    """
    with suppress(OSError, ValueError, AttributeError):
        providers = tomllib.loads(settings.read_text(encoding="utf-8")).get("providers", {})
        for name, entry in providers.items():
            if isinstance(entry, dict) and isinstance(entry.get("key_file"), str):
                with suppress(RuntimeError):  # `~` where nobody knows the home folder
                    yield f"{name}_api_key", Path(entry["key_file"]).expanduser()
