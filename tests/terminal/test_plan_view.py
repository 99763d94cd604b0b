"""The plan in the chat: one block that is drawn anew, and stays once a turn is over."""

from __future__ import annotations

import json

from prompt_toolkit.utils import get_cwidth

from terminal.test_view import Scene, call, ended, failed, finished
from treadle import outputs
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolErrorKind
from treadle.outputs import TurnOutcome
from treadle.terminal.plan_lines import STEPS_MAX

SEEN = "The person sees it."


def plan(*steps: tuple[str, str], call_id: str = "p") -> ToolCall:
    told = [{"step": text, "status": status} for text, status in steps]
    return call("plan", call_id, steps=told)


FIRST = plan(("read the code", "in_progress"), ("change it", "pending"))
SECOND = plan(("read the code", "done"), ("change it", "in_progress"), call_id="q")


def tell(scene: Scene, one: ToolCall) -> str:
    return scene.show(outputs.ToolStarted(one), ended(one, SEEN))


def test_it_is_drawn_while_the_agent_works_and_committed_once() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "do it"))
    before = tell(scene, FIRST)
    assert scene.terminal.live().splitlines()[:3] == [
        *("Plan: 0 of 2 done", "▸ read the code", "○ change it")
    ]
    assert tell(scene, SECOND) == before == "\n> do it\n"
    assert scene.terminal.live().splitlines()[:3] == [
        *("Plan: 1 of 2 done", "✓ read the code", "▸ change it")
    ]
    assert scene.show(finished()).splitlines()[2:6] == [
        *("", "Plan: 1 of 2 done", "✓ read the code", "▸ change it")
    ]
    assert scene.terminal.live() == ""
    scene.show(outputs.TurnStarted("t", "go on"))
    assert scene.terminal.live().startswith("Plan: 1 of 2 done")
    assert scene.show(finished()).count("Plan: ") == 1


def test_one_that_is_all_done_is_drawn_no_longer() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "do it"))
    tell(scene, plan(("a", "done"), ("b", "done")))
    assert "Plan" not in scene.terminal.live()
    assert scene.show(finished(TurnOutcome.CANCELLED)).count("Plan: 2 of 2 done") == 1
    tell(scene, plan())
    assert scene.view.plan.block() is None


def test_a_call_that_failed_is_shown_as_any_other_and_changes_nothing() -> None:
    scene = Scene()
    scene.show(outputs.TurnStarted("t", "do it"))
    tell(scene, FIRST)
    text = scene.show(
        outputs.ToolStarted(SECOND), failed(SECOND, ToolErrorKind.CANCELLED, "the turn is over")
    )
    assert "✗ plan: 1 of 2 done, now: change it" in text
    assert scene.terminal.live().startswith("Plan: 0 of 2 done")


def test_of_a_long_plan_what_comes_next_is_drawn_and_no_line_is_too_wide() -> None:
    steps = [(f"step {n} " + "字" * 60, "done" if n < 20 else "pending") for n in range(40)]
    scene = Scene(width=30)
    scene.show(outputs.TurnStarted("t", "do it"))
    tell(scene, plan(*steps))
    lines = scene.terminal.live().splitlines()
    assert lines[0] == "Plan: 20 of 40 done"
    assert lines[1].startswith("✓ step 19 ")
    assert lines[2].startswith("○ step 20 ")
    assert lines[STEPS_MAX + 1] == "  … 15 more"
    assert all(get_cwidth(line) <= 30 for line in lines)
    assert scene.show(finished()).count("step ") == 40


def test_what_a_model_writes_steers_no_terminal() -> None:
    hostile = "\x1b[2Jred\u202e\nnext\tline"
    for is_plain in (False, True):
        scene = Scene(is_plain=is_plain)
        scene.show(outputs.TurnStarted("t", "do it"))
        tell(scene, plan((hostile, "in_progress"), ("b", "pending")))
        scene.show(finished())
        for text in (scene.terminal.text(), scene.terminal.live()):
            assert "\x1b" not in text
            assert "\u202e" not in text


def test_a_plain_terminal_gets_a_line_for_each_change_and_words_for_signs() -> None:
    scene = Scene(is_plain=True)
    scene.show(outputs.TurnStarted("t", "do it"))
    text = tell(scene, FIRST)
    assert "plan: 0 of 2 done, now: read the code" in text
    assert "running: plan" not in text
    lines = scene.show(finished()).splitlines()
    assert "1. read the code (in progress)" in lines
    assert "2. change it (to do)" in lines


def test_a_thread_that_is_gone_on_with_shows_the_plan_that_holds_below_its_messages() -> None:
    scene = Scene()
    said = [
        Message.user("do it"),
        Message.assistant("", (FIRST,)),
        Message.tool(FIRST, SEEN),
        Message.assistant("", (SECOND,)),
        Message.tool(SECOND, SEEN),
        Message.assistant("On it."),
    ]
    scene.terminal.commit(*scene.view.history_blocks(said))
    lines = [line for line in scene.terminal.text().splitlines() if line]
    assert lines == [*("> do it", "On it.", "Plan: 1 of 2 done", "✓ read the code", "▸ change it")]
    scene.view.close()
    assert scene.view.plan.block() is None


def test_arguments_of_the_samples_are_what_the_tool_takes() -> None:
    assert json.loads(FIRST.arguments_json)["steps"][0]["status"] == "in_progress"
