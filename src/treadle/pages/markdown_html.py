"""Markdown that an agent wrote, as HTML in which nothing runs and nothing is loaded. Pure.

Tags in the text are shown as they were written, pictures are links to themselves, and only links
that browsers open as pages or mail are links. A library reads the Markdown; what is so long or so
deep that this could take seconds is left as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

from treadle.pages.code_highlight import highlight_code
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

SIZE_MAX: Final = 100_000
"""Characters of a text that is rendered."""
MARKS_MAX: Final = 20_000
"""Marks in it: the time goes by them more than by the words."""

_MARKS: Final = re.compile(r"[*_`~\[\]!<>&|\\]")
_ADDRESS: Final = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_DEPTH_MAX: Final = 16
"""Lists and quotations in each other; of what is deeper the parser drops some."""
_HEADING_SHIFT: Final = 2
"""Its headings stand below those of the page."""


def render_markdown(text: str) -> str | None:
    """The text as HTML of whole blocks; `None` if it is too long or too deep to be rendered."""
    if len(text) > SIZE_MAX or sum(1 for _ in _MARKS.finditer(text)) > MARKS_MAX:
        return None
    parser = _make_parser()
    environment: dict[str, Any] = {}
    tokens = parser.parse(sanitize_text(text), environment)
    if max((token.level for token in tokens), default=0) >= _DEPTH_MAX:
        return None
    _make_legible(tokens)
    html: str = parser.renderer.render(tokens, parser.options, environment)
    return html.rstrip("\n")


@cache
def _make_parser() -> MarkdownIt:
    """Tags are text, addresses are those that `_ADDRESS` has."""
    from markdown_it import MarkdownIt

    options = {"html": False, "xhtmlOut": False, "highlight": _highlight}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: bool(_ADDRESS.match(url))  # type: ignore[method-assign]
    parser.add_render_rule("image", _render_image)
    return parser


def _highlight(text: str, language: str, _: str) -> str:
    """Code that stands in a fence with a language."""
    return highlight_code(text, language)


def _make_legible(tokens: Sequence[Token]) -> None:
    """Take out what steers a terminal or a reader: an entity becomes its character only here."""
    for token in tokens:
        token.content, token.info = sanitize_text(token.content), sanitize_text(token.info)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + _HEADING_SHIFT)}"
        elif token.type in ("th_open", "td_open"):
            # A policy that trusts no style in a tag leaves the side to the style sheet.
            side = str(token.attrs.get("style", "")).removeprefix("text-align:")
            token.attrs = {"class": side} if side else {}
        elif token.type == "link_open":
            token.attrs = {"href": token.attrs["href"], "rel": "noopener noreferrer nofollow"}
        _make_legible(token.children or ())


def _render_image(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    """A link: a page that is sent to somebody asks nobody for anything."""
    token = tokens[place]
    words = escape(token.content or "without a name", quote=True)
    address = escape(str(token.attrs.get("src", "")), quote=True)
    return f'<a href="{address}" rel="noopener noreferrer nofollow">[picture: {words}]</a>'
