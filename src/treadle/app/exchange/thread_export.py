"""A thread for people, for programs, for another machine: as a page, a document or its journal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from treadle.app.notices import Notify, ignore_notice
from treadle.core.messages import BlobRef
from treadle.errors import (
    HeldBackError,
    MissingBlobError,
    StoreError,
    UnknownThreadError,
    UsageError,
)
from treadle.exchange.journal_files import (
    JournalPart,
    join_journals,
    make_journal_part,
    make_output_line,
)
from treadle.exchange.json_lines import FILE_SIZE_MAX
from treadle.exchange.markdown import to_markdown
from treadle.exchange.readable_thread import ReadableThread, make_readable_thread
from treadle.models.prices.usage_text import describe_usage
from treadle.pages.pictures import list_pictures
from treadle.pages.renderer import render_document
from treadle.platform.file_sync import sync_file
from treadle.runtime.defaults import make_user_redactor
from treadle.secrets.exit_scan import Looker
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import decode_header
from treadle.thread.output_references import list_output_references
from treadle.thread.record import JournalCondition, Record
from treadle.thread.safe_text import sanitize_text

PICTURES_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of the pictures that stand in a page."""


class ExportedThread(Struct, frozen=True):
    """What is exported: bytes, and why that is not all of the thread, if it is not."""

    data: bytes
    problem: str = ""


def export_thread(
    store: LocalStore,
    thread: str,
    form: str,
    *,
    version: int | None = None,
    notify: Notify = ignore_notice,
    with_secrets: bool = False,
    force: bool = False,
) -> ExportedThread:
    """A thread as it stood at a version. It need not be free.

    Args:
        store: where it is.
        thread: its id, or how that begins or ends.
        form: `json`, a document in one line; `jsonl`, records and large outputs, to be imported;
            `markdown` or `html`.
        version: by default the last one.
        notify: see `Notify`.
        with_secrets: whether it may hold secrets that this machine knows.
        force: whether it may be private.

    Raises:
        UsageError: there is no such thread, or it has not got to this version.
        HeldBackError: it is private, or holds a known secret.
        StoreError: it cannot be read.
    """
    thread_id = store.resolve(thread)
    # What it is now counts, not what it was at a version.
    _guard_privacy(thread_id, notify, is_private=_is_private(store, thread_id), force=force)
    if form == "json":
        loaded = store.load(thread_id, version)
        text = msgspec.json.encode(loaded.fold.document())
        if not with_secrets:
            refuse_secrets(thread_id, [text])
        return ExportedThread(text, loaded.problem)
    parts = read_journal_parts(store, thread_id, version)
    records = [record for part in parts for record in part.records]
    outputs = _read_outputs(store, records, notify) if form == "jsonl" else {}
    if not with_secrets:
        refuse_secrets(thread_id, (*(part.data for part in parts), *outputs.values()))
    problem = _describe_damage(parts[-1], notify)
    if form == "jsonl":
        lines = (make_output_line(ref, data) for ref, data in outputs.items())
        return ExportedThread(b"".join((join_journals(parts), *lines)), problem)
    story = make_readable_thread(parts)
    if form == "markdown":
        page = to_markdown(story, describe_usage)
    else:
        pictures = _read_pictures(store, story, notify)
        if not with_secrets:
            refuse_secrets(thread_id, pictures.values())
        page = render_document(story, pictures)
    return ExportedThread(page.encode(), problem or story.problem)


def _is_private(store: LocalStore, thread_id: str) -> bool:
    """Whether it is now; of a thread that cannot be folded, whether it began so."""
    try:
        return store.load(thread_id).fold.is_private
    except StoreError:
        first = read_journal_parts(store, thread_id, None)[-1].records[0]
        return b'"is_private":true' in bytes(first.event)


def read_journal_parts(
    store: LocalStore, thread_id: str, version: int | None = None
) -> list[JournalPart]:
    """The thread's journal, after those it goes on from.

    Args:
        store: where it is.
        thread_id: the thread.
        version: up to where; by default to its end.

    Raises:
        UnknownThreadError: it holds no intact record, or has not got this far.
        DamagedJournalError: what it was forked from is not what it was.
    """
    parts: list[JournalPart] = []
    wanted: tuple[str, int | None] | None = (thread_id, version)
    while wanted is not None:
        name, until = wanted
        path, _ = store.folders.find(name)
        with convert_os_errors("read", path):
            part = make_journal_part(store.folders.disk.read(path), until)
        if not part.records or len(part.records) < (until or 0):
            count = len(part.records)
            raise UnknownThreadError(
                f"thread {name} has {count} intact records, not {until or 'one'}",
                hint=f"treadle verify {name}",
            )
        parts.append(part)
        header = decode_header(part.records[0])
        wanted = None if header.base is None else (header.base.thread, header.base.version)
        store.load_initial_fold(name)  # refuses a base that is not the one that was known
    return parts[::-1]


