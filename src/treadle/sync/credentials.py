"""Which server this machine syncs with, and as whom: one for each home, in a file of its own.

The file holds a token, so it is written with mode 0600, and one that others may read is not used.
`TREADLE_SERVER_URL` and `TREADLE_TOKEN`, set both, stand in its place: for machines on which nobody
logs in. No token appears in a message or in the text of an `Account`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from treadle.config.plain_file import raise_machine_error, read_plain_file
from treadle.errors import ConfigError, DiskError, NotLoggedInError, UsageError
from treadle.models.catalog import is_loopback_host
from treadle.store.disk import Disk, PosixDisk
from treadle.store.file_replacement import replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places
from treadle.thread.facts import Visibility

URL_VARIABLE: Final = "TREADLE_SERVER_URL"
TOKEN_VARIABLE: Final = "TREADLE_TOKEN"  # noqa: S105  a name, no token
VISIBILITY_VARIABLE: Final = "TREADLE_VISIBILITY"
INSECURE_VARIABLE: Final = "TREADLE_SERVER_INSECURE"

FILE_SIZE_MAX: Final = 64 * 1024
TOKEN_LENGTH_MAX: Final = 4096

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+")
_TOKEN: Final = re.compile(r"[!-~]+")
_LOGIN_HINT: Final = "`treadle login URL` says which"


class Account(Struct, frozen=True):
    """A server, and who one is there.

    `visibility` is who may see threads that are begun from now on. `origin` says where this was
    found: the path of the file, or `environment`. The text of it does not tell the token.
    """

    url: str
    token: str
    user: str = ""
    organization: str = ""
    visibility: Visibility = "organization"
    logged_in_at: str = ""
    is_insecure: bool = False
    origin: str = ""

    def __repr__(self) -> str:
        return f"Account(url={self.url!r}, user={self.user!r}, origin={self.origin!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", self.url), ("user", self.user), ("origin", self.origin)]


def is_logged_in(places: Places, environ: Mapping[str, str]) -> bool:
    """Whether there is an account to look for: one look at a name, nothing is read or imported."""
    return bool(environ.get(URL_VARIABLE, "").strip()) or places.remote.exists()


def find_account(places: Places, environ: Mapping[str, str]) -> Account | None:
    """The account of this user here; `None` if there is none.

    Raises:
        ConfigError: a variable holds no address or no token, or only one of the two is set.
        NotLoggedInError: the file cannot be used: others may read it, or it holds something else.
        DiskError: the machine fails to read the file just now.
    """
    url, token = (environ.get(name, "").strip() for name in (URL_VARIABLE, TOKEN_VARIABLE))
    if url:
        return _read_environment(url, token, environ)
    return _read_file(places.remote)


def require_account(places: Places, environ: Mapping[str, str]) -> Account:
    """`find_account`, for what cannot be done without one.

    Raises:
        NotLoggedInError: there is none, or its file cannot be used.
        ConfigError, DiskError: as `find_account`.
    """
    found = find_account(places, environ)
    if found is None:
        raise NotLoggedInError("this machine syncs with no server yet", hint=_LOGIN_HINT)
    return found


def save_account(places: Places, account: Account, *, disk: Disk | None = None) -> None:
    """Keep the account, durably; the one before it stands until then.

    Raises:
        DiskError: the disk refused; what was kept before stands.
    """
    disk = PosixDisk() if disk is None else disk
    plain = {key: value for key, value in msgspec.to_builtins(account).items() if key != "origin"}
    data = msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"
    with convert_os_errors("make", str(places.config)):
        disk.make_folder(str(places.config))
    replace_file(disk, str(places.remote), data)


def remove_account(places: Places, *, disk: Disk | None = None) -> bool:
    """Forget the account, durably; whether there was one.

    Raises:
        DiskError: the disk refused.
    """
    disk = PosixDisk() if disk is None else disk
    try:
        disk.unlink(str(places.remote))
        disk.sync_folder(str(places.config))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DiskError("remove", str(places.remote), error) from error
    return True


def parse_server_url(text: str, *, is_insecure: bool = False) -> str:
    """The address of a server as this program keeps it: scheme, host, and a port that is not usual.

    Args:
        text: what a person wrote; without a scheme it is https, or http for this machine.
        is_insecure: whether plain http may go to another machine.

    Raises:
        UsageError: it is no such address, or the token would go over the network in the open.
    """
    text = text.strip()
    if "://" not in text and (host := _parse_host(f"//{text}")):
        text = f"{'http' if is_loopback_host(host) else 'https'}://{text}"
    hint = "it is like https://treadle.example.org or http://127.0.0.1:8080"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError("this is no address of a server", hint=hint) from None
    has_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    is_known = parts.scheme in ("http", "https") and _HOST.fullmatch(host) is not None
    if not is_known or has_more or port == 0 or not text.isascii():
        why = "a server's address ends with its host and port" if has_more else "this is no address"
        raise UsageError(f"{why}; what was given is not shown", hint=hint)
    if parts.scheme == "http" and not is_insecure and not is_loopback_host(host):
        raise UsageError(
            f"http://{host} would send the token and all threads over the network in the open",
            hint="use https, or say --insecure if the network between is yours alone",
        )
    shown = f"[{host}]" if ":" in host else host
    is_usual = port is None or port == {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{shown}" + ("" if is_usual else f":{port}")


def check_token(text: str, origin: str) -> str:
    """The token in a text.

    Raises:
        ConfigError: it is none; it is not shown.
    """
    token = text.strip()
    if not _TOKEN.fullmatch(token) or len(token) > TOKEN_LENGTH_MAX:
        raise ConfigError(
            f"the token from {origin} {'is no token' if token else 'is empty'} (it is not shown)",
            hint="a token is one word of plain ASCII characters",
        )
    return token


def _parse_host(text: str) -> str:
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


def _read_environment(url: str, token: str, environ: Mapping[str, str]) -> Account:
    if not token:
        raise ConfigError(f"{URL_VARIABLE} is set, and {TOKEN_VARIABLE} is not", hint="set both")
    is_insecure = environ.get(INSECURE_VARIABLE, "").strip().lower() in ("1", "true")
    try:
        checked = parse_server_url(url, is_insecure=is_insecure)
    except UsageError as error:
        hint = error.hint.replace("say --insecure", f"set {INSECURE_VARIABLE}=1")
        raise ConfigError(f"{URL_VARIABLE}: {error.message}", hint=hint) from None
    visibility = environ.get(VISIBILITY_VARIABLE, "").strip() or "organization"
    if visibility not in get_args(Visibility):
        raise ConfigError(f"{VISIBILITY_VARIABLE} must be one of {', '.join(get_args(Visibility))}")
    return Account(
        checked,
        check_token(token, f"environment {TOKEN_VARIABLE}"),
        visibility=cast(Visibility, visibility),
        is_insecure=is_insecure,
        origin="environment",
    )


def _read_file(path: Path) -> Account | None:
    again = "`treadle login URL` makes it anew"
    try:
        file = read_plain_file(path, FILE_SIZE_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise_machine_error(path, error)
        raise NotLoggedInError(f"cannot read {path}: {error.strerror or error}") from error
    if file.owner != os.getuid():
        raise NotLoggedInError(f"{path} belongs to somebody else", hint=again)
    if file.mode & 0o077:
        raise NotLoggedInError(
            f"others may read or change {path}, which holds a token",
            hint=f"chmod 600 {shlex.quote(str(path))}; log in anew if somebody may have seen it",
        )
    try:
        account = msgspec.json.decode(file.data, type=Account)
        url = parse_server_url(account.url, is_insecure=account.is_insecure)
        token = check_token(account.token, str(path))
    except (msgspec.DecodeError, UsageError, UnicodeDecodeError):
        raise NotLoggedInError(
            f"{path} does not say which server this machine syncs with", hint=again
        ) from None
    return msgspec.structs.replace(account, url=url, token=token, origin=str(path))
