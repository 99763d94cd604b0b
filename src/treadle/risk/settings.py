"""Which settings of git a command writes, as far as its words say. Pure.

Only of a command that is nothing but git and what shows its output: while git may write settings,
so may whatever else the command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from treadle.risk import git
from treadle.risk.calls import ProgramCall, has_option, name_of, operands
from treadle.risk.files import is_written
from treadle.risk.lexer import UnreadableCommand
from treadle.risk.reasons import Reason
from treadle.risk.split import Simple, split

_SHOWERS: Final = frozenset({"echo", "true", ":", "head", "tail", "cat", "grep", "wc", "ls", "pwd"})
_READS: Final = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l")
_READ_VERBS: Final = frozenset({"get", "get-all", "get-regexp", "get-urlmatch", "list"})
_ELSEWHERE: Final = ("--global", "--system", "--worktree", "--file", "-f", "--blob")
_WHOLE_SECTIONS: Final = ("--rename-section", "--remove-section", "--edit", "-e")
_WHOLE_VERBS: Final = frozenset({"edit", "rename-section", "remove-section"})
_WORD_COUNT_MAX: Final = 100
"""Of a command that is looked at; the rules below look at each word a few times."""


class Setting(Struct, frozen=True):
    """A setting that is written, or all of a kind: a part that is `None` is any.

    `section.part.name`; `part` is empty for `core.bare`. `value` is `None` if it is not known, or
    if the setting is removed.
    """

    section: str
    part: str | None = ""
    name: str | None = None
    value: str | None = None

    @property
    def key(self) -> str:
        """As git lists it, with a star for what is any."""
        parts = (self.section, self.part, self.name)
        return ".".join("*" if one is None else one for one in parts if one != "")

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key} = {self.value}"

    def covers(self, key: str) -> bool:
        """Whether a key, as git lists it, is that of this setting."""
        other = setting_of(key)
        return (
            self.section == other.section
            and self.part in (None, other.part)
            and self.name in (None, other.name)
        )


_OF_BRANCHES: Final = (Setting("branch", None),)
_OF_SUBMODULES: Final = (Setting("submodule", None), Setting("submodule", "", "active"))


def setting_of(key: str, value: str | None = None) -> Setting:
    """The setting of a key; git does not tell capital letters in its first and last part."""
    section, _, rest = key.partition(".")
    part, _, name = rest.rpartition(".")
    return Setting(section.lower(), part, name.lower(), value)


def settings_written(command: str) -> tuple[Setting, ...]:
    """The settings of its repository that a command writes; none of one that runs more than git."""
    try:
        script = split(command)
    except UnreadableCommand:
        return ()
    found: list[Setting] = []
    if not script.is_chain or script.scripts or script.functions:
        return ()
    for simple in script.commands:
        if not _is_tame(simple):
            return ()
        if simple.words[0].text == "git":
            _, verb, rest = git.parsed(tuple(word.text for word in simple.words[1:]))
            found += _RULES.get(verb, _nothing)(rest)
    return tuple(dict.fromkeys(found))


def _is_tame(simple: Simple) -> bool:
    """Whether it is git itself, in the folder where it stands, or shows what git says."""
    words = simple.words
    if simple.assignments or not words or len(words) > _WORD_COUNT_MAX:
        return False
    if not all(word.is_known for word in words) or any(map(is_written, simple.redirects)):
        return False
    if words[0].text in _SHOWERS:
        return True
    call = ProgramCall(name_of(words[0].text), words[0], words[1:])
    front, _, _ = git.parsed(call.texts)
    is_here = words[0].text == "git" and all(one == "--no-pager" for one in front)
    return is_here and Reason.STARTS not in git.reasons(call)


def _config(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    named = operands(rest)
    if has_option(rest, *_READS, *_ELSEWHERE, *_WHOLE_SECTIONS):
        return ()
    verb = named[0] if named else ""
    if verb in _READ_VERBS or verb in _WHOLE_VERBS:
        return ()
    removes = verb == "unset" or has_option(rest, "--unset", "--unset-all")
    named = named[1:] if verb in ("set", "unset") else named
    if not named or "." not in named[0] or (len(named) == 1 and not removes):
        return ()
    return (setting_of(named[0], None if removes else named[1]),)


def _remote(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    verb, *more = rest or ("",)
    named = operands(more)
    if verb == "add":
        # An option may have taken one of the words: the name and the address are the last two.
        return tuple(_of_remote(*named[-2:])) if len(named) > 1 else ()
    if verb == "set-url":
        return tuple(_of_remote(*named[:2])) if len(named) > 1 else ()
    if verb in ("rename", "remove", "rm", "set-branches") and named:
        remotes = named[:2] if verb == "rename" else named[:1]
        branches = () if verb == "set-branches" else _OF_BRANCHES
        return (*(Setting("remote", name) for name in remotes), *branches)
    return ()


def _of_remote(name: str, url: str) -> tuple[Setting, ...]:
    return Setting("remote", name, "url", url), Setting("remote", name)


def _branch(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    writes = ("-u", "--set-upstream-to", "--unset-upstream", "-t", "--track", "-m", "--move")
    is_written_anyway = has_option(rest, *writes, "-M", "-c", "--copy", "-C")
    named = operands(rest)
    return _OF_BRANCHES if is_written_anyway or _follows(named[1:2]) else ()


def _switch(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    is_new = has_option(rest, "-b", "-B", "-c", "-C", "--create", "--force-create")
    follows = is_new and _follows(operands(rest)[1:2])
    return _OF_BRANCHES if follows or has_option(rest, "-t", "--track") else ()


def _follows(named: tuple[str, ...]) -> bool:
    """Whether a branch that begins there may follow that of a remote."""
    return any("/" in name for name in named)


def _push(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    return _OF_BRANCHES if has_option(rest, "-u", "--set-upstream") else ()


def _fetch(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    return _OF_BRANCHES if has_option(rest, "--set-upstream") else ()


def _submodule(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    verb = (*operands(rest), "")[0]
    writes = verb in ("add", "init", "deinit", "sync", "set-url", "set-branch")
    is_first = verb == "update" and has_option(rest, "--init")
    return _OF_SUBMODULES if writes or is_first else ()


def _nothing(_rest: tuple[str, ...]) -> tuple[Setting, ...]:
    return ()


_RULES: Final[dict[str, Callable[[tuple[str, ...]], tuple[Setting, ...]]]] = {
    "config": _config,
    "remote": _remote,
    "branch": _branch,
    "checkout": _switch,
    "switch": _switch,
    "push": _push,
    "pull": _fetch,
    "fetch": _fetch,
    "submodule": _submodule,
}
