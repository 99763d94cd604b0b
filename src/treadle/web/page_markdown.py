"""A page of HTML as Markdown, for a model to read.

A program of its own, started by `page_text.py`: a page is anybody's, and may be built so that
reading it takes hours or gigabytes; a process can be ended. It imports nothing of Treadle, so that
it starts quickly. The parser is that of browsers; what is written here is the Markdown, because
that of the parser escapes what a model reads better as it stands, and leaves tables as HTML.

Nothing here recurses: depth is the page's to choose. Every element is looked at twice.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

MEMORY_SIZE_MAX: Final = 1024 * 1024 * 1024
PREFIX_DEPTH_MAX: Final = 12
"""Lists and quotes within each other that are indented; what is deeper stands as deep as these."""
MAIN_LENGTH_MIN: Final = 200
"""Characters that the main part of a page must have; fewer are a placeholder for a program."""
TITLE_LENGTH_MAX: Final = 200

SKIPPED: Final = frozenset(
    (
        *("script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object"),
        *("embed", "audio", "video", "button", "input", "select", "textarea", "head", "dialog"),
    )
)
"""What is no text, or not for readers."""
AROUND: Final = frozenset({"nav", "footer"})
"""What is on every page of a site."""
BLOCKS: Final = frozenset(
    (
        *("p", "div", "section", "article", "header", "main", "aside", "figure", "figcaption"),
        *("address", "form", "fieldset", "details", "summary", "dl", "dt", "dd", "tr", "td", "th"),
        *("caption", "center", "hgroup", "nav", "footer", "thead", "tbody", "tfoot", "table"),
    )
)
HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~"}
NOT_IN_CELLS: Final = frozenset(("table", "pre", "ul", "ol", "blockquote", "form", *HEADINGS))
"""What makes a table one that only lays out a page."""

Node: TypeAlias = Any
_SPACE: Final = re.compile(r"[ \t\n\r\f\u00a0]+")
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-)([\w+#.-]{1,20})")
_FENCES: Final = re.compile(r"`{3,}")


class MarkdownWriter:
    """Lines of Markdown, as they come of a walk over a page.

    Args:
        base: the address that links are relative to.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._lines: list[str] = []
        self._inline: list[str] = []
        """What stands in the line that is not ended yet."""
        self._block = 0
        """The number of the line, to see whether another one has begun."""
        self._prefixes: list[str] = []
        self._gap: str | None = None
        """How the empty line above the next block begins, if not like the block."""
        self._marker = ""
        self._is_tight = False
        """Whether an entry of a list stands right below what is above it."""
        self._lists: list[int] = []
        """Of each list the number of its next entry; 0 for one without numbers."""
        self._row: list[str] | None = None
        self._is_first_row = False
        self._open: list[tuple[int, int]] = []

    def text(self, words: str) -> None:
        """Words of a paragraph; blanks are joined."""
        words = _SPACE.sub(" ", words)
        if words.startswith(" ") and (not self._inline or self._inline[-1].endswith((" ", "\n"))):
            words = words[1:]
        if words:
            self._inline.append(words)

    def break_line(self) -> None:
        """The next words stand in a line of their own."""
        if self._row is not None:
            self.text(" ")
        elif self._inline:
            self._inline.append("\n")

    def end_block(self, marker: str = "") -> None:
        """What was written so far is a paragraph; the next one begins with `marker`."""
        if self._row is not None:
            self.text(" ")
            return
        words = "".join(self._inline).strip()
        self._inline.clear()
        if words:
            self._put([self._marker + line.strip() for line in words.split("\n") if line.strip()])
            self._marker = ""
        self._marker = marker or self._marker
        self._block += 1

    def drop_marker(self) -> None:
        """What was to stand in front of a block that had no words."""
        self._marker = ""

    def put_code(self, code: str, language: str) -> None:
        """A block of code, as it stands."""
        if self._row is not None:
            self.put_code_span(code)
            return
        self.end_block()
        fence = "`" * (max([2, *map(len, _FENCES.findall(code))]) + 1)
        self._put([f"{self._marker}{fence}{language}", *code.strip("\n").split("\n"), fence])
        self._marker = ""
        self._block += 1

    def put_code_span(self, code: str) -> None:
        """Code within a line."""
        code = _SPACE.sub(" ", code).strip()
        if code:
            fence = "``" if "`" in code else "`"
            gap = " " if "`" in code else ""
            self._inline.append(f"{fence}{gap}{code}{gap}{fence}")

    def put_image(self, source: str, words: str) -> None:
        """An image that has words; one without says nothing to a model."""
        words = _SPACE.sub(" ", words).strip()
        if words and not source.startswith("data:"):
            self._inline.append(f"![{words}]({self._resolve(source)})")

    def put_rule(self) -> None:
        """A line across."""
        self.end_block()
        if self._row is None:
            self._put(["---"])

    def open_span(self) -> None:
        """Remember where a part of a line begins."""
        self._open.append((self._block, len(self._inline)))

    def close_span(self, begin: str, end: str) -> None:
        """Put marks around what was written since, if it stands in one line and is not empty."""
        block, place = self._open.pop()
        if block != self._block:
            return
        words = "".join(self._inline[place:])
        bare = words.strip()
        if not bare:
            return
        head, tail = words[: len(words) - len(words.lstrip())], words[len(words.rstrip()) :]
        self._inline[place:] = [f"{head}{begin}{bare}{end}{tail}"]

    def close_link(self, target: str) -> None:
        """Make a link of what was written since, if it leads to another place."""
        if not target or target.startswith(("#", "javascript:", "data:")):
            self.close_span("", "")
        elif self._open[-1][0] == self._block:
            self.close_span("[", f"]({self._resolve(target)})")
        else:  # whole paragraphs: a card that leads somewhere
            self._open.pop()
            self._inline.append(f"<{self._resolve(target)}>")

    def open_list(self, first: int) -> None:
        """A list begins; `first` is 0 for one without numbers."""
        self.end_block()
        self._lists.append(first)
        self._is_tight = len(self._lists) > 1

    def close_list(self) -> None:
        """A list ends."""
        self.end_block()
        self._lists.pop()
        self._is_tight = False

    def open_entry(self) -> None:
        """An entry of a list begins."""
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        marker = f"{number}. " if number else "- "
        self.end_block(marker)
        self._prefixes.append(" " * len(marker))

    def close_entry(self) -> None:
        """An entry of a list ends."""
        self.end_block()
        self._prefixes.pop()
        self._marker = ""
        self._is_tight = True

    def open_quote(self) -> None:
        """What follows is quoted."""
        self.end_block()
        self._gap = "".join(self._prefixes[:PREFIX_DEPTH_MAX])
        self._prefixes.append("> ")

    def close_quote(self) -> None:
        """What was quoted ends."""
        self.end_block()
        self._prefixes.pop()

    def open_table(self) -> None:
        """A table of data begins."""
        self.end_block()
        self._is_first_row = True

    def open_row(self) -> None:
        """A row of it begins."""
        self.end_block()
        self._row = []

    def end_cell(self) -> None:
        """A cell of the row ends."""
        if self._row is not None:
            words = _SPACE.sub(" ", "".join(self._inline)).strip()
            self._inline.clear()
            self._row.append(words.replace("|", "\\|"))

    def close_row(self) -> None:
        """The row ends; behind the first one stands the line that makes it a table."""
        row, self._row = self._row or [], None
        self._inline.clear()
        if any(row):
            lines = [f"| {' | '.join(row)} |"]
            if self._is_first_row:
                lines.append("|" + " --- |" * len(row))
            self._put(lines, is_tight=not self._is_first_row)
            self._is_first_row = False

    def finish(self) -> str:
        """All lines."""
        self.end_block()
        return "\n".join(self._lines).strip("\n")

    def _put(self, lines: list[str], *, is_tight: bool = False) -> None:
        prefixes = self._prefixes[:PREFIX_DEPTH_MAX]
        prefix = "".join(prefixes)
        # The marker of an entry stands where the lines below it are indented.
        own = prefixes[-1] if prefixes else ""
        first = prefix[: len(prefix) - len(own)] if self._marker and not own.strip() else prefix
        if self._lines and not (is_tight or (self._is_tight and self._marker)):
            self._lines.append((prefix if self._gap is None else self._gap).rstrip())
        self._gap = None
        self._is_tight = bool(self._lists and self._marker)
        for number, line in enumerate(lines):
            self._lines.append(((prefix if number else first) + line).rstrip())

    def _resolve(self, target: str) -> str:
        with suppress(ValueError):
            target = urljoin(self._base, target.strip())
        return _SPACE.sub("%20", target).replace("(", "%28").replace(")", "%29")


