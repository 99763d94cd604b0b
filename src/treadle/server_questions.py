"""What a server of tools asks back in a call, and what a person says to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from treadle.core.messages import ToolCall

FormValue: TypeAlias = str | int | float | bool | list[str]

FieldKind: TypeAlias = Literal["text", "integer", "number", "boolean", "choice", "choices"]


class FormField(Struct, frozen=True, omit_defaults=True):
    """One thing that a form asks for.

    `choices` are values with what people are shown of each. `least` and `most` bound a number, the
    length of a text, or how many are chosen.
    """

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: FormValue | None = None
    choices: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None

    def find_fault(self, value: object) -> str:
        """Why a value does not fit; empty if it does."""
        size: float = 0
        values = [one for one, _ in self.choices]
        match self.kind:
            case "text" if isinstance(value, str):
                size, noun = len(value), "characters"
            case "choice" if value in values:
                return ""
            case "boolean" if isinstance(value, bool):
                return ""
            case "integer" if isinstance(value, int) and not isinstance(value, bool):
                size, noun = value, ""
            case "number" if isinstance(value, int | float) and not isinstance(value, bool):
                size, noun = value, ""
            case "choices" if isinstance(value, list) and all(one in values for one in value):
                size, noun = len(value), "of them"
            case _:
                return _EXPECTED[self.kind]
        if self.least is not None and size < self.least:
            return f"at least {self.least:g} {noun}".rstrip()
        if self.most is not None and not size <= self.most:
            return f"at most {self.most:g} {noun}".rstrip()
        return ""


_EXPECTED: Mapping[str, str] = {
    "text": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "choice": "one of the choices",
    "choices": "some of the choices",
}


class ModelWish(Struct, frozen=True):
    """What a server wants a model to answer: messages of `user` and `assistant`, in order."""

    messages: tuple[tuple[str, str], ...]
    system: str = ""
    tokens_max: int = 0


class ServerQuestion(Struct, frozen=True, omit_defaults=True):
    """What a server of tools asks a person in a call; nothing of it steers a terminal.

    It wants a `form` filled out, a person to `visit` an address (`url`), or the `answer` of a model
    (`wish`), which is asked when a person has said yes. `text` is why, in the server's words.
    """

    server: str
    wants: Literal["form", "visit", "answer"]
    text: str
    fields: tuple[FormField, ...] = ()
    url: str = ""
    wish: ModelWish | None = None

    @property
    def defaults(self) -> dict[str, FormValue]:
        """What stands in the form before anybody has filled it out."""
        return {one.name: one.default for one in self.fields if one.default is not None}

    def find_fault(self, values: Mapping[str, object]) -> str:
        """Why values do not fill out the form; empty if they do."""
        fields = {one.name: one for one in self.fields}
        for name in fields.keys() - values.keys():
            if fields[name].is_required:
                return f"{name} is missing"
        for name, value in values.items():
            if name not in fields:
                return f"the form has no {name}"
            if fault := fields[name].find_fault(value):
                return f"{name}: {fault}"
        return ""


class ServerAnswer(Struct, frozen=True, omit_defaults=True):
    """What a person says: yes, with the `values` of the form; no; or nothing (`cancel`).

    Of a model's answer, which the runtime puts in, `text` is what it said and `model` who.
    """

    action: Literal["accept", "decline", "cancel"]
    values: dict[str, FormValue] = {}
    text: str = ""
    model: str = ""


AskPersonForServer: TypeAlias = Callable[[ServerQuestion], Awaitable[ServerAnswer]]
"""Asks a person; may take as long as they do."""

AnswerServer: TypeAlias = Callable[[ToolCall, ServerQuestion], Awaitable[ServerAnswer]]
"""Has a question answered that a server has asked in a call, whoever answers it."""
