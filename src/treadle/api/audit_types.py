"""The values in which a server tells who has read what."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

ReadWay: TypeAlias = Literal["page", "api", "sync", "show", "export", "fork", "search", "link"]
"""How something was read: on a page, by a link, in hits of a search, or by the API, of which our
own client says what for."""

CLIENT_PURPOSES: Final[tuple[ReadWay, ...]] = ("sync", "show", "export", "fork")
"""What a client may say that it reads for."""


class ReadLine(Struct, frozen=True):
    """That somebody has read a thread of somebody else within an hour.

    Args:
        id: of the line; later lines have greater ones.
        thread: the thread's id.
        owner: whose it is.
        reader: the name of a user, `link ID` for who has opened a link, `anybody` for who has read
            what is public without an account.
        first_at: when the first time was in that hour.
        last_at: when a new way or address was seen last in it.
        ways: how.
        addresses: from where; of a colleague they are told to admins alone.
    """

    id: int
    thread: str
    owner: str
    reader: str
    first_at: str
    last_at: str
    ways: tuple[str, ...]
    addresses: tuple[str, ...] = ()


class ThreadReads(Struct, frozen=True):
    """A page of who has read, newest first."""

    reads: tuple[ReadLine, ...]
