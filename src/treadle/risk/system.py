"""Rules about the machine: rights, disks, services, packages, containers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treadle.risk.calls import ProgramCall
from treadle.risk.reasons import Reason

_NAMED: Final[dict[Reason, frozenset[str]]] = {
    Reason.DISK: frozenset(
        {*("fdisk", "sfdisk", "gdisk", "sgdisk", "cfdisk", "parted", "wipefs", "blkdiscard")}
        | {
            *(
                "mkswap",
                "cryptsetup",
                "lvremove",
                "vgremove",
                "pvremove",
                "hdparm",
                "diskutil",
                "format",
            )
        }
        | {*("badblocks", "debugfs", "mke2fs", "newfs", "zpool", "mdadm", "losetup")}
    ),
    Reason.SYSTEM: frozenset(
        {
            *(
                "shutdown",
                "reboot",
                "halt",
                "poweroff",
                "init",
                "telinit",
                "pkill",
                "killall",
                "xkill",
            )
        }
        | {
            *(
                "mount",
                "umount",
                "insmod",
                "modprobe",
                "rmmod",
                "iptables",
                "ip6tables",
                "nft",
                "ufw",
            )
        }
        | {
            *(
                "useradd",
                "usermod",
                "userdel",
                "adduser",
                "deluser",
                "groupadd",
                "groupmod",
                "passwd",
            )
        }
        | {*("chpasswd", "visudo", "vipw", "kexec", "swapoff", "swapon", "sysctl", "hostnamectl")}
        | {
            *(
                "timedatectl",
                "loginctl",
                "service",
                "rc-service",
                "update-rc.d",
                "chkconfig",
                "setenforce",
            )
        }
        | {
            *(
                "update-alternatives",
                "ldconfig",
                "dpkg-reconfigure",
                "nsenter",
                "chroot",
                "pivot_root",
            )
        }
        | {
            *(
                "kill-all",
                "killall5",
                "renice",
                "csrutil",
                "spctl",
                "scutil",
                "netsh",
                "reg",
                "bcdedit",
            )
        }
    ),
    Reason.LATER: frozenset({"at", "batch", "launchctl", "chsh", "systemd-tmpfiles", "incrontab"}),
    Reason.PRIVILEGE: frozenset({"setcap", "capsh", "newuidmap", "sudoedit", "polkit"}),
    Reason.SECRETS: frozenset(
        {
            *(
                "ssh-add",
                "keyctl",
                "secret-tool",
                "pass",
                "gopass",
                "op",
                "bw",
                "lpass",
                "vault",
                "security",
            )
        }
        | {
            *(
                "gpg",
                "gpg2",
                "kwallet-query",
                "kinit",
                "klist",
                "aws-vault",
                "chamber",
                "ssh-keygen",
            )
        }
    ),
    Reason.STARTS: frozenset(
        {*("expect", "ld-linux-x86-64.so", "ld.so", "run-parts", "gdb", "lldb", "insmod", "ptrace")}
        | {*("osascript", "wscript", "cscript", "mshta", "rundll32", "powershell", "systemd-run")}
    ),
}
_MANAGERS: Final = frozenset(
    {
        *(
            "apt",
            "apt-get",
            "aptitude",
            "dpkg",
            "yum",
            "dnf",
            "rpm",
            "pacman",
            "zypper",
            "apk",
            "brew",
        )
    }
    | {
        *(
            "snap",
            "flatpak",
            "port",
            "emerge",
            "choco",
            "winget",
            "scoop",
            "nix-env",
            "xbps-install",
        )
    }
)
_MANAGED: Final = re.compile(
    r"install|remove|purge|upgrade|update|add|del|erase|tap|autoremove|full-upgrade|dist-upgrade"
    r"|uninstall|reinstall|-[SRUie]\w*|--install|--remove|--purge"
)
_CONTAINER: Final = re.compile(
    r"^(--privileged|--pid[= ]host|--network[= ]host|--net[= ]host|--ipc[= ]host|--userns[= ]host"
    r"|--cap-add.*|--security-opt.*|--device.*|host)$|docker\.sock|^(-v|--volume=|--mount=)?"
    r"(type=bind,)?(source=|src=|)([/~]|\.\.|\$\{?HOME)"
)
_INSTALLS: Final[dict[str, frozenset[str]]] = {
    "pip": frozenset({"install", "download", "wheel"}),
    "pipx": frozenset({"install", "run", "inject", "upgrade"}),
    "uv": frozenset({"add", "sync", "tool", "pip", "lock"}),
    "npm": frozenset({"install", "i", "ci", "add", "update", "exec", "x", "init", "create"}),
    "pnpm": frozenset({"install", "i", "add", "update", "dlx", "create"}),
    "yarn": frozenset({"install", "add", "upgrade", "dlx", "create"}),
    "bun": frozenset({"install", "i", "add", "update", "x", "create"}),
    "cargo": frozenset({"install", "add", "update"}),
    "go": frozenset({"install", "get"}),
    "gem": frozenset({"install", "update"}),
    "bundle": frozenset({"install", "update", "add"}),
    "poetry": frozenset({"install", "add", "update"}),
    "composer": frozenset({"install", "require", "update"}),
    "conda": frozenset({"install", "create", "update"}),
    "deno": frozenset({"install", "run", "add"}),
    "cpan": frozenset(),
    "npx": frozenset(),
    "bunx": frozenset(),
    "uvx": frozenset(),
}
"""By program: the subcommands that bring code from the network; of an empty set: every call."""


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What a program does to the machine."""
    for reason, names in _NAMED.items():
        if call.name in names:
            yield reason
    if call.name.startswith("mkfs"):
        yield Reason.DISK
    rule = _RULES.get(call.name)
    if rule is not None:
        yield from rule(call)
    if call.name in _MANAGERS and any(map(_MANAGED.fullmatch, call.texts)):
        yield Reason.SYSTEM
    if call.name in ("docker", "podman", "nerdctl", "docker-compose") and (
        any(map(_CONTAINER.search, call.texts))
    ):
        yield Reason.CONTAINER
    verbs = _INSTALLS.get(call.name)
    if verbs is not None and (not verbs or verbs & {*call.operands[:1]}):
        yield Reason.INSTALLS
    if call.name == "python" and call.value("-m") == "pip" and "install" in call.texts:
        yield Reason.INSTALLS


