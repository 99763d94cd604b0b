"""What every part of the server is given: a transaction, who asks, and the time."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct, field
from sqlalchemy import Connection

from treadle.api.types import RoleName, Scope


class Quota(Struct, frozen=True):
    """What may be kept on the server: threads, and bytes of them; `None` for any amount."""

    threads_max: int | None = None
    storage_max: int | None = None


UNLIMITED: Final = Quota()


class Principal(Struct, frozen=True):
    """Who asks. Nobody in particular has no user; the holder of a token is its user.

    A database is asked for these once per request, so that a token that is revoked, or a user that
    is disabled, is refused with the next request.
    """

    user_id: int | None = None
    user: str = ""
    organization_id: int | None = None
    organization: str = ""
    role: RoleName = "member"
    is_admin: bool = False
    is_support: bool = False
    token_id: int | None = None
    token_name: str = ""
    token_expires_at: str | None = None
    scope: Scope = "all"
    """What of all that the user may the token may too."""
    quota: Quota = UNLIMITED
    organization_quota: Quota = UNLIMITED
    """Of all its members together."""


ANONYMOUS: Final = Principal()
"""Who asks without a token."""


class ThreadRead(Struct, frozen=True):
    """That something of a thread was read by somebody who is not its owner.

    `key` is the thread's, `user_id` the reader's, `share_id` the link's that has opened it; 0 for
    none.
    """

    key: str
    user_id: int = 0
    share_id: int = 0


class Context(Struct, frozen=True):
    """One request at work: all it reads and writes is one transaction.

    `now` is UTC in the form of records; everything the request notes has happened then. `reads` is
    what others' threads it has read of; whoever answers sees that it is kept.
    """

    db: Connection
    caller: Principal
    now: str
    reads: list[ThreadRead] = field(default_factory=list)

    def note_read(self, key: str, owner_id: int | None, share_id: int = 0) -> None:
        """Note that the caller is given something of a thread; nothing if it is the caller's."""
        user_id = self.caller.user_id or 0
        if user_id != owner_id:
            self.reads.append(ThreadRead(key, user_id, share_id))


class Verb(Enum):
    """What can be done with a thread; `server/accounts/access.py` says who may."""

    LIST = "list"
    SEARCH = "search"
    GET = "get"
    """The document, also of an earlier version."""
    PULL = "pull"
    """Records, large outputs, live changes."""
    CREATE = "create"
    PUSH = "push"
    """Records or a document that replace or follow what is there."""
    SET_VISIBILITY = "set_visibility"
    DELETE = "delete"
    RESTORE = "restore"
    PURGE = "purge"
    """Remove what was said for good."""
    SHARE = "share"
    """Make and list links."""
    UNSHARE = "unshare"
    REQUEST_SUPPORT = "request_support"
    GRANT_SUPPORT = "grant_support"
    """Approve or end support's access."""
