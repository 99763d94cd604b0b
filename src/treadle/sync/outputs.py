"""The large outputs of threads on their way: before the records that name them, in both directions.

One that is missing is told, and stops nothing: its message has its beginning and its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from treadle.errors import MissingBlobError, RemoteConflictError, RemoteRefusedError
from treadle.store.blobs import Blobs
from treadle.sync.kit import Kit
from treadle.sync.shareable import ShareableThread
from treadle.thread.outputs import outputs_of
from treadle.thread.record import Record


def fetch_outputs(kit: Kit, thread_id: str, records: Iterable[Record]) -> tuple[str, ...]:
    """Fetch what these records name and is not here; durable when this returns.

    Returns:
        What could not be had, for people.

    Raises:
        RemoteUnavailableError: some may be here by now.
        DiskError: the disk refused.
    """
    blobs = Blobs(kit.store.folders)
    notes: list[str] = []
    seen: set[str] = set()
    for seq, ref in outputs_of(records):
        if ref.sha256 in seen:
            continue
        seen.add(ref.sha256)
        try:
            blobs.read(ref)
            continue
        except MissingBlobError:
            pass
        try:
            data = kit.remote.get_blob(thread_id, ref.sha256)
        except RemoteConflictError:
            raise
        except RemoteRefusedError as error:
            notes.append(f"{thread_id}: the output that record {seq} names: {error.message}")
            continue
        if data is None or sha256(data).hexdigest() != ref.sha256:
            notes.append(f"{thread_id}: the server has not got the output that record {seq} names")
            continue
        blobs.keep(data)
    return tuple(notes)


def send_outputs(
    kit: Kit, thread: ShareableThread, names: Iterable[tuple[int, str]]
) -> tuple[str, ...]:
    """Send large outputs; what is missing here is told.

    Args:
        kit: the parts.
        thread: whose they are.
        names: the number of a record, and what it names.

    Raises:
        RemoteError: some may be there by now.
    """
    notes: list[str] = []
    for seq, name in names:
        try:
            thread.blob(name)
        except MissingBlobError as error:
            notes.append(f"{thread.thread_id}: record {seq}: {error.message}")
            continue
        kit.remote.put_blob(thread, name)
    return tuple(notes)
