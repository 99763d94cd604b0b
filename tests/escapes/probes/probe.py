"""What one attempt to get out of the sandbox is."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Probe(Struct, frozen=True):
    """A command that tries to escape.

    It has the places of the world (`world.World.places`) in its environment, and calls `hit` when
    the kernel lets it do what it must not. Whatever else it reaches is seen from the outside.

    `control` is false for what would harm the machine, or would not work there, without a sandbox;
    all others must be seen to escape without one. With `own_mounts` they do so in namespaces of
    their own. `open_in_landlock` and `open_in_bubblewrap` say why a backend cannot hold it;
    `open_to_user` why Landlock does not for who is not root.
    """

    name: str
    command: str
    control: bool = True
    own_mounts: bool = False
    then_git: bool = False
    """The person uses git in the workspace afterwards: what was planted there would run."""
    before: str = ""
    """A command of its own that runs earlier, to prepare."""
    open_in_landlock: str = ""
    open_to_user: str = ""
    open_in_bubblewrap: str = ""
    as_root_only: bool = False


_PYTHON: Final = '''import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
E = os.environ
def hit(): print("REA" + "CHED", flush=True)
def call(number, *arguments):
    """A system call; a hit if the kernel does it."""
    if libc.syscall(number, *arguments) != -1:
        hit()
'''


def python(code: str) -> str:
    """The command that runs a Python program, which has `hit`, `call`, `libc` and `E`."""
    return f"\"$PY\" -I -S - 2>&1 <<'END'\n{_PYTHON}{code}\nEND"
