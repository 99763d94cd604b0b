"""Asks a person, in the chat, about calls that need a yes and those that a crash left open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from treadle.app.threads.call_arguments import read_arguments
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import RiskLevel
from treadle.terminal.call_text import title_of
from treadle.terminal.live_lines import crop_text
from treadle.terminal.ports import DialogChoice, Terminal
from treadle.thread.question_text import escape_name, list_offered_kinds, read_object
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from treadle.answers import Answer, Verdict
    from treadle.core.approval import Question
    from treadle.core.messages import ToolCall
    from treadle.server_questions import ServerAnswer, ServerQuestion

COVERED_LENGTH_MAX: Final = 60
"""If what a yes for good would cover is longer, in characters, it is listed with the question."""

INSTEAD: Final = ": what to do instead? It may be empty"
CROPPED_MIN: Final = 20
"""Columns of a call that are named at least, on however narrow a screen."""


class ApprovalContext(Struct, frozen=True):
    """What questions need of the chat around them.

    `waiting` gives all calls that wait, those that are being asked about included. `leave_open`
    ends the turn in a way that leaves the question open, on disk; `leave` ends the chat, as nobody
    is there any more. `folder` is the absolute path of the workspace, `thread` the id of the
    thread, which has all of a call, however long, and `mode` the name of the approval mode.
    """

    waiting: Callable[[], Sequence[Question]]
    leave_open: Callable[[], None]
    leave: Callable[[], None] = lambda: None
    folder: Callable[[], str] = str
    thread: Callable[[], str] = str
    mode: Callable[[], str] = str


class ApprovalDialogs:
    """Asks one thing at a time, and leaves a line of what was answered.

    Args:
        terminal: where it is asked.
        preview: what a call would change now, as a diff; `None` if it changes no file.
        context: the chat.
        pause: told when a person is asked, and when they are not any more.
    """

    def __init__(
        self,
        terminal: Terminal,
        preview: Callable[[Question], str | None],
        context: ApprovalContext,
        pause: Callable[[bool], None] = lambda is_waiting: None,
    ) -> None:
        self._terminal = terminal
        self._preview = preview
        self._context = context
        self._pause = pause
        self._together: list[str] = []
        """The calls that were found waiting together, those included that are decided by now."""
        self.is_asking = False
        """Whether a question is on the screen."""

    async def approve(self, question: Question) -> Verdict:
        """What a person says of a call that needs a yes.

        Raises:
            EOFError: nobody is there any more.
        """
        mode = self._context.mode()
        with self._asking():
            try:
                return await self._ask_for_verdict(question)
            except asyncio.CancelledError:
                if (by := self._context.mode()) != mode:
                    self._tell("·", "dim", f"answered by mode {by}", title_of(question.call))
                raise

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """A question is on the screen; if nobody is there any more, the chat ends."""
        self.is_asking = True
        self._pause(True)
        try:
            yield
        except EOFError:
            self._context.leave()
            raise
        finally:
            self.is_asking = False
            self._pause(False)

    async def _ask_for_verdict(self, question: Question) -> Verdict:
        from treadle.answers import Verdict
        from treadle.app.threads.changed_calls import make_changed_question
        from treadle.core.approval import Approved, Modified, Rejected

        asked = question
        while True:
            key = await self._choose(asked)
            if key == "y" and asked is not question:
                return self._allow(asked.call, Verdict(Modified(asked.call.arguments_json)))
            if key == "y":
                return self._allow(asked.call, Verdict(Approved()))
            if key == "a":
                kinds = asked.scope.kinds
                return self._allow(asked.call, Verdict(Approved(), always=True, kinds=kinds))
            if key == "e" and (changed := await self._edit_arguments(asked.call)) is not None:
                edited = make_changed_question(asked, changed, self._context.folder())
                if RiskLevel.CRITICAL not in (asked.risk, edited.risk):
                    return self._allow(edited.call, Verdict(Modified(changed)))
                asked = edited
            if key == "n":
                label = f"No to {self._crop(title_of(asked.call), INSTEAD)}{INSTEAD}"
                reason = await self._terminal.enter(label, is_long=True, is_answer=True)
                if reason is not None:
                    reason = reason.strip()
                    title = title_of(asked.call)
                    self._tell("✗", "bad", "rejected", f"{title}: {reason}" if reason else title)
                    return Verdict(Rejected(reason))
            if key == "l":
                await self._leave_open_for_good(title_of(asked.call))

    def _allow(self, call: ToolCall, verdict: Verdict) -> Verdict:
        """The verdict, when what it says is told."""
        from treadle.core.approval import Modified

        if verdict.always:
            kinds = ", ".join(map(escape_name, verdict.kinds))
            self._tell("✓", "good", "always allowed from now on", kinds)
            return verdict
        is_edited = isinstance(verdict.decision, Modified)
        words = "allowed as edited" if is_edited else "allowed once"
        self._tell("✓", "good", words, title_of(call))
        return verdict

    async def ask(self, question: Question) -> Answer:
        """What became of a call that was running when its process died.

        Raises:
            EOFError: nobody is there any more.
        """
        with self._asking():
            return await self._ask_for_answer(question)

    async def answer_server(self, question: ServerQuestion) -> ServerAnswer:
        """What a person says to what a server of tools asks back. Raises as `ask`."""
        from treadle.terminal.server_questions import ServerQuestionDialogs

        try:
            return await ServerQuestionDialogs(self._terminal, self._pause).answer(question)
        except EOFError:
            self._context.leave()
            raise

    async def _ask_for_answer(self, question: Question) -> Answer:
        from treadle.answers import Answer, Resolution

        title = title_of(question.call)
        while True:
            key = await self._choose_resolution(question)
            if key == "r":
                self._tell("✓", "good", "run again", title)
                return Answer(Resolution.RUN_AGAIN)
            if key == "f":
                self._tell("✗", "bad", "counted as failed", title)
                return Answer(Resolution.FAILED)
            if key == "e":
                result = await self._terminal.enter("Its result", is_long=True, is_answer=True)
                if result is not None:
                    self._tell("✓", "good", "its result was entered", title)
                    return Answer(Resolution.RESULT, result)
            if key == "l":
                await self._leave_open_for_good(title)

    async def _choose(self, question: Question) -> str:
        """A key, of the question with all of its call."""
        from rich.console import Group

        from treadle.terminal.blocks.question import describe_omission, question_blocks

        diff = self._preview(question)  # once: the file may be another one the next time
        plain = self._terminal.is_plain
        asked = question_blocks(question, diff, thread=self._context.thread(), is_plain=plain)
        is_cut = bool(describe_omission(question.call, diff))
        return await self._terminal.choose(
            Group(*self._describe_place(question), asked.head),
            _list_choices(question, is_cut=is_cut),
            body=asked.body,
            foot=Group(asked.foot, *([] if is_cut else _list_long_coverage(question))),
        )

    async def _choose_resolution(self, question: Question) -> str:
        from treadle.app.threads.call_diffs import preview_diff
        from treadle.terminal.blocks.question import doubt_blocks

        choices = [
            DialogChoice("r", "run it again"),
            DialogChoice("f", "count it as failed"),
            DialogChoice("e", "enter its result"),
            DialogChoice("l", "later: it is asked again when you go on"),
        ]
        diff, plain = preview_diff(question.call), self._terminal.is_plain
        asked = doubt_blocks(question, diff, thread=self._context.thread(), is_plain=plain)
        return await self._terminal.choose(asked.head, choices, body=asked.body, foot=asked.foot)

    async def _leave_open_for_good(self, title: str) -> None:
        """Wait for the end of the turn, which takes the question back."""
        self._tell("·", "dim", "left open", title)
        self._context.leave_open()
        await asyncio.get_running_loop().create_future()

    def _tell(self, mark: str, style: str, words: str, subject: str) -> None:
        """The line that a question leaves: what was answered, and of what."""
        from treadle.terminal.notices import styled_text

        mark = "" if self._terminal.is_plain else f"{mark} "
        subject = self._crop(sanitize_text(" ".join(subject.split())), f"{mark}{words}")
        parts = (styled_text(mark, style), styled_text(words), styled_text(f" · {subject}", "dim"))
        self._terminal.commit(styled_text(""), styled_text("").join(parts))

    def _crop(self, words: str, beside: str) -> str:
        """What there is room for of words in a line with others."""
        return crop_text(words, max(CROPPED_MIN, self._terminal.width - len(beside) - 7))

    def _describe_place(self, question: Question) -> Iterator[RenderableType]:
        """Which one it is of several that wait together."""
        from treadle.terminal.notices import styled_text

        if question.call.id not in self._together:
            self._together = [one.call.id for one in self._context.waiting()]
        ids = self._together
        if len(ids) > 1 and question.call.id in ids:
            place = f"question {ids.index(question.call.id) + 1} of {len(ids)}"
            yield styled_text(place, "dim")

    async def _edit_arguments(self, call: ToolCall) -> str | None:
        """The arguments as a person has changed them, as JSON; `None` if they went back."""
        arguments = read_arguments(call)
        command = None if arguments is None else arguments.get("command")
        if (
            arguments is not None
            and kind_of(call.tool_name) is ToolKind.RUN
            and isinstance(command, str)
        ):
            label = "The command to run instead"
            text = await self._terminal.enter(label, command, is_long=True, is_answer=True)
            if not (text and text.strip()):
                return None
            return json.dumps({**arguments, "command": text}, ensure_ascii=False)
        text = call.arguments_json
        if arguments is not None:
            text = json.dumps(arguments, ensure_ascii=False, indent=2)
        label = "Its arguments, a JSON object"
        while True:
            changed = await self._terminal.enter(label, text, is_long=True, is_answer=True)
            if not (changed and changed.strip()):
                return None
            if read_object(changed) is not None:
                return changed
            text, label = changed, "That is no JSON object. Its arguments, a JSON object"


def _list_choices(question: Question, *, is_cut: bool) -> list[DialogChoice]:
    """The first is what Enter alone takes; a critical call is never approved by that.

    None is for good if the question does not show all of its call.
    """
    found, no = (
        [DialogChoice("y", "yes, this once")],
        DialogChoice("n", "no, and what to do instead"),
    )
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


def _list_long_coverage(question: Question) -> Iterator[RenderableType]:
    """The same, a line for each kind, where it is too long for the words of a choice."""
    from treadle.terminal.notices import styled_text

    if len(_describe_coverage(question)) > COVERED_LENGTH_MAX:
        yield styled_text("  a yes for always would cover:", "dim")
        yield from (styled_text(f"    {kind}") for kind in list_offered_kinds(question))
