"""The cookie by which a browser is known that has signed in."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from treadle.server.accounts import sessions
from treadle.server.http.request_reader import RequestHead

COOKIE: Final = "treadle-session"
SECURE_COOKIE: Final = "__Host-treadle-session"
"""A browser takes this one over HTTPS only, from this host alone."""
COOKIE_AGE_S: Final = sessions.SESSION_DAYS * 86_400


def set_session_cookie(head: RequestHead, answer: Response, secret: str) -> None:
    """Have the browser keep the secret of its session."""
    answer.set_cookie(
        name_session_cookie(head),
        secret,
        max_age=COOKIE_AGE_S,
        path="/",
        secure=_is_secure(head),
        httponly=True,
        samesite="lax",
    )


def name_session_cookie(head: RequestHead) -> str:
    """What the cookie is called, by how the server is reached."""
    return SECURE_COOKIE if _is_secure(head) else COOKIE


def _is_secure(head: RequestHead) -> bool:
    return head.origin.startswith("https://")
