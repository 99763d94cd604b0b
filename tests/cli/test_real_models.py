"""The main job on the wire formats of real providers: real processes, real sockets, no keys."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

import warm_process
from cli.conftest import TIMEOUT_S
from models.anthropic_streams import STREAMS as ANTHROPIC_STREAMS
from models.loopback import Answer, Loopback, refusal, stream
from models.openai_responses_streams import STREAMS as OPENAI_STREAMS
from models.speakers import KEYS, SPEAK

KEY = "sk-test-0123456789-abcdefghij"
LOOK = (("call_1", "read_file", {"path": "calc.py"}),)
FORMAT = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
EXITS_WITHIN_S = 1.0
"""Of processor time: that a machine is busy with other things is not the command's fault."""

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


class Done(Struct):
    code: int
    stdout: str
    stderr: str


class Shell:
    """Runs the command beside the test's server; the environment holds one key, or none."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    async def start(self, *arguments: str, **extra: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "treadle", *arguments),
            cwd=self.folder,
            env={**self.environment, **extra},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, *arguments: str, **extra: str) -> Done:
        environment = {**self.environment, **extra}
        if not warm_process.can_be_forked(environment):
            return await self.fresh(*arguments, **extra)
        done = await asyncio.to_thread(
            warm_process.run, arguments, self.folder, environment, None, TIMEOUT_S
        )
        return Done(done.returncode, done.stdout, done.stderr)

    async def fresh(self, *arguments: str, **extra: str) -> Done:
        """The command in an interpreter of its own, whose time counts as that of a child."""
        process = await self.start(*arguments, **extra)
        stdout, stderr = await process.communicate()
        assert process.returncode is not None
        return Done(process.returncode, stdout.decode(), stderr.decode())


@pytest.fixture
def shell(repository: Path, environment: dict[str, str]) -> Shell:
    return Shell(repository, environment)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def cpu_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def mode_of(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def key_of(provider: str, server: Loopback) -> dict[str, str]:
    key, url, path = KEYS[provider]
    return {key: KEY, url: server.url + path}


def said(provider: str, *args: Any, **rest: Any) -> Answer:
    return stream(SPEAK[FORMAT[provider]](*args, **rest))


def elements(body: bytes, name: str) -> list[bytes]:
    """The elements of an array in a request, each as the bytes that were sent."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return [bytes(raw) for raw in msgspec.json.decode(fields[name], type=list[msgspec.Raw])]


