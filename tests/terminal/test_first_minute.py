"""The first minute: a prompt on the command line, a provider to choose, a key that nobody sees."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import warm_process
from models.speakers import SPEAK
from sync.wire_server import Asked, WireServer, reply
from terminal.harness import BACKSPACE, ENTER, ESC, TREADLE, Screen, ctrl, pasted
from terminal.talks import Start, Talk, held, told
from treadle.terminal.early_prompt import PLACEHOLDER
from treadle.terminal.layout import PLACEHOLDER_AT_WORK
from treadle.terminal.thread_view import TRY, WELCOME

Fresh = Callable[..., Talk]


def test_a_prompt_on_the_command_line_begins_the_talk(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    talk = start("good morning")
    talk.type("and once more" + ENTER)  # typed before anything was ready: it comes behind
    talk.wait_for(lambda screen: screen.text.count("Hello there.") == 2)
    assert talk.text.index("> good morning") < talk.text.index("> and once more")
    assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert line["title"] == "good morning"


def test_a_word_like_a_command_is_no_prompt(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    with Screen([*TREADLE, "verfy"], cwd=repository, env=environment) as screen:
        screen.wait_for("did you mean verify?")
        assert screen.wait_for_end() == 2
    start("--", "verfy").wait_for("> verfy")


# ---- who answers -------------------------------------------------------------------------------

KEY = "sk-ant-api03-0123456789abcdefghij"
WRONG = "sk-ant-api03-wrong-0123456789abc"


def provider(asked: Asked) -> bytes:
    """Anthropic's API, as far as a key opens it."""
    if KEY not in (asked.headers.get("authorization") or asked.headers.get("x-api-key", "")):
        why = {"type": "authentication_error", "message": "invalid key"}
        return reply(401, {"type": "error", "error": why})
    if asked.method == "GET":
        return reply(200, {"data": [{"id": "m", "type": "model"}], "has_more": False})
    hello = SPEAK["anthropic-messages"]("Hello from far away.")
    return reply(200, hello, "text/event-stream")


def ollama(asked: Asked) -> bytes:
    """Two models of this machine."""
    if asked.method == "GET":
        return reply(200, {"data": [{"id": "small"}, {"id": "coder:7b"}]})
    hello = SPEAK["openai-chat"](f"Hello from {json.loads(asked.plain)['model']}.")
    return reply(200, hello, "text/event-stream")


@pytest.fixture
def fresh(environment: dict[str, str], repository: Path) -> Iterator[Fresh]:
    """Starts `treadle` for a user who has set up nothing; `server` is one of this machine."""
    with ExitStack() as ending:

        def begin(*arguments: str, server: str = "", **extra: str) -> Talk:
            nobody = "http://127.0.0.1:9/v1"
            places = {"ollama": server or nobody, "vllm": nobody, "lmstudio": nobody}
            path = Path(environment["TREADLE_HOME"], "config", "config.toml")
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_text(
                    "".join(
                        f'[providers.{name}]\nbase_url = "{url}"\n'
                        for name, url in {**places, "llamacpp": nobody}.items()
                    )
                )
            return ending.enter_context(Talk(repository, {**environment, **extra}, arguments))

        yield begin


def test_a_key_is_pasted_unseen_and_the_prompt_is_answered(
    fresh: Fresh, environment: dict[str, str]
) -> None:
    with WireServer(provider) as server:
        talk = fresh("say hello", ANTHROPIC_BASE_URL=server.url)
        for text, until in ((WRONG, "it was not kept"), (KEY, "Hello from far away.")):
            talk.wait_for_shown("Who answers?")
            talk.type("anthropic")
            talk.wait_for(lambda screen: screen.is_marked("anthropic"))
            talk.type(ENTER)
            talk.wait_for_shown("Paste the key of anthropic")
            talk.type(pasted(text))
            talk.wait_for_shown("•" * len(text))
            talk.type(ENTER)
            talk.wait_for(until)
        assert talk.leave() == 0
    check_key_is_kept_unseen(talk, environment)


