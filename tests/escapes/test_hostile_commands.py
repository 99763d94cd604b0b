"""T4: commands that misbehave end in time, leave nothing alive, and cost the runtime little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from escapes.boxes import BUBBLEWRAP, LANDLOCK, execute, ready, text_of
from escapes.world import World, a_world, forget_template
from treadle.process import program
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Limits, Network, Policy
from treadle.tools.output import HEAD_SIZE_MAX, TAIL_SIZE_MAX

TIMEOUT_S: Final = 0.5
TERM_S: Final = 0.2
"""How long they are asked to end before they are killed: here they do not listen anyway."""
MORE_S_MAX: Final = 2.0
"""What a command that ignores everything may take longer."""
MACHINE_S: Final = 60.0
"""Allowed on top where the tests share two processors with others."""
MEMORY_SIZE_MAX: Final = 50 * 2**20
LIMITS: Final = Limits(processes_max=64, memory_size_max=300 * 2**20, file_size_max=8 * 2**20)

_MARKED: Final = 'exec -a "$SURVIVOR" sleep 300'

QUIET: Final = {
    "it ignores TERM": f"trap '' TERM INT HUP; {_MARKED}",
    "it becomes a daemon": f"(setsid bash -c '{_MARKED}' > /dev/null 2>&1 &) ; {_MARKED}",
    "it closes its output": f"exec >&- 2>&-; {_MARKED}",
    "it stops itself": "kill -STOP $$",
    "it stops everybody": f"({_MARKED}) & kill -STOP -- -$$; kill -STOP $$; sleep 300",
    "it kills its parent": f"kill -9 $PPID; {_MARKED}",
    "it wants an answer": "read -p 'sure? ' x < /dev/tty; sleep 300",
    "it waits for a pipe": "mkfifo p; cat p",
}
"""These use nothing up, and so are tried all at once."""
COMMANDS: Final = {
    "a fork bomb": f"b() {{ b | b & }}; b; {_MARKED}",
    "many that sleep": f"for i in {{1..400}}; do ({_MARKED}) & done; wait",
    "a memory bomb": "\"$PY\" -c 'x = bytearray(2**31); import time; time.sleep(300)'",
    "memory bit by bit": "\"$PY\" -c 'x = []\nwhile True: x.append(bytearray(2**22))'",
    "endless output": "yes",
    "endless output of two": "yes & yes >&2 & wait",
    "it fills the disk": "while true; do head -c 100M /dev/zero > f$((i++ % 3)); done",
    "it fills what is its own": "while true; do head -c 100M /dev/zero > /tmp/f$((i++)); done",
    "it never sleeps": "while :; do :; done",
}


@pytest.fixture(scope="module", params=[BUBBLEWRAP, LANDLOCK])
def held(request: pytest.FixtureRequest) -> Iterator[tuple[World, Sandbox, str]]:
    """A world with a sandbox of small limits."""
    with a_world() as world:
        policy = Policy(Level.WORKSPACE_WRITE, Network.OFF, hidden=world.hidden, limits=LIMITS)
        yield world, Sandbox(policy, world.workspace, backends=(request.param,)), request.param
    forget_template()


@pytest.mark.parametrize("name", [*COMMANDS, "the quiet ones"])
async def test_it_ends_and_nothing_is_left(
    held: tuple[World, Sandbox, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "TERM_S", TERM_S)
    world, box, backend = held
    await ready(world, backend)  # which checks, harmlessly, that it holds
    assert box.standing(False).is_confined
    world.tidy()
    world.tell_places("")
    memory = own_memory()
    began = time.monotonic()
    outcomes = await asyncio.gather(
        *(
            execute(world, box, f". ./places || exit 99\n{command}", timeout_s=TIMEOUT_S)
            for command in ([COMMANDS[name]] if name in COMMANDS else QUIET.values())
        )
    )
    took = time.monotonic() - began
    assert took <= TIMEOUT_S + MORE_S_MAX + MACHINE_S, [text_of(one)[:300] for one in outcomes]
    assert world.survivors() == []
    assert own_memory() - memory <= MEMORY_SIZE_MAX
    sizes = [path.stat().st_size for path in world.workspace.rglob("f[0-9]*")]
    assert max(sizes, default=0) <= LIMITS.file_size_max
    world.tidy()


@pytest.mark.parametrize(
    "size", [64 * 2**20, pytest.param(5 * 2**30, marks=pytest.mark.torture)], ids=["64M", "5G"]
)
async def test_of_much_output_the_ends_are_kept_and_the_rest_is_counted(
    held: tuple[World, Sandbox, str], size: int
) -> None:
    world, box, backend = held
    await ready(world, backend)
    memory = own_memory()
    command = f"printf begin; yes | head -c {size}; printf end"
    said = text_of(await execute(world, box, command, timeout_s=300))
    assert own_memory() - memory <= MEMORY_SIZE_MAX
    assert said.startswith("begin")
    assert said.endswith("end\n[exit code 0]")
    dropped = size + len("beginend") - HEAD_SIZE_MAX - TAIL_SIZE_MAX
    assert str(dropped) in said.replace(",", "").replace("_", "")


async def test_who_uses_too_much_is_told_so(held: tuple[World, Sandbox, str]) -> None:
    world, box, backend = held
    await ready(world, backend)
    world.tell_places("")
    many = f". ./places || exit 99\n{COMMANDS['many that sleep']}"
    said = text_of(await execute(world, box, many, timeout_s=90))
    assert "too many processes" in said or "Resource temporarily unavailable" in said
    large = f". ./places || exit 99\n{COMMANDS['memory bit by bit']}"
    said = text_of(await execute(world, box, large, timeout_s=90))
    assert (
        "too much memory" in said
    )  # the machine of the tests has a bound of its own, and no words
    assert world.survivors() == []


def own_memory() -> int:
    """Bytes that this process, the runtime, holds."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError
