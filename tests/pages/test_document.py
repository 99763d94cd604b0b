"""A whole thread as one file of HTML, whatever it holds: an export, sent to somebody."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from core.samples import answer, call, said
from exchange.test_telling_people import HOSTILE, conversation, story_of
from thread.journals import HEADER
from treadle.core.config import AgentConfig
from treadle.core.conversation import View
from treadle.core.events import Rewound
from treadle.pages.code_highlight import highlight_code
from treadle.pages.markdown_html import render_markdown
from treadle.pages.renderer import render_document
from treadle.thread.facts import Configured
from treadle.thread.safe_text import sanitize_text


class Strict(HTMLParser):
    """Reads a page and refuses what does not fit together."""

    VOID: Final = frozenset({"meta", "br", "hr"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            assert value is not None
            if name == "id":
                self.ids.append(value)
            if name == "href":
                self.links.add(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_entityref(self, name: str) -> None:
        assert name in ("lt", "gt", "amp", "quot")
        self.text.append(unescape(f"&{name};"))

    def handle_charref(self, name: str) -> None:
        assert name in ("x27", "39", "34")
        self.text.append(unescape(f"&#{name};"))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


TAGS: Final = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "bdi", "table", "tr", "th"),
    *("td", "ol", "li", "a", "main", "time", "article", "div", "details", "summary", "pre", "p"),
    *("span", "ul", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "blockquote", "thead"),
    *("tbody", "br", "hr"),
}
ATTRIBUTES: Final = {
    *("lang", "charset", "http-equiv", "content", "name", "scope", "href", "id", "class", "dir"),
    *("aria-label", "rel", "start", "datetime", "tabindex", "value"),
}


def read(page: str) -> Strict:
    parser = Strict()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert parser.tags <= TAGS
    assert parser.attributes <= ATTRIBUTES
    assert len(parser.ids) == len(set(parser.ids))
    inner = {link for link in parser.links if not link.startswith(("https://", "mailto:"))}
    assert {link.removeprefix("#") for link in inner} <= set(parser.ids)
    return parser


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_gets_out_of_its_place_on_a_page(text: str) -> None:
    page = render_document(conversation(text))
    parser = read(page)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page
    )
    shown = "".join(parser.text)
    wanted = sanitize_text(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    assert shown.count(wanted) >= 4
    assert str(escape(wanted)) in page
    page.encode()


ANSWER: Final = """\
# What is new

- a **bold** word, `code` and [a page](https://example.org/?q="><script>)
- [bad](javascript:alert(1)) [file](file:///etc/passwd) ![p](https://example.org/p.png)

| a | b |
|---|--:|
| 1 | <b onclick="x()">2</b> |

```py
if a < b: pass
```
"""


def test_markdown_of_an_answer_is_laid_out_and_tags_in_it_are_text() -> None:
    page = render_document(conversation(ANSWER))
    parser = read(page)
    for piece in (
        "<h3>What is new</h3>",
        "<strong>bold</strong>",
        '<td class="right">&lt;b onclick=&quot;x()&quot;&gt;2&lt;/b&gt;</td>',
        '<pre><code class="language-py"><span class="k">if</span> a &lt; b: '
        '<span class="k">pass</span>\n</code></pre>',
        ">[picture: p]</a>",
        "[bad](javascript:alert(1)) [file](file:///etc/passwd)",
    ):
        assert piece in page, piece
    outer = {link for link in parser.links if not link.startswith("#")}
    assert outer == {"https://example.org/?q=%22%3E%3Cscript%3E", "https://example.org/p.png"}
    assert "img" not in parser.tags


@pytest.mark.parametrize(
    "text", ["word " * 30_000, "*a " * 30_000, "> " * 17 + "deep", "- " * 17 + "deep"]
)
def test_what_no_reader_of_markdown_should_take_stays_as_it_was_written(text: str) -> None:
    assert render_markdown(text) is None
    assert f'<div class="text" dir="auto">{escape(text.strip())}' in render_document(
        conversation(text)
    )


MARKS: Final = ("*", "_", "`", "~", "[", "](", ")", "!", "|", "\n", "> ", "- ", "1. ", "<", "&#0;")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from((*MARKS, *HOSTILE, "a", " ")), max_size=40).map("".join))
def test_no_markdown_breaks_a_page(text: str) -> None:
    read(render_document(conversation(text or ".")))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=12) | st.sampled_from(HOSTILE), min_size=1, max_size=3))
def test_a_page_is_well_formed_whatever_the_thread_holds(texts: list[str]) -> None:
    read(render_document(conversation(*texts)))


def test_a_page_asks_nobody_for_anything_and_runs_nothing() -> None:
    page = render_document(conversation("hello", "more"))
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'\"" in unescape(page)
    assert "http" not in page.replace('http-equiv="Content', "")
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")


def test_a_page_has_an_anchor_for_each_turn_and_a_list_of_them() -> None:
    page = render_document(conversation("hello", "more"))
    parser = read(page)
    turns = re.findall(r'<h2 class="turn"><a href="#(i\d+)">', page)
    assert len(turns) == 2
    assert parser.links == {"#main", *(f"#{one}" for one in turns)}
    assert set(turns) <= set(parser.ids)


def test_what_was_gone_back_from_is_marked_and_a_call_without_a_result() -> None:
    page = render_document(
        story_of(
            (HEADER, Configured(AgentConfig(), "")),
            (said("one"),),
            (answer("first"),),
            (said("two"),),
            (answer("second"),),
            (Rewound(4, View(2)),),
            (said("three"),),
            (answer("", call("a")),),
        )
    )
    read(page)
    assert page.count('<p class="dim">(gone back from)</p>') == 2
    assert page.count("(no result)") == 1


CODE: Final = (
    ("py", "def f(x):  # <b>", '<span class="k">def</span> <span class="f">f</span>(x):  '),
    ("python", "@a\n'''x\ny'''", "x\ny&#x27;&#x27;&#x27;</span>"),
    ("ts", "let a = `b\nc` // d", '<span class="c">// d</span>'),
    ("c", "/* open", '<span class="c">/* open</span>'),
    ("SQL", "select 1.5 -- x", '<span class="k">select</span> <span class="m">1.5</span>'),
    ("bash", "for x in $HOME; do", '<span class="f">$HOME</span>'),
    ("json", '{"a": true}', '<span class="k">true</span>'),
    ("yaml", "a: b", '<span class="f">a</span>: b'),
    ("css", "color: red", '<span class="f">color</span>: red'),
    ("html", '<a href="x">', '<span class="k">&lt;a</span> <span class="f">href</span>='),
    ("diff", "+a\n-b\n c", '<span class="added">+a</span>\n<span class="removed">-b</span>\n c'),
    ("klingon", "a", ""),
)


def test_code_is_marked_and_no_sign_of_it_is_lost() -> None:
    missed = []
    for language, text, piece in CODE:
        html = highlight_code(text, language)
        if piece not in html or (html and unescape(re.sub(r"</?span[^>]*>", "", html)) != text):
            missed.append((language, html))
    assert missed == []


@given(
    st.sampled_from([language for language, _, piece in CODE if piece]),
    st.text(alphabet="\"'`/*#-<>=$@{a1 \n\\", max_size=60),
)
def test_no_code_is_changed_by_its_colours(language: str, text: str) -> None:
    told = highlight_code(text, language)
    assert unescape(re.sub(r'<span class="[a-z]+">|</span>', "", told)) == text
