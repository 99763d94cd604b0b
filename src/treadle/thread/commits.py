"""The commits that a thread made, as its records tell of them. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from treadle.core.events import PostToolsHookCompleted
from treadle.thread.codec import Entry

_NOTE: Final = re.compile(r"committed ([0-9a-f]{7,64}) (.*) \(([0-9]{1,18}) files?\)(?:; .*)?\Z")
"""The first line of a note about a commit. Older journals name the commit there alone."""


class MadeCommit(Struct, frozen=True):
    """A commit that was made after a round of calls.

    The hash is whole, or its first seven digits where the journal holds no more. The subject is
    empty, and no file counted, where the note does not tell it. All may be any text.
    """

    hash: str
    subject: str = ""
    file_count: int = 0


def read_commit(entry: Entry) -> MadeCommit | None:
    """The commit that a record tells of; `None` if it tells of none."""
    if not isinstance(entry, PostToolsHookCompleted):
        return None
    told = _NOTE.match(entry.note.partition("\n")[0])
    commit = entry.commit or (told[1] if told and entry.action_taken else "")
    if not commit:
        return None
    return MadeCommit(commit) if told is None else MadeCommit(commit, told[2], int(told[3]))
