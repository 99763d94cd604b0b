"""Which threads a list or a search is about, and what that is in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

SqlCondition: TypeAlias = tuple[str, tuple[object, ...]]
"""A condition on the table `threads`, and its parameters."""

UNFINISHED: Final = "unfinished"
WAITING: Final = "waiting"
DAMAGED: Final = "damaged"
"""What may be asked for besides the states themselves."""


class ThreadFilters(Struct, frozen=True, omit_defaults=True):
    """All that is set must hold; nothing set is every thread outside the trash.

    `workspace` is a folder: threads that work in it or below it. `branch` is the one a thread was
    last on; `*` and `?` stand for any characters. `commit` is the beginning of a hash that the
    thread has seen or made. `remote` and `model` are parts of the name. All `tags` must be there.
    `state` is a state, or `waiting` (for a person's yes), `unfinished` (that too), `damaged`.
    `since` and `until` bound the last change, in the form of records; `until` itself is outside.
    `is_imported` asks for threads that another program recorded, `is_trashed` for those in the
    trash instead.
    """

    workspace: str | None = None
    branch: str | None = None
    commit: str | None = None
    remote: str | None = None
    tags: tuple[str, ...] = ()
    state: str | None = None
    model: str | None = None
    provider: str | None = None
    since: str | None = None
    until: str | None = None
    is_imported: bool = False
    is_trashed: bool = False


def make_condition(filters: ThreadFilters) -> SqlCondition:
    """The filters as one condition."""
    conditions: list[SqlCondition] = [("trashed = ?", (filters.is_trashed,))]
    for name, condition_of in _CONDITIONS.items():
        value = getattr(filters, name)
        if value:
            conditions.append(condition_of(value))
    parameters = tuple(value for _, values in conditions for value in values)
    return " AND ".join(f"({text})" for text, _ in conditions), parameters


def _match_workspace(folder: str) -> SqlCondition:
    # What is below a folder sorts between "folder/" and "folder0": 0 is the character after /.
    start = folder.rstrip("/") + "/"
    own = folder.rstrip("/") or "/"
    return "workspace = ? OR (workspace >= ? AND workspace < ?)", (own, start, start[:-1] + "0")


def _match_commit(prefix: str) -> SqlCondition:
    # A hash is hex digits: g sorts after all of them.
    prefix = prefix.lower()
    text = "number IN (SELECT number FROM commits WHERE sha >= ? AND sha < ?)"
    return text, (prefix, prefix + "g")


def _match_tags(tags: tuple[str, ...]) -> SqlCondition:
    one = "number IN (SELECT number FROM tags WHERE tag = ?)"
    return " AND ".join([one] * len(tags)), tags


def parse_state(text: str) -> str:
    """The state that a person means, as threads have it."""
    return text.strip().lower().replace(" ", "_").replace("-", "_")


def _match_state(text: str) -> SqlCondition:
    state = parse_state(text)
    found = _STATES.get(state)
    return (found, ()) if found is not None else ("state = ?", (state,))


_STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        UNFINISHED: "is_unfinished OR questions > 0",
        WAITING: "questions > 0",
        DAMAGED: "problem != ''",
    }
)

_CONDITIONS: Final[Mapping[str, Callable[[Any], SqlCondition]]] = MappingProxyType(
    {
        "workspace": _match_workspace,
        "branch": lambda value: ("branch GLOB ?", (value,)),
        "commit": _match_commit,
        "remote": lambda value: ("instr(lower(remote), lower(?))", (value,)),
        "tags": _match_tags,
        "state": _match_state,
        "model": lambda value: ("instr(lower(model), lower(?))", (value,)),
        "provider": lambda value: ("lower(provider) = lower(?)", (value,)),
        "since": lambda value: ("updated_at >= ?", (value,)),
        "until": lambda value: ("updated_at < ?", (value,)),
        "is_imported": lambda _: ("imported_from IS NOT NULL", ()),
    }
)
