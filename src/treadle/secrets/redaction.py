"""Takes secrets out of texts: known values, in every form they may take, and known formats.

Two nets. The first are the values this machine knows. Exact matches have no false positives, as
long as the values are secrets and not common words; `known_secrets` says which are. The second are
tokens known by their format alone: `token_formats`. Where secrets overlap in a text, all that they
cover together is replaced, so that no piece of one is left over.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

from msgspec import Struct

from treadle.secrets.credentials import SECRET_LENGTH_MIN
from treadle.secrets.environment import find_in_environment
from treadle.secrets.known_secrets import find_in_files, find_project_files
from treadle.secrets.stream_redaction import Openings, Stream
from treadle.secrets.token_formats import (
    LongWords,
    Shape,
    find_long_words,
    find_shapes,
    is_in_words,
)

LINE_LENGTH_MIN: Final = 16
"""Characters of a line in a secret of several lines that is a secret by itself."""

SECRET_COUNT_MAX: Final = 256
"""More are not looked for: each costs time in every text."""

BASE64_LENGTH_MIN: Final = 6
"""Fewer digits stand by chance in any long base64 text."""

KIND_LENGTH_MAX: Final = 64

JSON_DEPTH: Final = 4
"""So often a value may be escaped: JSON in the JSON of a call's arguments, which a record holds."""

PIECE_LENGTH_MIN: Final = 4
"""Characters of a piece of a secret, next to where something is left out, that are taken for one;
fewer stand there by chance, and tell little."""

_LEFT_OUT: Final = "characters left out"
_CUT: Final = re.compile(rf"((?:\n|\\+n)\[\.\.\. \d+ {_LEFT_OUT}[^\n\\]*? \.\.\.\](?:\n|\\+n))")
"""What stands between the head and the tail of a long text, and in a file that holds such a one."""

PASS_COUNT_MAX: Final = 4
"""So often a text is looked at again that something was found in: what stood right beside it shows
only then."""

_LABEL: Final = re.compile(rf"(\[REDACTED:[a-z0-9_.-]{{1,{KIND_LENGTH_MAX}}}\])")
_NOT_KIND: Final = re.compile(r"[^a-z0-9_.-]+")
_BASE64_TAIL: Final = re.compile(r"[A-Za-z0-9+/_-]{0,2}={0,2}(?![A-Za-z0-9+/_=-])")
_URL_SAFE: Final = str.maketrans("+/", "-_")
_PERCENT: Final = re.compile(r"%[0-9A-F]{2}")


