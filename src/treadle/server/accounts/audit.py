"""The audit log: one line for every change of who may see or do something."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from sqlalchemy import insert, select

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Audit, AuditLine
from treadle.server.context import Context
from treadle.server.data import schema
from treadle.server.data.round_trips import compile_postgresql, execute_later
from treadle.server.refusals import Refusal, make_unauthorized_refusal

Action: TypeAlias = Literal[
    "organization_made",
    "organization_changed",
    "user_made",
    "invitation_made",
    "invitation_accepted",
    "invitation_revoked",
    "user_changed",
    "token_made",
    "token_revoked",
    "signed_in",
    "identity_linked",
    "identity_removed",
    "feed_made",
    "webhook_made",
    "webhook_removed",
    "webhook_disabled",
    "thread_made",
    "visibility_set",
    "thread_deleted",
    "thread_restored",
    "thread_purged",
    "thread_rewritten",
    "share_made",
    "share_revoked",
    "support_requested",
    "support_granted",
    "support_ended",
    "hold_placed",
    "hold_lifted",
    "retention_changed",
    "thread_expired",
]
"""All that is noted. What was said in a thread, its title, and tokens are in no line."""

LINE_COUNT_MAX: Final = 1000
"""Of one answer."""

_INSERT: Final = insert(schema.audit).inline()
_INSERT_SQL: Final = compile_postgresql(
    _INSERT, ["at", "actor_id", "action", "thread_id", "detail"]
)

OPERATOR: Final = "operator"
"""Who works on the database itself, on the server's machine; no user has done it."""


def log_action(
    context: Context, action: Action, thread_id: str | None = None, detail: str = ""
) -> None:
    """Write a line, in the transaction of what it tells: both are there, or neither.

    Args:
        context: whose request it is.
        action: what was done.
        thread_id: with which thread, if with one.
        detail: names, numbers and settings only.
    """
    values = {
        "at": context.now,
        "actor_id": context.caller.user_id,
        "action": action,
        "thread_id": thread_id,
        "detail": detail,
    }
    if context.db.dialect.name == "postgresql":
        execute_later(context.db, _INSERT_SQL, values)
    else:
        context.db.execute(_INSERT, values)


def list_lines(context: Context, limit: int = 100, before: int | None = None) -> Audit:
    """The newest lines of the log, for admins.

    Args:
        context: whose request it is.
        limit: how many, 1 to `LINE_COUNT_MAX`.
        before: only lines with a smaller id, to go on where an answer ended.

    Raises:
        Refusal: the caller is no admin, or `limit` is out of bounds.
    """
    if not context.caller.is_admin:
        raise _make_refusal(context)
    if not 1 <= limit <= LINE_COUNT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"limit is a number from 1 to {LINE_COUNT_MAX}")
    log, users = schema.audit.c, schema.users.c
    query = (
        select(log.id, log.at, users.name, log.action, log.thread_id, log.detail)
        .select_from(schema.audit.outerjoin(schema.users))
        .order_by(log.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(log.id < before)
    return Audit(
        tuple(
            AuditLine(row.id, row.at, row.name or OPERATOR, row.action, row.thread_id, row.detail)
            for row in context.db.execute(query)
        )
    )


def _make_refusal(context: Context) -> Refusal:
    if context.caller.user_id is None:
        return make_unauthorized_refusal()
    return Refusal(ErrorCode.FORBIDDEN, "only admins of this server may do this")
