"""What `treadle doctor` says of commands here: does one run, and what is less safe than usual?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from treadle.app.sessions.provider_reachability import ProviderReachability
from treadle.app.upkeep.checks import Finding, check_sandbox, ok, warning
from treadle.config.loader import LoadedSettings
from treadle.core.messages import ToolCall
from treadle.core.tool_families import COMMAND_NAME
from treadle.core.tools import ToolExecutionOutcome
from treadle.models.catalog import is_loopback_host
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

_SETTINGS = "`treadle config show --origin` tells where it is set"


def check_commands(policy: Policy) -> Iterator[Finding]:
    """What holds commands in this folder: found by running one of each kind.

    Only that sees what the file system of this very machine makes of the sandbox.
    """
    # A look leaves nothing behind, so no cache either; and nobody has said that it may run free.
    sandbox = Sandbox(replace(policy, caches="", may_ask=False), Path.cwd())
    wanted = () if sandbox.is_off else ("read",) if sandbox.only_reads else ("read", "write")
    problems = {access: asyncio.run(_try_command(sandbox, access)) for access in wanted}
    (finding,) = check_sandbox()
    failed = {access: problem for access, problem in problems.items() if problem}
    if finding.status != "ok" or not failed:
        yield finding
        return
    kinds = " or ".join(failed)
    text = f"no command that may {kinds} can run in {Path.cwd()}: {'; '.join({*failed.values()})}"
    yield warning("sandbox", text, "work in another folder, or mend it (docs/sandbox.md)")


async def _try_command(sandbox: Sandbox, access: str) -> str:
    """Why a command does not run; empty if it does."""
    registry = Registry(builtin_tools(), workspace=sandbox.workspace, sandbox=sandbox)
    call = ToolCall("doctor", COMMAND_NAME, json.dumps({"command": "echo ran", "access": access}))
    outcome = await registry.execute(call, key=call.id, progress=lambda progress: None)
    if not isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.error.text
    return "" if outcome.output == "ran\n[exit code 0]" else outcome.output


def check_settings(loaded: LoadedSettings, user: int) -> Iterator[Finding]:
    """What was chosen that lets an agent do more than usual, or has it ask more.

    Args:
        loaded: the settings that hold here.
        user: number of who runs this.
    """
    chosen = loaded.settings
    if chosen.sandbox == "off":
        text = 'sandbox = "off": commands can do whatever you can'
        yield warning("sandbox", text, f"use `--sandbox off` for single runs; {_SETTINGS}")
    if chosen.network == "on":
        text = 'network = "on": commands reach the network, also localhost, unasked'
        yield warning("network", text, f'choose "ask"; {_SETTINGS}')
    if chosen.read == "ask":
        yield ok("read", f'read = "ask": commands that only read are asked about too; {_SETTINGS}')
    if chosen.approval_mode == "auto":
        text = 'approval_mode = "auto": new threads ask nothing'
        yield warning("approval", text, f"use `--approval-mode auto` for single runs; {_SETTINGS}")
    if user == 0:
        text = "you are root: what gets out of the sandbox owns the machine"
        yield warning("user", text, "work as an ordinary user")


def check_keys(reached: Iterable[ProviderReachability]) -> Iterator[Finding]:
    """Keys that others on the way could read."""
    for one in reached:
        address = urlsplit(one.address)
        if one.key and address.scheme == "http" and not is_loopback_host(address.hostname or ""):
            text = f"the key of {one.provider} ({one.key}) goes to {one.address} unencrypted"
            yield warning("key", text, "use https, or a tunnel to localhost")
