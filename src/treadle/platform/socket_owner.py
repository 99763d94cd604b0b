"""Whose the other end of a connection within this machine is, as far as the system tells."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

_TABLE: Final = Path("/proc/net/tcp")
"""Of Linux: a line for each end of a connection, with the user whose it is."""
_LOCAL, _REMOTE, _USER = 1, 2, 7


def find_socket_user(host: str, port: int, own_port: int) -> int | None:
    """The user id of whoever holds the far end of a connection; `None` if that is not known.

    Args:
        host: the IPv4 address of both ends.
        port: of the far end.
        own_port: of this end.
    """
    try:
        lines = _TABLE.read_text(encoding="ascii").splitlines()
    except OSError:
        return None  # another system, or a container that does not show it
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    far, own = f"{number:08X}:{port:04X}", f"{number:08X}:{own_port:04X}"
    for line in lines:
        fields = line.split()
        if len(fields) > _USER and (fields[_LOCAL], fields[_REMOTE]) == (far, own):
            return int(fields[_USER])
    return None
