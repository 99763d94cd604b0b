"""Who has read threads, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from treadle.cli.admin_output import print_answer
from treadle.cli.notices import print_line

if TYPE_CHECKING:
    from treadle.api.audit_types import ReadLine


def print_readers(thread: str, *, as_json: bool) -> None:
    """Print who else has read a thread of this user's on the server."""
    from treadle.app.stores import open_store
    from treadle.app.sync.share_access import list_readers

    found = list_readers(open_store(), thread)
    rows = [row[:3] + row[5:] for row in format_reads(found)]
    print_answer(found, rows, as_json=as_json)
    if not found and not as_json:
        print_line("nobody else has read it on the server")


def format_reads(lines: Sequence[ReadLine]) -> Iterator[tuple[str, ...]]:
    """A row for each: its number, when, who, what, whose, how, from where."""
    for one in lines:
        at = f"{one.first_at[:16]}Z"
        ways, places = ", ".join(one.ways), ", ".join(one.addresses)
        yield str(one.id), at, one.reader, one.thread, one.owner, ways, places
