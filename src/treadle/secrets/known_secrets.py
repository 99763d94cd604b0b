"""Where this machine keeps secrets, and which values are secrets.

A value is taken for a secret if its *name* says so and the value is *telling*: long enough and so
special that it can be replaced wherever it stands without spoiling texts that have nothing to do
with it. `TOKEN=production` must not turn every "production" of a session into a label.

Telling is what has 8 to 16,384 characters, at least 4 different ones, and is none of these:

- a number, a date or a version: digits and their punctuation, fewer than 16 digits;
- one to three words, which may be joined: `production`, `my-service`, `Hello world`, `SOME_NAME`.
  A word is of one case or capitalised and has fewer than 16 letters; longer runs of letters, mixed
  case and four or more lower-case words (a pass phrase) are telling;
- a path: one whose first folder exists, begins with `~/` or `./`, or that ends like a key file;
- a host, with or without a port, or a URL (a password inside a URL is taken by itself, and
  the URL of a webhook is a secret as a whole);
- a blank to fill in: `$TOKEN`, `${TOKEN}`, `<your key>`, `{{ key }}`.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

SECRET_LENGTH_MIN: Final = 8
SECRET_LENGTH_MAX: Final = 16 * 1024
FILE_SIZE_MAX: Final = 256 * 1024
"""Bytes read of a file that may hold secrets."""

_LETTER_COUNT_MIN: Final = 4
_WORD_LENGTH_MAX: Final = 15
_WORD_COUNT_MAX: Final = 3
_DIGIT_COUNT_MAX: Final = 15

_SECRET_WORD: Final = re.compile(
    "AUTH|BEARER|CREDENTIALS?|KEYS|OAUTH|PASS|PASSPHRASE|PASSWORDS|PAT|PWD|SECRETS|TOKENS|WEBHOOK"
    "|.*(?:KEY|PASSWD|PASSWORD|SECRET|TOKEN)"
)
_PUBLIC_WORD: Final = re.compile("PUB|PUBLIC")
_OTHER_LAST_WORD: Final = re.compile(
    "ALG|ALGORITHM|AUDIENCE|COUNT|DIR|DOMAIN|EMAIL|ENDPOINT|EXPIRES|EXPIRY|FILE|HEADER|HOST|IDS?"
    "|ISSUER|LIMIT|MAX|METHOD|MODE|NAME|PATH|PID|PORT|PREFIX|REGION|SCOPES?|SIZE|SOCK|SOCKET"
    "|TIMEOUT|TTL|TYPE|USER|USERNAME|VERSION"
)
"""`AWS_ACCESS_KEY_ID`, `SSH_AUTH_SOCK`, `TOKEN_LIMIT`: about a credential, not the credential."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBER: Final = re.compile(r"[\d\s.,:/+_TZ-]*")
_WORDS: Final = re.compile(r"[A-Za-z][A-Za-z _./:@-]*")
_WORD: Final = re.compile(r"[a-z]+|[A-Z]+|[A-Z][a-z]+")
_SEPARATORS: Final = re.compile(r"[ _./:@-]+")
_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?|localhost:\d+")
_KEY_FILE: Final = re.compile(r"[\w./~ -]+\.(?:crt|env|json|key|p12|pem|pub|toml|txt|ya?ml)")
_BLANK: Final = re.compile(r"\$\w+|\$?\{.*\}|<.*>")
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_USERINFO: Final = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]*://([^/\s?#\"']+)@", re.IGNORECASE)
_TOKEN_LENGTH_MIN: Final = 20
"""A user's name of so many characters, without a password, is a token."""

_ASSIGNMENT: Final = re.compile(
    r"""(?<![\w.-])["']?([A-Za-z_][\w.-]*)["']?\s*[:=]\s*
        ("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,"'&;]+)""",
    re.VERBOSE,
)
_NETRC: Final = re.compile(r"\bpassword\s+(\S+)")

_FILES: Final = {
    ".aws/credentials": "aws_credentials",
    ".cargo/credentials.toml": "cargo_credentials",
    ".claude/.credentials.json": "claude_credentials",
    ".codex/auth.json": "codex_auth",
    ".config/gcloud/application_default_credentials.json": "gcloud_credentials",
    ".config/gh/hosts.yml": "gh_hosts",
    ".config/git/credentials": "git_credentials",
    ".docker/config.json": "docker_config",
    ".gemini/oauth_creds.json": "gemini_credentials",
    ".git-credentials": "git_credentials",
    ".kube/config": "kube_config",
    ".my.cnf": "my_cnf",
    ".netrc": "netrc",
    ".npmrc": "npmrc",
    ".pypirc": "pypirc",
}
"""Files of names and values, under the home folder."""

