"""Asks a person what a server of tools asks back: a form, a visit, an answer of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from treadle.app.tool_servers.form_text import (
    describe_field,
    describe_server_question,
    read_field,
    write_value,
)
from treadle.server_questions import FormField, FormValue, ServerAnswer, ServerQuestion
from treadle.terminal.ports import DialogChoice, ListRow, Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

_YES: Final = {
    "form": "fill it out",
    "visit": "yes, I have opened it",
    "answer": "yes, ask the model this once",
}
_LATER: Final = DialogChoice("l", "put it aside: the server gets no answer")


class _Skipped(Enum):
    """What a person says instead of a value."""

    FIELD = "leave it out"
    FORM = "go back"


class ServerQuestionDialogs:
    """Asks one thing at a time, and leaves a line of what was answered.

    Args:
        terminal: where it is asked.
        pause: told when a person is asked, and when they are not any more.
    """

    def __init__(self, terminal: Terminal, pause: Callable[[bool], None]) -> None:
        self._terminal = terminal
        self._pause = pause

    async def answer(self, question: ServerQuestion) -> ServerAnswer:
        """What a person says.

        Raises:
            EOFError: nobody is there any more.
        """
        from treadle.terminal.notices import styled_text

        self._pause(True)
        try:
            said = await self._ask(question)
        finally:
            self._pause(False)
        words = {"accept": "answered", "decline": "refused", "cancel": "put aside"}[said.action]
        told = styled_text(f"{words} · what the server {question.server} asked", "dim")
        self._terminal.commit(styled_text(""), told)
        return said

    async def _ask(self, question: ServerQuestion) -> ServerAnswer:
        yes = DialogChoice("y", _YES[question.wants], needs_enter=question.wants == "answer")
        while True:
            key = await self._choose(question, [yes, DialogChoice("n", "no"), _LATER])
            if key != "y":
                return ServerAnswer("decline" if key == "n" else "cancel")
            if question.wants != "form":
                return ServerAnswer("accept")
            if (values := await self._fill_out(question)) is None:
                continue  # they went back
            filled = (one for one in question.fields if one.name in values)
            told = [f"{one.title or one.name}: {write_value(values[one.name])}" for one in filled]
            send = DialogChoice("y", "send it to the server")
            again = DialogChoice("e", "fill it out again")
            key = await self._choose(question, [send, again, DialogChoice("n", "no")], told)
            if key != "e":
                return ServerAnswer("accept", values) if key == "y" else ServerAnswer("decline")

    async def _choose(
        self,
        question: ServerQuestion,
        choices: Sequence[DialogChoice],
        told: Sequence[str] | None = None,
    ) -> str:
        from rich.console import Group

        from treadle.terminal.notices import styled_text

        head, lines = describe_server_question(question)
        body: list[RenderableType] = [styled_text(line) for line in lines]
        fields = [describe_field(one) for one in question.fields] if told is None else told
        body += [styled_text(f"  {line}", "dim" if told is None else "") for line in fields]
        return await self._terminal.choose(styled_text(head, "bold"), choices, body=Group(*body))

    async def _fill_out(self, question: ServerQuestion) -> dict[str, FormValue] | None:
        """The values; `None` if they thought better of it."""
        values: dict[str, FormValue] = {}
        for field in question.fields:
            value = await self._enter(field)
            if value is _Skipped.FORM:
                return None
            if not isinstance(value, _Skipped):
                values[field.name] = value
        return values

    async def _enter(self, field: FormField) -> FormValue | _Skipped:
        label = describe_field(field)
        if field.kind in ("boolean", "choice"):
            return await self._pick(field, label)
        text = write_value(field.default)
        while True:
            given = await self._terminal.enter(label, text)
            if given is None:
                return _Skipped.FORM
            if not given.strip() and not field.is_required:
                return _Skipped.FIELD
            value = read_field(field, given)
            if not (fault := field.find_fault(value)):
                return value
            text, label = given, f"{describe_field(field)}: {fault}, please"

    async def _pick(self, field: FormField, label: str) -> FormValue | _Skipped:
        choices = field.choices or (("true", "yes"), ("false", "no"))
        default = str(field.default).lower() if field.kind == "boolean" else field.default
        ordered = sorted(choices, key=lambda one: one[0] != default)
        # By their place: a server may call a value what it likes.
        rows = [ListRow(str(at), shown or value) for at, (value, shown) in enumerate(ordered)]
        rows += [] if field.is_required else [ListRow("-", "leave it out")]

        def search(typed: str) -> list[ListRow]:
            return [one for one in rows if typed.lower() in one.text.lower()]

        picked = await self._terminal.pick(label, search)
        if picked is None or picked == "-":
            return _Skipped.FORM if picked is None else _Skipped.FIELD
        value = ordered[int(picked)][0]
        return value == "true" if field.kind == "boolean" else value
