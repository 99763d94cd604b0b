"""A graph of one's own: every answer is reviewed before it counts, by a pure function.

The default graph goes from Planning to Done. This one has a state in between, a sub-agent that
looks things up, and an answer of a type.

Run it: python examples/custom_graph.py FOLDER
See it: treadle graph examples/custom_graph.py:AGENT
"""

import asyncio
import sys

from msgspec import Struct, json
from msgspec.structs import replace

from treadle import AgentBuilder, AgentMemory, Event, LocalStore, ScriptedModel, State


class Answer(Struct):
    """When, and who says so."""

    year: int
    source: str = ""


def review(memory: AgentMemory) -> tuple[AgentMemory, str]:
    """Is there a source?"""
    answer = json.decode(memory.final_answer or "", type=Answer)
    memory = memory.log("Review", "REVIEWED", str(answer))
    if answer.source:
        return memory, "Accepted"
    memory = memory.tell("Your answer names no source. Ask the library, and answer again.")
    return replace(memory, final_answer=None), "SentBack"


# In place of real ones ("anthropic:claude-sonnet-5", say): what they would answer.
LIBRARY = ScriptedModel.of("The catalogue of the museum has it: the 11th century.")
WRITER = ScriptedModel.of(
    {"text": '{"year": 1050}'},
    {"calls": [{"tool": "library", "arguments": {"task": "When did the loom come?"}}]},
    {"when": {"last": "catalogue"}, "text": '{"year": 1050, "source": "the museum"}'},
)
AGENT = (
    AgentBuilder("When did the treadle loom come to Europe?", llm=WRITER, output=Answer)
    .sub_agent("library", "Looks things up.", AgentBuilder("any", llm=LIBRARY))
    .state("Review", review, owns=["final_answer"])
    .transition(State.PLANNING, Event.LLM_FINAL_ANSWER, "Review")
    .transition("Review", "Accepted", State.DONE)
    .transition("Review", "SentBack", State.PLANNING)
)


async def main(folder: str) -> None:
    async with AGENT.store(LocalStore(folder)).build() as engine:
        await engine.run()
        print(engine.output)
        engine.trace.print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
