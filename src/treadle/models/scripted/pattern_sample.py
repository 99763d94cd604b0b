"""A text that fits a pattern of a schema: the simplest there is, as far as it is easily said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

_LETTERS: Final = "aA0 -_./:@" + "".join(map(chr, range(33, 127)))
"""Tried in this order where a place may be one of several."""
_TRIES_MAX: Final = 200
_MORE_MAX: Final = 1000

_Node = tuple[Any, Any]


def make_text_for_pattern(pattern: str, length: range) -> str | None:
    """A text that the pattern finds, of such a length; `None` if none is easily made.

    Args:
        pattern: a regular expression; those of schemas are read as Python reads them.
        length: what lengths the text may have.
    """
    try:
        compiled = re.compile(pattern)
        # Python's own reading of a pattern: a second one would be read otherwise somewhere.
        parsed: Any = import_module("re._parser").parse(pattern)
    except (re.error, ImportError, AttributeError, RecursionError, OverflowError):
        return None
    for more in range(min(length.start + 1, _TRIES_MAX)):
        text = _join(parsed, more)
        padded = text.ljust(length.start, "a")
        for one in (text, padded):
            if len(one) in length and compiled.search(one):
                return one
    return None


def _join(nodes: Any, more: int) -> str:
    return "".join(_make_part(node, more) for node in nodes)


def _make_part(node: _Node, more: int) -> str:
    kind, value = str(node[0]), node[1]
    maker = _MAKERS.get(kind)
    return "" if maker is None else maker(value, more)


def _repeat(value: Any, more: int) -> str:
    least, most, part = value
    return _join(part, more) * min(max(int(least), more), int(most), _MORE_MAX)


def _choose(value: Any, _: int) -> str:
    return next((one for one in _LETTERS if _fits(one, value)), "")


def _fits(letter: str, options: list[_Node]) -> bool:
    is_negated, fits = False, False
    for kind, value in options:
        match str(kind):
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                fits |= ord(letter) == value
            case "RANGE":
                fits |= value[0] <= ord(letter) <= value[1]
            case "CATEGORY":
                fits |= re.fullmatch(_CATEGORIES.get(str(value), "(?!)"), letter) is not None
            case _:
                pass
    return fits != is_negated


_CATEGORIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"CATEGORY_{negation}{name}": letter.upper() if negation else letter
        for name, letter in (("DIGIT", r"\d"), ("SPACE", r"\s"), ("WORD", r"\w"))
        for negation in ("", "NOT_")
    }
)
_MAKERS: Final[Mapping[str, Callable[[Any, int], str]]] = MappingProxyType(
    {
        "LITERAL": lambda value, _: chr(value),
        "NOT_LITERAL": lambda value, _: "a" if value != ord("a") else "b",
        "ANY": lambda _, __: "a",
        "IN": _choose,
        "MAX_REPEAT": _repeat,
        "MIN_REPEAT": _repeat,
        "POSSESSIVE_REPEAT": _repeat,
        "SUBPATTERN": lambda value, more: _join(value[-1], more),
        "ATOMIC_GROUP": _join,
        "BRANCH": lambda value, more: _join(value[1][0], more),
    }
)
"""By the kind of a part; what stands between letters (an anchor, a look ahead) adds none."""
