"""Runs the person's hooks: commands of theirs, around calls and turns.

A hook reads one JSON object on its standard input. It ends with exit code 0 if all is well and with
2 if not: what it then says on standard error is the reason, and

- `before_tool`: the call does not run, and the model reads the reason;
- `before_turn`: the prompt is not said, and the person reads the reason;
- `after_tool`: the model reads the reason behind the result;
- `after_turn`, `approval_needed`, `idle`: the person reads the reason.

Another exit code is a warning to the person. A hook before something that cannot be started, is
ended by a signal, or takes too long counts as one that said no: who put a guard there does not want
to be without it. Hooks run outside the sandbox, in the workspace, with the person's environment,
but are not looked for where commands may write: a hook that lies there is named by its path.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from treadle import helper_programs
from treadle.answers import Verdict
from treadle.app.threads.call_arguments import list_written_paths, read_arguments
from treadle.config.settings import Hook, HookMoment
from treadle.core.approval import Question
from treadle.core.messages import ToolCall
from treadle.core.tool_families import FILE_CHANGES, OWN_NAMES, kind_of, list_meant_names
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.errors import AgentError
from treadle.outputs import TurnFinished
from treadle.process.program import TerminationScope, run_bounded
from treadle.process.result import Bounds

AskForVerdict: TypeAlias = Callable[[Question], Awaitable[Verdict]]

REASON_SIZE_MAX: Final = 8 * 1024
"""Bytes of a hook's words that are read; the rest is thrown away."""
_REFUSAL_CODE: Final = 2
"""The exit code that says no, as other agents have it."""


class HookReply(Struct, frozen=True):
    """What one hook said: a `no` with its reason, or a `warning`; both empty if all is well."""

    no: str = ""
    warning: str = ""


class Hooks:
    """The hooks of one thread.

    Args:
        hooks: by name, in the order in which they run.
        folder: the workspace.

    `tell` takes a warning for the person; whoever shows things sets it. `redact` replaces the
    secrets in what hooks say; whoever knows secrets sets it.
    """

    def __init__(self, hooks: Mapping[str, Hook], folder: str) -> None:
        self.tell: Callable[[str], None] = lambda text: None
        self.redact: Callable[[str], str] = str
        self._hooks = dict(hooks)
        self._folder = folder

    @property
    def surround_calls(self) -> bool:
        """Whether any of them run before or after calls."""
        return self.has("before_tool", "after_tool")

    def has(self, *moments: HookMoment) -> bool:
        """Whether there is a hook for one of these moments."""
        return any(hook.on in moments for hook in self._hooks.values())

    async def before_tool(self, call: ToolCall) -> str:
        """Why a call must not run; empty if it may. The first no is the answer.

        Of a call that changes several files hooks are asked about each, as who guards a path looks
        at one.
        """
        told = _describe_call(call)
        for path in told.get("paths", ()) or (None,):
            if path is not None and isinstance(told["arguments"], dict):
                told["arguments"] = {**told["arguments"], "path": path}
            if no := await self._run_hooks("before_tool", call.tool_name, call=told):
                return no
        return ""

    async def after_tool(self, call: ToolCall, outcome: Outcome) -> str:
        """What the model is to read behind the result; empty if nothing."""
        if isinstance(outcome, ToolExecutionOutcome.Success):
            outcome = replace(outcome, contents={})  # a hook reads what was said, not megabytes
        result = to_builtins(outcome)
        return await self._run_hooks(
            "after_tool", call.tool_name, call=_describe_call(call), result=result
        )

    async def before_turn(self, prompt: str) -> str:
        """Why a prompt must not be said; empty if it may."""
        return await self._run_hooks("before_turn", prompt=prompt)

    async def check_prompt(self, prompt: str) -> str:
        """The prompt, if no hook is against it.

        Raises:
            AgentError: a hook is; nothing was said.
        """
        if no := await self.before_turn(prompt):
            raise AgentError(f"a hook of yours has held the prompt back: {no}")
        return prompt

    async def after_turn(self, finished: TurnFinished) -> None:
        """A turn is over."""
        if said := await self._run_hooks("after_turn", turn=to_builtins(finished)):
            self.tell(said)

    async def approval_needed(self, question: Question) -> None:
        """A call waits for a person's yes; nothing waits for the hook."""
        why = {"risk": question.risk.name.lower(), "reasons": question.reasons}
        call, name = _describe_call(question.call), question.call.tool_name
        if said := await self._run_hooks("approval_needed", name, call=call, **why):
            self.tell(said)

    async def idle(self, thread: str) -> None:
        """The agent rests, and nobody has said anything for a while."""
        if said := await self._run_hooks("idle", thread=thread):
            self.tell(said)

    def announce(self, approve: AskForVerdict) -> AskForVerdict:
        """The same who is asked, with hooks that hear of each question while it is open."""
        if not self.has("approval_needed"):
            return approve

        async def ask(question: Question) -> Verdict:
            hook = asyncio.ensure_future(self.approval_needed(question))
            try:
                return await approve(question)
            finally:
                hook.cancel()  # what it would call for has come
                await asyncio.gather(hook, return_exceptions=True)

        return ask

    async def _run_hooks(self, moment: HookMoment, tool_name: str = "", **facts: Any) -> str:
        is_before = moment.startswith("before")
        data = json.dumps({"event": moment, "folder": self._folder, **facts}).encode()
        for name, hook in self._hooks.items():
            if hook.on != moment or (tool_name and not _applies_to(hook, tool_name)):
                continue
            said = await _run_hook(name, hook, data, self._folder, is_guard=is_before)
            if said.warning:
                self.tell(self.redact(said.warning))
            if said.no:
                return self.redact(said.no)
        return ""


