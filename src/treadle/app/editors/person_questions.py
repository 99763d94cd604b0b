"""What a person is asked in an editor, the answers that are offered, and what each means."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from treadle.answers import Answer, Resolution, Verdict
from treadle.app.editors.session_updates import CallBegun
from treadle.config.settings import ApprovalMode
from treadle.core.approval import Approved, Question, Rejected
from treadle.thread.question_text import (
    describe_cut,
    describe_possible_grant,
    describe_unseen,
    list_argument_texts,
    mark_unseen,
)


class AnswerOption(Struct, frozen=True):
    """One answer: `kind` in the words of the Agent Client Protocol, `words` for the person."""

    id: str
    words: str
    kind: Literal["allow_once", "allow_always", "reject_once"]


class PersonQuestion(Struct, frozen=True):
    """A question about a call. Its text says why it is asked, and what speaks against a yes."""

    call: CallBegun
    options: tuple[AnswerOption, ...]


ONCE: Final = AnswerOption("once", "Yes, this once", "allow_once")
NO: Final = AnswerOption("no", "No", "reject_once")
RUN_AGAIN: Final = AnswerOption("run_again", "Run it again", "allow_once")
FAILED: Final = AnswerOption("failed", "Count it as failed", "reject_once")
PLAN_OPTIONS: Final = (
    AnswerOption("ask", "Yes, and ask before each change", "allow_once"),
    AnswerOption("auto-edit", "Yes, and edit files unasked", "allow_always"),
    AnswerOption("no", "No, stay in plan mode", "reject_once"),
)
_MODES: Final[dict[str, ApprovalMode]] = {"ask": "ask", "auto-edit": "auto-edit"}


def list_verdict_options(question: Question) -> tuple[AnswerOption, ...]:
    """How a call can be answered that needs a yes.

    A yes for the rest of the thread says exactly what it covers; there is none where it could not.
    """
    covered = describe_possible_grant(question)
    words = f"Yes, and always for {covered} in this thread"
    always = (AnswerOption("always", words, "allow_always"),) if covered else ()
    return (ONCE, *always, NO)


def make_verdict(question: Question, option: str) -> Verdict:
    """What an answer to such a question means; one that was not offered means no."""
    if option == "always" and describe_possible_grant(question):
        return Verdict(Approved(), always=True, kinds=question.scope.kinds)
    return Verdict(Approved() if option == ONCE.id else Rejected())


def make_resolution(option: str) -> Answer:
    """What is said of a call of which nobody knows whether it happened."""
    return Answer(Resolution.RUN_AGAIN if option == RUN_AGAIN.id else Resolution.FAILED)


def choose_mode_after_plan(option: str) -> ApprovalMode | None:
    """The mode in which a plan is carried out; `None` to stay in plan mode."""
    return _MODES.get(option)


def explain_question(question: Question) -> str:
    """Why a call is asked about, and what speaks against a yes, as Markdown."""
    call = question.call
    lines = [f"{question.reason}." if question.reason else "", *map(_warn, question.scope.reasons)]
    shown = [*list_argument_texts(call.arguments_json)]
    cautions = filter(None, (describe_cut(call.arguments_json), describe_unseen(shown)))
    lines += map(_warn, cautions)
    if question.scope.confined:
        lines.append(f"It would run confined: {question.scope.confined}.")
    lines.append(f"Risk: {question.risk.name.lower()}.")
    return "\n\n".join(mark_unseen(line) for line in lines if line)


def _warn(words: str) -> str:
    return f"**Careful:** {words}"
