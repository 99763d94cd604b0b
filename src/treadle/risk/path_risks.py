"""Which paths stand in a command, and what they are: outside, credentials, run later. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final

_URL: Final = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOME: Final = re.compile(r"^(~[\w.-]*|\$HOME|\$\{HOME[^}]*\})(?=/|$)")
_GLUED: Final = re.compile(r"^-[A-Za-z]+(?=[/~]|\.\.?(?:/|$)|\$HOME)")

_SECRET: Final = re.compile(
    r"(^|/)("
    r"\.ssh|\.aws|\.gnupg|\.kube|\.docker|\.azure|\.netrc|_netrc|\.npmrc|\.pypirc|\.pgpass"
    r"|\.my\.cnf|\.git-credentials|\.password-store|\.vault-token|\.htpasswd|\.dockercfg"
    r"|\.env(\.(?!example|sample|template|dist)[\w.-]+)?|\.envrc|\.secrets?"
    r"|\.config/(gcloud|gh|hub|op|treadle|sops|doctl|rclone)|\.cargo/credentials(\.toml)?"
    r"|\.gem/credentials|\.terraform\.d|\.mozilla|keychains|keyrings|login data|cookies\.sqlite"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|credentials(\.(json|toml|ya?ml|ini|csv))?|authorized_keys"
    r"|secrets?\.(json|toml|ya?ml|env|txt)|service[-_]account[\w-]*\.json|master\.key"
    r"|[\w.*-]+\.(pem|p12|pfx|jks|keystore|kdbx|ppk|key)"
    r"|etc/g?shadow-?|etc/sudoers(\.d)?|proc/[^/]+/(environ|mem|fd|root|cwd|cmdline)|\.bash_history"
    r"|\.git/(config(\.worktree)?|fetch_head|credentials|modules/.+/config)"
    r"|\.zsh_history|\.python_history|var/run/secrets|run/secrets"
    r")(?=/|$)",
    re.IGNORECASE,
)
_SECRET_SAMPLES: Final = (
    *(".env", ".env.local", ".netrc", ".npmrc", ".ssh", ".aws", ".pypirc", ".git-credentials"),
    *("id_rsa", "id_ed25519", "credentials", "server.pem", "server.key", "secrets.yaml"),
)
_LATER: Final = re.compile(
    r"(^|/)("
    r"\.git/(hooks|config|info|modules|worktrees)|\.git$|\.gitmodules|\.gitconfig|\.githooks|\.husky"
    r"|\.treadle|\.vscode|\.idea|\.claude|\.cursor|\.mcp\.json|\.devcontainer|\.envrc|\.direnv"
    r"|\.(bash|zsh|ksh|k|c|tcsh|sh)(rc|_profile|_login|_logout|_aliases|env)|\.profile|\.zprofile"
    r"|\.zlogin|\.inputrc|\.xinitrc|\.xprofile|\.xsession|\.vimrc|\.nvimrc|\.exrc|\.emacs(\.d)?"
    r"|\.gdbinit|\.lldbinit|\.pythonrc|\.pdbrc|\.irbrc|\.pryrc|\.psqlrc|\.sqliterc|\.tmux\.conf"
    r"|\.screenrc|\.curlrc|\.wgetrc|\.pre-commit-config\.yaml|authorized_keys|\.ssh/config"
    r"|\.config/(autostart|systemd|fish|nvim|git|environment\.d)|sitecustomize\.py|usercustomize\.py"
    r"|etc/(cron[\w.]*|systemd|init\.d|rc\.local|profile(\.d)?|ld\.so\.preload|ld\.so\.conf(\.d)?"
    r"|sudoers(\.d)?|passwd|hosts|environment|pam\.d|apt|bash\.bashrc)|var/spool/cron"
    r"|library/launch(agents|daemons)|conftest\.pth|[\w-]+\.pth"
    r")(?=/|$)",
    re.IGNORECASE,
)
_ROOT: Final = re.compile(
    r"^(/+\**|/+[\w.-]+/?\**|(~[\w.-]*|\$\{?HOME\}?)(/\**)?|\.\.?/?|\.?/?\*+/?|\./\*|(\./)?\.\*"
    r"|\$\{?PWD\}?(/\**)?|(\.\./)+\**|(.*/)?\.git/?(\*|refs|objects)?/?|\.\[.*|\.\?\?\*|/home/[\w.-]+/?\**)$"
)
_SYSTEM: Final = re.compile(
    r"^/(usr|bin|sbin|lib|lib64|opt|sys|proc/(cpuinfo|meminfo|version|loadavg|uptime|mounts)"
    r"|etc/(os-release|lsb-release|debian_version|hostname|timezone|localtime|ssl/certs|shells"
    r"|protocols|services|mime\.types))(?=/|$)"
)
_TEMPORARY: Final = re.compile(r"^(/tmp|/var/tmp|/dev/shm|\$TMPDIR|\$\{TMPDIR[^}]*\})(?=/|$)")
_HARMLESS: Final = frozenset(
    {
        *(
            "/dev/null",
            "/dev/zero",
            "/dev/urandom",
            "/dev/stdin",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/tty",
        )
    }
)


class Reach(IntEnum):
    """How far outside the workspace a path is."""

    INSIDE = 0
    TEMPORARY = 1
    """In a folder for temporary files."""
    SYSTEM = 2
    """Programs and facts of the machine that anybody may read."""
    OUTSIDE = 3


class Inside:
    """Calls what lies in the workspace by its name from there: `/ws/x` is `./x`.

    By its words only: `..` still climbs, and links lead where they lead.

    Args:
        workspace: an absolute path; empty or the root for nothing to be inside.
    """

    def __init__(self, workspace: str) -> None:
        self._pattern: re.Pattern[str] | None = None
        if workspace.startswith("/") and workspace.strip("/"):
            self._pattern = re.compile(
                r"""(?:^|(?<=[=,{}@<>()\s"'])|(?<=^-[A-Za-z]))"""
                + re.escape(workspace.rstrip("/"))
                + r"""(?=[/=:,{}@<>()\s"';]|$)"""
            )

    def named(self, text: str) -> str:
        """The text with its absolute paths made relative."""
        return text if self._pattern is None else self._pattern.sub(".", text)


def candidates(text: str) -> Iterator[str]:
    """The paths that may stand in an argument: `--file=x`, `-Ix`, `@x`, `host:x`, `{x,y}`."""
    if _URL.match(text):
        return
    yield text
    if glued := _GLUED.match(text):
        yield text[glued.end() :]
    for piece in re.split(r"[=:,{}@<>()\s\"']+", text):
        if piece and piece != text:
            yield piece


def reach(path: str) -> Reach:
    """How far outside the workspace a path is; the workspace is taken to be the folder it is in."""
    if path in _HARMLESS or (path.startswith("//") and _URL.match(path)):
        return Reach.INSIDE
    parts = path.split("/")
    if ".." in parts and _climbs(parts):
        return Reach.OUTSIDE
    if _TEMPORARY.match(path):
        return Reach.TEMPORARY
    if _HOME.match(path) or path.startswith(("$OLDPWD", "${OLDPWD")):
        return Reach.OUTSIDE
    if not path.startswith("/"):
        return Reach.INSIDE
    return Reach.SYSTEM if _SYSTEM.match(path) else Reach.OUTSIDE


def _climbs(parts: list[str]) -> bool:
    if parts[0] == "" or parts[0].startswith(("~", "$")):
        return True  # whatever it is, the folder it climbs from is not this one
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False


def is_secret(path: str) -> bool:
    """Whether credentials are kept there by custom."""
    return _SECRET.search(path) is not None or _SECRET.search(_plain(path)) is not None


def is_history(path: str) -> bool:
    """Whether it is the folder of git, which holds addresses with passwords, or lies in it."""
    return ".git" in _plain(path).lower().split("/")


def may_be_secret(pattern: str) -> bool:
    """Whether a pattern for file names could stand for credentials."""
    last = pattern.rstrip("/").rpartition("/")[2]
    return any(fnmatchcase(sample, last) for sample in _SECRET_SAMPLES)


def runs_later(path: str) -> bool:
    """Whether programs run, or choose what they run, by what stands there."""
    return _LATER.search(path) is not None or _LATER.search(_plain(path)) is not None


def _plain(path: str) -> str:
    """The path without detours: `.git/config` for `.git/./config`."""
    return posixpath.normpath(path) if "//" in path or "/." in path else path


def is_root(path: str) -> bool:
    """Whether deleting it deletes a root, a home folder, the whole workspace, or its history."""
    return _ROOT.match(path) is not None
