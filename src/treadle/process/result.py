"""What a program is held to, what is kept of its output, and how it ended."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

NOT_STARTED: Final = 127
"""The exit status of a program that could not be started, as shells have it."""
SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes kept of what short commands print, which print a few lines."""


class Bounds(Struct, frozen=True):
    """What a program is held to.

    Args:
        timeout_s: seconds after which it is ended.
        size_max: bytes kept of its output, and of its error output.
        ends_when_full: whether to end it when it writes more than is kept.
    """

    timeout_s: float
    size_max: int = SIZE_MAX
    ends_when_full: bool = False

    @property
    def late(self) -> str:
        """What is told of one that took too long; stands behind its name."""
        return f"was not done in {self.timeout_s:g} seconds"

    @property
    def too_long(self) -> str:
        """What is told of one that was ended because it wrote too much."""
        return f"printed more than {self.size_max} bytes"


class Ran(Struct, frozen=True):
    """How a program ended.

    `status` is its exit status, or minus the signal that ended it. `out` and `err` hold the first
    bytes of what it wrote, `out_size` counts all bytes of its output. `problem` says why it did
    not end by itself: its time was over, or its output too long.
    """

    status: int
    out: bytes = b""
    err: bytes = b""
    out_size: int = 0
    problem: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether it wrote more than was kept."""
        return self.out_size > len(self.out)

    @property
    def was_ended(self) -> bool:
        """Whether it did not end by itself."""
        return bool(self.problem)


class KeptOutput:
    """The first bytes of what a program writes; the rest is counted."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._data = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        """It wrote more."""
        self._data += data[: self._size_max - len(self._data)]
        self.size += len(data)

    @property
    def data(self) -> bytes:
        """What is kept."""
        return bytes(self._data)

    @property
    def is_cut(self) -> bool:
        """Whether it wrote more than is kept."""
        return self.size > self._size_max
