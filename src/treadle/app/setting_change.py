"""Changes a value in the user's own settings file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from treadle.config.loader import check_user_file, load_settings
from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.config.project_file import FILE_NAME, FILE_SIZE_MAX
from treadle.config.setting_edit import parse_key, parse_value, set_value
from treadle.config.settings import format_dotted_key
from treadle.config.toml_file import parse_toml
from treadle.errors import ConfigError
from treadle.store.disk import PosixDisk
from treadle.store.file_replacement import replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places


class SettingChange(Struct, frozen=True):
    """A setting that was changed: its dotted `key`, and `path`, the file that says it now.

    `value` is what holds in the folder from now on, and `origin` who says so: `path` with a line,
    unless a project's file or a variable wins over it. A value that may hold a secret is not told.
    """

    key: str
    path: str
    value: Any
    origin: str

    @property
    def holds(self) -> bool:
        """Whether what was set is what holds."""
        return self.origin.startswith(f"{self.path}:")


def change_setting(
    places: Places, key: str, text: str, *, folder: str | Path, environ: Mapping[str, str]
) -> SettingChange:
    """Set a value in the user's file, which is made if it is not there. Comments stay.

    Args:
        places: the folders of the user.
        key: the dotted key, as TOML writes it: `models.default`.
        text: the value, as TOML writes it, or a text without its quotes.
        folder: where it is asked what holds then.
        environ: the environment, which may win over the file.

    Raises:
        UsageError: there is no such key, or it takes no such value.
        ConfigError: the file is not valid, or would not be; it stays as it was.
        DiskError: it cannot be read or written.
    """
    path = parse_key(key)
    value = parse_value(path, text)
    named = change_user_file(places, lambda before, _: set_value(before, path, value))
    loaded = load_settings(folder, environ)
    dotted = format_dotted_key(path)
    return SettingChange(dotted, named, loaded.values[dotted], loaded.origins[dotted])


def change_user_file(places: Places, change: Callable[[str, dict[str, Any]], str]) -> str:
    """Replace the user's file by what is made of its text and its tables; its path.

    Raises:
        ConfigError: the file is not valid, or would not be; it stays as it was.
        DiskError: it cannot be read or written.
    """
    named = places.config / FILE_NAME
    before = _read(named)
    tables = parse_toml(before, str(named)).tables
    changed = change(before.decode(), tables).encode()
    check_user_file(parse_toml(changed, str(named)))
    disk = PosixDisk()
    # Where the file is a link to one that is kept elsewhere, that one is changed.
    target = named.resolve()
    with convert_os_errors("make", str(target.parent)):
        disk.make_folder(str(target.parent))
    replace_file(disk, str(target), changed)
    return str(named)


def _read(path: Path) -> bytes:
    try:
        return read_plain_file(path, FILE_SIZE_MAX).data
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise_machine_error(path, error)
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
