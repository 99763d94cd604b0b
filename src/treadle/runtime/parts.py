"""The parts of a driver, each with one job, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from treadle.runtime.approvals import Approvals
from treadle.runtime.background_calls import BackgroundCalls
from treadle.runtime.call_scheduler import CallScheduler
from treadle.runtime.fail_closed_redaction import make_fail_closed
from treadle.runtime.file_keeper import FileKeeper
from treadle.runtime.inbox import Inbox
from treadle.runtime.options import DriverOptions, recall_tools
from treadle.runtime.performer import Performer
from treadle.runtime.ports import Provider, Tools, Writer
from treadle.runtime.recovery import CallRecovery
from treadle.runtime.server_answers import ServerAnswers
from treadle.runtime.sub_agent_calls import SubAgentCalls
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_progress import TurnProgress
from treadle.runtime.turn_rules import TurnRules
from treadle.runtime.work_group import WorkGroup


class TurnParts(Struct, frozen=True):
    """Who does what while a driver works on a thread."""

    journal: ThreadJournal
    """Makes durable."""
    rules: TurnRules
    """Know what is special to the machine of the thread."""
    inbox: Inbox
    """Where everything arrives that happens to a turn."""
    turn: TurnProgress
    """Folds events, and knows what is due."""
    approvals: Approvals
    """Ask a person."""
    scheduler: CallScheduler
    """Says which calls begin."""
    recovery: CallRecovery
    """Takes up what an earlier process left."""
    files: FileKeeper
    """Keeps how the workspace stood."""
    sub_agents: SubAgentCalls
    """Work on their calls."""
    background: BackgroundCalls
    """Look after commands that go on when their call has its result."""
    performer: Performer
    """Calls the model, the tools and the hook."""
    work: WorkGroup
    """What is in flight."""


def make_journal(writer: Writer, options: DriverOptions, inbox: Inbox) -> ThreadJournal:
    """The thread, with who keeps secrets out of it and who is told of it.

    Args:
        writer: the thread.
        options: the redactor, the listener.
        inbox: where it arrives what a listener raises; it ends the turn.
    """
    redactor = options.redactor
    redact = None if redactor is None else make_fail_closed(redactor.redact)
    journal = ThreadJournal(writer, redact, inbox.put)
    if options.on_output is not None:
        journal.add_listener(options.on_output)
    return journal


def make_parts(
    journal: ThreadJournal,
    rules: TurnRules,
    inbox: Inbox,
    provider: Provider,
    tools: Tools,
    options: DriverOptions,
    find_fault: Callable[[str], str] | None = None,
) -> TurnParts:
    """The parts of a driver on this thread.

    Args:
        journal: the thread.
        rules: what is special to its machine.
        inbox: where what listeners raise arrives too.
        provider: who answers.
        tools: who runs calls.
        options: all that can be left out.
        find_fault: why an answer does not have the form that was asked for; empty if it has.
    """
    recall_tools(tools, journal.machine.config)
    turn = TurnProgress(journal, rules)
    approvals = Approvals(journal, turn, inbox, tools, options.approve)
    background = BackgroundCalls(journal, inbox)
    sub_agents = SubAgentCalls(journal, options.sub_agents, approvals, rules.budget_left)
    performer = Performer(journal, provider, tools, options, sub_agents, background, find_fault)
    performer.server_answers = ServerAnswers(
        journal, approvals, rules.budget_left, options.answer_server, performer.send_beside
    )
    return TurnParts(
        journal=journal,
        rules=rules,
        inbox=inbox,
        turn=turn,
        approvals=approvals,
        scheduler=CallScheduler(journal, turn, approvals),
        recovery=CallRecovery(journal, turn, inbox, approvals, options.ask),
        files=FileKeeper(journal, options.workspace, options.files, options.context),
        sub_agents=sub_agents,
        background=background,
        performer=performer,
        work=WorkGroup(inbox.put),
    )
