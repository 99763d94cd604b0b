"""What a call of a tool knows besides its arguments."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, cast

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import UsageError

if TYPE_CHECKING:  # a program that declares tools loads nothing of what only some calls have
    # A variable with a default is in `typing` from Python 3.13 on, and checkers know it before.
    from typing_extensions import TypeVar

    from treadle.core.sightings import Sightings
    from treadle.core.tool_families import OfferedTool
    from treadle.core.tools import ToolProgress
    from treadle.risk.commits import UncommittedFile
    from treadle.sandbox.box import Sandbox
    from treadle.tools.background import BackgroundCommands
    from treadle.tools.paths import Root

    DepsT = TypeVar("DepsT", default=Any)
    """Where nothing is said of it, a tool takes whatever its agent is given."""
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")


class AgentContext(Struct, Generic[DepsT], frozen=True):
    """What a program says of the thread that its agent works on.

    `deps` is what it gives its agent's tools, `thread_key` its own name for the thread.
    """

    deps: DepsT = cast("DepsT", None)
    thread_key: str = ""


def _is_never_cancelled() -> bool:
    return False


class ToolContext(Struct, Generic[DepsT], frozen=True):
    """What a call knows besides its arguments: the type of an optional first parameter.

    Of the program: `deps` is what it gave its agent, `thread_key` its own name for the thread.
    Of the call: `call_id` names it in its thread; `key` is the same for every run of the same call:
    an idempotency key, which begins with the id of the thread and a colon. `progress` may be called
    from the tool's own thread, as often as the tool likes. `is_cancelled` says whether a tool in a
    thread is to end; an async one is cancelled.

    Of the folder: `root` is that of the registry, if it has one; `sandbox` holds the commands in
    it, `None` if nothing does. `scratch` is the path of the folder of the thread's own
    (`thread_scratch.py`), which a path can name instead; empty if it has none. `others_files` are
    those that are not committed and not the agent's, as far as somebody knows. `sightings` say
    which files the model has been told of in its thread; `None` if nobody knows.

    `background` takes commands that go on when their call has returned; `None` where nobody could
    look after them. `shape` is that in which the tool is offered, if it is not its own, and `names`
    are those of all tools that are offered. `explains` is false where a call is looked at and
    nobody reads why it would fail: what takes time to find is left out then.
    """

    key: str
    progress: Callable[[ToolProgress], None]
    root: Root | None = None
    sandbox: Sandbox | None = None
    scratch: str = ""
    others_files: Callable[[], Sequence[UncommittedFile]] = tuple
    sightings: Sightings | None = None
    call_id: str = ""
    background: BackgroundCommands | None = None
    shape: OfferedTool | None = None
    names: tuple[str, ...] = ()
    explains: bool = True
    deps: DepsT = cast("DepsT", None)
    thread_key: str = ""
    tool_name: str = ""
    is_cancelled: Callable[[], bool] = _is_never_cancelled

    @property
    def thread_id(self) -> str:
        """The thread that the call is made in; empty if it belongs to none."""
        return self.key.partition(":")[0]

    @property
    def log(self) -> logging.Logger:
        """A logger of the tool's own: `treadle.tools.NAME`."""
        return logging.getLogger(f"treadle.tools.{self.tool_name}")

    def argument(self, path: str) -> str:
        """What the model calls an argument of the tool, or a field of one (`LIST.FIELD`)."""
        return path.rpartition(".")[2] if self.shape is None else self.shape.name_of(path)

    @property
    def workspace(self) -> Root:
        """The folder to work in; `UsageError` if the registry was made without one."""
        if self.root is None:
            raise UsageError("this tool needs a registry with a workspace")
        return self.root

    def place(
        self, arguments: dict[str, Any], *, only_reads: bool = False
    ) -> tuple[ToolContext, dict[str, Any]]:
        """The context and the arguments of a call whose `path` may lie in another folder.

        If it does, that folder is the workspace of the call: a tool needs to know of no second one,
        and no path leads from one to the other. It is the scratch folder, or for a tool that
        `only_reads` that of a skill, which may lie anywhere. What the model has seen there is not
        kept: names are those in the workspace.
        """
        path = arguments.get("path")
        if not isinstance(path, str) or self.sandbox is None:
            return self, arguments
        from treadle.sandbox.path_rules import is_below
        from treadle.sandbox.thread_scratch import expand_variable, make_scratch
        from treadle.tools.paths import Root

        skills = self.sandbox.policy.skills if only_reads else ()
        for folder in skills if path.startswith("/") else ():
            if is_below(os.path.normpath(path), folder):
                return replace(self, root=Root(folder), sightings=None), arguments
        if not self.scratch:
            return self, arguments
        path = expand_variable(path, self.scratch)
        is_there = path == self.scratch or path.startswith(f"{self.scratch}/")
        if not is_there or not make_scratch(self.scratch):
            return self, arguments
        return replace(self, root=Root(self.scratch), sightings=None), {**arguments, "path": path}

    @property
    def is_in_scratch(self) -> bool:
        """Whether the scratch folder is the workspace of this call."""
        return self.root is not None and str(self.root.path) == self.scratch
