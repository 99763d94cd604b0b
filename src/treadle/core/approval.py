"""When a call needs a person's yes, and what a person can say. The same rules for both machines.

The risk of a call is the one its tool declares, or a higher one that the tool sees in the
arguments; it comes in with the event that brings the call. Policies read it:

- `AlwaysAsk`, `NeverAsk` say it themselves.
- `AskAbove(level)` asks for this level and everything above it.
- `ToolBased(levels)` gives tools other levels than they declare, and asks from high risk on.

A person's yes to one call is bound to its `Scope`: what else was true when they said it. A grant,
a yes for the rest of the thread, is for calls of one kind, under the same ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from treadle.core.messages import ToolCall
from treadle.core.tools import Access, ApprovalBinding, RiskLevel


class AlwaysAsk(Struct, frozen=True, tag="always_ask"):
    """Every call needs a yes."""


class NeverAsk(Struct, frozen=True, tag="never_ask"):
    """No call does."""


class OnlyRead(Struct, frozen=True, tag="only_read"):
    """A call that may change what lasts does not run, whoever says so; others need no yes.

    But for one whose scope says that it reads, or reaches the network, and that is of high risk.
    """


class AskAbove(Struct, frozen=True, tag="ask_above"):
    """A call of this risk or a higher one needs a yes."""

    risk: RiskLevel


class ToolBased(Struct, frozen=True, tag="tool_based"):
    """Tools named here have this risk instead of their own; high and critical need a yes.

    What a tool sees in the arguments of a call can raise its risk further, never lower it.
    """

    risks: dict[str, RiskLevel]


Policy: TypeAlias = AlwaysAsk | NeverAsk | AskAbove | ToolBased | OnlyRead


class Scope(Struct, frozen=True, omit_defaults=True):
    """What a yes to a call covers, as its tool sees it; it comes in with the event of the call.

    `reasons` say in words what is dangerous about it. `kinds` are what grants name: for a command
    the beginnings of its parts (`git status`, `npm test`), for a file its folder (`src/`). A grant
    covers a call if each of its kinds was granted; one without kinds can only be allowed by itself.
    A kind that ends in a slash is a folder, and those below it are covered with it.
    `ground` is a digest of what a yes and a grant stand on: folder, environment, sandbox. `content`
    is a digest of what a yes alone stands on: the file that would be edited. `confined` says in
    words what holds the call when it runs (`workspace-write, no network, bubblewrap`). A call that
    `must_ask` is asked about under every policy. One that is `refused` fails by itself, for the
    reason that stands there, and nobody is asked in vain. `file` is the file that would be written,
    by its name without links; calls of a round that write one file run one after the other. Of
    several files `files` has the names, and `content` a digest for each, with spaces between them.
    `access` is what the call may change; without it, what the effect class of its tool says.
    """

    reasons: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    ground: str = ""
    content: str = ""
    confined: str = ""
    must_ask: bool = False
    refused: str = ""
    file: str = ""
    access: Access | None = None
    files: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """The files that would be written, as far as the tool names them."""
        return self.files or ((self.file,) if self.file else ())

    @property
    def binding(self) -> ApprovalBinding | UnsetType:
        """What a yes is bound to; unset if to nothing but the arguments."""
        return ApprovalBinding(self.ground, self.content) if self.ground or self.content else UNSET


NO_SCOPE: Final = Scope()
"""That of a call whose tool says nothing. One object, which is what lets it be left out on disk."""


def join_scopes(scopes: Sequence[Scope]) -> Scope:
    """The scope of a call that does all of this, each to one file, on the same ground.

    A grant covers it if it covers each part; a part that no grant covers keeps all from it.
    """
    parts = [*{one.file: one for one in scopes}.values()]
    if len(parts) == 1:
        return parts[0]
    kinds = dict.fromkeys(kind for one in parts for kind in one.kinds)
    return Scope(
        reasons=tuple(dict.fromkeys(reason for one in parts for reason in one.reasons)),
        kinds=tuple(kinds) if all(one.kinds for one in parts) else (),
        ground=parts[0].ground,
        content=" ".join(one.content for one in parts),
        must_ask=any(one.must_ask for one in parts),
        refused=next((one.refused for one in parts if one.refused), ""),
        files=tuple(one.file for one in parts),
    )


class Grant(Struct, frozen=True, omit_defaults=True):
    """A person's yes for the rest of a thread: to calls of one kind of a tool, up to a risk.

    Without a `kind` it is for the whole tool. It holds under the `ground` it was given on only.
    """

    tool_name: str
    risk: RiskLevel
    kind: str = ""
    ground: str = ""


class Question(Struct, frozen=True, omit_defaults=True):
    """A call that waits for a person: what would run, how risky it is, why it is asked about."""

    call: ToolCall
    risk: RiskLevel
    reason: str
    scope: Scope = NO_SCOPE

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is asked about, in the order for people: what is dangerous, then the policy's."""
        return (*self.scope.reasons, self.reason)


class Approved(Struct, frozen=True, tag="approved"):
    """Run it."""


class Rejected(Struct, frozen=True, tag="rejected"):
    """Do not run it; the model reads the reason."""

    reason: str = ""


class Modified(Struct, frozen=True, tag="modified"):
    """Run it with these arguments (JSON text) instead; `risk` is that of the call as modified."""

    arguments_json: str
    risk: RiskLevel | None = None


Decision: TypeAlias = Approved | Rejected | Modified


MUST_ASK: Final = "this call needs approval under every policy"


def make_question(
    policy: Policy,
    call: ToolCall,
    declared: RiskLevel,
    assessed: RiskLevel,
    scope: Scope = NO_SCOPE,
) -> Question | None:
    """What a person must be asked before the call may run; `None` if nothing.

    Args:
        policy: when to ask.
        call: what would run.
        declared: the risk of the tool.
        assessed: the risk of this very call; at least the declared one.
        scope: what a yes would cover; one that must ask does so under every policy.
    """
    risk, why = assessed, ""
    if isinstance(policy, AlwaysAsk):
        why = "every call needs approval"
    elif isinstance(policy, OnlyRead):
        # Without its access said, as in older journals, no call is asked about.
        if scope.access in (Access.READ, Access.NETWORK):
            why = _explain_risk_limit(RiskLevel.HIGH, risk)
    elif isinstance(policy, AskAbove):
        why = _explain_risk_limit(policy.risk, risk)
    elif isinstance(policy, ToolBased):
        risk = policy.risks.get(call.tool_name, declared)
        risk = max(risk, assessed) if assessed > declared else risk
        why = _explain_risk_limit(RiskLevel.HIGH, risk)
    if scope.must_ask:
        why = why or MUST_ASK
    return Question(call, risk, why, scope) if why else None


def _explain_risk_limit(asked_from: RiskLevel, risk: RiskLevel) -> str:
    """Why a call of this risk is asked about; empty if it is not."""
    if risk < asked_from:
        return ""
    words = f"calls of {asked_from.name.lower()} risk and above need approval"
    return f"{words}; this one is {risk.name.lower()}"


def is_kind_covered(granted: str, kind: str) -> bool:
    """Whether a grant of one kind covers calls of another: the same, or a folder below it."""
    if granted == kind:
        return True
    return granted.endswith("/") and kind.endswith("/") and kind.startswith(granted)


MODIFIED_HEAD: Final = "[a person changed the arguments to "


def describe_modified_call(arguments_json: str, text: str) -> str:
    """What the model reads of a call that a person changed before it ran."""
    return f"{MODIFIED_HEAD}{arguments_json}]\n{text}"
