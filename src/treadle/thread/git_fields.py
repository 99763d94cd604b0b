"""The repository over a thread's life, from what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from treadle.thread.facts import GitObserved
from treadle.thread.model import GitFields


def with_heads(git: GitFields, heads: Iterable[str]) -> tuple[str, ...]:
    """The commits seen so far and these, each once, in the order they were seen; never fewer."""
    return tuple(dict.fromkeys((*git.git_commits, *heads)))


def after(git: GitFields, seen: GitObserved, *, is_first: bool) -> GitFields:
    """The fields after an observation: initial ones are set by the first, the others by each."""
    if is_first:
        git = replace(
            git,
            git_initial_branch=seen.branch,
            git_initial_commit_sha=seen.head,
            git_start_dirty=seen.dirty,
        )
    return replace(
        git,
        git_branch=seen.branch,
        git_remote_url=git.git_remote_url or seen.remote,
        git_current_commit_sha=seen.head or git.git_current_commit_sha,
        git_end_dirty=seen.dirty,
        git_commits=with_heads(git, () if seen.head is None else (seen.head,)),
    )