def convert(text: str, base: str) -> dict[str, str]:
    """The title of a page and its text.

    Args:
        text: the page.
        base: where it was.

    Returns:
        `title`, `markdown`, and `part`: `main` if all else of the page was left out.
    """
    from justhtml import JustHTML

    root = JustHTML(text, sanitize=False).root
    titles: list[str] = []
    mains: list[Node] = []
    layouts: set[int] = set()
    _look(root, titles, mains, layouts)
    base = urljoin(base, _find_base(root))
    title = _SPACE.sub(" ", titles[0]).strip()[:TITLE_LENGTH_MAX] if titles else ""
    if len(mains) == 1:
        written = _write(mains[0], base, layouts, AROUND)
        if len(written) >= MAIN_LENGTH_MIN:
            return {"title": title, "markdown": written, "part": "main"}
    written = _write(root, base, layouts, AROUND) or _write(root, base, layouts, frozenset())
    return {"title": title, "markdown": written, "part": ""}


def _walk(root: Node) -> Iterator[tuple[Node, Node]]:
    """All elements, each with the innermost table that it is in."""
    todo: list[tuple[Node, Node]] = [(root, None)]
    while todo:
        node, table = todo.pop()
        yield node, table
        inner = node if node.name == "table" else table
        todo.extend((child, inner) for child in reversed(node.children or ()))


