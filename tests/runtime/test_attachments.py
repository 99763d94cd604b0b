"""What a person shows is kept, recorded, and sent with every request that is made of the thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from media_samples import PDF, attachment, png
from runtime.desk import Desk, Model
from treadle import outputs
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, ModelTraits

SHOT = attachment(png())
BAD = attachment(png(4, 4), "bad.png")
REFUSAL = LlmError(LlmErrorKind.BAD_REQUEST, "maker: Could not process image")


class Seer(Model):
    """A model that sees."""

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits(sees_images=True)


class Judge(Seer):
    """A provider that refuses each request which shows one picture."""

    refusal = REFUSAL
    refused_digest = BAD.blob.sha256

    def __init__(self, *replies: str, is_down: bool = False) -> None:
        super().__init__(*replies)
        self._is_down = is_down

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits(sees_images=True, reads_pdf=True)

    async def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._is_down or self.refused_digest in request.contents:
            self.requests.append(request)
            yield LlmEvent.Error(self.refusal)
            return
        async for event in super().stream(request):
            yield event


def told(desk: Desk) -> list[str]:
    return [one.text for one in desk.heard.outputs if isinstance(one, outputs.Notice)]


async def test_the_bytes_go_into_each_request_in_this_process_and_the_next(desk: Desk) -> None:
    model = Seer("a loom", "still")
    session = desk.new(model)
    assert session.keep(png()) == SHOT.blob
    await session.turn("what is it?", (SHOT,))
    session.queue("and now?", (SHOT,))
    await session.resume()
    desk.check(session)
    await session.close()
    assert desk.kinds(session.thread_id).count("input_queued+attachments") == 1
    again = Seer("a loom")
    session = desk.reopen(session.thread_id, again)
    await session.turn("sure?")
    await session.close()
    shown = [one.attachments for one in desk.heard.of(outputs.TurnStarted)]
    assert shown == [(SHOT,), (SHOT,), ()]
    sent = [one.contents for one in (*model.requests, *again.requests)]
    assert sent == [{SHOT.blob.sha256: png()}] * 3
    assert again.requests[0].messages[:3] == model.requests[1].messages[:3]
    assert told(desk) == []


async def test_who_is_not_shown_it_and_what_is_gone_are_told_once(desk: Desk) -> None:
    blind = Model("hm", "hm")
    session = desk.new(blind)
    session.keep(png())
    await session.turn("what is it?", (SHOT,))
    await session.turn("look again")
    await session.close()
    why = "it is not known whether this model sees pictures"
    assert told(desk) == [f"the model is not shown shot.png: {why}"]
    desk.heard.outputs.clear()
    (desk.folder / "data" / "blobs" / SHOT.blob.sha256).unlink()
    seer = Seer("hm", "hm")
    session = desk.reopen(session.thread_id, seer)
    await session.turn("and you?")
    await session.turn("look again")
    await session.close()
    assert [one.contents for one in seer.requests] == [{}, {}]
    assert told(desk) == ["the model is not shown shot.png: its bytes are not on this machine"]


async def test_what_its_provider_refuses_is_left_out_and_the_thread_goes_on(desk: Desk) -> None:
    judge = Judge("a loom")
    session = desk.new(judge)
    session.keep(png())
    session.keep(png(4, 4))
    await session.turn("what is it?", (SHOT,))
    assert (await session.turn("and this?", (BAD,))).answer == "a loom"
    await session.turn("and now?")
    desk.check(session)
    await session.close()
    shown = [sorted(one.contents) for one in judge.requests]
    both = sorted((SHOT.blob.sha256, BAD.blob.sha256))
    assert shown == [[SHOT.blob.sha256], both, [SHOT.blob.sha256], [SHOT.blob.sha256]]
    assert judge.requests[3].messages[:3] == tuple(judge.requests[2].messages)
    assert "Not shown, its provider refuses it: bad.png" in judge.requests[2].messages[2].content
    why = "its provider refuses it: maker: Could not process image"
    assert told(desk) == [f"the model is not shown bad.png: {why}"]
    # The next process finds it again, by the same way.
    session = desk.reopen(session.thread_id, Judge("still"))
    assert (await session.turn("sure?")).answer == "still"
    await session.close()


async def test_a_document_longer_than_all_that_a_model_reads_is_left_out(desk: Desk) -> None:
    paper = attachment(PDF, "paper.pdf")
    judge = Judge("a loom", "hm")
    judge.refusal = LlmError(LlmErrorKind.CONTEXT_TOO_LONG, "maker: prompt is too long")
    judge.refused_digest = paper.blob.sha256
    session = desk.new(judge)
    session.keep(PDF)
    session.keep(png())
    assert (await session.turn("read it", (SHOT, paper))).answer == "a loom"
    assert [len(one.contents) for one in judge.requests] == [2, 1]
    assert told(desk)[-1].startswith("the model is not shown paper.pdf: its provider refuses it")
    desk.check(session)
    await session.close()


async def test_what_is_refused_without_its_pictures_too_is_not_their_fault(desk: Desk) -> None:
    judge = Judge("a loom", is_down=True)
    session = desk.new(judge)
    session.keep(png())
    finished = await session.turn("what is it?", (SHOT,))
    assert finished.error is not None
    assert [len(one.contents) for one in judge.requests] == [1, 0]
    assert told(desk) == []
    await session.close()
