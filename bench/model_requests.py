"""A turn over the wire, from the shell to its end, against a script of the bare SDK."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from bench.processor import Command, least_processor_ms
from bench.report import Row, at_most

SDK: Final = """
import sys
from anthropic import Anthropic
client = Anthropic(api_key="key-of-the-bench", base_url=sys.argv[1], max_retries=0)
asked = [{"role": "user", "content": "hello"}]
print(client.messages.create(model="claude-x", max_tokens=99, messages=asked).content[0].text)
"""

SETTINGS: Final = """
[providers.bench]
api = "anthropic-messages"
base_url = "{url}"
needs_key = false

[model_traits."bench:*"]
context_tokens_max = 200_000
output_tokens_max = 9_000
"""

_MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1},
}
_EVENTS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "message_start", "message": _MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
)


class _Model(BaseHTTPRequestHandler):
    """Answers at once, streamed or not."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked.get("stream"):
            lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in _EVENTS)
            self._answer("text/event-stream", "".join(lines).encode())
            return
        content = [{"type": "text", "text": "Hello."}]
        whole = {**_MESSAGE, "content": content, "stop_reason": "end_turn"}
        self._answer("application/json", json.dumps(whole).encode())

    def _answer(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _serve() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def measure() -> list[Row]:
    """Processor time, of each the least."""
    with tempfile.TemporaryDirectory() as folder, _serve() as url:
        root = Path(folder)
        (root / "home" / "config").mkdir(parents=True)
        (root / "home" / "config" / "config.toml").write_text(SETTINGS.format(url=url))
        (root / "model.toml").write_text('[[replies]]\ntext = "Hello."\n')
        env = {"HOME": folder, "TREADLE_HOME": str(root / "home")}
        treadle = str(Path(sys.executable).parent / "treadle")
        scripted = f"scripted:{root / 'model.toml'}"
        took = least_processor_ms(
            {
                "sdk": Command([sys.executable, "-c", SDK, url], root, env),
                "real": Command([treadle, "-m", "bench:claude-x", "-p", "hello"], root, env),
                "scripted": Command([treadle, "-m", scripted, "-p", "hello"], root, env),
            }
        )
    note = f"the SDK's own script takes {took['sdk']:.0f} ms"
    limit = took["sdk"] / 2 + 150
    return [
        at_most("treadle -p, answered over HTTP, processor", took["real"], "ms", limit, note),
        at_most("treadle -p, instant model, processor", took["scripted"], "ms", limit, note),
    ]
