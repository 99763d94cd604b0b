"""A desk to work at: a store, a model that is watched, tools made of functions, a folder."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from runtime.clock import tick
from runtime.disks import WatchedDisk
from treadle.core.approval import Scope
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import ModelEvent
from treadle.core.llm import LlmRequest, ModelTraits
from treadle.core.messages import Message, ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    CompletedToolInfo,
    EffectClass,
    Outcome,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.models.scripted.provider import ScriptedModel
from treadle.outputs import Output
from treadle.runtime.options import DriverOptions
from treadle.runtime.ports import Provider, Tools, Writer
from treadle.runtime.session import Session, SessionOptions
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.replay import verify_thread
from treadle.thread.facts import GitObserved
from treadle.tools.background import BackgroundCommands

Success = ToolExecutionOutcome.Success
Failure = ToolExecutionOutcome.Error
CONFIG = AgentConfig(model_name="model-1", system_prompt="be brief")


def ignore(_: object) -> None:
    """Hear it, and do nothing."""


def canonical(request: LlmRequest) -> bytes:
    """The request as bytes: equal if and only if the request is."""

    def plain(value: Any) -> Any:
        assert isinstance(value, Conversation)
        return list(value)

    return msgspec.json.encode(request, enc_hook=plain)


def imbalance(messages: Sequence[Message]) -> str:
    """Why a provider would refuse these messages; empty if each call has its one result."""
    wanted: list[str] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            if not wanted or message.tool_call_id != wanted.pop(0):
                return f"message {place} is a result nobody asked for here"
        elif wanted:
            return f"message {place} stands where results of {wanted} must"
        wanted = wanted or [call.id for call in message.tool_calls]
    return f"no results for {wanted}" if wanted else ""


class Model:
    """A provider that is watched: every request is kept, as bytes too, and must be balanced.

    `refused` holds what a real provider would have refused, and why.
    """

    name = "scripted"

    def __init__(self, *replies: Any, on_request: Callable[[LlmRequest], None] = ignore) -> None:
        self._inner: Provider = ScriptedModel.of(*replies)
        self._on_request = on_request
        self.requests: list[LlmRequest] = []
        self.sent: list[bytes] = []
        self.refused: list[str] = []

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits()

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        problem = imbalance(request.messages)
        if problem:
            self.refused.append(problem)
        self.requests.append(request)
        self.sent.append(canonical(request))
        self._on_request(request)
        async for event in self._inner.stream(request):
            yield event


def calls(*names: str, text: str = "") -> dict[str, Any]:
    """A reply that asks for these tools."""
    asked: list[dict[str, Any]] = [{"tool": name} for name in names]
    return {"text": text, "calls": asked} if text else {"calls": asked}


class Run(Struct):
    """One execution of a call."""

    call: ToolCall
    key: str
    progress: Callable[[ToolProgress], None]

    @property
    def name(self) -> str:
        return self.call.tool_name


Does: TypeAlias = Callable[[Run], Awaitable[Any]] | str
"""What a tool does: a text it returns, or a function of the run."""


class Tool(Struct):
    """A tool of the box."""

    effect: EffectClass
    does: Does = "fine"


def read(does: Does = "fine") -> Tool:
    return Tool(EffectClass.READ, does)


def idempotent(does: Does = "fine") -> Tool:
    return Tool(EffectClass.IDEMPOTENT, does)


def mutate(does: Does = "fine") -> Tool:
    return Tool(EffectClass.MUTATE, does)


class Toolbox:
    """Tools made of functions; keeps every run that began, and the ids of those that ended."""

    def __init__(self, **tools: Tool) -> None:
        self.tools = tools
        self.runs: list[Run] = []
        self.ended: list[str] = []

    @property
    def ran(self) -> list[str]:
        """The names of the tools that were run, in order."""
        return [run.name for run in self.runs]

    def definitions(self) -> Sequence[ToolDefinition]:
        return [
            ToolDefinition(name, f"does {name}", {"type": "object"}, tool.effect)
            for name, tool in self.tools.items()
        ]

    def risk_of(self, call: ToolCall) -> None:
        return None

    def scope_of(self, call: ToolCall) -> Scope | None:
        return None

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        tool = self.tools.get(call.tool_name)
        if tool is None:
            return Failure(call.id, ToolError(ToolErrorKind.NOT_FOUND, call.tool_name))
        try:
            json.loads(call.arguments_json)
        except ValueError as error:
            return Failure(call.id, ToolError(ToolErrorKind.INVALID_ARGUMENTS, str(error)))
        run = Run(call, key, progress)
        self.runs.append(run)
        try:
            result = tool.does if isinstance(tool.does, str) else await tool.does(run)
        finally:
            self.ended.append(call.id)
        return Success(call.id, result) if isinstance(result, str) else result


async def for_ever(_: Run) -> str:
    """What a tool does that never ends by itself."""
    await asyncio.Event().wait()
    return "never"


class Hooked(Struct):
    """What a hook did."""

    action_taken: bool = True
    note: str = "committed"
    commit: str | None = None
    observed: GitObserved | None = None


class Round(Struct):
    """What a hook was told."""

    completed: list[CompletedToolInfo]
    before: GitObserved | None
    is_whole: bool
    trailer: str


class Folder:
    """A repository whose HEAD counts its commits; the hook makes one."""

    def __init__(self, hook: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.head = 1
        self.rounds: list[Round] = []
        self.looks = 0
        self._hook = hook
        self.on_look: Callable[[], Awaitable[None]] = tick

    async def observe(self) -> GitObserved | None:
        self.looks += 1
        await self.on_look()
        return GitObserved("main", f"{self.head:040x}")

    async def after_tools(
        self,
        completed: Sequence[CompletedToolInfo],
        before: GitObserved | None,
        *,
        is_whole: bool,
        trailer: str,
    ) -> Hooked:
        self.rounds.append(Round(list(completed), before, is_whole, trailer))
        if self._hook is not None:
            await self._hook()
        self.head += 1
        return Hooked()


class Heard:
    """Listens to a session; one can wait for what it will say."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.on_output: Callable[[Output], None] = ignore
        self._waiting: list[tuple[type, int, asyncio.Future[None]]] = []

    def __call__(self, output: Output) -> None:
        self.outputs.append(output)
        self.on_output(output)
        for kind, count, future in self._waiting:
            if not future.done() and len(self.of(kind)) >= count:
                future.set_result(None)

    def of(self, kind: type) -> list[Any]:
        """The outputs of one kind."""
        return [output for output in self.outputs if isinstance(output, kind)]

    async def until(self, kind: type, count: int = 1) -> None:
        """Wait for so many outputs of a kind."""
        if len(self.of(kind)) < count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((kind, count, future))
            await future


