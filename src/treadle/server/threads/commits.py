"""Which commits of which repositories a thread has seen, as rows that can be looked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, insert, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from treadle.server.data.schema import repos, thread_commits
from treadle.server.threads.columns import parse_commit, truncate_for_index
from treadle.thread.document import GitFields
from treadle.thread.facts import GitObserved


def insert_if_absent(db: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row if none is there that has its key; gives whether it did."""
    kind = postgresql if db.dialect.name == "postgresql" else sqlite
    # The values stand beside the statement, which is compiled once for all rows.
    made = kind.insert(table).on_conflict_do_nothing().returning(literal(1))
    return db.execute(made, values).one_or_none() is not None


def ensure_repo(db: Connection, slug: str | None, now: str) -> int | None:
    """The number of a repository, by its `host/path`; `None` for one without a remote."""
    slug = truncate_for_index(slug)
    if not slug:
        return None
    query = select(repos.c.id).where(repos.c.slug == slug)
    found = db.execute(query).scalar_one_or_none()
    if found is None:
        insert_if_absent(db, repos, {"slug": slug, "created_at": now})
        found = db.execute(query).scalar_one()
    return int(found)


def update_commits(
    db: Connection,
    key: str,
    git: GitFields,
    repo_id: int | None,
    observations: Mapping[str, tuple[str, GitObserved]],
    fallback_time: str,
) -> None:
    """Bring a thread's commits up to what its repository was seen to be.

    One without a remote has rows as well: commits are looked for by their name alone.

    Args:
        db: a transaction that writes.
        key: of the thread.
        git: its repository now.
        repo_id: that repository's number.
        observations: commits as they were observed just now, with the time.
        fallback_time: the time of those that nobody observed: another branch has brought them.
    """
    mine = thread_commits.c.thread_id == key
    known = set(db.execute(select(thread_commits.c.commit_sha).where(mine)).scalars())
    new = [sha for sha in git.git_commits if sha not in known and parse_commit(sha) is not None]
    rows = [
        _make_row(key, sha, git, observations.get(sha), fallback_time) for sha in dict.fromkeys(new)
    ]
    if rows:
        db.execute(insert(thread_commits), rows)
    db.execute(
        update(thread_commits)
        .where(mine)
        .values(
            repo_id=repo_id,
            is_initial=thread_commits.c.commit_sha == (git.git_initial_commit_sha or ""),
            is_final=thread_commits.c.commit_sha == (git.git_current_commit_sha or ""),
        )
    )


def collect_observations(entries: Iterable[tuple[str, Any]]) -> dict[str, tuple[str, GitObserved]]:
    """Each commit that was seen, by the first observation of it, with its time."""
    found: dict[str, tuple[str, GitObserved]] = {}
    for at, entry in entries:
        if isinstance(entry, GitObserved) and entry.head is not None:
            found.setdefault(entry.head, (at, entry))
    return found


def _make_row(
    key: str,
    sha: str,
    git: GitFields,
    observation: tuple[str, GitObserved] | None,
    fallback_time: str,
) -> dict[str, Any]:
    when, branch, is_dirty = fallback_time, git.git_branch, False
    if observation is not None:
        when, branch, is_dirty = observation[0], observation[1].branch, observation[1].dirty
    elif sha == git.git_current_commit_sha:
        is_dirty = bool(git.git_end_dirty)
    return {
        "thread_id": key,
        "commit_sha": sha,
        "branch": truncate_for_index(branch),
        "is_dirty": is_dirty,
        "is_initial": False,
        "is_final": False,
        "observed_at": when,
    }
