"""Programs that run another command: what the other one is. Pure.

Those of every day are a table of their options. For the rest every tail of the arguments counts as
a command that could run: a false alarm there costs a question, a miss costs more.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from treadle.risk.calls import ProgramCall
from treadle.risk.lexer import Word
from treadle.risk.reasons import Reason

SHELLS: Final = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh", "pwsh"}
)
TAIL_COUNT_MAX: Final = 12

_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*=")


class Options(Struct, frozen=True):
    """How a wrapper reads what stands before the command.

    `valued` are short options (letters) and `long` ones that take a value; `before` is how many
    arguments come before the command.
    """

    valued: str = ""
    long: tuple[str, ...] = ()
    before: int = 0


_KNOWN: Final = {
    "sudo": Options("ugpCDRTUhrt", ("--user", "--group", "--prompt", "--chdir", "--host")),
    "doas": Options("uC"),
    "env": Options("uCS", ("--unset", "--chdir")),
    "nohup": Options(),
    "nice": Options("n", ("--adjustment",)),
    "ionice": Options("cnp", ("--class", "--classdata")),
    "timeout": Options("ks", ("--kill-after", "--signal"), before=1),
    "gtimeout": Options("ks", ("--kill-after", "--signal"), before=1),
    "time": Options("fo", ("--format", "--output")),
    "stdbuf": Options("ioe", ("--input", "--output", "--error")),
    "setsid": Options(),
    "command": Options(),
    "builtin": Options(),
    "exec": Options("a"),
    "xargs": Options("IndPLsEa", ("--max-args", "--max-procs", "--delimiter", "--arg-file")),
    "busybox": Options(),
    "toybox": Options(),
    "caffeinate": Options("tw"),
}
_TAILS: Final = frozenset(
    {
        *("parallel", "watch", "unshare", "nsenter", "chroot", "proot", "fakeroot", "fakechroot"),
        *("strace", "ltrace", "gdb", "valgrind", "perf", "script", "flock", "chrt", "taskset"),
        *("setarch", "linux", "x86_64", "arch", "systemd-run", "run-parts"),
        *("start-stop-daemon", "xvfb-run", "dbus-run-session", "dbus-launch", "bwrap", "firejail"),
        *("runuser", "pkexec", "gosu", "su-exec", "setpriv", "capsh", "sg", "newgrp", "cgexec"),
        *("numactl", "prlimit", "tmux", "screen", "expect", "unbuffer", "entr", "watchexec"),
        *("nodemon", "chronic", "ts", "torsocks", "proxychains", "faketime", "catchsegv", "rlwrap"),
        *(
            "ssh-agent",
            "daemonize",
            "daemon",
            "hyperfine",
            "dotenv",
            "direnv",
            "ld-linux",
            "cpulimit",
        ),
        *("trickle", "unsudo", "doit", "pipx", "npx", "bunx", "uvx", "uv", "poetry", "pipenv"),
        *("bundle", "hatch", "pdm", "rye", "conda", "mamba", "micromamba", "nix-shell", "nix"),
        *("coverage", "tox", "nox", "dumb-init", "tini", "sem", "rush", "at", "batch", "ld.so"),
        *("ld-linux-x86-64.so", "ld-linux-aarch64.so", "lxc", "machinectl", "vagrant", "mosh"),
    }
)
PRIVILEGED: Final = frozenset(
    {"sudo", "doas", "su", "pkexec", "runuser", "gosu", "su-exec", "sg", "newgrp", "setpriv"}
)
_REMOTE: Final = frozenset({"ssh", "mosh", "autossh", "rsh", "vagrant", "machinectl"})
_SCRIPTED: Final = {
    "su": ("-c", "--command"),
    "runuser": ("-c", "--command"),
    "script": ("-c", "--command"),
    "flock": ("-c", "--command"),
    "sg": ("-c",),
    "env": ("-S", "--split-string"),
    "nix-shell": ("--run", "--command"),
    "capsh": ("-c",),
}
_FOUND: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl", "kubectl", "oc", "docker-compose"})


class Unwrapped(Struct, frozen=True):
    """What a command runs: other commands as words, texts for a shell.

    A command of `tails` may be no command at all: that its program is not known means nothing.
    """

    commands: tuple[tuple[Word, ...], ...] = ()
    tails: tuple[tuple[Word, ...], ...] = ()
    scripts: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


def unwrapped(call: ProgramCall) -> Unwrapped | None:
    """What a command runs besides its own program; `None` if it is no wrapper."""
    if call.name in SHELLS:
        return _shell(call)
    if call.name == "eval":
        reasons = () if all(word.is_known for word in call.args) else (Reason.UNKNOWN,)
        return Unwrapped(scripts=(" ".join(call.texts),), reasons=reasons)
    if call.name == "trap":
        return Unwrapped(scripts=call.operands[:1])
    if call.name in ("find", "fd", "fdfind", "gfind"):
        return _find(call)
    if call.name in _REMOTE:
        return Unwrapped(
            tails=_tails(call.args[1:]),
            scripts=(" ".join(call.operands[1:]),),
            reasons=(Reason.REMOTE,),
        )
    if call.name in _CONTAINERS:
        inside = {"run", "exec", "debug"} & {*call.texts[:6]}
        return Unwrapped(tails=_tails(call.args[1:])) if inside else None
    if call.name in _KNOWN:
        return _known(call, _KNOWN[call.name])
    if call.name in _TAILS or call.name in PRIVILEGED:
        reasons = (Reason.PRIVILEGE,) if call.name in PRIVILEGED else ()
        return Unwrapped(tails=_tails(call.args), scripts=_scripts(call), reasons=reasons)
    return None


def _shell(call: ProgramCall) -> Unwrapped:
    texts = call.texts
    for place, text in enumerate(texts):
        if text in ("--command", "-Command", "-command"):
            return _given(call, place + 1)
        if text.startswith(("--rcfile", "--init-file")):
            return Unwrapped(reasons=(Reason.STARTS,))
        if re.fullmatch(r"[-+][A-Za-z]*", text):
            if "c" in text:
                skip = 1 + len(re.findall("[oO]", text))
                while place + skip < len(texts) and texts[place + skip].startswith(("-", "+")):
                    skip += 1
                return _given(call, place + skip)
            continue
        break
    bodies = tuple(each.body for each in call.redirects if each.operator == "<<")
    lines = tuple(each.target.text for each in call.redirects if each.operator == "<<<")
    # Without a script of its own a shell runs what comes in.
    is_fed = call.is_filled and not (bodies and not call.is_fed)
    takes_input = not call.operands or call.has("-s") or "/dev/stdin" in texts
    reasons = (Reason.FED,) if is_fed and takes_input else ()
    return Unwrapped(scripts=bodies + lines, reasons=reasons)


def _given(call: ProgramCall, place: int) -> Unwrapped:
    if place >= len(call.args):
        return Unwrapped(reasons=(Reason.UNREADABLE,))
    word = call.args[place]
    reasons = () if word.is_known else (Reason.UNKNOWN,)
    return Unwrapped(scripts=(word.text,), reasons=reasons)


def _scripts(call: ProgramCall) -> tuple[str, ...]:
    options = _SCRIPTED.get(call.name, ())
    value = call.value(*options) if options else None
    if call.name in ("parallel", "watch", "tmux", "screen", "entr", "expect", "hyperfine"):
        # They hand their arguments to a shell.
        return (*call.operands[:4], " ".join(call.operands))
    return () if value is None else (value,)


def _find(call: ProgramCall) -> Unwrapped | None:
    texts = call.texts
    commands: list[tuple[Word, ...]] = []
    for place, text in enumerate(texts):
        runs = text in _FOUND if call.name in ("find", "gfind") else _is_fd_run(text)
        if runs:
            after = call.args[place + 1 :]
            if len(commands) == TAIL_COUNT_MAX:
                return Unwrapped(tuple(commands), reasons=(Reason.TOO_MUCH,))
            ends = (i for i, word in enumerate(after) if word.text in (";", "+", "\\;"))
            commands.append(after[: next(ends, len(after))])
    return Unwrapped(commands=tuple(commands)) if commands else None


def _is_fd_run(text: str) -> bool:
    return text in ("-x", "-X", "--exec", "--exec-batch")


def _known(call: ProgramCall, options: Options) -> Unwrapped:
    place, before = 0, options.before
    texts = call.texts
    while place < len(texts):
        text = texts[place]
        if text == "--":
            place += 1
            if before == 0:
                break
        elif text.startswith("--"):
            place += 2 if text in options.long else 1
        elif text.startswith("-") and len(text) > 1:
            place += 2 if text[-1] in options.valued and not _has_value(text, options) else 1
        elif call.name in ("env", "sudo", "doas") and _ASSIGNS.match(text):
            place += 1
        elif before:
            before -= 1
            place += 1
        else:
            break
    reasons = (Reason.PRIVILEGE,) if call.name in PRIVILEGED else ()
    command = call.args[place:]
    return Unwrapped((command,) if command else (), (), _scripts(call), reasons)


def _has_value(text: str, options: Options) -> bool:
    """Whether an option before the last one of a bundle takes the rest as its value."""
    return any(letter in options.valued for letter in text[1:-1])


def _tails(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], ...]:
    return tuple(words[place:] for place in range(min(len(words), TAIL_COUNT_MAX)))
