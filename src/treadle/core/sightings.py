"""Which files the model has been told of, by what, and whether it still sees that.

Who is about to change a file looks here for what the model knows of it; who is about to show one,
whether it stands in the conversation already. Every outcome says what its call told (`SeenFile`),
and every message which files a person has put into it, so all of it is folded from the journal.
What was said in another branch of a merge is not in it: those were the files of another machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from treadle.core.conversation import Conversation
from treadle.core.events import ToolCompleted
from treadle.core.messages import SeenFile

SIGHTING_COUNT_MAX: Final = 1000
"""Sightings that a thread remembers, the newest: what it has forgotten counts as not seen."""


class Sighting(Struct, frozen=True, omit_defaults=True):
    """What one call, or one message of a person, has told the model of one file.

    `is_write` if the call wrote the file. Of a message there is no call: `message` is its index.
    """

    call_id: str
    file: SeenFile
    is_write: bool = False
    message: int | None = None


def add_sightings(sightings: tuple[Sighting, ...], event: ToolCompleted) -> tuple[Sighting, ...]:
    """The sightings, with those of a call that has ended."""
    outcome = event.outcome
    if not outcome.seen:
        return sightings
    written = {one.name for one in getattr(outcome, "rewritten", ())}
    new = [Sighting(event.call_id, one, one.name in written) for one in outcome.seen]
    return (*sightings, *new)[-SIGHTING_COUNT_MAX:]


def add_message_sightings(
    sightings: tuple[Sighting, ...], conversation: Conversation, start: int
) -> tuple[Sighting, ...]:
    """The sightings, with those of the messages from the index `start` on."""
    new = [
        Sighting("", one, message=index)
        for index in range(start, len(conversation))
        for one in conversation[index].seen
    ]
    return (*sightings, *new)[-SIGHTING_COUNT_MAX:] if new else sightings


class Sightings:
    """The sightings of a thread, as a call that begins now has them. Immutable.

    Args:
        sightings: oldest first.
        conversation: what the model was shown, and what it is shown now.
        open_ids: the calls of this round. The model asked for all of them before it heard of any,
            so of what they told only what they wrote counts.
    """

    def __init__(
        self,
        sightings: tuple[Sighting, ...],
        conversation: Conversation,
        open_ids: frozenset[str],
    ) -> None:
        self._sightings = sightings
        self._conversation = conversation
        self._open_ids = open_ids

    def newest(self) -> Iterator[Sighting]:
        """All that count, the newest first.

        What a rewind has hidden was never said, as far as the model knows. What a compaction has
        put a summary for was.
        """
        for one in reversed(self._sightings):
            if one.message is not None:
                is_told = self._conversation.has_said(one.message)
            else:
                is_told = one.is_write or one.call_id not in self._open_ids
                is_told = is_told and self._conversation.has_told(one.call_id)
            if is_told:
                yield one

    def of_file(self, name: str) -> Iterator[Sighting]:
        """Those of one file, the newest first; the name is without links."""
        return (one for one in self.newest() if one.file.name == name)

    def is_in_view(self, sighting: Sighting) -> bool:
        """Whether the model still sees the result of the call, or the message, as it was."""
        if sighting.message is not None:
            return self._conversation.shows(sighting.message)
        told = self._conversation.find_result(sighting.call_id)
        seen = self._conversation.in_view.find_result(sighting.call_id)
        return seen is not None and seen == told