class Redactor:
    """Replaces secrets by `[REDACTED:<kind>]`.

    Args:
        secrets: the values by kind: the lower-cased name of a variable or file. Values of less than
            `length_min` characters are left out.
        length_min: in characters; shorter values than by default only where a person says so.
        has_shapes: whether tokens go that are known by their format. Their kind is that format.
    """

    def __init__(
        self,
        secrets: Mapping[str, str],
        *,
        length_min: int = SECRET_LENGTH_MIN,
        has_shapes: bool = True,
    ) -> None:
        known: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._in_base64: set[str] = set()
        for kind, value in secrets.items():
            name = _NOT_KIND.sub("_", kind.lower())[:KIND_LENGTH_MAX] or "secret"
            for form in _forms(value.strip(), length_min):
                known.setdefault(form, f"[REDACTED:{name}]")
            if len(value.strip()) >= length_min and value.isascii():
                self._values.setdefault(value.strip(), name)
            self._in_base64.update(_base64_forms(value.strip().encode("utf-8", "surrogatepass")))
        self._known = tuple(known.items())
        # Most secrets are one long word, and most texts have hardly any.
        words = [one for one in known.items() if is_in_words(one[0])]
        self._known_words = sorted(words, key=lambda one: len(one[0]))
        self._known_lengths = [len(form) for form, _ in self._known_words]
        self._known_others = [one for one in known.items() if not is_in_words(one[0])]
        self._has_shapes = has_shapes
        # No label contains another, nor the beginning of one: they are told apart in any order.
        named = re.compile(f"({'|'.join(sorted(map(re.escape, known.values())))})")
        self._labels = _LABEL if has_shapes else named
        self._openings = Openings((form for form, _ in self._known), has_shapes=has_shapes)

    def redact(self, text: str) -> str:
        """The text without the secrets; the same text if there are none. Idempotent."""
        for _ in range(PASS_COUNT_MAX):
            spans = self.find(text)
            if not spans:
                break
            text = _without(text, spans)
        return text

    def find(self, text: str) -> list[Span]:
        """Where secrets stand in a text, in order; what overlaps is one, of the longest's kind.

        A label that stands there already stays, even if a secret looks like a piece of it.
        """
        words = find_long_words(text)
        known = [item for item in self._known_others if item[0] in text]
        if words.different:
            count = bisect_right(self._known_lengths, max(map(len, words.words)) - 1)
            known += [item for item in self._known_words[:count] if item[0] in words.different]
        shapes = self._shapes(text, words)
        if not known and not shapes:
            return []
        found: list[Span] = []
        place = 0
        for number, part in enumerate(self._labels.split(text)):
            if not number % 2:
                if len(part) < len(text):
                    shapes = self._shapes(part)
                spans = chain(_find(part, known, self._in_base64), map(_span_of, shapes))
                found += (_moved(span, place) for span in _merged(spans))
            place += len(part)
        return found

    def _shapes(self, text: str, words: LongWords | None = None) -> list[Shape]:
        if not self._has_shapes and not self._values:
            return []
        return find_shapes(text, self._values, has_rules=self._has_shapes, long_words=words)

    def stream(self) -> Stream:
        """Redacts a text that comes in pieces."""

        def places(text: str) -> list[tuple[int, int]]:
            return [(span.start, span.end) for span in self.find(text)]

        return Stream(self.redact, places, self._openings)

    def redact_cut(self, text: str) -> str:
        """`redact`, and what is left of a secret in two where the middle of a text was left out.

        Only for a text that a person has named: of many secrets, a piece would stand there by
        chance.
        """
        text = self.redact(text)
        if _LEFT_OUT not in text:
            return text
        parts = _CUT.split(text)
        for place in range(1, len(parts), 2):
            parts[place - 1] = self._without_end(parts[place - 1])
            parts[place + 1] = self._without_start(parts[place + 1])
        return "".join(parts)

    def _without_end(self, text: str) -> str:
        """The text without the longest beginning of a secret that it ends with."""
        found = [(_overlap(text, value), label) for value, label in self._known]
        length, label = max(found, key=lambda one: one[0], default=(0, ""))
        return text[: len(text) - length] + label if length else text

    def _without_start(self, text: str) -> str:
        """The text without the longest end of a secret that it begins with."""
        found = [(_overlap(value, text), label) for value, label in self._known]
        length, label = max(found, key=lambda one: one[0], default=(0, ""))
        return label + text[length:] if length else text


def _overlap(first: str, second: str) -> int:
    """How many characters, at most, the first ends with and the second begins with."""
    start = second[:PIECE_LENGTH_MIN]
    if len(start) < PIECE_LENGTH_MIN:
        return 0
    place = first.find(start, max(len(first) - len(second), 0))
    while place >= 0:
        if second.startswith(first[place:]):
            return len(first) - place
        place = first.find(start, place + 1)
    return 0


class Span(Struct, frozen=True, order=True):
    """A secret in a text: from `start` to `end`, in characters, with the label it gets.

    `weight` says which label stays where secrets overlap.
    """

    start: int
    end: int
    weight: int
    label: str


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same places without overlaps; where there were some, the longest gives the label."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start < found[-1].end:
            last = found.pop()
            longer = max(last, span, key=lambda one: one.weight)
            end = max(last.end, span.end)
            span = Span(last.start, end, longer.weight, longer.label)
        found.append(span)
    return found


def _moved(span: Span, count: int) -> Span:
    return Span(span.start + count, span.end + count, span.weight, span.label)


