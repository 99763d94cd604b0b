"""Watchers in other processes are told what people are shown of an answer, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from runtime.desk import Desk, Model, Toolbox, calls, read
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmRequest
from treadle.outputs import ThinkingDelta
from treadle.secrets.redaction import Redactor


class Heard:
    """What a watcher was told, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def begin(self, version: int) -> None:
        self.told.append(version)

    def add(self, text: str) -> None:
        self.told.append(text)

    def end(self) -> None:
        self.told.append("end")

    def close(self) -> None:
        self.told.append("close")


async def test_each_answer_begins_at_a_version_and_ends(desk: Desk) -> None:
    live = Heard()
    model = Model(calls("look", text="I look."), {"chunks": ["It is", " fine."]})
    session = desk.new(model, Toolbox(look=read()), live=live)
    await session.turn("go")
    await session.close()
    kinds = desk.kinds(session.thread_id)
    first = kinds.index("llm_completed")
    second = kinds.index("llm_completed", first + 1)
    assert live.told == [
        *(first, "I look.", "end"),
        *(second, "It is", " fine.", "end"),
        "close",
    ]


async def test_a_secret_that_comes_in_pieces_is_told_to_no_watcher(desk: Desk) -> None:
    live, secret = Heard(), "correct-horse-battery"
    model = Model({"chunks": ["it is corr", "ect-horse-bat", "tery indeed"]})
    session = desk.new(model, live=live, redactor=Redactor({"key": secret}))
    await session.turn("go")
    told = "".join(one for one in live.told if isinstance(one, str))
    assert told == "it is [REDACTED:key] indeedend"


async def test_what_a_model_thinks_is_told_to_no_watcher(desk: Desk) -> None:
    class Thinker(Model):
        async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
            yield LlmEvent.ThinkingDelta("hm")
            async for event in super().stream(request):
                yield event

    live = Heard()
    session = desk.new(Thinker("done"), live=live)
    await session.turn("go")
    assert len(desk.heard.of(ThinkingDelta)) == 1
    assert live.told[1:] == ["done", "end"]


async def test_an_answer_that_never_comes_ends_too(desk: Desk) -> None:
    live = Heard()
    session = desk.new(Model({"text": "half", "hang": True}, "done"), live=live)
    desk.heard.on_output = lambda _: session.cancel() if "half" in live.told else None
    await session.turn("go")
    assert live.told[1:] == ["half", "end"]
