"""What the server will not take, said so that whoever reads it knows the next step. Pure."""

from __future__ import annotations

from treadle.api.error_codes import ErrorCode
from treadle.errors import RemoteRefusedError

LOST_SCRUB_TEXT = (
    "another machine has scrubbed it too and was first: the text that was scrubbed here stands in "
    "it again, and nothing here knows it any more; scrub that text again"
)
"""A scrub of ours gave way to another one: it is to be done anew."""


def explain_refusal(error: RemoteRefusedError, base: str, *, is_lent: bool = False) -> str:
    """Why a thread is parked, and what can be done.

    Args:
        error: what the server said.
        base: the thread that it goes on from; empty if none.
        is_lent: whether that was taken from another user's on a server, and not gone on with.
    """
    if error.code == ErrorCode.TOO_LARGE.value:
        return (
            f"{error.message}; one write of it is larger than that: whoever runs the server can "
            "raise `treadle serve --body-max`"
        )
    if error.code == ErrorCode.UNFOLDABLE.value and base and is_lent:
        return (
            f"{error.message}: {base} is another user's, who shows it there no more; "
            f"`treadle sync {base}` sends the copy that is here as your own, then this one goes too"
        )
    if error.code == ErrorCode.UNFOLDABLE.value and base:
        return (
            f"{error.message}; it goes on from a branch of {base} which was merged and that only "
            "this machine keeps: it stays here, whole, and `treadle export` gives it to others"
        )
    if error.code == ErrorCode.LEGAL_HOLD.value:
        return (
            f"{error.message}; the server's copy stays as it is, and this one too: `treadle sync` "
            "with its id asks again when the hold is lifted"
        )
    if error.code == ErrorCode.QUOTA_EXCEEDED.value:
        return (
            f"{error.message}; it waits here: ask whoever runs the server for more room, or take "
            "threads off it (docs/server.md, Deleting)"
        )
    return error.message


def describe_resend(thread_id: str) -> str:
    """What is said of a scrubbed thread that went to the server in pieces."""
    return (
        f"{thread_id} is too large to be replaced on the server at once: it was removed there and "
        "sent again; links to it have ended"
    )


def describe_remote_scrub(thread_id: str) -> str:
    """What is said of a thread out of which a text was taken because the server's copy lacks it."""
    return (
        f"{thread_id} was scrubbed on another machine: what was taken out there is gone here too; "
        "if nobody has done that, ask whoever runs the server"
    )


def describe_removal(thread_id: str, private: str) -> str:
    """What is said of a thread that is removed because of another one."""
    return (
        f"{thread_id} was removed from the server too: it hangs on {private}, which is private "
        "here; machines that have it keep it, and are told"
    )
