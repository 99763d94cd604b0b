"""A turn that waits in a state of one's choice, for tests that then do something to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Folder, Heard, Model, Run, Toolbox, calls, imbalance, mutate, read
from treadle import outputs
from treadle.core.chat.states import CallingLlm, Error, ExecutingTools, PostToolsHook
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.runtime.session import Session

AGAIN: dict[str, Any] = {"when": {"user": "again"}, "text": "done"}


class Stage:
    """A turn that, at first, waits for ever in one of the states a turn can wait in."""

    def __init__(self, desk: Desk, state: type) -> None:
        self.heard: Heard = desk.heard
        self.state = state
        self.reached = asyncio.Event()
        hook = self._stay if state is PostToolsHook else None
        self.folder = Folder(hook)
        self.tools = Toolbox(work=mutate(self._work), look=read())
        network: dict[str, Any] = {"error": {"kind": "network", "retry_after_s": 500}}
        replies: dict[type, tuple[Any, ...]] = {
            CallingLlm: ({"text": "Once upon a time", "hang": True}, "done"),
            ExecutingTools: (calls("look", "work"), "done"),
            PostToolsHook: (calls("work"), "done"),
            Error: (network, "done"),
        }
        self.model = Model(AGAIN, *replies[state])
        self.session = desk.new(self.model, self.tools, workspace=self.folder)

    async def _stay(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()

    async def _work(self, _: Run) -> str:
        if self.state is ExecutingTools:
            await self._stay()
        return "worked"

    async def until_there(self) -> asyncio.Task[TurnFinished]:
        """Begin the turn and let it get as far as it can."""
        turn = asyncio.ensure_future(self.session.turn("go"))
        if self.state in (ExecutingTools, PostToolsHook):
            await self.reached.wait()
        elif self.state is Error:
            await self.heard.until(outputs.Retrying)
        else:
            await self.heard.until(outputs.TextDelta)
        await tick(2)
        assert type(self.session.driver.journal.writer.fold.state) is self.state
        return turn


BUSY = pytest.mark.parametrize(
    "state", [CallingLlm, ExecutingTools, PostToolsHook, Error], ids=lambda state: state.__name__
)


async def goes_on(desk: Desk, session: Session) -> None:
    """The thread is whole, on disk as in memory, and another turn can be had."""
    assert session.is_waiting
    assert imbalance(session.conversation) == ""
    desk.check(session)
    finished = await session.turn("again")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    desk.check(session)
