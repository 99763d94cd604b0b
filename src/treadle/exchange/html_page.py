"""A thread as one page of HTML that needs nothing else: no script, no request, no font.

What the thread holds may be hostile, so every text is escaped (`markdown_html.py` does it for the
Markdown of an agent), and the page's own policy forbids all that could be loaded or run, should an
escape be missing. It is read on a phone and on paper, in
light and in the dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Final

from treadle.core.llm import Usage
from treadle.exchange.fenced_code import split_fenced_code
from treadle.exchange.markdown_html import render_markdown
from treadle.exchange.readable_thread import (
    HEADING_LENGTH_MAX,
    ReadableCall,
    ReadableItem,
    ReadableNote,
    ReadableThread,
    ReadableTurn,
    find_heading,
    format_usage,
    list_thread_properties,
)
from treadle.thread.safe_text import sanitize_text

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE: Final = """\
:root { color-scheme: light dark; --line: #ccc; --dim: #666; --soft: #f4f4f4; --mark: #06c; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --dim: #aaa; --soft: #1e1e1e; --mark: #6af; }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; border-top: 1px solid var(--line); }
h1, h2, td, summary { overflow-wrap: anywhere; }
h2 { padding-top: 1rem; } h2 a { color: inherit; text-decoration: none; }
nav ol { columns: 18rem; padding-left: 1.5rem; } nav a, a { color: var(--mark); }
table { border-collapse: collapse; } th { text-align: left; font-weight: normal; }
th { color: var(--dim); padding: 0 1rem 0 0; vertical-align: top; white-space: nowrap; }
.text, pre { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
.text { margin: 0.3rem 0 1rem; } .told { overflow-wrap: anywhere; unicode-bidi: plaintext; }
.told table { display: block; overflow-x: auto; } .told td, .told th { padding: 0 1rem 0 0; }
.told th { color: inherit; font-weight: bold; white-space: normal; }
.told blockquote { border-left: 3px solid var(--line); margin-left: 0; padding-left: 0.8rem; }
.told :not(pre) > code { background: var(--soft); font: 0.85rem ui-monospace, monospace; }
pre { background: var(--soft); padding: 0.6rem; font: 0.85rem/1.4 ui-monospace, monospace; }
pre { border-radius: 0.3rem; margin: 0.3rem 0; }
.user { border-left: 3px solid var(--mark); padding-left: 0.8rem; }
.who, .note, .used, time { color: var(--dim); font-size: 0.85rem; }
.gone { opacity: 0.5; } summary { cursor: pointer; }
@media print {
  body { max-width: none; font-size: 11pt; } nav { display: none; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""


def to_html(story: ReadableThread, describe: Callable[[Usage], str]) -> str:
    """The whole thread as an HTML document.

    Args:
        story: the thread.
        describe: puts a usage into words.
    """
    return "\n".join(_render_lines(story, describe)) + "\n"


def _render_lines(story: ReadableThread, describe: Callable[[Usage], str]) -> Iterator[str]:
    title = _escape_text(story.document.metadata.title or story.document.id)
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{title}</title>"
    yield f"<style>\n{_STYLE}</style>"
    yield "</head>"
    yield "<body>"
    yield f"<header>\n<h1><bdi>{title}</bdi></h1>\n<table>"
    for name, value in list_thread_properties(story, describe):
        yield f'<tr><th scope="row">{name}</th><td><bdi>{_escape_text(value)}</bdi></td></tr>'
    yield "</table>\n</header>"
    yield from _render_contents(story)
    yield "<main>"
    for turn in story.turns:
        yield from _render_turn(turn, describe)
    yield "</main>"
    yield "</body>"
    yield "</html>"


def _render_contents(story: ReadableThread) -> Iterator[str]:
    """Where to find each turn, if there are several."""
    turns = [turn for turn in story.turns if turn.number]
    if len(turns) > 1:
        yield '<nav aria-label="Turns">\n<ol>'
        for turn in turns:
            heading = _escape_text(find_heading(turn)) or "(no text)"
            yield f'<li><a href="#turn-{turn.number}"><bdi>{heading}</bdi></a></li>'
        yield "</ol>\n</nav>"


def _render_turn(turn: ReadableTurn, describe: Callable[[Usage], str]) -> Iterator[str]:
    yield f'<section id="turn-{turn.number}">'
    if turn.number:
        anchor = f'<a href="#turn-{turn.number}">Turn {turn.number}</a>'
        yield f"<h2>{anchor} <time>{_escape_text(turn.at)}</time></h2>"
    for item in turn.items:
        yield from _render_item(item)
    if used := format_usage(turn.usage, describe):
        yield f'<p class="used">{_escape_text(used)}</p>'
    yield "</section>"


def _render_item(item: ReadableItem) -> Iterator[str]:
    if isinstance(item, ReadableNote):
        if item.detail:
            yield f'<details class="note"><summary>{_escape_text(item.text)}</summary>'
            yield f"{_render_preformatted(item.detail)}</details>"
        else:
            yield f'<p class="note">{_escape_text(item.text)}</p>'
        return
    gone = " gone" if item.is_hidden else ""
    told = " (gone back from)" if item.is_hidden else ""
    if isinstance(item, ReadableCall):
        result = "(no result)" if item.result is None else item.result
        first = " ".join(item.arguments.split())[:HEADING_LENGTH_MAX]
        yield f'<details class="call{gone}">'
        title = f"<b>{_escape_text(item.tool_name)}</b> <bdi>{_escape_text(first)}</bdi>"
        yield f"<summary>{title}{told}</summary>"
        yield f"{_render_preformatted(item.arguments)}\n{_render_preformatted(result)}</details>"
        return
    cut = " (interrupted)" if item.is_cut else ""
    yield f'<article class="{_escape_text(item.who)}{gone}">'
    yield f'<div class="who">{_escape_text(item.who)}{cut}{told}</div>'
    told_html = render_markdown(item.text) if item.who == "assistant" else None
    if told_html is None:
        yield from _render_text(item.text)
    else:
        yield f'<div class="told" dir="auto">{told_html}</div>'
    yield "</article>"


def _render_text(text: str) -> Iterator[str]:
    """A text as it was written; blocks of code between fences are set apart."""
    for piece in split_fenced_code(text):
        told = "\n".join(piece.lines)
        if piece.is_code:
            yield _render_preformatted(told)
        elif told.strip():
            yield f'<div class="text" dir="auto">{_escape_text(told.strip(chr(10)))}</div>'


def _render_preformatted(text: str) -> str:
    """A line break behind the tag is dropped by readers of HTML, so that one stands there."""
    return f"<pre>\n{_escape_text(text)}</pre>"


def _escape_text(text: str) -> str:
    return escape(sanitize_text(text), quote=True)
