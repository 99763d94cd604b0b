"""What endpoints that speak Chat Completions send, each in its own way, as bytes on the wire.

Written after recordings in the endpoints' documentation and issue trackers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from models.loopback import sse


def chunk(
    delta: Any = None, finish: str | None = None, *, usage: Any = None, **more: Any
) -> dict[str, Any]:
    """A chunk of OpenAI's; without `delta` and `finish`, one without choices."""
    choices = [{"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}]
    return {
        "id": "chatcmpl-C1",
        "object": "chat.completion.chunk",
        "created": 1762355135,
        "model": "gpt-5-mini-2025-08-07",
        "choices": [] if delta is None and finish is None else choices,
        "usage": usage,
        **more,
    }


def piece(index: int, arguments: Any = "", call_id: str = "", name: str = "") -> dict[str, Any]:
    """A piece of a call by the letter: id, type and name come with the first only."""
    first = {"id": call_id, "type": "function"} if call_id else {}
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"index": index, **first, "function": function}


def calls(*pieces: Any) -> dict[str, Any]:
    return {"tool_calls": list(pieces)}


def used(read: int, written: int, **more: Any) -> dict[str, Any]:
    numbers = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {**numbers, **more}


_OPENAI_TEXT = sse(
    chunk({"role": "assistant", "content": "", "refusal": None}, obfuscation="aB"),
    chunk({"content": "Grüße, "}, obfuscation="x9Kd"),
    chunk({"content": "世界! 🎉"}),
    chunk({}, "stop"),
    chunk(
        usage=used(
            1200,
            9,
            prompt_tokens_details={"cached_tokens": 1024, "audio_tokens": 0},
            completion_tokens_details={"reasoning_tokens": 4, "audio_tokens": 0},
        )
    ),
    done=True,
)

_OPENAI_TOOLS = sse(
    chunk({"role": "assistant", "content": None, "refusal": None}),
    chunk(calls(piece(0, "", "call_aX1", "read_file"))),
    chunk(calls(piece(0, '{"pa'))),
    chunk(calls(piece(0, 'th":"a.py"}'))),
    chunk(calls(piece(1, "", "call_bX2", "list_files"))),
    chunk(calls(piece(1, "{}"))),
    chunk(calls(piece(2, "", "call_cX3", "bash"))),
    chunk(calls(piece(2, '{"command": "ls \\"ü\\""}'))),
    chunk({}, "tool_calls"),
    chunk(usage=used(80, 60)),
    done=True,
)

_OPENAI_BOTH = sse(
    chunk({"role": "assistant", "content": "I look."}),
    chunk(calls(piece(0, "", "call_d", "bash"))),
    chunk(calls(piece(0, '{"command":"ls"}'))),
    chunk({}, "tool_calls"),
    chunk(usage=used(8, 6)),
    done=True,
)

_OPENAI_REFUSAL = sse(
    chunk({"role": "assistant", "content": None, "refusal": ""}),
    chunk({"refusal": "I cannot "}),
    chunk({"refusal": "help with that."}),
    chunk({}, "stop"),
    chunk(usage=used(30, 7)),
    done=True,
)

_OPENAI_LENGTH = sse(
    chunk({"role": "assistant", "content": None}),
    chunk(calls(piece(0, "", "call_w", "write_file"))),
    chunk(calls(piece(0, '{"path":"b.py","content":"def f'))),
    chunk({}, "length"),
    chunk(usage=used(50, 16)),
    done=True,
)

_OPENAI_FILTERED = sse(
    chunk({"role": "assistant", "content": "How to"}),
    chunk({}, "content_filter"),
    chunk(usage=used(20, 2)),
    done=True,
)

_AZURE = sse(
    {"id": "", "object": "", "model": "", "choices": [], "prompt_filter_results": [{"a": 1}]},
    chunk({"role": "assistant", "content": "Yes."}),
    chunk({}, "stop"),
    {"choices": [{"index": 0, "content_filter_offsets": {"end_offset": 4}, "finish_reason": None}]},
    chunk(usage=used(9, 2)),
    done=True,
)

_DEEPSEEK = sse(
    chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
    chunk({"content": None, "reasoning_content": "The user wants "}),
    chunk({"content": None, "reasoning_content": "the date."}),
    chunk({"content": "Let me see.", "reasoning_content": None}),
    chunk(calls(piece(0, "", "call_00_kZ", "date"))),
    chunk(calls(piece(0, '{"zone"'))),
    chunk(calls(piece(0, ': "UTC"}'))),
    chunk(
        {"content": "", "reasoning_content": None},
        "tool_calls",
        usage=used(
            300,
            40,
            prompt_cache_hit_tokens=256,
            prompt_cache_miss_tokens=44,
            completion_tokens_details={"reasoning_tokens": 21},
        ),
    ),
    done=True,
)

_OPENROUTER = b": OPENROUTER PROCESSING\n\n" * 2 + sse(
    chunk(
        {
            "role": "assistant",
            "content": "",
            "reasoning": "Let me ",
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "Let me ",
                    "format": "anthropic-claude-v1",
                    "index": 0,
                }
            ],
        },
        provider="Anthropic",
    ),
    chunk(
        {
            "role": "assistant",
            "content": "",
            "reasoning": "compute.",
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "compute.",
                    "format": "anthropic-claude-v1",
                    "index": 0,
                }
            ],
        }
    ),
    chunk(
        {
            "role": "assistant",
            "content": "",
            "reasoning": None,
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "signature": "Et8BCmUIDxgC",
                    "format": "anthropic-claude-v1",
                    "index": 0,
                },
                {"type": "reasoning.encrypted", "data": "gAAAA=", "id": "rs_1", "index": 1},
            ],
        }
    ),
    chunk({"role": "assistant", "content": "391"}),
    chunk({"role": "assistant", "content": ""}, "stop", native_finish_reason="end_turn"),
    chunk(
        {"role": "assistant", "content": ""},
        usage=used(
            20,
            30,
            cost=0.00042,
            prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 10},
            completion_tokens_details={"reasoning_tokens": 12},
        ),
    ),
    done=True,
)

