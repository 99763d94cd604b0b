"""`treadle export`: a thread for people, for programs, for another machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from treadle.thread.safe_text import legible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from treadle.core.tools import BlobRef
    from treadle.exchange.journals import Part
    from treadle.store.local import LocalStore
    from treadle.thread.record import Record

_FORMATS: Final = ("json", "jsonl", "markdown", "html")


@click.command("export")
@click.argument("thread", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="markdown",
    show_default=True,
    help="json: the thread document. jsonl: the records, to import elsewhere.",
)
@click.option("-o", "--output", metavar="FILE", help="Where to; by default stdout.")
@click.option("--version", type=click.IntRange(min=1), help="As it stood at this version.")
@click.option("--force", is_flag=True, help="Export a private thread; replace FILE.")
@click.option("--with-secrets", is_flag=True, help="Export it even if it holds known secrets.")
@click.pass_context
def command(
    ctx: click.Context,
    thread: str,
    form: str,
    output: str | None,
    version: int | None,
    force: bool,
    with_secrets: bool,
) -> None:
    """Export a thread. Needs neither its folder, nor a model, nor the thread to be free.

    \b
    treadle export 0190 --format html -o thread.html    one page, to be sent to somebody
    treadle export 0190 --format jsonl -o thread.jsonl  the journal, to be imported elsewhere

    What holds a secret that this machine knows is not exported, nor is a private thread, unless
    with --force: the export can be read by whoever gets it. Of a damaged thread the intact part
    is, with exit code 1.
    """  # noqa: D301  click reads the backspace
    from pathlib import Path

    from treadle.store.local import LocalStore
    from treadle.store.paths import Places

    target = None if output in (None, "-") else Path(output or "").expanduser()
    if target is not None:
        _check(target, force=force)
    store = LocalStore(Places.find())
    thread_id = store.resolve(thread)
    data, problem = _export(store, thread_id, form, version, with_secrets=with_secrets, force=force)
    if target is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        _write(target, data, force=force)
        click.echo(f"{len(data)} bytes in {legible(str(target))}", err=True)
    if problem:
        click.echo(f"treadle: {legible(problem)}", err=True)
        ctx.exit(1)


def _export(
    store: LocalStore,
    thread_id: str,
    form: str,
    version: int | None,
    *,
    with_secrets: bool,
    force: bool,
) -> tuple[bytes, str]:
    """What is exported, and why that is not all of it, if it is not.

    Raises:
        HeldBackError: it is private, or holds a known secret.
    """
    import msgspec

    from treadle.app.json_text import escape_json
    from treadle.exchange.journals import join, output_line
    from treadle.exchange.markdown import to_markdown
    from treadle.exchange.page import to_page
    from treadle.exchange.story import tell
    from treadle.models.prices.usage_text import describe_usage

    # What it is now counts, not what it was at a version.
    _guard_privacy(thread_id, is_private=_is_private(store, thread_id), force=force)
    if form == "json":
        loaded = store.load(thread_id, version)
        text = msgspec.json.encode(loaded.fold.document())
        if not with_secrets:
            _look_for_secrets(thread_id, [text])
        plain = escape_json(msgspec.json.format(text, indent=2).decode())
        return plain.encode() + b"\n", loaded.problem
    parts = _parts(store, thread_id, version)
    records = [record for part in parts for record in part.records]
    outputs = _outputs(store, records) if form == "jsonl" else {}
    if not with_secrets:
        _look_for_secrets(thread_id, (*(part.data for part in parts), *outputs.values()))
    problem = _damage(parts[-1])
    if form == "jsonl":
        lines = (output_line(ref, data) for ref, data in outputs.items())
        return b"".join((join(parts), *lines)), problem
    story = tell(parts)
    tell_it = {"markdown": to_markdown, "html": to_page}[form]
    return tell_it(story, describe_usage).encode(), problem or story.problem


def _is_private(store: LocalStore, thread_id: str) -> bool:
    """Whether it is now; of a thread that cannot be folded, whether it began so."""
    from treadle.errors import StoreError

    try:
        return store.load(thread_id).fold.is_private
    except StoreError:
        first = _parts(store, thread_id, None)[-1].records[0]
        return b'"is_private":true' in bytes(first.event)


def _parts(store: LocalStore, thread_id: str, version: int | None) -> list[Part]:
    """The thread's journal, after those it goes on from.

    Raises:
        UnknownThreadError: it holds no intact record, or has not got this far.
        DamagedJournalError: what it was forked from is not what it was.
    """
    from treadle.errors import UnknownThreadError
    from treadle.exchange.journals import part_of
    from treadle.store.journal import told_as
    from treadle.store.thread_reader import header_of

    parts: list[Part] = []
    wanted: tuple[str, int | None] | None = (thread_id, version)
    while wanted is not None:
        name, until = wanted
        path, _ = store.folders.find(name)
        with told_as("read", path):
            part = part_of(store.folders.disk.read(path), until)
        if not part.records or len(part.records) < (until or 0):
            count = len(part.records)
            raise UnknownThreadError(
                f"thread {name} has {count} intact records, not {until or 'one'}",
                hint=f"treadle verify {name}",
            )
        parts.append(part)
        header = header_of(part.records[0])
        wanted = None if header.base is None else (header.base.thread, header.base.version)
        store.beginning(name)  # refuses a base that is not the one that was known
    return parts[::-1]


def _outputs(store: LocalStore, records: Sequence[Record]) -> dict[BlobRef, bytes]:
    """The large outputs that the records name, each once; what cannot come along is told."""
    from treadle.errors import MissingBlobError
    from treadle.exchange.lines import FILE_SIZE_MAX
    from treadle.thread.outputs import outputs_of

    found: dict[BlobRef, bytes] = {}
    left = FILE_SIZE_MAX - sum(len(record.event) + 1024 for record in records)
    for seq, ref in outputs_of(records):
        if ref in found:
            continue
        try:
            data = store.blob(ref)
        except MissingBlobError as error:
            click.echo(f"treadle: left out: record {seq}: {error.message}", err=True)
            continue
        left -= len(data) * 4 // 3 + 1024
        if left < 0:
            text = f"its output of {ref.size} bytes would make the file too large to be imported"
            click.echo(f"treadle: left out: record {seq}: {text}", err=True)
            continue
        found[ref] = data
    return found


def _damage(part: Part) -> str:
    """Why the thread's own part is not all of it; a torn end is only told of."""
    from treadle.thread.record import Condition

    if part.condition is Condition.CORRUPT:
        return f"the thread is damaged: {part.reason}; exported up to version {part.head.seq}"
    if part.condition is Condition.TORN:
        click.echo(f"treadle: left out: {legible(part.reason)}", err=True)
    return ""


