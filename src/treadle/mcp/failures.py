"""How work with a server can fail; each says what is known of what has happened."""

from __future__ import annotations


class ConnectionFailed(Exception):  # noqa: N818  it becomes words for a model
    """There is no connection; nothing was called."""


class CallLost(Exception):  # noqa: N818  as above
    """A call was made and its answer did not come: nobody knows whether it happened."""


class CallRefused(Exception):  # noqa: N818  as above
    """The server answered a call with an error of the protocol."""
