r"""JSON that every reader takes the same way: what else there is, is refused before it is kept.

Few passes, each over all bytes at once: what is sent is read at least as fast as a network brings
it. An escaped NUL (`\u0000`) passes: both databases keep the escape, which is what is stored.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from treadle.api.error_codes import ErrorCode
from treadle.server.refusals import Refusal

DEPTH_MAX: Final = 64
"""How deep arrays and objects may be nested; nothing of ours comes near that."""

NUMBER_MIN: Final = -(2**63)
NUMBER_MAX: Final = 2**64 - 1
"""What whole numbers there are: those that fit 64 bits, with a sign or without."""

_LONG_NUMBER: Final = re.compile(rb"(?<![.\deE+])-?\d{19,}(?![.\deE])")
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"{}[]")

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def check_json(data: bytes) -> None:
    """Refuse what not everybody reads the same way.

    That is: bytes that are not UTF-8 or not JSON (NaN, raw control characters), half a surrogate
    pair, a name that stands twice in an object, a number beyond 64 bits or beyond what a double
    has, more than `DEPTH_MAX` levels.

    Raises:
        Refusal: bad request; the message holds nothing of the data.
    """
    try:
        value = _decode(data)
    except UnicodeDecodeError:
        raise _make_json_refusal("it is not UTF-8") from None
    except RecursionError:
        raise _make_json_refusal(f"it is nested deeper than {DEPTH_MAX} levels") from None
    except msgspec.ValidationError:
        raise _make_json_refusal("a number is too large") from None
    except msgspec.DecodeError:
        raise _make_json_refusal("it is not JSON, or holds half a surrogate pair") from None
    _check_structure(data, value)


def _check_structure(data: bytes, value: Any) -> None:
    """What a decoder lets pass; the data are known to be JSON, so that texts can be cut out."""
    bare = _strip_strings(data)
    if _is_too_deep(bare):
        raise _make_json_refusal(f"it is nested deeper than {DEPTH_MAX} levels")
    for found in _LONG_NUMBER.findall(bare):
        if len(found) > 20 or not NUMBER_MIN <= int(found) <= NUMBER_MAX:
            raise _make_json_refusal("a number does not fit 64 bits")
    if bare.count(b":") != _strip_strings(_encode(value)).count(b":"):
        raise _make_json_refusal("a name stands twice in one object")


def _strip_strings(data: bytes) -> bytes:
    """JSON without what stands in quotes: backslashes stand there only, and go first."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _is_too_deep(bare: bytes) -> bool:
    """Each pass takes away the innermost pairs of brackets, so one level of each value."""
    left = bare.translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    return bool(left)


def _make_json_refusal(why: str) -> Refusal:
    return Refusal(ErrorCode.BAD_REQUEST, f"the JSON cannot be kept: {why}")