def _guard_privacy(thread_id: str, *, is_private: bool, force: bool) -> None:
    """A private thread never leaves this machine unless its owner says so."""
    from treadle.errors import HeldBackError

    if is_private and not force:
        raise HeldBackError(
            f"thread {thread_id} is private: it is not to leave this machine; nothing was exported",
            hint="--force exports it; who gets the export can read it",
        )
    if is_private:
        click.echo("treadle: this thread is private; who gets the export can read it", err=True)


def _look_for_secrets(thread_id: str, texts: Iterable[bytes]) -> None:
    """The third look, with what is known today: records are kept as they are, or kept back."""
    from treadle.errors import HeldBackError
    from treadle.runtime.defaults import own_redactor
    from treadle.secrets.exit_scan import Looker

    found = Looker(own_redactor()).look(texts)
    if found:
        raise HeldBackError(
            f"secrets stand in thread {thread_id}: {'; '.join(found)}; nothing was exported",
            hint=f"`treadle scrub {thread_id} --found` takes them out for good; --with-secrets "
            "exports them",
        )


def _check(target: Path, *, force: bool) -> None:
    import os

    from treadle.errors import UsageError

    if target.is_dir():
        raise UsageError(f"{target} is a folder", hint="-o takes a file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    if os.path.lexists(target) and not force:  # a link that leads nowhere is there too
        raise UsageError(f"{target} is there already", hint="--force replaces it")


def _write(target: Path, data: bytes, *, force: bool) -> None:
    """All of it or nothing, for the user alone; a file that comes between is not replaced."""
    import os
    import tempfile
    from contextlib import suppress
    from pathlib import Path

    handle, name = tempfile.mkstemp(prefix=".treadle-export.", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not force:
            with suppress(PermissionError):  # a file system without links: it was looked at above
                _link(draft, target)
                return
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, target: Path) -> None:
    from treadle.errors import UsageError

    try:
        target.hardlink_to(draft)
    except FileExistsError as error:
        raise UsageError(f"{target} is there by now", hint="--force replaces it") from error
