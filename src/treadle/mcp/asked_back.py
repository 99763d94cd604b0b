"""What a server asks back while it works on a call: forms, visits, answers of a model.

The older form of the protocol does not say in which call a server asks. So a question counts as
one of the call that runs, if those that run are all of one thread; else nobody knows whose person
would be asked, and it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    TextContent,
)
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.messages import ToolCall
from treadle.mcp.server import MCPServer, is_web_address
from treadle.server_questions import (
    AnswerServer,
    FieldKind,
    FormField,
    ModelWish,
    ServerAnswer,
    ServerQuestion,
)
from treadle.thread.safe_text import sanitize_text

FIELD_COUNT_MAX: Final = 20
CHOICE_COUNT_MAX: Final = 100
LABEL_LENGTH_MAX: Final = 200
"""Characters of a name or a choice that a person is shown."""
TEXT_LENGTH_MAX: Final = 2_000
"""Characters of what a server says to a person."""
WISH_LENGTH_MAX: Final = 100_000
"""Characters of what a model is to answer."""

_REFUSED: Final = "the person said no"


class _RunningCall(Struct):
    call: ToolCall
    thread: str
    answer: AnswerServer
    asked: set[asyncio.Future[Any]]


class AskedBack:
    """The questions of one server. See `mcp.Client` for what it calls.

    Args:
        server: the server.
    """

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self._running: list[_RunningCall] = []

    @contextmanager
    def answering(self, call: ToolCall, thread: str, answer: AnswerServer | None) -> Iterator[None]:
        """While a call runs; what is asked in it and not answered by its end is withdrawn."""
        if answer is None:
            yield
            return
        running = _RunningCall(call, thread, answer, set())
        self._running.append(running)
        try:
            yield
        finally:
            self._running.remove(running)
            for one in running.asked:
                one.cancel()

    async def elicit(
        self, context: object, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        """A server wants a form filled out, or an address visited; `context` says nothing to us."""
        try:
            question = make_question(self._server.name, params)
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        said = await self._ask(question)
        if isinstance(said, ErrorData):
            return said
        content = said.values if said.action == "accept" and question.wants == "form" else None
        return ElicitResult(action=said.action, content=content)  # type: ignore[arg-type]

    async def sample(
        self, context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """A server wants a model's answer; `context` as above."""
        try:
            question = make_wish(self._server.name, params)
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        said = await self._ask(question)
        if isinstance(said, ErrorData):
            return said
        if said.action != "accept":
            return ErrorData(code=-1, message=_REFUSED)
        text = TextContent(type="text", text=said.text)
        return CreateMessageResult(
            role="assistant", content=text, model=said.model, stop_reason="endTurn"
        )

    async def _ask(self, question: ServerQuestion) -> ServerAnswer | ErrorData:
        if len({one.thread for one in self._running}) != 1:
            count = len(self._running)
            why = "no call runs" if not count else "calls of several threads run"
            return ErrorData(code=INVALID_REQUEST, message=f"{why}, so nobody can be asked")
        running = self._running[0]
        asked = asyncio.ensure_future(running.answer(running.call, question))
        running.asked.add(asked)
        try:
            return await asked
        except asyncio.CancelledError:
            if asked.cancelled() and running not in self._running:
                return ErrorData(code=INVALID_REQUEST, message="the call is over")
            asked.cancel()
            raise
        finally:
            running.asked.discard(asked)


def make_question(server: str, params: ElicitRequestParams) -> ServerQuestion:
    """What a person is asked; `ValueError` with the reason where that cannot be shown."""
    text = _take_text(params.message, TEXT_LENGTH_MAX)
    if isinstance(params, ElicitRequestURLParams):
        url = params.url
        if not is_web_address(url) or len(url) > TEXT_LENGTH_MAX or sanitize_text(url) != url:
            raise ValueError("the address is none that a person could visit")
        return ServerQuestion(server, "visit", text, url=url)
    schema = params.requested_schema
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > FIELD_COUNT_MAX:
        raise ValueError(f"a form has at most {FIELD_COUNT_MAX} fields, in `properties`")
    required = schema.get("required") or []
    if not isinstance(required, list):
        raise ValueError("`required` is no list")
    fields = [_make_field(name, one, required) for name, one in properties.items()]
    return ServerQuestion(server, "form", text, tuple(fields))


