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
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
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
    r"(?:AUTH|AUTHORIZATION|BEARER|COOKIES?|CREDENTIALS?|DSN|JWT|KEYS|OAUTH|PASS|PASSPHRASE"
    r"|PASSWORDS|PAT|PW|PWD|SECRETS|SSHPASS|TOKENS|WEBHOOK"
    r"|.*(?:KEY|PASSWD|PASSWORD|SECRET|TOKEN))\d{0,2}"
)
_SESSION: Final = re.compile(r"(?:BW|OP)_SESSION(?:_\w+)?")
"""What unlocks a password store: Bitwarden's, 1Password's. Other sessions are no secrets."""

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
    r"""(?<![\w.-])["']?([A-Za-z_][\w.-]*)["']?[ \t]*[:=][ \t]*(?:[|>][+-]?[ \t]*\n[ \t]+)?
        ("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,"'&;]+)""",
    re.VERBOSE,
)
"""A value stands on the line of its name, or as a block of YAML below it: what stands below
`user:` is a name of its own."""

_ELEMENT: Final = re.compile(r"<([A-Za-z_][\w.-]*)>\s*([^<>\s]+)\s*</")
_ONE_WORD: Final = re.compile(r"\s*\S+\s*")
_NETRC: Final = re.compile(r"\bpassword\s+(\S+)")
_PGPASS: Final = re.compile(r"^(?!#)(?:(?:[^:\\\n]|\\.)*:){4}((?:[^:\\\n]|\\.)+)$", re.MULTILINE)
"""host:port:database:user:password, where a backslash stands before colons and backslashes."""

_FILES: Final = {
    ".aws/credentials": "aws_credentials",
    ".bundle/config": "bundle_config",
    ".cargo/credentials.toml": "cargo_credentials",
    ".claude/.credentials.json": "claude_credentials",
    ".codex/auth.json": "codex_auth",
    ".composer/auth.json": "composer_auth",
    ".config/composer/auth.json": "composer_auth",
    ".config/doctl/config.yaml": "doctl_config",
    ".config/gcloud/application_default_credentials.json": "gcloud_credentials",
    ".config/gh/hosts.yml": "gh_hosts",
    ".config/git/credentials": "git_credentials",
    ".config/github-copilot/apps.json": "copilot_apps",
    ".config/github-copilot/hosts.json": "copilot_hosts",
    ".config/glab-cli/config.yml": "glab_config",
    ".config/hcloud/cli.toml": "hcloud_config",
    ".config/pip/pip.conf": "pip_conf",
    ".config/rclone/rclone.conf": "rclone_conf",
    ".databrickscfg": "databrickscfg",
    ".docker/config.json": "docker_config",
    ".gem/credentials": "gem_credentials",
    ".gemini/oauth_creds.json": "gemini_credentials",
    ".git-credentials": "git_credentials",
    ".gradle/gradle.properties": "gradle_properties",
    ".kube/config": "kube_config",
    ".local/share/opencode/auth.json": "opencode_auth",
    ".m2/settings.xml": "maven_settings",
    ".my.cnf": "my_cnf",
    ".netrc": "netrc",
    ".npmrc": "npmrc",
    ".pgpass": "pgpass",
    ".pip/pip.conf": "pip_conf",
    ".pypirc": "pypirc",
    ".s3cfg": "s3cfg",
    ".terraform.d/credentials.tfrc.json": "terraform_credentials",
    ".yarnrc.yml": "yarnrc",
}
"""Files of names and values, under the home folder."""

_WHOLE_FILES: Final = {
    ".cache/huggingface/token": "huggingface_token",
    ".ssh/id_dsa": "ssh_id_dsa",
    ".ssh/id_ecdsa": "ssh_id_ecdsa",
    ".ssh/id_ed25519": "ssh_id_ed25519",
    ".ssh/id_rsa": "ssh_id_rsa",
    ".vault-token": "vault_token",
}
"""Files that are a secret from beginning to end."""

FILES_OF_HOME: Final = (*_FILES, *_WHOLE_FILES)
"""All of them, relative to the home folder."""

_FILE_VARIABLES: Final = {
    "AWS_SHARED_CREDENTIALS_FILE": "aws_credentials",
    "GOOGLE_APPLICATION_CREDENTIALS": "gcloud_credentials",
    "KUBECONFIG": "kube_config",
    "NETRC": "netrc",
    "NPM_CONFIG_USERCONFIG": "npmrc",
    "PGPASSFILE": "pgpass",
    "PIP_CONFIG_FILE": "pip_conf",
}
"""Variables that say where such a file is instead; some name several, with colons between them."""

