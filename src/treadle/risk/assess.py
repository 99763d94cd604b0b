"""What is dangerous about a command, and what a grant of it would name. Pure; never raises.

It reads the words of a command, unwraps what runs other commands, and asks every rule about each.
It is advice for the person who is asked: a program can do what no word of the command says. What
it cannot read is critical, and no grant covers it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from treadle.core.tools import RiskLevel
from treadle.risk import code, elsewhere, environment, files, git, network, system
from treadle.risk.assessment import Danger
from treadle.risk.calls import ProgramCall, name_of
from treadle.risk.kinds import kind_of
from treadle.risk.lexer import UnreadableCommand, Word
from treadle.risk.path_risks import Inside
from treadle.risk.reasons import ORDER, ORDINARY, Reason
from treadle.risk.scripts import files_run, folders_of
from treadle.risk.split import RESERVED, ShellScript, Simple, split
from treadle.risk.wrappers import SHELLS, Unwrapped, unwrapped

COMMAND_SIZE_MAX: Final = 16_000
"""In characters."""
DEPTH_MAX: Final = 10
CALL_COUNT_MAX: Final = 1_000
READ_SIZE_MAX: Final = 16 * COMMAND_SIZE_MAX
"""Of all that is read of one command, with what it unwraps to."""

_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing."""
_PROGRAMS: Final = frozenset(
    {*("[", "test", "true", "false", ":", "cd", "echo", "printf", "pwd", "read", "exit", "return")}
    | {
        *(
            "git",
            "ls",
            "cat",
            "cp",
            "mv",
            "rm",
            "grep",
            "rg",
            "make",
            "npm",
            "cargo",
            "go",
            "pytest",
        )
    }
    | {*("mkdir", "touch", "head", "tail", "wc", "sort", "docker", "pip", "uv", "ruff", "mypy")}
)
"""Names that a function must not take: people read them as what they know."""


def assess(command: str, workspace: str = "") -> Danger:
    """How risky a command is, why, and its kinds.

    Args:
        command: for bash, as the model wrote it.
        workspace: the absolute path of the folder it runs in; what is named by that path and lies
            below it is not outside. Without it, every absolute path is.
    """
    if len(command) > COMMAND_SIZE_MAX:
        return _danger({Reason.TOO_MUCH}, {})
    judge = _Judge(command, Inside(workspace))
    if not all(map(_is_seen, command)):
        judge.found.add(Reason.UNSEEN)
    try:
        judge.script(command, 0)
    except _TooMuch:
        judge.found.add(Reason.TOO_MUCH)
    judge.conclude()
    return _danger(judge.found, judge.files)


def _danger(found: Iterable[Reason], files: Mapping[str, tuple[str, ...]]) -> Danger:
    reasons = sorted(found, key=ORDER.__getitem__)
    is_critical = any(reason not in ORDINARY for reason in reasons)
    return Danger(
        RiskLevel.CRITICAL if is_critical else RiskLevel.HIGH,
        tuple(reason.value for reason in reasons),
        () if is_critical else tuple(files),
        {} if is_critical else {kind: paths for kind, paths in files.items() if paths},
    )


def _is_seen(character: str) -> bool:
    return character in "\n\t" or (character.isprintable() and character not in _BLANK)


class _TooMuch(Exception):  # noqa: N818 - it is an answer about the text, not a failure
    pass