_WHOLE_FILES: Final = {
    ".cache/huggingface/token": "huggingface_token",
    ".ssh/id_dsa": "ssh_id_dsa",
    ".ssh/id_ecdsa": "ssh_id_ecdsa",
    ".ssh/id_ed25519": "ssh_id_ed25519",
    ".ssh/id_rsa": "ssh_id_rsa",
}
"""Files that are a secret from beginning to end."""


def names_a_credential(name: str) -> bool:
    """Whether what has this name is a secret: `GH_TOKEN`, `apiKey`, `PGPASSWORD`, `auth-secret`."""
    words = [word for word in re.split(r"[\W_]+", _HUMP.sub("_", name).upper()) if word]
    if not words or _OTHER_LAST_WORD.fullmatch(words[-1]):
        return False
    is_public = any(map(_PUBLIC_WORD.fullmatch, words))
    return not is_public and any(map(_SECRET_WORD.fullmatch, words))


def is_telling(value: str) -> bool:
    """Whether a value may be replaced wherever it stands; the rule is at the top of this module."""
    if not SECRET_LENGTH_MIN <= len(value) <= SECRET_LENGTH_MAX:
        return False
    if len(set(value)) < _LETTER_COUNT_MIN or _BLANK.fullmatch(value):
        return False
    if _NUMBER.fullmatch(value):
        return sum(map(str.isdigit, value)) > _DIGIT_COUNT_MAX
    if _URL.match(value) or _HOST.fullmatch(value) or _is_path(value):
        return False
    return not (_WORDS.fullmatch(value) and _is_words(value))


def _is_words(value: str) -> bool:
    words = _SEPARATORS.split(value.strip(" _./:@-"))
    if not all(_WORD.fullmatch(word) and len(word) <= _WORD_LENGTH_MAX for word in words):
        return False
    return len(words) <= _WORD_COUNT_MAX or not value.islower()


def _is_path(value: str) -> bool:
    """Whether it is a path. A base64 value may begin with a slash: its "first folder" is none."""
    if value.startswith(("~/", "./", "../")) or _KEY_FILE.fullmatch(value):
        return True
    first = value[1:].partition("/")[0] if value.startswith("/") else ""
    with suppress(OSError, ValueError):
        return bool(first) and Path("/", first).exists()
    return False


def find_in_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Secrets of environment variables, as (name, value), in the order of the names."""
    for name, value in sorted(environment.items()):
        value = value.strip()
        yield from ((name, secret) for secret in find_in_text(value))
        is_webhook = "WEBHOOK" in name.upper() and bool(_URL.match(value))
        if names_a_credential(name) and (is_webhook or is_telling(value)):
            yield name, value


def find_in_files(home: Path, others: Iterable[Path] = ()) -> Iterator[tuple[str, str]]:
    """Secrets of the files that tools keep under a home folder, as (kind, value).

    Args:
        home: the home folder; missing and unreadable files are passed over.
        others: more files of names and values, such as a project's `.env`.
    """
    known = [(home / path, kind) for path, kind in _FILES.items()]
    for path, kind in (*known, *((other, other.name.lstrip(".")) for other in others)):
        yield from ((kind, secret) for secret in find_in_text(_read(path)))
    for place, kind in _WHOLE_FILES.items():
        value = _read(home / place).strip()
        if is_telling(value):
            yield kind, value


def find_in_text(text: str) -> Iterator[str]:
    """Secrets in a text of names and values: ini, env, JSON, YAML, netrc, URLs with passwords."""
    for name, value in _ASSIGNMENT.findall(text):
        if names_a_credential(name):
            yield from filter(is_telling, [_unquoted(value)])
    yield from filter(is_telling, _NETRC.findall(text))
    for userinfo in _USERINFO.findall(text):
        user, has_password, password = userinfo.partition(":")
        if has_password:
            yield from filter(is_telling, dict.fromkeys((unquote(password), password)))
        elif len(user) >= _TOKEN_LENGTH_MIN:
            yield from filter(is_telling, [user])


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        with suppress(ValueError):
            return str(json.loads(value))
    return value.strip("\"'")


def _read(path: Path) -> str:
    """The beginning of a file; empty if it is none, or cannot be read."""
    with suppress(OSError, ValueError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(FILE_SIZE_MAX).decode("utf-8", "replace")
    return ""
