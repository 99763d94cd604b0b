"""The cookies by which a browser is known: that has signed in, or is about to."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from treadle.server.accounts import sessions
from treadle.server.http.request_reader import RequestHead

COOKIE: Final = "treadle-session"
HOST_PREFIX: Final = "__Host-"
"""A browser takes what is called so over HTTPS only, from this host alone."""
COOKIE_AGE_S: Final = sessions.SESSION_DAYS * 86_400


def set_session_cookie(head: RequestHead, answer: Response, secret: str) -> None:
    """Have the browser keep the secret of its session."""
    set_cookie(head, answer, COOKIE, secret, COOKIE_AGE_S)


def set_cookie(head: RequestHead, answer: Response, name: str, value: str, age_s: int) -> None:
    """Have the browser keep something for so long that no script and no other site reads."""
    answer.set_cookie(
        name_cookie(head, name),
        value,
        max_age=age_s,
        path="/",
        secure=_is_secure(head),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(head: RequestHead, answer: Response, name: str) -> None:
    """Have the browser forget it."""
    answer.delete_cookie(
        name_cookie(head, name), path="/", secure=_is_secure(head), httponly=True, samesite="lax"
    )


def name_cookie(head: RequestHead, name: str = COOKIE) -> str:
    """What a cookie is called, by how the server is reached."""
    return f"{HOST_PREFIX}{name}" if _is_secure(head) else name


def _is_secure(head: RequestHead) -> bool:
    return head.origin.startswith("https://")
