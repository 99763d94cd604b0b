"""Another model, or another approval mode, for a session that is open."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.app.sessions.approval_modes import find_recorded_approval
from treadle.app.sessions.setup import DriverParts, Setup
from treadle.config.settings import ApprovalMode


def rebuild_parts(
    setup: Setup, thread_id: str, model: str | None, mode: ApprovalMode | None
) -> DriverParts:
    """What a session on the thread is made of, with another choice; `None` keeps what holds.

    Raises:
        UsageError: there is no such model.
        NotConfiguredError: it has no key.
    """
    fold = setup.store.load(thread_id).fold
    choice = replace(setup.choice, model=model, mode=mode)
    return replace(setup, thread=fold, choice=choice, notices=[]).build_parts()


def find_mode(setup: Setup) -> str:
    """The name of the approval mode; that of the program which began the thread may have none."""
    if setup.choice.mode is not None or setup.thread is None:
        return setup.choose_new_approval().name
    return find_recorded_approval(setup.thread.machine.config).name
