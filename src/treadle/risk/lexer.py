"""The words and operators of a command, as bash reads them. Pure.

It knows quotes, escapes, expansions, substitutions, here-documents, comments. Nothing is expanded:
a word says what can be known of it. Time is linear in the length; nesting is bounded.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from msgspec import Struct

NESTING_COUNT_MAX: Final = 24

_OPERATORS: Final = (
    *("&>>", "<<<", "<<-", ";;&", "&>", "&&", "||", "|&", ";;", ";&"),
    *("<<", ">>", "<&", ">&", "<>", ">|", "\n", ";", "&", "|", "(", ")", "<", ">"),
)
_META: Final = frozenset(" \t\n;&|()<>")
_HEREDOC: Final = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;&|()<>'\"]+))")
_VARIABLE: Final = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-])")
_ESCAPED: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b"}


class UnreadableCommand(Exception):  # noqa: N818 - it is an answer about the text, not a failure
    """Not a command that bash would read, or nested beyond what is looked at."""


class Word(Struct, frozen=True):
    """One word.

    `text` has no quotes any more; what bash would put in its place (`$x`, `$(...)`) stands in it as
    it was written, and `is_known` is false then. `bare` is its beginning up to the first quote,
    escape or expansion. `scripts` are the commands that run to make it.
    """

    text: str
    bare: str = ""
    is_known: bool = True
    is_quoted: bool = False
    has_globs: bool = False
    has_braces: bool = False
    scripts: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the text is what the program gets."""
        return self.is_known and not self.has_globs and not self.has_braces


class Operator(Struct, frozen=True):
    """What stands between words; `body` is the text of a here-document, `scripts` run in it."""

    text: str
    body: str = ""
    scripts: tuple[str, ...] = ()


Token: TypeAlias = Word | Operator


def tokens_of(text: str) -> list[Token]:
    """All tokens of a command.

    Raises:
        Unreadable: a quote or bracket is not closed.
    """
    return _Scanner(text).tokens()


def scripts_in(text: str, depth: int = 0) -> tuple[str, ...]:
    """The commands that run when a text is expanded as in double quotes.

    Raises:
        Unreadable: one of them is not closed.
    """
    part = _WordBuilder()
    _Scanner(text, depth).expanded(part, end="")
    return tuple(part.scripts)


