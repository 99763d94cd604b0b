"""The tool that runs shell commands, in the sandbox of the registry if it has one."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from treadle import helper_programs
from treadle.core.approval import Scope
from treadle.core.conversation import OUTPUT_PREFIX
from treadle.core.tool_families import OWN_NAMES, ToolKind
from treadle.core.tools import Access, EffectClass, RiskLevel, ToolErrorKind
from treadle.platform.held_files import held_files
from treadle.process.environment import clean_environment
from treadle.process.program import Cause, Ended, run
from treadle.risk.assess import assess
from treadle.risk.assessment import Danger
from treadle.risk.commits import describe_taken_files, find_taken_files
from treadle.sandbox.held import Launch
from treadle.tool_failure import ToolFailure
from treadle.tools.background import CommandEnd
from treadle.tools.command_access import (
    CommandDecision,
    CommandWish,
    WantedAccess,
    decide_command,
    make_wish,
)
from treadle.tools.command_hints import find_hints
from treadle.tools.context import ToolContext
from treadle.tools.files import ABSENT, content_of
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.output import Output
from treadle.tools.paths import Root, as_failure
from treadle.tools.tool_return import ToolReturn

TIMEOUT_S: Final = 60.0
BACKGROUND_TIMEOUT_S: Final = 3600.0
TIMEOUT_S_MAX: Final = 12 * 3600.0
"""Of a command that names its limit."""
_SHOWN_SIZE: Final = 24
"""Digits of a digest in a kind, which people see: so many that nobody finds another content."""
_SHUT: Final = re.compile(r"could not (write|lock) config file |put back, .*/\.git/config(, |$)")
_SETTINGS_HINT: Final = (
    "the settings of git are shut for this command; a person is asked about a `git config KEY "
    "VALUE`, `git remote add`, `git branch -u` and the like that is called by itself, in its own "
    "`cwd`"
)
_NAME_THEM: Final = (
    ", which a person has to allow, and nobody is there to be asked. Name the files that are yours "
    "(`git commit -m MESSAGE -- FILE ...`)"
)
Launcher: TypeAlias = Callable[[tuple[str, ...], str], AbstractContextManager[Launch]]
"""Makes ready to run a program, given with its arguments, in a folder."""
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash")


def risk_of_bash(arguments: Arguments, context: ToolContext) -> RiskLevel:
    """The risk of a command: what holds it, and what its words tell where a person may be asked."""
    decision = decide_command(make_wish(arguments), context.sandbox)
    if not decision.is_advised:
        return decision.risk
    found = assess(arguments["command"], str(context.workspace.path))
    return max(decision.risk, found.risk)


def scope_of_bash(arguments: Arguments, context: ToolContext) -> Scope:
    """What a yes to a command covers: folder, environment, and what holds it."""
    folder, cwd = str(context.workspace.path), arguments["cwd"]
    decision = decide_command(make_wish(arguments), context.sandbox)
    danger = Danger(decision.risk, (), (), {})
    if decision.is_advised:
        danger = assess(arguments["command"], folder)
    kinds, content, file = _bound_to_files(danger, context.workspace, cwd)
    taken, told = _find_taken_files(arguments, context, decision)
    content = _digest((content, taken)) if taken else content
    may_ask = context.sandbox is None or context.sandbox.policy.may_ask
    if context.sandbox is None:
        ground = _digest((folder, cwd, sorted(clean_environment(os.environ).items())))
    else:
        ground = _digest((folder, cwd, decision.ground, arguments["network"]))
    return Scope(
        reasons=(*((told,) if told else ()), *decision.reasons, *danger.reasons),
        # A yes for commits of one's own is none for these files.
        kinds=kinds if decision.is_grantable and not taken else (),
        ground=ground,
        content=content,
        confined=decision.confined,
        must_ask=decision.must_ask or bool(taken),
        refused=decision.refused or ("" if may_ask or not taken else f"{told}{_NAME_THEM}"),
        file="" if taken else file,
        access=decision.access,
    )


def _find_taken_files(
    arguments: Arguments, context: ToolContext, decision: CommandDecision
) -> tuple[tuple[str, ...], str]:
    """The files of the person that a command would commit or stage, and a sentence about them."""
    if decision.access is not Access.WRITE:
        return (), ""
    taken = find_taken_files(arguments["command"], context.others_files(), arguments["cwd"])
    if not taken:
        return (), ""
    return taken, f"it takes changes along that are not the agent's: {describe_taken_files(taken)}"


def _bound_to_files(danger: Danger, root: Root, cwd: str) -> tuple[tuple[str, ...], str, str]:
    """The kinds with the content of the files that they run, a digest of all, and the only one.

    That one is named so that a yes follows what earlier calls of its round write into it.
    """
    kinds: list[str] = []
    all_found: dict[str, str] = {}
    for kind in danger.kinds:
        found: dict[str, str] = {}
        for path in danger.files.get(kind, ()):
            found |= _content_of(root, posixpath.join(cwd, path))
        kinds.append(f"{kind} (content {_digest(found)[:_SHOWN_SIZE]})" if found else kind)
        all_found |= found
    inside = {name: one for name, one in all_found.items() if not name.startswith("/")}
    if len(inside) == 1:
        [(file, content)] = inside.items()
        return tuple(kinds), content, file
    return tuple(kinds), _digest(inside) if inside else "", ""


def _content_of(root: Root, path: str) -> dict[str, str]:
    """A file of the workspace by its name without links, and its content; nothing if it is none.

    Of a program outside, to which a link of the workspace leads, it is the place: nobody can
    write there, but the link can be made to lead elsewhere.
    """
    try:
        content = content_of(root, path)
    except (ToolFailure, OSError) as failure:
        real = Path(os.path.realpath(root.path / path))
        is_outside = getattr(failure, "kind", None) is ToolErrorKind.PATH_OUTSIDE_WORKSPACE
        return {str(real): str(real)} if is_outside and real.is_file() else {}
    return {} if content == ABSENT else {root.name_of(path): content}


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def check_bash(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `bash` would before it runs anything."""
    _decide(make_wish(arguments), context)
    os.close(context.workspace.open_folder(arguments["cwd"]))