def test_a_plain_terminal_shows_no_key_either(fresh: Fresh, environment: dict[str, str]) -> None:
    with WireServer(provider) as server:
        talk = fresh("--plain", "say hello", ANTHROPIC_BASE_URL=server.url)
        talk.wait_for("a number, words to search, or Enter:")
        talk.type("anthropic" + ENTER)
        talk.wait_for(lambda screen: screen.text.count("a number, words") == 2)
        talk.type("1" + ENTER)
        talk.wait_for("Paste the key of anthropic")
        talk.type(KEY + ENTER)
        talk.wait_for("Hello from far away.")
        assert talk.leave() == 0
    check_key_is_kept_unseen(talk, environment)


def test_login_without_a_name_offers_what_there_is(
    fresh: Fresh, environment: dict[str, str]
) -> None:
    with WireServer(provider) as server:
        talk = fresh("login", ANTHROPIC_BASE_URL=server.url)
        talk.wait_for("Who answers?")
        row = next(line for line in talk.lines if "anthropic " in line)
        assert row.endswith("paste a key")
        assert any("a Treadle server" in line for line in talk.lines)
        talk.type(row.split()[0] + ENTER)
        talk.wait_for("Key of anthropic:")
        talk.wait_for(lambda screen: not screen.is_cooked)
        talk.type(KEY + ENTER)
        assert talk.wait_for_end() == 0
    assert "new threads use anthropic:claude-sonnet-5-5" in talk.text
    check_key_is_kept_unseen(talk, environment)


def test_login_asks_for_no_key_that_is_there(fresh: Fresh) -> None:
    talk = fresh("login", GOOGLE_API_KEY="g-0123456789")
    talk.wait_for("Who answers?")
    row = next(line for line in talk.lines if "gemini " in line)
    assert row.endswith("key from environment GOOGLE_API_KEY")
    talk.type(row.split()[0] + ENTER)
    assert talk.wait_for_end() == 0
    assert "new threads use gemini:" in talk.text
    assert "g-0123456789" not in talk.text


def check_key_is_kept_unseen(talk: Talk, environment: dict[str, str]) -> None:
    """In its file alone, which nobody else can read."""
    assert not {KEY, WRONG} & set(talk.raw.decode().split())
    assert KEY[-9:] not in talk.raw.decode()
    kept = Path(environment["TREADLE_HOME"], "config", "keys", "anthropic.key")
    assert kept.read_text() == f"{KEY}\n"
    assert kept.stat().st_mode & 0o077 == 0
    others = (path for path in kept.parents[2].rglob("*") if path.is_file() and path != kept)
    assert [path for path in others if KEY.encode() in path.read_bytes()] == []


def test_a_server_of_this_machine_is_found_and_answers_from_then_on(
    fresh: Fresh, environment: dict[str, str], repository: Path
) -> None:
    with WireServer(ollama) as server:
        talk = fresh("say hello", server=f"{server.url}/v1")
        talk.wait_for(lambda screen: screen.is_marked("ollama"))
        assert f"{server.url}/v1, 2 models" in talk.shown
        talk.type(ENTER)
        talk.wait_for_shown("Which model of ollama?")
        talk.type("coder")
        talk.wait_for(lambda screen: screen.is_marked("coder:7b"))
        talk.type(ENTER)
        talk.wait_for("Hello from coder:7b.")
        assert talk.leave() == 0
        again = fresh()
        again.wait_for("a new thread in")
        again.say("and again", "Hello from coder:7b.")
        again.type("/login" + ENTER)
        again.wait_for(lambda screen: screen.is_marked("ollama"))
        again.type(ENTER)
        again.wait_for(lambda screen: screen.is_marked("small"))
        again.type(ENTER)
        again.wait_for("ollama:small answers from now on")
        again.say("once more", "Hello from small.")
    said = told(environment, "config", "show", "--origin", cwd=repository)
    assert 'models.default = "ollama:small"    # ' in said


