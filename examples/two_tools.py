"""A task with two tools: the agent looks something up, computes, and answers.

Run it: python examples/two_tools.py
"""

import asyncio
from tempfile import TemporaryDirectory

from treadle import AgentBuilder, EffectClass, LocalStore, Places, ScriptedModel, tool

PRICES = {"apple": 3, "pear": 4}


@tool(effect=EffectClass.READ)
def price(fruit: str) -> int:
    """The price of a fruit.

    Args:
        fruit: its name.
    """
    return PRICES[fruit]


@tool(effect=EffectClass.READ)
def multiply(a: int, b: int) -> int:
    """Multiply two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return a * b


# In place of a real model (`AnthropicProvider()`, say): what it would answer, in a row.
MODEL = ScriptedModel.of(
    {"calls": [{"tool": "price", "arguments": {"fruit": "pear"}}]},
    {"calls": [{"tool": "multiply", "arguments": {"a": 4, "b": 5}}]},
    {"text": "Five pears cost 20."},
)


async def main() -> None:
    with TemporaryDirectory() as home:
        agent = (
            AgentBuilder("What do five pears cost?")
            .llm(MODEL)
            .tools([price, multiply])
            .min_answer_length(1)
            .store(LocalStore(Places(f"{home}/data", f"{home}/state", f"{home}/config")))
        )
        async with agent.build() as engine:
            print(await engine.run())
            engine.trace.print()


asyncio.run(main())
