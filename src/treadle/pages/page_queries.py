"""What stands in the address of a page, and how changes are laid out on the next one."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from treadle.pages.page_refusal import PageRefusal
from treadle.pages.thread_page import ItemLinks

NUMBER_MAX: Final = 1_000_000_000
LAYOUTS: Final = ("unified", "split")
LAYOUT_COOKIE: Final = "treadle-diff"
LAYOUT_KEPT_S: Final = 365 * 24 * 3600


def read_number(request: Request, name: str) -> int | None:
    """The number that is asked for; unknown names are let be, as on every site.

    Raises:
        PageRefusal: it is no number from 1.
    """
    text = request.query_params.get(name, "")
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(NUMBER_MAX))
    number = int(text) if is_short else 0
    if text and not 1 <= number <= NUMBER_MAX:
        raise PageRefusal(404, f"There is no such {name}", "It must be a number from 1.")
    return number or None


def make_links(request: Request, page: int = 0, version: int = 0) -> ItemLinks:
    """Where the links of a page of a thread lead."""
    path = f"/threads/{quote(request.path_params['thread_id'])}"
    return ItemLinks(page, path, version, _read_layout(request) == "split")


def keep_layout(request: Request, answer: Response) -> None:
    """Have the browser tell what was asked for with the next pages too."""
    if request.query_params.get("diff") in LAYOUTS:
        value, secure = _read_layout(request), request.url.scheme == "https"
        answer.set_cookie(
            LAYOUT_COOKIE, value, LAYOUT_KEPT_S, secure=secure, httponly=True, samesite="lax"
        )


def _read_layout(request: Request) -> str:
    """As this page is asked for, or as an earlier one was."""
    told = request.query_params.get("diff", request.cookies.get(LAYOUT_COOKIE, ""))
    return told if told in LAYOUTS else LAYOUTS[0]