def test_a_prompt_that_is_typed_into_the_list_of_providers_comes_back(fresh: Fresh) -> None:
    with WireServer(ollama) as server:
        talk = fresh("say hello", server=f"{server.url}/v1")
        talk.wait_for(lambda screen: screen.is_marked("ollama"))
        talk.type("mend the test")
        talk.wait_for_shown("nothing is called so. Choose first who answers")
        talk.type(ENTER)  # picks nothing
        talk.type(ctrl("u"))
        talk.wait_for(lambda screen: screen.is_marked("ollama"))
        talk.type(ENTER)
        talk.wait_for(lambda screen: screen.is_marked("small"))
        talk.type(ENTER)
        talk.wait_for("Hello from small.")
        talk.wait_for_shown("> mend the test")


def test_models_are_chosen_from_a_list_that_marks_the_current_one_and_missing_keys(
    fresh: Fresh,
) -> None:
    with WireServer(ollama) as server:
        talk = fresh("-m", "ollama:small", server=f"{server.url}/v1")
        talk.wait_for("a new thread in")
        talk.type("/model" + ENTER)
        talk.wait_for(lambda screen: screen.is_marked("ollama:small"))
        (row,) = [line for line in talk.lines if line.startswith("▸ ollama:small")]
        assert row.endswith("answers now")
        talk.type("anthropic sets")
        talk.wait_for(lambda screen: screen.is_marked("anthropic"))
        assert "no key: Enter sets it up" in talk.shown
        talk.type(ctrl("u") + "coder")
        talk.wait_for(lambda screen: screen.is_marked("ollama:coder:7b"))
        talk.type(ENTER)
        talk.wait_for("ollama:coder:7b answers from now on")


def test_who_chooses_nobody_keeps_the_prompt_and_is_asked_again(fresh: Fresh) -> None:
    talk = fresh("say hello")
    talk.wait_for(lambda screen: screen.is_marked("demo"))
    talk.type(ESC)
    talk.wait_for("no model is configured")
    talk.wait_for("Up takes it back")
    talk.type("now" + ENTER)
    talk.wait_for_shown("Who answers?")
    talk.type(ESC)
    talk.wait_for_shown("> say hello")  # it stands in the input again
    talk.type(ctrl("c"))
    talk.wait_until_gone("> say hello")
    assert talk.leave() == 5


