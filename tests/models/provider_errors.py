"""What providers answer when they refuse: their own words, and the kind that each means.

The words are those of error pages and of reports; numbers, names and ids in them are made up.
"""

from __future__ import annotations

from typing import Any, Final

from treadle.core.llm import LlmErrorKind

K = LlmErrorKind
Row = tuple[str, int, Any, LlmErrorKind, str]
"""Who, the HTTP status, the body, what it means, and words that the person must be told."""


def _anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def _openai(message: str, kind: Any = "invalid_request_error", code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _google(message: str, reason: str = "", code: int = 400) -> dict[str, Any]:
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    error = {"code": code, "message": message, "status": "INVALID_ARGUMENT"}
    return {"error": {**error, "details": [detail]} if reason else error}


TOO_LONG: Final[tuple[Row, ...]] = tuple(
    (who, status, body, K.CONTEXT_TOO_LONG, "")
    for who, status, body in (
        ("anthropic", 400, _anthropic("prompt is too long: 213462 tokens > 200000 maximum")),
        (
            "anthropic, with the answer",
            400,
            _anthropic(
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, "
                "decrease input length or `max_tokens` and try again"
            ),
        ),
        ("anthropic, bytes", 413, _anthropic("Request exceeds the maximum size", "x")),
        ("openai", 400, _openai("too long", code="context_length_exceeded")),
        ("openai, words", 400, _openai("Your input exceeds the context window of this model.")),
        (
            "openai, tokens per minute",
            429,
            _openai(
                "Request too large for gpt-5 in organization org-x on tokens per min (TPM): Limit "
                "30000, Requested 39283. The input or output tokens must be reduced.",
                "tokens",
                "rate_limit_exceeded",
            ),
        ),
        (
            "groq, tokens per minute",
            413,
            _openai(
                "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` on "
                "tokens per minute (TPM): Limit 12000, Requested 19537, please reduce your message "
                "size and try again.",
                "tokens",
                "rate_limit_exceeded",
            ),
        ),
        ("groq", 400, _openai("Please reduce the length of the messages or completion.")),
        (
            "perplexity",
            400,
            {"error": {"message": "no", "type": "too_many_prompt_tokens", "code": 400}},
        ),
        (
            "perplexity through openrouter",
            400,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {
                        "raw": '{"error":{"message":"Requested 115120 to generate tokens, following'
                        ' a prompt of length 40055, which exceeds the max limit of 128000 tokens."'
                        ',"type":"bad_request","code":400}}',
                        "provider_name": "Perplexity",
                    },
                }
            },
        ),
        (
            "xai",
            400,
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 131072 but the request contains "
                "136973 tokens.",
            },
        ),
        (
            "kimi",
            400,
            _openai(
                "Invalid request: Your request exceeded model token limit: 262144 (requested: 3"
            ),
        ),
        (
            "copilot",
            400,
            _openai("prompt token count of 135000 exceeds the limit of 128000", None, "invalid"),
        ),
        (
            "copilot, code",
            400,
            _openai("no", None, "model_max_prompt_tokens_exceeded"),
        ),
        (
            "together",
            422,
            _openai(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given:"
                " 8195 `inputs` tokens and 512 `max_new_tokens`"
            ),
        ),
        (
            "together, newer",
            400,
            _openai(
                "The input (300 tokens) is longer than the model's context length (200 tokens)."
            ),
        ),
        (
            "gemini",
            400,
            _google("The input token count (1196265) exceeds the maximum number of tokens allowed"),
        ),
        (
            "mistral",
            400,
            {
                "object": "error",
                "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model "
                "with 32768 maximum context length",
                "type": "invalid_request_prompt",
                "code": "3051",
            },
        ),
        ("minimax", 400, _openai("invalid params, context window exceeds limit (2013)")),
        ("dashscope", 400, _openai("Range of input length should be [1, 30000]")),
        ("z.ai", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
        ("bedrock", 400, {"message": "Input is too long for requested model."}),
        (
            "vllm",
            400,
            {
                "object": "error",
                "message": "This model's maximum context length is 8192 tokens. However, you "
                "requested 9000 tokens",
                "type": "BadRequestError",
                "code": 400,
            },
        ),
        (
            "llama.cpp",
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                }
            },
        ),
        ("ollama", 500, _openai("input length exceeds maximum context length", "api_error")),
        (
            "lm studio",
            500,
            "trying to keep the first 9000 tokens when context the overflows. However, the model is"
            " loaded with context length of only 4096 tokens",
        ),
    )
)

