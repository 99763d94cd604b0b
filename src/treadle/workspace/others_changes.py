"""Which uncommitted changes are not the agent's, for who asks before a command takes them along."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from treadle.workspace.status import StatusEntry


class OthersChanges:
    """What is changed in a workspace, and which of it the agent has changed.

    Where every round is committed, what is left is others' anyway. Where nothing is, it is told
    from what had changed before a round and what has after it. It is not kept: of a thread that
    goes on in another process, what the agent had left counts as others'.
    """

    def __init__(self) -> None:
        self._seen: Mapping[str, StatusEntry] = {}
        self._own: set[str] = set()
        self._round: tuple[frozenset[str], Collection[str] | None] | None = None

    def expect(self, before: Iterable[str], named: Collection[str] | None) -> None:
        """A round has ended, and what is found next is as it has left things.

        Args:
            before: the names that were changed before it.
            named: those that its tools say they wrote; `None` if it may have been any.
        """
        self._round = frozenset(before), named

    def update(self, changes: Mapping[str, StatusEntry]) -> None:
        """What is changed now, by name."""
        self._seen = changes
        self._own &= changes.keys()
        if self._round is not None:
            before, named = self._round
            self._round = None
            found = changes.keys() - before
            self._own |= found if named is None else found & set(named)

    def list_changes(self, left: Collection[str]) -> tuple[StatusEntry, ...]:
        """What was changed when it was last looked at, and is neither the agent's nor in `left`."""
        return tuple(
            change
            for name, change in self._seen.items()
            if name not in self._own and name not in left
        )
