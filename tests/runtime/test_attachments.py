"""What a person shows is kept, recorded, and sent with every request that is made of the thread."""

from __future__ import annotations

from media_samples import attachment, png
from runtime.desk import Desk, Model
from treadle import outputs
from treadle.core.llm import ModelTraits

SHOT = attachment(png())


class Seer(Model):
    """A model that sees."""

    def traits(self, model: str) -> ModelTraits:
        return ModelTraits(sees_images=True)


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
