"""A redactor that fails on a text costs that text, not the turn; and nothing it held is seen."""

from __future__ import annotations

from runtime.desk import Desk, Model, Run, Toolbox, calls, read
from treadle import outputs
from treadle.runtime.fail_closed_redaction import UNREADABLE_LABEL, make_fail_closed_streams

ODD = "what nobody can read"


class Stumbling:
    """Fails on one text, wherever it stands; its streams fail on it too, and for good."""

    def redact(self, text: str) -> str:
        assert ODD not in text
        return text

    def stream(self) -> Stumbling:
        return self

    def feed(self, piece: str) -> str:
        return self.redact(piece)

    def end(self) -> str:
        return self.redact(ODD)


async def test_a_redactor_that_fails_costs_the_text_and_not_the_turn(desk: Desk) -> None:
    async def work(_: Run) -> str:
        return f"found {ODD}"

    model = Model(calls("work"), f"I read {ODD}")
    session = desk.new(model, Toolbox(work=read(work)), redactor=Stumbling())
    first = await session.turn(f"look at {ODD}")
    assert first.answer == UNREADABLE_LABEL
    told = [message.content for message in session.conversation if message.role != "assistant"]
    assert told == [UNREADABLE_LABEL, UNREADABLE_LABEL]
    for data in [*model.sent, *(path.read_bytes() for path in desk.folder.rglob("*.jsonl"))]:
        assert ODD.encode() not in data
    assert desk.heard.of(outputs.TextDelta)[-1].text == UNREADABLE_LABEL
    assert (await session.turn("go on")).outcome is outputs.TurnOutcome.DONE
    desk.check(session)


def test_of_a_stream_that_fails_one_label_is_shown_and_nothing_after_it() -> None:
    stream = make_fail_closed_streams(Stumbling)()
    told = [stream.feed(piece) for piece in ("a ", f"b {ODD}", "c ")]
    assert [*told, stream.end()] == ["a ", UNREADABLE_LABEL, "", ""]
    assert make_fail_closed_streams(Stumbling)().end() == ""
