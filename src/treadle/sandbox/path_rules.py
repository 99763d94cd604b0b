"""Which places no tool reads or writes, whatever folder is the workspace.

File tools and commands have the same rules. Hidden are the places where people and programs keep
credentials and histories, and this program's own folders: the threads of other projects, and
settings that name hooks. A person lets tools see one by naming it, or a folder on the way to it
from the home, in `sandbox_readable`; this program's own are never seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.secrets.known_secrets import FILES_OF_HOME
from treadle.tool_failure import ToolFailure

CREDENTIALS_OF_HOME: Final = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/gcloud",
    ".config/git",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/doctl",
    ".config/hcloud",
    ".config/github-copilot",
    ".config/containers",
    ".config/pypoetry",
    ".cargo/credentials",
    ".terraform.d",
    ".boto",
    ".fly",
    ".pulumi",
    ".oci",
    ".bluemix",
    ".aliyun",
    ".databricks",
    ".minikube",
    ".cloudflared",
    ".wrangler",
    ".config/.wrangler",
    ".supabase",
    ".railway",
    ".expo",
    ".snowsql",
    ".sigstore",
    ".ngrok2",
    ".config/ngrok",
    ".config/stripe",
    ".config/netlify",
    ".config/configstore",
    ".config/helm",
    ".config/filezilla",
    ".config/remmina",
    ".local/share/com.vercel.cli",
    ".config/com.vercel.cli",
    ".vercel/auth.json",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".thunderbird",
    ".librewolf",
    ".zen",
    "snap",
    ".var/app",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    ".config/Bitwarden",
    ".config/1Password",
    ".config/discord",
    ".config/Element",
    ".local/share/TelegramDesktop",
    ".config/Signal",
    ".config/Slack",
    ".claude",
    ".codex",
    ".gemini",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Application Support/com.vercel.cli",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
)
"""Places of programs that keep keys, sessions of a browser, or what a person told an agent."""
HISTORIES_OF_HOME: Final = (
    ".bash_history",
    ".bash_history-*.tmp",
    ".local/share/atuin",
    ".zsh_history",
    ".config/zsh/.zsh_history",
    ".config/zsh/.zsh_sessions",
    ".zsh_sessions",
    ".history",
    ".sh_history",
    ".ash_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".irb_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".mongosh",
    ".dbshell",
    ".lesshst",
    ".viminfo",
    ".local/state/nvim/shada",
    ".local/share/nvim/shada",
    ".wget-hsts",
)
"""What a person typed, passwords among it. A star stands for any characters of those there are."""
SECRET_FILES: Final = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/security/opasswd.old",
    "/etc/sudoers",
    "/etc/apt/auth.conf",
    "/etc/postfix/sasl_passwd",
    "/etc/postfix/sasl_passwd.db",
    "/etc/postfix/sasl_passwd.lmdb",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab",
    "/etc/docker/key.json",
    "/etc/mysql/debian.cnf",
)
"""Only root can read them, and this program may be root."""
KEY_FOLDERS: Final = (
    "/etc/apt/auth.conf.d",
    "/etc/ssl/private",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/etc/kubernetes",
    "/etc/NetworkManager/system-connections",
    "/etc/letsencrypt",
    "/etc/openvpn",
    "/etc/ppp",
    "/etc/rancher",
)
"""The same, as folders."""
PROCESSES: Final = "/proc"
"""The environment of this very program, with its keys, among it."""

LINKED_COUNT_MAX: Final = 10_000
"""Files of hidden places that are compared with a file that has several names."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""


class HiddenPlace(Struct, frozen=True):
    """An absolute path, and whether it is this program's own. It need not exist."""

    path: str
    is_own: bool = False

    def failure(self, asked: str) -> ToolFailure:
        """What a model is told that asks for it by this path, with what a person can do."""
        if self.is_own:
            why = f"{self.path} is hidden from tools: Treadle keeps threads and settings there"
        else:
            why = (
                f"{self.path} is hidden from tools: credentials or histories are kept there. A "
                f'person can let tools see it: `sandbox_readable = ["{self.path}"]` in their own '
                "settings"
            )
        return ToolFailure(ToolErrorKind.REJECTED, f"{asked}: {why}")


class Located(NamedTuple):
    """Where the hidden places are now: those that exist, by their identity.

    Those that do not, by the identity of the folder in which they would be, and their names in
    small letters.
    """

    existing: Mapping[Identity, HiddenPlace]
    missing: Mapping[tuple[Identity, str], HiddenPlace]

    def holder_of(self, found: os.stat_result) -> HiddenPlace | None:
        """The hidden place that has this file; it may have other names elsewhere."""
        place = self.existing.get((found.st_dev, found.st_ino))
        if place is not None or found.st_nlink < 2:
            return place
        count = 0
        for hidden in self.existing.values():
            for entry in _files_below(hidden.path):
                count += 1
                if count > LINKED_COUNT_MAX:
                    return None
                if entry.inode() == found.st_ino and os.path.samestat(
                    entry.stat(follow_symlinks=False), found
                ):
                    return hidden
        return None