def _look(root: Node, titles: list[str], mains: list[Node], layouts: set[int]) -> None:
    """Find the titles, the main parts, and the tables that only lay out the page."""
    for node, table in _walk(root):
        name = node.name
        if name == "title" and not titles and node.parent is not None:
            if node.parent.name == "head":
                titles.append("".join(one.data or "" for one in node.children))
        elif name == "main" or (not name.startswith("#") and _get(node, "role") == "main"):
            mains.append(node)
        elif name in NOT_IN_CELLS and table is not None:
            layouts.add(id(table))


def _find_base(root: Node) -> str:
    found = root.query_one("base[href]")
    return "" if found is None else _get(found, "href")


def _write(root: Node, base: str, layouts: set[int], around: frozenset[str]) -> str:
    writer = MarkdownWriter(base)
    todo: list[tuple[Node, Callable[[], None] | None]] = [(root, None)]
    while todo:
        node, close = todo.pop()
        if close is not None:
            close()
            continue
        name = node.name
        if name == "#text":
            writer.text(node.data or "")
        elif name in SKIPPED or name in around or name in ("#comment", "!doctype"):
            continue
        elif not _is_hidden(node) and (close := _open(writer, node, layouts)) is not None:
            todo.append((node, close))
            todo.extend((child, None) for child in reversed(node.children or ()))
    return writer.finish()


