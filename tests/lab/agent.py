"""The agent of the lab: a model, tools and a workspace that do what the prompt says.

A prompt is a plan: `add+read; !read; say done` asks for two calls, then for one after a failed
request, then ends the turn. The model has no memory of its own, so a plan goes on after a crash
where the thread stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from lab.world import Allowed, Begun, Ended, Said, World
from treadle.answers import Answer, Resolution
from treadle.core.approval import Question, Scope
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, ModelTraits, Usage
from treadle.core.messages import Message, ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    Access,
    CompletedToolInfo,
    EffectClass,
    Outcome,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.runtime.session import Session
from treadle.thread.facts import GitObserved
from treadle.tools.background import BackgroundCommands

HELPER = "helper"

EFFECTS = {
    "read": EffectClass.READ,
    "add": EffectClass.MUTATE,
    "fail": EffectClass.MUTATE,
    "idem": EffectClass.IDEMPOTENT,
    "cancel": EffectClass.READ,
    "close": EffectClass.MUTATE,
    "more": EffectClass.READ,
    "steer": EffectClass.READ,
    "big": EffectClass.READ,
    "grave": EffectClass.MUTATE,
    "peek": EffectClass.MUTATE,
    "post": EffectClass.MUTATE,
    HELPER: EffectClass.IDEMPOTENT,
}
"""`add` has one effect; `fail` has it too and fails then; `cancel` cancels the turn it runs in;
`close`, when it runs first, closes the session and never ends; `more` says something while the
agent is busy, and `steer` something that the same turn hears; `big` says more than a message holds;
`grave` needs a person's yes; `peek` and `post` are calls of a tool that may change things, the one
of those that can only read, the other not; the helper is a sub-agent."""

ACCESS = {"peek": Access.READ, "post": Access.WRITE}
"""What the scope of a call says that it may change, where it says that."""
KIND = "dig"
"""The kind of all calls that need a yes."""

MORE = "add; say that too"
HELPER_TASK = "add+read; say it is done as I was told to do it"
DONE = "say it is done, as far as anybody knows"
"""Short answers end no task."""
BIG_OUTPUT = "all of it " * 5_000


def may_change(tool: str) -> bool:
    """Whether a call of this tool may change something."""
    return EFFECTS[tool] is not EffectClass.READ and ACCESS.get(tool) is not Access.READ


def may_repeat(tool: str) -> bool:
    """Whether a call of this tool may run again, and nobody needs to be told."""
    return EFFECTS[tool] is not EffectClass.MUTATE or ACCESS.get(tool) is Access.READ


class Model:
    """Answers by the plan of the last prompt.

    Args:
        world: is told what it has seen.
        thread: whose model it is; empty where it is not shown all that was said there.
    """

    name = "lab"

    def __init__(self, world: World, thread: str = "") -> None:
        self._world = world
        self._thread = thread
        self._failed: set[int] = set()

    def traits(self, model: str) -> ModelTraits:
        """Nothing is known of it."""
        return ModelTraits()

    async def stream(
        self, request: LlmRequest
    ) -> AsyncGenerator[LlmEvent.TextDelta | LlmEvent.Completed | LlmEvent.Error, None]:
        messages = request.messages
        if self._thread:
            self._world.seen(self._thread, messages)
        step = _step(messages)
        if step.startswith("!") and len(messages) not in self._failed:
            self._failed.add(len(messages))
            yield LlmEvent.Error(LlmError(LlmErrorKind.OVERLOADED, "busy", retry_after_s=0.0))
            return
        step = step.removeprefix("!")
        calls: tuple[ToolCall, ...] = ()
        if step.startswith("say"):
            yield LlmEvent.TextDelta(step)
        else:
            calls = tuple(
                ToolCall(f"c{len(messages)}-{index}", name, _arguments(name))
                for index, name in enumerate(step.split("+"))
            )
        text = step.partition(" ")[2] or f"I do {step}"
        if text.startswith("much"):
            text = "much " * 600
        yield LlmEvent.Completed(LlmResponse(Message.assistant(text, calls), Usage(10, 5), "stop"))


def _step(messages: Sequence[Message]) -> str:
    """What the plan of the last prompt says to do now."""
    done = 0
    for message in reversed(messages):
        if message.role == "user":
            steps = [step.strip() for step in message.content.split(";")]
            return steps[done] if done < len(steps) and _is_step(steps[done]) else DONE
        done += message.role == "assistant"
    return DONE


def _is_step(text: str) -> bool:
    """Whether it is a step of a plan, and not what Treadle itself asks for, such as a summary."""
    names = text.removeprefix("!").split("+")
    return text.startswith("say") or all(name in EFFECTS for name in names)


def _arguments(tool: str) -> str:
    return f'{{"task": "{HELPER_TASK}"}}' if tool == HELPER else "{}"


class Toolbox:
    """Runs calls; every effect is noted in the world before and after it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.session: Session | None = None
        self.on_close: Callable[[], None] = _ignore
        self._said: set[asyncio.Task[object]] = set()

    def definitions(self) -> Sequence[ToolDefinition]:
        schema = {"type": "object", "properties": {}}
        return [
            ToolDefinition(name, name, schema, effect)
            for name, effect in EFFECTS.items()
            if name != HELPER
        ]

    def risk_of(self, call: ToolCall) -> None:
        return None

    def scope_of(self, call: ToolCall) -> Scope | None:
        access = ACCESS.get(call.tool_name)
        if call.tool_name == "grave":
            place = self._world.place
            return Scope(kinds=(KIND,), ground=place.ground, content=place.content)
        return None if access is None else Scope(access=access)

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        name, thread = call.tool_name, key.partition(":")[0]
        place, arguments = self._world.place, call.arguments_json
        self._world.note(Begun(thread, call.id, name, key, arguments, place.ground, place.content))
        progress(ToolProgress(0.5))
        await asyncio.sleep(0)
        try:
            self._world.effect(call.id)
        except OSError as error:
            self._world.note(Ended(thread, call.id))
            return ToolExecutionOutcome.Error(call.id, ToolError(ToolErrorKind.IO, str(error)))
        if name == "cancel":
            assert self.session is not None
            self.session.cancel("the person changed their mind")
            await asyncio.Event().wait()
        elif name == "close" and self._runs(call) == 1:
            self.on_close()
            await asyncio.Event().wait()
        elif name == "more":
            await self._say(thread, f"{MORE} {call.id} {len(self._world.notes)}")
        elif name == "steer":
            assert self.session is not None
            text = f"read; say {call.id} {len(self._world.notes)} heard"
            self.session.queue(text, steers=True)
            self._world.note(Said(thread, text))
        self._world.note(Ended(thread, call.id))
        if name == "big":
            return ToolExecutionOutcome.Success(call.id, f"{call.id} {BIG_OUTPUT}")
        if name == "fail":
            return ToolExecutionOutcome.Error(call.id, ToolError(ToolErrorKind.FAILED, "it broke"))
        return ToolExecutionOutcome.Success(call.id, f"{name} {call.id} is done\u2028é\n")

    def _runs(self, call: ToolCall) -> int:
        notes = self._world.notes
        return sum(isinstance(note, Begun) and note.call == call.id for note in notes)

    async def _say(self, thread: str, text: str) -> None:
        """As a person would who types while the agent works, and sees it accepted."""
        assert self.session is not None
        task: asyncio.Task[object] = asyncio.ensure_future(self.session.turn(text))
        self._said.add(task)
        task.add_done_callback(_drop)
        await asyncio.sleep(0)
        if not task.done():
            self._world.note(Said(thread, text))

    async def ask(self, question: Question) -> Answer:
        """A person who always says: run it again."""
        assert self.session is not None
        self._world.note(Allowed(self.session.thread_id, question.call.id))
        return Answer(Resolution.RUN_AGAIN)


def _ignore() -> None:
    pass


def _drop(task: asyncio.Task[object]) -> None:
    """What it raised is raised by the turn it was queued behind as well."""
    if not task.cancelled():
        task.exception()


class Hooked:
    """What the hook did."""

    action_taken = True
    note = "committed"
    commit: str | None = None
    observed: GitObserved | None = None


class Folder:
    """A repository whose HEAD is the number of effects so far."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def observe(self) -> GitObserved:
        await asyncio.sleep(0)
        count = sum(isinstance(note, Ended) for note in self._world.notes)
        return GitObserved("main", f"{count:040x}", dirty=count % 2 == 1)

    async def after_tools(
        self,
        completed: Sequence[CompletedToolInfo],
        before: GitObserved | None,
        *,
        is_whole: bool,
        trailer: str,
    ) -> Hooked:
        await asyncio.sleep(0)
        return Hooked()
