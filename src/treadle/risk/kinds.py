"""What a grant for the rest of a thread would name: the narrow beginning of a command. Pure.

A command of the table has its kind if every option is one of those the table names; any arguments
are harmless to the same degree then. Every other command is a kind by itself: its words as they
are, so that a grant covers that very command again. What writes files or runs programs by an
option, or is not known word for word, has no kind.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import Final

from msgspec.structs import replace

from treadle.risk.calls import ProgramCall, name_of
from treadle.risk.files import is_far, is_written, paths_in
from treadle.risk.filters import reads_more
from treadle.risk.harmless import RULES, HarmlessRule
from treadle.risk.split import Simple

EXACT_SIZE_MAX: Final = 400
"""Of a command that is a kind by itself, in characters: a person reads it."""

_PREFIXES: Final = (
    *(("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("bundle", "exec"), ("hatch", "run")),
    *(("python", "-m"), ("python3", "-m"), ("pdm", "run")),
)
_MODULES: Final = frozenset({"pytest", "mypy", "black", "isort", "flake8", "ruff"})
_LOCAL_PROGRAM: Final = re.compile(r"^(\./)?((\.?venv|env)/bin|node_modules/\.bin)/(?=[\w.-]+$)")
_PRINTS_LINES: Final = re.compile(r"(\d+|\$)(,(\d+|\$))?p(;(\d+|\$)(,(\d+|\$))?p)*")
_DURATION: Final = re.compile(r"\d+(\.\d+)?[smh]?")
_DASHED_VALUE: Final = re.compile(r"-(\d[\w.]*)?$|- ")
"""A value that begins like an option and is none: `-mtime -1`, a message that is a list."""
_RUNNERS: Final = frozenset({"npm", "yarn", "pnpm"})
_NEVER: Final = frozenset(
    {*("eval", "exec", "xargs", "env", "sudo", "doas", "trap", "alias", "parallel", "coproc")}
    | {*("export", "declare", "typeset", "local", "readonly", "set", "unset", "shopt", "read")}
    | {*("hash", "enable", "command", "builtin", "mapfile", "readarray", "let", "printf", "time")}
)
"""No grant names these: what they do is in what comes in, or changes what follows."""


def kind_of(simple: Simple, inside: Simple | None = None) -> str | None:
    """The kind of one simple command; `None` if no grant may cover it.

    Args:
        simple: as it was written, and so the kind names it.
        inside: the same with paths below the workspace as they are called from there.
    """
    inside = inside or simple
    words = simple.words
    if simple.assignments or not words or any(map(is_written, simple.redirects)):
        return None
    if any(each.operator in ("<<", "<<<", "<", "<>") for each in simple.redirects):
        return None
    if not all(word.is_known and not word.has_braces and word.text for word in words):
        return None
    if words[0].has_globs or any(map(is_far, paths_in(_call(inside)))):
        return None
    if any(word.has_globs and not _is_tame(word.text) for word in words):
        return None
    texts = tuple(word.text for word in words)
    if texts[0] == "timeout" and len(texts) > 2 and _DURATION.fullmatch(texts[1]):
        return kind_of(replace(simple, words=words[2:]), replace(inside, words=inside.words[2:]))
    return kind_of_words(texts, has_globs=any(word.has_globs for word in words))


def kind_of_words(texts: tuple[str, ...], *, has_globs: bool = False) -> str | None:
    """The kind of a program with its arguments, all of them known."""
    prefix = next((each for each in _PREFIXES if texts[: len(each)] == each), ())
    rest = texts[len(prefix) :]
    is_module = prefix[-1:] == ("-m",)
    if rest and (not is_module or rest[0] in _MODULES):
        found = _rule_for(rest)
        if found is not None:
            key, rule, arguments = found
            words = _judged(rule, arguments, key)
            if words is None:
                return None
            if words:
                return " ".join((*prefix, *words))
    if has_globs or name_of(texts[0]) in _NEVER:
        return None
    if any("\n" in text for text in texts) or sum(map(len, texts)) > EXACT_SIZE_MAX:
        return None
    return " ".join(map(quote, texts))


def _call(simple: Simple) -> ProgramCall:
    return ProgramCall(name_of(simple.words[0].text), simple.words[0], simple.words[1:])


def _is_tame(pattern: str) -> bool:
    """Whether what a pattern becomes is surely neither an option nor in a folder above.

    `*.py` may become `-x.py`, `.*` may become `..`.
    """
    return pattern[0] not in "*?[" and not any(
        part.startswith(".") and part != "." for part in pattern.split("/")
    )


def _rule_for(
    texts: tuple[str, ...],
) -> tuple[tuple[str, ...], HarmlessRule, tuple[str, ...]] | None:
    """The first words of the kind, as they were written, its rule, the arguments after them."""
    local = _LOCAL_PROGRAM.match(texts[0])
    program = texts[0][local.end() :] if local else texts[0]
    for count in (3, 2, 1):
        words = (program, *texts[1:count])
        rule = RULES.get(" ".join(words)) if len(texts) >= count else None
        if rule is not None and not any(" " in word for word in words):
            return texts[:count], rule, texts[count:]
    return None


def _judged(
    rule: HarmlessRule, arguments: tuple[str, ...], key: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The words of the kind; empty if it is not of this kind; `None` if no grant may cover it.

    Every word is asked whether it is an option that no grant covers, also one that is taken to be
    a value, or to stand where options are over: then a program that counts otherwise does no harm.
    """
    if any(_is_never(rule, text) for text in arguments):
        return None
    named: list[str] = []
    is_understood, place = True, 0
    while place < len(arguments):
        text = arguments[place]
        place += 1
        if not text.startswith("-") or text == "-":
            named.append(text)
        elif text == "--":
            if "--" in rule.never or key[0] in _RUNNERS:
                return None
            named += arguments[place:]
            break
        else:
            value = arguments[place] if place < len(arguments) else ""
            length = _option_length(rule, text, value)
            is_understood = is_understood and length > 0
            place += max(length - 1, 0)
    if key[:2] == ("sed", "-n"):
        is_understood = is_understood and bool(named and _PRINTS_LINES.fullmatch(named[0]))
    if key[0] == "jq" and named and reads_more(named[0]):
        return None
    return _with_names(rule, named, key) if is_understood else ()


