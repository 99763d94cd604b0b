"""Ending a program with those that belong to it: its process group, or all its descendants.

Both are asked to end by TERM, and killed. Descendants are found as the system tells of them
(`platform/descendants.py`). Only a process that became a daemon and emptied its environment gets
away; what holds that one is a sandbox with a process namespace.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct

from treadle.platform.descendants import Descendants, make_lister
from treadle.process.command import read_listing

ROUND_COUNT_MAX: Final = 250
ROUND_S: Final = 0.004
"""With `ROUND_COUNT_MAX`: a second for killed processes to vanish, which takes milliseconds."""
MARK: Final = "TREADLE_RUN_ID"
"""The environment variable by which descendants are found; random in each run."""
_list_processes = make_lister(read_listing)


class Termination(Protocol):
    """Ends a program with others. May take milliseconds, so it is called in a thread."""

    def ask(self) -> None:
        """Ask them to end, by the signal on which programs tidy up."""

    def kill(self) -> int:
        """Kill them; how many beside the program's own process there were, if that is known."""


class GroupTermination(Struct, frozen=True):
    """Ends a process group, whose leader was not waited for yet: its number is nobody else's."""

    leader: int

    def ask(self) -> None:
        """Ask the group."""
        _signal_group(self.leader, signal.SIGTERM)
        # Who stands still hears TERM only after going on.
        _signal_group(self.leader, signal.SIGCONT)

    def kill(self) -> int:
        """Kill the group; nobody is counted."""
        _signal_group(self.leader, signal.SIGKILL)
        return 0


class DescendantsTermination:
    """Ends all that a program has started.

    Args:
        leader: the number of its own process, which leads a session and was not waited for yet.
        mark: the value of `MARK` in its environment.
        spares_leader: whether TERM is for what the program has started, not for itself.
    """

    def __init__(self, leader: int, mark: str, *, spares_leader: bool) -> None:
        self._leader = leader
        self._group = GroupTermination(leader)
        self._descendants = Descendants(leader, f"{MARK}={mark}".encode(), _list_processes)
        self._spares_leader = spares_leader

    def ask(self) -> None:
        """Ask the group, or all but the leader."""
        # Those who lose their parent to the signal would not be found afterwards.
        found = self._descendants.find()
        if not self._spares_leader:
            self._group.ask()
            return
        # The older first, as a rule (numbers come round again): who waits for a child would see it
        # end, and exit without having heard it itself.
        for number in (signal.SIGTERM, signal.SIGCONT):
            _signal_each(sorted(found - {self._leader}), number)

    def kill(self) -> int:
        """Kill all that live, the leader too; how many there were."""
        left_count = len(self._descendants.find())
        self._group.kill()
        stopped: set[int] = set()
        for _ in range(ROUND_COUNT_MAX):
            found = self._descendants.find()
            if not found:
                break
            # What stands still has no more children: stop until there is nobody new, then kill.
            fresh = found - stopped
            _signal_each(fresh or found, signal.SIGSTOP if fresh else signal.SIGKILL)
            stopped |= fresh
            time.sleep(ROUND_S)  # the kernel tells nobody when others' children stop
        return left_count


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _signal_each(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
