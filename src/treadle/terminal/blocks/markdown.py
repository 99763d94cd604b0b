"""Markdown as people read it in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich import box
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    ListItem,
    Markdown,
    MarkdownContext,
    MarkdownElement,
    TableElement,
    TextElement,
)
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from treadle.terminal.live_lines import wrap_text
from treadle.terminal.markdown_splitter import PART_LINES_MAX, MarkdownPiece, make_parser
from treadle.terminal.styles import code_theme, rich_style
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, RenderResult

COLORED_SIZE_MAX: Final = 9_000
"""Characters of code that are highlighted; longer code is shown without colours."""
RENDERED_SIZE_MAX: Final = 20_000
"""Characters of a piece that are laid out; a longer one, unless it is code, is shown as it was
written: laying out is what keys wait for, and no piece may take longer than a tenth of a second."""
MARKS_MAX: Final = 2_000
"""Marks and line ends of a piece that is laid out: the time goes by them more than by the words."""
_MARKS: Final = re.compile(r"[\n*_`~\[\]!<>&|\\]")
RENDERED_CODE_SIZE_MAX: Final = 100_000
"""Characters of code that are laid out as such; longer code comes in parts anyway."""
_DEPTH_MAX: Final = 16
"""Lists and quotations in each other; of what is deeper the parser drops some."""
ADDRESS_LENGTH_MAX: Final = 200
"""Characters of an address."""
ADDRESSES_SIZE_MAX: Final = 10_000
"""Characters of the addresses of one block; those behind them are only said to be there."""
_ADDRESS: Final = "address"
_CODE_INDENT: Final = 2
_LEVEL_WIDTH: Final = 4
"""Columns that a list or a quotation takes from what is in it, at most."""
_AFTER_EMPTY_LINE: Final = frozenset(
    {"bullet_list_open", "ordered_list_open", "blockquote_open", "table_open"}
)
PROSE_WIDTH_MAX: Final = 100
"""Columns of what is read line by line; code and tables take what there is."""
_WIDE_BLOCKS: Final = frozenset({"fence", "code_block", "table_open"})
_TASK: Final = re.compile(r"\[[ xX]\] ")
"""What an item of a list of tasks begins with."""
_WIDTH_MIN: Final = 10
_CELL_WIDTH_MIN: Final = 5


class MarkdownBlock:
    """A piece of Markdown: its blocks, an empty line between them.

    What needs more columns than there are, or is very long or deep, is shown as it was written; so
    are tags. The address of a link stands behind its words.

    Args:
        markup: whole blocks.
        links: the definitions of links that earlier pieces held; those of this piece are added.
    """

    def __init__(self, markup: str, links: MutableMapping[str, Any] | None = None) -> None:
        self._markup = sanitize_text(markup)
        is_code = _is_fenced(markup)
        is_rest = isinstance(markup, MarkdownPiece) and markup.goes_on and not is_code
        is_short = len(markup) <= RENDERED_CODE_SIZE_MAX if is_code else _is_quick_to_render(markup)
        is_short = is_short and not is_rest
        known = {} if links is None else links
        tokens = make_parser().parse(self._markup if is_short else "", known)
        _make_legible(tokens)  # an entity becomes its character only here
        self._blocks = [_OuterBlock(list(one)) for one in _split_outer_blocks(tokens)]
        self._depth = max((token.level for token in tokens), default=0)
        self._columns = max(_count_columns(tokens), default=0)
        self._is_raw = not is_short or self._depth >= _DEPTH_MAX

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is shown: it only defines links."""
        return not (self._blocks or self._is_raw)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The blocks, if there is room for what they are."""
        room = options.max_width - _LEVEL_WIDTH * (self._depth // 2)
        if self._is_raw or room < max(_WIDTH_MIN, _CELL_WIDTH_MIN * self._columns):
            # Not by rich, which takes seconds for what is long.
            width = options.max_width if "|" in self._markup else _limit_prose(options.max_width)
            for line in wrap_text(self._markup.rstrip("\n"), width):
                yield Segment(line)
                yield Segment.line()
            return
        for place, block in enumerate(self._blocks):
            if place:
                yield Segment.line()
            yield from block.lines(console, options)


def _is_quick_to_render(markup: str) -> bool:
    """Whether it is so short that no key waits for its layout."""
    return (
        len(markup) <= RENDERED_SIZE_MAX
        and markup.count("\n") <= PART_LINES_MAX
        and sum(1 for _ in _MARKS.finditer(markup)) <= MARKS_MAX
    )


def _limit_prose(width: int) -> int:
    return min(width, PROSE_WIDTH_MAX)


def _is_fenced(markup: str) -> bool:
    """Whether it is a block of code between fences, and not only begins like one."""
    first = markup[: markup.find("\n") + 1].strip()
    mark = first[:3]
    return mark in ("```", "~~~") and not (mark == "```" and "`" in first.lstrip("`"))


class _OuterBlock(Markdown):
    """One outer block."""

    elements: ClassVar[dict[str, type[MarkdownElement]]]

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", code_theme=code_theme())
        self.parsed = _flatten_links(tokens)

    def lines(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The block, without the empty line that rich has before lists, quotations and tables."""
        if self.parsed[0].type not in _WIDE_BLOCKS:
            options = options.update(width=_limit_prose(options.max_width))
        # Rich would set code on black, which is a hole in a light terminal.
        with console.use_theme(Theme({"markdown.code": rich_style("code")})):
            lines = console.render_lines(self, options, pad=False)
        is_nested = self.parsed[0].type in _AFTER_EMPTY_LINE
        if is_nested and lines and not "".join(one.text for one in lines[0]).strip():
            del lines[0]
        for line in lines:
            yield from line
            yield Segment.line()


