"""A model remembers nothing: processes may die, sessions may share it."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.conformance import drain, request, text_of
from models.playing import CALL, after, answer, completed, play
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message
from treadle.errors import ScriptError
from treadle.models.scripted.provider import ScriptedModel
from treadle.models.scripted.script import Script, load_script, make_script, parse_script

FIX = """
[[replies]]
when.system = "commit message"
text = "fix: it"

[[replies]]
when.last = "^ERROR"
text = "That failed."

[[replies]]
text = "I look."
calls = [{ tool = "read_file", arguments = { path = "a.py" } }]

[[replies]]
calls = [{ tool = "edit_file" }, { tool = "bash" }]

[[replies]]
text = "Done."
"""


def requests_of(script: Script, turns: int) -> Iterator[LlmRequest]:
    """Every request of a session of so many turns."""
    model = ScriptedModel(script)
    conversation = Conversation()
    for turn in range(turns):
        conversation = conversation.append(Message.user(f"turn {turn}"))
        while True:
            asked = LlmRequest("m", conversation)
            yield asked
            message = completed(model, asked)
            conversation = conversation.append(message)
            conversation = conversation.extend(Message.tool(c, "ok") for c in message.tool_calls)
            if not message.tool_calls:
                break


CHILD = """
import asyncio, sys, msgspec
from treadle.core.conversation import Conversation
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message
from treadle.models.scripted.script import load_script
from treadle.models.scripted.provider import ScriptedModel

async def main():
    messages = msgspec.json.decode(sys.argv[2], type=list[Message])
    model = ScriptedModel(load_script(sys.argv[1]))
    async for event in model.stream(LlmRequest("m", Conversation(messages))):
        print(event)

asyncio.run(main())
"""


class TestResuming:
    def test_a_new_model_of_the_same_file_answers_every_request_the_same(self, tmp_path):
        path = tmp_path / "fix.toml"
        path.write_text(FIX)
        asked = list(requests_of(load_script(path), turns=3))
        assert len(asked) == 9
        model = ScriptedModel(load_script(path))
        for each in asked:
            told = play(model.stream(each))
            assert play(ScriptedModel(load_script(path)).stream(each)) == told
            assert play(model.stream(each)) == told

    def test_another_process_answers_the_same(self, tmp_path):
        path = tmp_path / "fix.toml"
        path.write_text(FIX)
        *_, asked, _ = requests_of(load_script(path), turns=2)
        messages = msgspec.json.encode(tuple(asked.messages)).decode()
        argv = [sys.executable, "-c", CHILD, str(path), messages]
        told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        here = play(ScriptedModel(load_script(path)).stream(asked))
        assert told.splitlines() == [str(event) for event in here]
        assert "edit_file" in told

    def test_a_conversation_whose_old_turns_are_no_longer_shown_is_answered_the_same(self):
        script = make_script({"replies": [{"text": "zero"}, {"text": "one"}]})
        turn = after("go", "x")
        whole = [*after("long ago", "x", "y"), Message.assistant("done"), *turn]
        assert answer(ScriptedModel(script), *whole) == "one"
        assert answer(ScriptedModel(script), "a summary", *turn) == "one"

    def test_failures_start_again_with_the_process(self):
        script = make_script({"replies": [{"error": {"kind": "server"}}, {"text": "fine"}]})
        model = ScriptedModel(script)
        assert [answer(model, "a"), answer(model, "a")] == ["!server", "fine"]
        assert answer(ScriptedModel(script), "a") == "!server"

    WORDS = st.sampled_from(["fix", "test", "ok", "ERROR", ""])
    MESSAGES = st.one_of(
        WORDS.map(Message.user),
        st.builds(lambda text: Message.assistant(text, (CALL,)), WORDS),
        st.builds(lambda text: Message.tool(CALL, text), WORDS),
    )
    WHENS = st.fixed_dictionaries(
        {},
        optional={
            "user": WORDS,
            "last": WORDS,
            "seen": WORDS,
            "last_role": st.sampled_from(["user", "assistant", "tool"]),
            "tool": st.sampled_from(["read_file", "bash"]),
            "step": st.integers(0, 3),
        },
    )

    @settings(max_examples=200)
    @given(
        whens=st.lists(WHENS, min_size=1, max_size=6),
        asked=st.lists(st.lists(MESSAGES, max_size=8), min_size=1, max_size=6),
    )
    def test_the_answer_depends_on_the_request_alone(self, whens, asked):
        replies = [{"when": when, "text": str(index)} for index, when in enumerate(whens)]
        try:
            script = make_script({"replies": replies})
        except ScriptError:
            assume(False)
        old = ScriptedModel(script)
        for messages in [*asked, *reversed(asked)]:
            last_turn = messages[self.start_of_turn(messages) :]
            new = ScriptedModel(script)
            assert answer(old, *messages) == answer(new, *messages) == answer(new, *last_turn)

    @staticmethod
    def start_of_turn(messages: list[Message]) -> int:
        starts = [index for index, message in enumerate(messages) if message.role == "user"]
        return starts[-1] if starts else 0


class TestSharing:
    def test_sessions_that_share_a_model_do_not_disturb_each_other(self):
        script = parse_script(FIX.encode(), "fix.toml")
        shared = ScriptedModel(script)
        ann, ben = requests_of(script, turns=2), requests_of(script, turns=3)
        for ann_asks, ben_asks in itertools.zip_longest(ann, ben):
            for asked in filter(None, (ann_asks, ben_asks)):
                alone = ScriptedModel(script)
                assert play(shared.stream(asked)) == play(alone.stream(asked))

    def test_the_count_of_a_failure_is_shared(self):
        model = ScriptedModel.of({"cut": True, "times": 2}, "fine")
        assert [answer(model, who) for who in ("ann", "ben", "ann", "ben")] == ["?", "?"] + [
            "fine"
        ] * 2

    async def test_a_thousand_streams_at_once_get_each_its_own_reply(self):
        model = ScriptedModel.of(
            {"when": {"user": "odd"}, "text": "o" * 100, "delay_s": 1, "chunk_size": 10},
            {"text": "e" * 100, "delay_s": 1, "calls": [{"tool": "t"}]},
            sleep=lambda _: asyncio.sleep(0),
        )
        asked = [request(("even", "odd")[number % 2]) for number in range(1000)]
        heard = await asyncio.gather(*(drain(model.stream(each)) for each in asked))
        for number, events in enumerate(heard):
            assert text_of(events) == ("e", "o")[number % 2] * 100
            assert len(events[-1].response.tool_calls) == 1 - number % 2

    async def test_of_a_thousand_streams_at_once_exactly_times_fail(self):
        model = ScriptedModel.of({"cut": True, "times": 7, "text": "x"}, "fine")
        heard = await asyncio.gather(*(drain(model.stream(request("a"))) for _ in range(1000)))
        ends = [type(events[-1]) for events in heard]
        assert ends.count(LlmEvent.TextDelta) == 7