def _systemctl(call: ProgramCall) -> Iterator[Reason]:
    reads = {"status", "show", "cat", "list-units", "list-unit-files", "list-timers", "is-active"}
    if not {*call.operands[:1]} & (reads | {"is-enabled", "is-failed"}):
        yield Reason.SYSTEM
    if {"enable", "link", "edit", "daemon-reload", "set-environment"} & {*call.texts}:
        yield Reason.LATER


def _kill(call: ProgramCall) -> Iterator[Reason]:
    numbers = [text for text in call.texts if re.fullmatch(r"-?\d+", text)]
    targets = call.operands or numbers[1:]
    if {"-1", "0", "1"} & {*targets} or {"-1"} & {*numbers[1:]} or numbers == ["-1"]:
        yield Reason.SYSTEM


def _crontab(call: ProgramCall) -> Iterator[Reason]:
    if call.texts != ("-l",):
        yield Reason.LATER


def _chmod(call: ProgramCall) -> Iterator[Reason]:
    for text in call.texts:
        if re.fullmatch(r"0*[2-7][0-7]{3}|([ugoa]*[-+=][rwxXt]*,?)*[ugoa]*[+=][rwxXt]*s.*", text):
            yield Reason.PRIVILEGE


def _chown(call: ProgramCall) -> Iterator[Reason]:
    yield Reason.PRIVILEGE


_RULES: Final = {
    "systemctl": _systemctl,
    "kill": _kill,
    "crontab": _crontab,
    "chmod": _chmod,
    "chown": _chown,
    "chgrp": _chown,
}