def _without(text: str, spans: Iterable[Span]) -> str:
    """The text with the labels in place of the secrets."""
    pieces: list[str] = []
    done = 0
    for span in spans:
        pieces += (text[done : span.start], span.label)
        done = span.end
    return "".join((*pieces, text[done:]))


def _span_of(shape: Shape) -> Span:
    label = f"[REDACTED:{shape.kind}]"
    return Span(shape.start, shape.end, shape.end - shape.start, label)


def _find(text: str, known: Iterable[tuple[str, str]], in_base64: Container[str]) -> Iterator[Span]:
    """Where known forms of secrets stand, with their labels; some of the forms are base64."""
    for value, label in known:
        start = text.find(value)
        while start >= 0:
            end = start + len(value)
            # The bits at the edges of base64 share a digit with what stands beside them: of the
            # last digits of a run some hold the rest of the value, and nothing else worth keeping.
            tail = _BASE64_TAIL.match(text, end) if value in in_base64 else None
            # What is known by its name says more than its format.
            yield Span(start, end if tail is None else tail.end(), len(value) + 1, label)
            start = text.find(value, start + 1)


def _forms(value: str, length_min: int) -> Iterator[str]:
    """A value as it may stand in a text; nothing shorter than a secret may be."""
    if len(value) < length_min:
        return
    data = value.encode("utf-8", "surrogatepass")
    escaped = {quote(data, safe=""), quote(data), quote_plus(data)}
    lowered = {_PERCENT.sub(lambda found: found[0].lower(), form) for form in escaped}
    encoded = {form for form in _base64_forms(data) if len(form) >= BASE64_LENGTH_MIN}
    hexed = {data.hex(), data.hex().upper()}
    slashed = {value.replace("/", "\\/")}
    others = set(_json_forms(value)).union(escaped, lowered, encoded, hexed, slashed) - {value}
    yield value
    yield from sorted(form for form in others if len(form) >= length_min)
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (
            line.strip()
            for line in lines
            if len(line.strip()) >= LINE_LENGTH_MIN and not line.startswith("-----")
        )


def _json_forms(value: str) -> Iterator[str]:
    """A value in JSON, in a text of JSON, and so on; one without anything to escape is the same."""
    forms = {value}
    for _ in range(JSON_DEPTH):
        forms = {
            json.dumps(form, ensure_ascii=is_ascii)[1:-1]
            for form in forms
            for is_ascii in (True, False)
        }
        yield from forms


def _base64_forms(data: bytes) -> Iterator[str]:
    """What base64 makes of the value wherever it stands: the digits that its bits alone decide."""
    for offset in range(3):
        digits = b64encode(bytes(offset) + data + bytes(3)).decode()
        first = -(-8 * offset // 6)
        last = 8 * (offset + len(data)) // 6
        yield digits[first:last]
        yield digits[first:last].translate(_URL_SAFE)


def collect_secrets(
    environ: Mapping[str, str],
    home: Path,
    *,
    workspace: Path | None = None,
    files: Iterable[tuple[str, Path]] = (),
) -> dict[str, str]:
    """The secrets that this machine knows of, for a `Redactor`. Never fails.

    Args:
        environ: environment variables; those that are credentials, and files that they name.
        home: the home folder, in which tools keep credentials in well-known files.
        workspace: the folder an agent works in; the `.env` files of its project are read.
        files: more files of names and values, or of one key, each with its kind.

    Returns:
        Values by kind, at most `SECRET_COUNT_MAX`. A kind that has several values is numbered:
        `netrc`, `netrc_2`.
    """
    secrets: dict[str, str] = {}
    seen: set[str] = set()
    project = find_project_files(workspace) if workspace is not None else ()
    others = chain(files, project)
    for kind, value in chain(find_in_environment(environ), find_in_files(home, environ, others)):
        if value in seen or len(secrets) == SECRET_COUNT_MAX:
            continue
        seen.add(value)
        names = chain([kind.lower()], (f"{kind.lower()}_{number}" for number in count(2)))
        secrets[next(name for name in names if name not in secrets)] = value
    return secrets
