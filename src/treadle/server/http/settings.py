"""What a server is started with: where it listens, and every limit it keeps."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from treadle.server.oidc.settings import OidcProvider

MIB: Final = 1024 * 1024


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Limits and names of one server. Times are in seconds, sizes in bytes, of each process.

    The defaults are for a team; tests make the times short.
    """

    base_url: str = ""
    """What links begin with; empty: what the request was asked under."""
    oidc: OidcProvider | None = None
    """At which provider people may sign in, beside tokens."""
    has_public_metrics: bool = False
    """Whether `/metrics` is for anybody; else for admins and for callers on this machine."""
    is_behind_proxy: bool = False
    """Whether the last address of `X-Forwarded-For` is to be believed: a proxy wrote it."""

    allows_private_webhooks: bool = False
    """Whether webhooks may lead into private networks, and to any port."""

    header_time_s: float = 10.0
    """From the connection, or the first byte of a request, until its headers are complete."""
    idle_time_s: float = 10.0
    """How long a connection may wait for its next request."""
    header_size_max: int = 64 * 1024
    """Of all headers of a request together; the request line counts too."""
    header_count_max: int = 100
    url_size_max: int = 8 * 1024
    connection_count_max: int = 4096
    """Connections at a time. Then those that have asked nothing yet make room, oldest first."""

    body_size_max: int = 16 * MIB
    """Of what is sent, and of what it becomes unpacked."""
    body_time_s: float = 30.0
    """Until a body is there, if it does not come faster than `body_rate_min`."""
    body_rate_min: int = 64 * 1024
    """Bytes per second; a large body may take longer than `body_time_s` at this pace."""
    body_room_max: int = 256 * MIB
    """All bodies that are held at a time."""
    write_time_s: float = 30.0
    """How long a reader may take for what is under way to it, 64 KiB at most."""
    linger_time_s: float = 2.0
    """How long a refused sender has to read the refusal before the connection ends."""

    rate: float = 100.0
    """Requests per second and user, or address without a token; 0: not limited."""
    burst: int = 1000
    """How many requests may come at once before the rate counts."""
    worker_count: int = 16
    """Requests that read in the database at a time; as many more may write."""
    queue_max: int = 512
    """Requests that wait for one of these; more are asked to come back."""

    stream_count_max: int = 1000
    """Streams of changes that are open at a time."""
    stream_count_max_per_user: int = 20
    heartbeat_time_s: float = 15.0
    """Between two signs of life in a stream."""
    poll_time_s: float = 1.0
    """How often a process asks the database what others have changed, while somebody listens.

    The rights of all who listen are looked at as often.
    """
    health_time_s: float = 5.0
    """A database that has not answered by then does not work."""
    stop_time_s: float = 5.0
    """How long requests may go on when the server is asked to stop."""
