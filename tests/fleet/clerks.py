"""A fleet as a program has it: clerks pay bills, and write what they paid into a ledger outside.

The environment says where threads and queue are: `FLEET_URL`, `FLEET_FOLDER`. While
`FLEET_FOLDER/hold` is there, a payment that was written does not end.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from treadle import (
    Agent,
    EffectClass,
    Fleet,
    LocalStore,
    PostgresStore,
    ProcrastinateScheduler,
    ScriptedModel,
    Store,
    tool,
)

FOLDER = Path(os.environ["FLEET_FOLDER"])
URL = os.environ["FLEET_URL"]
LEASE_S = 1.5

PAY = {"calls": [{"tool": "pay", "arguments": {"number": 1}}]}
ALSO = {"calls": [{"tool": "pay", "arguments": {"number": 2}}]}
DONE = {"text": "It is paid."}


@tool(effect=EffectClass.MUTATE)
async def pay(number: int) -> str:
    """Pay a bill, as a bank would do it: what was begun there is done."""
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{number} {os.getpid()}\n")
    while (FOLDER / "hold").exists():  # noqa: ASYNC110  another process takes it away
        await asyncio.sleep(0.01)
    return "paid"


def make_store() -> Store:
    """Threads in a folder of this machine, or in the database."""
    if os.environ.get("FLEET_STORE") == "folder":
        return LocalStore(FOLDER / "threads")
    return PostgresStore(URL, "owner", lease_s=LEASE_S, patience_s=30.0)


store = make_store()
fleet = Fleet(ProcrastinateScheduler(URL, heartbeat_s=0.2, stalled_s=2.0, poll_s=0.2), sweep_s=0.5)
clerk = Agent("clerk", model=ScriptedModel.of(PAY, ALSO, DONE), tools=[pay], store=store)
asking = Agent(
    "asking", model=ScriptedModel.of(PAY, DONE), tools=[pay], store=store, approval="ask"
)
fleet.add(clerk)
fleet.add(asking)
