"""A command as its plain words, if it is made of nothing else. Pure; never raises.

Plain is what bash hands to a program as it stands: words, quotes, patterns for file names, joints
and redirections. Of anything that bash expands, repeats or decides there are no plain words. So
whoever reads them has no shell to understand.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import Final

from msgspec import Struct

_PIECES: Final = r"""
    '(?P<single>[^']*)'
    | "(?P<double>(?:[^"$`\\]|\\["$`\\])*+)"
    | \\(?P<escaped>[^\n])
    | (?P<bare>[\w%+,./:=@^*?\[\]!-]|(?<=[\w^~])~|(?<=\w)\#)
"""
_PIECE: Final = re.compile(_PIECES, re.VERBOSE)
_TOKEN: Final = re.compile(
    rf"""
    (?P<blank>[ \t]+(?:\\\n[ \t]*)*)
    | (?P<quiet>(?:[12]?>&[12]|(?:[12&]?>>?|<)[ \t]*/dev/null)(?![^ \t\n;|&]))
    | (?P<redirect>(?:[12&]?>>?|<)(?![<>&(|]))
    | (?P<joint>(?:&&|\|\|?|[;\n])(?:[ \t\n]|\\\n)*+)
    | (?P<word>(?!\d+[<>])(?:{re.sub(r"[?]P<[a-z]+>", "?:", _PIECES)})++)
    """,
    re.VERBOSE,
)
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+@:-]*|:")
_RESERVED: Final = re.compile(
    r"if|then|else|elif|fi|for|while|until|do|done|case|esac|select|function|in|coproc"
)
_MAY_BE_OTHERS: Final = re.compile(r"[*?\[]|(?:.*/)?\.(?!/)", re.DOTALL)
"""The beginning of a pattern that may become an option, or the folder above."""


class PlainWord(Struct, frozen=True):
    """One word: the text that a program gets, and how it is written in the name of a grant.

    A pattern for file names stands for itself: which files it names is not known.
    """

    text: str
    shown: str
    is_pattern: bool = False


class PlainCommand(Struct, frozen=True):
    """A program with its arguments, at least one word.

    `joint` is what stands before it (`&&`, `|`, `||`, `;`), empty for the first; the end of a line
    is a `;`. `assignments` and `redirects` are as they are written in the name of a grant, without
    redirections that write no file (`2>&1`, `>/dev/null`); `inputs` are the files of `<`.
    """

    words: tuple[PlainWord, ...]
    joint: str = ""
    assignments: tuple[str, ...] = ()
    redirects: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The words as the program gets them."""
        return tuple(word.text for word in self.words)


def read_plain(text: str) -> tuple[PlainCommand, ...]:
    """The commands of a text in order; empty if it has anything that is not plain."""
    reader = _PlainReader()
    text = text.strip(" \t\n")
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or not reader.add(str(match.lastgroup), match.group()):
            return ()
        at = match.end()
    return tuple(reader.commands) if reader.end("") else ()


class _PlainReader:
    """Commands that grow, token by token."""

    def __init__(self) -> None:
        self.commands: list[PlainCommand] = []
        self._joint = ""
        self._operator = ""
        self._words: list[PlainWord] = []
        self._assignments: list[str] = []
        self._redirects: list[str] = []
        self._inputs: list[str] = []

    def add(self, group: str, text: str) -> bool:
        """Whether a token of a group may stand there."""
        if group in ("blank", "word"):
            return group == "blank" or self._add_word(text)
        if self._operator:
            return False
        if group == "redirect":
            self._operator = text
        return group != "joint" or self.end(text.strip(" \t\n\\") or ";")

    def _add_word(self, raw: str) -> bool:
        word = _read_word(raw)
        if word is None:
            return False
        if self._operator:
            if word.is_pattern:
                return False
            self._redirects.append(f"{self._operator} {word.shown}")
            self._inputs += [word.text] if self._operator == "<" else []
            self._operator = ""
        elif not self._words and (match := _ASSIGNS.match(raw)):
            self._assignments.append(f"{match.group()}{quote(word.text[match.end() :])}")
        else:
            self._words.append(word)
        return True

    def end(self, joint: str) -> bool:
        """Whether a whole command ends here; a joint is that before the next one."""
        if not self._words or self._operator or not _is_program(self._words[0]):
            return False
        self.commands.append(
            PlainCommand(
                tuple(self._words),
                self._joint,
                tuple(self._assignments),
                tuple(self._redirects),
                tuple(self._inputs),
            )
        )
        self._joint = joint
        self._words, self._assignments = [], []
        self._redirects, self._inputs = [], []
        return True


def _is_program(word: PlainWord) -> bool:
    """Whether a word names a program in plain letters, and is none of the shell's own words."""
    is_plain = _PROGRAM.fullmatch(word.text) is not None and not word.is_pattern
    return is_plain and not _RESERVED.fullmatch(word.text) and not _ASSIGNS.match(word.text)


def _read_word(raw: str) -> PlainWord | None:
    pieces: list[str] = []
    is_pattern = False
    for match in _PIECE.finditer(raw):
        text = match[str(match.lastgroup)]
        if match.lastgroup == "double":
            text = re.sub(r"\\(.)", r"\1", text)
        is_pattern |= match.lastgroup == "bare" and text in "*?["
        pieces.append(text)
    text = "".join(pieces)
    if is_pattern:
        is_known = not (_MAY_BE_OTHERS.match(text) or text.endswith("/"))
        return PlainWord(text, raw, is_pattern) if is_known else None
    shown = quote(text)
    # A grant whose name ends in a slash would be one for all below that folder.
    return PlainWord(text, f"'{shown}'" if shown.endswith("/") else shown)
