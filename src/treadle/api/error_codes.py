"""The ways a server says no: one code, one HTTP status, one meaning each."""

from __future__ import annotations

from enum import Enum


class ErrorCode(Enum):
    """What is wrong with a request. The value is what stands in the answer as `error`."""

    BAD_REQUEST = "bad_request"
    """The request is not formed as the API says; sending it again does not help."""
    UNAUTHORIZED = "unauthorized"
    """No token, or one that is not valid any more."""
    FORBIDDEN = "forbidden"
    """The thread may be seen, but this may not be done with it."""
    NOT_FOUND = "not_found"
    """There is no such thing, or it may not be seen: the two are told apart by nothing."""
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    TIMEOUT = "timeout"
    """The request took too long to arrive."""
    CONFLICT = "conflict"
    """The thread is not where `If-Match` says; the answer says where it is."""
    KEPT_AS_RECORDS = "kept_as_records"
    """The thread is kept as records: a document cannot replace them."""
    GONE = "gone"
    """A share link that has expired or was revoked."""
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA = "unsupported_media"
    BROKEN_CHAIN = "broken_chain"
    """The records are not a journal: a hash, a number or the format is wrong."""
    UNFOLDABLE = "unfoldable"
    """The records cannot be folded: they are of a newer version, or what they go on from is not
    here."""
    REFUSED_PRIVATE = "is_private"
    """What was sent says that it is private: it should never have left its machine."""
    PRECONDITION_REQUIRED = "precondition_required"
    """A change of what is there must say what it changes: `If-Match` is missing."""
    TOO_MANY = "too_many_requests"
    HEADERS_TOO_LARGE = "headers_too_large"
    QUOTA_EXCEEDED = "quota_exceeded"
    """The user, or the organization, keeps as much on the server as it may."""
    LEGAL_HOLD = "legal_hold"
    """A legal hold stands, which the message names: nothing may be removed."""
    INTERNAL = "internal_error"
    UNAVAILABLE = "service_unavailable"
    """The database cannot be reached, or the server is stopping; try again."""

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return _STATUS[self]


_STATUS = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.QUOTA_EXCEEDED: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.NOT_ACCEPTABLE: 406,
    ErrorCode.TIMEOUT: 408,
    ErrorCode.CONFLICT: 409,
    ErrorCode.KEPT_AS_RECORDS: 409,
    ErrorCode.GONE: 410,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA: 415,
    ErrorCode.BROKEN_CHAIN: 422,
    ErrorCode.UNFOLDABLE: 422,
    ErrorCode.REFUSED_PRIVATE: 422,
    ErrorCode.LEGAL_HOLD: 423,
    ErrorCode.PRECONDITION_REQUIRED: 428,
    ErrorCode.TOO_MANY: 429,
    ErrorCode.HEADERS_TOO_LARGE: 431,
    ErrorCode.INTERNAL: 500,
    ErrorCode.UNAVAILABLE: 503,
}
