"""Treadle: a durable agent runtime for Python, and a coding agent built on it.

The public names are loaded when they are first used; importing the package costs almost nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing `typing` for its own would cost as much as all the rest
if TYPE_CHECKING:
    from treadle.config.load import load_settings as load_settings
    from treadle.core.chat.machine import ConversationMachine as ConversationMachine
    from treadle.core.config import AgentConfig as AgentConfig
    from treadle.core.conversation import Conversation as Conversation
    from treadle.core.llm import LlmError as LlmError
    from treadle.core.llm import LlmErrorKind as LlmErrorKind
    from treadle.core.llm import LlmRequest as LlmRequest
    from treadle.core.llm import LlmResponse as LlmResponse
    from treadle.core.llm import ModelTraits as ModelTraits
    from treadle.core.llm import Usage as Usage
    from treadle.core.messages import Message as Message
    from treadle.core.messages import ToolCall as ToolCall
    from treadle.core.tools import EffectClass as EffectClass
    from treadle.core.tools import RiskLevel as RiskLevel
    from treadle.core.tools import ToolDefinition as ToolDefinition
    from treadle.errors import TreadleError as TreadleError
    from treadle.models.anthropic.provider import AnthropicProvider as AnthropicProvider
    from treadle.models.openai.chat import OpenAiChatProvider as OpenAiChatProvider
    from treadle.models.openai.responses import OpenAiResponsesProvider as OpenAiResponsesProvider
    from treadle.models.prices.provider import PricedProvider as PricedProvider
    from treadle.models.recording.file import load_recording as load_recording
    from treadle.models.recording.player import RecordedModel as RecordedModel
    from treadle.models.recording.recorder import RecordingProvider as RecordingProvider
    from treadle.models.scripted.provider import ScriptedModel as ScriptedModel
    from treadle.models.scripted.script import load_script as load_script
    from treadle.runtime.session import Session as Session
    from treadle.store.local import LocalStore as LocalStore
    from treadle.store.places import Places as Places
    from treadle.tools.builtin import builtin_tools as builtin_tools
    from treadle.tools.failure import ToolFailure as ToolFailure
    from treadle.tools.registry import Registry as Registry
    from treadle.tools.registry import ToolContext as ToolContext
    from treadle.tools.registry import ToolReturn as ToolReturn
    from treadle.tools.registry import tool as tool
    from treadle.workspace.commit import GitWorkspace as GitWorkspace

_HOME = {
    "AgentConfig": "core.config",
    "AnthropicProvider": "models.anthropic.provider",
    "Conversation": "core.conversation",
    "ConversationMachine": "core.chat.machine",
    "EffectClass": "core.tools",
    "GitWorkspace": "workspace.commit",
    "LlmError": "core.llm",
    "LlmErrorKind": "core.llm",
    "LlmRequest": "core.llm",
    "LlmResponse": "core.llm",
    "LocalStore": "store.local",
    "Message": "core.messages",
    "ModelTraits": "core.llm",
    "OpenAiChatProvider": "models.openai.chat",
    "OpenAiResponsesProvider": "models.openai.responses",
    "Places": "store.places",
    "PricedProvider": "models.prices.provider",
    "RecordedModel": "models.recording.player",
    "RecordingProvider": "models.recording.recorder",
    "Registry": "tools.registry",
    "RiskLevel": "core.tools",
    "ScriptedModel": "models.scripted.provider",
    "Session": "runtime.session",
    "ToolCall": "core.messages",
    "ToolContext": "tools.registry",
    "ToolDefinition": "core.tools",
    "ToolFailure": "tools.failure",
    "ToolReturn": "tools.registry",
    "TreadleError": "errors",
    "Usage": "core.llm",
    "builtin_tools": "tools.builtin",
    "load_recording": "models.recording.file",
    "load_script": "models.scripted.script",
    "load_settings": "config.load",
    "tool": "tools.registry",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604  the keys are strings


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"treadle.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
