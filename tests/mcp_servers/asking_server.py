"""The official server in the form of 2026: a call ends with questions, and is made again."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

JUDGE = MCPServer("judge")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def make_questions() -> InputRequiredResult:
    wish = SamplingMessage(role="user", content=TextContent(type="text", text="a wish"))
    return InputRequiredResult(
        input_requests={
            "name": ElicitRequest(
                params=ElicitRequestFormParams(message="Who?", requested_schema=FORM)
            ),
            "wish": CreateMessageRequest(
                params=CreateMessageRequestParams(messages=[wish], max_tokens=9)
            ),
        },
        request_state="asked",
    )


@JUDGE.tool()
async def greet(ctx: Context) -> str | InputRequiredResult:
    """Asks who it is to greet, and a model how."""
    if not ctx.input_responses:
        return make_questions()
    name, wish = (ctx.input_responses[key] for key in ("name", "wish"))
    return f"{ctx.request_state}: {name.content['name']}, {wish.content.text}"  # type: ignore[union-attr, index]


@JUDGE.tool()
async def nag() -> InputRequiredResult:
    """Asks again, whatever it is told."""
    return make_questions()


if __name__ == "__main__":
    JUDGE.run()
