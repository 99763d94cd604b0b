"""A Treadle server over HTTP: what `Remote` asks of one, and what people do there besides."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import quote

import httpx2
import msgspec

from treadle.api.audit_types import ReadWay, ThreadReads
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark, parse_tag
from treadle.api.types import (
    ListedThread,
    Me,
    NewShare,
    SearchResult,
    Share,
    Shares,
    SupportAccess,
    ThreadHead,
    ThreadHeads,
    ThreadList,
)
from treadle.errors import (
    RemoteBrokenError,
    RemoteRefusedError,
    UsageError,
)
from treadle.sync.credentials import Account
from treadle.sync.http_transport import BYTES_TYPE, JSON_TYPE, LINES_TYPE, ServerTransport
from treadle.sync.ports import Sendable
from treadle.thread.document import Thread
from treadle.thread.ids import is_thread_id
from treadle.thread.record import Head, JournalScanner

PUSH_SIZE: Final = 4 * 1024 * 1024
"""Bytes of records in one request; a write that is longer goes by itself."""

UNCOMPRESSED_SIZE_MAX: Final = 1024
"""Bytes of a body that are sent as they are; what is longer is compressed."""

BLOB_SIZE_MAX: Final = 1024 * 1024 * 1024

RECORDS_SIZE_MAX: Final = 512 * 1024 * 1024
"""Bytes of a thread's records that are fetched at a time."""

HEADS_MAX: Final = 500
"""Heads asked for at a time."""

PAGE_MAX: Final = 200
OFFSET_MAX: Final = 10_000
"""Of lists and searches: lines of an answer, and how many can be passed over."""

EVENT_SIZE_MAX: Final = 1024 * 1024
STREAM_SILENCE_S_MAX: Final = 90.0
"""Seconds without even a heartbeat on a stream of changes, after which it counts as broken."""

