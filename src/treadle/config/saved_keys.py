"""The keys that a person has given to `treadle login`: a file for each provider.

A saved key is the provider's `key_file`, unless the settings name another one, or a command. So
what reads, guards, shows and hides key files does so with these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from treadle.config.keys import make_key
from treadle.config.settings import is_name
from treadle.errors import DiskError, UsageError
from treadle.store.disk import Disk, PosixDisk
from treadle.store.file_replacement import replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places

SAVED_ORIGIN: Final = "treadle login"
"""Where the setting comes from that names such a file."""

KEY_LENGTH_MAX: Final = 4096
"""Characters of a key; a longer text is a paste of something else."""


_SUFFIX: Final = ".key"


def _file_of(places: Places, provider: str) -> Path:
    if not is_name(provider):
        raise UsageError(f"{provider!r} is no name of a provider")
    return places.keys / f"{provider}{_SUFFIX}"


def list_saved_keys(places: Places) -> dict[str, Path]:
    """The file of each provider that has one, by its name; none if the folder cannot be read."""
    try:
        files = sorted(places.keys.iterdir())
    except OSError:
        return {}
    return {path.stem: path for path in files if path.suffix == _SUFFIX}


def save_key(places: Places, provider: str, text: str, origin: str) -> Path:
    """Keep a key, durably, in a file that nobody else can read; the file.

    Args:
        places: the folders of the user.
        provider: whose key it is.
        text: the key, as it was typed or read.
        origin: where that was, for a message.

    Raises:
        NotConfiguredError: the text is no key; it is not shown.
        DiskError: the disk refused; what was kept before stands.
    """
    key = make_key(text if len(text) <= KEY_LENGTH_MAX else "\0", origin)
    disk: Disk = PosixDisk()
    with convert_os_errors("make", str(places.keys)):
        disk.make_folder(str(places.keys))
    path = _file_of(places, provider)
    replace_file(disk, str(path), f"{key.value}\n".encode())
    return path


def remove_key(places: Places, provider: str) -> bool:
    """Forget a key, durably; whether there was one.

    Raises:
        UsageError: it is no name of a provider.
        DiskError: the disk refused.
    """
    disk: Disk = PosixDisk()
    path = _file_of(places, provider)
    try:
        disk.unlink(str(path))
        disk.sync_folder(str(places.keys))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DiskError("remove", str(path), error) from error
    return True
