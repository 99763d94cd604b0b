"""Where this machine keeps secrets: files of tools in the home folder, and those of a project."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final

from treadle.secrets.assignments import find_in_text, read_all, read_sections
from treadle.secrets.credentials import is_telling

FILE_SIZE_MAX: Final = 256 * 1024
"""Bytes read of a file that may hold secrets."""

_ONE_WORD: Final = re.compile(r"\s*(?![A-Za-z_][\w.-]*=[^=\s])\S+\s*")
"""A file that holds a key and nothing else; `PORT=3000` is a setting."""

_PGPASS: Final = re.compile(r"^(?!#)(?:(?:[^:\\\n]|\\.)*:){4}((?:[^:\\\n]|\\.)+)$", re.MULTILINE)
"""host:port:database:user:password, where a backslash stands before colons and backslashes."""

_FILES: Final = {
    ".aider.conf.yml": "aider_conf",
    ".authinfo": "authinfo",
    ".aws/credentials": "aws_credentials",
    ".azure/accessTokens.json": "azure_tokens",
    ".azure/msal_token_cache.json": "azure_tokens",
    ".azure/service_principal_entries.json": "azure_principals",
    ".boto": "boto",
    ".bundle/config": "bundle_config",
    ".cache/huggingface/stored_tokens": "huggingface_token",
    ".cargo/credentials": "cargo_credentials",
    ".cargo/credentials.toml": "cargo_credentials",
    ".circleci/cli.yml": "circleci_config",
    ".claude/.credentials.json": "claude_credentials",
    ".codex/auth.json": "codex_auth",
    ".composer/auth.json": "composer_auth",
    ".config/.wrangler/config/default.toml": "wrangler_config",
    ".config/circleci/cli.yml": "circleci_config",
    ".config/composer/auth.json": "composer_auth",
    ".config/configstore/firebase-tools.json": "firebase_config",
    ".config/containers/auth.json": "containers_auth",
    ".config/doctl/config.yaml": "doctl_config",
    ".config/gcloud/access_tokens.db": "gcloud_credentials",
    ".config/gcloud/application_default_credentials.json": "gcloud_credentials",
    ".config/gcloud/credentials.db": "gcloud_credentials",
    ".config/gh/hosts.yml": "gh_hosts",
    ".config/git/credentials": "git_credentials",
    ".config/github-copilot/apps.json": "copilot_apps",
    ".config/github-copilot/hosts.json": "copilot_hosts",
    ".config/glab-cli/config.yml": "glab_config",
    ".config/hcloud/cli.toml": "hcloud_config",
    ".config/hub": "hub_config",
    ".config/io.datasette.llm/keys.json": "llm_keys",
    ".config/linode-cli": "linode_config",
    ".config/msmtp/config": "msmtp_config",
    ".config/netlify/config.json": "netlify_config",
    ".config/ngrok/ngrok.yml": "ngrok_config",
    ".config/NuGet/NuGet.Config": "nuget_config",
    ".config/pip/pip.conf": "pip_conf",
    ".config/pypoetry/auth.toml": "poetry_auth",
    ".config/rclone/rclone.conf": "rclone_conf",
    ".config/stripe/config.toml": "stripe_config",
    ".config/tea/config.yml": "tea_config",
    ".databrickscfg": "databrickscfg",
    ".dbt/profiles.yml": "dbt_profiles",
    ".docker/config.json": "docker_config",
    ".fly/config.yml": "fly_config",
    ".gem/credentials": "gem_credentials",
    ".gemini/oauth_creds.json": "gemini_credentials",
    ".git-credentials": "git_credentials",
    ".gradle/gradle.properties": "gradle_properties",
    ".ivy2/.credentials": "ivy_credentials",
    ".kaggle/kaggle.json": "kaggle_key",
    ".kube/config": "kube_config",
    ".local/share/com.vercel.cli/auth.json": "vercel_auth",
    ".local/share/gem/credentials": "gem_credentials",
    ".local/share/opencode/auth.json": "opencode_auth",
    ".m2/settings.xml": "maven_settings",
    ".msmtprc": "msmtp_config",
    ".my.cnf": "my_cnf",
    ".netlify/config.json": "netlify_config",
    ".netrc": "netrc",
    ".ngrok2/ngrok.yml": "ngrok_config",
    ".npmrc": "npmrc",
    ".nuget/NuGet/NuGet.Config": "nuget_config",
    ".pgpass": "pgpass",
    ".pip/pip.conf": "pip_conf",
    ".pulumi/credentials.json": "pulumi_credentials",
    ".pypirc": "pypirc",
    ".railway/config.json": "railway_config",
    ".s3cfg": "s3cfg",
    ".sbt/.credentials": "sbt_credentials",
    ".sentryclirc": "sentry_config",
    ".smbcredentials": "smb_credentials",
    ".snowflake/config.toml": "snowflake_config",
    ".snowflake/connections.toml": "snowflake_config",
    ".terraform.d/credentials.tfrc.json": "terraform_credentials",
    ".terraformrc": "terraform_credentials",
    ".wrangler/config/default.toml": "wrangler_config",
    ".yarnrc.yml": "yarnrc",
}
"""Files of names and values, under the home folder."""

_WHOLE_FILES: Final = {
    ".cache/huggingface/token": "huggingface_token",
    ".ssh/id_dsa": "ssh_id_dsa",
    ".ssh/id_ecdsa": "ssh_id_ecdsa",
    ".ssh/id_ed25519": "ssh_id_ed25519",
    ".ssh/id_rsa": "ssh_id_rsa",
    ".supabase/access-token": "supabase_token",
    ".vault-token": "vault_token",
}
"""Files that are a secret from beginning to end."""

_FOLDERS: Final = {
    ".aws/cli/cache/*.json": "aws_session",
    ".aws/sso/cache/*.json": "aws_session",
    ".config/gcloud/legacy_credentials/*/adc.json": "gcloud_credentials",
}
"""Folders in which tools keep such files, whose names nobody can know."""

_KEYS: Final = ".ssh/*"
_KEY_FILE_COUNT_MAX: Final = 100
_PRIVATE_KEY: Final = "PRIVATE KEY-----"

_NOTHING_BUT_CREDENTIALS: Final = {"gem_credentials", "llm_keys", "opencode_auth"}
"""Kinds of files that name hosts and services, each with its key."""

FILES_OF_HOME: Final = (*_FILES, *_WHOLE_FILES)
"""All of them, relative to the home folder."""

_GIT_CONFIG: Final = "git_config"
"""Addresses with a password or token in them, headers; of a home, and of a repository. Those of a
home are not hidden from commands, which get them without what may be secret."""

_PUBLIC_OF_GIT: Final = re.compile(r"^\s*signingkey\b.*$", re.IGNORECASE | re.MULTILINE)
"""The name of a key, or the public part of it."""

_FILE_VARIABLES: Final = {
    "AWS_SHARED_CREDENTIALS_FILE": "aws_credentials",
    "BOTO_CONFIG": "boto",
    "BUNDLE_USER_CONFIG": "bundle_config",
    "GOOGLE_APPLICATION_CREDENTIALS": "gcloud_credentials",
    "KUBECONFIG": "kube_config",
    "NETRC": "netrc",
    "NPM_CONFIG_USERCONFIG": "npmrc",
    "PGPASSFILE": "pgpass",
    "PIP_CONFIG_FILE": "pip_conf",
    "RCLONE_CONFIG": "rclone_conf",
    "REGISTRY_AUTH_FILE": "containers_auth",
    "TF_CLI_CONFIG_FILE": "terraform_credentials",
}
"""Variables that say where such a file is instead; some name several, with colons between them."""

_HISTORY_VARIABLES: Final = (
    *("HISTFILE", "PYTHON_HISTORY", "NODE_REPL_HISTORY", "PSQL_HISTORY", "MYSQL_HISTFILE"),
    *("SQLITE_HISTORY", "REDISCLI_HISTFILE", "LESSHISTFILE", "IRB_HISTORY"),
)
"""Variables that say where a history of what a person typed is instead."""

_PROJECT_FILE: Final = re.compile(
    r"\.env(?:rc|\.(?!example|sample|template|dist)[\w.-]+)?|[\w-]+\.env|\.dev\.vars|\.npmrc|\.yarnrc\.yml"
)
"""`.env`, `.env.local`, `production.env`; not what a repository shows instead of one."""

PROJECT_DEPTH: Final = 3
"""Folders below the workspace in which such files are looked for: `apps/web/.env`."""

PROJECT_FOLDER_COUNT_MAX: Final = 1_000
PROJECT_FILE_COUNT_MAX: Final = 100
_NO_PROJECT: Final = frozenset({"node_modules", "target", "vendor", "venv", "__pycache__"})


def files_named_by(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of credentials and histories that variables name; they need not be there.

    A device, such as the `/dev/null` of who wants no history, is none; `/dev/shm` has files.
    """
    named = [path for _, path in _credentials_named_by(environ)]
    named += [Path(path).expanduser() for name in _HISTORY_VARIABLES if (path := environ.get(name))]
    if folder := environ.get("ZDOTDIR"):
        named.append(Path(folder).expanduser() / ".zsh_history")
    return tuple(path for path in named if path.name and not _is_device(path))