_PROJECT_FILE: Final = re.compile(
    r"\.env(?:rc|\.(?!example|sample|template|dist)[\w.-]+)?|[\w-]+\.env"
)
"""`.env`, `.env.local`, `production.env`; not what a repository shows instead of one."""

PROJECT_DEPTH: Final = 3
"""Folders below the workspace in which such files are looked for: `apps/web/.env`."""

PROJECT_FOLDER_COUNT_MAX: Final = 1_000
PROJECT_FILE_COUNT_MAX: Final = 100
_NO_PROJECT: Final = frozenset({"node_modules", "target", "vendor", "venv", "__pycache__"})


def names_a_credential(name: str) -> bool:
    """Whether what has this name is a secret: `GH_TOKEN`, `apiKey`, `PGPASSWORD`, `auth-secret`."""
    if _SESSION.fullmatch(name):
        return True
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


def find_in_files(
    home: Path, environ: Mapping[str, str], others: Iterable[tuple[str, Path]] = ()
) -> Iterator[tuple[str, str]]:
    """Secrets of the files that tools keep under a home folder, as (kind, value).

    Args:
        home: the home folder; missing and unreadable files are passed over.
        environ: environment variables, which may name other files instead.
        others: more files of names and values, or of one word that is a key, each with its kind.
    """
    named = [
        (kind, Path(path).expanduser())
        for variable, kind in _FILE_VARIABLES.items()
        for path in environ.get(variable, "").split(os.pathsep)
        if path
    ]
    known = [(kind, home / path) for path, kind in _FILES.items()]
    for kind, path in (*known, *named, *others):
        text = _read(path)
        found = list(find_in_text(text))
        if not found and _ONE_WORD.fullmatch(text) and is_telling(text.strip()):
            found = [text.strip()]
        yield from ((kind, secret) for secret in found)
        if kind == "pgpass":
            passwords = [re.sub(r"\\(.)", r"\1", one) for one in _PGPASS.findall(text)]
            yield from ((kind, password) for password in passwords if is_telling(password))
    for place, kind in _WHOLE_FILES.items():
        value = _read(home / place).strip()
        if is_telling(value):
            yield kind, value


def find_project_files(workspace: Path) -> Iterator[tuple[str, Path]]:
    """The `.env` files of a project, with their kinds: in its folders, and above in its repository.

    Looks into `PROJECT_FOLDER_COUNT_MAX` folders at most, `PROJECT_DEPTH` deep; never fails.
    """
    count = 0
    for folder in chain(_folders_above(workspace), _folders_below(workspace)):
        for path in _files_of(folder):
            count += 1
            if count > PROJECT_FILE_COUNT_MAX:
                return
            yield path.name.lstrip("."), path


def _folders_above(workspace: Path) -> list[Path]:
    """The folders between a workspace and the root of its repository, that among them."""
    above: list[Path] = []
    for folder in (workspace, *workspace.parents):
        with suppress(OSError):
            if (folder / ".git").exists():
                return above
        above.append(folder.parent)
    return []


def _folders_below(workspace: Path) -> Iterator[Path]:
    """A workspace and the folders in it, those nearer first."""
    level = [workspace]
    count = 0
    for _ in range(PROJECT_DEPTH + 1):
        yield from level
        count += len(level)
        below: list[Path] = []
        for folder in level:
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                below += (
                    Path(entry.path)
                    for entry in entries
                    if not entry.name.startswith(".")
                    and entry.name not in _NO_PROJECT
                    and entry.is_dir(follow_symlinks=False)
                )
        level = below[: PROJECT_FOLDER_COUNT_MAX - count]


def _files_of(folder: Path) -> list[Path]:
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if _PROJECT_FILE.fullmatch(entry.name)]
    return []


def find_in_text(text: str) -> Iterator[str]:
    """Secrets in a text of names and values: ini, env, JSON, YAML, netrc, URLs with passwords."""
    for name, value in _ASSIGNMENT.findall(text):
        if names_a_credential(name):
            yield from filter(is_telling, [_unquoted(value)])
    for name, value in _ELEMENT.findall(text):
        if names_a_credential(name):
            yield from filter(is_telling, [value])
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
