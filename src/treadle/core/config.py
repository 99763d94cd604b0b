"""What a thread's machine is configured with; recorded, so that a replay decides the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.approval import (
    NO_SCOPE,
    Grant,
    NeverAsk,
    OnlyRead,
    Policy,
    Question,
    Scope,
    is_kind_covered,
    make_question,
)
from treadle.core.conversation import Conversation
from treadle.core.llm import Reasoning
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import Access, EffectClass, RiskLevel, ToolDefinition

COMPACT_AT_TOKENS: Final = 200_000
"""Where a conversation is compacted if nobody says it, however much more its model reads."""


class AgentConfig(Struct, frozen=True, omit_defaults=True):
    """Limits and request settings. Defaults follow the source document.

    `max_retries` counts retries after the first attempt. `llm_timeout_s` is how long a model may
    stay silent, `tool_timeout_s` how long a call may run before the runtime ends it (a tool's own
    limit, such as that of `bash`, comes first). `max_steps` bounds the model requests of one turn;
    0 is no bound. `max_tokens` bounds one answer; 0 leaves it to the provider. `approval` says
    which calls need a person's yes, `granted` names tools that have one for good, each with the
    highest risk that it is for, and `grants` kinds of their calls. `parallel_max` bounds how many
    calls of a round run at a time; 0 is no bound. A conversation is compacted when the model has
    used the fraction `compact_at` of `context_tokens_max`, or `compact_at_tokens`, whichever is
    less. Without a `compact_at` it never is; 0 of another one is no bound (records of earlier
    versions have no `compact_at_tokens`). With `web_search` providers may search the web for the
    model; nobody is asked about that. `family` is that of the model with which the thread began:
    in its shape all tools are offered, whatever model comes later; empty is the default one. To
    `native_schema` its provider is to hold each answer, where it can; what the model reads of the
    form stands in the system prompt.
    """

    model_name: str = ""
    system_prompt: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_retries: int = 3
    llm_timeout_s: float = 120.0
    tool_timeout_s: float = 330.0
    max_tokens: int = 4096
    temperature: float | None = None
    max_steps: int = 0
    reasoning: Reasoning = "default"
    approval: Policy = NeverAsk()
    granted: dict[str, RiskLevel] = {}
    grants: tuple[Grant, ...] = ()
    parallel_max: int = 8
    context_tokens_max: int = 0
    compact_at: float = 0.8
    compact_at_tokens: int = 0
    web_search: bool = False
    family: str = ""
    native_schema: dict[str, Any] | None = None

    def definition_of(self, tool_name: str) -> ToolDefinition | None:
        """The tool of this name; `None` if the model was not told of one."""
        for tool in self.tools:
            if tool.name == tool_name:
                return tool
        return None

    def name_of(self, kind: ToolKind) -> str:
        """What the model was told that the tool is called which does this; empty if it has none."""
        return next((tool.name for tool in self.tools if kind_of(tool.name) is kind), "")

    def effect_of(self, tool_name: str) -> EffectClass:
        """The effect class of a tool; one nobody knows counts as the worst."""
        tool = self.definition_of(tool_name)
        return EffectClass.MUTATE if tool is None else tool.effect

    def access_of(self, call: ToolCall, scope: Scope) -> Access:
        """What a call may change: as its tool says of it, else as that of the whole tool."""
        if scope.access is not None:
            return scope.access
        reads = self.effect_of(call.tool_name) is EffectClass.READ
        return Access.READ if reads else Access.WRITE

    def make_question(
        self, call: ToolCall, assessed: RiskLevel | None, scope: Scope | None = None
    ) -> Question | None:
        """What a person must be asked before this call may run; `None` if nothing, or if granted.

        One of a granted tool is asked about, if it is riskier than what was granted. For the
        arguments see `weigh_call`.
        """
        question = self.weigh_call(call, assessed, scope)
        return None if question is None or self.is_granted(question) else question

    def weigh_call(
        self, call: ToolCall, assessed: RiskLevel | None, scope: Scope | None = None
    ) -> Question | None:
        """What a person would be asked before this call may run, if nothing were granted.

        A call of a tool that nobody knows is not asked about: it fails by itself, and so does one
        that is refused, or that says it writes where the policy forbids that.

        Args:
            call: as it would run.
            assessed: the risk seen in its arguments, if that is above the tool's own.
            scope: what a yes to it would cover; `None` if its tool does not say.
        """
        tool = self.definition_of(call.tool_name)
        if tool is None:
            return None
        assessed = max(tool.risk, assessed or tool.risk)
        scope = NO_SCOPE if scope is None else scope
        is_forbidden = isinstance(self.approval, OnlyRead) and scope.access is Access.WRITE
        if scope.refused or is_forbidden:
            return None
        return make_question(self.approval, call, tool.risk, assessed, scope)

    def is_granted(self, question: Question) -> bool:
        """Whether a person has allowed calls of this tool and risk, or of its kinds, for good.

        A call that must be asked about is not covered by a grant of its whole tool.
        """
        scope, up_to = question.scope, self.granted.get(question.call.tool_name)
        if up_to is not None and question.risk <= up_to and not scope.must_ask:
            return True
        kinds = [one.kind for one in self.grants if _matches_question(one, question)]
        return bool(scope.kinds) and all(
            any(is_kind_covered(granted, kind) for granted in kinds) for kind in scope.kinds
        )

    def may_be_granted(self, question: Question) -> bool:
        """Whether it depends on the kinds of the call, which the question does not say."""
        name, risk = question.call.tool_name, question.risk
        return any(one.tool_name == name and risk <= one.risk for one in self.grants)

    def without_grants(self) -> AgentConfig:
        """The same, where nobody has allowed anything for good."""
        return replace(self, granted={}, grants=())

    def with_limits(self, context_tokens_max: int | None) -> AgentConfig:
        """The same, with how much the model reads and when to compact, where they are not set.

        Args:
            context_tokens_max: tokens that the model reads at most; `None` if nobody knows.
        """
        return replace(
            self,
            context_tokens_max=self.context_tokens_max or context_tokens_max or 0,
            compact_at_tokens=self.compact_at_tokens or COMPACT_AT_TOKENS,
        )

    @property
    def compact_limit(self) -> float:
        """At how many tokens a conversation is compacted; 0 is never."""
        limits = self.context_tokens_max * self.compact_at, self.compact_at_tokens
        return min(filter(None, limits), default=0) if self.compact_at else 0

    @property
    def counts_context(self) -> bool:
        """Whether there is something to compare what the model has read with."""
        return bool(self.context_tokens_max or self.compact_at_tokens)

    def is_near_limit(self, conversation: Conversation) -> bool:
        """Whether the model has used so much of its context that it is time to compact."""
        return 0 < self.compact_limit <= conversation.tokens


def _matches_question(grant: Grant, question: Question) -> bool:
    """Whether a grant is for calls of this tool and risk, and stands on the same ground."""
    return (
        grant.tool_name == question.call.tool_name
        and question.risk <= grant.risk
        and grant.ground == question.scope.ground
    )


def choose_model(models: Mapping[str, str], task_type: str = "default") -> str:
    """The model for a kind of task; the order is that of the source document.

    Args:
        models: names of models by kind of task; `default` serves the kinds that are not named.
        task_type: any key; nothing restricts what kinds there are.

    Returns:
        `models[task_type]`, else `models["default"]`, else an empty name: the provider's own
        default. An empty name in the table counts as none.
    """
    return models.get(task_type) or models.get("default") or ""
