"""How a server of tools is started: in the sandbox, with what it was given and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from treadle.app.sandbox_policy import make_policy
from treadle.app.tool_servers.configured import ToolServer
from treadle.config.mcp_servers import ToolSetting
from treadle.config.settings import SandboxLevel, Settings
from treadle.core.tools import EffectClass, RiskLevel
from treadle.mcp.failures import ConnectionFailed
from treadle.mcp.server import ALL_TOOLS, MCPRule, MCPServer
from treadle.mcp.tool_set import ServerTools
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Network
from treadle.store.paths import Places
from treadle.tool_failure import ToolFailure

if TYPE_CHECKING:
    from treadle.mcp.stdio import ServerProgram

LOGINS: Final = "mcp-logins"
"""The folder of tokens of servers at which somebody has logged in, in the user's state."""
UNKNOWN_TOOL: Final = MCPRule(EffectClass.MUTATE, RiskLevel.HIGH)
"""What is known of a tool of which the settings say nothing: it is asked about as a command is."""


def make_server_tools(
    server: ToolServer, settings: Settings, places: Places, folder: str, level: SandboxLevel
) -> ServerTools:
    """A server that is used, to be started when its tools are needed.

    Args:
        server: of the settings.
        settings: all of them.
        places: the folders of the user, which it does not see.
        folder: where it runs, which it sees.
        level: what commands may change.
    """
    filled = server.filled
    described = MCPServer(
        server.name,
        filled.command,
        filled.args,
        filled.env,
        folder if filled.command else "",
        filled.url,
        filled.headers,
        {ALL_TOOLS: UNKNOWN_TOOL} | {name: _make_rule(one) for name, one in filled.tools.items()},
    )
    only_reads = level == "workspace-write" and not filled.write
    usual = make_policy(settings, places)
    words = (filled.command, *filled.args)
    folders = [word for word in words if word.startswith("/") and Path(word).is_dir()]
    policy = replace(
        usual,
        readable=(*usual.readable, *_list_places(words), *([] if filled.write else folders)),
        writable=(*usual.writable, *(folders if filled.write else ())),
        level=Level.READ_ONLY if only_reads else Level(level),
        network=Network.ON if filled.network else Network.OFF,
    )

    @contextmanager
    def hold(program: ServerProgram) -> Iterator[ServerProgram]:
        own = {name: v for name, v in program.environment.items() if name not in program.given}
        sandbox = Sandbox(policy, program.folder, environ=own)
        if sandbox.is_off:
            yield program
            return
        standing = sandbox.standing()
        if not standing.is_confined:
            raise ConnectionFailed(standing.refused)
        try:
            with sandbox.launch(
                program.argv,
                program.folder,
                wants_network=filled.network,
                variables=program.given,
            ) as launch:
                yield replace(
                    program,
                    argv=tuple(launch.argv),
                    environment=launch.env,
                    pass_fds=launch.pass_fds,
                )
        except ToolFailure as failure:
            raise ConnectionFailed(failure.message) from failure

    return ServerTools(described, hold, logins=places.state / LOGINS)


def _list_places(words: Iterable[str]) -> Iterator[str]:
    """Where the files are that a command line names: a program is seen with what is beside it.

    What is credentials there stays hidden.
    """
    for path in (Path(word) for word in words if word.startswith("/")):
        if path.is_file():
            within = [one for one in path.parents if any((one / name).exists() for name in _ROOTS)]
            place = within[0] if within else path.parent
            yield str(path if place in _TOO_WIDE or place == Path.home() else place)


_ROOTS: Final = ("package.json", "pyproject.toml")
_TOO_WIDE: Final = (Path("/"), Path("/home"), Path("/tmp"))  # noqa: S108  a folder of everybody's


def _make_rule(setting: ToolSetting) -> MCPRule:
    return MCPRule(EffectClass(setting.effect), RiskLevel[setting.risk.upper()])
