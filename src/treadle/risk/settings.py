"""Which settings of git a command writes, as far as its words say. Pure.

Only of a command that is nothing but git and what shows its output: while git may write settings,
so may whatever else the command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from treadle.risk.plain_shell import read_plain

_SHOWERS: Final = frozenset({"echo", "true", ":", "head", "tail", "cat", "grep", "wc", "ls", "pwd"})
_READS: Final = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l")
_READ_VERBS: Final = frozenset({"get", "get-all", "get-regexp", "get-urlmatch", "list"})
_ELSEWHERE: Final = ("--global", "--system", "--worktree", "--file", "-f", "--blob")
_WHOLE_SECTIONS: Final = ("--rename-section", "--remove-section", "--edit", "-e")
_WHOLE_VERBS: Final = frozenset({"edit", "rename-section", "remove-section"})
_STARTER_VERBS: Final = frozenset(
    {"archive", "bisect", "clone", "difftool", "for-each-repo", "hook", "instaweb", "maintenance"}
    | {"mergetool", "shell"}
)
_STARTER_OPTIONS: Final = (
    *("--exec", "-x", "-O", "--open-files-in-pager", "--ext-diff", "--extcmd", "--upload-pack"),
    *("--receive-pack", "--template", "--separate-git-dir", "--edit-description"),
)
"""With these git runs other programs, which could write settings too."""
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
    found: list[Setting] = []
    for one in read_plain(command):
        program, *rest = one.texts
        is_bare = not (one.assignments or one.redirects or any(w.is_pattern for w in one.words))
        if not is_bare or len(rest) >= _WORD_COUNT_MAX:
            return ()
        if program == "git":
            verb, *rest = _skip_pager(rest)
            if _starts_programs(verb, tuple(rest)):
                return ()
            found += _RULES.get(verb, _nothing)(tuple(rest))
        elif program not in _SHOWERS:
            return ()
    return tuple(dict.fromkeys(found))


def _skip_pager(texts: list[str]) -> list[str]:
    """The subcommand with what follows it; empty words if there is none."""
    while texts[:1] == ["--no-pager"]:
        texts = texts[1:]
    return texts or [""]


def _starts_programs(verb: str, rest: tuple[str, ...]) -> bool:
    """Whether git may run other programs, or works elsewhere than in its folder."""
    return (
        verb.startswith("-")
        or verb in _STARTER_VERBS
        or _has_option(rest, *_STARTER_OPTIONS)
        or any(text.startswith(("ext::", "fd::")) for text in rest)
        or (verb == "submodule" and "foreach" in rest)
    )


def _operands(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts that are no options; all after `--`."""
    found: list[str] = []
    after = False
    for text in texts:
        if after or not text.startswith("-") or text == "-":
            found.append(text)
        elif text == "--":
            after = True
    return tuple(found)


def _has_option(texts: Iterable[str], *options: str) -> bool:
    """Whether one of the options is among the texts.

    A short one (`-f`) also in a bundle (`-uf`); a long one also cut short (`--forc`), since git
    takes that, and with a value (`--force=x`).
    """
    short = {option[1] for option in options if len(option) == 2}
    long = [option for option in options if len(option) > 2]
    for text in texts:
        if text == "--":
            return False
        name = text.partition("=")[0]
        if text.startswith("--"):
            if len(name) > 3 and any(option.startswith(name) for option in long):
                return True
        elif text.startswith("-") and short & {*text[1:]}:
            return True
    return False


def _config(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    named = _operands(rest)
    if _has_option(rest, *_READS, *_ELSEWHERE, *_WHOLE_SECTIONS):
        return ()
    verb = named[0] if named else ""
    if verb in _READ_VERBS or verb in _WHOLE_VERBS:
        return ()
    removes = verb == "unset" or _has_option(rest, "--unset", "--unset-all")
    named = named[1:] if verb in ("set", "unset") else named
    if not named or "." not in named[0] or (len(named) == 1 and not removes):
        return ()
    return (setting_of(named[0], None if removes else named[1]),)


def _remote(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    verb, *more = rest or ("",)
    named = _operands(more)
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
    is_written_anyway = _has_option(rest, *writes, "-M", "-c", "--copy", "-C")
    named = _operands(rest)
    return _OF_BRANCHES if is_written_anyway or _follows(named[1:2]) else ()


def _switch(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    is_new = _has_option(rest, "-b", "-B", "-c", "-C", "--create", "--force-create")
    follows = is_new and _follows(_operands(rest)[1:2])
    return _OF_BRANCHES if follows or _has_option(rest, "-t", "--track") else ()


def _follows(named: tuple[str, ...]) -> bool:
    """Whether a branch that begins there may follow that of a remote."""
    return any("/" in name for name in named)


def _push(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    return _OF_BRANCHES if _has_option(rest, "-u", "--set-upstream") else ()


def _fetch(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    return _OF_BRANCHES if _has_option(rest, "--set-upstream") else ()


def _submodule(rest: tuple[str, ...]) -> tuple[Setting, ...]:
    verb = (*_operands(rest), "")[0]
    writes = verb in ("add", "init", "deinit", "sync", "set-url", "set-branch")
    is_first = verb == "update" and _has_option(rest, "--init")
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
