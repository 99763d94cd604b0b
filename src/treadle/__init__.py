"""Treadle: a durable agent runtime for Python, and a coding agent built on it.

The public names are loaded when they are first used; importing the package costs almost nothing.
"""

from __future__ import annotations

from treadle.version import __version__

TYPE_CHECKING = False  # importing `typing` for its own would cost as much as all the rest
if TYPE_CHECKING:
    from treadle.agent.agent import Agent as Agent
    from treadle.agent.agent_task import AgentTask as AgentTask
    from treadle.agent.agent_thread import AgentThread as AgentThread
    from treadle.agent.fleet import Fleet as Fleet
    from treadle.agent.repositories import Repositories as Repositories
    from treadle.agent.result import Result as Result
    from treadle.agent.submitted_task import SubmittedTask as SubmittedTask
    from treadle.config.loader import load_settings as load_settings
    from treadle.core.approval import AlwaysAsk as AlwaysAsk
    from treadle.core.approval import Approved as Approved
    from treadle.core.approval import AskAbove as AskAbove
    from treadle.core.approval import Modified as Modified
    from treadle.core.approval import NeverAsk as NeverAsk
    from treadle.core.approval import Question as Question
    from treadle.core.approval import Rejected as Rejected
    from treadle.core.approval import ToolBased as ToolBased
    from treadle.core.budget import TokenBudget as TokenBudget
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
    from treadle.core.task.events import TaskConfig as TaskConfig
    from treadle.core.task.machine import TaskMachine as TaskMachine
    from treadle.core.task.memory import AgentMemory as AgentMemory
    from treadle.core.task.table import Event as Event
    from treadle.core.task.table import State as State
    from treadle.core.task.table import TransitionTable as TransitionTable
    from treadle.core.task.table import build_transition_table as build_transition_table
    from treadle.core.task.trace import Trace as Trace
    from treadle.core.tools import EffectClass as EffectClass
    from treadle.core.tools import RiskLevel as RiskLevel
    from treadle.core.tools import ToolDefinition as ToolDefinition
    from treadle.core.tools import ToolErrorKind as ToolErrorKind
    from treadle.core.tools import ToolProgress as ToolProgress
    from treadle.errors import AgentError as AgentError
    from treadle.errors import AgentFailed as AgentFailed
    from treadle.errors import ApprovalNeeded as ApprovalNeeded
    from treadle.errors import BudgetExceeded as BudgetExceeded
    from treadle.errors import BuildError as BuildError
    from treadle.errors import HandlerFailed as HandlerFailed
    from treadle.errors import InvalidTransition as InvalidTransition
    from treadle.errors import NoHandlerForState as NoHandlerForState
    from treadle.errors import NotConfiguredError as NotConfiguredError
    from treadle.errors import OwnershipViolation as OwnershipViolation
    from treadle.errors import StaleWriterError as StaleWriterError
    from treadle.errors import StorageBusyError as StorageBusyError
    from treadle.errors import StoreError as StoreError
    from treadle.errors import ThreadBusyError as ThreadBusyError
    from treadle.errors import TreadleError as TreadleError
    from treadle.errors import UnknownThreadError as UnknownThreadError
    from treadle.errors import UsageError as UsageError
    from treadle.fleet.memory_scheduler import MemoryScheduler as MemoryScheduler
    from treadle.fleet.port import Scheduler as Scheduler
    from treadle.fleet.procrastinate_scheduler import (
        ProcrastinateScheduler as ProcrastinateScheduler,
    )
    from treadle.mcp.prompts import ServerPrompt as ServerPrompt
    from treadle.mcp.server import MCPRule as MCPRule
    from treadle.mcp.server import MCPServer as MCPServer
    from treadle.models.anthropic.provider import AnthropicProvider as AnthropicProvider
    from treadle.models.openai.chat import OpenAiChatProvider as OpenAiChatProvider
    from treadle.models.openai.responses import OpenAiResponsesProvider as OpenAiResponsesProvider
    from treadle.models.prices.provider import PricedProvider as PricedProvider
    from treadle.models.recording.file import load_recording as load_recording
    from treadle.models.recording.player import RecordedModel as RecordedModel
    from treadle.models.recording.recorder import RecordingProvider as RecordingProvider
    from treadle.models.scripted.provider import ScriptedModel as ScriptedModel
    from treadle.models.scripted.script import load_script as load_script
    from treadle.models.scripted.test_model import TestModel as TestModel
    from treadle.models.wrapped_provider import wrap_provider as wrap_provider
    from treadle.runtime.builder import AgentBuilder as AgentBuilder
    from treadle.runtime.engine import AgentEngine as AgentEngine
    from treadle.runtime.session import Session as Session
    from treadle.server.journals.postgres_store import PostgresStore as PostgresStore
    from treadle.server_questions import ServerAnswer as ServerAnswer
    from treadle.server_questions import ServerQuestion as ServerQuestion
    from treadle.store.local_store import LocalStore as LocalStore
    from treadle.store.paths import Places as Places
    from treadle.store.port import HeldJournal as HeldJournal
    from treadle.store.port import Store as Store
    from treadle.store.threads import Threads as Threads
    from treadle.tool_failure import ToolFailure as ToolFailure
    from treadle.tools.builtin import builtin_tools as builtin_tools
    from treadle.tools.context import AgentContext as AgentContext
    from treadle.tools.context import ToolContext as ToolContext
    from treadle.tools.function_tool import tool as tool
    from treadle.tools.registry import Registry as Registry
    from treadle.tools.tool_return import ShownFile as ShownFile
    from treadle.tools.tool_return import ToolReturn as ToolReturn
    from treadle.workspace.commit import GitWorkspace as GitWorkspace

