"""The machine alone: it decides, and this program does the I/O itself.

The machine is pure and synchronous: an event goes in, an action comes out. No disk, no network, no
clock. Here the "model" is a list of answers and the only tool is Python's `len`.

Run it: python examples/pure_machine.py
"""

import json

from treadle import AgentConfig, LlmResponse, Message, TaskMachine, ToolCall, ToolDefinition
from treadle.core.actions import ExecuteTools, SendLlmRequest
from treadle.core.events import LlmEvent, ToolCompleted, ToolStarted
from treadle.core.task.events import TaskGiven
from treadle.core.tools import EffectClass, ToolExecutionOutcome

ANSWERS = [
    Message.assistant("", (ToolCall("call-1", "length", '{"text": "treadle"}'),)),
    Message.assistant("The word has seven letters."),
]
LENGTH = ToolDefinition(
    "length",
    "Count the letters of a text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    EffectClass.READ,
)

machine = TaskMachine(AgentConfig(tools=(LENGTH,)))
action = machine.handle_event(TaskGiven("How long is the word treadle?"))
while not machine.table.is_terminal(machine.state_name):
    print(f"{machine.state_name}: {type(action).__name__}")
    if isinstance(action, SendLlmRequest):
        action = machine.handle_event(LlmEvent.Completed(LlmResponse(ANSWERS.pop(0))))
    elif isinstance(action, ExecuteTools):
        (call,) = action.calls
        machine.handle_event(ToolStarted(call.id))
        letters = len(json.loads(call.arguments_json)["text"])
        outcome = ToolExecutionOutcome.Success(call.id, str(letters))
        action = machine.handle_event(ToolCompleted(call.id, outcome))

print(f"{machine.state_name}: {machine.memory.final_answer}")
