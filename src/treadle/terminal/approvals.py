"""Asks a person, in the chat, about calls that need a yes and those that a crash left open."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from treadle.app.threads.question_text import in_line, kinds_offered, read_object
from treadle.core.tools import RiskLevel
from treadle.terminal.calls import title_of
from treadle.terminal.ports import SEE, Choice, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from treadle.answers import Answer, Verdict
    from treadle.core.approval import Question
    from treadle.core.messages import ToolCall

COVERED_LENGTH_MAX: Final = 60
"""If what a yes for good would cover is longer, in characters, it is listed with the question."""

_COMMAND_TOOL: Final = "bash"
"""Of this tool a person edits the command alone, not the JSON around it."""


class Blocks(Protocol):
    """What a call that needs a yes looks like; the view knows it."""

    def planned(self, question: Question) -> str | None:
        """What the call would change now, as a diff; `None` if it changes no file."""
        ...

    def question_block(
        self, question: Question, diff: str | None, *, is_whole: bool = False
    ) -> RenderableType:
        """The question with that diff; `is_whole` if all of the call is to be seen."""
        ...

    def unshown(self, question: Question, diff: str | None, *, is_whole: bool = False) -> str:
        """What that block leaves out of the call, in words; empty if nothing."""
        ...


class Approvals:
    """Asks one thing at a time.

    Where a question does not show all of its call, a choice shows it: the question is asked again,
    with all of the call. That is no answer, and makes no other one possible.

    Args:
        terminal: where it is asked.
        blocks: what a question looks like.
        waiting: all calls that wait, those that are being asked about included.
        leave_open: ends the turn in a way that leaves the question open, on disk.
        folder: the absolute path of the workspace.
        thread: the id of the thread, which has all of a call, however long.
    """

    def __init__(
        self,
        terminal: Terminal,
        blocks: Blocks,
        waiting: Callable[[], Sequence[Question]],
        leave_open: Callable[[], None],
        folder: Callable[[], str] = str,
        thread: Callable[[], str] = str,
    ) -> None:
        self._terminal = terminal
        self._blocks = blocks
        self._waiting = waiting
        self._leave_open = leave_open
        self._folder = folder
        self._thread = thread
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
        from treadle.answers import Verdict
        from treadle.core.approval import Approved, Modified, Rejected

        asked, is_whole = question, False
        while True:
            key = await self._choose(asked, is_whole=is_whole)
            is_whole = key == SEE
            if key == "y" and asked is not question:
                self._tell(f"edited: {title_of(asked.call)}")
                return Verdict(Modified(asked.call.arguments_json))
            if key == "y":
                self._tell("allowed once")
                return Verdict(Approved())
            if key == "a":
                kinds = asked.scope.kinds
                self._tell(f"always allowed from now on: {', '.join(map(in_line, kinds))}")
                return Verdict(Approved(), always=True, kinds=kinds)
            if key == "e" and (changed := await self._edited(asked.call)) is not None:
                edited = _edited(asked, changed, self._folder())
                if RiskLevel.CRITICAL not in (asked.risk, edited.risk):
                    self._tell(f"edited: {title_of(edited.call)}")
                    return Verdict(Modified(changed))
                asked = edited
            if key == "n":
                reason = await self._terminal.enter("Why not? A line for the agent, may be empty")
                if reason is not None:
                    reason = reason.strip()
                    self._tell(f"declined: {reason}" if reason else "declined")
                    return Verdict(Rejected(reason))
            if key == "l":
                await self._never()

    async def ask(self, question: Question) -> Answer:
        """What became of a call that was running when its process died.

        Raises:
            EOFError: nobody is there any more.
        """
        self.is_asking = True
        try:
            return await self._answer(question)
        finally:
            self.is_asking = False

    async def _answer(self, question: Question) -> Answer:
        from treadle.answers import Answer, Resolution

        is_whole = False
        while True:
            key = await self._choose_what_became(question, is_whole=is_whole)
            is_whole = key == SEE
            if key == "r":
                self._tell("run again")
                return Answer(Resolution.RUN_AGAIN)
            if key == "f":
                self._tell("counted as failed")
                return Answer(Resolution.FAILED)
            if key == "e":
                result = await self._terminal.enter("Its result", is_long=True)
                if result is not None:
                    self._tell("its result was entered")
                    return Answer(Resolution.RESULT, result)
            if key == "l":
                await self._never()

    async def _choose(self, question: Question, *, is_whole: bool) -> str:
        """A key, of the question with all of its call or as it usually is."""
        diff = self._blocks.planned(question)  # once: the file may be another one the next time
        is_cut = bool(self._blocks.unshown(question, diff))
        rest = self._blocks.unshown(question, diff, is_whole=True) if is_cut else ""
        block = self._block(question, diff, is_cut=is_cut, is_whole=is_whole)
        choices = _choices(question, is_cut=is_cut)
        if is_cut and not is_whole:
            choices.insert(-1, _see(rest))
        return await self._terminal.choose(self._with_rest(block, rest * is_whole), choices)

    async def _choose_what_became(self, question: Question, *, is_whole: bool) -> str:
        from treadle.terminal.blocks.question import unshown
        from treadle.terminal.changes import planned
        from treadle.terminal.notices import uncertain_block

        choices = [
            Choice("r", "run it again"),
            Choice("f", "count it as failed"),
            Choice("e", "enter its result"),
            Choice("l", "later: it is asked again when you go on"),
        ]
        diff = planned(question.call)
        rest = unshown(question, diff, is_whole=True)
        if not is_whole and unshown(question, diff):
            choices.insert(-1, _see(rest))
        plain = self._terminal.is_plain
        block = uncertain_block(question, is_plain=plain, is_whole=is_whole)
        return await self._terminal.choose(self._with_rest(block, rest * is_whole), choices)

    def _with_rest(self, block: RenderableType, rest: str) -> RenderableType:
        """The block, and where all of a call is that is too long to be shown."""
        if not rest:
            return block
        from rich.console import Group

        from treadle.terminal.notices import words

        return Group(block, words(f"  all of it: treadle show {self._thread()} --json", "dim"))

    async def _never(self) -> None:
        """Wait for the end of the turn, which takes the question back."""
        import asyncio

        self._tell("left open")
        self._leave_open()
        await asyncio.get_running_loop().create_future()

    def _tell(self, text: str) -> None:
        """What was answered, right below the question."""
        from treadle.terminal.notices import words

        self._terminal.commit(words(f"  {text}", "dim"))

    def _block(
        self, question: Question, diff: str | None, *, is_cut: bool, is_whole: bool
    ) -> RenderableType:
        from rich.console import Group

        from treadle.terminal.notices import words

        covered = "" if is_cut else _covered(question)
        long = () if len(covered) <= COVERED_LENGTH_MAX else kinds_offered(question)
        if question.call.id not in self._together:
            self._together = [one.call.id for one in self._waiting()]
        ids = self._together
        blocks = [self._blocks.question_block(question, diff, is_whole=is_whole)]
        if long:
            blocks.append(words("  a yes for always would cover:", "dim"))
            blocks += (words(f"    {kind}") for kind in long)
        if len(ids) > 1 and question.call.id in ids:
            place = f"question {ids.index(question.call.id) + 1} of {len(ids)}"
            blocks.insert(0, words(place, "dim"))
        return blocks[0] if len(blocks) == 1 else Group(*blocks)

    async def _edited(self, call: ToolCall) -> str | None:
        """The arguments as a person has changed them, as JSON; `None` if they went back."""
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


def _see(rest: str) -> Choice:
    return Choice(SEE, "see more of it" if rest else "see all of it")


def _choices(question: Question, *, is_cut: bool) -> list[Choice]:
    """The first is what Enter alone takes; a critical call is never approved by that.

    None is for good if the question does not show all of its call.
    """
    found, no = [Choice("y", "yes, this once")], Choice("n", "no, and say why")
    if not is_cut and (covered := _covered(question)):
        shown = covered if len(covered) <= COVERED_LENGTH_MAX else "what is listed above"
        found.append(Choice("a", f"yes, and always for {shown} in this thread", needs_enter=True))
    found.append(Choice("e", "edit it first"))
    found.insert(0 if question.risk >= RiskLevel.CRITICAL else len(found), no)
    return [*found, Choice("l", "later: end the turn, it is asked again when you go on")]


def _covered(question: Question) -> str:
    """What a yes for good would cover, in a line; empty if there is no such yes."""
    return ", ".join(f"`{kind}`" for kind in kinds_offered(question))


def _edited(question: Question, arguments_json: str, folder: str) -> Question:
    """The question about a call as it was edited; a command is judged anew."""
    from treadle.tools.danger.assess import assess

    def command_of(call: ToolCall) -> str:
        command = (read_object(call.arguments_json) or {}).get("command")
        return command if isinstance(command, str) else ""

    call = replace(question.call, arguments_json=arguments_json)
    risk, reasons = question.risk, question.scope.reasons
    if call.tool_name == _COMMAND_TOOL:
        before, after = (assess(command_of(one), folder) for one in (question.call, call))
        risk = after.risk
        reasons = (*(one for one in reasons if one not in before.reasons), *after.reasons)
    scope = replace(question.scope, reasons=reasons, kinds=())
    return replace(
        question, call=call, risk=risk, reason="this is the call as you have edited it", scope=scope
    )
