"""What one call of a command may do, what holds it then, and what a person is asked before.

The tool and the question about it go by the same decision: whoever calls the tool may not have
asked anybody, so a command that has to be held is held, or does not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.tools import Access, RiskLevel
from treadle.risk.settings import Setting, settings_written
from treadle.sandbox.box import Sandbox
from treadle.sandbox.git_settings import may_be_written
from treadle.sandbox.policy import Network
from treadle.sandbox.status import NO_NETWORK

WantedAccess: TypeAlias = Literal["read", "write"]
"""What a command says that it has to do with files."""

LEAVES: Final = "it leaves the sandbox: it can do whatever you can"
_NOBODY: Final = (
    "only a person can let a command leave the sandbox, and nobody is there to be asked. Call it "
    "without `outside`; or a person can run it in a terminal, or allow it in `treadle chat`"
)
READ_ONLY: Final = (
    'nothing can be changed here: the sandbox is "read-only". A person may allow it: '
    '`--sandbox workspace-write` for one run, `sandbox = "workspace-write"` in their own settings'
)


class CommandWish(Struct, frozen=True):
    """What a command says that it needs. Who says nothing reads, and has no network."""

    command: str
    access: WantedAccess = "read"
    network: bool = False
    outside: bool = False


class CommandDecision(Struct, frozen=True):
    """How a command runs.

    `box` holds it; without one it runs as the person could run it. `risk` is at least that of the
    call. Where `is_advised`, a person may be asked, and the words of the command add to its risk
    and its reasons; where `is_grantable`, they say what a grant would name. `reasons` are those
    that no word of the command says. `settings` are those of git that a yes lets it write.
    """

    access: Access
    box: Sandbox | None
    confined: str
    ground: str
    risk: RiskLevel = RiskLevel.HIGH
    is_advised: bool = True
    is_grantable: bool = True
    reasons: tuple[str, ...] = ()
    must_ask: bool = False
    refused: str = ""
    settings: tuple[Setting, ...] = ()


def make_wish(arguments: Any) -> CommandWish:
    """What the arguments of a call say."""
    names = CommandWish.__struct_fields__
    return CommandWish(**{name: arguments[name] for name in names})


def decide_command(wish: CommandWish, sandbox: Sandbox | None) -> CommandDecision:
    """How a command runs, as things stand. Quick after the first time.

    Args:
        wish: what it says that it needs.
        sandbox: what holds the commands of the registry; `None` for who has none.
    """
    if sandbox is None:
        return CommandDecision(Access.WRITE, None, "no sandbox", "")
    if sandbox.is_off:
        status = sandbox.standing(wish.network)
        return CommandDecision(Access.WRITE, None, status.confined, status.ground)
    reads = wish.access == "read" and not wish.outside
    if sandbox.only_reads and not reads:
        return _decide_held(wish, sandbox, Access.WRITE, refused=READ_ONLY)
    if wish.outside:
        return _decide_outside(sandbox)
    box = sandbox.reading if reads else sandbox
    if box.standing().why_unheld:
        return _decide_unheld(wish, box)
    return _decide_reading(wish, box) if reads else _decide_writing(wish, box)


def _decide_outside(sandbox: Sandbox) -> CommandDecision:
    """Of a command that the sandbox is in the way of: a yes for each, which is for no other."""
    return CommandDecision(
        Access.WRITE,
        None,
        "no sandbox",
        sandbox.standing().ground,
        risk=RiskLevel.CRITICAL,
        is_grantable=False,
        reasons=(LEAVES,),
        must_ask=True,
        refused="" if sandbox.policy.may_ask else _NOBODY,
    )


def _decide_unheld(wish: CommandWish, box: Sandbox) -> CommandDecision:
    """Of a command that has to be held, where nothing can: it runs free after a yes."""
    status = box.standing(wish.network)
    has_no_network = wish.network and box.policy.network is Network.OFF
    refused = "" if box.policy.may_ask else status.refused
    return CommandDecision(
        Access.WRITE,
        None,
        status.confined,
        status.ground,
        reasons=(f"nothing can hold commands here: {status.why_unheld}",),
        must_ask=True,
        refused=NO_NETWORK if has_no_network else refused,
    )


def _decide_reading(wish: CommandWish, box: Sandbox) -> CommandDecision:
    """Of a command that changes nothing here: nobody is asked, but for the network."""
    found = _decide_held(wish, box, Access.NETWORK if wish.network else Access.READ)
    is_allowed = not wish.network or box.policy.network is Network.ON
    if box.policy.asks_to_read or not is_allowed:
        return found
    return replace(found, risk=RiskLevel.LOW, is_advised=False)


def _decide_held(
    wish: CommandWish, box: Sandbox, access: Access, refused: str = ""
) -> CommandDecision:
    status = box.standing(wish.network)
    asks = wish.network and box.policy.network is Network.ASK
    return CommandDecision(
        access,
        box,
        status.confined,
        status.ground,
        reasons=("it asks for the network",) if asks else (),
        must_ask=status.must_ask,
        refused=refused or status.refused,
    )


def _decide_writing(wish: CommandWish, box: Sandbox) -> CommandDecision:
    found = _decide_held(wish, box, Access.WRITE)
    settings = settings_written(wish.command) if box.shuts_git_settings else ()
    reasons = list(found.reasons)
    if settings:
        reasons.append(f"it writes settings of git: {', '.join(map(str, settings))}")
    if why := box.standing(wish.network).why_wide:
        reasons.insert(0, f"the sandbox is wide open: {why}")
    return replace(
        found,
        reasons=tuple(reasons),
        must_ask=found.must_ask or bool(settings),
        refused=found.refused or _why_not_written(box, settings),
        settings=settings,
    )


def _why_not_written(box: Sandbox, settings: Iterable[Setting]) -> str:
    """Why no person is asked about settings of git; empty if one may be."""
    for one in settings:
        if one.value is not None and not may_be_written(one.key, one.value):
            return (
                f"no command may set {one}: it is none of the settings of which it is known that "
                "git runs no program and reaches no other files by them. A person can set it in a "
                "terminal"
            )
        if not box.policy.may_ask:
            return (
                f"it writes settings of git ({one}), which a person has to allow, and nobody is "
                "there to be asked. A person can do it in a terminal, or in `treadle chat`"
            )
    return ""
