"""What a chat shows of what a session tells, as text on a screen."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from prompt_toolkit.utils import get_cwidth

from case_tables import for_every_row
from terminal.recording import RecordingTerminal, drawn
from treadle import outputs
from treadle.core.approval import describe_modified_call
from treadle.core.conversation import Conversation, View
from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.messages import BlobRef, Message, ToolCall
from treadle.core.tools import (
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
    format_outcome,
)
from treadle.outputs import Output, TurnOutcome
from treadle.terminal.ports import STYLES
from treadle.terminal.styles import TEXT_STYLES
from treadle.terminal.view import ChatView
from treadle.thread.facts import CommandShown
from treadle.thread.undelivered_input import append_commands

Success, Failure = ToolExecutionOutcome.Success, ToolExecutionOutcome.Error


class Scene:
    """A view, its terminal, and a clock that tests set."""

    def __init__(
        self, *, width: int = 80, is_plain: bool = False, folder: Path | None = None
    ) -> None:
        self.terminal = RecordingTerminal(width=width, is_plain=is_plain)
        self.now_s = 100.0
        self.view = ChatView(self.terminal, now=lambda: self.now_s, folder=folder)
        self.terminal.view = self.view

    def show(self, *told: Output) -> str:
        for output in told:
            self.view.show(output)
        return self.terminal.text()

    def stream(self, text: str, size: int = 4) -> None:
        for place in range(0, len(text), size):
            self.view.show(outputs.TextDelta(text[place : place + size]))


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, msgspec.json.encode(arguments).decode())


BASH = call("bash", command="npm test")


def finished(outcome: TurnOutcome = TurnOutcome.DONE, **fields: str) -> outputs.TurnFinished:
    used = Usage(1200, 34, cost_usd=Decimal("0.0123"))
    return outputs.TurnFinished("t", outcome, fields.pop("answer", ""), 7, used, used, **fields)


def ended(call: ToolCall, output: str, blob: BlobRef | None = None) -> outputs.ToolFinished:
    return outputs.ToolFinished(call.id, call.tool_name, Success(call.id, output, (), blob))


def failed(call: ToolCall, kind: ToolErrorKind, message: str) -> outputs.ToolFinished:
    error = ToolError(kind, message)
    return outputs.ToolFinished(call.id, call.tool_name, Failure(call.id, error))


def test_a_turn_is_prompt_text_call_result_answer_and_what_it_used() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "run the tests"))
    scene.stream("I will run **them**.\n\nNow:")
    scene.show(outputs.ToolStarted(BASH))
    scene.now_s += 3.2
    scene.show(ended(BASH, "a\nb\nc\nd\ne\nf\ng\n[exit code 0]"))
    scene.stream("All `5` passed.")
    scene.now_s += 1
    assert scene.show(finished()).splitlines() == [
        *("", "> run the tests", "", "I will run them.", "", "Now:", ""),
        *("● $ npm test  exit code 0  3.2 s", "  … 2 earlier lines (Ctrl+O)"),
        *("  c", "  d", "  e", "  f", "  g"),
        *("", "All 5 passed.", "", "─ 1,200 tokens in, 34 out, $0.0123, 4.2 s"),
    ]


def test_text_is_live_until_its_block_is_finished() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "hello"))
    scene.stream("one **bo")
    assert scene.terminal.live().splitlines()[0] == "one bo"
    scene.stream("ld**\n\ntwo")
    assert scene.terminal.text().splitlines()[-1] == "one bold"
    assert scene.terminal.live().splitlines()[0] == "two"


def test_a_call_that_runs_is_a_line_with_its_time_its_size_and_the_end_of_its_output() -> None:
    scene = Scene()
    scene.show(outputs.ToolStarted(BASH))
    for text in ("1\n2\n3", "3\n4\n", "5\n"):
        progress = ToolProgress(message=text, units_processed=1234)
        scene.show(outputs.ToolProgressed("c1", progress))
    scene.now_s += 12
    head, *tail = scene.terminal.live().splitlines()
    assert head[1:] == " $ npm test  1 kB  12 s"
    assert tail == ["  33", "  4", "  5"]


def test_a_fraction_is_a_bar_and_units_are_counted() -> None:
    scene = Scene()
    scene.show(outputs.ToolStarted(call("index", path="src")))
    scene.show(outputs.ToolProgressed("c1", ToolProgress(0.42, "reading", 1500)))
    head, tail = scene.terminal.live().splitlines()
    assert head[1:] == " index src  ▰▰▰▰▱▱▱▱▱▱ 42% 1,500 done  0.0 s"
    assert tail == "  reading"


def test_parallel_calls_are_a_line_each_and_a_result_each() -> None:
    scene = Scene()
    one, two = call("explore", "c1", task="a"), call("explore", "c2", task="b")
    scene.show(outputs.ToolStarted(one), outputs.ToolStarted(two))
    assert [line[2:11] for line in scene.terminal.live().splitlines()] == ["explore a", "explore b"]
    text = scene.show(ended(two, "B"), ended(one, "A"))
    assert text.splitlines() == [
        *("", "● explore b  0.0 s", "  B", "", "● explore a  0.0 s", "  A")
    ]
    assert scene.terminal.live() == ""


def test_a_failure_says_so_in_words_and_not_by_colour_alone() -> None:
    scene = Scene()
    scene.show(outputs.ToolStarted(BASH))
    assert "✗ $ npm test  exit code 2  0.0 s\n  boom" in scene.show(
        ended(BASH, "boom\n[exit code 2]")
    )
    text = scene.show(outputs.ToolStarted(BASH), failed(BASH, ToolErrorKind.TIMEOUT, "after 60 s"))
    assert "✗ $ npm test  failed: Tool execution timed out  0.0 s\n  after 60 s" in text


def test_of_a_command_the_end_is_shown_and_of_a_file_the_beginning() -> None:
    text = "".join(f"{n}\n" for n in range(100))
    scene = Scene()
    read = call("explore", "c2", task="look")
    shown = scene.show(ended(BASH, f"{text}[exit code 1]"), ended(read, text)).splitlines()
    assert shown[2:8] == ["  … 95 earlier lines (Ctrl+O)", *(f"  {n}" for n in range(95, 100))]
    assert shown[-4:] == ["  0", "  1", "  2", "  … 97 more lines (Ctrl+O)"]


@pytest.mark.parametrize(("rows", "shown"), [(24, 16), (60, 52), (6, 10)])
def test_of_a_command_that_the_person_ran_a_screenful_is_shown(rows: int, shown: int) -> None:
    scene = Scene()
    scene.terminal.height = rows
    own = call("!", command="seq 100")
    text = "\n".join([*map(str, range(100)), "[exit code 0]"])
    lines = scene.show(outputs.ToolStarted(own), ended(own, text)).splitlines()
    assert lines[2] == f"  … {100 - shown} earlier lines (Ctrl+O)"
    assert lines[3:] == [f"  {n}" for n in range(100 - shown, 100)]


def test_why_a_command_was_stopped_stands_below_the_end_of_its_output() -> None:
    scene = Scene()
    said = "".join(f"{n}\n" for n in range(9))
    error = ToolError(ToolErrorKind.TIMEOUT, "after 60 s", said.rstrip())
    stopped = outputs.ToolFinished(BASH.id, BASH.tool_name, Failure(BASH.id, error))
    lines = scene.show(outputs.ToolStarted(BASH), stopped).splitlines()
    assert lines[-5:] == ["  5", "  6", "  7", "  8", "  after 60 s"]


def test_of_a_large_output_it_is_not_said_how_much_more_there_is() -> None:
    scene = Scene()
    big = call("bash", "big", command="seq 500")
    kept = BlobRef("0" * 64, 9000)
    text = scene.show(outputs.ToolStarted(big), ended(big, "line 0\n[cut]", kept))
    assert text.splitlines()[2:] == ["  … earlier lines (Ctrl+O)", "  line 0", "  [cut]"]


def test_a_retry_counts_down_and_says_what_begins_again() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "hello"))
    scene.stream("half an ans")
    text = scene.show(outputs.Retrying(LlmError(LlmErrorKind.OVERLOADED, "busy"), 8.0))
    assert "half an ans" in text
    assert "busy" in text
    words = " ".join(text.split("busy")[1].split())
    assert words == "; trying again in 8.0 s: the answer above broke off and begins again"
    scene.now_s += 3
    assert scene.terminal.live()[1:] == " trying again in 5.0 s"
    scene.stream("half")
    assert "trying" not in scene.terminal.live()


def test_thinking_is_live_only() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "hello"), outputs.ThinkingDelta("let me see"))
    assert "∴ let me see" in scene.terminal.live()
    scene.stream("so\n\n")
    scene.show(finished())
    assert "let me see" not in scene.terminal.live() + scene.terminal.text()


def test_an_interrupted_answer_is_kept_and_marked() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "hello"))
    scene.stream("half an ans")
    lines = scene.show(finished(TurnOutcome.CANCELLED)).splitlines()
    assert lines[3] == "half an ans"
    assert lines[5] == "interrupted"
    assert scene.terminal.live() == ""


def test_an_answer_that_did_not_stream_is_shown_too_and_no_other_twice() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "hello"))
    assert "all of it" in scene.show(finished(answer="all of it"))
    scene.show(outputs.TurnStarted("t", "again"))
    scene.stream("streamed")
    assert scene.show(finished(answer="streamed")).count("streamed") == 1


def test_an_error_is_told_once() -> None:
    scene = Scene()
    text = scene.show(
        outputs.TurnStarted("t", "hello"),
        outputs.ErrorShown("no such model"),
        finished(TurnOutcome.FAILED, error="no such model"),
    )
    assert text.count("no such model") == 1
    assert "✗ no such model" in text
    assert "failed" in text


def test_notes_of_the_hook_stand_right_below_the_calls() -> None:
    scene = Scene()
    scene.show(outputs.ToolStarted(BASH), ended(BASH, "ok\n[exit code 0]"))
    text = scene.show(outputs.HookFinished(True, "commit 1234567 Add it"))
    assert text.endswith("\n  ok\n  commit 1234567 Add it\n")


def test_a_note_of_the_hook_stands_by_itself_below_a_call_that_it_is_not_about() -> None:
    scene = Scene()
    read = call("read_file", path="a.py")
    for told in (ended(BASH, "no\n[exit code 1]"), ended(read, "text")):
        text = scene.show(
            outputs.ToolStarted(BASH),
            outputs.ToolStarted(read),
            told,
            outputs.HookFinished(True, "commit 1234567"),
        )
        assert text.endswith("\n\ncommit 1234567\n")


def test_a_command_has_failed_also_if_a_hook_says_something_of_it() -> None:
    scene = Scene()
    words = "no\n[exit code 1]\n[a hook of the user's says: formatted]"
    text = scene.show(outputs.ToolStarted(BASH), ended(BASH, words))
    assert "✗ $ npm test  exit code 1" in text
    assert text.endswith("\n  no\n  [a hook of the user's says: formatted]\n")
    assert (
        "✗" not in scene.show(ended(BASH, "[exit code 1] is what\nit said")).split("formatted")[-1]
    )


def test_what_was_said_meanwhile_is_shown_where_it_is_heard() -> None:
    scene = Scene()
    scene.stream("working on it")
    text = scene.show(outputs.InputDelivered("use tabs"))
    assert text.splitlines() == ["", "working on it", "", "> use tabs"]


def test_a_plain_terminal_gets_words_and_no_drawing() -> None:
    scene = Scene(is_plain=True)
    scene.show(outputs.TurnStarted("t", "go"))
    scene.stream("# Plan\n\n- **one**\n")
    scene.show(outputs.ToolStarted(BASH))
    scene.now_s += 2
    scene.show(ended(BASH, "a\nb\nc\nd\ne\nf\n[exit code 0]"))
    text = scene.show(failed(BASH, ToolErrorKind.FAILED, "no"), finished())
    assert text.splitlines() == [
        *("", "> go", "", "# Plan", "", "- **one**", "", "running: $ npm test", ""),
        *("done in 2.0 s, exit code 0: $ npm test", "  ... 1 earlier line"),
        *("  b", "  c", "  d", "  e", "  f", ""),
        *("not done, failed: Failed: $ npm test", "  no", ""),
        "1,200 tokens in, 34 out, $0.0123, 2.0 s",
    ]
    assert text.isascii()


HOSTILE = "a\x1b[2J\x1b]0;t\x07\u202eb\rc\x9b31m\ud800\x00a"


@for_every_row(
    "told",
    [
        lambda: [outputs.TextDelta(HOSTILE), finished()],
        lambda: [outputs.TextDelta(f"```\n{HOSTILE}\n```\n")],
        lambda: [outputs.TextDelta(f"[{HOSTILE}](http://{HOSTILE})\n\n")],
        lambda: [outputs.TurnStarted("t", HOSTILE)],
        lambda: [outputs.ToolStarted(call("bash", command="x")), ended(BASH, HOSTILE)],
        lambda: [outputs.ToolStarted(ToolCall("c1", HOSTILE, HOSTILE)), ended(BASH, "x")],
        lambda: [ended(ToolCall("c2", HOSTILE, HOSTILE), "x")],
        lambda: [outputs.ToolStarted(BASH), failed(BASH, ToolErrorKind.IO, HOSTILE)],
        lambda: [outputs.HookFinished(True, HOSTILE), outputs.Notice(HOSTILE)],
        lambda: [outputs.ErrorShown(HOSTILE), finished(TurnOutcome.FAILED, error=HOSTILE)],
        lambda: [outputs.Retrying(LlmError(LlmErrorKind.SERVER, HOSTILE), 1.0)],
        lambda: [outputs.StateStarted(HOSTILE), outputs.InputDelivered(HOSTILE)],
        lambda: [outputs.ThinkingDelta(HOSTILE)],
        lambda: [
            outputs.ToolStarted(BASH),
            outputs.ToolProgressed("c1", ToolProgress(message=HOSTILE)),
        ],
    ],
)
@for_every_row("is_plain", [False, True])
def test_no_text_steers_the_terminal(told: Callable[[], list[Output]], is_plain: bool) -> None:
    scene = Scene(is_plain=is_plain)
    for output in told():
        scene.view.show(output)
        live = scene.terminal.live()
        assert not set(live) & set("\x1b\x07\x9b\r\u202e\ud800\x00")
    text = scene.terminal.text()
    assert not set(text) & set("\x1b\x07\x9b\r\u202e\ud800\x00")
    assert is_plain or "a" in text + live


@pytest.mark.parametrize("width", [20, 11, 80])
def test_no_line_is_wider_than_the_screen(width: int, tmp_path: Path) -> None:
    scene = Scene(width=width, folder=tmp_path)
    wide = "漢字かな交じり文 👩‍👩‍👧 e\u0301\u0301 العربية averyverylongwordthatnobodycanbreak " * 3
    scene.show(outputs.TurnStarted("t", wide))
    scene.stream(f"# {wide}\n\n- {wide}\n  - {wide}\n\n> {wide}\n\n```py\n{wide}\n```\n\n")
    scene.stream(f"|{wide}|b|\n|-|-|\n|{wide}|{wide}|\n\n---\n\n[{wide}](http://x)\n\n{wide}")
    running = call("bash", command=wide)
    scene.show(outputs.ToolStarted(running))
    scene.show(outputs.ToolProgressed("c1", ToolProgress(0.5, wide, 10**9)))
    live = scene.terminal.live().splitlines()
    scene.show(ended(running, f"{wide}\n[exit code 1]"), outputs.Notice(wide), finished())
    for line in [*scene.terminal.text().splitlines(), *live]:
        assert sum(max(0, get_cwidth(c)) for c in line if c != "\u200d") <= width + 2 * line.count(
            "👩"
        )
        assert line == line.rstrip(" ") or line in live


def test_one_huge_line_is_drawn_at_once_however_long() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "go"))
    for _ in range(500):
        scene.stream("word " * 80, 400)
    assert len(scene.terminal.live().splitlines()) == 11
    assert len(scene.view._text.tail(100)) < 1000


def test_what_is_committed_stays_whatever_comes() -> None:
    scene = Scene()
    scene.stream("one\n\ntwo\n\nthr")
    before = scene.terminal.text()
    scene.terminal.width = 30
    scene.stream("ee and more words that are wrapped\n\nfour")
    assert scene.terminal.text(80).startswith(before)
    assert max(map(len, scene.terminal.live().splitlines())) <= 30


def test_a_link_that_was_defined_before_is_a_link_in_later_pieces() -> None:
    scene = Scene()
    scene.stream("[home]: http://example.org\n\nsee [home] and [other]\n\n")
    assert scene.terminal.text().splitlines() == ["", "see home (http://example.org) and [other]"]


def test_the_last_turn_is_shown_again_when_a_thread_goes_on() -> None:
    scene = Scene()
    edit = call("edit_file", "c2", path="a.py", edits=[{"old_str": "x", "new_str": "y"}])
    messages = [
        Message.user("first"),
        Message.assistant("answer to it"),
        Message.user("second"),
        Message.assistant("I **will**", (BASH, edit)),
        Message.tool(BASH, "ERROR: Failed: it broke"),
        Message.tool(edit, "edited"),
        Message("assistant", "half", interrupted=True),
    ]
    text = drawn(*scene.view.history_blocks(messages))
    assert text.splitlines()[1:] == [
        *("", "> second", "", "I will", "", "✗ $ npm test  failed: Failed", "  it broke", ""),
        *("● edit_file a.py  +1 -1", "  - x", "  + y", "", "half", "", "interrupted"),
    ]


def test_a_change_that_failed_is_not_shown_as_one_when_a_thread_goes_on() -> None:
    edit = call("edit_file", "c2", path="a.py", edits=[{"old_str": "x", "new_str": "y"}])
    missed = []
    for kind in ToolErrorKind:
        outcome = ToolExecutionOutcome.Error(edit.id, ToolError(kind, "so it is"))
        told = format_outcome(outcome)
        for text in (told, describe_modified_call(edit.arguments_json, told)):
            messages = [
                Message.user("go"),
                Message.assistant("", (edit,)),
                Message.tool(edit, text),
            ]
            shown = drawn(*Scene().view.history_blocks(messages))
            if f"✗ edit_file a.py  failed: {kind.value}" not in shown or "+ y" in shown:
                missed.append(text)
    assert missed == []


def test_earlier_turns_are_counted_and_what_was_rewound_is_not_shown_again() -> None:
    scene = Scene()
    said = [Message.user("one"), Message.user("two"), Message.user("three"), Message.user("back")]
    conversation = Conversation(said).rewind(View(3))
    text = drawn(*scene.view.history_blocks(conversation))
    assert text.splitlines() == ["2 earlier turns (Ctrl+O)", "", "> three"]


def test_commands_that_the_person_ran_are_not_shown_as_their_words() -> None:
    scene = Scene()
    told = append_commands([CommandShown("ls", "out", 0)], Message.user("look"))
    assert drawn(*scene.view.history_blocks([told])).splitlines() == ["", "> look"]


def test_of_a_long_turn_the_prompt_and_the_end_are_shown_again() -> None:
    scene = Scene()
    messages = [Message.user("go"), *(Message.assistant(f"step {n}") for n in range(100))]
    lines = drawn(*scene.view.history_blocks(messages)).splitlines()
    assert lines[:3] == ["", "> go", "… 70 messages"]
    assert lines[-1] == "step 99"


async def test_what_moves_is_drawn_again_while_it_does() -> None:
    scene = Scene()
    again = asyncio.Event()
    scene.show(outputs.TurnStarted("t", "go"))
    scene.terminal.refresh = again.set  # type: ignore[method-assign]
    async with asyncio.timeout(50):
        await again.wait()
    scene.show(finished())
    drawing = scene.view._drawing
    assert drawing is not None
    async with asyncio.timeout(50):
        await drawing


def test_nothing_moves_while_a_person_is_asked() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "go"), outputs.ApprovalRequested("t", ()))
    scene.view.pause(is_waiting=True)
    assert scene.terminal.live() == ""
    scene.view.pause(is_waiting=False)
    assert "working" in scene.terminal.live()


def test_a_plain_terminal_is_told_what_goes_on_when_it_goes_on_long() -> None:
    scene = Scene(is_plain=True)
    scene.show(outputs.TurnStarted("t", "go"))
    scene.stream("half a sentence")
    assert scene.terminal.live() == ""
    scene.now_s += 30
    assert scene.terminal.live() == "working, 30 s so far"
    scene.show(outputs.ToolStarted(BASH))
    scene.now_s += 6
    assert scene.terminal.live() == "running $ npm test, 6.0 s so far"


def test_every_style_has_a_look_and_no_other_has() -> None:
    assert tuple(TEXT_STYLES) == STYLES


def test_colours_are_those_of_the_terminal_and_none_are_used_where_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.stream("```py\ndef f(): pass\n```\n\n`code`\n\n")
    assert "\x1b[" in drawn(*scene.terminal.blocks, is_colored=True)
    assert "38;2" not in drawn(*scene.terminal.blocks, is_colored=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in drawn(*scene.terminal.blocks, is_colored=True)


def test_nothing_that_is_slow_to_load_is_loaded_before_there_is_something_to_show() -> None:
    program = (
        "import sys\nfrom treadle.terminal.view import ChatView\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    slow = {"rich", "pygments", "markdown_it", "prompt_toolkit", "anthropic", "openai"}
    assert not slow & set(loaded.stdout.split())
