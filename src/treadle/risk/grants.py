"""What a grant for the rest of a thread would name. Pure; never raises.

A grant covers a command if each of its kinds was granted, so a kind must never stand for a command
that does more. A program of the table has one kind for all its plain arguments: what it runs is the
project, and the sandbox bounds it. Any other command is a kind by itself: its words as they are,
for the files that it may run as they were.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from treadle.risk.plain_shell import PlainCommand, read_plain
from treadle.risk.program_files import is_on_files, list_files, name_of, paths_in

EXACT_LENGTH_MAX: Final = 400
"""Of a command that is a kind by itself, in characters: a person reads it."""
FOLDER_COUNT_MAX: Final = 4
"""Folders that a command changes into: the files that it may run are looked for in each."""

_PROJECT_BIN: Final = r"(?:\./)?(?:(?:\.?venv|env)/bin|node_modules/\.bin)/"
_RUNNER: Final = (
    rf"(?:(?:uv|poetry|pdm|hatch|pipenv) run |bundle exec "
    rf"|(?:{_PROJECT_BIN})?python[\d.]* -m |npx |{_PROJECT_BIN})?"
)
_TIME_LIMIT: Final = re.compile(r"timeout \d+[smh]? (?!-)|time (?!-)")


class GrantPrefix(Struct, frozen=True):
    """Programs that have one kind for all their plain arguments.

    `heads` are the first words. `excludes` matches an argument that makes it another thing: it runs
    code that is named there, writes elsewhere, or skips a check. Such a command is a kind by
    itself. Of one that `names_target` the only argument belongs to the kind (`npm run build`).
    """

    heads: re.Pattern[str]
    excludes: re.Pattern[str]
    names_target: bool = False


def _prefix(heads: str, excludes: str = "(?!)", *, names_target: bool = False) -> GrantPrefix:
    head = re.compile(rf"(?:{heads})(?= |$)")
    return GrantPrefix(head, re.compile(excludes, re.DOTALL), names_target)


_PREFIXES: Final = (
    _prefix(
        "git (?:status|diff|log|show|blame|ls-files|rev-parse)",
        r"--(?:out|ext|textc|no-i|cont).*",
    ),
    _prefix("git add", r"-[a-zA-Z]*[ei].*|--(?:ed|in|pathspec-from).*"),
    _prefix("git commit", r"-[a-zA-Z]*[nFCct].*|--(?:no-v|am|fil|ed|reu|ree|tem|fix|sq|pa).*"),
    _prefix(
        "make",
        r"-[a-zA-Z\d]*[fCIE].*|--(?!jobs|keep|si|q|no-p|dr|al).*|.*=.*",
        names_target=True,
    ),
    _prefix("(?:npm|pnpm|yarn|bun) test", r"-(?!s$|-silent$).*"),
    _prefix("(?:npm|pnpm|yarn) run", r"-(?!s$|-silent$).*", names_target=True),
    _prefix(f"{_RUNNER}pytest", r"@.*|-[a-zA-Z]*[pcoW].*|--(?:ro|conf|ov|pdbc|base|im|pya).*"),
    _prefix(f"{_RUNNER}mypy", r"@.*|-[a-z]*c.*|--(?:conf|python-e|cust|inst|cache|sh|.*-rep).*"),
    _prefix(f"{_RUNNER}(?:ruff check|ruff format)", r"@.*|--(?:conf|ext).*"),
    _prefix(f"{_RUNNER}(?:black|isort|flake8)", r"@.*|-[a-z]*c.*|--(?:conf|set|sp|out|app).*"),
    _prefix(
        f"{_RUNNER}(?:eslint|prettier|tsc)",
        r"@.*|-[a-z]*[cfo].*|--(?:conf|pl|ru|res|pa|fo|ou|b).*",
    ),
    _prefix(
        "cargo (?:build|test|check|clippy|fmt)",
        r"\+.*|-[a-zA-Z]*[ZC].*|--(?:config|manif|fix|lockf).*",
    ),
    _prefix(
        "go (?:build|test|vet|fmt)",
        r"--?(?:exec|toolexec|vettool|overlay|modfile|C|o)(?:=.*)?",
    ),
    _prefix("find", r"-(?:exec|ok|del|fpr|fls|files0).*"),
    _prefix("rg", r"--(?:pre|host).*"),
    _prefix("ls|cat|head|tail|wc|du|grep|pwd|echo|date|true|which"),
)
"""What people run all day; everything else is a kind by itself."""
_TARGET: Final = re.compile(r"[\w:-]+")
_FILTERS: Final = re.compile(
    r"(?:head|tail|wc|cat|tac|nl|cut|tr|grep|egrep|fgrep)(?: .*)?"
    r"|(?:sort|uniq)(?: -[bcdfghinruVk\d,.]+)*|sed -n [\d,$]+p",
    re.DOTALL,
)
"""Behind a pipe these only pass on what they read, so the kind is that of what writes it."""
_STATEFUL: Final = re.compile(
    r"alias|export|set|unset|shopt|hash|enable|trap|eval|exec|read|declare|typeset|local|readonly"
    r"|printf|mapfile|readarray|let|umask|builtin|command"
)
"""They can change what the commands behind them do, so that all of it is one kind."""
_JOINTS: Final = {"&&": " && ", "||": " || ", "|": " | ", ";": "; "}
_FOLDER_CHANGES: Final = frozenset({"cd", "pushd", "popd"})
_RUN_TEXT: Final = re.compile(
    r"(?:ba|z|da|k|fi)?sh|eval|ssh|su|trap|xargs|watch|parallel|builtin|command"
)
"""They read their arguments as a shell does."""
_UNKNOWN_TEXT: Final = re.compile(r"[$`*?\[]|\b(?:cd|pushd|popd)\b")
"""In such arguments: what they stand for, and where the next words run, is not known."""


def name_kinds(command: str) -> dict[str, tuple[str, ...]]:
    """The kinds of a command, each with the files that it may run; empty if it has none.

    The paths are relative to the folder where the command begins, or absolute. Where one part runs
    files, those that other parts read or write count too: they may come to its place, or its input.
    """
    commands = read_plain(command)
    if any(map(_is_unknown, commands)):
        return {}
    folders = _list_folders(commands)
    if len(folders) > FOLDER_COUNT_MAX:
        return {}
    others = [path for one in commands if is_on_files(one.texts) for path in _list_named(one)]
    found: dict[str, tuple[str, ...]] = {}
    for group in _list_groups(commands):
        if not (kind := _name_group(group)):
            return {}
        files = [path for one in group for path in _list_files(one)]
        files += others if files else ()
        paths = (posixpath.join(folder, path) for path in files for folder in folders)
        found[kind] = tuple(dict.fromkeys((*found.get(kind, ()), *paths)))
    return found


def _list_groups(commands: Iterable[PlainCommand]) -> list[list[PlainCommand]]:
    """The parts that have a kind each: pipelines, or all of it if the parts hang together."""
    groups: list[list[PlainCommand]] = []
    is_one = any(
        one.joint in ("||", ";")
        or one.assignments
        or one.redirects
        or _STATEFUL.fullmatch(one.texts[0])
        for one in commands
    )
    for one in commands:
        if groups and (is_one or one.joint == "|"):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _list_folders(commands: Iterable[PlainCommand]) -> list[str]:
    """Where the commands may run, relative to where they begin."""
    found = ["."]
    for one in commands:
        if one.texts[0] in _FOLDER_CHANGES:
            found.append(posixpath.normpath(posixpath.join(found[-1], one.texts[1])))
    return list(dict.fromkeys(found))


def _name_group(group: list[PlainCommand]) -> str:
    """The kind of a part; empty if it has none."""
    first, *rest = group
    if not _has_more(first) and all(one.joint == "|" and _is_filter(one) for one in rest):
        if prefix := _name_prefix(first):
            return prefix
        group = [first]
    later = (f"{_JOINTS[one.joint]}{_show(one)}" for one in group[1:])
    kind = "".join((_show(first), *later))
    return kind if len(kind) <= EXACT_LENGTH_MAX and kind.isprintable() else ""


def _is_filter(command: PlainCommand) -> bool:
    return not _has_more(command) and _FILTERS.fullmatch(_join(command)) is not None


def _has_more(command: PlainCommand) -> bool:
    """Whether it does more than its words say."""
    return bool(command.assignments or command.redirects)


def _join(command: PlainCommand) -> str:
    """The words in a line; a blank in a word is none there."""
    return " ".join(re.sub(r"\s", "\0", text) for text in command.texts)


def _name_prefix(command: PlainCommand) -> str:
    """The kind that it shares with the same program and other arguments; empty if none."""
    line = _join(command)
    if limit := _TIME_LIMIT.match(line):
        line = line[limit.end() :]
    for prefix in _PREFIXES:
        if head := prefix.heads.match(line):
            arguments = line[head.end() :].split(" ")[1:]
            if any(map(prefix.excludes.fullmatch, arguments)):
                return ""
            if not prefix.names_target:
                return head.group()
            targets = [one for one in arguments if not one.startswith("-") and not one.isdecimal()]
            is_target = len(targets) <= 1 and all(map(_TARGET.fullmatch, targets))
            return " ".join((head.group(), *targets)) if is_target else ""
    return ""


def _is_unknown(command: PlainCommand) -> bool:
    """Whether it may run files that its words do not name."""
    program, *texts = command.texts
    if program in _FOLDER_CHANGES:
        return len(texts) != 1 or not texts[0] or texts[0][0] in "-+"
    if any(word.is_pattern for word in command.words):
        return not (is_on_files(command.texts) or _name_prefix(command))
    if any(_RUN_TEXT.fullmatch(name_of(text)) for text in command.texts):
        return any(map(_UNKNOWN_TEXT.search, texts))
    return name_of(program) in ("sed", "gsed") and not is_on_files(command.texts)


def _show(command: PlainCommand) -> str:
    """A command as the name of its kind."""
    words = (word.shown for word in command.words)
    return " ".join((*command.assignments, *words, *command.redirects))


def _list_files(command: PlainCommand) -> tuple[str, ...]:
    """The files that a command may run; of a program of the table only itself."""
    given = (path for text in (*command.assignments, *command.inputs) for path in paths_in(text))
    if prefix := _name_prefix(command):
        return (*(word for word in prefix.split(" ") if "/" in word), *given)
    return (*list_files(command.texts), *given)


def _list_named(command: PlainCommand) -> tuple[str, ...]:
    """The files that a command names."""
    return tuple(path for text in command.texts[1:] for path in paths_in(text))