def _open(writer: MarkdownWriter, node: Node, layouts: set[int]) -> Callable[[], None] | None:
    """Begin an element; what ends it behind its children, or `None` if they are done with it."""
    name = node.name
    if name in _WHOLE:
        _WHOLE[name](writer, node)
        return None
    if name in MARKS:
        writer.open_span()
        return lambda: writer.close_span(MARKS[name], MARKS[name])
    if name in HEADINGS:
        writer.end_block(f"{HEADINGS[name]} ")
        return lambda: _end_heading(writer)
    is_data = name in _TABLE and id(_find_table(node)) not in layouts
    if is_data or name in _PAIRS:
        begin, end = (_TABLE if is_data else _PAIRS)[name]
        begin(writer, node)
        return lambda: end(writer, node)
    if name in BLOCKS:
        writer.end_block()
        return writer.end_block
    return lambda: None


def _find_table(node: Node) -> Node:
    """The table that a part of one is in: a few steps up, as the parser builds it."""
    for _ in range(4):
        if node is None or node.name == "table":
            break
        node = node.parent
    return node


def _end_heading(writer: MarkdownWriter) -> None:
    writer.end_block()
    writer.drop_marker()


def _put_code(writer: MarkdownWriter, node: Node) -> None:
    inner = node.query_one("code")
    classes = " ".join(_get(one, "class") for one in (node, inner) if one is not None)
    language = _LANGUAGE.search(classes)
    code = node.to_text(separator="", strip=False)
    writer.put_code(code, language[1] if language else "")


def _start_of(node: Node) -> int:
    start = _get(node, "start")
    return int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1


_WHOLE: Final[dict[str, Callable[[MarkdownWriter, Node], None]]] = {
    "br": lambda writer, _: writer.break_line(),
    "hr": lambda writer, _: writer.put_rule(),
    "img": lambda writer, node: writer.put_image(_get(node, "src"), _get(node, "alt")),
    "pre": _put_code,
    **dict.fromkeys(
        ("code", "kbd", "samp", "tt"),
        lambda writer, node: writer.put_code_span(node.to_text(separator="", strip=False)),
    ),
}
_Step: TypeAlias = Callable[[MarkdownWriter, Node], None]
_TABLE: Final[dict[str, tuple[_Step, _Step]]] = {
    "table": (lambda writer, _: writer.open_table(), lambda writer, _: writer.end_block()),
    "tr": (lambda writer, _: writer.open_row(), lambda writer, _: writer.close_row()),
    **dict.fromkeys(("td", "th"), (lambda writer, _: None, lambda writer, _: writer.end_cell())),
}
_PAIRS: Final[dict[str, tuple[_Step, _Step]]] = {
    "a": (
        lambda writer, _: writer.open_span(),
        lambda writer, node: writer.close_link(_get(node, "href").strip()),
    ),
    "ul": (lambda writer, _: writer.open_list(0), lambda writer, _: writer.close_list()),
    "ol": (
        lambda writer, node: writer.open_list(_start_of(node)),
        lambda writer, _: writer.close_list(),
    ),
    "li": (lambda writer, _: writer.open_entry(), lambda writer, _: writer.close_entry()),
    "blockquote": (lambda writer, _: writer.open_quote(), lambda writer, _: writer.close_quote()),
}


def _get(node: Node, name: str) -> str:
    return (getattr(node, "attrs", None) or {}).get(name) or ""


def _is_hidden(node: Node) -> bool:
    attributes = getattr(node, "attrs", None) or {}
    if not attributes:
        return False
    is_aside = attributes.get("aria-hidden") == "true"
    return "hidden" in attributes or is_aside or bool(_HIDDEN.search(_get(node, "style")[:1000]))


def main(library: str, base: str) -> None:
    """Read a page from the standard input, write what `convert` makes of it as JSON.

    Args:
        library: the folder in which the parser is; this process knows no other.
        base: see `convert`.
    """
    with suppress(ValueError, OSError):  # macOS knows the limit, and does not take it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_SIZE_MAX, MEMORY_SIZE_MAX))
    sys.path.append(library)
    found = convert(sys.stdin.buffer.read().decode("utf-8", "replace"), base)
    sys.stdout.buffer.write(json.dumps(found).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
