"""The third look, at every exit: what is about to leave is looked at with what is known today.

Records keep what was known when they were written; a secret may have become known since, and so may
a format. What is found is not rewritten on its way out: it is held back, and its owner is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from treadle.secrets.redaction import Redactor

NAMED_COUNT_MAX: Final = 5
"""More records are counted, not named."""

_KIND: Final = slice(len("[REDACTED:"), -1)
_RECORD: Final = re.compile(r'\{"seq":(\d{1,18}),')


class SecretFinding(Struct, frozen=True):
    """Secrets of one kind: how many, in which records, and how many elsewhere."""

    kind: str
    count: int
    records: tuple[int, ...] = ()
    elsewhere_count: int = 0

    @property
    def text(self) -> str:
        """For people: `github_token in record 12`."""
        named = ", ".join(map(str, self.records[:NAMED_COUNT_MAX]))
        more = len(self.records) - NAMED_COUNT_MAX
        places: list[str] = []
        if self.records:
            left = f" and {more} more" if more > 0 else ""
            places.append(f"record{'s' * (len(self.records) > 1)} {named}{left}")
        if self.elsewhere_count:
            others = self.elsewhere_count
            places.append("a large output" if others == 1 else f"{others} large outputs")
        return f"{self.kind} in {' and '.join(places)}"


class Looker:
    """Looks for secrets in what is about to leave this machine, and says where they are.

    Args:
        redactor: knows the secrets of now.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def find(self, data: Iterable[bytes]) -> list[SecretFinding]:
        """What secrets are in some data, by kind in the order of the kinds; no value is in it.

        Args:
            data: lines of journals, in pieces of whole lines; large outputs, each as one piece.
        """
        counts: dict[str, int] = {}
        records: dict[str, dict[int, None]] = {}
        others: dict[str, int] = {}
        for piece in data:
            text = piece.decode("utf-8", "replace")
            elsewhere: set[str] = set()
            for span in self._redactor.find(text):
                kind = span.label[_KIND]
                counts[kind] = counts.get(kind, 0) + 1
                line = text.rfind("\n", 0, span.start) + 1
                record = _RECORD.match(text, line)
                if record is None:
                    elsewhere.add(kind)
                else:
                    records.setdefault(kind, {})[int(record[1])] = None
            for kind in elsewhere:
                others[kind] = others.get(kind, 0) + 1
        return [
            SecretFinding(kind, count, tuple(records.get(kind, ())), others.get(kind, 0))
            for kind, count in sorted(counts.items())
        ]

    def describe_findings(self, data: Iterable[bytes]) -> list[str]:
        """The same in words, one line for each kind; empty if there is nothing."""
        return [found.text for found in self.find(data)]
