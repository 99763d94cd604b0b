"""Calls that would fail before they do anything: nobody is asked about one, and it does not run.

Whoever decides about a call asks first whether its tool would refuse it, as things stand. What is
refused has that for its result, also where things are others a moment later: it has no yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeGuard

from msgspec.structs import replace

from treadle.core.approval import NO_SCOPE, Scope
from treadle.core.call_decision import reject_call
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    Access,
    EffectClass,
    Outcome,
    ToolErrorKind,
    ToolExecutionOutcome,
)
from treadle.runtime.calls import find_redaction_refusal
from treadle.runtime.ports import Tools
from treadle.runtime.thread_journal import ThreadJournal


class CheckedTools(Protocol):
    """Tools that can tell before a call runs that it would fail."""

    def refusal_of(
        self, call: ToolCall, sightings: Sightings | None = None, *, explains: bool = False
    ) -> ToolExecutionOutcome.Error | None:
        """How the call would end as things stand, before it does anything; `None` if it may run.

        Never raises. With `explains` it may take its time to find what helps the model.
        """
        ...


def have_checks(tools: object) -> TypeGuard[CheckedTools]:
    """Whether these are tools that can tell so."""
    return hasattr(tools, "refusal_of")


class CallLook(NamedTuple):
    """What a yes to a call covers as things stand, and why its tool would refuse it, if it does.

    Of one whose scope says by itself that it is refused nothing more is told: this session may be
    held more strictly than the one in which it was asked for.
    """

    scope: Scope | None
    failure: str = ""


def look_at(
    journal: ThreadJournal, tools: Tools, call: ToolCall, *, may_change: bool = False
) -> CallLook:
    """How a call stands.

    Where something before it `may_change` files first, only arguments count that fit no tool,
    whatever the files hold.
    """
    scope = tools.scope_of(call)
    if scope is not None and scope.refused:
        return CallLook(scope)
    refusal = _find_refusal(journal, tools, call, scope)
    if refusal is None or (may_change and not _is_about_arguments(refusal)):
        return CallLook(scope)
    return _make_look(scope, refusal)


def look_ahead(
    journal: ThreadJournal, tools: Tools, calls: Sequence[ToolCall]
) -> tuple[CallLook, ...]:
    """How the calls of an answer stand, which run one after the other."""
    looks: list[CallLook] = []
    may_change = False
    for call in calls:
        look = look_at(journal, tools, call, may_change=may_change)
        looks.append(look)
        scope = look.scope or NO_SCOPE
        writes = journal.machine.config.access_of(call, scope) is Access.WRITE
        may_change = may_change or (writes and not scope.refused)
    return tuple(looks)


async def end_refused_call(journal: ThreadJournal, tools: Tools, call: ToolCall) -> Outcome | None:
    """How a call ends that was refused when it was looked at; `None` if its tool says so itself."""
    scope = tools.scope_of(call)
    if (refusal := _find_redaction(journal, call, scope)) is not None:
        return refusal
    if have_checks(tools):
        sightings = list_sightings(journal)
        found = await asyncio.to_thread(tools.refusal_of, call, sightings, explains=True)
        if found is not None:
            return found
    if scope is not None and scope.refused:
        return None
    why = "what it needs has changed while it was looked at; nothing ran; ask for it again"
    return reject_call(call.id, why)


def list_sightings(journal: ThreadJournal) -> Sightings:
    """What the model knows of files by now."""
    fold = journal.fold
    round_ids = frozenset(call.id for call, _ in journal.machine.round)
    return Sightings(fold.sightings, fold.conversation, round_ids)


def _find_refusal(
    journal: ThreadJournal, tools: Tools, call: ToolCall, scope: Scope | None
) -> Outcome | None:
    refusal = _find_redaction(journal, call, scope)
    if refusal is None and have_checks(tools):
        refusal = tools.refusal_of(call, list_sightings(journal))
    return refusal


def _find_redaction(journal: ThreadJournal, call: ToolCall, scope: Scope | None) -> Outcome | None:
    """As it is refused when it runs; of what a sub-agent is told nothing is."""
    config = journal.machine.config
    access = config.access_of(call, scope or NO_SCOPE)
    is_outward = access is Access.NETWORK
    mutates = config.effect_of(call.tool_name) is EffectClass.MUTATE
    if not is_outward and (access is Access.READ or not mutates):
        return None
    return find_redaction_refusal(call, (journal.redact or str) if is_outward else str)


def _make_look(scope: Scope | None, refusal: Outcome | None) -> CallLook:
    """The scope is refused for the kind of a refusal: the words may quote what a file holds."""
    if not isinstance(refusal, ToolExecutionOutcome.Error):
        return CallLook(scope)
    error = refusal.error
    return CallLook(replace(scope or NO_SCOPE, refused=error.kind.value), error.message)


def _is_about_arguments(refusal: Outcome) -> bool:
    error = getattr(refusal, "error", None)
    return error is not None and error.kind is ToolErrorKind.INVALID_ARGUMENTS
