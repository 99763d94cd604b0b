"""Calls that the world looks at, with all that decides about them, in both machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from core.samples import CONFIG, TALK, Completed, Failure, Pending, Running, Success, call, machine
from treadle.core.approval import (
    AlwaysAsk,
    AskAbove,
    Grant,
    NeverAsk,
    OnlyRead,
    Policy,
    Question,
    Scope,
    ToolBased,
)
from treadle.core.call_decision import has_begun
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import ExecutingTools, WaitingForApproval
from treadle.core.config import AgentConfig
from treadle.core.events import ApprovalRequired, CallAssessed
from treadle.core.messages import Message, ToolCall
from treadle.core.task.machine import TaskMachine, TaskState
from treadle.core.task.memory import AgentMemory
from treadle.core.task.table import State
from treadle.core.tools import (
    Access,
    ApprovalBinding,
    RewrittenFile,
    RiskLevel,
    Status,
    ToolError,
    ToolErrorKind,
)

BOOLS: Final = (False, True)
WRITTEN: Final = RewrittenFile("/w/a.txt", "c0", "c1")
POLICIES: Final[tuple[Policy, ...]] = (
    AlwaysAsk(),
    NeverAsk(),
    AskAbove(RiskLevel.HIGH),
    ToolBased({"edit": RiskLevel.HIGH}),
    OnlyRead(),
)
NAMES: Final = ("look", "put", "edit", "drop", "unheard of")
BESIDE: Final[tuple[Status | None, ...]] = (
    None,
    Pending("b", "look"),
    Running("b", "look", "12:02"),
    Completed("b", "edit", "12:02", "12:03", Success("b", "fine", ("a.txt",), None, (WRITTEN,))),
    Completed("b", "drop", "12:02", "12:03", Failure("b", ToolError(ToolErrorKind.REJECTED, "no"))),
)


class Case(NamedTuple):
    """A call `a` that the world looks at, and what else is so."""

    name: str
    policy: Policy
    access: Access | None = None
    must_ask: bool = False
    refused: str = ""
    content: str = "c0"
    is_granted: bool = False
    has_kind_grant: bool = False
    has_yes: bool = False
    bound: str | None = None
    is_uncertain: bool = False
    beside: Status | None = None
    is_asked: bool = False
    may_ask: bool = True
    is_withdrawn: bool = False
    is_reconfigured: bool = False
    is_rerun: bool = False

    @property
    def config(self) -> AgentConfig:
        granted = {self.name: RiskLevel.CRITICAL} if self.is_granted else {}
        grants = (Grant(self.name, RiskLevel.CRITICAL, "src/", "here"),)
        return replace(
            CONFIG,
            approval=self.policy,
            granted=granted,
            grants=grants if self.has_kind_grant else (),
        )

    @property
    def scope(self) -> Scope:
        return Scope(
            ("it is hot",),
            ("src/deep/",),
            "here",
            self.content,
            "a box",
            self.must_ask,
            self.refused,
            "/w/a.txt",
            self.access,
        )

    @property
    def status(self) -> Status:
        """A call that is asked about has no yes."""
        approved = True if self.has_yes and not self.is_asked else UNSET
        bound = UNSET if self.bound is None else ApprovalBinding("here", self.bound)
        bound = bound if approved is True else UNSET
        if self.is_uncertain and not self.is_asked:
            return Running("a", self.name, "12:02", uncertain=True, approved=approved, bound=bound)
        return Pending("a", self.name, approved=approved, bound=bound)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Of a round of which a person is asked, no call has begun."""
        beside = self.beside
        if beside is None or (self.is_asked and has_begun(beside)):
            return (self.status,)
        return (self.status, beside)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(call(status.call_id, status.tool_name) for status in self.statuses)

    @property
    def questions(self) -> tuple[Question, ...]:
        scope = replace(self.scope, content="c0")
        asked = Question(self.calls[0], RiskLevel.HIGH, "so it was", scope)
        return (asked,) if self.is_asked else ()

    @property
    def event(self) -> CallAssessed:
        return CallAssessed(
            "a",
            None,
            self.scope,
            is_withdrawn=self.is_withdrawn,
            is_reconfigured=self.is_reconfigured,
            is_rerun=self.is_rerun,
            rerun_bound=ApprovalBinding("here", self.bound or ""),
            may_ask=self.may_ask,
        )

    # ---- what is so, in other words than the program's -------------------------------------

    @property
    def is_known(self) -> bool:
        return self.name in {tool.name for tool in CONFIG.tools}

    @property
    def writes(self) -> bool:
        return self.name != "look" if self.access is None else self.access is Access.WRITE

    @property
    def is_forbidden(self) -> bool:
        return self.is_known and isinstance(self.policy, OnlyRead) and self.writes

    @property
    def is_as_bound(self) -> bool:
        """The content is that of the yes, or what the call beside has made of it."""
        rewritten = (self.bound, self.content) == ("c0", "c1") and self.beside is BESIDE[3]
        return self.bound is None or self.bound == self.content or rewritten

    @property
    def has_begun(self) -> bool:
        begun = self.beside in (BESIDE[2], BESIDE[3])
        return (begun and not self.is_asked) or isinstance(self.status, Running)


_VALUES: Final[dict[str, Sequence[object]]] = {
    "name": NAMES,
    "policy": POLICIES,
    "access": (None, *Access),
    "refused": ("", "", "the box is broken"),
    "content": ("c0", "c1", "c2"),
    "bound": (None, "c0", "c1"),
    "beside": BESIDE,
}
CASES: Final = st.builds(
    Case, **{name: st.sampled_from(_VALUES.get(name, BOOLS)) for name in Case._fields}
)


def make_conversation(case: Case) -> ConversationMachine:
    conversation = TALK.append(Message.assistant("on it", case.calls))
    state: Any = ExecutingTools(conversation, case.statuses)
    if case.is_asked:
        state = WaitingForApproval(conversation, case.statuses, case.questions)
    return machine(state, case.config)


def make_task(case: Case) -> TaskMachine:
    """The same in a task whose step is this batch."""
    fresh = TaskMachine(case.config, thread_id="T-1")
    memory = AgentMemory(
        transcript=TALK.append(Message.assistant("on it", case.calls)),
        pending_tool_calls=case.calls,
        executions=case.statuses,
    )
    state = TaskState(State.PARALLEL_ACTING, memory)
    if case.is_asked:
        empty = TaskMachine(case.config).with_state(replace(state, memory=replace(memory)))
        empty.handle_event(ApprovalRequired(case.questions))
        state = empty.state
    return fresh.with_state(state)
