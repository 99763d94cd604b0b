"""Where and how the agent works, as it is told: seen when a thread begins and as it goes on."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle import helper_programs
from treadle.app.sessions.approval_modes import find_recorded_approval
from treadle.core.config import AgentConfig
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Network
from treadle.thread.situation import AgentSituation, CommandHold, NetworkAccess, PersonPresence
from treadle.tools.bash import TIMEOUT_S, TIMEOUT_S_MAX
from treadle.workspace.git import Absent, Repository
from treadle.workspace.git_repository import find_branch, find_repository
from treadle.workspace.status import Status

LOOK_S_MAX: Final = 5.0
"""Seconds that git may take for what is uncommitted; a thread begins without it then."""


class SituationObserver(Struct, frozen=True):
    """Looks at the situation of an agent in a folder, for one process.

    `sandbox` holds its commands. `has_people` says whether somebody is asked at once, `auto_commit`
    whether rounds are committed where there is a repository.
    """

    folder: str
    sandbox: Sandbox
    has_people: bool
    auto_commit: bool

    def observe(self, config: AgentConfig) -> AgentSituation:
        """What may have changed since the thread began. Quick once the sandbox has been tried."""
        return self.observe_mode(find_recorded_approval(config).name)

    def observe_mode(self, mode: str) -> AgentSituation:
        """The same, for who knows the name of the approval mode; empty if it is none."""
        repository = find_repository(Path(self.folder))
        return AgentSituation(
            date=datetime.now().astimezone().date().isoformat(),
            mode=mode,
            person=self._find_presence(),
            commands=self._find_hold(),
            network=self._find_network(),
            has_repository=repository is not None,
            branch=None if repository is None else find_branch(repository),
            commits=self.auto_commit and repository is not None,
        )

    def observe_beginning(self, mode: str) -> AgentSituation:
        """All of it, for a thread that begins. Asks git, for `LOOK_S_MAX` seconds at most."""
        system = os.uname()
        status = _read_status(self.folder)
        return replace(
            self.observe_mode(mode),
            folder=self.folder,
            platform=f"{system.sysname} {system.release}, {system.machine}",
            shell="bash" if helper_programs.find_program("bash") else "sh",
            limits=self._describe_limits(),
            parallel_max=AgentConfig().parallel_max,
            uncommitted=None if status is None else tuple(status.inside),
        )

    def _find_presence(self) -> PersonPresence:
        if self.has_people:
            return "there"
        return "away" if self.sandbox.policy.may_ask else "none"

    def _find_hold(self) -> CommandHold:
        if not self.sandbox.is_off and self.sandbox.standing().why_unheld:
            return "unheld" if self.sandbox.policy.may_ask else "refused"
        return self.sandbox.policy.level.value

    def _find_network(self) -> NetworkAccess:
        is_free = self.sandbox.is_off and self.sandbox.policy.network is not Network.OFF
        return "free" if is_free else self.sandbox.policy.network.value

    def _describe_limits(self) -> str:
        """Those that hold whatever the command does; a sandbox sets more than its time."""
        time = f"{TIMEOUT_S:g} s, or what the call says, up to {TIMEOUT_S_MAX / 3600:g} hours"
        if self._find_hold() not in ("workspace-write", "read-only"):
            return f"{time}."
        limits = self.sandbox.policy.limits
        return (
            f"{time}; {limits.processes_max} processes, {limits.memory_size_max >> 30} GiB of "
            f"memory, {limits.file_size_max >> 30} GiB a file."
        )


def _read_status(folder: str) -> Status | None:
    """How it stands; `None` without one, or if that takes too long.

    Asked in a thread of its own: who opens a thread may be in an event loop already.
    """

    async def ask_git() -> Status | Absent | None:
        try:
            return await asyncio.wait_for(Repository(folder).status(), LOOK_S_MAX)
        except TimeoutError:
            return None

    with ThreadPoolExecutor(1) as alone:
        found = alone.submit(lambda: asyncio.run(ask_git())).result()
    return found if isinstance(found, Status) else None
