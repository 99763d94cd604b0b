"""The large outputs of threads on their way: before the records that name them, in both directions.

One that is missing is told, and stops nothing: its message has its beginning and its end. It is
looked for again with every sync of all threads, until both have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from treadle.api.marks import Mark
from treadle.errors import (
    DiskError,
    MissingBlobError,
    NotLoggedInError,
    PrivateThreadError,
    RemoteConflictError,
    RemoteRefusedError,
    RemoteUnavailableError,
    TreadleError,
    UnknownThreadError,
)
from treadle.store.blobs import Blobs
from treadle.sync.context import SyncContext
from treadle.sync.cursors import MissingOutput
from treadle.sync.shareable_thread import ShareableThread, hold_for_request, open_shareable
from treadle.thread.output_references import list_output_references
from treadle.thread.record import Record


def fetch_outputs(
    context: SyncContext, thread_id: str, records: Iterable[Record]
) -> tuple[str, ...]:
    """Fetch what these records name and is not here; durable when this returns.

    Returns:
        What could not be had, for people.

    Raises:
        RemoteUnavailableError: some may be here by now.
        DiskError: the disk refused.
    """
    blobs = Blobs(context.store.folders)
    notes: list[str] = []
    seen: set[str] = set()
    lacking: list[str] = []
    for seq, ref in list_output_references(records):
        if ref.sha256 in seen:
            continue
        seen.add(ref.sha256)
        try:
            blobs.read(ref)
            continue
        except MissingBlobError:
            pass
        try:
            data = context.remote.get_blob(thread_id, ref.sha256)
        except RemoteConflictError:
            raise
        except RemoteRefusedError as error:
            notes.append(f"{thread_id}: the output that record {seq} names: {error.message}")
            lacking.append(ref.sha256)
            continue
        if data is None or sha256(data).hexdigest() != ref.sha256:
            notes.append(f"{thread_id}: the server has not got the output that record {seq} names")
            lacking.append(ref.sha256)
            continue
        blobs.keep(data)
    _record_missing(context, thread_id, lacking)
    return tuple(notes)


def send_outputs(
    context: SyncContext, thread: ShareableThread, names: Iterable[tuple[int, str]]
) -> tuple[str, ...]:
    """Send large outputs; what is missing here is told.

    Args:
        context: the parts.
        thread: whose they are.
        names: the number of a record, and what it names.

    Raises:
        RemoteError: some may be there by now.
    """
    notes: list[str] = []
    lacking: list[str] = []
    for seq, name in names:
        try:
            thread.blob(name)
        except MissingBlobError as error:
            notes.append(f"{thread.thread_id}: record {seq}: {error.message}")
            lacking.append(name)
            continue
        context.remote.put_blob(thread, name)
    _record_missing(context, thread.thread_id, lacking)
    return tuple(notes)


def retry_missing_outputs(context: SyncContext) -> None:
    """Look again for the outputs that were missing when they were to be sent or fetched.

    What is found is sent, or fetched; what is private by now, or gone, is looked for no more.

    Raises:
        RemoteUnavailableError: what was not looked for yet is, with the next sync.
        NotLoggedInError: the same.
        DiskError: the disk refused.
    """
    missing = context.cursors.missing_outputs()
    for one in sorted(missing):
        try:
            is_over = _transfer_missing(context, one)
        except (RemoteUnavailableError, NotLoggedInError, DiskError):
            raise
        except (PrivateThreadError, UnknownThreadError):
            is_over = True
        except TreadleError:
            continue
        if is_over:
            missing -= {one}
            context.cursors.set_missing_outputs(missing)


def _transfer_missing(context: SyncContext, output: MissingOutput) -> bool:
    """Whether this machine and the server have the output now; what one has the other is given."""
    with open_shareable(context.store, output.thread_id) as thread:
        ref = {ref.sha256: ref for _, ref in thread.outputs(Mark())}.get(output.sha256)
        if ref is None:
            return True
        try:
            data = thread.blob(output.sha256)
        except MissingBlobError:
            data = None
        if data is not None:
            if context.looks([data]):
                return False
            context.remote.put_blob(thread, output.sha256)
            return True
    with hold_for_request(context.store, output.thread_id):
        found = context.remote.get_blob(output.thread_id, output.sha256)
    if found is None or sha256(found).hexdigest() != output.sha256:
        return False
    Blobs(context.store.folders).keep(found)
    return True


def _record_missing(context: SyncContext, thread_id: str, names: Iterable[str]) -> None:
    if new := {MissingOutput(thread_id, name) for name in names}:
        context.cursors.add_missing_outputs(new)