class PathRules(Struct, frozen=True):
    """The rules for one workspace.

    `hidden` are the places in it, or one that it lies in itself. `why_wide` says why a person has
    to be asked before anything is changed: the workspace holds a home folder, or this program's
    own; it is empty otherwise.
    """

    hidden: tuple[HiddenPlace, ...] = ()
    why_wide: str = ""

    def locate(self) -> Located:
        """Where the hidden places are at this moment: they come, and are replaced by links."""
        existing: dict[Identity, HiddenPlace] = {}
        missing: dict[tuple[Identity, str], HiddenPlace] = {}
        for hidden in self.hidden:
            try:
                existing[_identity(hidden.path)] = hidden
            except FileNotFoundError:
                if (gap := _find_gap(hidden.path)) is not None:
                    missing[gap] = hidden
            except OSError:
                continue  # who cannot look at it cannot open it either
        return Located(existing, missing)

    def hides(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path leads to a hidden place, or into one, by its name without links."""
        if not self.hidden:
            return False
        real = f"{os.path.realpath(path)}/".casefold()
        return any(real.startswith(f"{hidden.path}/".casefold()) for hidden in self.hidden)


NO_RULES: Final = PathRules()


def rules_for(
    folder: str,
    homes: Iterable[str],
    own: Iterable[str] = (),
    seen: Iterable[str] = (),
    named: Iterable[str | os.PathLike[str]] = (),
) -> PathRules:
    """The rules for a folder that is the workspace, or that commands see besides.

    Args:
        folder: an absolute path without links. Who chooses a folder of credentials itself as the
            workspace means it.
        homes: the home folders of this user and of other people.
        own: this program's folders and files of keys; need not exist.
        seen: what a person lets tools see.
        named: files of credentials and histories that lie elsewhere than by custom.
    """
    homes = tuple(homes)
    chosen = [os.path.realpath(one) for one in map(os.path.expanduser, seen)]
    # Who names the home folder, or one above it, does not think of the keys in it.
    chosen = [one for one in chosen if not any(is_below(home, one) for home in homes)]
    hidden, why_wide = list[HiddenPlace](), ""
    for path in map(os.path.realpath, own):
        if is_below(path, folder):
            why_wide = f"the workspace, {folder}, has Treadle's own folders in it"
            hidden.append(HiddenPlace(path, is_own=True))
        elif is_below(folder, path):
            hidden.append(HiddenPlace(folder, is_own=True))
    if any(is_below(home, folder) for home in homes):
        why_wide = f"the workspace, {folder}, has the home folder in it"
    known, free = {one.path for one in hidden}, {*chosen}
    for path in sorted(map(os.path.realpath, (*_credentials(homes), *named))):
        is_inside = path != folder and is_below(path, folder)
        # Some hundred paths on each start: each asks for its own ancestors, not for all others.
        if is_inside and known.isdisjoint(above := _lineage(path)) and free.isdisjoint(above):
            known.add(path)
            hidden.append(HiddenPlace(path))
    return PathRules(tuple(hidden), why_wide)


def _lineage(path: str) -> list[str]:
    """A path without links, and every folder above it."""
    ends = [index for index, sign in enumerate(path) if sign == "/"]
    return [path, *(path[: end or 1] for end in ends)]


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or something in it; both without links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _credentials(homes: Iterable[str]) -> Iterator[str]:
    names = (*CREDENTIALS_OF_HOME, *HISTORIES_OF_HOME, *FILES_OF_HOME)
    for home in homes:
        yield from (f"{home}/{name}" for name in names if "*" not in name)
        yield from (
            str(one) for name in names if "*" in name for one in sorted(Path(home).glob(name))
        )
    yield from (*SECRET_FILES, *KEY_FOLDERS, PROCESSES)


def _identity(path: str | Path) -> Identity:
    found = os.stat(path)  # noqa: PTH116
    return found.st_dev, found.st_ino


def _find_gap(path: str) -> tuple[Identity, str] | None:
    """The folder in which a path that is missing would be, and its name there.

    `None` if that folder is missing too: it is asked again when the folder has been made.
    """
    real = Path(os.path.realpath(path))
    try:
        return _identity(real.parent), real.name.casefold()
    except OSError:
        return None


def _files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    todo = [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                listed = list(entries)
        except OSError:
            continue
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            else:
                yield entry
