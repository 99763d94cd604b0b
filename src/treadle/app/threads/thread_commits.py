"""The commits that a thread made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from treadle.core.events import PostToolsHookCompleted
from treadle.thread.history import NumberedEntry

_NOTE: Final = re.compile(r"committed ([0-9a-f]{7,64}) (.*) \(\d+ files?\)(?:; .*)?\Z")
"""The first line of a note about a commit. Older journals name the commit there alone."""


def list_thread_commits(entries: Iterable[NumberedEntry]) -> list[tuple[str, int, str]]:
    """The commits a thread made: their hash, the version that tells of it, and their subject.

    The hash is whole, or its first seven digits where the journal holds no more. The subject is
    empty where the note does not tell it.
    """
    made: list[tuple[str, int, str]] = []
    for seq, _, entry in entries:
        if isinstance(entry, PostToolsHookCompleted):
            told = _NOTE.match(entry.note.partition("\n")[0])
            commit = entry.commit or (told[1] if told and entry.action_taken else "")
            if commit:
                made.append((commit, seq, told[2] if told else ""))
    return made