def make_wish(server: str, params: CreateMessageRequestParams) -> ServerQuestion:
    """What a model is to answer; `ValueError` with the reason for what none is asked here."""
    if params.tools:
        raise ValueError("the model has no tools here")
    messages: list[tuple[str, str]] = []
    for one in params.messages:
        for block in one.content_as_list:
            if not isinstance(block, TextContent):
                raise ValueError("the model is asked texts alone here")
            messages.append((one.role, sanitize_text(block.text)))
    system = sanitize_text(params.system_prompt or "")
    size = len(system) + sum(len(text) for _, text in messages)
    if not messages or not 0 < size <= WISH_LENGTH_MAX or params.max_tokens < 1:
        raise ValueError(f"a request has messages, and at most {WISH_LENGTH_MAX} characters")
    wish = ModelWish(tuple(messages), system, params.max_tokens)
    return ServerQuestion(server, "answer", "", wish=wish)


def _take_text(text: object, length_max: int) -> str:
    if not isinstance(text, str):
        raise ValueError("what people are shown is no text")
    return sanitize_text(text)[:length_max]


def _take_line(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError("what people are shown is no text")
    return sanitize_text(" ".join(text[: 8 * LABEL_LENGTH_MAX].split()))[:LABEL_LENGTH_MAX]


def _make_field(name: str, given: object, required: list[Any]) -> FormField:
    if not isinstance(given, Mapping) or not name or _take_line(name) != name:
        raise ValueError("a field has a name that cannot be shown, or says nothing")
    is_list = given.get("type") == "array"
    choices = _list_choices(given.get("items") if is_list else given)
    kind = _KINDS.get(str(given.get("type", "string")))
    if is_list or (kind == "text" and choices):
        kind = "choices" if is_list else "choice"
    if kind is None or (is_list and not choices):
        raise ValueError(f"the field {name[:80]} is of no type that a form may have")
    least, most = (given.get(key) for key in _BOUNDS[kind])
    field = FormField(
        name,
        kind,
        _take_line(given.get("title") or ""),
        _take_line(given.get("description") or ""),
        name in required,
        None,
        choices if kind in ("choice", "choices") else (),
        _take_number(least),
        _take_number(most),
    )
    default = given.get("default")
    if isinstance(default, str) and (len(default) > TEXT_LENGTH_MAX or _steers(default)):
        return field
    return field if field.find_fault(default) else replace(field, default=default)


_KINDS: Final[Mapping[str, FieldKind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "choices",
}
_BOUNDS: Final[Mapping[FieldKind, tuple[str, str]]] = {
    "text": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": ("", ""),
    "choice": ("", ""),
    "choices": ("minItems", "maxItems"),
}


def _steers(text: str) -> bool:
    return sanitize_text(text) != text


def _take_number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else None  # type: ignore[arg-type]


def _list_choices(given: object) -> tuple[tuple[str, str], ...]:
    """Values with what is shown of each, in all forms that the protocol has had."""
    if not isinstance(given, Mapping):
        return ()
    values = given.get("enum")
    if isinstance(values, list):
        names = given.get("enumNames")
        shown = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = list(zip(values, shown, strict=True))
    else:
        titled = given.get("oneOf") or given.get("anyOf") or []
        if not isinstance(titled, list) or not all(isinstance(one, Mapping) for one in titled):
            raise ValueError("choices are no list")
        pairs = [(one.get("const"), one.get("title", one.get("const"))) for one in titled]
    if len(pairs) > CHOICE_COUNT_MAX:
        raise ValueError(f"a field has at most {CHOICE_COUNT_MAX} choices")
    if not all(isinstance(value, str) and _take_line(value) == value for value, _ in pairs):
        raise ValueError("a choice has a value that cannot be shown")
    return tuple((value, _take_line(shown)) for value, shown in pairs)
