"""What people ask of their own machines by way of this server, until the machine has taken it.

The server carries it and does not look into it: who may leave one and who may fetch it is all that
it decides, and that is the same user. What was asked goes with its end, or a day after its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from msgspec.structs import replace
from sqlalchemy import Row, and_, delete, func, insert, or_, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import (
    NewRemoteRequest,
    RemoteRequest,
    RemoteRequests,
    RequestOutcome,
    RequestState,
)
from treadle.server.accounts import access
from treadle.server.accounts.times import parse_time, shift_time
from treadle.server.context import Context, Verb
from treadle.server.data.schema import remote_requests, threads, tokens
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal
from treadle.server.threads.change_feed import publish_change

HOLDS_S_MAX: Final = 24 * 3600
"""Seconds for which a request may wait, and for which what became of it is told after that."""
WAITING_MAX: Final = 100
"""Requests of a user that are not over."""

STARTS_S: Final = 3600
"""Seconds for which it is shown what became of a start."""
STARTS_MAX: Final = 10
"""Starts that are shown."""

_OPEN: Final = ("waiting", "taken")
MOVES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "waiting": frozenset({"taken", "done", "refused", "withdrawn"}),
        "taken": frozenset({"done", "refused"}),
    }
)
"""What can become of a request, by its state; one that is over stays as it is."""


def leave_request(context: Context, new: NewRemoteRequest) -> RemoteRequest:
    """Keep a request for a machine of the caller, and wake whoever listens there.

    Raises:
        Refusal: the thread is not the caller's own; its time is none or too far away; its id is
            used; too many wait.
    """
    user_id = _require_user(context)
    until = parse_time(new.expires_at)
    if not context.now < until <= shift_time(context.now, seconds=HOLDS_S_MAX):
        raise Refusal(
            ErrorCode.BAD_REQUEST, "a request waits for a day at most, and not for no time"
        )
    rows = remote_requests.c
    long_ago = shift_time(context.now, seconds=-HOLDS_S_MAX)
    is_mine = rows.user_id == user_id
    context.db.execute(delete(remote_requests).where(is_mine, rows.expires_at < long_ago))
    is_open = and_(is_mine, rows.state.in_(_OPEN), rows.expires_at > context.now)
    count = context.db.execute(select(func.count()).where(is_open)).scalar_one()
    if count >= WAITING_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"{count} requests wait already")
    thread = None if new.thread is None else _find_own_thread(context, new.thread)
    if context.db.execute(select(rows.id).where(rows.id == new.id)).first() is not None:
        raise Refusal(ErrorCode.BAD_REQUEST, "a request of this id was left already")
    values = {
        "id": new.id,
        "user_id": user_id,
        "token_id": context.caller.token_id,
        "thread_id": None if thread is None else thread.key,
        "machine": new.machine,
        "created_at": context.now,
        "expires_at": until,
        "state": "waiting",
        "why": "",
        "body": new.body,
    }
    context.db.execute(insert(remote_requests).values(values))
    answer = RemoteRequest(
        new.id,
        new.machine,
        None if thread is None else thread.id,
        context.now,
        until,
        "waiting",
        "",
        new.body,
        context.caller.token_name,
    )
    if thread is not None:
        publish_change(context, thread.key, Mark(thread.version, thread.hash), "request")
    return answer


def list_requests(context: Context, machine: str) -> RemoteRequests:
    """What a machine of the caller has to look at, oldest first; what is too late is not among it.

    What was left with a token that is good no more is nobody's request.
    """
    user_id, rows = _require_user(context), remote_requests.c
    is_good = and_(
        tokens.c.revoked_at.is_(None),
        or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > context.now),
    )
    query = (
        _select_requests()
        .where(rows.user_id == user_id, rows.machine == machine, rows.state.in_(_OPEN))
        .where(rows.expires_at > context.now, is_good)
        .order_by(rows.created_at, rows.id)
        .limit(WAITING_MAX)
    )
    return RemoteRequests(tuple(_make_request(context, row) for row in context.db.execute(query)))


def list_own_requests(context: Context) -> tuple[RemoteRequest, ...]:
    """What the caller has asked of all machines and is not over, newest first."""
    user_id, rows = _require_user(context), remote_requests.c
    query = (
        _select_requests()
        .where(rows.user_id == user_id, rows.state.in_(_OPEN), rows.expires_at > context.now)
        .order_by(rows.created_at.desc(), rows.id)
        .limit(WAITING_MAX)
    )
    return tuple(_make_request(context, row) for row in context.db.execute(query))


def list_starts(context: Context) -> tuple[RemoteRequest, ...]:
    """What the caller has lately asked of machines that is of no thread, newest first.

    That is to begin one, or to pair a device: the server does not look into it. Of a device that
    is paired, and of what was taken back, nothing is told. `thread` is what was begun, once its
    machine has sent it.
    """
    user_id, rows = _require_user(context), remote_requests.c
    query = (
        _select_requests()
        .where(rows.user_id == user_id, rows.thread_id.is_(None))
        .where(rows.created_at > shift_time(context.now, seconds=-STARTS_S))
        .where(rows.state != "withdrawn", or_(rows.state != "done", rows.why != ""))
        .order_by(rows.created_at.desc(), rows.id)
        .limit(STARTS_MAX)
    )
    found = [_make_request(context, row) for row in context.db.execute(query)]
    begun = {one.why for one in found if one.state == "done"}
    mine = select(threads.c.id).where(threads.c.owner_id == user_id, threads.c.id.in_(begun))
    here = {*context.db.execute(mine.where(threads.c.deleted_at.is_(None))).scalars()}
    return tuple(
        replace(one, thread=one.why) if one.state == "done" and one.why in here else one
        for one in found
    )


def get_request(context: Context, request_id: str) -> RemoteRequest:
    """One request of the caller.

    Raises:
        Refusal: there is none of this id, or it is somebody else's.
    """
    return _make_request(context, _find_request(context, request_id))


def settle_request(context: Context, request_id: str, outcome: RequestOutcome) -> RemoteRequest:
    """Say what became of a request. What is said twice is said once.

    Raises:
        Refusal: as `get_request`; or it is over, or taken and cannot be taken back.
    """
    row = _find_request(context, request_id)
    state = _find_state(context, row)
    if state == outcome.state:
        return _make_request(context, row)
    if outcome.state not in MOVES.get(state, frozenset()):
        raise Refusal(ErrorCode.BAD_REQUEST, f"this request is {state} already")
    is_over = outcome.state != "taken"
    rows = remote_requests.c
    moved = (
        update(remote_requests)
        .where(rows.id == request_id, rows.state == row.state)
        .values(state=outcome.state, why=outcome.why, body="" if is_over else row.body)
    )
    if context.db.execute(moved).rowcount != 1:
        raise Refusal(ErrorCode.BAD_REQUEST, "something else has become of this request meanwhile")
    return get_request(context, request_id)


def _require_user(context: Context) -> int:
    if context.caller.user_id is None:
        raise make_unauthorized_refusal()
    return context.caller.user_id


def _find_own_thread(context: Context, thread_id: str) -> Row[Any]:
    row = access.find_thread(context, thread_id, Verb.PUSH, for_update=True)
    if row.owner_id != context.caller.user_id or row.deleted_at or row.purged_at:
        raise make_not_found_refusal()
    return row


def _select_requests() -> Any:
    joined = remote_requests.join(tokens, tokens.c.id == remote_requests.c.token_id)
    joined = joined.outerjoin(threads, threads.c.key == remote_requests.c.thread_id)
    named = (tokens.c.name.label("left_with"), threads.c.id.label("thread"))
    return select(remote_requests, *named).select_from(joined)


def _find_request(context: Context, request_id: str) -> Row[Any]:
    user_id, rows = _require_user(context), remote_requests.c
    query = _select_requests().where(rows.id == request_id, rows.user_id == user_id)
    found = context.db.execute(query).one_or_none()
    if found is None:
        raise make_not_found_refusal()
    return found


def _find_state(context: Context, row: Row[Any]) -> RequestState:
    is_late = row.state == "waiting" and row.expires_at <= context.now
    return "expired" if is_late else cast("RequestState", row.state)


def _make_request(context: Context, row: Row[Any]) -> RemoteRequest:
    return RemoteRequest(
        row.id,
        row.machine,
        row.thread,
        row.created_at,
        row.expires_at,
        _find_state(context, row),
        row.why,
        row.body,
        row.left_with,
    )
