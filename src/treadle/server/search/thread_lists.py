"""Lists of threads: which the caller may see, which of them a filter fits, and what is shown."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, exists, false, func, or_, select, true

from treadle.api.error_codes import ErrorCode
from treadle.api.types import ListedThread, ThreadList
from treadle.exchange.times import parse_timestamp
from treadle.server.accounts import access
from treadle.server.context import Context
from treadle.server.data.schema import organizations, repos, thread_commits, threads, users
from treadle.server.refusals import Refusal
from treadle.store.index.filters import UNFINISHED, WAITING, parse_state
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import Visibility

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 200
OFFSET_MAX: Final = 10_000
VALUE_LENGTH_MAX: Final = 4096
TAG_COUNT_MAX: Final = 16

_decode: Final = msgspec.json.Decoder(ThreadSummary).decode
_TO_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Filters(Struct, frozen=True, omit_defaults=True):
    """All that is set must hold; nothing set is every live thread that the caller may see.

    `workspace` is a folder: threads that work in it or below it. `branch` is the one a thread was
    last on; `*` and `?` stand for any characters. `commit` is the beginning of a hash that the
    thread has seen or made. `repo` is the remote, as host and path. All `tags` must be there.
    `state` is a state, or `waiting` (for a person's yes), or `unfinished` (that too). `owner` is a
    user. `machine` is `chat` or `task`; `model` a part of the name. `since` and `until` bound the
    last activity; `until` itself is outside. `is_deleted` asks for the caller's own deleted threads
    instead, `is_imported` for those that another program recorded.
    """

    workspace: str | None = None
    branch: str | None = None
    commit: str | None = None
    repo: str | None = None
    tags: tuple[str, ...] = ()
    state: str | None = None
    owner: str | None = None
    visibility: Visibility | None = None
    machine: str | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None
    is_deleted: bool = False
    is_imported: bool = False


ALL_THREADS: Final = Filters()


def parse_filters(parameters: Mapping[str, Sequence[str]]) -> Filters:
    """The filters that the parameters of a request name.

    Args:
        parameters: the values of each parameter. The names are those of `Filters`, but `tag` for
            each of `tags`, and `deleted` and `imported`, which are `true` or `false`. Others are
            not looked at; an empty text is none.

    Raises:
        Refusal: `bad_request`; a value has not the form it must have, or stands there twice.
    """
    found: dict[str, object] = {}
    for parameter, (field, read) in _PARAMETERS.items():
        values = parameters.get(parameter, ())
        if parameter == "tag":
            if len(values) > TAG_COUNT_MAX:
                raise _make_parameter_refusal("tag", f"at most {TAG_COUNT_MAX}")
            found[field] = tuple(read(parameter, value) for value in values if value)
        elif len(values) > 1:
            raise _make_parameter_refusal(parameter, "given once")
        elif values:
            found[field] = read(parameter, values[0])
    return Filters(**found)  # type: ignore[arg-type]


def _make_parameter_refusal(parameter: str, requirement: str) -> Refusal:
    return Refusal(ErrorCode.BAD_REQUEST, f"the parameter `{parameter}` must be {requirement}")


def _parse_text(parameter: str, value: str) -> str:
    is_text = "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    if len(value) > VALUE_LENGTH_MAX or not is_text:
        raise _make_parameter_refusal(parameter, f"text of at most {VALUE_LENGTH_MAX} characters")
    return value


def _parse_commit(parameter: str, value: str) -> str:
    if not 0 < len(value) <= 64 or not {*value} <= {*string.hexdigits}:
        raise _make_parameter_refusal(parameter, "1 to 64 hex digits")
    return value.translate(_TO_LOWER)


def _parse_time(parameter: str, value: str) -> str:
    found = parse_timestamp(value)
    if not found:
        raise _make_parameter_refusal(parameter, "a time as in RFC 3339")
    return found


def _parse_flag(parameter: str, value: str) -> bool:
    return _make_choice_parser("true", "false")(parameter, value) == "true"


def _make_choice_parser(*allowed: str) -> Callable[[str, str], str]:
    def read(parameter: str, value: str) -> str:
        if value not in allowed:
            raise _make_parameter_refusal(parameter, f"one of {', '.join(allowed)}")
        return value

    return read


_PARAMETERS: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = MappingProxyType(
    {
        "workspace": ("workspace", _parse_text),
        "branch": ("branch", _parse_text),
        "commit": ("commit", _parse_commit),
        "repo": ("repo", _parse_text),
        "tag": ("tags", _parse_text),
        "state": ("state", _parse_text),
        "owner": ("owner", _parse_text),
        "visibility": ("visibility", _make_choice_parser(*get_args(Visibility))),
        "machine": ("machine", _make_choice_parser("chat", "task")),
        "model": ("model", _parse_text),
        "since": ("since", _parse_time),
        "until": ("until", _parse_time),
        "deleted": ("is_deleted", _parse_flag),
        "imported": ("is_imported", _parse_flag),
    }
)


def check_page(limit: int, offset: int) -> None:
    """See that a page has bounds.

    Raises:
        Refusal: `bad_request`; it has not.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise _make_parameter_refusal("limit", f"1 to {LIMIT_MAX}")
    if not 0 <= offset <= OFFSET_MAX:
        raise _make_parameter_refusal("offset", f"0 to {OFFSET_MAX}")


def list_threads(
    context: Context, filters: Filters = ALL_THREADS, limit: int = LIMIT_DEFAULT, offset: int = 0
) -> ThreadList:
    """The threads that the caller may see, those with the newest activity first.

    Args:
        context: the request; its transaction may be one that only reads.
        filters: which of them.
        limit: how many at most, 1 to 200.
        offset: how many to pass over, 0 to 10,000.

    Raises:
        Refusal: `bad_request`; a bound is passed.
    """
    check_page(limit, offset)
    fitting = _make_condition(context, filters)
    keys, total = _read_keys(context.db, fitting, limit, offset)
    shown = read_listed_threads(context.db, keys)
    return ThreadList(tuple(shown[one][0] for one in keys), total, limit, offset)


def read_listed_threads(
    db: Connection, keys: Sequence[str]
) -> dict[str, tuple[ListedThread, int | None]]:
    """What lists show of threads; with it the version, if the thread is kept as a document.

    Args:
        db: a transaction.
        keys: of threads that the caller may see; at most `LIMIT_MAX`.
    """
    rows = db.execute(
        select(
            threads.c.key,
            threads.c.kind,
            threads.c.version,
            threads.c.summary,
            threads.c.deleted_at,
            users.c.name.label("owner"),
            organizations.c.name.label("organization"),
        )
        .join(users, users.c.id == threads.c.owner_id)
        .join(organizations, organizations.c.id == threads.c.organization_id)
        .where(threads.c.key.in_(keys))
    )
    return {
        row.key: (
            ListedThread(
                _decode(row.summary), row.owner, row.organization, row.deleted_at is not None
            ),
            row.version if row.kind == "document" else None,
        )
        for row in rows
    }


def list_threads_by_id(
    db: Connection, prefix: str, condition: ColumnElement[bool], limit: int, offset: int
) -> tuple[list[str], int]:
    """A page of the keys of threads whose id begins so, newest activity first, and their number."""
    fitting = and_(threads.c.id.startswith(prefix, autoescape=True), condition)
    return _read_keys(db, fitting, limit, offset)


def _read_keys(
    db: Connection, fitting: ColumnElement[bool], limit: int, offset: int
) -> tuple[list[str], int]:
    total: int = db.execute(select(func.count()).select_from(threads).where(fitting)).scalar_one()
    rows = db.execute(
        select(threads.c.key)
        .where(fitting)
        .order_by(threads.c.last_activity_at.desc(), threads.c.key.desc())
        .limit(limit)
        .offset(offset)
    )
    return [row[0] for row in rows], total


def _make_condition(context: Context, filters: Filters) -> ColumnElement[bool]:
    visible = access.make_visibility_condition(
        context.caller, context.now, include_deleted=filters.is_deleted
    )
    conditions = [visible]
    if filters.is_deleted:
        conditions.append(threads.c.deleted_at.is_not(None))
    if filters.branch:
        conditions.append(_match_branch(filters.branch, context.db.dialect.name))
    for name, condition_of in _CONDITIONS.items():
        value = getattr(filters, name)
        if value:
            conditions.append(condition_of(value))
    return and_(*conditions)


def match_workspace(folder: str) -> ColumnElement[bool]:
    """Threads that work in a folder or below it."""
    own = folder.rstrip("/") or "/"
    # What is below a folder sorts between "folder/" and "folder0": 0 is the character after /.
    start = folder.rstrip("/") + "/"
    root = threads.c.workspace_root
    return or_(root == own, and_(root >= start, root < start[:-1] + "0"))


def _match_branch(pattern: str, dialect: str) -> ColumnElement[bool]:
    """As `GLOB` of SQLite has it; its LIKE does not tell small letters from capitals."""
    branch = threads.c.git_branch
    if not {*pattern} & {"*", "?"}:
        return branch == pattern
    if dialect == "sqlite":
        return branch.op("GLOB")(pattern.replace("[", "[[]"))
    for sign in "\\%_":
        pattern = pattern.replace(sign, "\\" + sign)
    return branch.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")


def _match_commit(prefix: str) -> ColumnElement[bool]:
    # A hash is hex digits: g sorts after all of them.
    seen = thread_commits.c.commit_sha
    return exists().where(
        thread_commits.c.thread_id == threads.c.key, seen >= prefix, seen < prefix + "g"
    )


def _match_tags(tags: tuple[str, ...]) -> ColumnElement[bool]:
    """As JSON has them: a quote within a tag has a backslash before it, its last one none."""
    conditions: list[ColumnElement[bool]] = [true()]
    for tag in tags:
        written = msgspec.json.encode(tag).decode()
        conditions.append(or_(*(_contains_text(threads.c.tags, sign + written) for sign in "[,")))
    return and_(*conditions)


def _contains_text(column: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    """Whether a text holds another, byte for byte; LIKE of SQLite would be more generous."""
    return func.replace(column, part, "") != column


def _match_state(text: str) -> ColumnElement[bool]:
    """The summary's JSON tells what the columns do not; what is not so is left out of it."""
    state = parse_state(text)
    waiting = _contains_text(threads.c.summary, '"questions":')
    if state == WAITING:
        return waiting
    if state == UNFINISHED:
        return or_(waiting, _contains_text(threads.c.summary, '"is_unfinished":true'))
    return threads.c.agent_state_kind == state


def _match_model(part: str) -> ColumnElement[bool]:
    if not part:
        return false()
    return func.lower(threads.c.model).contains(part.translate(_TO_LOWER), autoescape=True)


_CONDITIONS: Final[Mapping[str, Callable[[Any], ColumnElement[bool]]]] = MappingProxyType(
    {
        "workspace": match_workspace,
        "commit": _match_commit,
        "repo": lambda value: threads.c.repo_id.in_(
            select(repos.c.id).where(repos.c.slug == value)
        ),
        "tags": _match_tags,
        "state": _match_state,
        "owner": lambda value: threads.c.owner_id.in_(
            select(users.c.id).where(users.c.name == value)
        ),
        "visibility": lambda value: threads.c.visibility == value,
        "machine": lambda value: threads.c.machine == value,
        "model": _match_model,
        "since": lambda value: threads.c.last_activity_at >= value,
        "until": lambda value: threads.c.last_activity_at < value,
        "is_imported": lambda _: _contains_text(threads.c.summary, '"imported_from":"'),
    }
)
