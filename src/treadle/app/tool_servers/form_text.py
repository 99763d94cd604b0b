"""Forms of servers in lines of text: what a field asks for, and what a person enters in it."""

from __future__ import annotations

from typing import Final

from treadle.server_questions import FormField, FormValue, ServerQuestion

_WANTED: Final = {
    "form": "asks you to fill out a form; it gets what you write",
    "visit": "asks you to open an address in a browser",
    "answer": "asks for an answer of the model, which you pay for; it gets what the model says",
}


def describe_server_question(question: ServerQuestion) -> tuple[str, list[str]]:
    """What a person is asked, in a line, and all that belongs to it but the fields of a form."""
    lines = [question.text, question.url]
    if question.wish is not None:
        said = (("system", question.wish.system), *question.wish.messages)
        lines += [f"[{role}] {text}" for role, text in said if text]
    return f"The server {question.server} {_WANTED[question.wants]}:", [*filter(None, lines)]


def describe_field(field: FormField) -> str:
    """The field in a line, as it is asked for."""
    words = (field.title or field.name) + (f" ({field.description})" * bool(field.description))
    if field.kind == "choices":
        words += f", of {', '.join(value for value, _ in field.choices)}, with commas between"
    return words if field.is_required else f"{words}, if you like"


def write_value(value: FormValue | None) -> str:
    """A value as a person reads and enters it; empty for none."""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def read_field(field: FormField, text: str) -> FormValue:
    """What a person has entered, as its kind has it; a text if it is none of that kind."""
    if field.kind == "choices":
        return [one.strip() for one in text.split(",") if one.strip()]
    if field.kind == "boolean":
        return _ANSWERS.get(text.strip().lower(), text)
    if field.kind in ("integer", "number"):
        try:
            return int(text) if field.kind == "integer" else float(text)
        except ValueError:
            return text
    return text


_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
