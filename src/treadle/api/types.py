"""The values in requests and answers. The OpenAPI document is generated from these types."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from treadle.thread.document import ThreadSummary
from treadle.thread.facts import Visibility

Time: TypeAlias = Annotated[
    str, Meta(description="UTC, six digits and Z: 2026-11-21T08:15:30.123456Z", max_length=40)
]
Name: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]*$")
]
ThreadId: TypeAlias = Annotated[
    str, Meta(pattern=r"^T-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", max_length=38)
]
QuotaNumber: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
MACHINE_HEADER: Final = "treadle-machine"
"""In which a client may say what its machine is called, for its user's list of tokens."""
PURPOSE_HEADER: Final = "treadle-purpose"
"""In which a client may say what it reads others' threads for, for those whose they are."""

RoleName: TypeAlias = Literal["member", "organization_admin"]
Scope: TypeAlias = Literal["read", "sync", "all"]
"""What a token may; each may what those before it may. `read`: look at threads. `sync`: also send,
change and share them. `all`: also what concerns accounts: tokens, invitations, work of admins."""


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request was refused: `error` is one of `api/error_codes.py`, `message` is for people.

    In a conflict `server_version` and `server_hash` say where the thread is.
    """

    error: str
    message: str
    hint: str = ""
    server_version: int | UnsetType = UNSET
    server_hash: str | UnsetType = UNSET
    client_version: int | UnsetType = UNSET


class ThreadHead(Struct, frozen=True):
    """Where a thread is. `change` counts all changes on this server, in order."""

    thread: str
    version: int
    hash: str
    change: int
    is_deleted: bool = False
    is_purged: bool = False


class ThreadHeads(Struct, frozen=True):
    """The caller's own threads that changed after a `change`, oldest change first.

    `is_last` says that there are no more; otherwise ask again with the last `change`. `stamp` says
    which change that was: send it back with it. `is_reset` says that the server has not got the
    change that was named, or another one in its place (an older backup was put back): these are
    the heads from the beginning, and what was known of the server before is not so.
    """

    heads: tuple[ThreadHead, ...]
    change: int
    is_last: bool
    stamp: str = ""
    is_reset: bool = False


class ListedThread(Struct, frozen=True):
    """A line of a list: the summary, and whose it is."""

    summary: ThreadSummary
    owner: str
    organization: str
    is_deleted: bool = False


class ThreadList(Struct, frozen=True):
    """A page of a list; `total` counts what the filter fits and the caller may see."""

    threads: tuple[ListedThread, ...]
    total: int
    limit: int
    offset: int


class SearchHit(Struct, frozen=True):
    """A thread in which something was found, and its best place; as `treadle search` has it."""

    thread: ListedThread
    version: int
    kind: str
    snippet: str
    ranges: tuple[tuple[int, int], ...]
    count: int
    score: float


class SearchResult(Struct, frozen=True):
    """A page of hits, best first."""

    hits: tuple[SearchHit, ...]
    limit: int
    offset: int


class SetVisibility(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may see the thread."""

    visibility: Visibility


class NewShare(Struct, frozen=True, forbid_unknown_fields=True):
    """A link to be made; without `expires_at` it is good for 30 days."""

    expires_at: Time | None = None


class Share(Struct, frozen=True):
    """A link that was made; the token stands in `url` and is not shown again."""

    url: str
    created_at: str
    expires_at: str


class ShareLine(Struct, frozen=True):
    """A link as it is listed, without its token. Who has read by it is told as `link ID`."""

    created_at: str
    expires_at: str
    is_active: bool
    id: int = 0


class Shares(Struct, frozen=True):
    """The links of a thread, newest first."""

    shares: tuple[ShareLine, ...]


class SharedThread(Struct, frozen=True):
    """What the holder of a link sees; `content` is the conversation of the document."""

    id: str
    title: str | None
    created_at: str
    updated_at: str
    content: dict[str, object]


class SupportAccess(Struct, frozen=True):
    """Whether support may read a thread: `pending`, `active` or `none`."""

    thread: str
    status: Literal["pending", "active", "none"]
    requested_by: str | None = None
    requested_at: str | None = None
    approved_at: str | None = None
    expires_at: str | None = None


class Me(Struct, frozen=True):
    """Who the caller is. `token_id` is the number of the token that was asked with."""

    user: str
    organization: str
    role: RoleName
    is_admin: bool
    is_support: bool
    token_name: str
    token_expires_at: str | None = None
    token_id: int = 0


class NewUser(Struct, frozen=True, forbid_unknown_fields=True):
    """A user to be made."""

    name: Name
    organization: Name
    role: RoleName = "member"
    is_admin: bool = False
    is_support: bool = False


class UserUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be changed about a user; what is left out stays."""

    role: RoleName | UnsetType = UNSET
    is_admin: bool | UnsetType = UNSET
    is_support: bool | UnsetType = UNSET
    is_disabled: bool | UnsetType = UNSET
    threads_max: QuotaNumber | UnsetType | None = UNSET
    """Threads that may be kept; `None` for any number."""
    storage_max: QuotaNumber | UnsetType | None = UNSET
    """Bytes of them."""


class User(Struct, frozen=True):
    """A user."""

    name: str
    organization: str
    role: RoleName
    is_admin: bool
    is_support: bool
    is_disabled: bool
    created_at: str
    threads_max: int | None = None
    storage_max: int | None = None


class Users(Struct, frozen=True):
    """All users."""

    users: tuple[User, ...]


class NewOrganization(Struct, frozen=True, forbid_unknown_fields=True):
    """An organization to be made."""

    name: Name


class Organization(Struct, frozen=True):
    """An organization."""

    name: str
    created_at: str
    user_count: int = 0
    threads_max: int | None = None
    storage_max: int | None = None


class OrganizationUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """What the members of an organization may keep together; what is left out stays."""

    threads_max: QuotaNumber | UnsetType | None = UNSET
    storage_max: QuotaNumber | UnsetType | None = UNSET


class NewInvitation(Struct, frozen=True, forbid_unknown_fields=True):
    """An invitation to be made; by default to the caller's organization, for a week."""

    organization: Name | None = None
    role: RoleName = "member"
    expires_at: Time | None = None


