"""What Seatbelt of macOS is told: the text of a profile for `sandbox-exec`. Pure.

Nobody has run this on a Mac yet. Its rules were written after profiles of other programs that do,
so it is believed only where it has refused what it has to refuse (`detect.py`). Of the rules that
fit, the last one counts: what is denied for good stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from treadle.sandbox.bubblewrap import Mounts

PROGRAM: Final = "sandbox-exec"
FOLDERS: Final = ("/usr/bin",)
"""Where the system keeps the program; nobody can change what lies there."""

_LINKS: Final = ("/etc", "/tmp", "/var")  # noqa: S108  the system's own links
"""Links to folders of the same name in `/private`; rules are compared with what links lead to."""
_UNSEEN: Final = (
    "/Users",
    "/Volumes",
    "/System/Volumes/Data",
    "/Library/Keychains",
    "/private/var/folders",
    "/private/var/root",
)
"""Homes, other disks, keys and the temporary files of others; the second name of most of these."""
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/dtracehelper")
_NAME_SERVICE: Final = "/private/var/run/mDNSResponder"

_BEGINNING: Final = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(deny sysctl-read (sysctl-name-prefix "kern.procargs"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem)
(allow file-read*)
"""
"""Other services would start programs outside of the sandbox, or open the keychain; what
`kern.procargs` tells are the variables of other processes."""
_NETWORK: Final = f"""\
(allow system-socket)
(allow network-outbound (remote ip "*:*"))
(allow network-inbound (local ip "*:*"))
(allow network-bind (local ip "*:*"))
(allow network-outbound (literal "{_NAME_SERVICE}"))
"""
"""Not the sockets in the file system, on which the agents for keys and Docker listen."""


def make_profile(mounts: Mounts, *, has_network: bool) -> str:
    """The profile of one run, for bubblewrap's view as far as it goes.

    What bubblewrap makes empty can be neither seen nor changed.

    Args:
        mounts: absolute paths without links, but for those in which the system itself begins.
        has_network: whether the command reaches it.
    """
    seen = (*mounts.readable, *mounts.writable)
    unseen = (*_UNSEEN, *mounts.scratch, *mounts.empty)
    rules = (
        _write_rule("deny file-read*", "subpath", unseen),
        _write_rule("allow file-read-metadata", "literal", _list_folders_above(seen)),
        _write_rule("allow file-read*", "subpath", seen),
        _write_rule("allow file-write-data", "literal", _DEVICES),
        _write_rule("allow file-write-data", "subpath", ("/dev/fd",)),
        _write_rule("allow file-write*", "subpath", mounts.writable),
        _NETWORK if has_network else "",
        _write_rule("deny file-write-unlink", "literal", mounts.kept),
        _write_rule("deny file-write*", "subpath", mounts.shut),
        _write_rule("deny file-read* file-write*", "subpath", mounts.hidden_folders),
        _write_rule("allow file-read*", "subpath", mounts.uncovered),
        _write_rule("deny file-read* file-write*", "subpath", mounts.hidden_files),
    )
    return _BEGINNING + "".join(rules)


def _write_rule(what: str, kind: str, paths: Iterable[str]) -> str:
    resolved = dict.fromkeys(map(_resolve, paths))
    lines = "".join(f"\n  ({kind} {quote_path(path)})" for path in resolved)
    return f"({what}{lines})\n" if lines else ""


def quote_path(path: str) -> str:
    """A path as a text of the profile's language, in which two characters have a meaning."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _resolve(path: str) -> str:
    is_link = any(path == link or path.startswith(f"{link}/") for link in _LINKS)
    return f"/private{path}" if is_link else path


def _list_folders_above(paths: Iterable[str]) -> list[str]:
    """What has to be looked at on the way to what is seen, not into."""
    above = {str(one) for path in paths for one in PurePosixPath(_resolve(path)).parents}
    return sorted(above)
