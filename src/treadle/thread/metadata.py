"""What people and programs add to a thread, kept so that one more costs the same each time. Pure.

A journal may hold very many small records, and be written by somebody who means harm: what a record
costs to fold must not grow with those before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from treadle.core.messages import Message
from treadle.thread.document import Annotation, ThreadMetadata
from treadle.thread.facts import ExtraSet, Tagged

TITLE_LENGTH_MAX: Final = 80

TAG_COUNT_MAX: Final = 1000
TAG_LENGTH_MAX: Final = 200
"""More tags, and longer ones, stay in the journal and are none of the thread's: lists show tags."""


class MetadataFold:
    """Title, tags, pin, notes and values as they are now; each fact changes them in place.

    Args:
        metadata: what they begin with; it stays as it is.
    """

    __slots__ = ("_annotations", "_extra", "_tags", "is_pinned", "title")

    def __init__(self, metadata: ThreadMetadata) -> None:
        self.title = metadata.title
        self.is_pinned = metadata.is_pinned
        self._tags: dict[str, None] = {}
        self._add_tags(metadata.tags)
        self._extra = dict(metadata.extra)
        self._annotations = list(metadata.annotations)

    @property
    def tags(self) -> tuple[str, ...]:
        """In the order they came, each once."""
        return tuple(self._tags)

    def apply_tags(self, entry: Tagged) -> None:
        """Some come, some go; what does both at once goes."""
        removed = set(entry.removed)
        for tag in removed:
            self._tags.pop(tag, None)
        self._add_tags(tuple(tag for tag in entry.added if tag not in removed))

    def _add_tags(self, tags: tuple[str, ...]) -> None:
        for tag in tags:
            if len(self._tags) < TAG_COUNT_MAX and len(tag) <= TAG_LENGTH_MAX:
                self._tags[tag] = None

    def apply_extra(self, entry: ExtraSet) -> None:
        """Values replace those of their keys; null removes one."""
        for key, value in entry.extra.items():
            if value is None:
                self._extra.pop(key, None)
            else:
                self._extra[key] = value

    def add_annotation(self, at: str, text: str) -> None:
        """One more note, with its time."""
        self._annotations.append(Annotation(at, text))

    def metadata(self, title: str | None) -> ThreadMetadata:
        """All of it with this title, as it is now. Costs time in proportion to it."""
        notes = tuple(self._annotations)
        return ThreadMetadata(title, self.tags, self.is_pinned, dict(self._extra), notes)


def make_title(title: str | None, messages: Iterable[Message]) -> str | None:
    """What somebody set, or the first line of the first prompt; `TITLE_LENGTH_MAX` at most."""
    if title:
        return title[:TITLE_LENGTH_MAX]
    for message in messages:
        if message.role == "user":
            line = message.content.strip().partition("\n")[0].strip()
            if len(line) > TITLE_LENGTH_MAX:
                line = line[: TITLE_LENGTH_MAX - 1] + "…"
            return line or None
    return None
