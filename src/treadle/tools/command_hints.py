"""What a command is told beside its output that could not work here: a sentence with the way out.

Each is found in what the command wrote, so it may be wrong; it never changes what happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.tool_families import FILE_CHANGES, ToolKind, kind_of, names_of
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Network
from treadle.sandbox.status import NO_NETWORK
from treadle.tools.command_access import CommandWish, decide_command

COULD_ONLY_READ: Final = (
    'this command could only read; call it again with access="write" if it has to change files'
)
HAD_NO_NETWORK: Final = (
    "this command had no network; call it again with network=true if it cannot do without"
)
IS_OFFLINE: Final = (
    "this command had the network, and the name was not found: this machine may be offline; use "
    "what is installed, or say what is missing"
)
HAS_NONE: Final = f"{NO_NETWORK}. Use what is installed, or say what is missing"
NO_EDITOR: Final = (
    "no editor can be opened here: give the text in the command (`git commit -m MESSAGE`, "
    '`--amend --no-edit`, `git -c sequence.editor="sed -i ..." rebase -i`), or change the file'
)
NO_INPUT: Final = (
    "nobody can answer here, as standard input is empty: give the answers in the command (`-y`, "
    "`--yes`, all options, `printf 'y\\n' | ...`)"
)
NO_CREDENTIALS: Final = (
    "nobody can enter a password here, and commands have no keys of the person: do without, or say "
    "what the person has to run"
)
NEVER_ENDS: Final = (
    "a server, or what watches or follows, does not end by itself: call it with `background`, or "
    "start it, ask it and end it in one command (`CMD & sleep 2; curl ...; kill $!`)"
)
NO_PROGRAM: Final = "{name} is {what} and no program of the shell: call {tool} as a tool"
IN_OWN_FOLDER: Final = (
    "{folder} is empty at the beginning of each command: make and use files in one command, or "
    "keep them in {kept}"
)

_WRITE_REFUSED: Final = re.compile(
    r"Read-only file system|\bEROFS\b|Errno 30\b|os error 30\b|readonly database"
    r"|[Pp]ermission denied|\bEACCES\b|Operation not permitted|\bEPERM\b"
)
_NO_NETWORK: Final = re.compile(
    r"[Cc]ould ?n[o']t resolve (host|proxy)|[Tt]emporary failure (in name resolution|resolving)"
    r"|Network is (unreachable|down)|Name or service not known|nodename nor servname"
    r"|\b(ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b|dial tcp: lookup|failed to lookup address"
    r"|unable to resolve host|failed to resolve address|[Ff]ailed to resolve '"
    r"|UnknownHostException|[Uu]nknown host\b|getaddrinfo|dns error|[Nn]o address associated with"
    r"|Could not resolve hostname"
)
_PROGRAM: Final = re.compile(r"/\S+: (line \d+: )?")
"""With which programs begin what they say, if they were called by a path."""
_ABSOLUTE: Final = re.compile(r"""(?:^|[\s'"`:(=])(/[^\s'"`:)]+)""")
_TOOL_NAMES: Final = (
    *("applypatch", "str_replace_editor", "str_replace_based_edit_tool"),
    *sorted(names_of(ToolKind.READ, ToolKind.LIST, ToolKind.SEARCH, *FILE_CHANGES)),
)
_NO_SUCH_PROGRAM: Final = re.compile(rf"\b({'|'.join(_TOOL_NAMES)}): (?:command )?not found")
_LOST_FILE: Final = re.compile(
    r"""(?:^|[\s'"`:(=])(/tmp|/var/tmp)/[^\s'"`:]+['"`]?: (?:\[Errno 2\] )?No such file"""
    r"""|No such file or directory:? \(?['"`]?(/tmp|/var/tmp)/"""
)
_FOLLOWS: Final = re.compile(
    r"\btail (?:-\w+ )*(?:-[fF]|--follow)|--watch\b|\bwatch |\bjournalctl (?:-\w+ )*-f|\bnodemon\b"
    r"|\b(?:npm|pnpm|yarn|bun) (?:run )?(?:dev|start|serve|watch)\b|\bvite\b(?! build)|\bnext dev"
    r"|\bhttp\.server\b|\bflask run|\brunserver\b|\buvicorn\b|\bgunicorn\b|\brails s"
    r"|docker compose up(?! -d)|\blogs (?:\S+ )*-f\b"
)


class _Wait(Struct, frozen=True):
    """What a command writes that waits for somebody: `anywhere` in it, or as its very `end`."""

    hint: str
    anywhere: re.Pattern[str] | None = None
    end: re.Pattern[str] | None = None


_WAITS: Final = (
    _Wait(
        NO_EDITOR,
        anywhere=re.compile(
            r"Aborting commit due to empty commit message|you did not edit the message"
            r"|There was a problem with the editor|Terminal is dumb, but EDITOR unset"
            r"|problem with the editor|Standard input is not a terminal\b|Vim: Error reading input"
            r"|\"(?:false|true)\" exited with status|editor: command (?:false|true)"
        ),
    ),
    _Wait(
        NO_CREDENTIALS,
        anywhere=re.compile(
            r"terminal prompts disabled|could not read (?:Username|Password)"
            r"|a (?:terminal|password) is required|Permission denied \(publickey"
            r"|Host key verification failed|gpg: signing failed|Authentication failed for 'http"
            r"|no askpass program|Enter passphrase for"
        ),
        end=re.compile(r"[Pp]ass(?:word|phrase)[^\n]{0,60}: ?\Z"),
    ),
    _Wait(
        NO_INPUT,
        anywhere=re.compile(
            r"EOFError: EOF when reading a line|Inappropriate ioctl for device"
            r"|is not a (?:tty|TTY|terminal)\b|not running in a TTY"
            r"|[Pp]rompts? (?:can ?not|could not) be|[Uu]ser force closed the prompt"
            r"|cannot prompt|[Nn]on-interactive|isn't interactive|\[Y/n\] Abort"
            r"|npm error canceled|stdin is not"
        ),
        end=re.compile(
            r"[\[(][yY](?:es)?/[nN]o?(?:/[^\])\n]*)?[\])] ?[?:]? ?\Z|\(y\) ?\Z"
            r"|Stage this \w+ \[[^\]\n]*\]\? ?\Z|package name: \([^)\n]*\) ?\Z"
            r"|Press \w+ to continue"
            r"|[Dd]o you want to (?:continue|proceed)[^\n]*\Z|Would you like to [^\n]*\Z"
        ),
    ),
)
_END_SIZE: Final = 300
"""Characters in which a question stands that is the last of an output."""


def find_hints(
    output: str,
    exit_code: int | None,
    wish: CommandWish,
    sandbox: Sandbox | None,
    workspace: str,
    tools: Sequence[str] = (),
) -> Iterator[str]:
    """A line for each thing that a command seems to have failed for want of.

    Args:
        output: of the command.
        exit_code: how it ended; `None` if its time was over.
        wish: what it said that it needs.
        sandbox: as in `decide_command`.
        workspace: the folder that it could have changed.
        tools: the names of those that are offered.
    """
    if exit_code is None and _FOLLOWS.search(wish.command):
        yield NEVER_ENDS
    waits = _find_wait(output, has_failed=exit_code != 0)
    if waits:
        yield waits
    if not exit_code:
        return
    if named := _NO_SUCH_PROGRAM.search(output):
        yield _explain_tool(named[1], tools)
    box = decide_command(wish, sandbox).box
    lines = output.splitlines()
    has_network = box is None or box.has_network(wish.network)
    lacks = [_is_of_network(line, box) for line in lines]
    if box is not None:
        is_refused = any(
            _WRITE_REFUSED.search(line) and not is_network and _is_of_workspace(line, workspace)
            for line, is_network in zip(lines, lacks, strict=True)
        )
        wanted = replace(wish, access="write")
        is_shut = is_refused and waits != NO_CREDENTIALS and wish.access == "read"
        if is_shut and not decide_command(wanted, sandbox).refused:
            yield COULD_ONLY_READ
        if lost := _LOST_FILE.search(output):
            yield _explain_lost_file(lost[1] or lost[2], box)
    if any(lacks):
        yield _explain_network(wish, sandbox, has_network=has_network)


def _explain_tool(name: str, tools: Sequence[str]) -> str:
    if name in tools:
        return NO_PROGRAM.format(name=name, what="a tool of yours", tool="it")
    kind = kind_of(name)
    others = [one for one in tools if kind_of(one) is kind]
    others = others or [one for one in tools if kind_of(one) in FILE_CHANGES]
    return NO_PROGRAM.format(
        name=name,
        what="a tool, which you do not have,",
        tool=" or ".join(others) or "one of yours",
    )


def _find_wait(output: str, *, has_failed: bool) -> str:
    """What a command has waited for, in a sentence; empty if for nothing.

    One that ends well has only if its output stops in the middle of a line, as questions do.
    """
    end = output[-_END_SIZE:].rstrip("\n") if has_failed or not output.endswith("\n") else ""
    for wait in _WAITS:
        is_said = has_failed and wait.anywhere is not None and wait.anywhere.search(output)
        if is_said or (wait.end is not None and wait.end.search(end)):
            return wait.hint
    return ""


def _explain_network(wish: CommandWish, sandbox: Sandbox | None, *, has_network: bool) -> str:
    if has_network:
        return IS_OFFLINE
    is_off = sandbox is not None and sandbox.policy.network is Network.OFF
    is_refused = decide_command(replace(wish, network=True), sandbox).refused
    return HAS_NONE if is_off or is_refused else HAD_NO_NETWORK


def _explain_lost_file(folder: str, box: Sandbox) -> str:
    kept = "$TREADLE_SCRATCH" if box.scratch else "the workspace"
    return IN_OWN_FOLDER.format(folder=folder, kept=kept)


def _is_of_network(line: str, box: Sandbox | None) -> bool:
    # Landlock lets nobody open a socket; other programs then do not say what for.
    is_socket = box is not None and "socket" in line and "Operation not permitted" in line
    return is_socket or bool(_NO_NETWORK.search(line))


def _is_of_workspace(line: str, workspace: str) -> bool:
    """Whether what a line complains about may be a file of the workspace."""
    said = line[len(found[0]) :] if (found := _PROGRAM.match(line)) else line
    return workspace in said or not _ABSOLUTE.search(said)
