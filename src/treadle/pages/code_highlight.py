"""Code in colours: comments, strings, numbers, keywords, names of functions. Pure.

One pass over the text, whatever a model has written: each pattern begins with what stands there,
and takes all that it has looked at. The classes of the pieces have their colours in the style
sheet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Final

from msgspec import Struct


class _Language(Struct, frozen=True):
    """How to read a family of languages."""

    pattern: re.Pattern[str]
    keywords: frozenset[str] = frozenset()
    has_any_case: bool = False


_SHORT: Final = r'"(?:[^"\\\n]|\\.)*+"?' + "|" + r"'(?:[^'\\\n]|\\.)*+'?"
_LONG: Final = r'"""(?s:.*?)(?:"""|\Z)' + "|" + r"'''(?s:.*?)(?:'''|\Z)"
_HASH: Final = r"(?P<c>(?:(?<=\s)|^)#.*+)"
_BLOCK: Final = r"/\*(?s:.*?)(?:\*/|\Z)"

_C_WORDS: Final = (
    "abstract as async await bool boolean break case catch char class const constexpr continue "
    "crate def default defer delete do double dyn else enum export extends extern false final "
    "finally float fn for foreach from func fun function go goto guard if impl implements import "
    "in inline instanceof int interface internal is let long loop match mod module move mut "
    "namespace new nil null object of operator override package private protected pub public range "
    "readonly ref return self short signed sizeof static string struct super switch template this "
    "throw throws trait true try type typedef typename typeof undefined union unsafe unsigned use "
    "using val var virtual void volatile when where while yield"
)
_PYTHON_WORDS: Final = (
    "False None True and as assert async await break case class continue def del elif else except "
    "finally for from global if import in is lambda match nonlocal not or pass raise return try "
    "while with yield"
)
_RUBY_WORDS: Final = (
    "BEGIN END alias and begin break case class def defined do else elsif end ensure false for if "
    "in module next nil not or redo rescue retry return self super then true undef unless until "
    "when while yield require attr_accessor attr_reader private"
)
_SHELL_WORDS: Final = (
    "case do done elif else esac export fi for function if in local return set source then until "
    "while cd echo exit trap unset FROM RUN COPY WORKDIR CMD ENTRYPOINT ENV EXPOSE ARG include"
)
_SQL_WORDS: Final = (
    "add all alter and as asc begin between by case check column commit constraint create database "
    "default delete desc distinct drop else end exists explain foreign from full grant group "
    "having if in index inner insert into is join key left like limit not null offset on or order "
    "outer primary references returning right rollback select set table then transaction trigger "
    "union unique update using values view when where with"
)


def _make_language(
    pattern: str,
    words: str = "",
    *,
    word: str = r"[^\W\d]\w*+",
    call: str = r"\(",
    has_any_case: bool = False,
) -> _Language:
    # A word is taken with or without what stands behind it: looked for and not found, it would be
    # looked for again at its next letter.
    rest = rf"|(?P<m>\b\d[\w.]*+)|(?P<word>{word})(?P<call>{call})?"
    return _Language(
        re.compile(pattern + rest, re.MULTILINE), frozenset(words.split()), has_any_case
    )


_C: Final = _make_language(rf"(?P<c>//.*+|{_BLOCK})|(?P<s>{_SHORT}|`[^`]*+`?)", _C_WORDS)
_PYTHON: Final = _make_language(
    rf"{_HASH}|(?P<s>{_LONG}|{_SHORT})|(?P<f>^\s?@[\w.]++)", _PYTHON_WORDS
)
_RUBY: Final = _make_language(rf"{_HASH}|(?P<s>{_SHORT})", _RUBY_WORDS)
_SHELL: Final = _make_language(rf"{_HASH}|(?P<s>{_SHORT})|(?P<f>\$\{{?\w++)", _SHELL_WORDS)
_SQL: Final = _make_language(
    rf"(?P<c>--.*+|{_BLOCK})|(?P<s>{_SHORT})", _SQL_WORDS, has_any_case=True
)
_DATA: Final = _make_language(
    rf"{_HASH}|(?P<f>^[ \t]*+(?:- )?[\w.\-]++(?=[ \t]?[:=])|^\[.*+)|(?P<s>{_LONG}|{_SHORT})",
    "true false null yes no on off",
)
_CSS: Final = _make_language(
    rf"(?P<c>{_BLOCK})|(?P<s>{_SHORT})|(?P<k>@\w++)", word=r"[\w\-]++", call=":"
)
_TAGS: Final = _make_language(
    rf"(?P<c><!--(?s:.*?)(?:-->|\Z))|(?P<k></?[\w:\-]++|/?>)|(?P<s>{_SHORT})",
    word=r"[\w:\-]++",
    call="=",
)
_DIFF: Final = _make_language(
    r"(?P<added>^\+.*+)|(?P<removed>^-.*+)|(?P<c>^@@.*+)|(?P<s>^diff .*+)"
)

_LANGUAGES: Final[Mapping[str, _Language]] = {
    name: language
    for language, names in (
        (_C, "c h cpp c++ cc hpp cs csharp c# java js jsx mjs javascript ts tsx typescript"),
        (_C, "go golang rs rust swift kt kotlin scala dart php"),
        (_PYTHON, "py py3 python python3 starlark"),
        (_RUBY, "rb ruby"),
        (_SHELL, "sh bash zsh shell console docker dockerfile make makefile"),
        (_SQL, "sql postgresql sqlite mysql"),
        (_DATA, "json jsonc toml yaml yml ini cfg conf"),
        (_CSS, "css scss"),
        (_TAGS, "html htm xml svg vue"),
        (_DIFF, "diff patch udiff"),
    )
    for name in names.split()
}
"""By the names that models give to languages."""


def highlight_code(text: str, language: str) -> str:
    """The code as HTML; empty if the language is not known."""
    known = _LANGUAGES.get(language.lower())
    if known is None:
        return ""
    pieces: list[str] = []
    place = 0
    for found in known.pattern.finditer(text):
        name = found.lastgroup or ""
        end = found.end()
        if name in ("word", "call"):
            word = found["word"]
            end = found.end("word")
            said = word.lower() if known.has_any_case else word
            name = "k" if said in known.keywords else "f" if found["call"] else ""
        if name:
            pieces += escape(text[place : found.start()]), f'<span class="{name}">'
            pieces += escape(text[found.start() : end]), "</span>"
            place = end
    pieces.append(escape(text[place:]))
    return "".join(pieces)