def test_a_thread_whose_provider_has_no_key_any_more_is_gone_on_with(
    fresh: Fresh, environment: dict[str, str], repository: Path
) -> None:
    with WireServer(provider) as server:
        place = {"ANTHROPIC_BASE_URL": server.url}
        begun = warm_process.run(
            ["-p", "say hello", "-m", "anthropic:m"],
            repository,
            {**environment, **place, "ANTHROPIC_API_KEY": KEY},
            None,
            timeout_s=60,
        )
        assert begun.returncode == 0, begun.stderr
        (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
        left = fresh("-c", **place)
        left.wait_for(lambda screen: screen.is_marked("anthropic"))
        left.type(ESC)
        left.wait_for("keeps one in a file")
        assert left.leave() == 5
        talk = fresh("-r", line["id"], **place)
        talk.wait_for(lambda screen: screen.is_marked("anthropic"))
        talk.type(ENTER)
        talk.wait_for_shown("Paste the key of anthropic")
        talk.type(pasted(KEY))
        talk.wait_for_shown("•")
        talk.type(ENTER)
        talk.wait_for("Hello from far away.")
        talk.say("and again", "Hello from far away.")
        assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert len(line["id"]) > 8


@pytest.mark.parametrize("place", ["list", "key"])
def test_a_window_that_is_closed_meanwhile_ends_it_as_always(fresh: Fresh, place: str) -> None:
    talk = fresh("-m", "groq:some-model")
    talk.wait_for(lambda screen: screen.is_marked("groq"))
    if place == "key":
        talk.type(ENTER)
        talk.wait_for_shown("Paste the key of groq")
    talk.hang_up()
    assert talk.wait_for_end() == 129
    assert "Traceback" not in talk.text
    assert talk.is_cooked


def test_a_plain_terminal_shows_what_is_typed_again_after_a_key(fresh: Fresh) -> None:
    for leave in (lambda talk: talk.hang_up(), lambda talk: talk.type(ctrl("d"))):
        talk = fresh("--plain", "-m", "groq:some-model")
        talk.wait_for("a number, words to search, or Enter:")
        talk.type("1" + ENTER)
        talk.wait_for("Paste the key of groq")
        talk.wait_for(lambda screen: not screen.is_cooked)
        leave(talk)
        talk.wait_for_end()
        assert talk.is_cooked
        assert "Traceback" not in talk.text


def test_the_demo_can_be_seen_first(fresh: Fresh, tmp_path: Path) -> None:
    talk = fresh(PATH=str(tmp_path))  # without git, which it says at once, instead of half a minute
    talk.wait_for(lambda screen: screen.is_marked("demo"))
    talk.type(ENTER)
    talk.wait_for("the demo needs git")
    talk.wait_for(lambda screen: screen.is_marked("demo"))


def test_the_provider_that_was_named_is_asked_about_first(fresh: Fresh) -> None:
    talk = fresh("-m", "groq:some-model")
    talk.wait_for("groq needs a key: set GROQ_API_KEY")
    talk.wait_for(lambda screen: screen.is_marked("groq"))
    talk.type(ENTER)
    talk.wait_for_shown("Paste the key of groq")
    talk.type(ESC)
    talk.wait_for(lambda screen: screen.is_marked("groq"))


# ---- what is taught ----------------------------------------------------------------------------


def test_a_welcome_of_four_lines_fits_and_the_quiet_get_none(start: Start) -> None:
    talk = start(columns=240)
    talk.wait_for(TRY)
    what, folder, model, tries = talk.lines[:4]
    assert (what, tries) == (WELCOME, f"{TRY} · explain the last commit")
    assert folder.startswith("a new thread in /")
    assert ", mode ask, " in model
    Path(folder.removeprefix("a new thread in "), "README.md").write_text("# Shop\n")
    start(columns=240).wait_for(f"{TRY} · explain @README.md")
    assert max(len(line) for line in (WELCOME, tries)) <= 80
    quiet = start("-q", columns=240)
    quiet.wait_for(", mode ask, ")
    quiet.wait_for("ask · ")
    assert "a coding agent" not in quiet.text
    assert "try: " not in quiet.text


def test_the_empty_input_says_what_may_stand_in_it(start: Start, repository: Path) -> None:
    talk = start()
    talk.wait_for_shown(f"> {PLACEHOLDER}")
    line = talk.line_with(PLACEHOLDER)
    assert talk.cursor == (line, 2)
    talk.type("w")
    talk.wait_until_gone(PLACEHOLDER)
    talk.type(BACKSPACE)
    talk.wait_for_shown(f"> {PLACEHOLDER}")
    os.mkfifo(repository / "fifo")
    talk.type("wait" + ENTER)
    talk.answer("y")
    with held(repository / "fifo"):
        talk.wait_for_shown(PLACEHOLDER_AT_WORK)
    talk.wait_for_shown(f"> {PLACEHOLDER}")
    narrow = start(columns=40)
    narrow.wait_for("\n>\nask")
    assert "(say what" not in narrow.text


def test_a_tip_is_told_when_it_fits_and_no_more_once_it_was_used(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    talk = start("--approval-mode", "auto-edit")
    talk.say("edit it", "tip: Esc Esc goes back")
    talk.type(ESC + ESC)
    talk.wait_for_shown("Back to before which prompt?")
    talk.type(ESC)
    talk.wait_until_gone("Back to before which prompt?")
    assert talk.leave() == 0
    told(environment, "blame", "calc.py", cwd=repository)
    known = json.loads(Path(environment["TREADLE_HOME"], "state", "tips.json").read_text())
    assert known == {"used": ["blame"], "told": {"rewind": 1}}
    again = start("-q", "--approval-mode", "auto-edit")
    again.say("edit it", "It adds now.")
    again.say("good morning", "Hello there.")
    assert "tip: " not in again.text
