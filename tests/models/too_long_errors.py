"""What servers answer to a request that is too long for the model, in their own words."""

from __future__ import annotations

from typing import Final

from models.provider_errors import Row, as_anthropic, as_google, as_openai
from treadle.core.llm import LlmErrorKind

TOO_LONG: Final[tuple[Row, ...]] = tuple(
    (who, status, body, LlmErrorKind.CONTEXT_TOO_LONG, "")
    for who, status, body in (
        ("anthropic", 400, as_anthropic("prompt is too long: 213462 tokens > 200000 maximum")),
        (
            "anthropic, with the answer",
            400,
            as_anthropic(
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, "
                "decrease input length or `max_tokens` and try again"
            ),
        ),
        ("anthropic, bytes", 413, as_anthropic("Request exceeds the maximum size", "x")),
        ("openai", 400, as_openai("too long", code="context_length_exceeded")),
        ("openai, words", 400, as_openai("Your input exceeds the context window of this model.")),
        (
            "openai, tokens per minute",
            429,
            as_openai(
                "Request too large for gpt-5 in organization org-x on tokens per min (TPM): Limit "
                "30000, Requested 39283. The input or output tokens must be reduced.",
                "tokens",
                "rate_limit_exceeded",
            ),
        ),
        (
            "groq, tokens per minute",
            413,
            as_openai(
                "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` on "
                "tokens per minute (TPM): Limit 12000, Requested 19537, please reduce your message "
                "size and try again.",
                "tokens",
                "rate_limit_exceeded",
            ),
        ),
        ("groq", 400, as_openai("Please reduce the length of the messages or completion.")),
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
            as_openai(
                "Invalid request: Your request exceeded model token limit: 262144 (requested: 3"
            ),
        ),
        (
            "copilot",
            400,
            as_openai("prompt token count of 135000 exceeds the limit of 128000", None, "invalid"),
        ),
        (
            "copilot, code",
            400,
            as_openai("no", None, "model_max_prompt_tokens_exceeded"),
        ),
        (
            "together",
            422,
            as_openai(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given:"
                " 8195 `inputs` tokens and 512 `max_new_tokens`"
            ),
        ),
        (
            "together, newer",
            400,
            as_openai(
                "The input (300 tokens) is longer than the model's context length (200 tokens)."
            ),
        ),
        (
            "gemini",
            400,
            as_google(
                "The input token count (1196265) exceeds the maximum number of tokens allowed"
            ),
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
        ("minimax", 400, as_openai("invalid params, context window exceeds limit (2013)")),
        ("dashscope", 400, as_openai("Range of input length should be [1, 30000]")),
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
        ("ollama", 500, as_openai("input length exceeds maximum context length", "api_error")),
        *(
            (who, 400, as_openai(words))
            for who, words in (
                (
                    "openai, configured",
                    "Input tokens exceed the configured limit of 272000 tokens.",
                ),
                ("ollama, newer", "prompt too long; exceeded max context length by 4 tokens"),
                ("volcengine", "Total tokens of image and text exceed max message tokens."),
                ("tgi", "Input validation error: `inputs` must have less than 1024 tokens."),
                ("cohere", "too many tokens: size limit exceeded by 11326 tokens."),
                ("siliconflow", "length of prompt_tokens (9) must be less than max_seq_len (8)."),
                (
                    "vllm, older",
                    "The decoder prompt (length 9000) is longer than the maximum model",
                ),
                ("tensorrt", "Prompt length (9000) exceeds maximum input length (8192)"),
                ("baidu", "tokens in request more than max tokens allowed"),
                ("a gateway", "Token limit exceeded: 40000 > 32768"),
                ("litellm", "litellm.ContextWindowExceededError: litellm.BadRequestError: no"),
                ("nobody in particular", "This input token count 150000 exceeds the 128000 limit"),
            )
        ),
        (
            "anthropic, beyond the plan",
            429,
            as_anthropic("Extra usage is required for long context requests.", "rate_limit_error"),
        ),
        (
            "lm studio",
            500,
            "trying to keep the first 9000 tokens when context the overflows. However, the model is"
            " loaded with context length of only 4096 tokens",
        ),
    )
)
