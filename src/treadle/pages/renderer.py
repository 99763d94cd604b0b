"""Makes HTML of the templates; every text is escaped, and says what it seems to say."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from treadle.exchange.readable_thread import ReadableThread
from treadle.pages.pictures import make_picture_links
from treadle.pages.ports import ShownThread
from treadle.pages.thread_page import WHOLE_THREAD, ItemLinks, ThreadPageView, make_thread_page
from treadle.thread.safe_text import sanitize_text

STYLE_FILE: Final = "pages.css"


@cache
def _make_environment() -> Environment:
    return Environment(
        loader=PackageLoader("treadle.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_legible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _make_legible(value: object) -> object:
    """Without what steers a terminal, or turns the direction of what stands behind it."""
    return sanitize_text(value) if type(value) is str else value


def render_template(name: str, **values: Any) -> str:
    """A page, or a part of one.

    Args:
        name: of the template.
        values: what it shows.
    """
    return _make_environment().get_template(name).render(values)


def render_items(view: ThreadPageView, links: ItemLinks) -> list[Markup]:
    """The items of a page of a thread, one element each, and one for each turn that begins.

    Args:
        view: the page.
        links: where its links lead.
    """
    macros: Any = _make_environment().get_template("items.html").module
    found: list[Markup] = []
    for item in view.items:
        if item.turn:
            found.append(macros.turn_heading(item, links).strip())
        found.append(macros.item_view(item, links, with_turn=False).strip())
    return found or [macros.nothing_said().strip()]


def render_refusal(title: str, text: str, hint: str = "") -> str:
    """The page that says why there is no other."""
    return render_template("refusal.html", title=title, text=text, hint=hint)


def read_static_file(name: str) -> bytes:
    """A file that pages load: the style, a script, the icon."""
    return files("treadle.pages").joinpath("static", name).read_bytes()


def render_document(
    story: ReadableThread, pictures: Mapping[str, bytes] = MappingProxyType({})
) -> str:
    """A whole thread as one file that needs nothing else: no script, no request, no font.

    Its policy lets only its own style and pictures be used, should an escape be missing.

    Args:
        story: the thread.
        pictures: the bytes of those that are to stand in it, by their digests.
    """
    style = read_static_file(STYLE_FILE).decode()
    view = make_thread_page(ShownThread(story), 1, WHOLE_THREAD)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    links = ItemLinks(pictures=make_picture_links(pictures))
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    policy += "; img-src data:" * bool(links.pictures)
    values = {"view": view, "links": links, "style": style, "policy": policy}
    return render_template("document.html", **values) + "\n"
