"""What a provider adds to its SDK: time per event of a stream, time to the first request."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO, Any

from bench.report import Row, at_most
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message

FEW, MANY = 500, 4_500
TIMES = 7
START_TIMES = 9

_SERVER = """
import asyncio, json, sys, time

sys.path[:0] = json.loads(sys.argv[1])
from bench.streams import body_of

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin-1").lower()
            path = head.split(" ")[1]
            size = int(head.partition("content-length:")[2].split("\\r\\n")[0] or 0)
            if size == 0:  # what models there are: nobody says
                writer.write(b"HTTP/1.1 404 Not Found\\r\\ncontent-length: 0\\r\\n\\r\\n")
                continue
            body = json.loads(await reader.readexactly(size))
            print(time.perf_counter(), flush=True)
            count = int(str(body.get("model", "m-3")).rpartition("-")[2])
            data = body_of(path, count)
            writer.write(
                b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n"
                b"content-length: %d\\r\\n\\r\\n" % len(data)
            )
            for start in range(0, len(data), 4096):
                writer.write(data[start : start + 4096])
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

_FIRST_REQUEST_OF_THE_SDK = """
import asyncio, sys
from anthropic import AsyncAnthropic

async def main():
    client = AsyncAnthropic(api_key="k", base_url=sys.argv[1], max_retries=0)
    said = [{"role": "user", "content": "hello"}]
    stream = await client.messages.create(model="m-3", max_tokens=9, messages=said, stream=True)
    async for _ in stream:
        pass

asyncio.run(main())
"""


def body_of(path: str, count: int) -> bytes:
    """A stream of `count` text deltas in the format that the path belongs to."""
    if path.startswith("/v1/messages"):
        return _named(_anthropic(count))
    if path.endswith("/responses"):
        return _named(_responses(count))
    return b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in _chat(count)) + (
        b"data: [DONE]\n\n"
    )


def _named(events: list[dict[str, Any]]) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode())
        for one in events
    )


def _anthropic(count: int) -> list[dict[str, Any]]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    delta = {"type": "text_delta", "text": " word"}
    return [
        {"type": "message_start", "message": message},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        *[{"type": "content_block_delta", "index": 0, "delta": delta}] * count,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": count},
        },
        {"type": "message_stop"},
    ]


def _chat(count: int) -> list[dict[str, Any]]:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    return [*[chunk({"content": " word"})] * count, chunk({}, "stop")]


def _responses(count: int) -> list[dict[str, Any]]:
    head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    item = {"id": "i", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "text": " word" * count, "annotations": []}
    whole = {**item, "status": "completed", "content": [part]}
    start = {**item, "status": "in_progress", "content": []}
    usage = {"input_tokens": 1, "output_tokens": count, "total_tokens": count + 1}
    return [
        {"type": "response.created", "response": {**head, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": start},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *[{"type": "response.output_text.delta", **place, "delta": " word"}] * count,
        {"type": "response.output_text.done", **place, "text": part["text"]},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {**head, "status": "completed", "output": [whole], "usage": usage},
        },
    ]


async def _marginal_us(read: Callable[[int], Awaitable[int]]) -> float:
    """CPU microseconds per event: a long stream less a short one, so that set-up cancels out."""
    took: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(TIMES):
        for count, times in took.items():
            began_s = time.process_time()
            assert await read(count) >= count
            times.append(time.process_time() - began_s)
    few, many = (statistics.median(took[count]) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW) * 1e6


def _ours(provider: Any) -> Callable[[int], Awaitable[int]]:
    async def read(count: int) -> int:
        request = LlmRequest(f"m-{count}", Conversation([Message.user("go")]))
        seen = 0
        async for event in provider.stream(request):
            assert not isinstance(event, LlmEvent.Error), event
            seen += 1
        return seen

    return read


def _theirs(open_stream: Callable[[str], Awaitable[Any]]) -> Callable[[int], Awaitable[int]]:
    async def count_all(stream: AsyncIterator[Any]) -> int:
        return sum([1 async for _ in stream])

    async def read(count: int) -> int:
        return await count_all(await open_stream(f"m-{count}"))

    return read


async def _measure_events(url: str) -> list[Row]:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    from treadle.models.anthropic.provider import AnthropicProvider
    from treadle.models.openai.chat import OpenAiChatProvider
    from treadle.models.openai.responses import OpenAiResponsesProvider

    said: Any = [{"role": "user", "content": "go"}]
    claude = AsyncAnthropic(api_key="key-of-the-bench", base_url=url, max_retries=0)
    gpt = AsyncOpenAI(api_key="key-of-the-bench", base_url=f"{url}/v1", max_retries=0)
    pairs = {
        "Anthropic": (
            AnthropicProvider("key-of-the-bench", base_url=url),
            lambda model: claude.messages.create(
                model=model, max_tokens=9, messages=said, stream=True
            ),
        ),
        "OpenAI chat": (
            OpenAiChatProvider("key-of-the-bench", base_url=f"{url}/v1"),
            lambda model: gpt.chat.completions.create(model=model, messages=said, stream=True),
        ),
        "OpenAI responses": (
            OpenAiResponsesProvider("key-of-the-bench", base_url=f"{url}/v1"),
            lambda model: gpt.responses.create(model=model, input=said, stream=True),
        ),
    }
    rows: list[Row] = []
    for name, (provider, open_stream) in pairs.items():
        theirs = await _marginal_us(_theirs(open_stream))
        ours = await _marginal_us(_ours(provider))
        note = f"ours {ours:.1f} us, the bare SDK {theirs:.1f} us of CPU"
        rows.append(at_most(f"an event of a stream, {name}", ours / theirs, "x SDK", 1, note))
        await provider.aclose()
    await claude.close()
    await gpt.close()
    return rows


def _measure_start(url: str, arrivals: IO[str]) -> list[Row]:
    """From the start of a process to the moment its first request has arrived.

    Ours does everything else of a start meanwhile (settings, store, git, the first syncs), while
    the SDK is imported in a thread. The clock is the system's, the same in all processes.
    """
    took: dict[str, list[float]] = {"ours": [], "sdk": []}
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": folder,
            "TREADLE_HOME": str(Path(folder) / "home"),
            "ANTHROPIC_API_KEY": "key-of-the-bench",
            "ANTHROPIC_BASE_URL": url,
        }
        commands = {
            "ours": [sys.executable, "-m", "treadle", "-p", "hello", "-m", "anthropic:m-3"],
            "sdk": [sys.executable, "-c", _FIRST_REQUEST_OF_THE_SDK, url],
        }
        for _ in range(START_TIMES):
            for name, command in commands.items():
                began_s = time.perf_counter()
                subprocess.run(
                    command, env=environment, cwd=folder, check=True, capture_output=True
                )
                took[name].append(float(arrivals.readline()) - began_s)
    ours, sdk = (1e3 * statistics.median(took[name]) for name in ("ours", "sdk"))
    note = f"ours {ours:,.0f} ms, a bare script on the SDK {sdk:,.0f} ms"
    return [at_most("from start to the first request", ours / sdk, "x SDK", 1.25, note)]


def measure() -> list[Row]:
    """All of it, against one server in a process of its own."""
    paths = json.dumps([str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")])
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, paths], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            rows = asyncio.run(_measure_events(url))
            for _ in range(len(rows) * 2 * 2 * TIMES):
                server.stdout.readline()
            return [*rows, *_measure_start(url, server.stdout)]
        finally:
            server.kill()
