"""Research with sub-agents: each question is a task of its own, in its own thread, side by side.

python examples/research.py FOLDER
"""

import asyncio
import sys

from treadle import Agent, LocalStore, ScriptedModel, TokenBudget, outputs

# In place of real ones: what they would answer.
READER = ScriptedModel.of(
    {"when": {"user": "loom"}, "text": "The treadle loom came to Europe in the 11th century."},
    {"when": {"user": "wheel"}, "text": "The spinning wheel came in the 13th century."},
)
WRITER = ScriptedModel.of(
    {
        "calls": [
            {"tool": "read", "arguments": {"task": "When did the loom come to Europe?"}},
            {"tool": "read", "arguments": {"task": "When did the spinning wheel come?"}},
        ]
    },
    {"text": "The loom came first, two centuries before the spinning wheel."},
)


async def main(folder: str) -> None:
    store = LocalStore(folder)
    reader = Agent("read", model=READER, store=store, max_steps=5)
    writer = Agent(
        "writer",
        model=WRITER,
        tools=[reader.as_tool("Answers one question about history.")],
        store=store,
        budget=TokenBudget(max_total=100_000),  # what the readers use counts too
    )
    async with writer.task("What came to Europe first, the loom or the spinning wheel?") as task:
        async for output in task.stream():
            if isinstance(output, outputs.ToolStarted):
                print(f"asks: {output.call.arguments_json}")
        result = await task.run()
    print(f"{result.output} ({len(store.ids())} threads)")


asyncio.run(main(*sys.argv[1:]))
