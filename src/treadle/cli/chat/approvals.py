"""Asks a person, in the chat, about calls that need a yes and those that a crash left open."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from treadle.cli.chat.ports import Choice, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from treadle.core.approval import Question
    from treadle.core.messages import ToolCall
    from treadle.runtime.recovery import Answer
    from treadle.runtime.verdict import Verdict

_COMMAND_TOOL: Final = "bash"
"""Of this tool a person edits the command alone, not the JSON around it."""


class Approvals:
    """Asks one thing at a time.

    Args:
        terminal: where it is asked.
        block_of: what a question looks like.
        waiting: all calls that wait, those that are being asked about included.
        leave_open: ends the turn in a way that leaves the question open, on disk.
    """

    def __init__(
        self,
        terminal: Terminal,
        block_of: Callable[[Question], RenderableType],
        waiting: Callable[[], Sequence[Question]],
        leave_open: Callable[[], None],
    ) -> None:
        self._terminal = terminal
        self._block_of = block_of
        self._waiting = waiting
        self._leave_open = leave_open
        self._together: list[str] = []
        """The calls that were found waiting together, those included that are decided by now."""
        self.is_asking = False
        """Whether a question is on the screen."""

    async def approve(self, question: Question) -> Verdict:
        """What a person says of a call that needs a yes.

        Raises:
            EOFError: nobody is there any more.
        """
        self.is_asking = True
        try:
            return await self._verdict(question)
        finally:
            self.is_asking = False

    async def _verdict(self, question: Question) -> Verdict:
        from treadle.core.approval import Approved, Modified, Rejected
        from treadle.runtime.verdict import Verdict

        block, choices = self._block(question), _choices(question)
        while True:
            key = await self._terminal.choose(block, choices)
            if key == "y":
                return Verdict(Approved())
            if key == "a":
                return Verdict(Approved(), always=True, kinds=question.scope.kinds)
            if key == "e" and (changed := await self._edited(question.call)) is not None:
                return Verdict(Modified(changed))
            if key == "n":
                reason = await self._terminal.enter("Why not? A line for the agent, may be empty")
                if reason is not None:
                    return Verdict(Rejected(reason.strip()))
            if key == "l":
                await self._never()

    async def ask(self, call: ToolCall) -> Answer:
        """What became of a call that was running when its process died.

        Raises:
            EOFError: nobody is there any more.
        """
        self.is_asking = True
        try:
            return await self._answer(call)
        finally:
            self.is_asking = False

    async def _answer(self, call: ToolCall) -> Answer:
        from treadle.cli.chat.telling import uncertain_block
        from treadle.runtime.recovery import Answer, Resolution

        choices = [
            Choice("r", "run it again"),
            Choice("f", "count it as failed"),
            Choice("e", "enter its result"),
            Choice("l", "later: it is asked again when you go on"),
        ]
        while True:
            key = await self._terminal.choose(
                uncertain_block(call, is_plain=self._terminal.is_plain), choices
            )
            if key == "r":
                return Answer(Resolution.RUN_AGAIN)
            if key == "f":
                return Answer(Resolution.FAILED)
            if key == "e":
                result = await self._terminal.enter("Its result", is_long=True)
                if result is not None:
                    return Answer(Resolution.RESULT, result)
            if key == "l":
                await self._never()

    async def _never(self) -> None:
        """Wait for the end of the turn, which takes the question back."""
        import asyncio

        self._leave_open()
        await asyncio.get_running_loop().create_future()

    def _block(self, question: Question) -> RenderableType:
        from rich.console import Group

        from treadle.cli.chat.telling import words

        if question.call.id not in self._together:
            self._together = [one.call.id for one in self._waiting()]
        ids, block = self._together, self._block_of(question)
        if len(ids) < 2 or question.call.id not in ids:
            return block
        place = f"question {ids.index(question.call.id) + 1} of {len(ids)}"
        return Group(words(place, "dim"), block)

    async def _edited(self, call: ToolCall) -> str | None:
        """The arguments as a person has changed them, as JSON; `None` if they went back."""
        from treadle.cli.questions import read_object

        arguments = read_object(call.arguments_json)
        command = None if arguments is None else arguments.get("command")
        if arguments is not None and call.tool_name == _COMMAND_TOOL and isinstance(command, str):
            text = await self._terminal.enter("The command to run instead", command, is_long=True)
            if not (text and text.strip()):
                return None
            return json.dumps({**arguments, "command": text}, ensure_ascii=False)
        text = call.arguments_json
        if arguments is not None:
            text = json.dumps(arguments, ensure_ascii=False, indent=2)
        label = "Its arguments, a JSON object"
        while True:
            changed = await self._terminal.enter(label, text, is_long=True)
            if not (changed and changed.strip()):
                return None
            if read_object(changed) is not None:
                return changed
            text, label = changed, "That is no JSON object. Its arguments, a JSON object"


def _choices(question: Question) -> list[Choice]:
    from treadle.cli.questions import in_line

    found = [Choice("y", "yes, this once")]
    kinds = question.scope.kinds
    if kinds:
        named = ", ".join(f"`{in_line(kind)}`" for kind in kinds)
        found.append(Choice("a", f"yes, and always for {named} in this thread"))
    return [
        *found,
        Choice("e", "edit it first"),
        Choice("n", "no, and say why"),
        Choice("l", "later: end the turn, it is asked again when you go on"),
    ]
