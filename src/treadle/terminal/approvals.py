"""Asks a person, in the chat, about calls that need a yes and those that a crash left open."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from treadle.app.threads.call_arguments import read_arguments
from treadle.app.threads.question_text import escape_name, list_offered_kinds, read_object
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import RiskLevel
from treadle.terminal.call_text import title_of
from treadle.terminal.ports import SHOW_ALL_KEY, DialogChoice, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from treadle.answers import Answer, Verdict
    from treadle.core.approval import Question
    from treadle.core.messages import ToolCall

COVERED_LENGTH_MAX: Final = 60
"""If what a yes for good would cover is longer, in characters, it is listed with the question."""

"""Of this tool a person edits the command alone, not the JSON around it."""


class QuestionBlocks(Protocol):
    """What a call that needs a yes looks like; the view knows it."""

    def preview_diff(self, question: Question) -> str | None:
        """What the call would change now, as a diff; `None` if it changes no file."""
        ...

    def question_block(
        self, question: Question, diff: str | None, *, is_whole: bool = False
    ) -> RenderableType:
        """The question with that diff; `is_whole` if all of the call is to be seen."""
        ...

    def describe_omission(
        self, question: Question, diff: str | None, *, is_whole: bool = False
    ) -> str:
        """What that block leaves out of the call, in words; empty if nothing."""
        ...


class ApprovalDialogs:
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
        blocks: QuestionBlocks,
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
            return await self._ask_for_verdict(question)
        finally:
            self.is_asking = False

    async def _ask_for_verdict(self, question: Question) -> Verdict:
        from treadle.answers import Verdict
        from treadle.core.approval import Approved, Modified, Rejected

        asked, is_whole = question, False
        while True:
            key = await self._choose(asked, is_whole=is_whole)
            is_whole = key == SHOW_ALL_KEY
            if key == "y" and asked is not question:
                self._notify(f"edited: {title_of(asked.call)}")
                return Verdict(Modified(asked.call.arguments_json))
            if key == "y":
                self._notify("allowed once")
                return Verdict(Approved())
            if key == "a":
                kinds = asked.scope.kinds
                self._notify(f"always allowed from now on: {', '.join(map(escape_name, kinds))}")
                return Verdict(Approved(), always=True, kinds=kinds)
            if key == "e" and (changed := await self._edit_arguments(asked.call)) is not None:
                edited = _make_edited_question(asked, changed, self._folder())
                if RiskLevel.CRITICAL not in (asked.risk, edited.risk):
                    self._notify(f"edited: {title_of(edited.call)}")
                    return Verdict(Modified(changed))
                asked = edited
            if key == "n":
                reason = await self._terminal.enter("Why not? A line for the agent, may be empty")
                if reason is not None:
                    reason = reason.strip()
                    self._notify(f"declined: {reason}" if reason else "declined")
                    return Verdict(Rejected(reason))
            if key == "l":
                await self._leave_open_for_good()

    async def ask(self, question: Question) -> Answer:
        """What became of a call that was running when its process died.

        Raises:
            EOFError: nobody is there any more.
        """
        self.is_asking = True
        try:
            return await self._ask_for_answer(question)
        finally:
            self.is_asking = False

    async def _ask_for_answer(self, question: Question) -> Answer:
        from treadle.answers import Answer, Resolution

        is_whole = False
        while True:
            key = await self._choose_resolution(question, is_whole=is_whole)
            is_whole = key == SHOW_ALL_KEY
            if key == "r":
                self._notify("run again")
                return Answer(Resolution.RUN_AGAIN)
            if key == "f":
                self._notify("counted as failed")
                return Answer(Resolution.FAILED)
            if key == "e":
                result = await self._terminal.enter("Its result", is_long=True)
                if result is not None:
                    self._notify("its result was entered")
                    return Answer(Resolution.RESULT, result)
            if key == "l":
                await self._leave_open_for_good()

    async def _choose(self, question: Question, *, is_whole: bool) -> str:
        """A key, of the question with all of its call or as it usually is."""
        diff = self._blocks.preview_diff(
            question
        )  # once: the file may be another one the next time
        is_cut = bool(self._blocks.describe_omission(question, diff))
        rest = self._blocks.describe_omission(question, diff, is_whole=True) if is_cut else ""
        block = self._render_question(question, diff, is_cut=is_cut, is_whole=is_whole)
        choices = _list_choices(question, is_cut=is_cut)
        if is_cut and not is_whole:
            choices.insert(-1, _show_all_choice(rest))
        return await self._terminal.choose(self._add_rest_hint(block, rest * is_whole), choices)

    async def _choose_resolution(self, question: Question, *, is_whole: bool) -> str:
        from treadle.terminal.blocks.question import describe_omission
        from treadle.terminal.call_diffs import preview_diff
        from treadle.terminal.notices import uncertain_call_block

        choices = [
            DialogChoice("r", "run it again"),
            DialogChoice("f", "count it as failed"),
            DialogChoice("e", "enter its result"),
            DialogChoice("l", "later: it is asked again when you go on"),
        ]
        diff = preview_diff(question.call)
        rest = describe_omission(question, diff, is_whole=True)
        if not is_whole and describe_omission(question, diff):
            choices.insert(-1, _show_all_choice(rest))
        plain = self._terminal.is_plain
        block = uncertain_call_block(question, is_plain=plain, is_whole=is_whole)
        return await self._terminal.choose(self._add_rest_hint(block, rest * is_whole), choices)

    def _add_rest_hint(self, block: RenderableType, rest: str) -> RenderableType:
        """The block, and where all of a call is that is too long to be shown."""
        if not rest:
            return block
        from rich.console import Group

        from treadle.terminal.notices import styled_text

        return Group(
            block, styled_text(f"  all of it: treadle show {self._thread()} --json", "dim")
        )

    async def _leave_open_for_good(self) -> None:
        """Wait for the end of the turn, which takes the question back."""
        import asyncio

        self._notify("left open")
        self._leave_open()
        await asyncio.get_running_loop().create_future()

    def _notify(self, text: str) -> None:
        """What was answered, right below the question."""
        from treadle.terminal.notices import styled_text

        self._terminal.commit(styled_text(f"  {text}", "dim"))

    def _render_question(
        self, question: Question, diff: str | None, *, is_cut: bool, is_whole: bool
    ) -> RenderableType:
        from rich.console import Group

        from treadle.terminal.notices import styled_text

        covered = "" if is_cut else _describe_coverage(question)
        long = () if len(covered) <= COVERED_LENGTH_MAX else list_offered_kinds(question)
        if question.call.id not in self._together:
            self._together = [one.call.id for one in self._waiting()]
        ids = self._together
        blocks = [self._blocks.question_block(question, diff, is_whole=is_whole)]
        if long:
            blocks.append(styled_text("  a yes for always would cover:", "dim"))
            blocks += (styled_text(f"    {kind}") for kind in long)
        if len(ids) > 1 and question.call.id in ids:
            place = f"question {ids.index(question.call.id) + 1} of {len(ids)}"
            blocks.insert(0, styled_text(place, "dim"))
        return blocks[0] if len(blocks) == 1 else Group(*blocks)

    async def _edit_arguments(self, call: ToolCall) -> str | None:
        """The arguments as a person has changed them, as JSON; `None` if they went back."""
        arguments = read_arguments(call)
        command = None if arguments is None else arguments.get("command")
        if (
            arguments is not None
            and kind_of(call.tool_name) is ToolKind.RUN
            and isinstance(command, str)
        ):
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


def _show_all_choice(rest: str) -> DialogChoice:
    return DialogChoice(SHOW_ALL_KEY, "see more of it" if rest else "see all of it")


def _list_choices(question: Question, *, is_cut: bool) -> list[DialogChoice]:
    """The first is what Enter alone takes; a critical call is never approved by that.

    None is for good if the question does not show all of its call.
    """
    found, no = [DialogChoice("y", "yes, this once")], DialogChoice("n", "no, and say why")
    if not is_cut and (covered := _describe_coverage(question)):
        shown = covered if len(covered) <= COVERED_LENGTH_MAX else "what is listed above"
        found.append(
            DialogChoice("a", f"yes, and always for {shown} in this thread", needs_enter=True)
        )
    found.append(DialogChoice("e", "edit it first"))
    found.insert(0 if question.risk >= RiskLevel.CRITICAL else len(found), no)
    return [*found, DialogChoice("l", "later: end the turn, it is asked again when you go on")]


def _describe_coverage(question: Question) -> str:
    """What a yes for good would cover, in a line; empty if there is no such yes."""
    return ", ".join(f"`{kind}`" for kind in list_offered_kinds(question))


def _make_edited_question(question: Question, arguments_json: str, folder: str) -> Question:
    """The question about a call as it was edited; a command is judged anew."""
    from treadle.risk.assess import assess

    def command_of(call: ToolCall) -> str:
        command = (read_arguments(call) or {}).get("command")
        return command if isinstance(command, str) else ""

    call = replace(question.call, arguments_json=arguments_json)
    risk, reasons = question.risk, question.scope.reasons
    if kind_of(call.tool_name) is ToolKind.RUN:
        before, after = (assess(command_of(one), folder) for one in (question.call, call))
        risk = after.risk
        reasons = (*(one for one in reasons if one not in before.reasons), *after.reasons)
    scope = replace(question.scope, reasons=reasons, kinds=())
    return replace(
        question, call=call, risk=risk, reason="this is the call as you have edited it", scope=scope
    )
