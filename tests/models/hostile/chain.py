"""The whole chain: a server on the loopback, a provider, a session, tools, a thread on a disk."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from models.hostile.formats import MODEL, TOOLS, Format, check_error, problem_on_the_wire
from models.hostile.raw_server import RawServer
from models.loopback import Answer, Seen, pieces, stream
from runtime.clock import tick
from runtime.desk import Desk, Run, Toolbox, imbalance, mutate
from treadle.core.config import AgentConfig
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.outputs import Retrying, TurnFinished, TurnOutcome

CONFIG: Final = AgentConfig(
    model_name=MODEL, system_prompt="be brief", max_retries=1, max_steps=4, llm_timeout_s=60
)
BOUND_S: Final = 100.0
"""No turn of any case may take longer; most take milliseconds."""

FINE: Final = "Fine."

Reply = Answer | bytes | Callable[[Seen], Answer]
"""An answer of the server; bytes are a stream, sent whole."""


class Case(Struct, frozen=True):
    """What came of one case: two turns of a session, the first of them with hostile answers."""

    first: TurnFinished
    runs: list[Run]
    """Of tools."""
    ran_before: list[int]
    """How many runs had begun when each request arrived."""
    seen: list[Seen]
    failures: list[LlmError]
    """All that the model's answers failed with, retried or not."""
    journal: list[dict[str, Any]]

    @property
    def bodies(self) -> list[bytes]:
        return [seen.body for seen in self.seen]


class Chain:
    """One server and one provider; any number of sessions, one after another.

    Args:
        wire: the format that is spoken.
        folder: for the threads.
    """

    def __init__(self, wire: Format, folder: Path) -> None:
        self.wire = wire
        self._desk = Desk(folder)
        self._script: deque[Reply] = deque()
        self._seen: list[Seen] = []
        self._ran_before: list[int] = []
        self._box = Toolbox()
        self._server = RawServer(self._answer)
        self._server.flies = True

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        self._provider = self.wire.provider(self._server.url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        await self._provider.aclose()
        await self._server.__aexit__(kind, _, __)
        self._desk.disk.kill()

    def _answer(self, seen: Seen) -> Answer:
        self._seen.append(seen)
        self._ran_before.append(len(self._box.runs))
        reply = self._script.popleft() if self._script else self.wire.speak(FINE)
        if isinstance(reply, bytes):
            return stream(reply)
        return reply if isinstance(reply, Answer) else reply(seen)

    def carefully(self, data: bytes, told: list[int]) -> Answer:
        """The stream, with a note before each of its pieces of how many tools have run."""

        async def body() -> AsyncIterator[bytes]:
            for piece in pieces(data, max(1, len(data) // 3)):
                await tick(10)  # what was sent has arrived
                told.append(len(self._box.runs))
                yield piece

        return Answer(body)

    async def case(self, *script: Reply, config: AgentConfig = CONFIG) -> Case:
        """Say something and have it answered by the script, then again by a good stream.

        Whatever the script holds, what the house promises of every thread is checked.
        """
        self._script, self._seen, self._ran_before = deque(script), [], []
        self._box = Toolbox(**{name: mutate() for name in TOOLS})
        heard = self._desk.heard
        heard.outputs.clear()
        session = self._desk.new(self._provider, self._box, config)
        async with asyncio.timeout(BOUND_S):
            first = await session.turn("go")
        assert "makes no sense: " not in first.error, first.error
        assert first.error_kind is not LlmErrorKind.INTERNAL, first.error
        retried = [one.error for one in heard.of(Retrying)]
        for error in retried:
            check_error(error)
        self._script.clear()
        asked = len(self._seen)
        async with asyncio.timeout(BOUND_S):
            second = await session.turn("go on")
        assert second.outcome is TurnOutcome.DONE, second.error
        assert second.answer == FINE
        assert len(self._seen) > asked
        assert imbalance(session.conversation) == ""
        self._desk.check(session)
        await session.close()
        for seen in self._seen:
            problem = problem_on_the_wire(self.wire, seen.body)
            assert problem == "", problem
        journal = self._desk.events(session.thread_id)
        check_journal(journal)
        return Case(first, self._box.runs, self._ran_before, self._seen, retried, journal)


def check_journal(journal: list[dict[str, Any]]) -> None:
    """Each call has one result; none ran before the answer that asks for it was on disk.

    Calls are counted, because the machine gives those new ids whose ids were used before.
    """
    asked = 0
    begun: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for event in journal:
        kind = event["type"]
        if kind == "llm_completed":
            asked += len(event["response"]["message"].get("tool_calls", ()))
        elif kind == "tool_started":
            begun[event["call_id"]] += 1
            assert begun.total() <= asked, "a tool runs only for an answer that is on disk"
        elif kind == "tool_completed":
            ended[event["call_id"]] += 1
    assert set(ended.values()) <= {1}, "no call has two results"
    assert ended == begun
    assert ended.total() == asked, "each call has its result"
