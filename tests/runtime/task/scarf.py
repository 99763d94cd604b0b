"""A task that goes through all nine states, for processes that die in them and others that resume.

It cuts, then looks, stitches and sews at once, then asks a person whether it may burn the rest; its
history is summed up by the model after each round. Its first request fails once in the life of the
folder, as a network does that was down for a while. `PATH` are the states of an uninterrupted run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import Folder, Model, Run, Toolbox, calls, idempotent, ignore, mutate, read
from treadle.core.approval import Approved, Question, ToolBased
from treadle.core.config import AgentConfig as Settings
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, ModelTraits
from treadle.core.task.events import TaskConfig
from treadle.core.task.trace import Trace
from treadle.core.tools import RiskLevel
from treadle.outputs import Output
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.runtime.ports import Provider, ThreadStore
from treadle.store.disk import Disk, PosixDisk
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places

TASK: Final = "Make me a scarf"
ANSWER: Final = "The scarf is done, and it is warm."
SUMMARY: Final = "The wool was cut."
MUTATING: Final = ("cut", "stitch", "burn")

SUMMING: Final[dict[str, Any]] = {
    "when": {"system": "^You write the summary", "last_role": "user"},
    "text": SUMMARY,
}
REPLIES: Final[tuple[Any, ...]] = (
    SUMMING,
    {"when": {"last": f"^{TASK}$"}, **calls("cut", text="First I cut.")},
    {"when": {"tool": "cut"}, **calls("look", "stitch", "sew")},
    {"when": {"tool": "sew"}, **calls("burn")},
    {"when": {"tool": "burn"}, "text": ANSWER},
)
PATH: Final = (
    *("Idle", "Planning", "Acting", "Observing", "Reflecting"),
    *("Planning", "ParallelActing", "Observing", "Reflecting"),
    *("Planning", "WaitingForHuman", "Acting", "Observing", "Reflecting"),
    *("Planning", "Done"),
)


class Weak(Provider):
    """A provider whose network is down when it is first used, once in the life of a folder."""

    name = "scripted"

    def __init__(self, inner: Model, mark: Path) -> None:
        self.inner = inner
        self._mark = mark

    def traits(self, model: str) -> ModelTraits:
        return self.inner.traits(model)

    async def count_tokens(self, request: LlmRequest) -> int | None:
        return None

    async def aclose(self) -> None:
        return

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        events = self.inner.stream(request)
        if self._mark.exists():
            async for event in events:
                yield event
            return
        self.inner._on_request(request)
        self._mark.touch()
        yield LlmEvent.Error(LlmError(LlmErrorKind.NETWORK, "down", retry_after_s=0.01))


def make_tools(effects: Path, during: Callable[[str], Awaitable[None]]) -> Toolbox:
    """Tools whose effects are lines of a file, each with the key of its call."""

    async def work(run: Run) -> str:
        with effects.open("a") as file:
            file.write(f"{run.name} {run.key}\n")
        await during(run.name)
        return f"{run.name} ran"

    return Toolbox(
        cut=mutate(work),
        look=read(work),
        stitch=mutate(work),
        sew=idempotent(work),
        burn=mutate(work),
    )


def make_store(folder: Path, disk: Disk | None = None) -> LocalStore:
    places = Places(folder / "data", folder / "state", folder / "config")
    return LocalStore(places, disk=disk or PosixDisk())


async def pause(_: str = "") -> None:
    await tick()


def scarf(
    folder: Path,
    store: ThreadStore,
    *,
    during: Callable[[str], Awaitable[None]] = pause,
    hook: Callable[[], Awaitable[Any]] = pause,
    on_request: Callable[[LlmRequest], None] = ignore,
    on_output: Callable[[Output], None] = ignore,
    decide: Callable[[Question], Any] | None = lambda _: Approved(),
    **limits: Any,
) -> AgentBuilder:
    """The agent; what it does is done in `folder`."""
    config = TaskConfig(reflect_every_n_steps=1, model_written_reflection=True)
    agent = (
        AgentBuilder(TASK, config=replace(config, **limits), store=store)
        .llm(Weak(Model(*REPLIES, on_request=on_request), folder / "was-down"))
        .tools(make_tools(folder / "effects", during))
        .settings(Settings(model_name="model-1", approval=ToolBased({"burn": RiskLevel.HIGH})))
        .workspace(Folder(hook))
        .on_output(on_output)
    )
    return agent if decide is None else agent.on_approval(decide)


def effects_in(folder: Path) -> list[str]:
    """What the tools did: a name and a key for each."""
    file = folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


def story(trace: Trace) -> list[tuple[int, str, str, str]]:
    """The trace without its times."""
    return [(entry.step, entry.state, entry.event, entry.data) for entry in trace]


async def told(engine: AgentEngine) -> tuple[str, list[tuple[int, str, str, str]]]:
    """Run it to its end: the answer and the story."""
    answer = await engine.run()
    return answer, story(engine.trace)
