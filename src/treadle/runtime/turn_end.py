"""How a turn ends before its time: by an order to stop, or by an error."""

from __future__ import annotations

import logging

from treadle.core.actions import SendLlmRequest, Summarize
from treadle.core.events import ToolCompleted
from treadle.core.tools import EffectClass
from treadle.outputs import Ending, TurnOutcome
from treadle.runtime.calls import cancel_unstarted
from treadle.runtime.inbox import StopRequest
from treadle.runtime.parts import TurnParts
from treadle.runtime.recovery import find_effect
from treadle.thread.facts import Recovered

_log = logging.getLogger("treadle.runtime")


class TurnEnd:
    """Ends all work, records what is known of it, and settles the thread.

    Args:
        parts: who does what.
    """

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts
        self._journal = parts.journal
        self._turn = parts.turn

    async def stop(self, stop: StopRequest) -> None:
        """End all work as somebody ordered.

        Calls that can say how far they got do; a cancel answers the others. When the process
        ends instead, they stay open: recovery decides when the thread is opened again.
        """
        rules, turn = self._parts.rules, self._turn
        so_far, turn.end = turn.end, Ending(stop.outcome, stop.reason)
        await self._drain_inbox()
        text = self._parts.performer.take_partial_text()
        is_over = rules.is_waiting and rules.next_input() is None
        if is_over and turn.end.outcome is stop.outcome:  # the stop came too late
            turn.end = so_far
        event = None
        if stop.outcome is not TurnOutcome.INTERRUPTED and not rules.is_waiting:
            event = rules.make_stop_event(stop, text)
        self._complete_unrun_calls(stop.reason, all_of_them=event is not None)
        if event is not None:
            for known in self._parts.sub_agents.complete_stopped(stop.reason):
                turn.fold(known)
            if not rules.is_waiting:
                turn.fold(event)
        await self.keep_files_after_round()
        if not self._journal.machine.is_at_rest:
            self._journal.writer.stopped = stop.reason
            note = f"its program stopped the work: {stop.reason}"
            self._journal.stage(Recovered(note, stop.reason))
        await self._reset_and_commit()

    async def salvage(self) -> None:
        """Keep what has arrived when an error ends the turn: an answer is paid for once only."""
        try:
            await self._parts.work.cancel_all()
            if self._journal.writer.is_usable:
                await self._drain_inbox()
                self._complete_unrun_calls("the turn failed", all_of_them=False)
                await self._reset_and_commit()
        except Exception:  # noqa: BLE001  the first error is the one to be told
            thread_id = self._journal.writer.thread_id
            _log.exception("%s: what had arrived could not be kept", thread_id)

    async def keep_files_after_round(self) -> None:
        """Keep the files when a round that may have changed them is over, with its hook."""
        is_over = isinstance(self._turn.due, SendLlmRequest | Summarize)
        if is_over or self._journal.machine.is_at_rest:
            await self._parts.files.close_round()

    async def _drain_inbox(self) -> None:
        """End all work, and fold what has arrived."""
        inbox = self._parts.inbox
        await self._parts.work.cancel_all()
        while inbox:
            item = inbox.pop()
            if not isinstance(item, BaseException):
                self._turn.fold(item)

    def _complete_unrun_calls(self, why: str, *, all_of_them: bool) -> None:
        """Answer calls whose intent is on disk and which this process knows it has not run.

        Otherwise they would count as uncertain. Those that are safe to repeat may stay open: they
        run when work goes on.
        """
        machine = self._journal.machine
        effects = {call.id: find_effect(status, machine.config) for call, status in machine.round}
        for call in self._parts.scheduler.pop_unrun_calls():
            if all_of_them or effects.get(call.id) is EffectClass.MUTATE:
                outcome = cancel_unstarted(call, why)
                self._turn.fold(ToolCompleted(call.id, outcome, self._journal.now()))

    async def _reset_and_commit(self) -> None:
        self._turn.due = None
        self._parts.scheduler.clear()
        await self._journal.commit_beside()