def _split_outer_blocks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each outer block that shows anything; an empty list does not."""
    start = 0
    for place, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            block = tokens[start : place + 1]
            start = place + 1
            if any(one.type == "hr" or one.content.strip() for one in block):
                yield block


def _count_columns(tokens: Sequence[Token]) -> Iterator[int]:
    """How many columns each table has."""
    count = 0
    for token in tokens:
        if token.type == "thead_open":
            count = 0
        elif token.type == "th_open":
            count += 1
        elif token.type == "thead_close":
            yield count


def _make_legible(tokens: Sequence[Token]) -> None:
    for token in tokens:
        token.content, token.info = sanitize_text(token.content), sanitize_text(token.info)
        _make_legible(token.children or ())


def _flatten_links(tokens: list[Token]) -> list[Token]:
    """The tokens with links and pictures as text: words, then the address."""
    left = ADDRESSES_SIZE_MAX
    for token in tokens:
        if token.children:
            token.children = list(_replace_links(token.children, left))
            left -= sum(len(one.content) for one in token.children if one.meta.get(_ADDRESS))
    return tokens


def _replace_links(inline: Sequence[Token], left: int) -> Iterator[Token]:
    """The same for what is in a line.

    Args:
        inline: the tokens.
        left: characters that addresses may take together. One definition has many links.
    """
    address, said = "", ""

    def make_address_token(words: str, address: object) -> Token:
        nonlocal left
        shown = crop_address(str(address)) if left > 0 else "…"
        left -= len(shown)
        return _make_text_token(f"{words} ({shown})")

    for token in inline:
        if token.type == "link_open":
            address, said = str(token.attrs.get("href", "")), ""
        elif token.type == "link_close":
            if address not in (said, f"mailto:{said}"):
                yield make_address_token("", address)
        elif token.type == "image":
            words = f"[picture: {token.content or 'without a name'}]"
            yield make_address_token(words, token.attrs.get("src"))
        else:
            said += token.content
            yield token


def crop_address(address: str) -> str:
    """An address as it is shown: its beginning, and how much more there is."""
    more = len(address) - ADDRESS_LENGTH_MAX
    shown = sanitize_text(address[:ADDRESS_LENGTH_MAX])
    return f"{shown}… {more} more characters" if more > 0 else shown


def _make_text_token(words: str) -> Token:
    from markdown_it.token import Token

    return Token("text", "", 0, content=words, meta={_ADDRESS: True})


class _CodeElement(CodeBlock):
    """Code in the colours of the terminal, a little indented: it is not told by colour alone."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        if len(code) > COLORED_SIZE_MAX or self.lexer_name == "text":
            for line in wrap_text(code, options.max_width - _CODE_INDENT):
                yield Segment(" " * _CODE_INDENT + line)
                yield Segment.line()
            return
        shown = Syntax(code, self.lexer_name, theme=self.theme).highlight(code)
        shown.rstrip()
        shown.overflow, shown.no_wrap = "fold", False
        yield Padding(shown, (0, 0, 0, _CODE_INDENT))


class _HeadingElement(Heading):
    """At the left, with its marks: how deep it is shows without colours too."""

    def on_enter(self, context: MarkdownContext) -> None:
        self.text = Text()
        context.enter_style(_HEADING_STYLES[self.tag])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble(("#" * int(self.tag[1:]) + " ", rich_style("dim")), self.text)


_HEADING_STYLES: Final = {
    "h1": "bold underline",
    "h2": "bold",
    "h3": "bold italic",
    "h4": "italic",
    "h5": "italic",
    "h6": "italic",
}


class _ItemElement(ListItem):
    """An item of a list; of a task its box stands in place of the mark: `[x]`, as in plans."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = next(iter(self.elements), None)  # type: ignore[call-overload,type-var]
        if not (isinstance(first, TextElement) and _TASK.match(first.text.plain)):
            yield from super().render_bullet(console, options)
            return
        box, first.text = first.text.plain[:3].lower(), first.text[4:]
        width = max(1, options.max_width - _BOX_WIDTH)
        lines = console.render_lines(self.elements, options.update(width=width), style=self.style)
        for place, line in enumerate(lines):
            yield Segment(" " * _BOX_WIDTH if place else f" {box} ")
            yield from line
            yield Segment.line()


_BOX_WIDTH: Final = len(" [x] ")


class _RuleElement(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=rich_style("dim"), characters="─")


class _TableElement(TableElement):
    """A table that loses nothing: what is too wide for its column goes on below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, border_style=rich_style("dim")
        )
        head = self.header.row.cells if self.header and self.header.row else []
        for cell in head:
            table.add_column(cell.content, justify=cell.justify, overflow="fold")
        for row in self.body.rows if self.body else []:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


_OuterBlock.elements = {
    **Markdown.elements,
    "fence": _CodeElement,
    "code_block": _CodeElement,
    "heading_open": _HeadingElement,
    "hr": _RuleElement,
    "list_item_open": _ItemElement,
    "table_open": _TableElement,
}