class Desk:
    """A store on a watched disk, and short ways to open sessions on it and to look at journals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = WatchedDisk()
        self.heard = Heard()
        self.providers: list[Provider] = []
        self._seconds = itertools.count()
        self.store = self._make_store()

    def _make_store(self) -> LocalStore:
        places = Places(self.folder / "data", self.folder / "state", self.folder / "config")
        return LocalStore(places, disk=self.disk, now=self._now)

    def _now(self) -> str:
        seconds = next(self._seconds)
        return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000000Z"

    def crash(self) -> None:
        """The process dies, and another one begins, with a disk and ears of its own."""
        self.disk.kill()
        self.disk = WatchedDisk()
        self.heard = Heard()
        self.store = self._make_store()

    def new(
        self,
        model: Provider,
        tools: Toolbox | None = None,
        config: AgentConfig | None = CONFIG,
        **rest: Any,
    ) -> Session:
        """A session on a new thread."""
        return self.sit(self.store.create("test"), model, tools, config, **rest)

    def reopen(
        self,
        thread_id: str,
        model: Provider,
        tools: Toolbox | None = None,
        config: AgentConfig | None = None,
        **rest: Any,
    ) -> Session:
        """A session on a thread that is there."""
        return self.sit(self.store.open(thread_id), model, tools, config, **rest)

    def sit(
        self,
        writer: Writer,
        model: Provider,
        tools: Toolbox | None = None,
        config: AgentConfig | None = CONFIG,
        **rest: Any,
    ) -> Session:
        """A session on this writer."""
        self.providers.append(model)
        rest.setdefault("on_output", self.heard)
        return open_session(writer, model, tools or Toolbox(), config, **rest)

    def journal(self, thread_id: str) -> Path:
        return self.folder / "data" / "threads" / f"{thread_id}.jsonl"

    def events(self, thread_id: str) -> list[dict[str, Any]]:
        """The events that are durable, read from the file."""
        lines = self.disk.durable(self.journal(thread_id)).splitlines()
        return [json.loads(line)["event"] for line in lines]

    def kinds(self, thread_id: str) -> list[str]:
        """The types of the events that are durable."""
        return [event["type"] for event in self.events(thread_id)]

    def refused(self) -> list[str]:
        """What providers were asked that a real one would have refused."""
        return [why for model in self.providers for why in getattr(model, "refused", ())]

    def check(self, session: Session) -> None:
        """The thread folds from its journal to what the session has; every record is intact."""
        thread_id = session.thread_id
        report = verify_thread(self.store, thread_id)
        assert report.is_good, report.text
        assert report.condition == "clean"
        live, again = (
            session.driver.journal.writer.fold,
            self.store.load(thread_id, report.version).fold,
        )
        assert again.document() == live.document()
        assert again.machine.obligations() == live.machine.obligations()
        assert again.queued == live.queued
        assert again.turn_steps == live.turn_steps


def open_session(
    writer: Writer,
    model: Provider,
    tools: Tools,
    config: AgentConfig | None = None,
    **rest: Any,
) -> Session:
    """A session with these options of the driver and of conversations, by name."""
    of_turns = {name: rest.pop(name) for name in SessionOptions.__struct_fields__ if name in rest}
    return Session(writer, model, tools, config, DriverOptions(**rest), SessionOptions(**of_turns))


def roles(messages: Sequence[Message]) -> list[str]:
    return [message.role for message in messages]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages]


def calls_of(messages: Sequence[Message]) -> Mapping[str, str]:
    """The results in a conversation, by the name of their tool."""
    return {m.name or "": m.content for m in messages if m.role == "tool"}
