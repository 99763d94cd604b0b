"""Whose a connection is, asked of this system's own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from treadle.platform import socket_owner
from treadle.platform.socket_owner import find_socket_user

HOST = "127.0.0.1"
CONNECT = """
import os, socket, sys
os.setuid(int(sys.argv[2]))  # not before: what Python is made of may be its user's alone
own = socket.socket()
own.connect(("127.0.0.1", int(sys.argv[1])))
own.recv(1)  # until the near end is closed
"""


def test_the_user_of_the_far_end_is_known_and_of_no_connection_nobodys() -> None:
    users = [os.getuid(), *([65534] if os.getuid() == 0 else [])]
    with socket.create_server((HOST, 0)) as listening:
        own_port = listening.getsockname()[1]
        for user in users:
            with subprocess.Popen([sys.executable, "-S", "-c", CONNECT, str(own_port), str(user)]):
                near, (_, port) = listening.accept()
                with near:
                    assert find_socket_user(HOST, port, own_port) == user
                    assert find_socket_user(HOST, own_port, port) == os.getuid()
                    assert find_socket_user(HOST, port, 1) is None


def test_a_system_that_does_not_tell_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(socket_owner, "_TABLE", socket_owner.Path(f"{tmp_path}/none"))
    assert find_socket_user(HOST, 1, 2) is None
