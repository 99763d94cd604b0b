"""A short digest of the lines of a file, by which one finds later which of them have changed.

The lines are taken together in groups that end where a line's own checksum says so. So what is put
in or taken out moves no other group, and a digest is a few hundred letters, however long the file.
Twelve bits stand for each group: enough to show where to look, too little to guess a secret by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple
from zlib import crc32

GROUP_COUNT_MAX: Final = 128
"""Groups of a digest; each is two letters in the journal."""
DIGESTED_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of a file that has a digest: each read and write of it makes one."""
COMPARED_COUNT_MAX: Final = 1024
"""Groups of what the file has become that are compared; beyond, all of it counts as changed."""
POWER_MAX: Final = 16
"""Bits in the half of a checksum that says where groups end."""
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_DIGEST: Final = re.compile(r"(\d{1,2})\.((?:[\w-]{2})*)\Z", re.ASCII)


class LineRange(NamedTuple):
    """Lines as they are now, counted from 1, both ends in it.

    Where `last` is before `first`, lines that stood before `first` are gone.
    """

    first: int
    last: int

    def __str__(self) -> str:
        if self.last < self.first:
            return f"before line {self.first} something is gone"
        if self.last == self.first:
            return f"line {self.first}"
        return f"lines {self.first}-{self.last}"


class _Group(NamedTuple):
    letters: str
    size: int


def digest_lines(data: bytes) -> str:
    """The digest of all lines, in a few passes over the bytes; empty where there is none.

    There is none of a file that is too large, or that repeats a line which ends every group.
    """
    if len(data) > DIGESTED_SIZE_MAX:
        return ""
    sums = _checksums(data)
    for power in range((len(sums) // GROUP_COUNT_MAX).bit_length() - 1, POWER_MAX + 1):
        groups = [*_group(sums, max(0, power))]
        if len(groups) <= GROUP_COUNT_MAX:
            return f"{max(0, power)}." + "".join(group.letters for group in groups)
    return ""


def find_changes(digest: str, data: bytes) -> list[LineRange]:
    """Which lines of `data` are not as they were when the digest was made, in order.

    Empty if nobody can tell: the digest is none, or the file has become something else.
    """
    found = _DIGEST.match(digest)
    if found is None:
        return []
    old = re.findall("..", found[2])
    new = [*_group(_checksums(data), int(found[1]))]
    if len(new) > COMPARED_COUNT_MAX or len(old) > GROUP_COUNT_MAX:
        return []
    starts = [1]
    for group in new:
        starts.append(starts[-1] + group.size)
    matcher = SequenceMatcher(None, old, [group.letters for group in new], autojunk=False)
    changes = matcher.get_opcodes()
    return [
        LineRange(starts[first], starts[last] - 1)
        for what, _, _, first, last in changes
        if what != "equal"
    ]


def _checksums(data: bytes) -> list[int]:
    """Of each line, its end included: else that of an empty line is 0, which ends every group."""
    return [crc32(b"\n", crc32(line)) for line in data.split(b"\n")]


def _group(sums: list[int], power: int) -> Iterator[_Group]:
    """The groups: each ends behind a line whose checksum has `power` zeros in its upper half."""
    mask, size, total = (1 << power) - 1, 0, 0
    for one in sums:
        size, total = size + 1, crc32(one.to_bytes(4, "big"), total)
        if not (one >> 16) & mask:
            yield _Group(_letters(total), size)
            size, total = 0, 0
    if size:
        yield _Group(_letters(total), size)


def _letters(total: int) -> str:
    return _LETTERS[total & 63] + _LETTERS[(total >> 6) & 63]