def prefix(provider: str, body: bytes) -> list[bytes]:
    """Everything before the end of the conversation, in the order that providers cache it."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    named = ("system", "messages") if provider == "anthropic" else ("instructions", "input")
    return [bytes(fields["tools"]), bytes(fields[named[0]]), *elements(body, named[1])]


def assert_balanced(provider: str, body: bytes) -> None:
    """Each call is followed by its result, none stands alone."""
    open_calls: list[str] = []
    if provider == "openai":
        for item in json.loads(body)["input"]:
            if item.get("type") == "function_call":
                open_calls.append(item["call_id"])
            elif item.get("type") == "function_call_output":
                open_calls.remove(item["call_id"])
        assert open_calls == []
        return
    for message in json.loads(body)["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == open_calls
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert open_calls == []


@pytest.mark.parametrize("provider", KEYS)
async def test_with_one_variable_set_the_main_job_runs(shell: Shell, provider: str) -> None:
    answers = said(provider, "I look.", LOOK), said(provider, "It subtracts.", cached=50)
    async with Loopback(*answers) as server:
        done = await shell("-p", "what does calc.py do?", **key_of(provider, server))
    assert (done.code, done.stdout) == (0, "It subtracts.\n"), done.stderr
    assert f"{provider}:" in done.stderr
    assert "250 tokens in (50 cached), 40 out, $0.0" in done.stderr
    assert KEY in "".join(server.requests[0].headers.values())
    assert "return a - b" in server.requests[1].body.decode()
    first, second = (prefix(provider, seen.body) for seen in server.requests)
    assert second[: len(first)] == first
    assert_balanced(provider, server.requests[1].body)


@pytest.mark.parametrize("provider", KEYS)
async def test_a_task_with_a_schema_has_its_provider_hold_the_model_to_it(
    shell: Shell, provider: str, tmp_path: Path
) -> None:
    count = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    (tmp_path / "schema.json").write_text(json.dumps(count))
    form = ("--output-schema", str(tmp_path / "schema.json"), "--output-format", "json")
    async with Loopback(said(provider, '{"n": 4}')) as server:
        done = await shell("run", "count", *form, **key_of(provider, server))
    result = json.loads(done.stdout)
    assert (result["answer"], result["output_mode"]) == ('{"n": 4}', "native"), done.stderr
    (seen,) = server.requests
    part = "output_config" if provider == "anthropic" else "text"
    assert seen.json[part]["format"]["type"] == "json_schema"
    told = seen.json["system" if provider == "anthropic" else "instructions"]
    assert '"required":["n"]' in str(told), "in words too"


@pytest.mark.parametrize("provider", KEYS)
async def test_the_key_is_in_no_file_and_no_output(
    shell: Shell, provider: str, tmp_path: Path
) -> None:
    """Not even when a model that has seen it says it."""
    said_it = said(provider, f"The key is {KEY}.")
    async with Loopback(said_it) as server:
        recording = ["--record", str(tmp_path / "run.rec")]
        done = await shell("-p", "say the key", *recording, "-vv", **key_of(provider, server))
    assert done.stdout == f"The key is [REDACTED:{KEYS[provider][0].lower()}].\n"
    assert KEY not in done.stderr
    files = files_in(tmp_path)
    assert len(files) > 3
    assert [path for path, data in files.items() if KEY.encode() in data] == []


@pytest.mark.parametrize("provider", KEYS)
async def test_a_resumed_thread_sends_the_same_bytes_again_and_then_more(
    shell: Shell, provider: str
) -> None:
    (shell.folder / "AGENTS.md").write_text("Answer in one word.\n")
    answers = said(provider, "", LOOK), said(provider, "Sums."), said(provider, "Once more.")
    async with Loopback(*answers) as server:
        key = key_of(provider, server)
        await shell("-p", "look", **key)
        (shell.folder / "AGENTS.md").write_text("Answer at length.\n")
        done = await shell("-c", "-p", "again", **key)
    assert (done.code, done.stdout) == (0, "Once more.\n"), done.stderr
    one, two, three = (prefix(provider, seen.body) for seen in server.requests)
    assert two[: len(one)] == one
    assert three[: len(two)] == two
    assert len(three) > len(two)
    assert b"Answer in one word." in one[1]
    assert_balanced(provider, server.requests[2].body)


async def test_what_a_model_thought_is_reachable_after_its_answer(shell: Shell) -> None:
    answers = stream(ANTHROPIC_STREAMS["interleaved thinking"]), said("anthropic", "Done.")
    async with Loopback(*answers) as server:
        await shell("-p", "look", **key_of("anthropic", server))
    (thread,) = json.loads((await shell("list", "--json")).stdout)
    shown = (await shell("show", thread["id"])).stdout
    assert "\n  ∴ One.\n  ∴ Two.\n" in shown
    page = (await shell("export", thread["id"], "--format", "markdown")).stdout
    assert page.count("*thinking*\n\n```\n") == 2
    html = (await shell("export", thread["id"], "--format", "html")).stdout
    told = re.findall(
        r'<summary>thinking</summary>\s*<div class="text" dir="auto">(.*)</div>', html
    )
    assert told == ["One.", "Two."]


@pytest.mark.parametrize("provider", KEYS)
async def test_what_a_provider_searched_for_is_told_and_goes_back_as_it_came(
    shell: Shell, provider: str
) -> None:
    found = {"anthropic": ANTHROPIC_STREAMS, "openai": OPENAI_STREAMS}[provider]["search"]
    answers = stream(found), said(provider, "More."), said(provider, "And more.")
    async with Loopback(*answers) as server:
        key = key_of(provider, server)
        done = await shell("-p", "look", TREADLE_WEB_SEARCH="true", **key)
        await shell("-c", "-p", "again", TREADLE_WEB_SEARCH="true", **key)
        await shell("-c", "-p", "without", **key)
    query = {"anthropic": "colour of grass", "openai": "weather"}[provider]
    line = f'the provider searched the web for "{query}"'
    assert line in done.stderr
    assert "1 web search" in done.stderr
    (thread,) = json.loads((await shell("list", "--json")).stdout)
    assert line in (await shell("show", thread["id"])).stdout
    assert line in (await shell("export", thread["id"], "--format", "markdown")).stdout
    one, two, three = server.requests
    assert [b'"web_search' in seen.body for seen in (one, two)] == [True, True]
    assert two.body.count(query.encode()) == 1
    before, after = prefix(provider, one.body), prefix(provider, two.body)
    assert after[: len(before)] == before
    assert b"web_search" not in bytes(prefix(provider, three.body)[0])


async def test_who_cannot_search_says_so(shell: Shell, environment: dict[str, str]) -> None:
    config = Path(environment["TREADLE_HOME"]) / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    async with Loopback(stream(SPEAK["openai-chat"]("Words."))) as server:
        config.write_text(
            'web_search = true\n[models]\ndefault = "mine:m"\n[providers.mine]\n'
            f'api = "openai-chat"\nbase_url = "{server.url}/v1"\nneeds_key = false\n'
            '[model_traits."mine:m"]\ncontext_tokens_max = 9000\n'
        )
        done = await shell("-p", "hello")
    assert (done.code, done.stdout) == (0, "Words.\n"), done.stderr
    assert "web_search is set, but mine:m cannot be asked to search the web" in done.stderr
    assert b"web_search" not in server.requests[0].body


@pytest.mark.parametrize("provider", KEYS)
async def test_after_kill_9_in_the_middle_of_an_answer_the_same_request_leaves_again(
    shell: Shell, provider: str
) -> None:
    arrived = asyncio.Event()

    def half(_: Any) -> Answer:
        arrived.set()
        whole = SPEAK[FORMAT[provider]]("I will say much")
        return Answer((whole[: len(whole) // 2],), hangs=True)

    answers = said(provider, "", LOOK), half, said(provider, "Done.")
    async with Loopback(*answers) as server:
        key = key_of(provider, server)
        process = await shell.start("-p", "look", **key)
        await arrived.wait()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        threads = json.loads((await shell("list", "--json")).stdout)
        done = await shell("resume", threads[0]["id"], **key)
    assert (done.code, done.stdout) == (0, "Done.\n"), done.stderr
    assert server.requests[2].body == server.requests[1].body
    assert (await shell("verify")).code == 0


async def test_without_any_key_one_line_says_what_to_do_at_once_and_nothing_is_written(
    shell: Shell, tmp_path: Path
) -> None:
    before = files_in(tmp_path)
    for _ in range(3):  # time in which a machine stood still may count for its processor's
        before_s = cpu_s_of_children()
        done = await shell.fresh("-p", "hello")
        assert (done.code, done.stdout) == (5, "")
        (line,) = done.stderr.splitlines()
        assert "ANTHROPIC_API_KEY" in line
        assert "OPENAI_API_KEY" in line
        assert "treadle demo" in line
        used_s = cpu_s_of_children() - before_s
        if used_s < EXITS_WITHIN_S:
            break
    assert used_s < EXITS_WITHIN_S
    assert files_in(tmp_path) == before


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, 5, "LLM error: authentication: "),
        (404, 1, "LLM error: not found: "),
        (400, 1, "LLM error: bad request: "),
    ],
)
async def test_a_refusal_names_the_provider_and_the_next_step(
    shell: Shell, status: int, code: int, words: str
) -> None:
    body = {"type": "error", "error": {"type": "x", "message": f"no {KEY}"}}
    async with Loopback(refusal(status, body)) as server:
        done = await shell("-p", "hello", **key_of("anthropic", server))
    assert (done.code, done.stdout) == (code, "")
    assert words + "anthropic: no [REDACTED:anthropic_api_key]" in done.stderr
    assert KEY not in done.stderr
    assert len(server.requests) == 1


async def test_an_overloaded_provider_is_asked_again_and_then_answers(shell: Shell) -> None:
    busy = refusal(529, {"error": {"type": "overloaded_error", "message": "busy"}}, retry_after="0")
    async with Loopback(busy, busy, said("anthropic", "Here.")) as server:
        done = await shell("-p", "hello", **key_of("anthropic", server))
    assert (done.code, done.stdout) == (0, "Here.\n")
    assert len({seen.body for seen in server.requests}) == 1


async def test_a_compatible_endpoint_needs_an_entry_and_no_code(
    shell: Shell, environment: dict[str, str]
) -> None:
    config = Path(environment["TREADLE_HOME"]) / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    answer = stream(SPEAK["openai-chat"]("Local words."))
    async with Loopback(answer) as server:
        config.write_text(
            '[models]\ndefault = "mine:qwen2.5-coder:7b"\n\n[providers.mine]\n'
            f'api = "openai-chat"\nbase_url = "{server.url}/v1"\nneeds_key = false\n'
        )
        done = await shell("-p", "hello")
    assert (done.code, done.stdout) == (0, "Local words.\n"), done.stderr
    assert "price" not in done.stderr  # an endpoint without a key asks for no money
    # Nobody knows how much this model reads: the list of the endpoint may.
    asked, seen = sorted(server.requests, key=lambda one: one.path, reverse=True)
    assert (asked.path, seen.path) == ("/v1/models", "/v1/chat/completions")
    assert seen.json["model"] == "qwen2.5-coder:7b"


async def test_local_only_refuses_a_model_that_is_elsewhere_before_anything_is_sent(
    shell: Shell,
) -> None:
    elsewhere = {"ANTHROPIC_API_KEY": KEY, "TREADLE_LOCAL_ONLY": "true"}
    done = await shell("-p", "hello", **elsewhere)
    assert done.code == 5
    assert "local_only" in done.stderr
    async with Loopback(said("anthropic", "Near.")) as server:
        done = await shell("-p", "hello", TREADLE_LOCAL_ONLY="true", **key_of("anthropic", server))
    assert (done.code, done.stdout) == (0, "Near.\n"), done.stderr


async def test_a_recording_plays_without_key_or_network_and_says_where_a_run_differs(
    shell: Shell, tmp_path: Path
) -> None:
    recording = str(tmp_path / "run.rec")
    answers = said("anthropic", "I look.", LOOK), said("anthropic", "It subtracts.")
    async with Loopback(*answers) as server:
        first = await shell("-p", "what?", "--record", recording, **key_of("anthropic", server))
    again = await shell("-p", "what?", "-m", f"recorded:{recording}")
    assert (again.code, again.stdout) == (0, first.stdout), again.stderr
    (shell.folder / "calc.py").write_text("def add(a, b):\n    return a * b\n")
    other = await shell("-p", "what?", "-m", f"recorded:{recording}")
    assert other.code == 1
    assert "messages[2]" in other.stderr
    assert mode_of(recording) == 0o600


@pytest.mark.parametrize("provider", KEYS)
async def test_show_says_what_each_turn_and_each_request_used(shell: Shell, provider: str) -> None:
    answers = said(provider, "", LOOK), said(provider, "One."), said(provider, "Two.")
    async with Loopback(*answers) as server:
        key = key_of(provider, server)
        await shell("-p", "look", **key)
        done = await shell("-c", "-p", "again", **key)
    thread = json.loads((await shell("list", "--json")).stdout)[0]["id"]
    shown = (await shell("show", thread)).stdout
    assert "(turn 1: 200 tokens in, 40 out, $0.0" in shown
    assert "(turn 2: 100 tokens in, 20 out, $0.0" in shown
    assert "whole thread: 300 tokens in, 60 out, $0.0" in done.stderr
    uses = json.loads((await shell("show", thread, "--usage", "--json")).stdout)
    assert [(use["turn"], use["purpose"]) for use in uses] == [
        (1, "answer"),
        (1, "answer"),
        (2, "answer"),
    ]
    document = json.loads((await shell("show", thread, "--json")).stdout)
    costs = [msgspec.convert(use["usage"]["cost_usd"], float, strict=False) for use in uses]
    assert float(document["usage"]["cost_usd"]) == pytest.approx(sum(costs))


async def test_the_example_of_the_documents_runs(shell: Shell, tmp_path: Path) -> None:
    source = re.findall(r"```python\n(.*?)```", read(DOCUMENT), re.DOTALL)[0]
    async with Loopback(said("anthropic", "Hello!")) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", source),
            cwd=tmp_path,
            env={**shell.environment, **key_of("anthropic", server)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate()
    assert (stdout, stderr) == (b"Hello!\n", b"")
