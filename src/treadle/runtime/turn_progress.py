"""One turn at a time: the events that were folded, the action that is due, how it will end."""

from __future__ import annotations

from typing import Final

from treadle import outputs
from treadle.core.actions import (
    AgentAction,
    AskPerson,
    DisplayError,
    DisplayMessage,
    RefuseCall,
    RequestApproval,
    Shutdown,
    StartCall,
    WaitForInput,
)
from treadle.core.events import ToolCompleted
from treadle.outputs import Ending
from treadle.runtime.event_outputs import make_event_output
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_rules import TurnRules
from treadle.runtime.turn_timer import PersonWait, TurnTimer
from treadle.thread.codec import Event
from treadle.thread.facts import Recovered

_PASSIVE_ACTIONS: Final = (
    *(WaitForInput, DisplayMessage, DisplayError, RequestApproval, Shutdown),
    *(StartCall, AskPerson, RefuseCall),
)


def is_work(action: AgentAction) -> bool:
    """Whether something is to be done for it that ends with an event."""
    return not isinstance(action, _PASSIVE_ACTIONS)


class TurnProgress:
    """Folds what happens into the batch, and remembers what is to be done when that is durable.

    Args:
        journal: the thread.
        rules: what is special to its machine.
    """

    def __init__(self, journal: ThreadJournal, rules: TurnRules) -> None:
        self._journal = journal
        self._rules = rules
        self.due: AgentAction | None = None
        """Work that the machine has asked for and that has not begun."""
        self.end = Ending()
        """How the turn ends, as things stand."""
        self.wait = PersonWait(journal.now, rules.record_idle_time)
        """For how long a person is being waited for."""
        self.alarm: TurnTimer | None = None
        """Ends the turn when its time is over; `None` before the first one."""

    def fold(self, event: Event) -> None:
        """Fold one event; remember the action it asks for until the batch is durable."""
        self.wait.report_idle_time(getattr(event, "at", ""))
        machine = self._journal.machine
        before = machine.state_name
        round_ = machine.round if isinstance(event, ToolCompleted) else ()
        action = self._journal.stage(event)
        if isinstance(action, RequestApproval):
            thread_id = self._journal.writer.thread_id
            self._journal.announce(outputs.ApprovalRequested(thread_id, action.questions))
            self.due = None
        elif action is not None and is_work(action):
            self.due = action
        elif self._journal.machine.state_name != before:
            self.due = None
        if (output := make_event_output(event, round_)) is not None:
            self._journal.announce(output)
        self.end = self._rules.follow_event(event, action) or self.end

    def note(self, text: str) -> None:
        """Record and announce what an earlier process left and what becomes of it."""
        self._journal.stage(Recovered(text))
        self._journal.announce(outputs.Notice(text))
