"""What a thread's machine is configured with; recorded, so that a replay decides the same."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from treadle.core.llm import Reasoning
from treadle.core.tools import EffectClass, ToolDefinition


class AgentConfig(Struct, frozen=True, omit_defaults=True):
    """Limits and request settings. Defaults follow the source document.

    `max_retries` counts retries after the first attempt. `llm_timeout_s` is how long a model may
    stay silent, `tool_timeout_s` how long a call may run before the runtime ends it (a tool's own
    limit, such as that of `bash`, comes first). `max_steps` bounds the model requests of one turn;
    0 is no bound. `max_tokens` bounds one answer; 0 leaves
    it to the provider.
    """

    model_name: str = ""
    system_prompt: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_retries: int = 3
    llm_timeout_s: float = 120.0
    tool_timeout_s: float = 330.0
    max_tokens: int = 4096
    temperature: float | None = None
    max_steps: int = 0
    reasoning: Reasoning = "default"

    def effect_of(self, tool_name: str) -> EffectClass:
        """The effect class of a tool; one nobody knows counts as the worst."""
        for tool in self.tools:
            if tool.name == tool_name:
                return tool.effect
        return EffectClass.MUTATE


def choose_model(models: Mapping[str, str], task_type: str = "default") -> str:
    """The model for a kind of task; the order is that of the source document.

    Args:
        models: names of models by kind of task; `default` serves the kinds that are not named.
        task_type: any key; nothing restricts what kinds there are.

    Returns:
        `models[task_type]`, else `models["default"]`, else an empty name: the provider's own
        default. An empty name in the table counts as none.
    """
    return models.get(task_type) or models.get("default") or ""
