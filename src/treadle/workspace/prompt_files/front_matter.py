"""The YAML at the head of a Markdown file, read so that a hostile one costs nothing.

Only texts, lists and mappings come out of it: no dates, no numbers, no objects. Aliases, by which a
few lines become gigabytes, are refused; the block has a size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

FRONT_MATTER_SIZE_MAX: Final = 16 * 1024
"""Characters of the block."""
DEPTH_MAX: Final = 50
"""Brackets in one another; to parse more takes seconds, before anybody has trusted the file."""

_FENCE: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_FENCE_BYTES: Final = re.compile(rb"^(?:\xef\xbb\xbf)?---[ \t]*\r?$", re.MULTILINE)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_PLAIN_LINE: Final = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s\"'{|>&*!#].*)$", re.MULTILINE)
"""A key with a text that nothing quotes."""


class MarkdownFile(Struct, frozen=True):
    """The fields of the front matter, empty if there is none, and the text behind it."""

    fields: Mapping[str, Any]
    body: str


def measure_front_matter(data: bytes) -> int:
    """How many bytes of front matter a file has; 0 if it has none."""
    opening = _FENCE_BYTES.match(data)
    closing = None if opening is None else _FENCE_BYTES.search(data, opening.end())
    return 0 if closing is None else closing.start()


def parse_markdown_file(data: bytes) -> MarkdownFile:
    """Take a Markdown file apart.

    Raises:
        ValueError: it is no UTF-8, its front matter has no end, is too large or is no YAML mapping;
            says which, in words to be put behind "it is not used: ".
    """
    try:
        text = data.decode().removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    opening = _FENCE.match(text)
    if opening is None:
        return MarkdownFile({}, text.strip())
    closing = _FENCE.search(text, opening.end())
    if closing is None:
        raise ValueError("its front matter has no end: a line with --- alone")
    block = text[opening.end() : closing.start()]
    if len(block) > FRONT_MATTER_SIZE_MAX:
        raise ValueError(f"its front matter has more than {FRONT_MATTER_SIZE_MAX} characters")
    if _is_deep(block):
        raise ValueError("its front matter is nested too deep")
    return MarkdownFile(_parse_yaml(block), text[closing.end() :].strip())


def _is_deep(block: str) -> bool:
    depth = 0
    for bracket in _BRACKET.finditer(block):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > DEPTH_MAX:
            return True
    return False


def _parse_yaml(block: str) -> Mapping[str, Any]:
    """The mapping.

    Other programs read `description: Use when: asked` and `argument-hint: [file] [line]`, which are
    no YAML; so where the block cannot be read as it stands, it is read once more with such texts in
    quotes.
    """
    try:
        return _load_mapping(block)
    except ValueError as error:
        quoted = _PLAIN_LINE.sub(lambda line: f"{line[1]}: {json.dumps(line[2].rstrip())}", block)
        try:
            return _load_mapping(quoted)
        except ValueError:
            raise error from None


def _load_mapping(block: str) -> Mapping[str, Any]:
    import yaml  # not before somebody has such a file: it costs milliseconds

    class Loader(yaml.BaseLoader):
        """Knows texts, lists and mappings; follows no alias."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("its front matter has an alias")
            return super().compose_node(parent, index)

    try:
        loaded = yaml.load(block, Loader)  # noqa: S506  a loader that makes no objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        what = getattr(error, "problem", None) or "it has characters that YAML does not know"
        raise ValueError(f"its front matter is no YAML: {what}{where}") from error
    except RecursionError as error:
        raise ValueError("its front matter is nested too deep") from error
    if loaded in (None, ""):
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise ValueError("its front matter is no mapping of names to values")
    return loaded
