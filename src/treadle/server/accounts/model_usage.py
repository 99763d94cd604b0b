"""What people have used of models, as it was counted when their threads came in."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, case, func, select

from treadle.api.error_codes import ErrorCode
from treadle.api.usage_types import ModelUsage, ModelUsageLine
from treadle.server.accounts.accounts import check_admin
from treadle.server.context import Context
from treadle.server.data.schema import model_usage, organizations, threads, users
from treadle.server.refusals import Refusal

LINE_COUNT_MAX: Final = 10_000
"""Lines of an answer."""
USER_LINE_COUNT_MAX: Final = 1000
"""Lines of one user; of more the models are not told apart."""
MANY: Final = "(many)"
SUM_COUNT_MAX: Final = 100
"""Sums of one kind."""
_NANO: Final = Decimal("1e-9")

Part: TypeAlias = Literal["day", "user", "model"]
"""What sums are told apart by."""
_PARTS: Final[dict[Part, Any]] = {
    "day": model_usage.c.day,
    "user": users.c.name,
    "model": model_usage.c.model,
}
_SUMS: Final = tuple(
    one.name for one in model_usage.c if one.name not in ("thread_id", "day", "model")
)


def read_model_usage(context: Context, since: str = "") -> ModelUsage:
    """What each user has used of each model on each day, the newest day first.

    Args:
        context: a transaction that reads, of an admin.
        since: the first day, as in `2026-11-21`; empty for all. Days are those of UTC.

    Raises:
        Refusal: the caller is no admin; bad request, if it is more than an answer holds.
    """
    check_admin(context)
    crowded = _list_crowded(context.db, since)
    lines = _read_lines(
        context.db, ("day", "user", "model"), since, LINE_COUNT_MAX + 1, crowded=crowded
    )
    if len(lines) > LINE_COUNT_MAX:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"that is more than {LINE_COUNT_MAX:,} lines",
            hint="ask for what was used since a later day",
        )
    return ModelUsage(tuple(lines))


def sum_usage(
    context: Context, part: Part | None, since: str, *, user: str = "", model: str | None = None
) -> list[ModelUsageLine]:
    """Sums for each day, newest first; or for each user or model, the greatest first.

    Args:
        context: a transaction that reads.
        part: what they are told apart by, and all that each names; `None` for one of all.
        since: the first day, as in `2026-11-21`; empty for all.
        user: of whom alone; only an admin may ask for others, and with an empty name for all.
        model: of which alone.

    Raises:
        Refusal: somebody else's is asked for, by no admin.
    """
    if not user or user != context.caller.user:
        check_admin(context)
    parts = () if part is None else (part,)
    return _read_lines(context.db, parts, since, SUM_COUNT_MAX, user=user, model=model)


def _read_lines(
    db: Connection,
    parts: tuple[Part, ...],
    since: str,
    limit: int,
    *,
    user: str = "",
    model: str | None = None,
    crowded: Sequence[int] = (),
) -> list[ModelUsageLine]:
    columns = [_PARTS[one].label(one) for one in parts]
    if crowded:
        one_for_all = case((users.c.id.in_(crowded), MANY), else_=model_usage.c.model)
        columns[parts.index("model")] = one_for_all.label("model")
    if "user" in parts:
        columns.append(organizations.c.name.label("organization"))
    sums = [func.coalesce(func.sum(model_usage.c[name]), 0).label(name) for name in _SUMS]
    tokens = func.sum(model_usage.c.input_tokens + model_usage.c.output_tokens).desc()
    order = [model_usage.c.day.desc()] if "day" in parts else [tokens]
    query = (
        select(*columns, *sums)
        .select_from(model_usage.join(threads).join(users, users.c.id == threads.c.owner_id))
        .join(organizations, organizations.c.id == users.c.organization_id)
        .group_by(*columns)
        .order_by(*order, *columns)
        .limit(limit)
    )
    if since:
        query = query.where(model_usage.c.day >= since)
    if user:
        query = query.where(users.c.name == user)
    if model is not None:
        query = query.where(model_usage.c.model == model)
    return [_make_line(row._mapping) for row in db.execute(query)]


def _list_crowded(db: Connection, since: str) -> list[int]:
    """Users with so many lines that no others would have room: names of models are forged."""
    columns = (threads.c.owner_id, model_usage.c.day, model_usage.c.model)
    lines = select(*columns).select_from(model_usage.join(threads)).distinct()
    told = lines.where(model_usage.c.day >= since).subquery()
    query = select(told.c.owner_id).group_by(told.c.owner_id)
    return list(db.execute(query.having(func.count() > USER_LINE_COUNT_MAX)).scalars())


def _make_line(row: Any) -> ModelUsageLine:
    tokens, unpriced = row["input_tokens"] + row["output_tokens"], int(row["unpriced_tokens"])
    is_known = tokens > unpriced or not tokens
    return ModelUsageLine(
        day=row.get("day", ""),
        user=row.get("user", ""),
        organization=row.get("organization", ""),
        model=row.get("model", ""),
        requests=int(row["requests"]),
        input_tokens=int(row["input_tokens"]),
        output_tokens=int(row["output_tokens"]),
        cache_read_tokens=int(row["cache_read_tokens"]),
        unpriced_tokens=unpriced,
        cost_usd=(int(row["cost_nanos"]) * _NANO).normalize() if is_known else None,
        has_estimates=bool(row["estimates"]),
    )
