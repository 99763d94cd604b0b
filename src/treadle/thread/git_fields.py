"""The repository over a thread's life, from what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from treadle.thread.facts import GitObserved
from treadle.thread.model import GitFields


class GitSeen:
    """The fields so far. One more observation costs the same, however many there were.

    Args:
        fields: what they begin with; it stays as it is.
    """

    __slots__ = ("_commits", "_others")

    def __init__(self, fields: GitFields) -> None:
        self._commits = dict.fromkeys(fields.git_commits)
        self._others = replace(fields, git_commits=())

    def add_commits(self, heads: Iterable[str]) -> None:
        """Commits that were seen: each stands once, in the order they came; never fewer."""
        self._commits.update(dict.fromkeys(heads))

    def add_observation(self, seen: GitObserved, *, is_first: bool) -> None:
        """An observation: initial fields are set by the first, the others by each."""
        git = self._others
        if is_first:
            git = replace(
                git,
                git_initial_branch=seen.branch,
                git_initial_commit_sha=seen.head,
                git_start_dirty=seen.dirty,
            )
        self._others = replace(
            git,
            git_branch=seen.branch,
            git_remote_url=git.git_remote_url or seen.remote,
            git_current_commit_sha=seen.head or git.git_current_commit_sha,
            git_end_dirty=seen.dirty,
        )
        if seen.head is not None:
            self._commits[seen.head] = None

    def fields(self) -> GitFields:
        """The fields as they are now. Costs time in proportion to the commits."""
        return replace(self._others, git_commits=tuple(self._commits))
