"""Whatever model, tools, people and the power do, in any order: the thread stays whole."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from runtime.clock import JumpingLoop, tick
from runtime.desk import (
    CONFIG,
    Desk,
    Failure,
    Folder,
    Model,
    Run,
    Tool,
    Toolbox,
    canonical,
    imbalance,
)
from thread.journals import fold_of
from treadle.answers import Answer, Resolution
from treadle.core.approval import Question
from treadle.core.chat.states import ExecutingTools
from treadle.core.llm import LlmRequest
from treadle.core.tools import EffectClass, ToolError, ToolErrorKind
from treadle.errors import StoreError
from treadle.outputs import TurnOutcome
from treadle.runtime.session import Session
from treadle.thread.fold import ThreadFold
from treadle.thread.record import scan_journal
from treadle.thread.recovery import CallProgress, get_call_progress
from treadle.thread.typed_words import strip_additions

EFFECTS = {"look": EffectClass.READ, "put": EffectClass.IDEMPOTENT, "edit": EffectClass.MUTATE}
BEHAVIOURS = ("fine", "fails", "raises", "slow", "for ever", "says how far", "finishes anyway")
AT_ONCE = frozenset(("steer", "take back", "run a command", "take tools away", "give tools back"))


class Trouble(Struct, frozen=True):
    """At the so-many-eth moment, somebody does something."""

    moment: int
    deed: str


class Plan(Struct, frozen=True):
    """What everybody does."""

    replies: tuple[dict[str, Any], ...]
    behaviours: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    resolution: Resolution | None
    has_folder: bool
    max_steps: int


DEEDS = (
    *("cancel", "interrupt", "cancel the task", "say more", "crash", "close", "full disk"),
    *("steer", "take back", "run a command", "take tools away", "give tools back"),
)

_names = st.sampled_from([*EFFECTS, "nobody"])
_replies = st.one_of(
    st.just({"text": "done"}),
    st.lists(_names, min_size=1, max_size=4).map(
        lambda names: {"text": "I do", "calls": [{"tool": name} for name in names]}
    ),
    st.sampled_from(["network", "overloaded"]).map(
        lambda kind: {"text": "I", "error": {"kind": kind, "retry_after_s": 1}}
    ),
    st.just({"error": {"kind": "bad_request"}}),
    st.just({"text": "I was", "cut": True}),
)
_troubles = st.builds(Trouble, st.integers(0, 20), st.sampled_from(DEEDS))
_plans = st.builds(
    Plan,
    replies=st.lists(_replies, min_size=1, max_size=5).map(tuple),
    behaviours=st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=5).map(tuple),
    troubles=st.lists(_troubles, max_size=4).map(tuple),
    resolution=st.sampled_from([None, *Resolution]),
    has_folder=st.booleans(),
    max_steps=st.sampled_from([0, 0, 2]),
)


class Play:
    """One plan, played to its end over as many processes as it takes."""

    def __init__(self, desk: Desk, plan: Plan) -> None:
        self.desk = desk
        self.plan = plan
        self.moment = 0
        self.said: list[str] = []
        """Prompts whose acceptance was seen: on disk."""
        self.runs: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.keys: dict[str, str] = {}
        self.taken_back: list[str] = []
        self.shown: list[str] = []
        """Commands that a person ran, as the model is to be told of them."""
        self.offered = set(EFFECTS)
        self.turns: list[asyncio.Task[Any]] = []
        self.problems: list[str] = []
        """What tools and models saw that must not be; raising there would be data."""
        self.thread_id = ""
        self.session = self._open()

    # ---- the world -----------------------------------------------------------------------------

    def _open(self) -> Session:
        plan, desk = self.plan, self.desk
        self.disk, self.is_disk_good = desk.disk, True
        model = Model(*plan.replies, {"text": "at last"}, on_request=self._on_request)
        tools = Toolbox(**{name: Tool(effect, self._work) for name, effect in EFFECTS.items()})
        writer = desk.store.open(self.thread_id) if self.thread_id else desk.store.create("test")
        self.thread_id = writer.thread_id
        self.offered = set(EFFECTS)
        desk.heard.on_output = lambda _: self._pass()
        config = replace(CONFIG, max_steps=plan.max_steps)
        folder = Folder(self._hook) if plan.has_folder else None
        if folder is not None:
            folder.on_look = self._look
        ask = None if plan.resolution is None else self._ask
        return desk.sit(writer, model, tools, config, workspace=folder, ask=ask)

    def durable(self) -> ThreadFold:
        """The thread as it would be if the power went now."""
        return fold_of(scan_journal(self.disk.durable(self.desk.journal(self.thread_id))).records)

    def _pass(self) -> None:
        """A moment passes; whoever has planned something for it does it."""
        moment, self.moment = self.moment, self.moment + 1  # what is done may make another one
        for trouble in self.plan.troubles:
            if trouble.moment == moment:
                event(trouble.deed)
                self._do(trouble.deed)

    def _do(self, deed: str) -> None:
        if deed == "cancel":
            self.session.cancel()
        elif deed == "interrupt":
            self.session.driver.interrupt()
        elif deed == "cancel the task":
            self.turns[-1].cancel()
        elif deed == "say more":
            self.turns.append(asyncio.ensure_future(self._say(f"more {len(self.turns)}")))
        elif deed == "crash":
            self.is_disk_good = False
            self.disk.kill()
        elif deed == "full disk":
            self.is_disk_good = False
            self.disk.before = self._refuse
        elif deed in AT_ONCE:
            with contextlib.suppress(StoreError):
                self._do_at_once(deed)
        elif deed == "close":
            self.turns.append(asyncio.ensure_future(self._close()))

    def _do_at_once(self, deed: str) -> None:
        """What is durable when it returns."""
        if deed == "steer":
            text = f"steer {len(self.said)} at {self.moment}"  # two may come at one moment
            self.session.queue(text, steers=True)
            self.said.append(text)
        elif deed == "take back":
            text = self.session.queued_inputs[-1][0] if self.session.queued_inputs else ""
            assert (self.session.withdraw_input() or "") == text
            self.taken_back.append(text)
        elif deed == "run a command":
            command = f"make {len(self.shown)} at {self.moment}."
            self.session.record_command_end(command, "built")
            self.shown.append(f"$ {command}\nbuilt")
        else:
            names = ("look",) if deed == "take tools away" else EFFECTS
            tools = {name: Tool(EFFECTS[name], self._work) for name in names}
            self.session.driver.configure(tools=Toolbox(**tools))
            self.offered = set(names)

    def _refuse(self, operation: str, *_: Any) -> None:
        if operation == "write":
            raise OSError(28, "No space left on device")

    async def _say(self, text: str | None) -> None:
        turn = asyncio.ensure_future(
            self.session.resume() if text is None else self.session.turn(text)
        )
        await tick()
        if text is not None and any(
            text == (e.get("message") or {}).get("content")
            for e in self.desk.events(self.thread_id)
            if e["type"] in ("input_queued", "user_input")
        ):
            self.said.append(text)
        with contextlib.suppress(StoreError):
            try:
                await turn
            finally:
                turn.cancel()
                await asyncio.wait({turn})

    async def _close(self) -> None:
        with contextlib.suppress(StoreError):
            await self.session.close()

    def _on_request(self, request: LlmRequest) -> None:
        self._pass()
        shown = LlmRequest(request.model, self.durable().conversation)
        if canonical(shown) != canonical(LlmRequest(request.model, request.messages)):
            self.problems.append("a model was shown what is not durable")

    async def _hook(self) -> None:
        self._pass()
        await tick()

    async def _look(self) -> None:
        self._pass()
        await tick()

    async def _ask(self, question: Question) -> Answer:
        self._pass()
        await tick()
        assert self.plan.resolution is not None
        if self.plan.resolution is Resolution.RUN_AGAIN:
            self.allowed[question.call.id] += 1
        return Answer(self.plan.resolution, "the person says so")

    async def _work(self, run: Run) -> Any:
        state = self.durable().state
        if not isinstance(state, ExecutingTools):
            self.problems.append("a call runs that is not durable")
        elif not any(
            one.call_id == run.call.id and get_call_progress(one) is CallProgress.STARTED
            for one in state.executions
        ):
            self.problems.append("a call runs whose start is not durable")
        if run.name not in self.offered:
            self.problems.append("a call runs whose tool was taken away")
        if self.keys.setdefault(run.call.id, run.key) != run.key:
            self.problems.append("a call has two keys")
        self.runs[run.call.id] += EFFECTS[run.name] is EffectClass.MUTATE
        behaviour = self.plan.behaviours[sum(self.runs.values()) % len(self.plan.behaviours)]
        self._pass()
        if behaviour == "raises":
            raise ValueError(behaviour)
        if behaviour == "fails":
            return Failure(run.call.id, ToolError(ToolErrorKind.FAILED, behaviour))
        if behaviour == "slow":
            await tick(9)
        if behaviour in ("for ever", "says how far", "finishes anyway"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if behaviour == "for ever":
                    raise
                await tick(3)
            if behaviour == "says how far":
                return Failure(run.call.id, ToolError(ToolErrorKind.CANCELLED, "", "half"))
        return behaviour

    # ---- the play ------------------------------------------------------------------------------

    async def play(self) -> None:
        """Work until everything planned has happened and the thread waits."""
        self.turns.append(asyncio.ensure_future(self._say("go")))
        for _ in range(2 * len(self.plan.troubles) + 3):
            while pending := [turn for turn in self.turns if not turn.done()]:
                await asyncio.wait(pending)
            for turn in self.turns:
                assert turn.cancelled() or turn.exception() is None, turn.exception()
            self._check()
            if self.session.is_waiting and not self.session.driver.journal.writer.fold.queued:
                break
            self.turns.append(asyncio.ensure_future(self._say(None)))
        await self._end()

    def _check(self) -> None:
        """The thread is whole; a session that is finished is replaced by one of a new process."""
        if self.session.driver.journal.writer.is_usable and self.is_disk_good:
            self.desk.check(self.session)
            return
        self.desk.crash()
        self.session = self._open()
        self.desk.check(self.session)

    async def _end(self) -> None:
        desk = self.desk
        assert self.session.is_waiting
        self.moment = 1_000  # nobody does anything any more
        finished = await self.session.turn("the end")
        assert finished.outcome in (TurnOutcome.DONE, TurnOutcome.FAILED, TurnOutcome.LIMIT)
        desk.check(self.session)
        conversation = self.session.conversation
        assert imbalance(conversation) == ""
        heard = [message.content for message in conversation if message.role == "user"]
        said = [strip_additions(content) for content in heard]
        for text in self.said:
            if text in self.taken_back:
                assert text not in said, "what was taken back is not heard"
            else:
                assert said.count(text) == 1, "what was accepted is there, once"
        for told in self.shown:
            assert sum(told in content for content in heard) == 1, "a command is told once"
        assert len(said) == len(set(said))
        for call_id, count in self.runs.items():
            assert count <= 1 + self.allowed[call_id], "never run twice without a person's word"
        await self.session.close()
        assert self.problems == desk.refused() == []


async def played(plan: Plan, folder: Path) -> None:
    desk = Desk(folder)
    try:
        await Play(desk, plan).play()
    finally:
        desk.disk.kill()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == [], "nothing runs on"


TWO_CALLS = {"text": "I do", "calls": [{"tool": "look"}, {"tool": "edit"}]}


@settings(max_examples=150, deadline=None)
@given(plan=_plans)
@example(Plan((TWO_CALLS,), ("slow",), (Trouble(4, "crash"), Trouble(9, "crash")), None, True, 0))
@example(
    Plan((TWO_CALLS,), ("for ever",), (Trouble(5, "say more"), Trouble(6, "close")), None, True, 0)
)
@example(
    Plan((TWO_CALLS,), ("slow",), (Trouble(4, "steer"), Trouble(5, "take back")), None, True, 0)
)
@example(Plan((TWO_CALLS,), ("slow",), (Trouble(6, "crash"),), Resolution.RUN_AGAIN, True, 0))
def test_the_thread_stays_whole_whatever_happens(plan: Plan) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=JumpingLoop) as runner,
    ):
        runner.run(played(plan, Path(folder)))
