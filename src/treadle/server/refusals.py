"""How the server says no, from wherever it is noticed."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import Problem


class Refusal(Exception):  # noqa: N818  it is an answer, not a fault of the server
    """Ends a request with an answer that says why; the transaction it is raised in changes nothing.

    Args:
        code: what is wrong.
        message: one sentence, for people; names what was wrong and holds nothing of what was sent.
        hint: what to do next; may be empty.
        stands_at: in a conflict, where the thread is.
        client_version: in a conflict, where the caller said that it is.
        headers: more headers of the answer.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        hint: str = "",
        stands_at: Mark | None = None,
        client_version: int | UnsetType = UNSET,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}
        self.problem = Problem(
            code.value,
            message,
            hint,
            UNSET if stands_at is None else stands_at.seq,
            UNSET if stands_at is None else stands_at.hash,
            client_version,
        )


def make_not_found_refusal() -> Refusal:
    """The one answer for all that is not there or may not be seen."""
    return Refusal(ErrorCode.NOT_FOUND, "there is no such thing here, or you may not see it")


def make_unauthorized_refusal() -> Refusal:
    """The one answer to who brings no token, or one that is not valid or not valid any more."""
    return Refusal(
        ErrorCode.UNAUTHORIZED,
        "a valid token is needed",
        hint="`treadle login URL` takes one; an admin makes it",
        headers={"WWW-Authenticate": "Bearer"},
    )
