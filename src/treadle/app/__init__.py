"""What a person can do with Treadle, as plain functions: typed values in, typed values out.

Nothing here prints, parses options or ends the process. The command line, the chat and any other
program call the same functions. The names of `__all__` are public and stable; docs/app.md has
them with examples. They are loaded when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from treadle.answers import Answer as Answer
    from treadle.answers import Resolution as Resolution
    from treadle.answers import Verdict as Verdict
    from treadle.app.evaluation.evaluation_words import describe_divergence as describe_divergence
    from treadle.app.evaluation.evaluation_words import describe_evaluation as describe_evaluation
    from treadle.app.evaluation.evaluations import evaluate as evaluate
    from treadle.app.evaluation.evaluations import list_evaluations as list_evaluations
    from treadle.app.evaluation.evaluations import read_evaluation as read_evaluation
    from treadle.app.evaluation.evaluations import resume_evaluation as resume_evaluation
    from treadle.app.evaluation.scores import ScoredRun as ScoredRun
    from treadle.app.evaluation.thread_choice import choose_threads as choose_threads
    from treadle.app.evaluation.values import CaseResult as CaseResult
    from treadle.app.evaluation.values import CaseVerdict as CaseVerdict
    from treadle.app.evaluation.values import Divergence as Divergence
    from treadle.app.evaluation.values import Evaluation as Evaluation
    from treadle.app.evaluation.values import EvaluationLimits as EvaluationLimits
    from treadle.app.evaluation.values import EvaluationRequest as EvaluationRequest
    from treadle.app.exchange.session_import import ImportOutcome as ImportOutcome
    from treadle.app.exchange.session_import import import_sessions as import_sessions
    from treadle.app.exchange.thread_export import ExportedThread as ExportedThread
    from treadle.app.exchange.thread_export import export_thread as export_thread
    from treadle.app.files.file_diff import FileDiff as FileDiff
    from treadle.app.files.file_diff import find_diff as find_diff
    from treadle.app.files.provenance import CommitOrigin as CommitOrigin
    from treadle.app.files.provenance import FileOrigin as FileOrigin
    from treadle.app.files.provenance import find_line_origins as find_line_origins
    from treadle.app.files.provenance import list_commit_origins as list_commit_origins
    from treadle.app.files.rewind import RewindRequest as RewindRequest
    from treadle.app.files.rewind import RewindResult as RewindResult
    from treadle.app.files.rewind import rewind_thread as rewind_thread
    from treadle.app.folders import user_folders as user_folders
    from treadle.app.graph_files import draw_graph_of_file as draw_graph_of_file
    from treadle.app.notices import Notify as Notify
    from treadle.app.offered_threads import describe_offered_origins as describe_offered_origins
    from treadle.app.offered_threads import find_offered_threads as find_offered_threads
    from treadle.app.offered_threads import read_offered_thread as read_offered_thread
    from treadle.app.sessions.agent_commit import AgentCommit as AgentCommit
    from treadle.app.sessions.agent_commit import AgentCommitPlan as AgentCommitPlan
    from treadle.app.sessions.agent_commit import NoCommit as NoCommit
    from treadle.app.sessions.agent_commit import commit_agent_changes as commit_agent_changes
    from treadle.app.sessions.agent_commit import plan_agent_commit as plan_agent_commit
    from treadle.app.sessions.approvals import ApprovalAnswer as ApprovalAnswer
    from treadle.app.sessions.approvals import WaitingCalls as WaitingCalls
    from treadle.app.sessions.approvals import approve_calls as approve_calls
    from treadle.app.sessions.approvals import read_waiting_calls as read_waiting_calls
    from treadle.app.sessions.compaction import compact as compact
    from treadle.app.sessions.host import Host as Host
    from treadle.app.sessions.host import PersonCallbacks as PersonCallbacks
    from treadle.app.sessions.memory_host import MemoryHost as MemoryHost
    from treadle.app.sessions.open_threads import OpenThread as OpenThread
    from treadle.app.sessions.open_threads import TaskRequest as TaskRequest
    from treadle.app.sessions.open_threads import begin_task as begin_task
    from treadle.app.sessions.open_threads import open_conversation as open_conversation
    from treadle.app.sessions.open_threads import reopen_thread as reopen_thread
    from treadle.app.sessions.prompt_files import ListedPrompt as ListedPrompt
    from treadle.app.sessions.prompt_files import PromptFileList as PromptFileList
    from treadle.app.sessions.prompt_files import expand_prompt as expand_prompt
    from treadle.app.sessions.prompt_files import list_prompts as list_prompts
    from treadle.app.sessions.setup import RunChoice as RunChoice
    from treadle.app.sessions.setup import Setup as Setup
    from treadle.app.sessions.thread_setup import ThreadTarget as ThreadTarget
    from treadle.app.sessions.thread_setup import make_setup as make_setup
    from treadle.app.sessions.thread_work import WorkResult as WorkResult
    from treadle.app.sessions.thread_work import finish_task as finish_task
    from treadle.app.sessions.thread_work import work_on_thread as work_on_thread
    from treadle.app.sessions.turns import TurnRequest as TurnRequest
    from treadle.app.sessions.turns import run_turn as run_turn
    from treadle.app.setting_change import SettingChange as SettingChange
    from treadle.app.setting_change import change_setting as change_setting
    from treadle.app.stores import Store as Store
    from treadle.app.stores import open_store as open_store
    from treadle.app.stores import user_redactor as user_redactor
    from treadle.app.sync.first_sync import FirstSync as FirstSync
    from treadle.app.sync.first_sync import NothingSent as NothingSent
    from treadle.app.sync.privacy import PrivateThread as PrivateThread
    from treadle.app.sync.privacy import ReleasePlan as ReleasePlan
    from treadle.app.sync.privacy import keep_private as keep_private
    from treadle.app.sync.privacy import plan_release as plan_release
    from treadle.app.sync.privacy import release as release
    from treadle.app.sync.server_login import LoginPlan as LoginPlan
    from treadle.app.sync.server_login import Logout as Logout
    from treadle.app.sync.server_login import log_in as log_in
    from treadle.app.sync.server_login import log_out as log_out
    from treadle.app.sync.server_login import plan_login as plan_login
    from treadle.app.sync.share_access import EndedAccess as EndedAccess
    from treadle.app.sync.share_access import SharedAddress as SharedAddress
    from treadle.app.sync.share_access import ShareTarget as ShareTarget
    from treadle.app.sync.share_access import end_access as end_access
    from treadle.app.sync.share_access import find_share_target as find_share_target
    from treadle.app.sync.share_access import share_thread as share_thread
    from treadle.app.sync.sync_runs import SyncOutcome as SyncOutcome
    from treadle.app.sync.sync_runs import SyncRunRequest as SyncRunRequest
    from treadle.app.sync.sync_runs import keep_synchronized as keep_synchronized
    from treadle.app.sync.sync_runs import synchronize as synchronize
    from treadle.app.sync.sync_status import SyncStatus as SyncStatus
    from treadle.app.sync.sync_status import read_sync_status as read_sync_status
    from treadle.app.sync.team_threads import TeamHit as TeamHit
    from treadle.app.sync.team_threads import TeamLine as TeamLine
    from treadle.app.sync.team_threads import TeamPage as TeamPage
    from treadle.app.sync.team_threads import TeamThread as TeamThread
    from treadle.app.sync.team_threads import fetch_team_document as fetch_team_document
    from treadle.app.sync.team_threads import list_team_threads as list_team_threads
    from treadle.app.sync.team_threads import open_team_thread as open_team_thread
    from treadle.app.sync.team_threads import search_team_threads as search_team_threads
    from treadle.app.sync.webhooks import list_webhooks as list_webhooks
    from treadle.app.sync.webhooks import make_webhook as make_webhook
    from treadle.app.sync.webhooks import remove_webhook as remove_webhook
    from treadle.app.sync.webhooks import try_webhook as try_webhook
    from treadle.app.telemetry.trace_export import TraceExport as TraceExport
    from treadle.app.telemetry.trace_export import export_trace as export_trace
    from treadle.app.threads.annotations import add_note as add_note
    from treadle.app.threads.annotations import pin_thread as pin_thread
    from treadle.app.threads.annotations import rename_thread as rename_thread
    from treadle.app.threads.annotations import tag_thread as tag_thread
    from treadle.app.threads.forks import ThreadFork as ThreadFork
    from treadle.app.threads.forks import fork_at_rest as fork_at_rest
    from treadle.app.threads.forks import fork_thread as fork_thread
    from treadle.app.threads.grants import ThreadGrants as ThreadGrants
    from treadle.app.threads.grants import grant_name as grant_name
    from treadle.app.threads.grants import read_grants as read_grants
    from treadle.app.threads.grants import revoke_grant as revoke_grant
    from treadle.app.threads.outputs import read_output as read_output
    from treadle.app.threads.task_trace import TaskTrace as TaskTrace
    from treadle.app.threads.task_trace import read_trace as read_trace
    from treadle.app.threads.thread_lists import PendingThreads as PendingThreads
    from treadle.app.threads.thread_lists import ThreadHits as ThreadHits
    from treadle.app.threads.thread_lists import ThreadPage as ThreadPage
    from treadle.app.threads.thread_lists import UnknownStateError as UnknownStateError
    from treadle.app.threads.thread_lists import find_pending as find_pending
    from treadle.app.threads.thread_lists import list_threads as list_threads
    from treadle.app.threads.thread_lists import search_threads as search_threads
    from treadle.app.threads.thread_view import ThreadView as ThreadView
    from treadle.app.threads.thread_view import ViewRequest as ViewRequest
    from treadle.app.threads.thread_view import read_thread as read_thread
    from treadle.app.threads.thread_watch import follow_thread as follow_thread
    from treadle.app.threads.usage_report import UsageReport as UsageReport
    from treadle.app.threads.usage_report import sum_usage as sum_usage
    from treadle.app.threads.version_selectors import VersionSelector as VersionSelector
    from treadle.app.threads.version_selectors import select_version as select_version
    from treadle.app.tool_servers.changes import add_tool_server as add_tool_server
    from treadle.app.tool_servers.changes import remove_tool_server as remove_tool_server
    from treadle.app.tool_servers.logins import forget_tool_server_login as forget_tool_server_login
    from treadle.app.tool_servers.logins import log_in_at_tool_server as log_in_at_tool_server
    from treadle.app.tool_servers.trial import ServerTrial as ServerTrial
    from treadle.app.tool_servers.trial import try_tool_server as try_tool_server
    from treadle.app.upkeep.checks import Finding as Finding
    from treadle.app.upkeep.disk_usage import StoreUsage as StoreUsage
    from treadle.app.upkeep.disk_usage import ThreadUsage as ThreadUsage
    from treadle.app.upkeep.disk_usage import measure_store as measure_store
    from treadle.app.upkeep.disk_usage import measure_thread as measure_thread
    from treadle.app.upkeep.doctor import run_checks as run_checks
    from treadle.app.upkeep.garbage_removal import GarbageRemoval as GarbageRemoval
    from treadle.app.upkeep.garbage_removal import plan_removal as plan_removal
    from treadle.app.upkeep.garbage_removal import remove_garbage as remove_garbage
    from treadle.app.upkeep.thread_scrub import ScrubJob as ScrubJob
    from treadle.app.upkeep.thread_scrub import ScrubReport as ScrubReport
    from treadle.app.upkeep.thread_scrub import make_redaction as make_redaction
    from treadle.app.upkeep.thread_scrub import plan_scrub as plan_scrub
    from treadle.app.upkeep.thread_scrub import replace_server_copies as replace_server_copies
    from treadle.app.upkeep.thread_scrub import scrub_threads as scrub_threads
    from treadle.app.upkeep.trash import list_trash as list_trash
    from treadle.app.upkeep.trash import restore_threads as restore_threads
    from treadle.app.upkeep.trash import trash_threads as trash_threads
    from treadle.app.upkeep.verification import replay_thread as replay_thread
    from treadle.app.upkeep.verification import salvage_thread as salvage_thread
    from treadle.app.upkeep.verification import verify_threads as verify_threads
    from treadle.outputs import Notice as Notice
    from treadle.outputs import Output as Output
    from treadle.outputs import TurnFinished as TurnFinished
    from treadle.outputs import TurnOutcome as TurnOutcome
    from treadle.store.index.filters import ThreadFilters as ThreadFilters
    from treadle.store.index.search import Hit as Hit
    from treadle.store.index.usage_rows import DayUsage as DayUsage
    from treadle.thread.document import ThreadSummary as ThreadSummary

_HOME = {
    "AgentCommit": "app.sessions.agent_commit",
    "AgentCommitPlan": "app.sessions.agent_commit",
    "Answer": "answers",
    "ApprovalAnswer": "app.sessions.approvals",
    "CaseResult": "app.evaluation.values",
    "CaseVerdict": "app.evaluation.values",
    "CommitOrigin": "app.files.provenance",
    "DayUsage": "store.index.usage_rows",
    "Divergence": "app.evaluation.values",
    "EndedAccess": "app.sync.share_access",
    "Evaluation": "app.evaluation.values",
    "EvaluationLimits": "app.evaluation.values",
    "EvaluationRequest": "app.evaluation.values",
    "ExportedThread": "app.exchange.thread_export",
    "FileDiff": "app.files.file_diff",
    "FileOrigin": "app.files.provenance",
    "Finding": "app.upkeep.checks",
    "FirstSync": "app.sync.first_sync",
    "GarbageRemoval": "app.upkeep.garbage_removal",
    "Hit": "store.index.search",
    "Host": "app.sessions.host",
    "ImportOutcome": "app.exchange.session_import",
    "ListedPrompt": "app.sessions.prompt_files",
    "LoginPlan": "app.sync.server_login",
    "Logout": "app.sync.server_login",
    "MemoryHost": "app.sessions.memory_host",
    "NoCommit": "app.sessions.agent_commit",
    "NothingSent": "app.sync.first_sync",
    "Notice": "outputs",
    "Notify": "app.notices",
    "OpenThread": "app.sessions.open_threads",
    "Output": "outputs",
    "PendingThreads": "app.threads.thread_lists",
    "PersonCallbacks": "app.sessions.host",
    "PrivateThread": "app.sync.privacy",
    "PromptFileList": "app.sessions.prompt_files",
    "ReleasePlan": "app.sync.privacy",
    "Resolution": "answers",
    "RewindRequest": "app.files.rewind",
    "RewindResult": "app.files.rewind",
    "RunChoice": "app.sessions.setup",
    "ScoredRun": "app.evaluation.scores",
    "ScrubJob": "app.upkeep.thread_scrub",
    "ScrubReport": "app.upkeep.thread_scrub",
    "ServerTrial": "app.tool_servers.trial",
    "SettingChange": "app.setting_change",
    "Setup": "app.sessions.setup",
    "ShareTarget": "app.sync.share_access",
    "SharedAddress": "app.sync.share_access",
    "Store": "app.stores",
    "StoreUsage": "app.upkeep.disk_usage",
    "SyncOutcome": "app.sync.sync_runs",
    "SyncRunRequest": "app.sync.sync_runs",
    "SyncStatus": "app.sync.sync_status",
    "TaskRequest": "app.sessions.open_threads",
    "TaskTrace": "app.threads.task_trace",
    "TeamHit": "app.sync.team_threads",
    "TeamLine": "app.sync.team_threads",
    "TeamPage": "app.sync.team_threads",
    "TeamThread": "app.sync.team_threads",
    "ThreadFilters": "store.index.filters",
    "ThreadFork": "app.threads.forks",
    "ThreadGrants": "app.threads.grants",
    "ThreadHits": "app.threads.thread_lists",
    "ThreadPage": "app.threads.thread_lists",
    "ThreadSummary": "thread.document",
    "ThreadTarget": "app.sessions.thread_setup",
    "ThreadUsage": "app.upkeep.disk_usage",
    "ThreadView": "app.threads.thread_view",
    "TraceExport": "app.telemetry.trace_export",
    "TurnFinished": "outputs",
    "TurnOutcome": "outputs",
    "TurnRequest": "app.sessions.turns",
    "UnknownStateError": "app.threads.thread_lists",
    "UsageReport": "app.threads.usage_report",
    "Verdict": "answers",
    "VersionSelector": "app.threads.version_selectors",
    "ViewRequest": "app.threads.thread_view",
    "WaitingCalls": "app.sessions.approvals",
    "WorkResult": "app.sessions.thread_work",
    "add_note": "app.threads.annotations",
    "add_tool_server": "app.tool_servers.changes",
    "approve_calls": "app.sessions.approvals",
    "begin_task": "app.sessions.open_threads",
    "change_setting": "app.setting_change",
    "choose_threads": "app.evaluation.thread_choice",
    "commit_agent_changes": "app.sessions.agent_commit",
    "compact": "app.sessions.compaction",
    "describe_divergence": "app.evaluation.evaluation_words",
    "describe_evaluation": "app.evaluation.evaluation_words",
    "describe_offered_origins": "app.offered_threads",
    "draw_graph_of_file": "app.graph_files",
    "end_access": "app.sync.share_access",
    "evaluate": "app.evaluation.evaluations",
    "expand_prompt": "app.sessions.prompt_files",
    "export_thread": "app.exchange.thread_export",
    "export_trace": "app.telemetry.trace_export",
    "fetch_team_document": "app.sync.team_threads",
    "find_diff": "app.files.file_diff",
    "find_line_origins": "app.files.provenance",
    "find_offered_threads": "app.offered_threads",
    "find_pending": "app.threads.thread_lists",
    "find_share_target": "app.sync.share_access",
    "finish_task": "app.sessions.thread_work",
    "follow_thread": "app.threads.thread_watch",
    "forget_tool_server_login": "app.tool_servers.logins",
    "fork_at_rest": "app.threads.forks",
    "fork_thread": "app.threads.forks",
    "grant_name": "app.threads.grants",
    "import_sessions": "app.exchange.session_import",
    "keep_private": "app.sync.privacy",
    "keep_synchronized": "app.sync.sync_runs",
    "list_commit_origins": "app.files.provenance",
    "list_evaluations": "app.evaluation.evaluations",
    "list_prompts": "app.sessions.prompt_files",
    "list_team_threads": "app.sync.team_threads",
    "list_threads": "app.threads.thread_lists",
    "list_trash": "app.upkeep.trash",
    "list_webhooks": "app.sync.webhooks",
    "log_in": "app.sync.server_login",
    "log_in_at_tool_server": "app.tool_servers.logins",
    "log_out": "app.sync.server_login",
    "make_redaction": "app.upkeep.thread_scrub",
    "make_setup": "app.sessions.thread_setup",
    "make_webhook": "app.sync.webhooks",
    "measure_store": "app.upkeep.disk_usage",
    "measure_thread": "app.upkeep.disk_usage",
    "open_conversation": "app.sessions.open_threads",
    "open_store": "app.stores",
    "open_team_thread": "app.sync.team_threads",
    "pin_thread": "app.threads.annotations",
    "plan_agent_commit": "app.sessions.agent_commit",
    "plan_login": "app.sync.server_login",
    "plan_release": "app.sync.privacy",
    "plan_removal": "app.upkeep.garbage_removal",
    "plan_scrub": "app.upkeep.thread_scrub",
    "read_evaluation": "app.evaluation.evaluations",
    "read_grants": "app.threads.grants",
    "read_offered_thread": "app.offered_threads",
    "read_output": "app.threads.outputs",
    "read_sync_status": "app.sync.sync_status",
    "read_thread": "app.threads.thread_view",
    "read_trace": "app.threads.task_trace",
    "read_waiting_calls": "app.sessions.approvals",
    "release": "app.sync.privacy",
    "remove_garbage": "app.upkeep.garbage_removal",
    "remove_tool_server": "app.tool_servers.changes",
    "remove_webhook": "app.sync.webhooks",
    "rename_thread": "app.threads.annotations",
    "reopen_thread": "app.sessions.open_threads",
    "replace_server_copies": "app.upkeep.thread_scrub",
    "replay_thread": "app.upkeep.verification",
    "restore_threads": "app.upkeep.trash",
    "resume_evaluation": "app.evaluation.evaluations",
    "revoke_grant": "app.threads.grants",
    "rewind_thread": "app.files.rewind",
    "run_checks": "app.upkeep.doctor",
    "run_turn": "app.sessions.turns",
    "salvage_thread": "app.upkeep.verification",
    "scrub_threads": "app.upkeep.thread_scrub",
    "search_team_threads": "app.sync.team_threads",
    "search_threads": "app.threads.thread_lists",
    "select_version": "app.threads.version_selectors",
    "share_thread": "app.sync.share_access",
    "sum_usage": "app.threads.usage_report",
    "synchronize": "app.sync.sync_runs",
    "tag_thread": "app.threads.annotations",
    "trash_threads": "app.upkeep.trash",
    "try_tool_server": "app.tool_servers.trial",
    "try_webhook": "app.sync.webhooks",
    "user_folders": "app.folders",
    "user_redactor": "app.stores",
    "verify_threads": "app.upkeep.verification",
    "work_on_thread": "app.sessions.thread_work",
}

__all__ = [*_HOME]  # noqa: PLE0604  the keys are strings


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'treadle.app' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"treadle.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
