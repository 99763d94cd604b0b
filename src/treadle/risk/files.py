"""Rules about files: what is read, changed and deleted, and where. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treadle.risk.calls import ProgramCall
from treadle.risk.git import parsed
from treadle.risk.lexer import Word
from treadle.risk.path_risks import (
    Reach,
    candidates,
    is_history,
    is_root,
    is_secret,
    may_be_secret,
    reach,
    runs_later,
)
from treadle.risk.reasons import Reason
from treadle.risk.split import Redirect

_TALKS: Final = frozenset(
    {*("echo", "printf", "true", "false", ":", "expr", "seq", "date", "sleep", "exit", "return")}
    | {*("basename", "dirname", "kill", "uname", "whoami", "id", "nproc", "which", "type")}
)
"""Their arguments are text, not files."""
_PATTERN_FIRST: Final = frozenset(
    {"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "gsed", "awk", "gawk", "mawk", "jq", "yq"}
    | {"fd", "fdfind", "tr"}
)
_READERS: Final = frozenset(
    {*("cat", "head", "tail", "less", "more", "bat", "wc", "nl", "tac", "od", "xxd", "hexdump")}
    | {
        *(
            "strings",
            "file",
            "stat",
            "ls",
            "tree",
            "du",
            "df",
            "find",
            "sort",
            "uniq",
            "cut",
            "diff",
        )
    }
    | {*("cmp", "comm", "realpath", "readlink", "md5sum", "sha1sum", "sha256sum", "column", "git")}
    | {*("test", "[", "cd", "pushd", "paste", "join", "fold", "rev", "source", ".", "view")}
    | _PATTERN_FIRST
)
_WRITERS: Final = frozenset(
    {*("rm", "rmdir", "unlink", "mv", "cp", "ln", "link", "install", "touch", "mkdir", "mkfifo")}
    | {*("tee", "truncate", "chmod", "chown", "chgrp", "dd", "shred", "mknod", "setfacl", "patch")}
    | {*("split", "csplit", "rsync", "unzip", "tar", "cpio", "mktemp", "sponge", "chattr", "ed")}
)
_DEVICE: Final = re.compile(
    r"^/dev/(sd|hd|vd|xvd|nvme|mmcblk|loop|md|dm-|disk|mapper|mem|kmem|port)"
)
_WRITES: Final = frozenset({">", ">>", ">|", "<>", "&>", "&>>", ">&"})
_TEXT_OPTIONS: Final = {
    "git": frozenset(
        {"--message", "--author", "--grep", "-S", "-G", "--date", "--since", "--until"}
    ),
    "gh": frozenset({"--title", "--body", "-b", "-t", "--message", "-m"}),
    "glab": frozenset({"--title", "--description", "-d", "-t", "--message", "-m"}),
    **dict.fromkeys(("sed", "gsed"), frozenset({"-e", "--expression", "-ne", "-Ee", "-ie"})),
    **dict.fromkeys(("grep", "egrep", "rg"), frozenset({"-e", "--regexp"})),
    "find": frozenset({"-name", "-iname", "-path", "-ipath", "-regex", "-iregex"}),
    **dict.fromkeys(("perl", "ruby"), frozenset({"-e", "-E", "-pe", "-ne"})),
    **dict.fromkeys(("node", "nodejs"), frozenset({"-e", "-p", "--eval", "--print"})),
    **dict.fromkeys(("python", "bash", "sh", "zsh"), frozenset({"-c"})),
}
"""What follows these options is text; the code among it is judged by other rules."""
_MESSAGES: Final = frozenset({"commit", "tag", "merge", "stash", "notes"})


def paths_in(call: ProgramCall) -> Iterator[Word]:
    """The arguments that may be paths."""
    if call.name in _TALKS:
        return
    is_search = call.name in _PATTERN_FIRST
    skips_pattern = is_search and not call.has("-e", "-f", "--regexp", "--files", "--type-list")
    options = _TEXT_OPTIONS.get(call.name, frozenset())
    has_message = call.name == "git" and parsed(call.texts)[1] in _MESSAGES
    is_text = False
    for word in call.args:
        text = word.text
        if is_text:
            is_text = False
            continue
        name = text.partition("=")[0]
        if name in options or (has_message and re.fullmatch("-[a-z]*m", text)):
            is_text = name == text
            continue
        if skips_pattern and not (text.startswith("-") and len(text) > 1):
            skips_pattern = False
            continue
        yield word


def reasons(call: ProgramCall) -> Iterator[Reason]:
    """What its arguments say about files."""
    changes = call.name in _WRITERS or _edits_in_place(call)
    if call.name in _TALKS:
        return
    for word in paths_in(call):
        for path in candidates(word.text):
            yield from _about(path, changes=changes, reads=call.name in _READERS)
    if call.name in ("rm", "rmdir", "unlink", "shred", "srm", "find"):
        yield from _deletes(call)
    if call.name == "mv" and _moves_all(call):
        yield Reason.OUTSIDE_CHANGED
    if call.name == "dd":
        yield from _dd(call)
    if any("/dev/tcp/" in text or "/dev/udp/" in text for text in call.texts):
        yield Reason.SENDS


def _moves_all(call: ProgramCall) -> bool:
    """Whether it is the workspace itself that is moved."""
    into = call.value("-t", "--target-directory")
    sources = call.operands[:-1] if into is None else call.operands
    return any(text != into and text.rstrip("/") == "." for text in sources)


def _edits_in_place(call: ProgramCall) -> bool:
    if call.name in ("sed", "gsed", "perl", "yq"):
        return call.has("-i", "--in-place")
    return call.name in ("sort", "uniq") and call.has("-o", "--output")


def _about(path: str, *, changes: bool, reads: bool) -> Iterator[Reason]:
    if is_secret(path):
        yield Reason.SECRETS
    if (not reads and runs_later(path)) or (changes and runs_later(path)):
        yield Reason.LATER
    if _DEVICE.match(path) and (changes or not reads):
        yield Reason.DISK
    far = reach(path)
    if changes and far >= Reach.SYSTEM:
        yield Reason.OUTSIDE_CHANGED
    elif far is Reach.OUTSIDE:
        yield Reason.OUTSIDE


def _deletes(call: ProgramCall) -> Iterator[Reason]:
    if call.name == "find":
        if "-delete" in call.texts:
            starts = [text for text in call.operands[:1] if is_root(text) and text != "."]
            is_all = len(call.texts) <= 2 and (not call.operands or is_root(call.operands[0]))
            if starts or is_all:
                yield Reason.ROOT
        return
    is_recursive = call.has("-r", "-R", "--recursive")
    for word in call.args:
        if is_root(word.text) and (is_recursive or (word.has_globs and "." not in word.text)):
            yield Reason.ROOT
        elif not word.is_known and (is_recursive or word.scripts):
            yield Reason.DELETES
        elif is_recursive and word.has_braces and any(map(is_root, candidates(word.text))):
            yield Reason.ROOT


def _dd(call: ProgramCall) -> Iterator[Reason]:
    for text in call.texts:
        if text.startswith("of=/dev/") and reach(text[3:]) > Reach.INSIDE:
            yield Reason.DISK


def of_redirect(redirect: Redirect) -> Iterator[Reason]:
    """What a redirection to or from a file says."""
    path = redirect.target.text
    if redirect.operator in ("<<", "<<<"):
        return
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield Reason.SENDS
        return
    changes = redirect.operator in _WRITES and not (redirect.operator == ">&" and path.isdigit())
    yield from _about(path, changes=changes, reads=not changes)


def is_written(redirect: Redirect) -> bool:
    """Whether a redirection makes or changes a file; not so `2>&1` and `>/dev/null`."""
    if redirect.operator in ("<&", ">&") and re.fullmatch(r"\d+-?|-", redirect.target.text):
        return False
    return not (redirect.operator in _WRITES and redirect.target.text == "/dev/null")


def is_far(word: Word) -> bool:
    """Whether an argument may reach anything outside the workspace, a credential, or `.git`."""
    if is_history(word.text):
        return True
    return any(reach(path) > Reach.INSIDE or is_secret(path) for path in candidates(word.text)) or (
        word.has_globs and may_be_secret(word.text)
    )