def _applies_to(hook: Hook, tool_name: str) -> bool:
    names = list_meant_names(tool_name)
    return any(fnmatchcase(name, pattern) for pattern in hook.tools for name in names)


def _describe_call(call: ToolCall) -> dict[str, Any]:
    """The call as a hook reads it: arguments as the tool takes them, or text if they are none.

    `tool` is our own name of the tool, whatever the model calls it (`called`). Of a call that
    changes files `paths` are all that it would write.
    """
    arguments = read_arguments(call)
    kind = kind_of(call.tool_name)
    return {
        "id": call.id,
        "tool": call.tool_name if kind is None else OWN_NAMES[kind],
        **({} if kind is None or OWN_NAMES[kind] == call.tool_name else {"called": call.tool_name}),
        "arguments": call.arguments_json if arguments is None else arguments,
        **({"paths": list_written_paths(call)} if kind in FILE_CHANGES else {}),
    }


async def _run_hook(
    name: str, hook: Hook, data: bytes, folder: str, *, is_guard: bool
) -> HookReply:
    """Run one hook to its end, or end it with all that it has started.

    Args:
        name: what the person calls it.
        hook: what runs.
        data: its standard input.
        folder: where it runs.
        is_guard: whether one that fails counts as a no.
    """

    def failed(why: str) -> HookReply:
        text = f"the hook {name} {why}"
        return HookReply(no=text) if is_guard else HookReply(warning=text)

    try:
        ran = await run_bounded(
            _resolve_program(hook.argv),
            folder,
            helper_programs.environment(),
            Bounds(hook.timeout_s, REASON_SIZE_MAX),
            data=data,
            has_output=False,
            scope=TerminationScope.GROUP_AT_ONCE,
        )
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no home is known
        return failed(f"cannot be run: {getattr(error, 'strerror', None) or error}")
    if ran.problem:
        return failed(ran.problem)
    code, told = ran.status, ran.err.decode(errors="replace").strip()
    if code == 0:
        return HookReply()
    if code < 0:
        return failed(f"was ended by signal {-code}")
    if code == _REFUSAL_CODE:
        return HookReply(no=f"{name}: {told}" if told else f"the hook {name} said no, and not why")
    why = f": {told}" if told else ""
    return HookReply(warning=f"the hook {name} ended with exit code {code}{why}")


def _resolve_program(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words with the program's path: found, or with the home folder in place of a mark.

    Raises:
        ValueError: there is no such program, or only where commands may write.
    """
    name, *arguments = words
    if name.startswith("~"):
        name = str(Path(name).expanduser())
    program = helper_programs.find_program(name)
    if program is None:
        raise ValueError(helper_programs.why_missing(name))
    return (program, *arguments)
