"""How the body of a tool says that the call failed."""

from __future__ import annotations

from treadle.core.messages import SeenFile
from treadle.core.tools import ToolErrorKind


class ToolFailure(Exception):  # noqa: N818  it becomes a `ToolError`, which is data
    """The call failed in a way the model should read about; raised by tools, caught by `Registry`.

    Args:
        kind: why; the kind's words come first in what the model reads.
        message: what happened and what to do next, without repeating the kind's words.
        output: what the tool had produced before it failed.
        seen: files of which the message says how they are.

    Raises:
        ValueError: there is no such kind.
    """

    def __init__(
        self, kind: ToolErrorKind, message: str, output: str = "", seen: tuple[SeenFile, ...] = ()
    ) -> None:
        super().__init__(message)
        # What is no kind fails here, in the tool, which is told to the model like any fault of it.
        self.kind = ToolErrorKind(kind)
        self.message = message
        self.output = output
        self.seen = seen