def _with_names(
    rule: HarmlessRule, named: list[str], key: tuple[str, ...]
) -> tuple[str, ...] | None:
    if key[0] == "make" and any("=" in text for text in named):
        return None
    if not all(re.fullmatch(rule.operand, text) for text in named):
        return ()
    if len(named) > rule.name_count + rule.operand_count:
        return None if key[0] in _RUNNERS else ()
    if rule.name_count and not named and key[0] in _RUNNERS:
        return ()
    return (*key, *named[: rule.name_count])


def _is_never(rule: HarmlessRule, text: str) -> bool:
    """Whether a word is one that no grant covers: whole, cut short, bundled, or with a value."""
    if text.startswith("@"):
        return "@" in rule.never
    is_text = not text.startswith("-") or text in ("-", "--") or text.startswith("- ")
    if is_text or text in rule.options:
        return False
    name = text.partition("=")[0]
    twin = name[1:] if text.startswith("--") else f"-{name}"
    for option in rule.never:
        if option == name or (option == twin and len(option) > 2):
            return True
        if option.startswith("--") and len(name) > 3 and option.startswith(name):
            return not rule.options & {name, f"{name}=", f"{name}?"}
        if len(option) == 2 and not text.startswith("--") and _bundles(rule, text, option[1]):
            return True
    return False


def _bundles(rule: HarmlessRule, text: str, wanted: str) -> bool:
    """Whether a short option stands in a bundle, or in front of its value."""
    name = text.partition("=")[0]
    if len(name) > 2 and rule.options & {f"{name}=", f"{name}?"}:
        return False
    for letter in text[1:]:
        if letter == wanted:
            return True
        if f"-{letter}=" in rule.options:
            return False
    return False


def _option_length(rule: HarmlessRule, text: str, value: str) -> int:
    """How many words an option takes, with its value; 0 if it is not one of the rule.

    Args:
        rule: of the program.
        text: the option.
        value: the word after it, empty if there is none.
    """
    name, has_value, _ = text.partition("=")
    options = rule.options
    taken = 2 if not value.startswith("-") or _DASHED_VALUE.match(value) else 0
    optional = 2 if value.isdecimal() else 1  # the number of `make -j 4` is nothing else anywhere
    if text in options or (has_value and options & {f"{name}=", f"{name}?"}):
        return 1
    if f"{text}=" in options:
        return taken
    if f"{text}?" in options:
        return optional
    if "-#" in options and re.fullmatch(r"-\d+", text):
        return 1
    if text.startswith("--"):
        return 0
    for place, letter in enumerate(text[1:], start=1):
        is_last = place == len(text) - 1
        if f"-{letter}=" in options:
            return taken if is_last else 1
        if f"-{letter}?" in options:
            return optional if is_last else 1
        if f"-{letter}" not in options:
            return 0
    return 1
