"""What a visitor does on a page: answers, prompts, an end of the turn. Forms, without a script.

A form says what it was made for: who was let in (its token), which question in which state (its
ground), and that it is sent once (its id, under which a request is taken once). The browser says
where the form stands. What does not fit is refused with a page that says so, and changes nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.errors import UnknownThreadError, UsageError
from treadle.pages.forms import check_form_type, parse_form
from treadle.pages.page_refusal import PageRefusal
from treadle.pages.question_page import QuestionView

BODY_SIZE_MAX: Final = 2 * 1024 * 1024
"""Bytes of a form."""
ANSWERS: Final = frozenset({"approve", "always", "change", "reject"})
WORDS: Final = frozenset({"prompt", "steer"})
ACTS: Final = ANSWERS | WORDS | {"interrupt"}


class WaitingRequest(Struct, frozen=True):
    """What was asked for and is not taken yet."""

    id: str
    act: str
    by: str


class OpenActs(Struct, frozen=True, kw_only=True):
    """What can be done in a thread now.

    Args:
        questions: the calls that wait for a person.
        can_speak: whether it takes prompts.
        is_working: whether something runs that can be steered and interrupted.
        why_not: why nothing can be done here; empty if something can.
        waiting: what was asked for and is not taken yet.
        can_change: whether a call can be changed before it runs.
    """

    questions: Sequence[QuestionView] = ()
    can_speak: bool = False
    is_working: bool = False
    why_not: str = ""
    waiting: Sequence[WaitingRequest] = ()
    can_change: bool = True


class ActForm(Struct, frozen=True, kw_only=True):
    """A form as it was sent; its texts may be anything."""

    request: str
    act: str
    call: str = ""
    ground: str = ""
    text: str = ""
    command: str = ""
    arguments: str = ""
    is_confirmed: bool = False


class Acts(Protocol):
    """Who does what visitors ask for. Each raises `TreadleError`."""

    async def read(self, thread_id: str) -> OpenActs | None:
        """What can be done in a thread now; `None` if nothing ever is from a page."""
        ...

    async def confirm(self, thread_id: str, form: ActForm) -> QuestionView | None:
        """The question that a yes is asked for twice; `None` if the form says it already.

        Raises:
            UsageError: nothing of that form can be done.
        """
        ...

    async def do(self, thread_id: str, form: ActForm) -> str:
        """Do it, or have it done; why it was refused, empty if it was not."""
        ...

    async def withdraw(self, thread_id: str, request: str) -> None:
        """Take back what was asked for and is not taken yet."""
        ...


class VisitorForms(Protocol):
    """Whose forms count. `key` stands in each form that is shown to the visitor."""

    @property
    def key(self) -> str:
        """What no page of another site can know."""
        ...

    async def read(self, request: Request) -> Mapping[str, str]:
        """The fields of a form of this visitor.

        Raises:
            PageRefusal: it is none.
        """
        ...


FindActs: TypeAlias = Callable[[Request], Awaitable[tuple[Acts, VisitorForms] | None]]
"""Who does what this visitor asks for; `None` if nobody does."""


class FormGuard:
    """Tells the forms of one visitor from those that others have made.

    Args:
        secret: known to this process, and different for each visitor.
        origins: the addresses under which the pages are shown.
    """

    def __init__(self, secret: str, origins: frozenset[str]) -> None:
        self.key = hmac.new(secret.encode(), b"treadle form", "sha256").hexdigest()
        self._origins = origins

    async def read(self, request: Request) -> Mapping[str, str]:
        """See `VisitorForms`. A form that does not stand on a page of this site is refused."""
        fields = await read_form(request)
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        if site not in (None, "same-origin") or (
            origin is not None and origin not in self._origins
        ):
            raise PageRefusal(403, "Another site asks", "Nothing was done.")
        if not hmac.compare_digest(fields.get("form_key", "").encode(), self.key.encode()):
            raise PageRefusal(
                403,
                "This form is not of now",
                "Nothing was done. Load the page of the thread anew.",
            )
        return fields


class ActRoutes:
    """The paths that change something.

    Args:
        find: who does it, for a visitor.
        render: makes a page of a template and values.
        headers: what every answer has.
    """

    def __init__(
        self,
        find: FindActs,
        render: Callable[..., Response],
        headers: Mapping[str, str],
    ) -> None:
        self._find = find
        self._render = render
        self._headers = headers

    def list_routes(self) -> list[Route]:
        """The paths."""
        return [
            Route("/threads/{thread_id}/acts", self._act, methods=["POST"]),
            Route("/threads/{thread_id}/withdraw", self._withdraw, methods=["POST"]),
        ]

    async def make_values(self, request: Request, thread_id: str) -> dict[str, Any]:
        """What the page of a thread needs for its forms; nothing if it has none."""
        found = await self._find(request)
        open_acts = await found[0].read(thread_id) if found else None
        if found is None or open_acts is None:
            return {}
        told = {"form_key": found[1].key, "make_id": make_request_id}
        return {"acts": open_acts, "acts_of": thread_id, **told}

    async def _read(self, request: Request) -> tuple[Acts, VisitorForms, Mapping[str, str]]:
        found = await self._find(request)
        if found is None:
            raise PageRefusal(409, "That cannot be done here", "Nothing was done.")
        return (*found, await found[1].read(request))

    async def _act(self, request: Request) -> Response:
        acts, forms, fields = await self._read(request)
        form = ActForm(
            request=fields.get("request", ""),
            act=fields.get("act", ""),
            call=fields.get("call", ""),
            ground=fields.get("ground", ""),
            text=_read_lines(fields.get("text", "")),
            command=_read_lines(fields.get("command", "")),
            arguments=_read_lines(fields.get("arguments", "")),
            is_confirmed=fields.get("confirmed", "") == "yes",
        )
        if form.act not in ACTS:
            raise PageRefusal(400, "That cannot be done", "It is no act of this page.")
        thread_id = request.path_params["thread_id"]
        question = await _ask(acts.confirm(thread_id, form))
        if question is not None:
            return self._render(
                "question.html",
                thread_id=thread_id,
                question=question,
                form=form,
                form_key=forms.key,
                words="",
            )
        why = await _ask(acts.do(thread_id, form))
        if why:
            raise PageRefusal(409, "It was not done", why)
        return self._lead_back(thread_id)

    async def _withdraw(self, request: Request) -> Response:
        acts, _, fields = await self._read(request)
        thread_id = request.path_params["thread_id"]
        await _ask(acts.withdraw(thread_id, fields.get("request", "")))
        return self._lead_back(thread_id)

    def _lead_back(self, thread_id: str) -> Response:
        link = f"/threads/{quote(thread_id, safe='')}#acts"
        return RedirectResponse(link, 303, dict(self._headers))


def make_request_id() -> str:
    """The id of a form: what is sent twice under it is taken once."""
    return secrets.token_urlsafe(16)


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form.

    Raises:
        PageRefusal: it is too large, or none.
    """
    check_form_type(request.headers.get("content-type", ""))
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_SIZE_MAX:
            raise PageRefusal(413, "That is too long", "Nothing was done.")
    return parse_form(bytes(data))


def _read_lines(text: str) -> str:
    """Forms end lines as CR LF, whatever was typed."""
    return text.replace("\r\n", "\n")


async def _ask(done: Awaitable[Any]) -> Any:
    try:
        return await done
    except UnknownThreadError as error:
        raise PageRefusal(404, "There is no such thread", error.message) from None
    except UsageError as error:
        hint = f" {error.hint}" if error.hint else ""
        raise PageRefusal(409, "It was not done", f"{error.message}.{hint}") from None