class _Judge:
    def __init__(self, command: str, inside: Inside) -> None:
        self.command = command
        self.inside = inside
        self.found: set[Reason] = set()
        self.files: dict[str, tuple[str, ...]] = {}
        self.call_count = 0
        self.read_size = 0
        self.fetches = False
        self.decodes = False
        self.runs_input = False
        self.fetched: set[str] = set()
        self.ran: set[str] = set()

    def script(self, text: str, depth: int) -> None:
        """Judges a text that a shell runs."""
        self.read_size += len(text)
        if depth > DEPTH_MAX or self.read_size > READ_SIZE_MAX:
            raise _TooMuch
        try:
            script = split(text)
        except UnreadableCommand:
            self.found.add(Reason.UNREADABLE)
            return
        self._define(script)
        insides = tuple(map(self._from_inside, script.commands))
        for inside in insides:
            self.simple(inside, depth)
        for inner in script.scripts:
            self.script(inner, depth + 1)
        if depth == 0 and script.is_chain and not script.scripts:
            self.files = _files_by_kind(script.commands, insides)

    def _from_inside(self, simple: Simple) -> Simple:
        """The command with paths below the workspace as they are called from there."""
        return replace(
            simple,
            assignments=tuple(map(self._word_from_inside, simple.assignments)),
            words=tuple(map(self._word_from_inside, simple.words)),
            redirects=tuple(
                replace(each, target=self._word_from_inside(each.target))
                for each in simple.redirects
            ),
        )

    def _word_from_inside(self, word: Word) -> Word:
        text = self.inside.named(word.text)
        return word if text == word.text else replace(word, text=text)

    def _define(self, script: ShellScript) -> None:
        for name in script.functions:
            calls = [each for each in script.commands if each.words and each.words[0].text == name]
            if any(each.is_fed for each in calls):
                self.found.add(Reason.FORKS)
            if not re.fullmatch(r"[A-Za-z_]\w*", name) or _is_program(name):
                self.found.add(Reason.REPLACES)

    def simple(self, simple: Simple, depth: int) -> None:
        """Judges one simple command."""
        for assignment in simple.assignments:
            self.found.update(environment.of_assignment(assignment))
        for redirect in simple.redirects:
            self.found.update(files.of_redirect(redirect))
            if network.FETCHERS & {name_of(word.text) for word in simple.words[:1]}:
                self.fetched.add(redirect.target.text.removeprefix("./"))
        words = (*simple.assignments, *simple.words, *(each.target for each in simple.redirects))
        expanded = tuple(word.text for word in words if not word.is_known)
        self.found.update(environment.of_words(expanded))
        if simple.words:
            self.call(simple.words, simple, depth)

    def call(
        self, words: tuple[Word, ...], simple: Simple, depth: int, *, is_tail: bool = False
    ) -> None:
        """Judges a program with its arguments; of a tail it is not sure that it is one."""
        self.call_count += 1
        self.read_size += sum(len(word.text) + 1 for word in words)
        is_too_much = self.call_count > CALL_COUNT_MAX or self.read_size > READ_SIZE_MAX
        if depth > DEPTH_MAX or is_too_much:
            raise _TooMuch
        program = words[0]
        if not program.is_plain and program.text != "[":
            if not is_tail:
                self.found.add(Reason.UNKNOWN)
            return
        if program.text in RESERVED and not is_tail:
            self.found.add(Reason.UNREADABLE)  # it is a word of the shell only where one begins
        name = name_of(program.text)
        if not name or not name.isascii():
            if not is_tail:
                self.found.add(Reason.LOOKALIKE if name else Reason.UNREADABLE)
            return
        call = ProgramCall(name, program, words[1:], simple.redirects, simple.is_fed)
        if "/" in program.text:
            self._named_file(program.text)
        for module in (files, git, network, environment, system, elsewhere, code):
            self.found.update(module.reasons(call))
        self._code(call, depth)
        self._remember(call)
        inside = unwrapped(call)
        if inside is not None and not (is_tail and inside.tails):
            self._inside(call, inside, simple, depth)

    def _named_file(self, text: str) -> None:
        """A path where no argument is: it may be read."""
        self.found.update(files.reasons(ProgramCall("cat", Word(""), (Word(text),))))

    def _code(self, call: ProgramCall, depth: int) -> None:
        """Commands and paths in the text of a program."""
        for text in code.code_of(call):
            reasons = set(code.in_code(text))
            for quoted in code.quoted_in(text):
                self._named_file(quoted)
                if Reason.STARTS in reasons and " " in quoted:
                    self.script(quoted, depth + 1)
        if elsewhere.is_database(call) and elsewhere.deletes_data(self.command):
            self.found.add(Reason.DATABASE)

    def _remember(self, call: ProgramCall) -> None:
        self.fetches |= call.name in network.FETCHERS
        self.fetched.update(name.removeprefix("./") for name in network.fetched_files(call))
        self.decodes |= code.decodes(call)
        self.runs_input |= code.runs_input(call)
        self.ran.add(call.program.text.removeprefix("./"))
        runs = call.name in SHELLS or call.name in code.INTERPRETERS
        if runs or call.name in ("source", ".", "chmod"):
            self.ran.update(text.removeprefix("./") for text in call.operands)

    def _inside(self, call: ProgramCall, inside: Unwrapped, simple: Simple, depth: int) -> None:
        self.found.update(inside.reasons)
        for command in inside.commands:
            if command:
                self.call(command, simple, depth + 1)
                self._fed(call, command)
        for tail in inside.tails:
            self.call(tail, simple, depth + 1, is_tail=True)
        for text in inside.scripts:
            self.script(text, depth + 1)

    def _fed(self, call: ProgramCall, command: tuple[Word, ...]) -> None:
        """A program that gets its arguments from a pipe."""
        if call.name != "xargs":
            return
        name = name_of(command[0].text)
        options = "".join(word.text for word in command[1:] if word.text.startswith("-"))
        if name in SHELLS or name in code.INTERPRETERS - {"awk", "sed"}:
            self.found.add(Reason.FED)
        elif name in ("rm", "shred") and {"r", "R"} & {*options}:
            self.found.add(Reason.DELETES)

    def conclude(self) -> None:
        """What only all parts together say."""
        if self.fetches and (self.runs_input or self.fetched & self.ran - {""}):
            self.found.add(Reason.NETWORK_RUNS)
        if self.decodes and (self.runs_input or Reason.FED in self.found):
            self.found.add(Reason.HIDDEN_RUNS)


def _files_by_kind(
    commands: tuple[Simple, ...], insides: tuple[Simple, ...]
) -> dict[str, tuple[str, ...]]:
    """The kinds of all commands, each with the files they may run; empty if one has no kind."""
    found: dict[str, tuple[str, ...]] = {}
    for place, (simple, inside) in enumerate(zip(commands, insides, strict=True)):
        kind = kind_of(simple, inside)
        if kind is None:
            return {}
        folders = folders_of(commands[:place])
        paths = [posixpath.join(one, path) for path in files_run(simple, kind) for one in folders]
        found[kind] = (*found.get(kind, ()), *paths)
    return found


def _is_program(name: str) -> bool:
    is_known = name in code.INTERPRETERS or name in network.FETCHERS or name in _PROGRAMS
    return is_known or unwrapped(ProgramCall(name, Word(name, name))) is not None