class Invitation(Struct, frozen=True):
    """An invitation that was made; its link is shown this once."""

    id: int
    url: str
    organization: str
    role: RoleName
    created_at: str
    expires_at: str


class InvitationLine(Struct, frozen=True):
    """An invitation as it is listed: it is open, until it is accepted, revoked or over."""

    id: int
    organization: str
    role: RoleName
    created_at: str
    expires_at: str
    is_open: bool
    created_by: str | None = None
    accepted_by: str | None = None


class Invitations(Struct, frozen=True):
    """Invitations, newest first."""

    invitations: tuple[InvitationLine, ...]


class NewIdentity(Struct, frozen=True, forbid_unknown_fields=True):
    """Who at a provider of OpenID Connect a user is; by default at the server's provider."""

    user: Name
    subject: Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]
    issuer: Annotated[str, Meta(max_length=500, pattern=r"^[\x21-\x7e]*$")] = ""


class IdentityLine(Struct, frozen=True):
    """Who at a provider a user is; `email` is for people to know it by."""

    id: int
    user: str
    issuer: str
    subject: str
    email: str
    created_at: str


class Identities(Struct, frozen=True):
    """Identities, newest first."""

    identities: tuple[IdentityLine, ...]


class StorageLine(Struct, frozen=True):
    """What a user keeps on the server, and may keep; `size` and `storage_max` are bytes."""

    user: str
    organization: str
    thread_count: int
    size: int
    threads_max: int | None = None
    storage_max: int | None = None


class StorageUse(Struct, frozen=True):
    """What each user keeps."""

    users: tuple[StorageLine, ...]


class Organizations(Struct, frozen=True):
    """All organizations."""

    organizations: tuple[Organization, ...]


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made; its name is for people."""

    name: Name
    expires_at: Time | None = None
    scope: Scope = "all"


class Token(Struct, frozen=True):
    """A token that was made: `token` is not shown again."""

    id: int
    name: str
    token: str
    created_at: str
    expires_at: str | None = None
    scope: Scope = "all"


class TokenLine(Struct, frozen=True):
    """A token as it is listed; `machine` is what the machine calls itself that used it last.

    `listened_at` is when that asked last, to a minute, what is asked of it from another device.
    """

    id: int
    name: str
    user: str
    created_at: str
    expires_at: str | None = None
    last_used_at: str | None = None
    is_revoked: bool = False
    scope: Scope = "all"
    machine: str | None = None
    listened_at: str | None = None


class Tokens(Struct, frozen=True):
    """Tokens, newest first."""

    tokens: tuple[TokenLine, ...]


class AuditLine(Struct, frozen=True):
    """Who changed what about who may do or see something."""

    id: int
    at: str
    actor: str
    action: str
    thread: str | None
    detail: str


class Audit(Struct, frozen=True):
    """Lines of the audit log, newest first."""

    lines: tuple[AuditLine, ...]


RequestId: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{16,64}$", max_length=64, description="chosen by who asks")
]
MachineId: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$", max_length=16)]
WITHOUT_NUL: Final = r"^[^\x00]*$"
"""PostgreSQL has no text with one."""
RequestState: TypeAlias = Literal["waiting", "taken", "done", "refused", "expired", "withdrawn"]
"""Nobody has it; the machine has it; it was done, was not, came too late, was taken back."""


class NewRemoteRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the caller asks of a machine of theirs, which alone can read what it means.

    `thread` is the thread that it is about; without one it is a device that wants to be paired.
    """

    id: RequestId
    machine: MachineId
    expires_at: Time
    body: Annotated[str, Meta(max_length=512 * 1024, pattern=WITHOUT_NUL)]
    thread: Annotated[str, Meta(pattern=WITHOUT_NUL)] | None = None


class RemoteRequest(Struct, frozen=True):
    """A request, and what became of it, left with the token `left_with`.

    `why` says why it was refused, or which thread was begun, if it asked for one.
    """

    id: str
    machine: str
    thread: str | None
    created_at: str
    expires_at: str
    state: RequestState
    why: str
    body: str
    left_with: str


class RemoteRequests(Struct, frozen=True):
    """What a machine has to look at, oldest first."""

    requests: tuple[RemoteRequest, ...]


class RemoteRequestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which machine asks for what is meant for it."""

    machine: MachineId


class RequestOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a request; `why` is that of `RemoteRequest`."""

    state: Literal["taken", "done", "refused", "withdrawn"]
    why: Annotated[str, Meta(max_length=2000, pattern=WITHOUT_NUL)] = ""


class Health(Struct, frozen=True):
    """Whether the server works: `healthy`, or `unhealthy` with the reason per component."""

    status: Literal["healthy", "unhealthy"]
    version: str
    components: dict[str, str]
