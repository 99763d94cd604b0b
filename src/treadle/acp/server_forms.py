"""What a server of tools asks back, as the protocol puts it to a person, and what they say."""

from __future__ import annotations

from typing import Any, Final

from acp.schema import (
    AcceptElicitationResponse,
    ElicitationCapabilities,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationUrlSessionMode,
)

from treadle.server_questions import FieldKind, FormField, ServerAnswer, ServerQuestion

_TYPES: Final[dict[FieldKind, str]] = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "choice": "string",
    "choices": "array",
}
_BOUNDS: Final[dict[str, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}


def can_show(question: ServerQuestion, offered: ElicitationCapabilities | None) -> bool:
    """Whether an editor that offers this can show the question."""
    if offered is None:
        return False
    return (offered.form if question.wants == "form" else offered.url) is not None


def make_mode(
    question: ServerQuestion, session_id: str, number: int
) -> ElicitationFormSessionMode | ElicitationUrlSessionMode:
    """A form, or an address to be visited; `number` tells it apart in its session.

    Raises:
        ValueError: the protocol cannot say it.
    """
    if question.wants == "visit":
        asked = f"{session_id}/{number}"
        named = {"sessionId": session_id, "elicitationId": asked, "url": question.url}
        return ElicitationUrlSessionMode.model_validate(named)
    required = [one.name for one in question.fields if one.is_required]
    schema = {
        "type": "object",
        "properties": {one.name: _describe_field(one) for one in question.fields},
        **({"required": required} if required else {}),
    }
    return ElicitationFormSessionMode(
        session_id=session_id, requested_schema=ElicitationSchema.model_validate(schema)
    )


def read_answer(answer: Any) -> ServerAnswer:
    """What the person says; what is no word of the protocol is none of theirs."""
    if isinstance(answer, AcceptElicitationResponse):
        return ServerAnswer("accept", dict(answer.content or {}))
    return ServerAnswer("decline" if answer.action == "decline" else "cancel")


def _describe_field(field: FormField) -> dict[str, Any]:
    kind = _TYPES[field.kind]
    found: dict[str, Any] = {"type": kind, "title": field.title or field.name}
    if field.description:
        found["description"] = field.description
    if field.default is not None:
        found["default"] = field.default
    for name, bound in zip(_BOUNDS.get(kind, ()), (field.least, field.most), strict=False):
        if bound is not None:
            found[name] = bound if kind == "number" else int(bound)
    options = [{"const": value, "title": shown or value} for value, shown in field.choices]
    if field.kind == "choice":
        found["oneOf"] = options
    elif field.kind == "choices":
        found["items"] = {"anyOf": options}
    return found
