"""Finds the key of a provider: in a variable, in a file, or by asking a command.

No value of a key appears in a message, a log or the text of a `ProviderKey`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle import helper_programs
from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.errors import MissingModelError, NotConfiguredError
from treadle.models.catalog import Catalog, ProviderEntry
from treadle.process.command import run_command
from treadle.process.result import Bounds

COMMAND_TIMEOUT_S: Final = 30.0
"""Long enough to unlock a password store by hand."""

COMMAND_OUTPUT_SIZE_MAX: Final = 64 * 1024
"""Bytes that a command may print; one that prints more is killed."""

_FILE_SIZE_MAX: Final = 64 * 1024
_SHOWN_LENGTH_MAX: Final = 200
_KEY: Final = re.compile(r"[!-~]+")


class ProviderKey(Struct, frozen=True):
    """A key, and where it was found; its text tells only the latter."""

    value: str
    origin: str

    def __repr__(self) -> str:
        return f"ProviderKey(origin={self.origin!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("origin", self.origin)]


def find_key(entry: ProviderEntry, environ: Mapping[str, str]) -> ProviderKey | None:
    """The key of a provider: its variable's, else its file's, else its command's.

    Args:
        entry: the provider.
        environ: the environment of the process; also that of the command.

    Returns:
        `None` if no variable is set, and neither a file nor a command is named.

    Raises:
        NotConfiguredError: what was found is no key, others may read the file, or the command
            failed.
        DiskError: the machine fails to read the file just now.
    """
    if entry.key_env and environ.get(entry.key_env, "").strip():
        return make_key(environ[entry.key_env], f"environment {entry.key_env}")
    if entry.key_file:
        return _read_key_file(entry.key_file, environ)
    if entry.key_command:
        return _run_key_command(entry.key_command, environ)
    return None


def make_no_model_error(catalog: Catalog, environ: Mapping[str, str]) -> MissingModelError:
    """What to tell a person who has chosen no model, and for whom none can be chosen."""
    entries = catalog.providers
    main = [entry.key_env for entry in entries.values() if entry.key_env and entry.default_model]
    more = f" (`treadle models` names {len(main) - 2} more)" if len(main) > 2 else ""
    has_key = [name for name, entry in entries.items() if environ.get(entry.key_env, "").strip()]
    return MissingModelError(
        "no model is configured: `treadle login` sets one up, or set "
        f"{' or '.join(main[:2])}{more}, or choose a model with "
        f"-m {next(iter(has_key), 'PROVIDER')}:MODEL; `treadle demo` works without"
    )


def make_missing_key_error(provider: str, entry: ProviderEntry) -> MissingModelError:
    """What to tell a person whose provider needs a key and has none."""
    without = f"or, if it takes none, write `needs_key = false` below [providers.{provider}]"
    how = f"set {entry.key_env}" if entry.key_env else f"give it a key_file, {without}"
    return MissingModelError(
        f"{provider} needs a key: {how}",
        hint=f"`treadle login {provider}` keeps one in a file; `treadle demo` works without a key",
        provider=provider,
    )


def make_key(text: str, origin: str) -> ProviderKey:
    """The key in a text that holds nothing else.

    Raises:
        NotConfiguredError: it holds none; it is not shown.
    """
    value = text.strip()
    if not _KEY.fullmatch(value):
        problem = "is empty" if not value else "holds white space or characters that no key has"
        raise NotConfiguredError(
            f"the key from {origin} {problem} (it is not shown)",
            hint="a key is one word of plain ASCII characters",
        )
    return ProviderKey(value, origin)


def _read_key_file(name: str, environ: Mapping[str, str]) -> ProviderKey:
    home = environ.get("HOME", "")
    path = Path(home, name[2:]) if home and name.startswith("~/") else Path(name).expanduser()
    try:
        file = read_plain_file(path, _FILE_SIZE_MAX)
    except (OSError, ValueError) as error:
        reason: object = error
        if isinstance(error, OSError):
            raise_machine_error(path, error)
            reason = error.strerror or error
        raise NotConfiguredError(f"cannot read the key file {path}: {reason}") from error
    if file.owner != os.getuid():
        raise NotConfiguredError(
            f"the key file {path} belongs to somebody else",
            hint=f"chown $USER {shlex.quote(str(path))}",
        )
    if file.mode & 0o077:
        raise NotConfiguredError(
            f"others may read or change the key file {path}",
            hint=f"chmod 600 {shlex.quote(str(path))}",
        )
    return make_key(file.data.decode("ascii", "replace"), f"file {path}")


def _run_key_command(command: str | tuple[str, ...], environ: Mapping[str, str]) -> ProviderKey:
    words = shlex.split(command) if isinstance(command, str) else list(command)
    name = f"the key command {words[0]}"
    program = helper_programs.find_program(words[0], environ)
    if program is None:
        why = helper_programs.why_missing(words[0], environ)
        raise NotConfiguredError(f"cannot run {name}: {why}")
    given = helper_programs.environment(environ)
    bounds = Bounds(COMMAND_TIMEOUT_S, COMMAND_OUTPUT_SIZE_MAX, ends_when_full=True)
    try:
        ran = run_command([program, *words[1:]], given, bounds, lends_terminal=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise NotConfiguredError(f"cannot run {name}: {reason or error}") from error
    if ran.problem:
        raise NotConfiguredError(f"{name} {ran.problem}")
    first = _first_line(ran.out)
    if ran.status:
        said = _first_line(ran.err)
        is_telling = bool(said) and not (first and first in said)
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in said)
        raise NotConfiguredError(
            f"{name} failed with exit code {ran.status}"
            + (f": {shown[:_SHOWN_LENGTH_MAX]}" if is_telling else "")
        )
    return make_key(first, f"command {words[0]}")


def _first_line(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip().partition("\n")[0].strip()
