"""What a model reads of a page: text by its type and letters, HTML laid out by a process."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.web.page_fetcher import FetchedPage
from treadle.web.page_text import HTML_SIZE_MAX, JSON_SIZE_MAX, make_page_text
from treadle.web.web_address import read_address

ADDRESS = read_address("https://example.com/a/page")


def page(body: bytes, kind: str = "text/html", **more: int) -> FetchedPage:
    return FetchedPage(ADDRESS, 200, "OK", kind, body, size=more.get("size"))


@for_every_row(
    "kind, body, text",
    (
        ("text/plain", "zwölf".encode(), "zwölf"),
        ("text/plain", "zwölf".encode("latin-1"), "zwölf"),
        ("text/plain; charset=shift_jis", "日本".encode("shift_jis"), "日本"),
        ("text/plain; charset=nonsense", "zwölf".encode(), "zwölf"),
        ("text/plain; charset=hex", "zwölf".encode(), "zwölf"),
        ("text/plain; charset=rot13", "zwölf".encode(), "zwölf"),
        ("text/plain; charset=undefined", "zwölf".encode(), "zwölf"),
        ("text/plain; charset=idna", "zwölf".encode(), "zwölf"),
        ("text/plain; charset=unicode_escape", b"\\x1b[2J", "\\x1b[2J"),
        ("text/html", b'<meta charset="zip"><p>words', "words"),
        ("text/plain; charset=utf-16", "\ufeffzwölf".encode("utf-16-le"), "zwölf"),
        ("text/plain", "\ufeffzwölf".encode(), "zwölf"),
        ("text/plain; charset=iso-8859-1", b"\x93quoted\x94", "\u201cquoted\u201d"),
        ("text/markdown", b"# A *b*\r\n", "# A *b*\n"),
        ("application/json", b'{"a":[1,2]}', '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        ("application/problem+json", b'{"a":1', '{"a":1'),
        ("application/xml", b"<a>1</a>", "<a>1</a>"),
        ("text/css", b"a{}", "a{}"),
        ("", b"words", "words"),
        ("", b"<!DOCTYPE html><p>words", "words"),
        ("text/html; charset=windows-1251", "<p>да".encode("windows-1251"), "да"),
        ("text/html", '<meta charset="koi8-r"><p>да'.encode("koi8-r"), "да"),
        ("text/html", "<p>да".encode(), "да"),
        ("application/xhtml+xml", b"<p>words", "words"),
    ),
)
async def test_the_letters_are_those_that_were_meant(kind: str, body: bytes, text: str) -> None:
    assert (await make_page_text(page(body, kind))).text == text


@for_every_row(
    "kind, body, named",
    (
        ("application/pdf", b"", '"application/pdf", 12,345 bytes'),
        ("image/png", b"", '"image/png", 12,345 bytes'),
        ("application/octet-stream", b"\x7fELF\0\0", '"application/octet-stream", 12,345 bytes'),
        ("", b"MZ\0\0", '"no type of content", 12,345 bytes'),
        ("video/mp4; x=\x1b[2J", b"", '"video/mp4", 12,345 bytes'),
    ),
)
async def test_what_is_no_text_is_named(kind: str, body: bytes, named: str) -> None:
    found = await make_page_text(page(body, kind, size=12345))
    assert (found.text, found.notes) == ("", (f"this is no text but {named}; it is not shown",))


LAID_OUT = """\
# Install