_OPENROUTER_ERROR = sse(
    chunk({"role": "assistant", "content": "Once upon"}),
    chunk(
        {"content": ""},
        "error",
        error={"code": 502, "message": "Provider disconnected"},
        usage=used(11, 2),
    ),
)

_GROQ = sse(
    chunk({"role": "assistant", "content": None}, x_groq={"id": "req_01"}),
    chunk({"reasoning": "Need the files."}),
    chunk(calls(piece(0, '{"path":"."}', "fs1", "list_files"), piece(1, '{"n":1}', "fs2", "head"))),
    chunk({}, "tool_calls", x_groq={"id": "req_01", "usage": used(70, 20, queue_time=0.01)}),
    done=True,
)

_GPUSTACK_ERROR = (
    sse(chunk({"role": "assistant", "content": "Hm"}))
    + b'error: {"error": {"code": 503, "reason": "x", "message": "no worker is there"}}\n'
)
_GROQ_ERROR = sse(
    chunk({"role": "assistant", "content": "Hm"}),
    (
        "error",
        {
            "error": {
                "message": "Failed to call a function.",
                "type": "invalid_request_error",
                "code": "tool_use_failed",
                "status_code": 400,
            }
        },
    ),
)

_MISTRAL = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Okay, "}]}]}),
    chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hello."}]}]}),
    chunk({"content": [{"type": "text", "text": "Hel"}]}),
    chunk({"content": "lo!"}),
    chunk({"content": ""}, "stop", usage=used(10, 8)),
    done=True,
)

_MISTRAL_TOOLS = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk(
        calls(
            {"id": "D681PevKs", "function": {"name": "ls", "arguments": '{"a": 1}'}, "index": 0},
            {"id": "Zx81PevK2", "function": {"name": "ls", "arguments": '{"a": 2}'}, "index": 1},
        ),
        "tool_calls",
        usage=used(90, 24),
    ),
    done=True,
)

_XAI = sse(
    chunk({"role": "assistant", "reasoning_content": "Sum. "}),
    chunk({"content": "101", "role": "assistant"}),
    chunk({}, "stop"),
    chunk(
        usage={
            "prompt_tokens": 32,
            "completion_tokens": 9,
            "total_tokens": 135,
            "completion_tokens_details": {"reasoning_tokens": 94},
        }
    ),
    done=True,
)