_RECORD_LINE: Final = re.compile(rb'\A\{"seq":(\d{1,16}),.*,"hash":"([0-9a-f]{32})"\}\Z', re.DOTALL)
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class HttpRemote:
    """A server that is reached by HTTP. May be used by several threads; `close` it at the end.

    Args:
        account: where it is, and who asks.
        purpose: what others' threads are read for.
    """

    def __init__(self, account: Account, purpose: ReadWay = "sync") -> None:
        self._transport = ServerTransport(account.url, account.token, purpose)

    def __enter__(self) -> HttpRemote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._transport.close()

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return self._transport.url

    # ---- records -------------------------------------------------------------------------------

    def me(self) -> Me:
        """Who the caller is there."""
        return self._transport.request_value("GET", "/api/me", Me)

    def push(self, thread: Sendable, base: Mark) -> ThreadHead:
        """Send the records after `base`, in requests of `PUSH_SIZE` and more.

        A request that was heard and not answered is safe to be sent again, so that whoever is cut
        off in between begins anew at the same place. Raises as `Remote`.
        """
        head = None
        for data in _group_writes(thread.lines(base)):
            end = _find_last_mark(data)
            head = self._send_records(thread.thread_id, "POST", base, data)
            if head.version < end.seq or (head.version == end.seq and head.hash != end.hash):
                raise self._transport.make_protocol_error(
                    "it says it has other records than those it was sent"
                )
            base = end
        if head is not None:
            return head
        return ThreadHead(thread.thread_id, base.seq, base.hash, 0)

    def replace(self, thread: Sendable, base: Mark) -> ThreadHead:
        """Put the whole journal in the place of the server's, which stands at `base`."""
        headers = {**_make_headers(base), "content-encoding": "gzip"}
        path = f"{_thread_path(thread.thread_id)}/records"
        body = _compress(thread.lines(Mark()))
        head = self._transport.request_value("PUT", path, ThreadHead, body=body, headers=headers)
        return self._check_head(head, thread.thread_id)

    def put_blob(self, thread: Sendable, sha256: str) -> None:
        """Send a large output, unless the server has it already."""
        path = f"{_thread_path(thread.thread_id)}/blobs/{_check_digest(sha256)}"
        try:
            self._transport.request_status("HEAD", path)
        except RemoteRefusedError as error:
            if error.status != 404:
                raise
            self._transport.request_status(
                "PUT", path, body=thread.blob(sha256), headers={"content-type": BYTES_TYPE}
            )

    def get_blob(self, thread_id: str, sha256: str) -> bytes | None:
        """A large output, its bytes checked; `None` if the server has not got it."""
        path = f"{_thread_path(thread_id)}/blobs/{_check_digest(sha256)}"
        try:
            with self._transport.stream_response("GET", path) as response:
                self._transport.check_content_type(response, BYTES_TYPE)
                data = self._transport.read_body(response, BLOB_SIZE_MAX)
        except RemoteRefusedError as error:
            if error.code == ErrorCode.NOT_FOUND.value:
                return None
            raise
        if _compute_digest(data) != sha256:
            raise RemoteRefusedError(f"{self.url} answers with another output than {sha256}")
        return data

    def purge(self, thread_id: str) -> None:
        """Remove all that the server has of a thread, for good; fine if it has nothing."""
        try:
            self._transport.request_status(
                "DELETE", _thread_path(thread_id), params={"purge": "true"}
            )
        except RemoteRefusedError as error:
            if error.code != ErrorCode.NOT_FOUND.value:
                raise

    def heads(self, after: int, stamp: str = "") -> ThreadHeads:
        """Where the caller's own threads are that changed after a change number."""
        params: dict[str, str | int] = {"after": after, "limit": HEADS_MAX}
        if stamp:
            params["stamp"] = stamp
        found = self._transport.request_value("GET", "/api/heads", ThreadHeads, params=params)
        if not all(_is_valid_head(one) for one in found.heads):
            raise self._transport.make_protocol_error("it names threads that cannot be")
        return found

    def records(self, thread_id: str, after: Mark) -> Iterator[bytes]:
        """The server's records after a mark, as bytes of a journal, in pieces of any size.

        What comes is as untrusted as any journal from elsewhere: it is verified as it comes, and
        read no further than to its first bad line, `RECORDS_SIZE_MAX` bytes, or the record that
        was promised to be the last.

        Raises:
            RemoteConflictError: the mark is not in the server's chain.
            RemoteBrokenError: the answer ended before the record it had promised.
        """
        params = {"after": after.seq, "hash": after.hash}
        path = f"{_thread_path(thread_id)}/records"
        with self._transport.stream_response("GET", path, params=params) as response:
            self._transport.check_content_type(response, LINES_TYPE)
            promised = parse_tag(response.headers.get("etag", ""))
            if promised is None:
                raise self._transport.make_protocol_error(
                    "it does not say up to where its records go"
                )
            scanner, size = JournalScanner(Head(after.seq, after.hash)), 0
            for piece in self._transport.read_pieces(response):
                size += len(piece)
                scanner.feed(piece)
                if scanner.is_bad:
                    raise self._transport.make_protocol_error(
                        f"what it sends of {thread_id} is no journal"
                    )
                if scanner.head.seq > promised.seq:
                    raise self._transport.make_protocol_error(
                        f"it sends more of {thread_id} than there is"
                    )
                if size > RECORDS_SIZE_MAX:
                    raise self._transport.make_protocol_error(
                        f"what it sends of {thread_id} has no end"
                    )
                yield piece
        if Mark(scanner.head.seq, scanner.head.hash) != promised:
            raise RemoteBrokenError(f"{self.url} broke off in the middle of {thread_id}")

    def changes(self, after: int) -> Iterator[ThreadHead]:
        """The caller's threads as they change on the server, for as long as the stream lasts.

        Ends when the server ends it, as it does when it stops; raises as `Remote`.
        """
        params, headers = {"after": after}, {"accept": "text/event-stream"}
        with self._transport.stream_response(
            "GET", "/api/changes", params=params, headers=headers, silence_s=STREAM_SILENCE_S_MAX
        ) as response:
            self._transport.check_content_type(response, "text/event-stream")
            for event in httpx2.EventSource(response, max_event_size=EVENT_SIZE_MAX):
                if event.data:
                    yield self._parse_head(event.data)

    # ---- what the caller may read, of others too -------------------------------------------------

    def threads(
        self, filters: Mapping[str, str | tuple[str, ...]], limit: int, offset: int
    ) -> ThreadList:
        """A page of the threads that the caller may see, newest activity first.

        Args:
            filters: which of them; names and values as `GET /api/threads` has them.
            limit: how many at most, up to `PAGE_MAX`.
            offset: how many to pass over, up to `OFFSET_MAX`.
        """
        params = {**filters, "limit": limit, "offset": offset}
        page = self._transport.request_value("GET", "/api/threads", ThreadList, params=params)
        self._check_lines(page.threads, limit)
        return page

    def search(self, query: str, workspace: str | None, limit: int, offset: int) -> SearchResult:
        """A page of the threads that the caller may see in which something was said, best first.

        Args:
            query: what a person typed.
            workspace: only threads that work in this folder or below it.
            limit: how many at most, up to `PAGE_MAX`.
            offset: how many to pass over, up to `OFFSET_MAX`.
        """
        params: dict[str, str | int] = {"q": query, "limit": limit, "offset": offset}
        if workspace is not None:
            params["workspace"] = workspace
        page = self._transport.request_value(
            "GET", "/api/threads/search", SearchResult, params=params
        )
        self._check_lines([hit.thread for hit in page.hits], limit)
        return page

    def document(self, thread_id: str, version: int | None = None) -> Thread:
        """A thread, or `ID@NAME`, as one document, by default its newest version."""
        params = {} if version is None else {"version": version}
        found = self._transport.request_value("GET", _thread_path(thread_id), Thread, params=params)
        if found.id != thread_id.partition("@")[0]:
            raise self._transport.make_protocol_error("its answer is about another thread")
        return found

    def _check_lines(self, lines: Sequence[ListedThread], limit: int) -> None:
        if len(lines) > limit or not all(is_thread_id(one.summary.id) for one in lines):
            raise self._transport.make_protocol_error("it lists what was not asked for")

    # ---- what people do --------------------------------------------------------------------------

    def share(self, thread_id: str, expires_at: str | None) -> Share:
        """Make a link; its token stands in the answer, and nowhere else ever again."""
        return self._transport.request_value(
            "POST",
            f"{_thread_path(thread_id)}/share",
            Share,
            body=msgspec.json.encode(NewShare(expires_at)),
            headers={"content-type": JSON_TYPE},
        )

    def shares(self, thread_id: str) -> Shares:
        """The links of a thread, without their tokens."""
        return self._transport.request_value("GET", f"{_thread_path(thread_id)}/share", Shares)

    def readers(self, thread_id: str, limit: int, before: int | None = None) -> ThreadReads:
        """Who else has read a thread, newest first; those before a line."""
        params = {"limit": limit} | ({} if before is None else {"before": before})
        return self._transport.request_value(
            "GET", f"{_thread_path(thread_id)}/readers", ThreadReads, params=params
        )

    def unshare(self, thread_id: str) -> None:
        """Revoke all links of a thread."""
        self._transport.request_status("DELETE", f"{_thread_path(thread_id)}/share")

    def grant_support(self, thread_id: str) -> SupportAccess:
        """Let support read a thread, for as long as the server says."""
        return self._transport.request_value(
            "POST", f"{_thread_path(thread_id)}/support-access", SupportAccess
        )

    def revoke_support(self, thread_id: str) -> None:
        """Let support read a thread no more."""
        self._transport.request_status("DELETE", f"{_thread_path(thread_id)}/support-access")

    def revoke_own_token(self) -> None:
        """Make the token that is used here worthless, and no other one."""
        number = self.me().token_id
        if number < 1:
            raise self._transport.make_protocol_error("it does not say which token this is")
        self._transport.request_status("DELETE", f"/api/tokens/{number}")

    # ---- the forms of things ---------------------------------------------------------------------

    def _send_records(self, thread_id: str, method: str, base: Mark, data: bytes) -> ThreadHead:
        headers = _make_headers(base)
        if len(data) > UNCOMPRESSED_SIZE_MAX:
            data = gzip.compress(data, 6, mtime=0)
            headers["content-encoding"] = "gzip"
        path = f"{_thread_path(thread_id)}/records"
        return self._check_head(
            self._transport.request_value(method, path, ThreadHead, body=data, headers=headers),
            thread_id,
        )

    def _check_head(self, head: ThreadHead, thread_id: str) -> ThreadHead:
        if head.thread != thread_id or not _is_valid_head(head):
            raise self._transport.make_protocol_error("its answer is about another thread")
        return head

    def _parse_head(self, text: str) -> ThreadHead:
        try:
            head = msgspec.json.decode(text, type=ThreadHead)
        except (msgspec.DecodeError, RecursionError):
            head = None
        if head is None or not _is_valid_head(head):
            raise self._transport.make_protocol_error("it tells of changes in another form")
        return head