def _read_outputs(
    store: LocalStore, records: Sequence[Record], notify: Notify
) -> dict[BlobRef, bytes]:
    """The large outputs that the records name, each once; what cannot come along is told."""
    found: dict[BlobRef, bytes] = {}
    left = FILE_SIZE_MAX - sum(len(record.event) + 1024 for record in records)
    for seq, ref in list_output_references(records):
        if ref in found:
            continue
        try:
            data = store.read_blob(ref)
        except MissingBlobError as error:
            notify(f"left out: record {seq}: {error.message}")
            continue
        left -= len(data) * 4 // 3 + 1024
        if left < 0:
            text = f"its output of {ref.size} bytes would make the file too large to be imported"
            notify(f"left out: record {seq}: {text}")
            continue
        found[ref] = data
    return found


def _read_pictures(store: LocalStore, story: ReadableThread, notify: Notify) -> dict[str, bytes]:
    """The pictures of a thread, by their digests; of those that are left out the line stays."""
    found: dict[str, bytes] = {}
    left = PICTURES_SIZE_MAX
    for picture in list_pictures(story):
        digest, size = picture.blob.sha256, picture.blob.size
        if digest in found:
            continue
        if size > left:
            notify(f"left out: {sanitize_text(picture.name)}: the page would become too large")
            continue
        try:
            found[digest] = store.read_blob(picture.blob)
        except MissingBlobError as error:
            notify(f"left out: {sanitize_text(picture.name)}: {error.message}")
            continue
        left -= size
    return found


def _describe_damage(part: JournalPart, notify: Notify) -> str:
    """Why the thread's own part is not all of it; a torn end is only told of."""
    if part.condition is JournalCondition.CORRUPT:
        return f"the thread is damaged: {part.reason}; exported up to version {part.head.seq}"
    if part.condition is JournalCondition.TORN:
        notify(f"left out: {sanitize_text(part.reason)}")
    return ""


def _guard_privacy(thread_id: str, notify: Notify, *, is_private: bool, force: bool) -> None:
    """A private thread never leaves this machine unless its owner says so."""
    if is_private and not force:
        raise HeldBackError(
            f"thread {thread_id} is private: it is not to leave this machine; nothing was exported",
            hint="--force exports it; who gets the export can read it",
        )
    if is_private:
        notify("this thread is private; who gets the export can read it")


def refuse_secrets(thread_id: str, texts: Iterable[bytes]) -> None:
    """The third look, with what is known today: records are kept as they are, or kept back."""
    found = Looker(make_user_redactor()).describe_findings(texts)
    if found:
        raise HeldBackError(
            f"secrets stand in thread {thread_id}: {'; '.join(found)}; nothing was exported",
            hint=f"`treadle scrub {thread_id} --found` takes them out for good; --with-secrets "
            "exports them",
        )


def check_target(target: Path, *, force: bool) -> None:
    """Whether a file can be exported to.

    Raises:
        UsageError: it is a folder, has none, or is there already and not to be replaced.
    """
    if target.is_dir():
        raise UsageError(f"{target} is a folder", hint="-o takes a file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    if os.path.lexists(target) and not force:  # a link that leads nowhere is there too
        raise UsageError(f"{target} is there already", hint="--force replaces it")


def write_file(target: Path, data: bytes, *, force: bool) -> None:
    """Write all of it or nothing, for the user alone.

    Raises:
        UsageError: a file has come between, which is replaced with `force` only.
        OSError: the disk refused.
    """
    handle, name = tempfile.mkstemp(prefix=".treadle-export.", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            sync_file(file.fileno())
        if not force:
            with suppress(PermissionError):  # a file system without links: it was looked at above
                _link_file(draft, target)
                return
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _link_file(draft: Path, target: Path) -> None:
    try:
        target.hardlink_to(draft)
    except FileExistsError as error:
        raise UsageError(f"{target} is there by now", hint="--force replaces it") from error