def _is_device(path: Path) -> bool:
    return path.parts[:2] == ("/", "dev") and path.parts[2:3] != ("shm",)


def find_in_files(
    home: Path, environ: Mapping[str, str], others: Iterable[tuple[str, Path]] = ()
) -> Iterator[tuple[str, str]]:
    """Secrets of the files that tools keep under a home folder, as (kind, value).

    Args:
        home: the home folder; missing and unreadable files are passed over.
        environ: environment variables, which may name other files instead.
        others: more files of names and values, or of one word that is a key, each with its kind.
    """
    named = _credentials_named_by(environ)
    known = [(kind, home / path) for path, kind in _FILES.items()]
    known += [(_GIT_CONFIG, home / name) for name in (".gitconfig", ".config/git/config")]
    listed = [(kind, path) for pattern, kind in _FOLDERS.items() for path in _listed(home, pattern)]
    for kind, path in (*known, *listed, *named, *others):
        text = _read(path)
        if kind == _GIT_CONFIG:
            text = _PUBLIC_OF_GIT.sub("", text)
        found = [*find_in_text(text), *read_sections(text)]
        if kind in _NOTHING_BUT_CREDENTIALS:
            found += read_all(text)
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
    for path in _listed(home, _KEYS):
        value = _read(path).strip()
        if _PRIVATE_KEY in value and is_telling(value):
            yield f"ssh_{path.name}", value


