"""A graph of one's own: every answer is reviewed before it counts.

The default graph goes from Planning to Done. This one puts a state in between, whose handler is a
pure function: it accepts an answer that names its source, and sends every other one back.

Run it: python examples/custom_graph.py
See it: treadle graph examples/custom_graph.py:AGENT
"""

import asyncio
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from treadle import AgentBuilder, AgentMemory, Event, LocalStore, Places, ScriptedModel, State


def review(memory: AgentMemory) -> tuple[AgentMemory, str]:
    """Is there a source?"""
    memory = memory.log("Review", "REVIEWED", memory.final_answer or "")
    if "(source:" in (memory.final_answer or ""):
        return memory, "Accepted"
    memory = memory.tell("Your answer names no source. Answer again: (source: ...)")
    return replace(memory, final_answer=None), "SentBack"


MODEL = ScriptedModel.of(
    {"text": "The treadle loom came to Europe in the middle ages."},
    {"text": "It came in the 11th century (source: the museum's catalogue)."},
)

AGENT = (
    AgentBuilder("When did the treadle loom come to Europe? Name your source.", llm=MODEL)
    .state("Review", review, owns=["final_answer"])
    .transition(State.PLANNING, Event.LLM_FINAL_ANSWER, "Review")
    .transition("Review", "Accepted", State.DONE)
    .transition("Review", "SentBack", State.PLANNING)
)


async def main() -> None:
    with TemporaryDirectory() as home:
        store = LocalStore(Places(f"{home}/data", f"{home}/state", f"{home}/config"))
        async with AGENT.store(store).build() as engine:
            print(await engine.run())
            engine.trace.print()


if __name__ == "__main__":
    asyncio.run(main())