def _decide(wish: CommandWish, context: ToolContext) -> CommandDecision:
    if "\0" in wish.command:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "command: embedded null byte")
    decision = decide_command(wish, context.sandbox)
    if decision.refused:
        raise ToolFailure(ToolErrorKind.REJECTED, decision.refused)
    return decision


@tool(
    effect=EffectClass.MUTATE,
    risk=RiskLevel.LOW,
    risk_of=risk_of_bash,
    scope_of=scope_of_bash,
    check=check_bash,
)
async def bash(
    context: ToolContext,
    command: str,
    timeout_s: Annotated[float, Meta(gt=0, le=TIMEOUT_S_MAX)] | None = None,
    cwd: str = ".",
    access: WantedAccess = "read",
    network: bool = False,
    outside: bool = False,
    background: bool = False,
) -> ToolReturn:
    """Run a shell command and return its output (stdout and stderr together) and exit code.

    Standard input is empty and there is no terminal, so nothing can be asked. The command ends
    with everything it started: processes left in the background are killed when it exits. Very
    long output is cut in the middle. Environment variables whose names look like credentials are
    not passed on.

    Say what it needs. With access "read" (the default) it can look at everything and change
    nothing: the workspace is read-only, TMPDIR is private and gone afterwards, there is no network,
    and as a rule nobody is asked. That is enough for git status, log, diff and show, for grep, ls
    and find, and for tests, linters and scripts that need not change the workspace. With access
    "write" it can change the files of the workspace, but not `.git/hooks` and `.git/config`, and a
    person may be asked: use it for formatting, installing, building into the folder, git add and
    commit. Most of the home folder cannot be seen by either.

    Args:
        context: The workspace, what holds the command, and who is told of the output.
        command: What to run, for bash (sh where there is no bash).
        timeout_s: Seconds until it is stopped: 60 if you do not say, 3600 in the background.
        cwd: The folder to run it in, relative to the workspace.
        access: "read" for looking and testing, "write" if it has to change files.
        network: Whether the command cannot do without the network; a person may be asked.
        outside: Whether it has to run without the sandbox, because the sandbox itself is in the
            way; a person is asked each time.
        background: Whether to go on without waiting for it, as for a server or a long test run.
            You are told when it ends; it is stopped when the session ends.
    """
    wish = CommandWish(command, access, network, outside)
    decision = _decide(wish, context)
    output = Output(context.progress)
    limit_s = timeout_s or (BACKGROUND_TIMEOUT_S if background else TIMEOUT_S)
    work = _run_command(context, wish, decision, cwd, limit_s, output)
    if background:
        return await _begin_in_background(context, command, work, output, limit_s)
    return _report_end(await work, output, limit_s)


async def _begin_in_background(
    context: ToolContext,
    command: str,
    work: Coroutine[Any, Any, CommandEnd],
    output: Output,
    limit_s: float,
) -> ToolReturn:
    if context.background is None:
        work.close()
        raise ToolFailure(
            ToolErrorKind.REJECTED,
            "nobody looks after commands in the background here: run it without `background`",
        )
    end = await context.background.start(context.call_id, command, work, output)
    if end is not None:
        return _report_end(end, output, limit_s)
    name = context.call_id
    where = f'{OWN_NAMES[ToolKind.READ]}("{OUTPUT_PREFIX}{name}") reads all that it prints'
    looks = f"{OWN_NAMES[ToolKind.BACKGROUND]} looks after it"
    begun = f"[it runs in the background as {name}: {looks}, {where}]"
    shown = output.text()
    return ToolReturn(f"{shown.rstrip()}\n{begun}" if shown else begun, background=command)


