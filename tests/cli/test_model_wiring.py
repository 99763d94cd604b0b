"""Which settings, models and recordings a run takes, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cli.test_real_models import KEY, Shell, key_of, said
from models.loopback import Answer, Loopback, Seen, refusal, stream
from models.speakers import SPEAK

EDIT = (
    ("call_1", "write_file", {"path": "new.txt", "content": "new\n"}),
    ("call_2", "read_file", {"path": "calc.py"}),
)


@pytest.fixture
def shell(repository: Path, environment: dict[str, str]) -> Shell:
    return Shell(repository, environment)


def configure(environment: dict[str, str], text: str) -> None:
    path = Path(environment["TREADLE_HOME"]) / "config" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def local(name: str, server: Loopback, more: str = "") -> str:
    """Settings of a provider on this machine; `more` are lines of its table."""
    return (
        f'[providers.{name}]\napi = "openai-chat"\nbase_url = "{server.url}/v1"\n'
        f"needs_key = false\n{more}\n"
        f'[model_traits."{name}:*"]\ncontext_tokens_max = 100_000\n'
    )


def journal_of(environment: dict[str, str]) -> Path:
    return next((Path(environment["TREADLE_HOME"]) / "data" / "threads").glob("*.jsonl"))


def chat(text: str = "", calls: tuple = ()) -> bytes:  # type: ignore[type-arg]
    return SPEAK["openai-chat"](text, calls)


async def test_commit_messages_may_come_from_a_model_of_their_own_into_the_same_recording(
    shell: Shell, tmp_path: Path
) -> None:
    recording = tmp_path / "run.rec"
    work = stream(chat("", EDIT)), stream(chat("Done."))
    async with Loopback(*work) as one, Loopback(stream(chat("feat: add a file"))) as other:
        models = '[models]\ndefault = "one:big"\ncommit_message = "other:small"\n\n'
        configure(shell.environment, models + local("one", one) + local("other", other))
        auto = "--approval-mode", "auto"
        done = await shell("-p", "go", *auto, "--record", str(recording))
        assert (done.code, done.stdout) == (0, "Done.\n"), done.stderr
        assert "feat: add a file" in done.stderr
    (asked,) = other.requests
    assert asked.json["model"] == "small"
    thread = journal_of(shell.environment).stem
    uses = json.loads((await shell("show", thread, "--usage", "--json")).stdout)
    assert [(use["purpose"], use["model"]) for use in uses] == [
        ("answer", "one:big"),
        ("commit message", "other:small"),
        ("answer", "one:big"),
    ]
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    headers = [line["provider"] for line in lines if line["type"] == "recording"]
    assert headers == ["one", "other"]


async def test_a_model_for_commit_messages_is_not_needed_where_nothing_is_committed(
    shell: Shell, tmp_path: Path
) -> None:
    recording = str(tmp_path / "run.rec")
    async with Loopback(stream(chat("Hello."))) as server:
        mine = local("mine", server)
        configure(shell.environment, f'[models]\ndefault = "mine:m"\n\n{mine}')
        assert (await shell("-p", "hi", "--record", recording)).code == 0
        keyless = '[models]\ndefault = "mine:m"\ncommit_message = "anthropic:x"\n\n'
        configure(shell.environment, keyless + mine)
        for options in ((), ("--approval-mode", "auto", "--no-commit")):
            done = await shell("-p", "hi", *options)
            assert (done.code, done.stdout) == (0, "Hello.\n"), done.stderr
        needed = await shell("-p", "hi", "--approval-mode", "auto")
        assert (needed.code, "ANTHROPIC_API_KEY" in needed.stderr) == (5, True)
    played = await shell("-p", "hi", "-m", f"recorded:{recording}")
    assert (played.code, played.stdout) == (0, "Hello.\n"), played.stderr


async def test_a_call_that_was_cut_before_its_arguments_never_runs(shell: Shell) -> None:
    whole = chat("", (("call_1", "list_files", {}),)).decode()
    cut = whole.replace('"arguments": "{}"', '"arguments": ""').replace("tool_calls", "length", 1)
    cut = whole.replace('"finish_reason": "tool_calls"', '"finish_reason": "length"')
    pieces = [line for line in cut.split("\n\n") if '"arguments": "{' not in line]
    pieces = [line for line in pieces if '"arguments": "}' not in line]
    answers = stream("\n\n".join(pieces).encode()), stream(chat("I see."))
    async with Loopback(*answers) as server:
        configure(shell.environment, '[models]\ndefault = "mine:m"\n\n' + local("mine", server))
        done = await shell("-p", "look")
    assert (done.code, done.stdout) == (0, "I see.\n"), done.stderr
    (result,) = [one for one in server.requests[1].json["messages"] if one["role"] == "tool"]
    assert result["content"].startswith("ERROR: Invalid arguments: the arguments are missing")


async def test_a_resumed_thread_works_under_the_settings_of_its_own_folder(
    shell: Shell, tmp_path: Path
) -> None:
    settings = shell.folder / ".treadle" / "config.toml"
    settings.parent.mkdir()
    async with Loopback(stream(chat("Hello."))) as server:
        settings.write_text(f'models.default = "team:m"\n\n{local("team", server)}')
        assert (await shell("config", "trust", "--yes")).code == 0
        assert (await shell("-p", "hi")).stdout == "Hello.\n"
        elsewhere = Shell(tmp_path, shell.environment)
        done = await elsewhere("resume", journal_of(shell.environment).stem, "-p", "again")
        assert (done.code, done.stdout) == (0, "Hello.\n"), done.stderr


async def test_a_thread_keeps_its_model_and_takes_over_a_limit_that_was_set_since(
    shell: Shell,
) -> None:
    async with Loopback(said("anthropic", "Hi.")) as server:
        key = key_of("anthropic", server)
        await shell("-p", "a", "-m", "haiku", **key, TREADLE_MAX_TOKENS="2000")
        await shell("-c", "-p", "b", **key, TREADLE_MODEL="opus")
        await shell("-c", "-p", "c", **key, TREADLE_MAX_TOKENS="1000")
    assert len({seen.json["model"] for seen in server.requests}) == 1
    assert [seen.json["max_tokens"] for seen in server.requests] == [2000, 2000, 1000]


async def test_an_unknown_model_is_asked_for_no_number_of_tokens_that_nobody_set(
    shell: Shell,
) -> None:
    """Endpoints refuse more than their model can write, and say so in words of any kind."""
    async with Loopback(stream(chat("Hi."))) as server:
        configure(shell.environment, '[models]\ndefault = "mine:m"\n\n' + local("mine", server))
        await shell("-p", "a")
        await shell("-p", "a", TREADLE_MAX_TOKENS="1000")
    first, second = (seen.json for seen in server.requests)
    assert not {"max_tokens", "max_completion_tokens"} & first.keys()
    assert second["max_tokens"] == 1000


async def test_a_thread_without_its_journal_is_shown_as_the_snapshot_has_it(shell: Shell) -> None:
    async with Loopback(said("anthropic", "Hi.")) as server:
        await shell("-p", "hello there", **key_of("anthropic", server))
    journal = journal_of(shell.environment)
    journal.unlink()
    done = await shell("show", journal.stem)
    assert done.code == 0, done.stderr
    assert "hello there" in done.stdout
    assert "what each turn used is not known" in done.stderr
    assert KEY not in done.stdout


async def test_the_answer_of_a_turn_that_was_left_unfinished_is_told_before_the_next(
    shell: Shell,
) -> None:
    arrived = asyncio.Event()

    def hang(_: Any) -> Answer:
        arrived.set()
        return Answer((b": wait\n\n",), hangs=True)

    answers = hang, said("anthropic", "First."), said("anthropic", "Second.")
    async with Loopback(*answers) as server:
        key = key_of("anthropic", server)
        process = await shell.start("-p", "one", **key)
        await arrived.wait()
        process.kill()
        await process.wait()
        done = await shell("-c", "-p", "two", **key)
    assert (done.code, done.stdout) == (0, "Second.\n"), done.stderr
    assert "First." in done.stderr.splitlines()


async def test_what_nobody_knows_of_a_model_its_provider_is_asked_and_else_it_is_said_once(
    shell: Shell,
) -> None:
    def answer(seen: Seen) -> Answer:
        if seen.path.endswith("/models"):
            return refusal(200, {"data": [{"id": "told", "max_model_len": 65_536}, {"id": "m"}]})
        return stream(chat("Hello."))

    async with Loopback(answer) as server:
        mine = local("mine", server).partition("[model_traits")[0]
        configure(shell.environment, mine)
        told = await shell("-p", "hi", "-m", "mine:told")
        silent = await shell("-p", "hi", "-m", "mine:m")
        again = [await shell("-p", "hi", "-m", f"mine:{name}") for name in ("told", "m")]
        asked = [seen for seen in server.requests if seen.path == "/v1/models"]
    assert len(asked) == 2
    assert (told.code, silent.code, *(one.code for one in again)) == (0, 0, 0, 0)
    assert "context window" not in again[0].stderr + again[1].stderr
    assert "price unknown" not in told.stderr + silent.stderr  # nobody sends a bill
    assert "the context window of" not in told.stderr
    assert silent.stderr.count("the context window of mine:m is not known") == 1
    limits = [
        line["event"]["config"].get("context_tokens_max")
        for path in (Path(shell.environment["TREADLE_HOME"]) / "data" / "threads").glob("*.jsonl")
        for line in map(json.loads, path.read_text().splitlines())
        if line["event"]["type"] == "configured"
    ]
    assert limits.count(65_536) == 2
