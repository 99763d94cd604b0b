"""The loop that takes up what an earlier process left unfinished."""

from __future__ import annotations

from treadle.answers import Resolution
from treadle.core.actions import ExecuteTools
from treadle.core.events import ToolUncertain
from treadle.runtime.loop import MachineLoop
from treadle.runtime.performer import is_work
from treadle.runtime.questions import make_uncertain_question
from treadle.runtime.recovery import complete_uncertain_call, describe_recovery, list_open_calls
from treadle.thread.recovery import CallProgress, RecoveryAction


class RecoveryLoop(MachineLoop):
    """A loop that begins where the last process stood."""

    async def _recover(self) -> None:
        machine = self._writer.fold.machine
        stopped, self._writer.stopped = self._writer.stopped, ""
        what = "work had stopped" if self._is_prepared else "the process had died"
        if stopped:
            what = f"its program had stopped the work ({stopped})"
        self._round.clear()
        if not machine.round:
            self._due = machine.obligations()
            if not is_work(self._due):
                self._due = None
            self._record_note(f"{what} in {machine.state_name}; going on from there")
            return
        found = list_open_calls(
            machine.round, machine.config.effect_of, has_person=self._ask is not None
        )
        self._record_note(describe_recovery(what, found))
        calls = [one.call for one in found]
        self._round.is_unsaved = self._round.has_mutating_calls(calls, machine.config.effect_of)
        doubtful = [
            one for one in found if one.decision in (RecoveryAction.ASK, RecoveryAction.REPORT)
        ]
        for one in doubtful:
            if one.standing is CallProgress.STARTED:
                self._fold_event(ToolUncertain(one.call.id))
        if self._ask is not None and doubtful:
            self._commit()  # the question is on disk before it is asked
        again = {one.call.id for one in found if one not in doubtful}
        for one in doubtful:
            config, tools = self._writer.fold.machine.config, self._performer.tools
            beside = (status for _, status in self._writer.fold.machine.round)
            question = make_uncertain_question(one.call, one.bound, beside, config, tools)
            answer = (
                await self._inbox.run_unless_stopped(self._ask(question)) if self._ask else None
            )
            if answer is not None and answer.resolution is Resolution.RUN_AGAIN:
                self._round.approved_bindings[one.call.id] = question.scope.binding
                again.add(one.call.id)
                continue
            self._fold_event(complete_uncertain_call(answer, one.call, self._writer.now(), stopped))
            if answer is not None:
                self._commit()  # what a person said is not asked again, whatever happens
        if again:  # in request order: a call may stand on those before it
            self._due = ExecuteTools(tuple(call for call in calls if call.id in again))
