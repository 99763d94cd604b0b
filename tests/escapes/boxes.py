"""Commands run as the runtime runs them, in each sandbox there is, and what they did outside."""

from __future__ import annotations

import itertools
import json
import shlex
from typing import Final

from escapes.machine import is_inside
from escapes.probes.probe import Probe
from escapes.world import World
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Network, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

OFF: Final = "off"
BUBBLEWRAP: Final = "bubblewrap"
LANDLOCK: Final = "landlock"
TIMEOUT_S: Final = 60.0

_ids: Final = itertools.count()


def sandbox(world: World, backend: str, **options: object) -> Sandbox:
    """One for the world's workspace, held by this backend."""
    level = Level.OFF if backend == OFF else Level.WORKSPACE_WRITE
    settings: dict[str, object] = {"level": level, "network": Network.OFF, "hidden": world.hidden}
    policy = Policy(**{**settings, **options})  # type: ignore[arg-type]
    return Sandbox(policy, world.workspace, backends=() if backend == OFF else (backend,))


async def ready(world: World, backend: str) -> Sandbox:
    """The world's own. Nothing else may run in one before a harmless command was seen to be held.

    A probe that runs without a sandbox can do real harm to the machine of who runs the tests. So
    neither what the sandbox says of itself, nor what it does with a mere file, is enough alone.
    """
    if backend not in world.boxes:
        box = sandbox(world, backend)
        if backend != OFF:
            standing = box.standing(False)
            assert standing.is_confined, standing.confined
            assert not standing.must_ask, standing.why_wide
            assert backend in standing.confined.lower(), standing.confined
            sign = world.outside / "sign"
            await execute(world, box, f"echo x > {shlex.quote(str(sign))}")
            assert not sign.exists(), "a harmless command was not held: nothing else is tried"
        world.boxes[backend] = box
    return world.boxes[backend]


async def execute(world: World, box: Sandbox, command: str, **arguments: object) -> Outcome:
    """Run a command by the tool."""
    assert is_inside()
    registry = Registry(builtin_tools(), workspace=world.workspace, sandbox=box)
    asked = {"command": command, "access": "write", "timeout_s": TIMEOUT_S, **arguments}
    call = ToolCall(f"call-{next(_ids)}", "bash", json.dumps(asked))
    return await registry.execute(call, key=call.id, progress=lambda progress: None)


def text_of(outcome: Outcome) -> str:
    """All that a model would read of it."""
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return f"{outcome.error.message}\n{outcome.error.output}"


async def attempt(world: World, box: Sandbox, probe: Probe, *, is_control: bool) -> list[str]:
    """Run a probe in the world; what it reached, in words: nothing if it is held."""
    assert probe.control or not is_control, "this would harm the machine"
    assert is_control or box.standing(False).is_confined, "this would run without a sandbox"
    command = f'. ./places && [ -d "$OUT" ] || exit 99\n{probe.command}\n'
    if is_control and probe.own_mounts:
        command = f"unshare -Urmu bash -c {shlex.quote(command)}"
    world.tidy()
    world.tell_places(probe.command)
    is_put_back = not is_control and "landlock" in box.standing(False).confined.lower()
    before = world.snapshot(is_put_back=is_put_back)
    if probe.before:
        await execute(world, box, probe.before)
    output = text_of(await execute(world, box, command))
    world.settle()
    if probe.then_git:
        world.use_git()
    after = world.snapshot(is_put_back=is_put_back)
    found = [
        f"changed {name}: {before.get(name)} -> {after.get(name)}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    if "REACHED" in output.splitlines():
        found.append("the kernel let it")
    if world.is_told(output):
        found.append("a secret was told")
    if count := world.callers():
        found.append(f"{count} called outside")
    if harm := world.harm_to_victim():
        found.append(harm)
    if pids := world.survivors():
        found.append(f"these live on: {pids}")
    return [f"{words}; it said: {output}" for words in found]