_OLLAMA = sse(
    chunk({"role": "assistant", "content": "", "reasoning": "Two files."}),
    chunk(calls(piece(0, '{"path":"hello.py"}', "call_k1", "write_file"))),
    chunk(calls(piece(0, '{"path":"world.py"}', "call_k2", "write_file"))),
    chunk({"role": "assistant", "content": ""}, "tool_calls"),
    chunk(usage=used(155, 61)),
    done=True,
)

_OLLAMA_NATIVE = sse(
    chunk(calls({"function": {"name": "write_file", "arguments": {"path": "a", "text": "é"}}})),
    chunk(calls({"function": {"name": "list_files", "arguments": {}}})),
    chunk({"content": ""}, "stop"),
    done=True,
)

_VLLM = sse(
    chunk({"role": "assistant", "content": ""}, usage=used(23, 0)),
    chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}, usage=used(23, 1)),
    chunk({"content": "Ja"}, usage=used(23, 2)),
    chunk({"content": "."}, "stop", usage=used(23, 3)),
    chunk(usage=used(23, 4)),
    done=True,
)

_VLLM_ERROR = sse(
    chunk({"role": "assistant", "content": ""}),
    {
        "object": "error",
        "message": "This model's maximum context length is 4096 tokens, you requested 5000",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    done=True,
)

_LLAMA_CPP = sse(
    chunk({"role": "assistant", "content": None}),
    chunk(calls(piece(0, "{", "", "grep"))),
    chunk(calls(piece(0, '"pattern":"x"'))),
    chunk(calls(piece(0, "}"))),
    chunk({}, "tool_calls", usage=used(40, 12), timings={"prompt_ms": 3.1}),
)

_LM_STUDIO = sse(
    chunk(calls({"index": 0, "id": "365", "type": "function", "function": {"name": "get_"}})),
    chunk(calls({"index": 0, "function": {"name": "date"}})),
    chunk(calls({"index": 0, "id": "365", "function": {"name": None, "arguments": '{"d":'}})),
    chunk(calls({"index": 0, "id": "365", "function": {"arguments": "1}"}})),
    chunk({}, "tool_calls"),
)

_GEMINI = sse(
    chunk(
        calls(
            {
                "id": "function-call-1",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a":1}'},
                "extra_content": {"google": {"thought_signature": "CiQB"}},
            }
        ),
    ),
    chunk(
        calls(
            {
                "id": "function-call-2",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a":2}'},
            }
        ),
        "stop",
        usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 38},
    ),
    done=True,
)

_PROXY = sse(
    chunk({"role": "assistant", "content": "All "}),
    chunk({"content": "well"}),
    done=True,
)

_LEGACY = sse(
    chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}),
    chunk({"function_call": {"arguments": '{"x"'}}),
    chunk({"function_call": {"arguments": ":1}"}}),
    chunk({}, "function_call"),
    done=True,
).replace(b"\n", b"\r\n")

STREAMS: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "openai text": _OPENAI_TEXT,
        "openai tools": _OPENAI_TOOLS,
        "openai both": _OPENAI_BOTH,
        "openai refusal": _OPENAI_REFUSAL,
        "openai length": _OPENAI_LENGTH,
        "openai filtered": _OPENAI_FILTERED,
        "azure": _AZURE,
        "deepseek": _DEEPSEEK,
        "openrouter": _OPENROUTER,
        "openrouter error": _OPENROUTER_ERROR,
        "groq": _GROQ,
        "groq error": _GROQ_ERROR,
        "gpustack error": _GPUSTACK_ERROR,
        "mistral": _MISTRAL,
        "mistral tools": _MISTRAL_TOOLS,
        "xai": _XAI,
        "ollama": _OLLAMA,
        "ollama native": _OLLAMA_NATIVE,
        "vllm": _VLLM,
        "vllm error": _VLLM_ERROR,
        "llama.cpp": _LLAMA_CPP,
        "lm studio": _LM_STUDIO,
        "gemini": _GEMINI,
        "proxy": _PROXY,
        "legacy": _LEGACY,
    }
)
