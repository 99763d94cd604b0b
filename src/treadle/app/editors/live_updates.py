"""What an editor is told of what a session puts out, while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from treadle import outputs
from treadle.app.editors.call_updates import begin_call, end_call
from treadle.app.editors.session_updates import (
    CallBegun,
    CallChanged,
    CallStatus,
    CommandPrinted,
    MessageText,
    PlanTold,
    SessionUpdate,
)
from treadle.app.threads.call_changes import FileReader
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.core.tools import ToolExecutionOutcome
from treadle.outputs import Output
from treadle.thread.plan import read_plan_call
from treadle.thread.safe_text import sanitize_text

SO_FAR_LENGTH_MAX: Final = 8_000
"""Characters of a command's output that stand in each report, from its end."""


class LiveUpdates:
    """Turns outputs into updates, and gives each call an id of its own.

    A model may give one id to two calls of a session, and an editor knows calls by their ids.

    Args:
        folder: the absolute path of the workspace.
        read: reads its files, to show what a call will change.
        show: takes the updates.
    """

    def __init__(
        self, folder: str, read: FileReader, show: Callable[[SessionUpdate], None]
    ) -> None:
        self._folder = folder
        self._read = read
        self._show = show
        self._used: dict[str, int] = {}
        """How many calls have had an id."""
        self._told: dict[str, ToolCall] = {}
        """The calls that were told of and have not ended, by their own ids."""
        self._plans: dict[str, ToolCall] = {}
        """Those that tell the plan, which are shown as the plan that they tell."""
        self._printed: dict[str, str] = {}

    def show_output(self, output: Output) -> None:
        """Tell what there is to tell of an output."""
        for update in self._list_updates(output):
            self._show(update)

    def show_question(self, call: ToolCall) -> CallBegun:
        """A call that waits for a person, as it is shown; it is told of if it was not yet."""
        is_new = call.id not in self._told
        begun = self._begin(call, "pending")
        if is_new:
            self._show(begun)
        return begun

    def end_question(self, call: ToolCall, *, is_allowed: bool) -> None:
        """A person has answered, and no output tells what becomes of the call."""
        if self._told.pop(call.id, None) is not None:
            status: CallStatus = "completed" if is_allowed else "failed"
            told = "" if is_allowed else "not allowed; it did not run"
            self._show(CallChanged(self.name_call(call.id), status, told))

    def close_open_calls(self) -> None:
        """The turn is over: what has not ended by now is told anew when it goes on."""
        for call_id in self._told:
            self._show(CallChanged(self.name_call(call_id), "failed", "not ended yet"))
        self._told.clear()
        self._plans.clear()
        self._printed.clear()

    def count_call(self, call_id: str) -> str:
        """What the editor is told to call another call of this id."""
        self._used[call_id] = self._used.get(call_id, 0) + 1
        return self.name_call(call_id)

    def name_call(self, call_id: str) -> str:
        """What the editor was told to call the newest call of this id."""
        count = self._used.get(call_id, 1)
        return call_id if count == 1 else f"{call_id}#{count}"

    def _list_updates(self, output: Output) -> Iterator[SessionUpdate]:
        match output:
            case outputs.TextDelta():
                yield MessageText("agent", output.text)
            case outputs.ThinkingDelta() if output.text:
                yield MessageText("thought", output.text)
            case outputs.ToolStarted():
                yield from self._start(output.call)
            case outputs.ToolProgressed():
                yield from self._print(output)
            case outputs.ToolFinished():
                yield from self._finish(output)
            case outputs.HookFinished() if output.note:
                yield make_remark(output.note)
            case outputs.Retrying():
                yield make_remark(
                    f"{output.error.message}; it is tried again in {output.delay_s:.0f} s"
                )
            case outputs.Notice() | outputs.ErrorShown():
                yield make_remark(output.text)
            case _:
                pass

    def _start(self, call: ToolCall) -> Iterator[SessionUpdate]:
        if kind_of(call.tool_name) is ToolKind.PLAN:
            self._plans[call.id] = call
        elif call.id in self._told:  # it was asked about
            yield CallChanged(self.name_call(call.id), "in_progress")
        else:
            yield self._begin(call, "in_progress")

    def _begin(self, call: ToolCall, status: CallStatus) -> CallBegun:
        if call.id not in self._told:
            self.count_call(call.id)
        self._told[call.id] = call
        return begin_call(call, self.name_call(call.id), status, self._folder, self._read)

    def _print(self, output: outputs.ToolProgressed) -> Iterator[SessionUpdate]:
        text, call = output.progress.message, self._told.get(output.call_id)
        if not text or call is None:
            return
        text = sanitize_text(text)
        is_command = kind_of(call.tool_name) is ToolKind.RUN
        before = self._printed.get(output.call_id, "") if is_command else ""
        self._printed[output.call_id] = (before + text)[-SO_FAR_LENGTH_MAX:]
        name, so_far = self.name_call(output.call_id), self._printed[output.call_id]
        yield CommandPrinted(name, text, so_far, is_command=is_command)

    def _finish(self, output: outputs.ToolFinished) -> Iterator[SessionUpdate]:
        planned = self._plans.pop(output.call_id, None)
        told = self._told.get(output.call_id)
        call = told or planned or output.call
        plan = None if call is None else read_plan_call(call)
        if plan is not None and isinstance(output.outcome, ToolExecutionOutcome.Success):
            yield PlanTold(plan)
            return
        if told is None and call is not None:
            yield self._begin(call, "in_progress")
        self._told.pop(output.call_id, None)
        self._printed.pop(output.call_id, None)
        yield end_call(call, self.name_call(output.call_id), output.outcome)


def make_remark(text: str) -> MessageText:
    """Words of this program, which no model has said, as Markdown shows them apart."""
    lines = sanitize_text(text).strip().split("\n")
    return MessageText("agent", "\n\n" + "\n".join(f"> {line}" for line in lines) + "\n\n")
