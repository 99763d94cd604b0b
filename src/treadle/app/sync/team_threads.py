"""The team's threads, as the server has them: lists, searches, and one thread to be looked at.

Nothing of them enters this user's own threads. Others have written them, and the server could have
written anything: lines and ids are made plain before anything of them is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from treadle.api.audit_types import ReadWay
from treadle.api.error_codes import ErrorCode
from treadle.api.types import ListedThread, SearchHit
from treadle.errors import (
    AmbiguousThreadError,
    RemoteRefusedError,
    UnknownThreadError,
    UsageError,
)
from treadle.scratch_folders import scratch_folder
from treadle.store.blobs import Blobs
from treadle.store.id_beginnings import ID_LENGTH_MIN
from treadle.store.index.filters import ThreadFilters
from treadle.store.index.search import Hit
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.sync.client import OFFSET_MAX, PAGE_MAX, HttpRemote
from treadle.sync.credentials import require_account
from treadle.sync.remote_reader import read_remote_journals
from treadle.sync.shareable_thread import hold_for_request
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.document import Thread, ThreadSummary
from treadle.thread.ids import PREFIX, is_thread_id
from treadle.thread.output_references import find_kept_output
from treadle.thread.safe_text import sanitize_text

_BEGINNING: Final = re.compile(r"T-[0-9a-f-]{%d,36}" % ID_LENGTH_MIN)  # noqa: UP031  braces
_PARAMETERS: Final = {
    "remote": "repo",
    "tags": "tag",
    "is_imported": "imported",
    "is_trashed": "deleted",
}
"""What the server calls differently from `ThreadFilters`."""

T = TypeVar("T")


class TeamLine(Struct, frozen=True):
    """A line of a list: the thread, whose it is, and whose member that is."""

    thread: ThreadSummary
    owner: str
    organization: str

    def to_dict(self) -> dict[str, Any]:
        """For programs: as `treadle list --json` has threads, and the owner besides."""
        found: dict[str, Any] = msgspec.to_builtins(self.thread)
        return {**found, "owner": self.owner, "organization": self.organization}


class TeamPage(Struct, frozen=True):
    """The threads that were asked for, and how many there are in all."""

    threads: Sequence[TeamLine]
    count: int


class TeamHit(Struct, frozen=True):
    """A hit of a search, and whose thread it is in."""

    hit: Hit
    line: TeamLine

    def to_dict(self) -> dict[str, Any]:
        """For programs: as `treadle search --json` has hits, and the owner besides."""
        found: dict[str, Any] = msgspec.to_builtins(self.hit)
        return {**found, "thread": self.line.to_dict()}


def list_team_threads(
    store: LocalStore,
    filters: ThreadFilters = ThreadFilters(),  # noqa: B008  it is frozen
    *,
    owner: str | None = None,
    visibility: str | None = None,
    limit: int | None = None,
) -> TeamPage:
    """The threads that this user may see on the server, newest activity first.

    Args:
        store: whose user is logged in to the server.
        filters: what must hold.
        owner: whose threads; `None` for all that this user may see.
        visibility: who may see them; `None` for all.
        limit: how many at most; `None` for as many as the server lists.

    Raises:
        NotLoggedInError: no server is known here, or it does not know this user.
        UsageError: the server cannot be asked for one of the options.
        RemoteError: the server refuses, or cannot be reached.
    """
    wanted = {
        name: value
        for name, value in {**asdict(filters), "owner": owner, "visibility": visibility}.items()
        if value
    }
    if "provider" in wanted:
        raise UsageError(
            "the server cannot be asked for a provider", hint="--model has its models' names"
        )
    parameters = {
        _PARAMETERS.get(name, name): "true" if value is True else value
        for name, value in wanted.items()
    }
    total = 0
    with _open_remote(store) as remote:

        def page(size: int, offset: int) -> Sequence[TeamLine]:
            nonlocal total
            found = remote.threads(parameters, size, offset)
            total = found.total
            return [_make_line(one) for one in found.threads]

        lines = _fetch_pages(page, limit, _key_of)
    return TeamPage(lines, total)


def search_team_threads(
    store: LocalStore,
    query: str,
    filters: ThreadFilters = ThreadFilters(),  # noqa: B008  it is frozen
    *,
    limit: int | None = None,
) -> list[TeamHit]:
    """What is found on the server in the threads that this user may see, best first.

    Args:
        store: whose user is logged in to the server; its private ids are not sent.
        query: what the user typed.
        filters: the server's search knows `workspace` alone.
        limit: how many at most; `None` for as many as the server shows.

    Raises:
        PrivateThreadError: what was typed is the id of a private thread; nobody was asked.
        NotLoggedInError, UsageError, RemoteError: as `list_team_threads`.
    """
    if replace(filters, workspace=None) != ThreadFilters():
        raise UsageError(
            "the server's search can be asked for --workspace and no other option",
            hint="`treadle list --team` takes them",
        )
    with _open_remote(store) as remote, _guard_private_id(store, query):

        def page(size: int, offset: int) -> Sequence[TeamHit]:
            found = remote.search(query, filters.workspace, size, offset)
            return [_make_hit(hit) for hit in found.hits]

        return _fetch_pages(page, limit, lambda one: _key_of(one.line))


class TeamThread(Struct, frozen=True):
    """A thread of the server; without a `store` it is to be had as one document only.

    `name` is what the server is asked for: the id, and whose it is if that was said (`ID@NAME`).
    """

    store: LocalStore | None
    thread_id: str
    name: str
    url: str


@contextmanager
def open_team_thread(
    store: LocalStore, text: str, *, call: str | None = None, purpose: ReadWay = "show"
) -> Generator[TeamThread, None, None]:
    """A thread of the server, in a store of its own that is gone when this is left.

    Args:
        store: whose user is logged in to the server.
        text: its id, or a beginning of it that no other thread has that the user may see; with
            `@NAME` behind it the one of the user of this name, where several have one of this id.
        call: the call, or the beginning of its id, whose large output comes along.
        purpose: what the server tells its owner that it is read for.

    Raises:
        UnknownThreadError: there is no such thread, or the user may not see it.
        AmbiguousThreadError: several begin like that.
        PrivateThreadError: it is here, and private; nobody was asked.
        NotLoggedInError, RemoteError: as `list_team_threads`.
    """
    with scratch_folder() as folder:
        root = Path(folder)
        fetched = LocalStore(Places(root / "data", root / "state", root / "config"))
        beginning, at, owner = text.partition("@")
        with (
            _open_remote(store, purpose) as remote,
            _guard_private_id(store, beginning),
            _translate_unknown(remote, text),
        ):
            thread_id = _resolve_id(remote, beginning)
            name = f"{thread_id}{at}{owner}"
            journals = read_remote_journals(remote, name)
            for journal in journals:
                fetched.adopt(journal)
            if journals and call is not None:
                _fetch_outputs(remote, fetched, name, call)
            url = remote.url
        yield TeamThread(fetched if journals else None, thread_id, name, url)


def fetch_team_document(
    store: LocalStore, name: str, version: int | None = None, *, purpose: ReadWay = "show"
) -> Thread:
    """A thread of the server as one document. Raises as `open_team_thread`."""
    with _open_remote(store, purpose) as remote, _translate_unknown(remote, name):
        return remote.document(name, version)


# ---- asking --------------------------------------------------------------------------------------


@contextmanager
def _open_remote(store: LocalStore, purpose: ReadWay = "show") -> Generator[HttpRemote, None, None]:
    """The server; what it calls a bad request was typed by the user."""
    account = require_account(store.places, os.environ)
    try:
        with HttpRemote(account, purpose) as remote:
            yield remote
    except RemoteRefusedError as error:
        if error.code != ErrorCode.BAD_REQUEST.value:
            raise
        raise UsageError(error.message, hint=error.hint) from error


@contextmanager
def _translate_unknown(remote: HttpRemote, text: str) -> Generator[None, None, None]:
    try:
        yield
    except RemoteRefusedError as error:
        if error.code != ErrorCode.NOT_FOUND.value:
            raise
        raise _make_unknown_error(remote, text) from error


def _make_unknown_error(remote: HttpRemote, text: str) -> UnknownThreadError:
    return UnknownThreadError(
        f"{remote.url} has nothing like {text!r} that you may see",
        hint="`treadle list --team` shows the threads that you may see",
    )


def _guard_private_id(store: LocalStore, text: str) -> AbstractContextManager[None]:
    """A server may be told a text: it is not what begins the id of one private thread of this user.

    Of a private thread not even the id leaves this machine.
    """
    prefix = _add_prefix(text)
    if len(prefix) < len(PREFIX) + ID_LENGTH_MIN:
        return nullcontext()
    ids = {*store.folders.ids(), *store.folders.ids(in_trash=True)}
    mine = [one for one in ids if one.startswith(prefix)]
    return hold_for_request(store, mine[0]) if len(mine) == 1 else nullcontext()


def _add_prefix(text: str) -> str:
    text = text.strip().lower().removeprefix(PREFIX.lower())
    return PREFIX + text


def _resolve_id(remote: HttpRemote, text: str) -> str:
    prefix = _add_prefix(text)
    if is_thread_id(prefix):
        return prefix
    if not _BEGINNING.fullmatch(prefix):
        raise UsageError(
            f"{text!r} is no id of a thread, and no beginning of one",
            hint=f"give {ID_LENGTH_MIN} characters of it or more; `treadle list --team` shows it",
        )
    hits = remote.search(prefix, None, PAGE_MAX, 0).hits
    # Several people may have a thread of one id; whose is meant the server decides.
    ids = dict.fromkeys(hit.thread.summary.id for hit in hits if hit.kind == "id")
    found = [one for one in ids if one.startswith(prefix)]
    if len(found) > 1:
        raise AmbiguousThreadError(text, found)
    if not found:
        raise _make_unknown_error(remote, text)
    return found[0]


def _fetch_outputs(remote: HttpRemote, store: LocalStore, name: str, call: str) -> None:
    """The large outputs of the calls that begin like this; what is gone is told by who reads it."""
    for record in store.scan(name.partition("@")[0]).records:
        try:
            entry = decode_entry(record.event)
        except UnknownEntryError:
            return
        kept = find_kept_output(entry)
        if kept is not None and kept[0].startswith(call):
            data = remote.get_blob(name, kept[1].sha256)
            if data is not None:
                Blobs(store.folders).keep(data)


def _fetch_pages(
    page: Callable[[int, int], Sequence[T]],
    most: int | None,
    key_of: Callable[[T], Hashable],
) -> list[T]:
    """Page after page, each thread once: what changes meanwhile moves to another page."""
    found: dict[Hashable, T] = {}
    offset = 0
    while offset <= OFFSET_MAX and (most is None or len(found) < most):
        limit = PAGE_MAX if most is None else min(PAGE_MAX, most - len(found))
        lines = page(limit, offset)
        for line in lines:
            found.setdefault(key_of(line), line)
        offset += len(lines)
        if len(lines) < limit:
            break
    return list(found.values())


# ---- what came -----------------------------------------------------------------------------------


def _make_line(listed: ListedThread) -> TeamLine:
    summary = listed.summary
    plain = replace(
        summary,
        state=_to_single_line(summary.state),
        updated_at=_to_single_line(summary.updated_at),
    )
    return TeamLine(plain, _to_single_line(listed.owner), _to_single_line(listed.organization))


def _key_of(line: TeamLine) -> tuple[str, str]:
    """Several people have a thread of one id where one of them has taken a copy of another's."""
    return line.thread.id, line.owner


def _make_hit(found: SearchHit) -> TeamHit:
    line = _make_line(found.thread)
    # As many characters as before: the ranges count them.
    snippet = "".join(" " if sign.isspace() else sign for sign in found.snippet)
    kind = _to_single_line(found.kind)
    hit = Hit(line.thread, found.version, kind, snippet, found.ranges, found.count, found.score)
    return TeamHit(hit, line)


def _to_single_line(text: str) -> str:
    return " ".join(sanitize_text(text).split())
