"""Rules about git: what it overwrites, throws away, rewrites, and which programs it runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from treadle.risk.calls import ProgramCall, has_option, operands
from treadle.risk.reasons import Reason

_VALUED: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
    | {"--super-prefix", "--attr-source", "--list-cmds"}
)
_HARMLESS_KEYS: Final = re.compile(
    r"^(color\.[\w.]+|user\.(name|email)|core\.(quotepath|autocrlf|eol|ignorecase|filemode|abbrev)"
    r"|advice\.[\w.]+|log\.\w+|diff\.(renames?|context|algorithm)|init\.defaultbranch"
    r"|pull\.(rebase|ff)|push\.(default|autosetupremote)|column\.\w+|status\.\w+"
    r"|commit\.gpgsign|tag\.gpgsign|merge\.(conflictstyle|ff)|rebase\.(autostash|autosquash)"
    r"|fetch\.prune|gc\.auto|http\.postbuffer|versionsort\.suffix)$",
    re.IGNORECASE,
)
_READS_SETTINGS: Final = ("--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch")


def parsed(texts: tuple[str, ...]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The options in front, the subcommand (`""` if there is none), what follows it."""
    place = 0
    while place < len(texts) and texts[place].startswith("-"):
        place += 2 if texts[place] in _VALUED else 1
    if place >= len(texts):
        return texts, "", ()
    return texts[:place], texts[place], texts[place + 1 :]


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What is dangerous about a call of git."""
    if call.name != "git":
        if call.name in ("git-filter-repo", "bfg"):
            yield Reason.REWRITES
        return
    front, command, rest = parsed(call.texts)
    yield from _front(front)
    if any("ext::" in text or text.startswith("fd::") for text in rest):
        yield Reason.STARTS
    if has_option(rest, "--upload-pack", "--receive-pack", "--ext-diff", "--extcmd"):
        yield Reason.STARTS
    if command and not re.fullmatch(r"[a-z][a-z0-9-]*", command):
        yield Reason.UNKNOWN
    rule = _RULES.get(command)
    if rule is not None:
        yield from rule(rest)


def _front(front: tuple[str, ...]) -> Iterator[Reason]:
    for place, text in enumerate(front):
        if text == "-c" or (text.startswith("-c") and not text.startswith("--")):
            setting = text[2:] or (front[place + 1] if place + 1 < len(front) else "")
            if not _HARMLESS_KEYS.match(setting.partition("=")[0]):
                yield Reason.STARTS
        elif text.startswith(("--exec-path=", "--config-env")) or text == "--exec-path":
            yield Reason.STARTS


def _push(rest: tuple[str, ...]) -> Iterator[Reason]:
    forced = ("--force", "-f", "--force-with-lease", "--mirror", "--delete", "-d", "--prune")
    if has_option(rest, *forced):
        yield Reason.OVERWRITES
    for text in operands(rest):
        if text.startswith(("+", ":")):
            yield Reason.OVERWRITES
        if re.match(r"[\w.+-]+://|[\w.-]+@[\w.-]+:|[\w-]+\.[\w.-]+:", text):
            yield Reason.SENDS
    if has_option(rest, "--exec"):
        yield Reason.STARTS


def _reset(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "--hard", "--merge"):
        yield Reason.LOSES


def _clean(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "-f", "--force", "-x", "-X") and not has_option(rest, "-n", "--dry-run"):
        yield Reason.LOSES


def _checkout(rest: tuple[str, ...]) -> Iterator[Reason]:
    paths = {".", "./", "*", ":/", ":", ":(top)", "-p"}
    is_new = has_option(rest, "-b", "-B", "--orphan", "--detach", "--track")
    if has_option(rest, "-f", "--force", "--ours", "--theirs", "--pathspec-from-file") or (
        not is_new and ("--" in rest or paths & {*rest} or len(operands(rest)) > 1)
    ):
        yield Reason.LOSES


def _restore(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "--worktree", "-W") or not has_option(rest, "--staged", "-S"):
        yield Reason.LOSES


def _switch(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "-f", "--force", "--discard-changes", "-C", "--force-create"):
        yield Reason.LOSES


def _stash(rest: tuple[str, ...]) -> Iterator[Reason]:
    if {"drop", "clear"} & {*rest[:1]}:
        yield Reason.LOSES


def _branch(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "-D", "-f", "--force", "-M", "-C"):
        yield Reason.LOSES
    if has_option(rest, "--edit-description"):
        yield Reason.STARTS


def _worktree(rest: tuple[str, ...]) -> Iterator[Reason]:
    if "remove" in rest and has_option(rest, "-f", "--force"):
        yield Reason.LOSES


def _loses(_rest: tuple[str, ...]) -> Iterator[Reason]:
    yield Reason.LOSES


def _reflog(rest: tuple[str, ...]) -> Iterator[Reason]:
    if {"expire", "delete", "drop"} & {*rest}:
        yield Reason.LOSES


def _gc(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "--prune"):
        yield Reason.LOSES


def _update_ref(rest: tuple[str, ...]) -> Iterator[Reason]:
    yield Reason.LOSES if has_option(rest, "-d", "--stdin") else Reason.REWRITES


def _rewrites(_rest: tuple[str, ...]) -> Iterator[Reason]:
    yield Reason.REWRITES


def _rebase(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "-x", "--exec"):
        yield Reason.STARTS


def _config(rest: tuple[str, ...]) -> Iterator[Reason]:
    named = operands(rest)
    verbs = {"get", "list", "get-all", "get-regexp", "get-urlmatch"}
    if has_option(rest, *_READS_SETTINGS) or {*named[:1]} & verbs:
        return
    if {*named[:1]} & {"set", "unset", "edit", "rename-section", "remove-section"}:
        named = named[1:]
    is_local = not has_option(rest, "--global", "--system", "-f", "--file", "--edit", "-e")
    if len(named) == 1 and is_local and not has_option(rest, "--unset", "--unset-all"):
        return
    if not (is_local and named and _HARMLESS_KEYS.match(named[0])):
        yield Reason.LATER


def _remote(rest: tuple[str, ...]) -> Iterator[Reason]:
    if {"add", "set-url", "rename", "remove", "rm"} & {*rest[:1]}:
        yield Reason.LATER


def _clone(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "-u", "-c", "--config", "--template"):
        yield Reason.STARTS
    yield Reason.INSTALLS


def _starts(_rest: tuple[str, ...]) -> Iterator[Reason]:
    yield Reason.STARTS


def _archive(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "--exec", "--remote"):
        yield Reason.STARTS


def _grep(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "-O", "--open-files-in-pager"):
        yield Reason.STARTS


def _credential(_rest: tuple[str, ...]) -> Iterator[Reason]:
    yield Reason.SECRETS


def _bisect(rest: tuple[str, ...]) -> Iterator[Reason]:
    if "run" in rest[:1] or "view" in rest[:1]:
        yield Reason.STARTS


def _submodule(rest: tuple[str, ...]) -> Iterator[Reason]:
    if "foreach" in operands(rest)[:1]:
        yield Reason.STARTS
    if "add" in operands(rest)[:1] or "update" in operands(rest)[:1]:
        yield Reason.INSTALLS


def _apply(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "--unsafe-paths"):
        yield Reason.OUTSIDE_CHANGED


def _init(rest: tuple[str, ...]) -> Iterator[Reason]:
    if has_option(rest, "--template", "--separate-git-dir"):
        yield Reason.STARTS


def _sends(_rest: tuple[str, ...]) -> Iterator[Reason]:
    yield Reason.SENDS


_RULES: Final[dict[str, Callable[[tuple[str, ...]], Iterator[Reason]]]] = {
    "push": _push,
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "stash": _stash,
    "branch": _branch,
    "worktree": _worktree,
    "prune": _loses,
    "checkout-index": _loses,
    "reflog": _reflog,
    "gc": _gc,
    "update-ref": _update_ref,
    "symbolic-ref": _rewrites,
    "filter-branch": _rewrites,
    "filter-repo": _rewrites,
    "replace": _rewrites,
    "fast-import": _rewrites,
    "rebase": _rebase,
    "config": _config,
    "remote": _remote,
    "clone": _clone,
    "daemon": _sends,
    "instaweb": _starts,
    "http-backend": _sends,
    "send-email": _sends,
    "send-pack": _sends,
    "imap-send": _sends,
    "upload-pack": _sends,
    "request-pull": _sends,
    "shell": _starts,
    "difftool": _starts,
    "mergetool": _starts,
    "hook": _starts,
    "maintenance": _starts,
    "for-each-repo": _starts,
    "archive": _archive,
    "grep": _grep,
    "credential": _credential,
    "credential-store": _credential,
    "credential-cache": _credential,
    "bisect": _bisect,
    "submodule": _submodule,
    "apply": _apply,
    "init": _init,
}