_HOME = {
    "Agent": "agent.agent",
    "AgentBuilder": "runtime.builder",
    "AgentConfig": "core.config",
    "AgentContext": "tools.context",
    "AgentEngine": "runtime.engine",
    "AgentError": "errors",
    "AgentFailed": "errors",
    "AgentMemory": "core.task.memory",
    "AgentTask": "agent.agent_task",
    "AgentThread": "agent.agent_thread",
    "AlwaysAsk": "core.approval",
    "AnthropicProvider": "models.anthropic.provider",
    "ApprovalNeeded": "errors",
    "Approved": "core.approval",
    "AskAbove": "core.approval",
    "BudgetExceeded": "errors",
    "BuildError": "errors",
    "Conversation": "core.conversation",
    "ConversationMachine": "core.chat.machine",
    "EffectClass": "core.tools",
    "Event": "core.task.table",
    "Fleet": "agent.fleet",
    "GitWorkspace": "workspace.commit",
    "HandlerFailed": "errors",
    "HeldJournal": "store.port",
    "InvalidTransition": "errors",
    "LlmError": "core.llm",
    "LlmErrorKind": "core.llm",
    "LlmRequest": "core.llm",
    "LlmResponse": "core.llm",
    "LocalStore": "store.local_store",
    "MCPRule": "mcp.server",
    "MCPServer": "mcp.server",
    "MemoryScheduler": "fleet.memory_scheduler",
    "Message": "core.messages",
    "ModelTraits": "core.llm",
    "Modified": "core.approval",
    "NeverAsk": "core.approval",
    "NoHandlerForState": "errors",
    "NotConfiguredError": "errors",
    "OpenAiChatProvider": "models.openai.chat",
    "OpenAiResponsesProvider": "models.openai.responses",
    "OwnershipViolation": "errors",
    "Places": "store.paths",
    "PostgresStore": "server.journals.postgres_store",
    "PricedProvider": "models.prices.provider",
    "ProcrastinateScheduler": "fleet.procrastinate_scheduler",
    "Question": "core.approval",
    "RecordedModel": "models.recording.player",
    "RecordingProvider": "models.recording.recorder",
    "Registry": "tools.registry",
    "Rejected": "core.approval",
    "Repositories": "agent.repositories",
    "Result": "agent.result",
    "RiskLevel": "core.tools",
    "Scheduler": "fleet.port",
    "ScriptedModel": "models.scripted.provider",
    "ServerAnswer": "server_questions",
    "ServerPrompt": "mcp.prompts",
    "ServerQuestion": "server_questions",
    "Session": "runtime.session",
    "ShownFile": "tools.tool_return",
    "StaleWriterError": "errors",
    "State": "core.task.table",
    "StorageBusyError": "errors",
    "Store": "store.port",
    "StoreError": "errors",
    "SubmittedTask": "agent.submitted_task",
    "TaskConfig": "core.task.events",
    "TaskMachine": "core.task.machine",
    "TestModel": "models.scripted.test_model",
    "ThreadBusyError": "errors",
    "Threads": "store.threads",
    "TokenBudget": "core.budget",
    "ToolBased": "core.approval",
    "ToolCall": "core.messages",
    "ToolContext": "tools.context",
    "ToolDefinition": "core.tools",
    "ToolErrorKind": "core.tools",
    "ToolFailure": "tool_failure",
    "ToolProgress": "core.tools",
    "ToolReturn": "tools.tool_return",
    "Trace": "core.task.trace",
    "TransitionTable": "core.task.table",
    "TreadleError": "errors",
    "UnknownThreadError": "errors",
    "Usage": "core.llm",
    "UsageError": "errors",
    "build_transition_table": "core.task.table",
    "builtin_tools": "tools.builtin",
    "load_recording": "models.recording.file",
    "load_script": "models.scripted.script",
    "load_settings": "config.loader",
    "tool": "tools.function_tool",
    "wrap_provider": "models.wrapped_provider",
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