class _WordBuilder:
    """A word that grows."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.bare: str | None = None
        self.is_known = True
        self.has_globs = False
        self.has_braces = False
        self.scripts: list[str] = []

    def end_bare(self) -> None:
        if self.bare is None:
            self.bare = "".join(self.pieces)

    def unknown(self, written: str, *scripts: str) -> None:
        self.end_bare()
        self.is_known = False
        self.pieces.append(written)
        self.scripts += scripts

    def word(self) -> Word:
        text, is_quoted = "".join(self.pieces), self.bare is not None
        bare = text if self.bare is None else self.bare
        has_braces = self.has_braces and text != "{}" and len(text) > 1
        scripts = tuple(self.scripts)
        return Word(text, bare, self.is_known, is_quoted, self.has_globs, has_braces, scripts)


class _Scanner:
    def __init__(self, text: str, depth: int = 0) -> None:
        if depth > NESTING_COUNT_MAX:
            raise UnreadableCommand
        self.text = text
        self.depth = depth
        self.at = 0
        self.found: list[Token] = []
        self.waiting: list[tuple[int, str, bool, bool]] = []
        """Here-documents whose text comes after this line: place, end, if indented, if as it is."""

    def tokens(self) -> list[Token]:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif character in _META and not self._is_process():
                self._operator()
            else:
                word = self._word()
                if not (word.text.isdigit() and not word.is_quoted and self._is_before_redirect()):
                    self.found.append(word)
        if self.waiting:
            raise UnreadableCommand
        return self.found

    def _is_before_redirect(self) -> bool:
        return self.text[self.at : self.at + 1] in {"<", ">"}

    def _is_process(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _operator(self) -> None:
        text = next(each for each in _OPERATORS if self.text.startswith(each, self.at))
        if text in ("<<", "<<-"):
            self._begin_heredoc()
            return
        self.at += len(text)
        self.found.append(Operator(text))
        if text == "\n":
            self._heredocs()

    def _begin_heredoc(self) -> None:
        match = _HEREDOC.match(self.text, self.at)
        if match is None:
            raise UnreadableCommand
        end = next(each for each in match.group(2, 3, 4) if each is not None)
        is_raw = match[4] is None or "\\" in match[0]
        self.at = match.end()
        if self.text[self.at : self.at + 1] not in {"", *_META}:
            raise UnreadableCommand  # the end is written in pieces: `E"O"F`
        self.waiting.append((len(self.found), end, bool(match[1]), is_raw))
        self.found.append(Operator("<<"))

    def _heredocs(self) -> None:
        for place, end, is_indented, is_raw in self.waiting:
            lines: list[str] = []
            while True:
                if self.at >= len(self.text):
                    break  # bash takes the end of the command as the end of the text
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                self.at = stop + 1
                if (line.lstrip("\t") if is_indented else line) == end:
                    break
                lines.append(line)
            body = "\n".join(lines)
            self.found[place] = Operator("<<", body, () if is_raw else scripts_in(body, self.depth))
        self.waiting.clear()

    def _word(self) -> Word:
        part = _WordBuilder()
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in _META:
                if not self._is_process():
                    break
                self._substitution(part, self.at + 2)
            elif character in "\\'\"$`":
                self._special(part, character)
            else:
                part.has_globs |= character in "*?["
                part.has_braces |= character in "{}"
                part.pieces.append(character)
                self.at += 1
        return part.word()

    def _special(self, part: _WordBuilder, character: str) -> None:
        if character == "\\":
            self._escape(part)
        elif character == "'":
            part.end_bare()
            end = self._find("'", self.at + 1)
            part.pieces.append(self.text[self.at + 1 : end])
            self.at = end + 1
        elif character == '"':
            part.end_bare()
            self.at += 1
            self.expanded(part, end='"')
        else:
            self._expansion(part, in_quotes=False)

    def _escape(self, part: _WordBuilder) -> None:
        if self.text.startswith("\\\n", self.at):
            self.at += 2
            return
        if self.at + 1 >= len(self.text):
            raise UnreadableCommand
        part.end_bare()
        part.pieces.append(self.text[self.at + 1])
        self.at += 2

    def expanded(self, part: _WordBuilder, *, end: str) -> None:
        """Reads what stands in double quotes, up to the closing one."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == end:
                self.at += 1
                return
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in {*'$`"\\\n'}:
                part.pieces.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif character in "$`":
                self._expansion(part, in_quotes=True)
            else:
                part.pieces.append(character)
                self.at += 1
        if end:
            raise UnreadableCommand

    def _expansion(self, part: _WordBuilder, *, in_quotes: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            end = after_backticks(text, at) - 1
            written = re.sub(r"\\([\\$`])", r"\1", text[at + 1 : end])
            part.unknown(text[at : end + 1], written)
            self.at = end + 1
        elif text.startswith("$((", at) and self._is_arithmetic(at):
            end = closing(text, at + 2, ")")
            part.unknown(text[at : end + 1], *scripts_in(text[at + 3 : end - 1], self.depth + 1))
            self.at = end + 1
        elif text.startswith("$(", at):
            self._substitution(part, at + 2)
        elif text.startswith("${", at):
            end = closing(text, at + 2, "}")
            part.unknown(text[at : end + 1], *scripts_in(text[at + 2 : end], self.depth + 1))
            self.at = end + 1
        elif not in_quotes and text.startswith("$'", at):
            part.end_bare()
            self._ansi(part)
        elif not in_quotes and text.startswith('$"', at):
            part.end_bare()
            self.at += 1
        elif match := _VARIABLE.match(text, at):
            part.unknown(match[0])
            self.at = match.end()
        else:
            part.end_bare()
            part.pieces.append("$")
            self.at += 1

    def _is_arithmetic(self, at: int) -> bool:
        inner = closing(self.text, at + 3, ")")
        return self.text.startswith("))", inner)

    def _substitution(self, part: _WordBuilder, begin: int) -> None:
        end = closing(self.text, begin, ")")
        part.unknown(self.text[self.at : end + 1], self.text[begin:end])
        self.at = end + 1

    def _ansi(self, part: _WordBuilder) -> None:
        at = self.at + 2
        while at < len(self.text) and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise UnreadableCommand
        part.pieces.append(unescaped(self.text[self.at + 2 : at]))
        self.at = at + 1

    def _find(self, character: str, begin: int) -> int:
        end = self.text.find(character, begin)
        if end < 0:
            raise UnreadableCommand
        return end


def unescaped(text: str) -> str:
    """The text with its escapes read as in `$'...'`."""

    def read(match: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if match[group]:
                number = int(match[group], base)
                return chr(number) if number < 0x110000 else match[0]
        if match[5]:
            return chr(ord(match[5]) & 0x1F)
        return _LETTERS.get(match[6], match[6])

    return _ESCAPED.sub(read, text)


def after_backticks(text: str, at: int) -> int:
    """The place after the backtick that closes the one at `at`."""
    at += 1
    while at < len(text) and text[at] != "`":
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise UnreadableCommand
    return at + 1


def closing(text: str, at: int, close: str, depth: int = 0) -> int:
    """The place of the bracket that closes one which was opened before `at`.

    Raises:
        Unreadable: there is none, or too much is nested.
    """
    if depth > NESTING_COUNT_MAX:
        raise UnreadableCommand
    opening, level, ends = ("(" if close == ")" else "{"), 0, list[tuple[str, bool]]()
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif character in "'\"`":
            at = _after_quote(text, at, depth) - 1
        elif character == opening:
            level += 1
        elif character == close:
            if level == 0:
                return at
            level -= 1
        elif close == ")":
            at = _in_command(text, at, ends)
        at += 1
    raise UnreadableCommand


def _in_command(text: str, at: int, ends: list[tuple[str, bool]]) -> int:
    """The last place of a comment, or of the here-documents that begin after this line."""
    if text[at] == "#" and text[at - 1] in " \t\n;":
        stop = text.find("\n", at)
        return at if stop < 0 else stop - 1
    if text.startswith("<<<", at):
        return at + 2
    if text.startswith("<<", at) and (match := _HEREDOC.match(text, at)):
        ends.append(((match[2] or match[3] or match[4] or ""), bool(match[1])))
        return match.end() - 1
    if text[at] == "\n":
        for end, is_indented in ends:
            at = _after_heredoc(text, at, end, is_indented)
        ends.clear()
    return at


def _after_heredoc(text: str, at: int, end: str, is_indented: bool) -> int:
    """The last place of the line that ends a here-document; `at` is the line feed before it."""
    while at < len(text):
        stop = text.find("\n", at + 1)
        stop = len(text) if stop < 0 else stop
        line = text[at + 1 : stop]
        line = line.lstrip("\t") if is_indented else line
        if line == end:
            return stop - 1
        at = stop
    raise UnreadableCommand


def _after_quote(text: str, at: int, depth: int) -> int:
    if text[at] == "`":
        return after_backticks(text, at)
    if text[at] == "'":
        end = text.find("'", at + 1)
        if end < 0:
            raise UnreadableCommand
        return end + 1
    at += 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 1
        elif text.startswith(("$(", "${"), at):
            at = closing(text, at + 2, ")" if text[at + 1] == "(" else "}", depth + 1)
        at += 1
    if at >= len(text):
        raise UnreadableCommand
    return at + 1
