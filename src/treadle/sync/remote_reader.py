"""Journals of the server that are looked at, and never kept among this user's own threads."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.errors import RemoteRefusedError, RemoteUnavailableError
from treadle.sync.ports import Remote
from treadle.sync.thread_fetch import parse_journal
from treadle.thread.ids import is_thread_id

SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes of a thread and of all that it goes on from."""

JOURNALS_MAX: Final = 100
"""How many forks of forks are followed."""


def read_remote_journals(remote: Remote, name: str) -> list[bytes]:
    """The journal of a thread behind those it goes on from, each chain verified.

    Nothing is written anywhere. Whether a fork goes on from the very record it names is for
    whoever folds it to see.

    Args:
        remote: the server.
        name: the id of a thread that the caller may read there; or `ID@NAME`, for the one of this
            id that is a user's of this name, and what it goes on from, where that is theirs too.

    Returns:
        The journals, the thread's own last. Empty if the server has it as documents, or will not
        show what it goes on from: then it is to be read as one document.

    Raises:
        RemoteRefusedError: there is no such thread, or what was sent is no journal of it.
        RemoteUnavailableError: the server cannot be reached.
    """
    thread_id, at, owner = name.partition("@")
    found: dict[str, bytes] = {}
    wanted: str | None = thread_id
    left = SIZE_MAX
    while wanted is not None:
        if wanted in found or len(found) >= JOURNALS_MAX or not is_thread_id(wanted):
            raise RemoteRefusedError(f"thread {thread_id} does not say what it goes on from")
        data = b""
        names = dict.fromkeys((f"{wanted}{at}{owner}", *([wanted] if found else ())))
        for one in names:
            try:
                data = data or _read_records(remote, one, left)
            except RemoteRefusedError as error:
                if wanted == thread_id or error.code != ErrorCode.NOT_FOUND.value:
                    raise
        if not data:
            return []
        _, header = parse_journal(wanted, data)
        found[wanted] = data
        left -= len(data)
        wanted = None if header.base is None else header.base.thread
    return list(found.values())[::-1]


def _read_records(remote: Remote, thread_id: str, size_max: int) -> bytes:
    """All records of a thread; nothing if the server has none of it."""
    parts: list[bytes] = []
    size = 0
    try:
        for piece in remote.records(thread_id, Mark()):
            size += len(piece)
            if size > size_max:
                raise RemoteRefusedError(
                    f"thread {thread_id} is too large to be looked at from here",
                    hint="its owner can send it as a file: `treadle export --format jsonl`",
                )
            parts.append(piece)
    except RemoteUnavailableError:
        # Of a thread of documents no record comes, though its end was named. A server that is away
        # says so once more when it is asked for the document.
        if parts:
            raise
    return b"".join(parts)