def _listed(home: Path, pattern: str) -> list[Path]:
    with suppress(OSError, ValueError):
        return sorted(islice(home.glob(pattern), _KEY_FILE_COUNT_MAX))
    return []


def _credentials_named_by(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    return [
        (kind, Path(path).expanduser())
        for variable, kind in _FILE_VARIABLES.items()
        for path in environ.get(variable, "").split(os.pathsep)
        if path
    ]


def find_project_files(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Files of a project that may hold secrets, with their kinds: `.env` and git's settings.

    In its folders, and above in its repository.

    Looks into `PROJECT_FOLDER_COUNT_MAX` folders at most, `PROJECT_DEPTH` deep; never fails.
    """
    count = 0
    for folder in chain(_folders_above(workspace), _folders_below(workspace)):
        for kind, path in _files_of(folder):
            count += 1
            if count > PROJECT_FILE_COUNT_MAX:
                return
            yield kind, path


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


def _files_of(folder: Path) -> list[tuple[str, Path]]:
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
        found = [
            (name.lstrip("."), folder / name) for name in names if _PROJECT_FILE.fullmatch(name)
        ]
        return [*found, (_GIT_CONFIG, folder / ".git/config")] if ".git" in names else found
    return []


def _read(path: Path) -> str:
    """The beginning of a file; empty if it is none, or cannot be read."""
    with suppress(OSError, ValueError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(FILE_SIZE_MAX).decode("utf-8", "replace")
    return ""