Run `pip install x` with **care**, see [the *guide*](https://example.com/guide?a=1) or \
![A chart](https://example.com/a/c.png).

```python
if 1 < 2:
    print("<b>")
```

- one
  - deep

    more of it
- two

3. three
4. four

> quoted
>
> twice

| Option | Meaning |
| --- | --- |
| `a\\|b` | first second |
| c |  |

Term

What it is

---

Last
line"""


async def test_a_page_is_laid_out_as_markdown() -> None:
    html = """<!doctype html><title> A
      page </title><nav>Home</nav><h1>Install</h1><p>Run <code>pip install x</code> with
      <strong> care</strong>, see <a href="/guide?a=1">the <em>guide</em></a> or
      <img src=c.png alt="A chart"><img src=deco.png>.<pre class=language-python><code>if 1 &lt; 2:
    print("&lt;b&gt;")
</code></pre><ul><li>one<ul><li><p>deep<p>more of it</ul><li>two</ul><ol start=3><li>three<li>four
      </ol><blockquote><p>quoted<p>twice</blockquote><table><tr><th>Option<th>Meaning<tr><td><code>
      a|b</code><td><p>first<p>second<tr><td>c<td></table><dl><dt>Term<dd>What it is</dl><hr>
      <script>no()</script><style>no{}</style><p hidden>no</p><p style="display: none">no</p>
      <p>Last<br>line<h2></h2><footer>Imprint</footer>"""
    found = await make_page_text(page(html.encode()))
    assert (found.title, found.text, found.notes) == ("A page", LAID_OUT, ())


async def test_of_a_page_with_a_main_part_that_is_shown() -> None:
    words = "It says a lot. " * 20
    html = f"<header>Site</header><main><p>{words}</main><aside>Other</aside>"
    found = await make_page_text(page(html.encode()))
    assert (found.text, "only the main part" in found.notes[0]) == (words.strip(), True)
    short = "<header>Site</header><main>Loading</main>"
    assert (await make_page_text(page(short.encode()))).text == "Site\n\nLoading"


async def test_a_page_that_is_all_around_is_shown_all_the_same() -> None:
    assert (await make_page_text(page(b"<nav><a href=/x>Home</a></nav>"))).text == (
        "[Home](https://example.com/x)"
    )


async def test_links_are_relative_to_the_base_of_the_page_and_lead_to_pages_only() -> None:
    html = b"""<base href="/docs/"><a href=a>a</a> <a href="#x">here</a>
        <a href="javascript:x()">js</a> <a href="b (1)">b</a><a href=/card><div>Card</div></a>"""
    assert (await make_page_text(page(html))).text == (
        "[a](https://example.com/docs/a) here js [b](https://example.com/docs/b%20%281%29)\n\n"
        "Card\n\n<https://example.com/card>"
    )


async def test_a_table_that_lays_out_a_page_is_no_table() -> None:
    html = b"<table><tr><td><h1>Title</h1><td>side<table><tr><th>a<th>b<tr><td>1<td>2</table>"
    assert (await make_page_text(page(html))).text == (
        "# Title\n\nside\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    )


HOSTILE = {
    "divs": (b"<div>" * 50_000 + b"END", "END"),
    "bold": (b"<b>" * 20_000 + b"END", "END"),
    "lists": (b"<ul><li>" * 10_000 + b"END", "END"),
    "quotes": (b"<blockquote>" * 10_000 + b"END", "END"),
    "tables": (b"<table><tr><td>" * 3_000 + b"END", "END"),
    "formatting": (b"<a><b><i>" * 1_000 + b"<p>" * 1_000 + b"END", "END"),
    "attributes": (b"<p " + b" ".join(b"a%d=1" % n for n in range(100_000)) + b">END", "END"),
    "an attribute": (b'<p title="' + b"x" * 1_900_000 + b'">END', "END"),
    "an open attribute": (b'END<p title="' + b"x" * 1_900_000, "END"),
    "backquotes": (b"<pre>" + b"`" * 500_000 + b"</pre>END", "END"),
    "references": (b"&#x41;" * 100_000 + b"END", "END"),
    "nothing": (b"", ""),
    "zeros": (b"<p>END" + b"\0" * 100_000, "END"),
    "surrogates": (b"<p>END&#xD800;&#x110000;\xed\xa0\x80", "END"),
    "a base": (b"<base href='http://[x'><a href='http://[y'>END</a>", "END"),
}


@for_every_row("name", HOSTILE)
async def test_a_hostile_page_is_read_like_any_other(name: str) -> None:
    html, words = HOSTILE[name]
    found = await make_page_text(page(html))
    assert words in found.text


async def test_a_page_that_takes_too_long_is_given_as_its_bare_words() -> None:
    html = b"<script>no()</script><p>Some <b>bold</b>\n words &amp; more<" + b"<" * 1_000_000
    found = await make_page_text(page(html), convert_s_max=0.01)
    assert found.text.startswith("Some bold\nwords & more")
    assert found.notes == ("the page was not done in 0.01 seconds: these are its bare words",)


async def test_json_that_would_fill_up_memory_in_lines_stays_as_it_is() -> None:
    """Two megabytes of it were two gigabytes."""
    for text in ("[" * 900 + "1," * 20_000 + "1" + "]" * 900, '{"a":' * 900 + "1" + "}" * 900):
        found = await make_page_text(page(text.encode(), "application/json"))
        assert (found.text == text) == (len(text) > 20_000)
        assert len(found.text) < JSON_SIZE_MAX


@for_every_row(
    "html, words",
    (
        (b"END<script>" * 90_000, "END"),
        (b"END<style>" + b"</script " * 100_000, "END"),
        (b"<script>" + b"</script " * 100_000 + b"></script>END", "END"),
        (b"<SCRIPT>no()</Script >END<style>p{}</style>END", "END END"),
        (b"&#" + b"9" * 100_000 + b";&#65;&#x" + b"f" * 100_000 + b";END", "\ufffdA\ufffdEND"),
    ),
)
async def test_the_bare_words_of_a_hostile_page_come_at_once(html: bytes, words: str) -> None:
    assert (await make_page_text(page(html), convert_s_max=0.01)).text == words


async def test_of_a_very_long_page_the_beginning_is_laid_out() -> None:
    html = b"<p>" + b"word " * (HTML_SIZE_MAX // 5 + 100) + b"END"
    found = await make_page_text(page(html))
    assert (found.text[:9], "END" in found.text) == ("word word", False)
    assert found.notes == (f"only the first {HTML_SIZE_MAX:,} bytes of HTML were laid out",)
