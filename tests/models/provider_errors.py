"""What providers answer when they refuse: their own words, and the kind that each means.

That a request is too long stands in `too_long_errors`.

The words are those of error pages and of reports; numbers, names and ids in them are made up.
"""

from __future__ import annotations

from typing import Any, Final

from treadle.core.llm import LlmErrorKind

K = LlmErrorKind
Row = tuple[str, int, Any, LlmErrorKind, str]
"""Who, the HTTP status, the body, what it means, and words that the person must be told."""


def as_anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def as_openai(
    message: str, kind: Any = "invalid_request_error", code: Any = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def as_google(message: str, reason: str = "", code: int = 400) -> dict[str, Any]:
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    error = {"code": code, "message": message, "status": "INVALID_ARGUMENT"}
    return {"error": {**error, "details": [detail]} if reason else error}


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
        as_openai(
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
        as_openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        K.PERMISSION,
        "quota",
    ),
    (
        "moonshot, no quota",
        429,
        as_openai(
            "Your account is suspended, please check your plan", "exceeded_current_quota_error"
        ),
        K.PERMISSION,
        "suspended",
    ),
    (
        "anthropic, no credit",
        400,
        as_anthropic(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
            "Billing to upgrade or purchase credits."
        ),
        K.PERMISSION,
        "credit balance",
    ),
    (
        "anthropic, limit of the account",
        400,
        as_anthropic(
            "You have reached your specified API usage limits. You will regain access on "
            "2026-12-01 at 00:00 UTC."
        ),
        K.PERMISSION,
        "2026-12-01",
    ),
    *(
        (who, status, body, K.PERMISSION, "")
        for who, status, body in (
            (
                "anthropic, limit of the workspace",
                400,
                as_anthropic(
                    "You have reached your specified workspace API usage limits. You will"
                ),
            ),
            ("anthropic, disabled", 400, as_anthropic("This organization has been disabled.")),
            (
                "xai, no credit",
                429,
                {
                    "code": "Some resource has been exhausted",
                    "error": "Your team 1 has either used all available credits or reached its "
                    "monthly spending limit.",
                },
            ),
            (
                "gemini, no credit",
                429,
                [as_google("Your prepayment credits are depleted.", "", 429)],
            ),
            ("dashscope, no credit", 400, as_openai("no", "Arrearage", "Arrearage")),
            (
                "dashscope, no credit in words",
                400,
                as_openai("Access denied, please make sure your account is in good standing."),
            ),
            ("dashscope, no free tier", 429, as_openai("no", "AllocationQuota.FreeTierOnly")),
            (
                "fireworks, suspended",
                412,
                as_openai(
                    "Account x is suspended, possibly due to reaching the monthly spending limit"
                ),
            ),
            (
                "minimax",
                429,
                {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            ),
        )
    ),
    ("deepseek, no balance", 402, as_openai("Insufficient Balance", "x"), K.PERMISSION, "Balance"),
    (
        "gemini, too many requests",
        429,
        as_google("You exceeded your current quota, please check your plan and billing.", "", 429),
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
        as_openai(
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
        as_anthropic("Output blocked by content filtering policy"),
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
        as_openai(
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
        as_openai("Input data may contain inappropriate content."),
        K.CONTENT_FILTERED,
        "inappropriate",
    ),
    (
        "moonshot, filtered",
        400,
        as_openai("The request was rejected because it was considered high risk", "x"),
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
    (
        "openai, safety",
        400,
        as_openai("Your request was rejected as a result of our safety system."),
        K.CONTENT_FILTERED,
        "safety",
    ),
    (
        "minimax, filtered",
        400,
        {"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}},
        K.CONTENT_FILTERED,
        "new_sensitive",
    ),
    (
        "gemini, a key that was found",
        403,
        [as_google("Your API key was reported as leaked. Please use another API key.", "", 403)],
        K.AUTHENTICATION,
        "leaked",
    ),
    (
        "groq, an answer that cannot be read",
        400,
        {
            "error": {
                "message": "Parsing failed. Please adjust your prompt.",
                "type": "invalid_request_error",
                "code": "output_parse_failed",
                "failed_generation": "<|channel|>",
            }
        },
        K.SERVER,
        "<|channel|>",
    ),
    (
        "cerebras, a call that does not fit",
        400,
        {
            "message": "Failed to generate tool_calls. Please adjust your prompt.",
            "type": "invalid_request_error",
            "param": "tool_calls",
            "code": "wrong_api_format",
        },
        K.SERVER,
        "tool_calls",
    ),
    ("deepseek, filtered", 400, as_openai("Content Exists Risk"), K.CONTENT_FILTERED, "Risk"),
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
        [as_google("API key not valid. Please pass a valid API key.", "API_KEY_INVALID")],
        K.AUTHENTICATION,
        "valid API key",
    ),
    (
        "gemini, no such key",
        400,
        [as_google("API Key not found. Please pass a valid one.", "API_KEY_INVALID")],
        K.AUTHENTICATION,
        "not found",
    ),
    (
        "gemini, no key",
        400,
        [as_google("Missing or invalid Authorization header.")],
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
        as_anthropic("max_tokens: 100000 > 64000, which is the maximum allowed number of output"),
        K.BAD_REQUEST,
        "64000",
    ),
    (
        "openai, too much asked for",
        400,
        as_openai("max_tokens is too large: 100000. This model supports at most 16384 tokens."),
        K.BAD_REQUEST,
        "16384",
    ),
    (
        "bedrock, too much asked for",
        400,
        {"message": "The maximum tokens you requested exceeds the model limit of 4096."},
        K.BAD_REQUEST,
        "4096",
    ),
    (
        "openai, too many tools",
        400,
        as_openai("Invalid 'tools': the request exceeds the maximum number of tools, 128."),
        K.BAD_REQUEST,
        "tools",
    ),
    (
        "deepseek, out of range",
        400,
        as_openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        K.BAD_REQUEST,
        "8192",
    ),
    (
        "a wrong key that speaks of context",
        401,
        as_openai("no key for this context window"),
        K.AUTHENTICATION,
        "",
    ),
)
