"""Git's hooks of a commit, in the sandbox of the agent's commands: what knows both of them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from msgspec import Struct

from treadle.process.program import Cause, run
from treadle.process.result import NOT_STARTED, Bounds, KeptOutput, Ran
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Network
from treadle.tool_failure import ToolFailure
from treadle.workspace.git import OUT_SIZE_MAX
from treadle.workspace.hooks import RunsConfined


def make_hook_runner(sandbox: Sandbox) -> RunsConfined | None:
    """Who runs hooks in a sandbox; nobody if the person wants none: then git runs them."""
    return None if sandbox.is_off else _SandboxHookRunner(sandbox)


class _SandboxHookRunner(Struct, frozen=True):
    sandbox: Sandbox

    async def __call__(
        self, argv: tuple[str, ...], folder: Path, scratch: Path, timeout_s: float
    ) -> tuple[Ran, tuple[str, ...]]:
        """As the port says. Without anything that holds commands nothing is started."""
        if refused := self.sandbox.standing().refused:
            return Ran(NOT_STARTED, err=refused.encode()), ()
        said = KeptOutput(OUT_SIZE_MAX)
        held_notes: tuple[str, ...] = ()
        try:
            has_network = self.sandbox.policy.network is Network.ON
            with self.sandbox.launch(
                argv, str(folder), wants_network=has_network, scratch=(str(scratch),)
            ) as launch:
                ended = await run(
                    launch.argv,
                    cwd="/",
                    env=launch.env,
                    timeout_s=timeout_s,
                    sink=said.add,
                    pass_fds=launch.pass_fds,
                    spares_leader=True,
                )
                status = -signal.SIGKILL
                if ended.cause is Cause.EXIT:
                    held = launch.describe_result(said.data.decode("utf-8", "replace"))
                    status, held_notes = held.exit_code, held.notes
        except (ToolFailure, OSError) as error:
            return Ran(NOT_STARTED, err=str(error).encode()), ()
        if ended.cause is Cause.CANCEL:
            raise asyncio.CancelledError
        problem = Bounds(timeout_s).late if ended.cause is Cause.TIMEOUT else ""
        return Ran(status, said.data, problem=problem), (*held_notes, *launch.notes())
