"""What an agent answers with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, cast

from msgspec import Struct

from treadle.agent.type_variables import OutputT
from treadle.core.approval import Question
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.errors import AgentError, AgentFailed, ApprovalNeeded, BudgetExceeded, UsageError
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.runtime.answer_form import AnswerForm
from treadle.runtime.output_modes import OutputMode, find_output_mode


class Result(Struct, Generic[OutputT], frozen=True):
    """An answer, and what it took.

    `output` is the answer as a value of the type that the agent has for it; without one it is
    `text`, as the model wrote it. `thread_id` names the thread that has all of it, `version` its
    last record. `usage` is what this answer has used of models, failed requests included.
    `output_mode` is `native` if the provider held its model to the type, `prompted` if only words
    did, `text` for an agent without one.
    """

    output: OutputT
    text: str
    thread_id: str
    version: int
    usage: Usage
    output_mode: OutputMode = "text"


def make_result(
    finished: TurnFinished, form: AnswerForm[Any] | None, messages: Sequence[Message]
) -> Result[Any]:
    """The answer of a turn that is done, in a thread of these messages."""
    text = finished.answer
    value = cast("Any", text) if form is None else form.decode(text)
    mode: OutputMode = "text" if form is None else find_output_mode(messages)
    return Result(value, text, finished.thread, finished.version, finished.turn_usage, mode)


def has_answer(messages: Sequence[Message]) -> bool:
    """Whether a model spoke last: a thread at rest may be new, or its last turn cancelled."""
    return bool(messages) and messages[-1].role == "assistant"


def raise_failure(
    finished: TurnFinished, questions: tuple[Question, ...], messages: Sequence[Message]
) -> None:
    """Raise why a turn has no answer, if it has none.

    Raises:
        UsageError: there was nothing to work at, and nothing has been answered.
        ApprovalNeeded: a call waits for a person's yes.
        BudgetExceeded: a limit of steps, tokens, cost or time is used up.
        AgentFailed: the model did not answer.
        AgentError: the turn was stopped.
    """
    if finished.outcome is TurnOutcome.DONE:
        if not has_answer(messages):
            raise UsageError("nothing is unfinished, and there is no answer", hint="send(PROMPT)")
        return
    if finished.outcome is TurnOutcome.APPROVAL:
        calls = [f"{one.call.tool_name} {one.call.arguments_json}" for one in questions]
        raise ApprovalNeeded(finished.thread, calls)
    kinds = {TurnOutcome.LIMIT: BudgetExceeded, TurnOutcome.FAILED: AgentFailed}
    kind = kinds.get(finished.outcome, AgentError)
    raise kind(finished.error, hint=f"`treadle show {finished.thread}` tells how it got there")
