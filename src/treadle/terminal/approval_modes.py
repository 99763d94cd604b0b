"""Changes the approval mode of a chat, at once, also in the middle of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from treadle.app.sessions.limits import MODES
from treadle.terminal.notices import styled_text
from treadle.terminal.ports import DialogChoice, Terminal

if TYPE_CHECKING:
    from treadle.config.settings import ApprovalMode
    from treadle.terminal.approvals import ApprovalDialogs
    from treadle.terminal.chat_session import ChatSession

_AUTO: Final = "auto"
_AUTO_WAITS: Final = "answer first: mode auto is asked about when nothing else is"

_MODE_OF_KEY: Final = {"y": "ask", "e": "auto-edit"}
_PLAN_CHOICES: Final = (
    DialogChoice("y", "yes, and ask before each change (ask)"),
    DialogChoice("e", "yes, and edit files unasked (auto-edit)"),
    DialogChoice("n", "no, stay in plan mode"),
)


class ApprovalModeSwitch:
    """The approval modes, of which `auto` is only for who has said yes to it once.

    Args:
        sessions: whose mode it is.
        terminal: where a person is asked.
        approvals: what is being asked already.
        changed: takes the name of the mode that holds now.
        may_auto: whether the person has chosen `auto` to begin with.
    """

    def __init__(
        self,
        sessions: ChatSession,
        terminal: Terminal,
        approvals: ApprovalDialogs,
        changed: Callable[[str], None],
        *,
        may_auto: bool,
    ) -> None:
        self._sessions = sessions
        self._terminal = terminal
        self._approvals = approvals
        self._changed = changed
        self._may_auto = may_auto
        self._choosing = asyncio.Lock()

    async def cycle(self) -> None:
        """The next one. While a call is asked about, `auto` is passed by unless it was chosen."""
        async with self._choosing:
            await self._sessions.ensure_prepared()
            place = MODES.index(self._sessions.mode) if self._sessions.mode in MODES else -1
            wanted = MODES[(place + 1) % len(MODES)]
            if wanted == _AUTO and not self._may_auto and self._approvals.is_asking:
                self._terminal.commit(styled_text(_AUTO_WAITS, "warn"))
                return  # and not on to plan, which would refuse the call
            if not await self.choose(wanted):
                await self.choose(MODES[0])

    async def offer_to_leave_plan(self) -> str | None:
        """Ask whether the plan is carried out that the agent has ended its turn with.

        Returns:
            What is said to the agent then, in the mode that was chosen; `None` if no plan waits, or
            the person stays in plan mode.

        Raises:
            EOFError: nobody is there any more.
            NotConfiguredError: as `ChatSession.choose`.
        """
        from treadle.app.sessions.plan_approval import GO_AHEAD, find_waiting_plan

        session = self._sessions.session
        if session is None or find_waiting_plan(session, self._sessions.mode) is None:
            return None
        question = styled_text("Carry out this plan?", "bold")
        mode = _MODE_OF_KEY.get(await self._terminal.choose(question, _PLAN_CHOICES), "")
        return GO_AHEAD if mode and await self.choose(mode) else None

    async def choose(self, mode: str) -> bool:
        """Have this one of `MODES`; false if the person thinks better of it.

        Raises:
            EOFError: nobody is there any more.
            NotConfiguredError: as `ChatSession.choose`.
        """
        if mode == _AUTO and not self._may_auto:
            question = "In mode auto the agent changes files, runs commands, unasked."
            choices = [DialogChoice("y", "yes, from now on"), DialogChoice("n", "no")]
            if await self._terminal.choose(styled_text(question, "warn"), choices) != "y":
                return False
            self._may_auto = True
        await self._sessions.choose(mode=cast("ApprovalMode", mode))
        self._changed(mode)
        return True
