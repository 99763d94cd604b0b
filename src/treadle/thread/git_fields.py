"""The repository over a thread's life, from what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from treadle.thread.document import GitFields
from treadle.thread.facts import GitObserved


class GitFieldsFold:
    """The fields so far. One more observation costs the same, however many there were.

    Args:
        fields: what they begin with; it stays as it is.
    """

    __slots__ = ("_commits", "_fields")

    def __init__(self, fields: GitFields) -> None:
        self._commits = dict.fromkeys(fields.git_commits)
        self._fields = replace(fields, git_commits=())

    def add_commits(self, heads: Iterable[str]) -> None:
        """Commits that were seen: each stands once, in the order they came; never fewer."""
        self._commits.update(dict.fromkeys(heads))

    def add_observation(self, observation: GitObserved, *, is_first: bool) -> None:
        """An observation: initial fields are set by the first, the others by each."""
        git = self._fields
        if is_first:
            git = replace(
                git,
                git_initial_branch=observation.branch,
                git_initial_commit_sha=observation.head,
                git_start_dirty=observation.dirty,
            )
        self._fields = replace(
            git,
            git_branch=observation.branch,
            git_remote_url=git.git_remote_url or observation.remote,
            git_current_commit_sha=observation.head or git.git_current_commit_sha,
            git_end_dirty=observation.dirty,
        )
        if observation.head is not None:
            self._commits[observation.head] = None

    def fields(self) -> GitFields:
        """The fields as they are now. Costs time in proportion to the commits."""
        return replace(self._fields, git_commits=tuple(self._commits))
