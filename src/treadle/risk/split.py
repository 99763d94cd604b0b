"""A command as the simple commands in it: chains, pipes, loops and functions taken apart. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from treadle.risk.lexer import Operator, Token, UnreadableCommand, Word, tokens_of

_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_REDIRECTS: Final = frozenset({"<", ">", ">>", "<<", "<<<", "<&", ">&", "<>", ">|", "&>", "&>>"})
_JOINS: Final = frozenset({"&&", "||", ";", "\n", "|"})
"""What may stand between commands that grants cover."""
_OPENERS: Final = frozenset(
    {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc"}
)
_CLOSERS: Final = frozenset({"fi", "done", "}", "esac"})
_HEADERS: Final = frozenset({"for", "select", "case", "function", "[["})
_NESTING: Final = frozenset({"{", "if", "while", "until", "for", "select", "case"})

RESERVED: Final = _OPENERS - {"time", "coproc"} | _CLOSERS | _HEADERS


class Redirect(Struct, frozen=True):
    """`operator` with its file or text; `body` of a here-document."""

    operator: str
    target: Word
    body: str = ""


class Simple(Struct, frozen=True):
    """One command: assignments, words, redirections; `is_fed` if a pipe is its input."""

    assignments: tuple[Word, ...] = ()
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    is_fed: bool = False


class ShellScript(Struct, frozen=True):
    """All simple commands of a text in order.

    `scripts` run to make words. `functions` are names that it defines. It `is_chain` if it is
    nothing but simple commands joined by `&&`, `||`, `;`, `|` and line ends.
    """

    commands: tuple[Simple, ...]
    scripts: tuple[str, ...]
    functions: tuple[str, ...]
    is_chain: bool


def split(text: str) -> ShellScript:
    """Takes a command apart.

    Raises:
        Unreadable: it is not one that bash would read.
    """
    return _Splitter(tokens_of(text)).script()


class _Splitter:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.commands: list[Simple] = []
        self.scripts: list[str] = []
        self.functions: list[str] = []
        self.is_chain = True
        self.cases = 0
        self.fed: list[bool] = [False]
        """Whether a pipe is the input; one more for every bracket that is open."""
        self._begin()

    def _begin(self) -> None:
        self.assignments: list[Word] = []
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []

    def script(self) -> ShellScript:
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if isinstance(token, Word):
                self._word(token)
            else:
                self._operator(token)
        self._end()
        return ShellScript(
            tuple(self.commands), tuple(self.scripts), tuple(self.functions), self.is_chain
        )

    def _next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _word(self, word: Word) -> None:
        self.scripts += word.scripts
        begins = not self.words and not self.assignments and not self.redirects
        if begins and not word.is_quoted and self._reserved(word.text):
            return
        if not self.words and _ASSIGNS.match(word.bare):
            self.assignments.append(word)
            if word.text.endswith("=") and self._next() == Operator("("):
                self.is_chain = False
                self.at += 1
                self._data(")")
            return
        self.words.append(word)

    def _reserved(self, text: str) -> bool:
        if text in _OPENERS:
            self.is_chain &= text == "time"
            if text in _NESTING:
                self.fed.append(self.fed[-1])
        elif text in _CLOSERS:
            self.is_chain = False
            if len(self.fed) > 1:
                self.fed.pop()
            self.cases -= text == "esac"
        elif text in _HEADERS:
            self.is_chain = False
            if text in _NESTING:
                self.fed.append(self.fed[-1])
            self._header(text)
        else:
            return False
        return True

    def _header(self, text: str) -> None:
        if text == "[[":
            self._data("]]")
        elif text == "case":
            self._data("in")
            self.cases += 1
            self._pattern()
        elif text == "function":
            name = self._next()
            self.at += 1
            self.functions.append(name.text if isinstance(name, Word) else "")
            if self.tokens[self.at : self.at + 2] == [Operator("("), Operator(")")]:
                self.at += 2
        elif self._next() == Operator("("):
            self._data(")")
            self._data(")")
        else:
            self._data(";", "\n", "do")
            self.at -= 1

    def _data(self, *ends: str) -> None:
        """Skips words that are no command, up to one of the ends."""
        while (token := self._next()) is not None:
            self.at += 1
            if token.text in ends:
                return
            self.scripts += token.scripts
        raise UnreadableCommand

    def _pattern(self) -> None:
        """Skips the patterns of a case, which stand before a closing bracket."""
        while self._next() == Operator("\n"):
            self.at += 1
        token = self._next()
        if not (isinstance(token, Word) and token.text == "esac"):
            self._data(")")

    def _operator(self, operator: Operator) -> None:
        text = operator.text
        if text in _REDIRECTS:
            self._redirect(operator)
        elif text == "(" and len(self.words) == 1 and self._next() == Operator(")"):
            self.is_chain = False
            self.at += 1
            self.functions.append(self.words[0].text)
            self._begin()
        elif text == "(":
            if self.words or self.assignments:
                raise UnreadableCommand
            self.is_chain = False
            self.fed.append(self.fed[-1])
        else:
            self._join(text)

    def _join(self, text: str) -> None:
        self._end()
        self.is_chain &= text in _JOINS
        if text == ")":
            if len(self.fed) == 1:
                raise UnreadableCommand
            self.fed.pop()
        elif text in ("|", "|&"):
            self.fed[-1] = True
        elif text in (";;", ";&", ";;&"):
            if self.cases < 1:
                raise UnreadableCommand
            self._pattern()
        elif len(self.fed) == 1:
            self.fed[-1] = False

    def _redirect(self, operator: Operator) -> None:
        if operator.text == "<<":
            self.scripts += operator.scripts
            self.redirects.append(Redirect("<<", Word(""), operator.body))
            return
        target = self._next()
        if not isinstance(target, Word):
            raise UnreadableCommand
        self.at += 1
        self.scripts += target.scripts
        self.redirects.append(Redirect(operator.text, target))

    def _end(self) -> None:
        if self.words or self.assignments or self.redirects:
            self.commands.append(
                Simple(
                    tuple(self.assignments),
                    tuple(self.words),
                    tuple(self.redirects),
                    self.fed[-1],
                )
            )
        self._begin()
