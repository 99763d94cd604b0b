"""A person says yes to a call: in another process, minutes or months later.

Run it:  python examples/approval.py FOLDER                begins, and stops at the question
         python examples/approval.py FOLDER THREAD yes     says yes, and goes on
         python examples/approval.py FOLDER THREAD "no, it is in use"
"""

import asyncio
import sys
from pathlib import Path

from treadle import (
    AgentBuilder,
    ApprovalNeeded,
    Approved,
    AskAbove,
    LocalStore,
    Places,
    Rejected,
    RiskLevel,
    ScriptedModel,
    tool,
)


@tool(risk=RiskLevel.HIGH)
def delete(name: str) -> str:
    """Delete a database.

    Args:
        name: which one.
    """
    return f"{name} is deleted"


MODEL = ScriptedModel.of(
    {"calls": [{"tool": "delete", "arguments": {"name": "old-orders"}}]},
    {"when": {"last": "^ERROR"}, "text": "I did not delete it: a person said no."},
    {"when": {"last": "is deleted"}, "text": "The database old-orders is gone."},
)


def agent(folder: Path) -> AgentBuilder:
    store = LocalStore(Places(folder / "data", folder / "state", folder / "config"))
    policy = AskAbove(RiskLevel.HIGH)
    return AgentBuilder("Clean up", llm=MODEL, tools=[delete], store=store, approval=policy)


async def main(folder: str, thread: str = "", answer: str = "") -> None:
    cleaner = agent(Path(folder))
    async with cleaner.resume(thread) if thread else cleaner.build() as engine:
        if thread:
            decision = Approved() if answer == "yes" else Rejected(answer)
            await engine.decide({one.call.id: decision for one in engine.questions})
        try:
            print(await engine.run())
        except ApprovalNeeded as question:
            print(question.message)


if len(sys.argv) not in (2, 4):
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
