"""What somebody sends from a page: a form, and that it is one of ours."""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace
from starlette.requests import Request

from treadle.api.error_codes import ErrorCode
from treadle.pages.forms import check_form_type, parse_form
from treadle.server.http.limits import BodyReader
from treadle.server.http.request_reader import RequestHead
from treadle.server.http.services import Services
from treadle.server.refusals import Refusal

FORM_SIZE_MAX: Final = 64 * 1024
KEY_FIELD: Final = "form_key"


async def read_form(
    services: Services, request: Request, head: RequestHead, form_key: str | None
) -> dict[str, str]:
    """The fields of a form that was sent from a page of this server.

    Args:
        services: of the process.
        request: whose body it is.
        head: the same request.
        form_key: what it must hold; `None` where nobody has signed in yet.

    Raises:
        Refusal: another site has sent it, or it is too long.
        PageRefusal: it is no form.
    """
    if not _is_from_here(head):
        raise _make_foreign_refusal()
    check_form_type(head.headers.get("content-type", ""))
    config = replace(services.config, body_size_max=FORM_SIZE_MAX)
    with services.body_memory.open_reservation(None) as held:
        body = await BodyReader(request.receive, head.headers, config, held).read()
        request.scope["treadle"].has_read_body = True
        fields = parse_form(body)
    if form_key is not None and not hmac.compare_digest(
        fields.get(KEY_FIELD, "").encode(), form_key.encode()
    ):
        raise _make_foreign_refusal()
    return fields


def make_local_path(text: str) -> str:
    """Where to go on: a path of this server; what is none leads to the first page."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    is_plain = all(" " < sign < "\x7f" for sign in text)
    return text if is_path and is_plain and not urlsplit(text).netloc else "/"


def _is_from_here(head: RequestHead) -> bool:
    """Whether a page of ours has sent it: every browser says so in one of two ways."""
    site = head.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return head.headers.get("origin") == head.origin


def _make_foreign_refusal() -> Refusal:
    return Refusal(
        ErrorCode.FORBIDDEN,
        "this form was not sent from a page of this server, or is an old one",
        hint="go back, load the page again, and send it once more",
    )
