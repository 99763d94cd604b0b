"""What people ask of a thread where its session does not: for whoever works on it, in a folder.

A request is a file that is durable before whoever asks is told so. Who works on the thread records
it, with what it leads to, and removes the file then; so a process that dies in between finds it
again, and the thread's journal says whether it was taken. What is refused has a reply, for whoever
asked. The files are their user's alone, as the journals are.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from treadle.errors import UsageError
from treadle.store.disk import Disk
from treadle.store.file_replacement import drafts_folder, replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places
from treadle.thread.ids import is_thread_id

Act: TypeAlias = Literal[
    "approve", "always", "change", "reject", "prompt", "steer", "interrupt", "start"
]
"""What can be asked for: four answers to a question, something said, the end of the turn, and that
the thread is begun with a prompt."""

SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of a request; a longer one is nobody's."""
COUNT_MAX: Final = 100
"""Requests of a thread that wait at a time."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
_REQUEST: Final = ".request"
_REPLY: Final = ".reply"


class PersonRequest(Struct, frozen=True, omit_defaults=True):
    """What a person asks of a thread.

    Args:
        id: unique; what is asked twice under one id is taken once.
        thread: which one.
        act: what is asked for.
        by: who asks and from where, for people.
        expires_at: until when it may be taken, as records have times.
        call_id: of an answer, the call.
        ground: of an answer, the digest of the question as it was shown (`digest_question`).
        text: a prompt; the reason of a no; the arguments of a changed call, as JSON.
        is_remote: whether it came over a server, which keeps it until it is told the end.
    """

    id: str
    thread: str
    act: Act
    by: str
    expires_at: str
    call_id: str = ""
    ground: str = ""
    text: str = ""
    is_remote: bool = False


class RequestReply(Struct, frozen=True):
    """What became of a request: whether it was taken, and why not."""

    is_taken: bool
    why: str = ""


_decode_request: Final = msgspec.json.Decoder(PersonRequest).decode
_decode_reply: Final = msgspec.json.Decoder(RequestReply).decode


class ThreadRequests:
    """The requests of one thread.

    Args:
        disk: where files are.
        places: the folders of the user.
        thread_id: the thread.
    """

    def __init__(self, disk: Disk, places: Places, thread_id: str) -> None:
        assert is_thread_id(thread_id), thread_id
        self._disk = disk
        self._folder = str(places.state / "requests" / thread_id)

    def place(self, request: PersonRequest) -> None:
        """Keep a request for whoever works on the thread; it is durable when this returns.

        Raises:
            UsageError: its id is none, it is too long, or too many wait.
            DiskError: the disk refused; nothing was asked.
        """
        if not _ID.fullmatch(request.id):
            raise UsageError("a request has an id of 16 to 64 letters and digits")
        data = msgspec.json.encode(request)
        if len(data) > SIZE_MAX:
            raise UsageError(f"that is too long: {len(data):,} bytes of {SIZE_MAX:,}")
        if len(self._list_names(_REQUEST)) >= COUNT_MAX:
            raise UsageError("too much waits for this thread already", hint="see what became of it")
        path = self._path(request.id, _REQUEST)
        with convert_os_errors("write", path):
            self._disk.make_folder(drafts_folder(path))
        replace_file(self._disk, path, data)

    def list_waiting(self) -> list[PersonRequest]:
        """What waits, what ends first at its head; what cannot be read is nobody's request."""
        found = []
        for name in self._list_names(_REQUEST):
            with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                path = os.path.join(self._folder, name)
                request = _decode_request(self._disk.read_range(path, 0, SIZE_MAX + 1))
                if f"{request.id}{_REQUEST}" == name and self._folder.endswith(request.thread):
                    found.append(request)
        return sorted(found, key=lambda one: (one.expires_at, one.id))

    def is_waiting(self, request_id: str) -> bool:
        """Whether a request is there that nobody has taken or refused."""
        return self._disk.stat(self._path(request_id, _REQUEST)) is not None

    def reply(self, request_id: str, reply: RequestReply) -> None:
        """Say what became of a request, and remove it.

        Raises:
            DiskError: the disk refused; the request stands.
        """
        replace_file(self._disk, self._path(request_id, _REPLY), msgspec.json.encode(reply))
        self.remove(request_id)

    def read_reply(self, request_id: str) -> RequestReply | None:
        """What became of a request; `None` if nobody has said so yet."""
        try:
            return _decode_reply(self._disk.read(self._path(request_id, _REPLY)))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def remove(self, request_id: str) -> None:
        """Withdraw a request; one that was taken meanwhile is none any more."""
        path = self._path(request_id, _REQUEST)
        with convert_os_errors("remove", path), suppress(FileNotFoundError):
            self._disk.unlink(path)
            self._disk.sync_folder(self._folder)

    def remove_remote(self) -> None:
        """Remove what came over a server and nobody has taken: it comes again, if it counts."""
        for request in self.list_waiting():
            if request.is_remote:
                self.remove(request.id)

    def remove_replies(self, kept: int) -> None:
        """Remove what was said of requests, but for the newest."""
        with suppress(OSError):
            found = self._disk.stats(self._folder, _REPLY)
            oldest = sorted(found, key=lambda name: found[name].mtime_ns)
            for name in oldest[: max(0, len(oldest) - kept)]:
                self._disk.unlink(os.path.join(self._folder, name))

    def remove_all(self) -> None:
        """Remove what waits and what was said of it: the thread goes, or a text goes out of it."""
        for ending in (_REQUEST, _REPLY):
            for name in self._list_names(ending):
                with suppress(FileNotFoundError):
                    self._disk.unlink(os.path.join(self._folder, name))

    def _list_names(self, ending: str) -> list[str]:
        try:
            return sorted(self._disk.list(self._folder, ending))
        except OSError:
            return []

    def _path(self, request_id: str, ending: str) -> str:
        # Paths are made of ids: nothing else becomes one.
        if not _ID.fullmatch(request_id):
            raise UsageError("that is the id of no request")
        return os.path.join(self._folder, request_id + ending)
