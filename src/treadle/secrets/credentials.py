"""Which names speak of secrets, and which values are secrets.

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
- a blank to fill in: `$TOKEN`, `${TOKEN}`, `$(pass show x)`, `<your key>`, `{{ key }}`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

SECRET_LENGTH_MIN: Final = 8
SECRET_LENGTH_MAX: Final = 16 * 1024

_LETTER_COUNT_MIN: Final = 4
_WORD_LENGTH_MAX: Final = 15
_WORD_COUNT_MAX: Final = 3
_DIGIT_COUNT_MAX: Final = 15

_SECRET_WORD: Final = re.compile(
    r"(?:AUTH|AUTHORIZATION|BEARER|CREDS?|DSN|MNEMONIC|OAUTH|PAT|TOKENS|WEBHOOK"
    r"|.*(?:COOKIES?|CREDENTIALS?|JWT|KEYS?|PASS|PASSCODE|PASSPHRASE|PASSWDS?|PASSWORDS?|PSWD|PW|PWD"
    r"|SECRETS?|TOKEN))\d{0,2}"
)
"""Words are joined without a mark too: `DBPASS`, `ROOTPW`, `APIKEYS`."""

_PLAIN_WORD: Final = re.compile(
    r"(?:ASK|BY|COM|ENCOM|OVER|SUR|TRES|UNDER)PASS|(?:INIT|LAST|OLD|PREV|START)PWD"
    r"|(?:DON|HOT|JOC|LAC|MON|SOFT|TUR)KEYS?"
)
"""They end in the same way, and speak of something else."""

_SESSION: Final = re.compile(r"(?:BW|OP)_SESSION(?:_\w+)?")
"""What unlocks a password store: Bitwarden's, 1Password's. Other sessions are no secrets."""

_BUNDLER_HOST: Final = re.compile(
    r"BUNDLE_(?!(?:BUILD|DISABLE_\w+|LOCAL|MIRROR)__|GEM__(?!\w+__))[A-Z0-9_]+__[A-Z0-9_]+"
)
"""Bundler names what a host wants of it by the host: `BUNDLE_GEMS__EXAMPLE__COM`."""

_OTLP_HEADERS: Final = re.compile(r"OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS")
"""OpenTelemetry: the key of a collector stands in them, under any name."""

_PUBLIC_WORD: Final = re.compile("PUB|PUBLIC")
_OTHER_LAST_WORD: Final = re.compile(
    "ALG|ALGORITHM|AUDIENCE|COUNT|DIR|DOMAIN|EMAIL|ENDPOINT|EXPIRES|EXPIRY|FILE|HEADER|HOST|IDS?"
    "|ISSUER|LIMIT|MAX|METHOD|MODE|NAME|PATH|PID|PORT|PREFIX|REGION|SCOPES?|SIZE|SOCK|SOCKET|STDIN"
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
_BLANK: Final = re.compile(
    r"\$(?:[A-Za-z_]+\d{0,2}|[A-Z_][A-Z0-9_]*)|\$?\{.*\}|<.*>|\$\(.*\)|`.*`", re.DOTALL
)
"""`$s3cret9word` is none: few variables have such names."""

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def names_a_credential(name: str) -> bool:
    """Whether what has this name is a secret: `GH_TOKEN`, `apiKey`, `PGPASSWORD`, `auth-secret`."""
    if any(one.fullmatch(name) for one in (_SESSION, _BUNDLER_HOST, _OTLP_HEADERS)):
        return True
    words = _words_of(name)
    if not words or is_other_than_a_credential(name) or any(map(_PUBLIC_WORD.fullmatch, words)):
        return False
    return any(_SECRET_WORD.fullmatch(one) and not _PLAIN_WORD.fullmatch(one) for one in words)


def is_other_than_a_credential(name: str) -> bool:
    """Whether it names something about a credential: `user`, `expires`, `token_type`."""
    words = _words_of(name)
    return bool(words) and _OTHER_LAST_WORD.fullmatch(words[-1]) is not None


def _words_of(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", _HUMP.sub("_", name).upper()) if word]


def is_telling(value: str) -> bool:
    """Whether a value may be replaced wherever it stands; the rule is at the top of this module."""
    if not SECRET_LENGTH_MIN <= len(value) <= SECRET_LENGTH_MAX:
        return False
    if len(set(value)) < _LETTER_COUNT_MIN or is_blank(value):
        return False
    if _NUMBER.fullmatch(value):
        return sum(map(str.isdigit, value)) > _DIGIT_COUNT_MAX
    if _URL.match(value) or _HOST.fullmatch(value) or _is_path(value):
        return False
    return not (_WORDS.fullmatch(value) and _is_words(value))


def is_blank(value: str) -> bool:
    """Whether it stands for a value: a variable, a command that finds one, a mark in a form."""
    return _BLANK.fullmatch(value) is not None


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
