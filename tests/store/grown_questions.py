"""What format 1 has come to hold last: what a call may change, and a question that comes late."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from core.samples import Success, call, said
from store.grown import ASKING, GROUND, TOOLS, Golden, says
from thread.journals import at
from treadle.core.approval import Approved, OnlyRead, Question, Rejected, Scope
from treadle.core.config import AgentConfig
from treadle.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Compacted,
    CompactionRequested,
    ToolCompleted,
    ToolStarted,
)
from treadle.core.tools import Access, RewrittenFile, RiskLevel
from treadle.thread.facts import Configured, Recovered, Scrubbed

FREE: Final = AgentConfig(model_name="model-1", tools=TOOLS, parallel_max=2)
HERE: Final = Scope(
    ("it writes \u2028",),
    ("src/",),
    GROUND,
    "0d" * 32,
    "workspace-write, no network, bubblewrap",
    refused="there is no room",
    file="/w/src/a.txt",
    access=Access.WRITE,
)
LATE: Final = "calls of high risk and above need approval; this one is critical"
ASKED_AFTER_ALL: Final = Golden(
    "executing_tools",
    (
        (
            Configured(replace(FREE, approval=OnlyRead()), "scripted"),
            Configured(FREE, "scripted"),
            *(Recovered("its program had stopped", "a limit"), Scrubbed(1, "0c" * 16, True)),
            *(said("what is it?"), says(0, "a loom"), CompactionRequested()),
            Compacted(2, "It is a loom.", words=80),
            said("mend it"),
        ),
        (says(1, "", call("a", "edit"), call("b", "look"), call("c", "put")),),
        (
            Configured(ASKING, "scripted"),
            ApprovalRequired(
                (
                    Question(call("a", "edit"), RiskLevel.CRITICAL, LATE, HERE),
                    Question(call("c", "put"), RiskLevel.HIGH, "so it is now"),
                ),
                at(2),
            ),
        ),
        (ApprovalDecided("a", Approved(), at(3)),),
        (ApprovalDecided("c", Rejected("not this"), at(4)),),
        (
            ToolStarted("a", at(5), HERE.confined, Access.WRITE),
            ToolStarted("b", at(5), access=Access.READ),
        ),
        (
            ToolCompleted(
                "a",
                Success(
                    "a",
                    "written",
                    ("src/a.txt",),
                    None,
                    (RewrittenFile("/w/src/a.txt", "0d", "0e"),),
                ),
                at(6),
            ),
        ),
    ),
)