OTHERS: Final[tuple[Row, ...]] = (
    (
        "z.ai, no balance",
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "code": "1113",
                "message": "Insufficient balance or no resource package. Please recharge.",
            },
        },
        K.PERMISSION,
        "Please recharge",
    ),
    (
        "openai, no billing",
        429,
        _openai(
            "Your account is not active, please check your billing details on our website.",
            "billing_not_active",
            "billing_not_active",
        ),
        K.PERMISSION,
        "billing details",
    ),
    (
        "openai, no quota",
        429,
        _openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        K.PERMISSION,
        "quota",
    ),
    (
        "moonshot, no quota",
        429,
        _openai(
            "Your account is suspended, please check your plan", "exceeded_current_quota_error"
        ),
        K.PERMISSION,
        "suspended",
    ),
    (
        "anthropic, no credit",
        400,
        _anthropic(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
            "Billing to upgrade or purchase credits."
        ),
        K.PERMISSION,
        "credit balance",
    ),
    (
        "anthropic, limit of the account",
        400,
        _anthropic(
            "You have reached your specified API usage limits. You will regain access on "
            "2026-12-01 at 00:00 UTC."
        ),
        K.PERMISSION,
        "2026-12-01",
    ),
    ("deepseek, no balance", 402, _openai("Insufficient Balance", "x"), K.PERMISSION, "Balance"),
    (
        "gemini, too many requests",
        429,
        _google("You exceeded your current quota, please check your plan and billing.", "", 429),
        K.RATE_LIMITED,
        "quota",
    ),
    (
        "bedrock, too many requests",
        429,
        {"message": "Too many tokens, please wait before trying again."},
        K.RATE_LIMITED,
        "please wait",
    ),
    (
        "openai, too many requests",
        429,
        _openai(
            "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit "
            "30000, Used 29000, Requested 2000. Please try again in 2s.",
            "tokens",
            "rate_limit_exceeded",
        ),
        K.RATE_LIMITED,
        "try again in 2s",
    ),
    (
        "anthropic, filtered",
        400,
        _anthropic("Output blocked by content filtering policy"),
        K.CONTENT_FILTERED,
        "blocked",
    ),
    (
        "openrouter, moderation",
        403,
        {
            "error": {
                "message": "anthropic/claude-sonnet-4.5 requires moderation on Anthropic. Your "
                'input was flagged for "violence". No credits were charged.',
                "code": 403,
                "metadata": {
                    "reasons": ["violence"],
                    "flagged_input": "what the person said",
                    "provider_name": "Anthropic",
                },
            }
        },
        K.CONTENT_FILTERED,
        "violence",
    ),
    (
        "azure, filtered",
        400,
        _openai(
            "The response was filtered due to the prompt triggering Azure OpenAI's content "
            "management policy.",
            None,
            "content_filter",
        ),
        K.CONTENT_FILTERED,
        "filtered",
    ),
    (
        "dashscope, filtered",
        400,
        _openai("Input data may contain inappropriate content."),
        K.CONTENT_FILTERED,
        "inappropriate",
    ),
    (
        "moonshot, filtered",
        400,
        _openai("The request was rejected because it was considered high risk", "x"),
        K.CONTENT_FILTERED,
        "high risk",
    ),
    (
        "xai, filtered",
        403,
        {
            "code": "The caller does not have permission",
            "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
        },
        K.CONTENT_FILTERED,
        "guidelines",
    ),
    ("deepseek, filtered", 400, _openai("Content Exists Risk"), K.CONTENT_FILTERED, "Risk"),
    (
        "groq, a call that does not fit",
        400,
        {
            "error": {
                "message": "Failed to call a function. Please adjust your prompt. See "
                "'failed_generation' for more details.",
                "type": "invalid_request_error",
                "code": "tool_use_failed",
                "failed_generation": '<function=bash>{"command": }</function>',
            }
        },
        K.SERVER,
        '<function=bash>{"command": }</function>',
    ),
    (
        "xai, wrong key",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa***ey. You can obtain an API key from "
            "https://console.x.ai.",
        },
        K.AUTHENTICATION,
        "console.x.ai",
    ),
    (
        "gemini, wrong key",
        400,
        [_google("API key not valid. Please pass a valid API key.", "API_KEY_INVALID")],
        K.AUTHENTICATION,
        "valid API key",
    ),
    (
        "gemini, no key",
        400,
        [_google("Missing or invalid Authorization header.")],
        K.AUTHENTICATION,
        "Authorization",
    ),
    (
        "a proxy around gemini",
        400,
        {
            "error": {
                "message": '{\n "error": {\n "code": 400,\n "message": "API key expired. Please '
                'renew the API key.",\n "status": "INVALID_ARGUMENT"}}',
                "code": 400,
                "status": "Bad Request",
            }
        },
        K.AUTHENTICATION,
        "renew the API key",
    ),
    ("mistral, detail", 401, {"detail": "Unauthorized"}, K.AUTHENTICATION, "Unauthorized"),
    (
        "mistral, faults",
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options"],
                        "msg": "Extra inputs are not permitted",
                        "input": {},
                    }
                ]
            },
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
        K.BAD_REQUEST,
        "Extra inputs are not permitted (body.stream_options)",
    ),
    (
        "openrouter, what is behind it",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"message": "tools.0.name: too odd", "type": "Bad Request"}',
                    "provider_name": "Azure",
                },
            }
        },
        K.BAD_REQUEST,
        "tools.0.name: too odd",
    ),
    (
        "openrouter, text behind it",
        502,
        {
            "error": {
                "message": "Provider returned error",
                "code": 502,
                "metadata": {"raw": "upstream connect error", "provider_name": "X"},
            }
        },
        K.SERVER,
        "upstream connect error",
    ),
    (
        "anthropic, too much asked for",
        400,
        _anthropic("max_tokens: 100000 > 64000, which is the maximum allowed number of output"),
        K.BAD_REQUEST,
        "64000",
    ),
    (
        "openai, too much asked for",
        400,
        _openai("max_tokens is too large: 100000. This model supports at most 16384 tokens."),
        K.BAD_REQUEST,
        "16384",
    ),
    (
        "deepseek, out of range",
        400,
        _openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        K.BAD_REQUEST,
        "8192",
    ),
    (
        "a wrong key that speaks of context",
        401,
        _openai("no key for this context window"),
        K.AUTHENTICATION,
        "",
    ),
)

ROWS: Final = (*TOO_LONG, *OTHERS)
