"""What a failed command is told of what it could not do: that it has to say what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from treadle.sandbox.box import Sandbox
from treadle.tools.command_access import CommandWish, decide_command

COULD_ONLY_READ: Final = (
    'this command could only read; call bash again with access="write" if it has to change files'
)
HAD_NO_NETWORK: Final = (
    "this command had no network; call bash again with network=true if it cannot do without"
)
_WRITE_REFUSED: Final = re.compile(
    r"Read-only file system|\bEROFS\b|Errno 30\b|os error 30\b|readonly database"
    r"|[Pp]ermission denied|\bEACCES\b|Operation not permitted|\bEPERM\b"
)
_NO_NETWORK: Final = re.compile(
    r"[Cc]ould not resolve (host|proxy)|[Tt]emporary failure (in name resolution|resolving)"
    r"|Network is (unreachable|down)|Name or service not known|nodename nor servname"
    r"|\b(ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b|dial tcp: lookup|failed to lookup address"
)
_PROGRAM: Final = re.compile(r"/\S+: (line \d+: )?")
"""With which programs begin what they say, if they were called by a path."""
_ABSOLUTE: Final = re.compile(r"""(?:^|[\s'"`:(=])(/[^\s'"`:)]+)""")


def find_hints(
    output: str, wish: CommandWish, sandbox: Sandbox | None, workspace: str
) -> Iterator[str]:
    """A line for each thing that a command seems to have failed for want of, and could have.

    Args:
        output: of the failed command.
        wish: what it said that it needs.
        sandbox: as in `decide_command`.
        workspace: the folder that it could have changed.
    """
    box = decide_command(wish, sandbox).box
    if box is None:
        return
    has_network = box.has_network(wish.network)
    lines = output.splitlines()
    lacks = [not has_network and _is_of_network(line) for line in lines]
    is_refused = any(
        _WRITE_REFUSED.search(line) and not is_network and _is_of_workspace(line, workspace)
        for line, is_network in zip(lines, lacks, strict=True)
    )
    wanted = replace(wish, access="write")
    if is_refused and wish.access == "read" and not decide_command(wanted, sandbox).refused:
        yield COULD_ONLY_READ
    if any(lacks) and not decide_command(replace(wish, network=True), sandbox).refused:
        yield HAD_NO_NETWORK


def _is_of_network(line: str) -> bool:
    # Landlock lets nobody open a socket; other programs then do not say what for.
    is_socket = "socket" in line and "Operation not permitted" in line
    return is_socket or bool(_NO_NETWORK.search(line))


def _is_of_workspace(line: str, workspace: str) -> bool:
    """Whether what a line complains about may be a file of the workspace."""
    said = line[len(found[0]) :] if (found := _PROGRAM.match(line)) else line
    return workspace in said or not _ABSOLUTE.search(said)
