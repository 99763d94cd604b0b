"""What a model reads of a page that was fetched: text, in lines, or what it is instead of text."""

from __future__ import annotations

import asyncio
import codecs
import html
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from treadle.process.program import TerminationScope, run_bounded
from treadle.process.result import Bounds
from treadle.web.page_fetcher import FetchedPage

CONVERT_S_MAX: Final = 30.0
HTML_SIZE_MAX: Final = 2 * 1024 * 1024
"""Bytes of HTML that are laid out; a parser in Python takes seconds for them."""
JSON_SIZE_MAX: Final = 16 * 1024 * 1024
"""Characters of JSON that is put into lines."""
MARKDOWN_SIZE_MAX: Final = 32 * 1024 * 1024

_CONVERTER: Final = Path(__file__).with_name("page_markdown.py")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml|javascript|ecmascript|x-.*script|sql"
    r"|graphql|ndjson|jsonl|x-ndjson|x-yaml|x-sh|x-tex)"
)
_JSON: Final = re.compile(r"(?:application|text)/(?:.*\+)?json")
_JSON_SIGN: Final = re.compile(r"[\[\]{},:]")
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)
_META: Final = re.compile(rb"""<meta\b[^>]*?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_TAGS: Final = re.compile(r"<[^<>]*>")
_NOT_READ: Final = re.compile(r"<(script|style)\b[^<>]*>", re.IGNORECASE)
_NOT_READ_ENDS: Final = {
    name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("script", "style")
}
_LONG_NUMBER: Final = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")
"""No character has such a number, and `html.unescape` fails on those of thousands of digits."""
_LOOKS_LIKE_HTML: Final = re.compile(rb"\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_SNIFF_SIZE: Final = 1024
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LATIN: Final = "windows-1252"
"""What the web means by latin-1, and by nothing where it is not UTF-8."""
_CHARSETS: Final = frozenset(
    (
        *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "ascii"),
        *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
        *(f"cp{page}" for page in (866, 874, 932, 949, 950, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "tis-620"),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "shift_jis", "iso2022_jp", "euc_kr"),
    )
)
"""Those in which pages are written, as Python calls them. Of others that it knows a page makes use:
`hex` is none of letters, `undefined` and `idna` fail, `unicode_escape` makes others of them."""


class PageText(Struct, frozen=True):
    """A page for a model. `notes` say what was left out, or why there is no text."""

    title: str
    text: str
    notes: tuple[str, ...] = ()


def is_text(content_type: str) -> bool:
    """Whether a page of this type is text; one without a type may be."""
    kind = _media_type(content_type)
    return not kind or kind == "application/octet-stream" or _TEXT.fullmatch(kind) is not None


async def make_page_text(page: FetchedPage, convert_s_max: float = CONVERT_S_MAX) -> PageText:
    """The text of a page.

    Args:
        page: as it came.
        convert_s_max: seconds that laying out its HTML may take; then its bare words are given.
    """
    kind = _media_type(page.content_type)
    is_unclear = kind in ("", "application/octet-stream", "text/plain")
    is_html = kind in _HTML or (is_unclear and _LOOKS_LIKE_HTML.match(page.body) is not None)
    is_binary = b"\0" in page.body[:_SNIFF_SIZE] and not page.body.startswith(
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    )
    if not is_text(page.content_type) or (is_unclear and is_binary):
        return PageText("", "", (_describe_binary(page, kind),))
    declared = _CHARSET.search(page.content_type)
    charset = declared[1] if declared else ""
    notes = [f"the page is longer: only its first {len(page.body):,} bytes were read"]
    notes = notes if page.is_cut else []
    if is_html:
        found = await _lay_out(page, charset, convert_s_max)
        return PageText(found.title, found.text, (*notes, *found.notes))
    text = _decode(page.body, charset)
    if _JSON.fullmatch(kind) and not page.is_cut:
        text = await asyncio.to_thread(_format_json, text)
    return PageText("", text, tuple(notes))


async def _lay_out(page: FetchedPage, charset: str, convert_s_max: float) -> PageText:
    """A page of HTML as Markdown, by a process that can be ended."""
    data, notes = page.body, []
    if len(data) > HTML_SIZE_MAX:
        data = data[:HTML_SIZE_MAX]
        notes.append(f"only the first {HTML_SIZE_MAX:,} bytes of HTML were laid out")
    text = _decode(data, charset or _find_charset(data))
    found = await _run_converter(text, page.address.url, convert_s_max)
    if isinstance(found, str):
        notes.append(f"the page {found}: these are its bare words")
        words = await asyncio.to_thread(_strip_tags, text)
        return PageText("", words, tuple(notes))
    if found.get("part"):
        notes.append("only the main part of the page is shown, without what is around it")
    return PageText(found["title"], found["markdown"], tuple(notes))


async def _run_converter(text: str, url: str, within_s: float) -> dict[str, str] | str:
    """What the converter makes of a page, or why it makes nothing of it."""
    library = importlib.util.find_spec("justhtml")
    if library is None or library.origin is None or not sys.executable:
        return "cannot be laid out here"
    folder = str(Path(library.origin).parent.parent)
    # -I and -S: it runs no code of a folder that it happens to be in, and starts at once.
    argv = (sys.executable, "-I", "-S", str(_CONVERTER), folder, url)
    data = text.encode("utf-8", "replace")
    bounds = Bounds(within_s, MARKDOWN_SIZE_MAX, ends_when_full=True)
    scope = TerminationScope.GROUP_AT_ONCE
    try:
        ran = await run_bounded(argv, "/", {}, bounds, data=data, scope=scope)
    except OSError:
        return "cannot be laid out here"
    if ran.problem:
        return ran.problem
    try:
        return msgspec.json.decode(ran.out, type=dict[str, str])
    except msgspec.DecodeError:
        return "is such that it cannot be laid out"


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _find_charset(data: bytes) -> str:
    """What the page itself says of its letters, near its beginning; empty if it does not."""
    found = _META.search(data[:_SNIFF_SIZE])
    named = found[1].decode() if found else ""
    # Who says so in letters of one byte each has none of two.
    return "utf-8" if named.lower().startswith("utf-16") else named


def _known(charset: str) -> str:
    try:
        name = codecs.lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        return ""
    return name if name in _CHARSETS else ""


def _decode(data: bytes, charset: str) -> str:
    """The text by its mark, by what the server says, as UTF-8, or as the web falls back to."""
    marked = next((name for mark, name in _BOMS if data.startswith(mark)), "")
    name = marked or _known(charset)
    if name in ("iso8859-1", "ascii"):
        name = _LATIN
    try:
        text = data.decode(name or "utf-8")
    except UnicodeError:
        # A page that is cut may end within a letter.
        text = data.decode(name or _guess(data), errors="replace")
    return text.replace("\r\n", "\n")


def _guess(data: bytes) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)
    except UnicodeDecodeError:
        return _LATIN
    return "utf-8"


def _format_json(text: str) -> str:
    """JSON in lines, so that a part of it can be read.

    The text itself if it is not JSON, or would become too long: what is deep in a nest is indented
    as deep.
    """
    if text.count("\n") > 1 or _measure_formatted(text) > JSON_SIZE_MAX:
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text


def _measure_formatted(text: str) -> int:
    """How long JSON becomes at most; once it is more than `JSON_SIZE_MAX`, any such number."""
    size, depth = len(text), 0
    for sign in _JSON_SIGN.finditer(text):
        if sign[0] in "[{":
            depth += 1
        elif sign[0] in "]}":
            depth -= 1
        size += 2 + 2 * max(0, depth)
        if size > JSON_SIZE_MAX:
            break
    return size


def _strip_tags(text: str) -> str:
    """The bare words, in time proportional to the text: who made it so odd may want otherwise."""
    bare = _LONG_NUMBER.sub("\ufffd", _TAGS.sub(" ", _leave_out_programs(text)))
    text = html.unescape(bare)
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _leave_out_programs(text: str) -> str:
    """The text without scripts and styles; one without an end goes on to the end of the text."""
    kept: list[str] = []
    at = 0
    while (found := _NOT_READ.search(text, at)) is not None:
        kept += text[at : found.start()], " "
        end = _NOT_READ_ENDS[found[1].lower()].search(text, found.end())
        if end is None:
            return "".join(kept)
        at = end.end()
    return "".join((*kept, text[at:]))


def _describe_binary(page: FetchedPage, kind: str) -> str:
    size = "" if page.size is None else f", {page.size:,} bytes"
    named = json.dumps(kind or "no type of content", ensure_ascii=False)
    return f"this is no text but {named}{size}; it is not shown"