def _group_writes(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Whole writes, put together up to `PUSH_SIZE`."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        if parts and size + len(piece) > PUSH_SIZE:
            yield b"".join(parts)
            parts, size = [], 0
        if piece:
            parts.append(piece)
            size += len(piece)
    if parts:
        yield b"".join(parts)


def _compress(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces as one gzip stream, without a time or a name in it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _find_last_mark(data: bytes) -> Mark:
    """The last of the records in a body."""
    line = data[data.rfind(b"\n", 0, -1) + 1 : -1]
    found = _RECORD_LINE.fullmatch(line)
    if found is None:
        raise UsageError("what was to be sent is no journal")
    return Mark(int(found[1]), found[2].decode())


def _is_valid_head(head: ThreadHead) -> bool:
    is_mark = _HASH.fullmatch(head.hash) is not None and head.version >= 0 and head.change >= 0
    return is_mark and is_thread_id(head.thread)


def _make_headers(base: Mark) -> dict[str, str]:
    return {"if-match": base.tag, "content-type": LINES_TYPE}


def _thread_path(name: str) -> str:
    """The path of a thread by its id; by `ID@NAME`, of the one that is a user's of this name."""
    if not is_thread_id(name.partition("@")[0]):
        raise UsageError(f"{name!r} is no thread id")
    return f"/api/threads/{quote(name, safe='@')}"


def _check_digest(digest: str) -> str:
    if not _SHA256.fullmatch(digest):
        raise UsageError(f"{digest!r} is no SHA-256")
    return digest


def _compute_digest(data: bytes) -> str:
    return sha256(data).hexdigest()