def _report_end(end: CommandEnd, output: Output, limit_s: float) -> ToolReturn:
    """The result of a command that was waited for.

    Raises:
        ToolFailure: it was stopped.
    """
    if end.cause is Cause.EXIT:
        return ToolReturn(end.report)
    what = f"stopped after {limit_s:g} s" if end.cause is Cause.TIMEOUT else "stopped"
    kind = ToolErrorKind.TIMEOUT if end.cause is Cause.TIMEOUT else ToolErrorKind.CANCELLED
    text = output.text()
    what += "".join(f"; {note}" for note in (*end.notes, *end.hints))
    raise ToolFailure(kind, what if text else f"{what}, no output", text)


async def _run_command(
    context: ToolContext,
    wish: CommandWish,
    decision: CommandDecision,
    cwd: str,
    limit_s: float,
    output: Output,
) -> CommandEnd:
    """Run it to its end, whatever ends it."""
    folder = context.workspace.open_folder(cwd)
    notes: tuple[str, ...] = ()
    try:
        if decision.box is None:
            named = {} if context.sandbox is None else context.sandbox.scratch_variables
            ended = await _run_free(wish.command, folder, limit_s, output, named)
            text = output.text()
        else:
            launcher = partial(
                decision.box.launch, wants_network=wish.network, settings=decision.settings
            )
            ended, text, notes = await _run_held(launcher, wish.command, folder, limit_s, output)
    finally:
        os.close(folder)
        output.close()
    has_exited, hints = ended.cause is Cause.EXIT, tuple[str, ...]()
    if ended.cause is not Cause.CANCEL:
        code = ended.exit_code if has_exited else None
        place = str(context.workspace.path)
        hints = tuple(find_hints(text, code, wish, context.sandbox, place, context.names))
    if has_exited:
        report = _report(text, ended, notes, hints)
    else:
        report = "\n".join((*([text] if text else ()), *(f"[{one}]" for one in (*notes, *hints))))
    return CommandEnd(ended.cause, ended.exit_code, report, notes, hints)


async def _run_free(
    command: str, folder: int, timeout_s: float, output: Output, named: Mapping[str, str]
) -> Ended:
    with as_failure("the command"):
        return await run(
            [_shell(), "-c", command],
            cwd=held_files.find_entry(folder),
            env={**clean_environment(os.environ), **named},
            timeout_s=timeout_s,
            sink=output.add,
        )


async def _run_held(
    launcher: Launcher, command: str, folder: int, timeout_s: float, output: Output
) -> tuple[Ended, str, tuple[str, ...]]:
    # Whatever stands under this name when the command begins, it is reached from inside only.
    where = held_files.find_path(folder)
    shell = next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")
    argv = (shell, "-c", command)
    with launcher(argv, where) as launch:
        with as_failure("the command"):
            ended = await run(
                launch.argv,
                cwd="/",
                env=launch.env,
                timeout_s=timeout_s,
                sink=output.add,
                pass_fds=launch.pass_fds,
                spares_leader=True,
            )
        text = output.text()
        if ended.cause is Cause.EXIT:
            held = launch.describe_result(text)
            left_count = held.left_count + ended.left_count
            ended = Ended(ended.cause, held.exit_code, left_count)
            notes = held.notes
        else:
            notes = ()
    notes = (*notes, *launch.notes())
    is_shut_out = any(map(_SHUT.search, (text, *notes)))
    return ended, text, (*notes, _SETTINGS_HINT) if is_shut_out else notes


def _shell() -> str:
    return helper_programs.find_program("bash") or "/bin/sh"


def _report(text: str, ended: Ended, notes: tuple[str, ...], hints: Iterable[str] = ()) -> str:
    lines = [text] if text else []
    lines += [f"[{note}]" for note in notes]
    if ended.left_count:
        plural = "" if ended.left_count == 1 else "es"
        lines.append(f"[killed at the end: {ended.left_count} process{plural} in the background]")
    if ended.exit_code < 0:
        number = -ended.exit_code
        lines.append(f"[killed by signal {number}: {signal.strsignal(number)}]")
    else:
        lines.append(f"[exit code {ended.exit_code}]")
    lines += [f"[{hint}]" for hint in hints]
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).rstrip("\n")
