"""What a driver is made of: the only place that knows every adapter by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.files.hidden_paths import make_hidden_check
from treadle.app.sandbox_policy import make_policy
from treadle.app.sessions.approval_modes import Approval, find_recorded_approval, make_approval
from treadle.app.sessions.confined_hooks import make_hook_runner
from treadle.app.sessions.hooks import Hooks
from treadle.app.sessions.host import Host, PersonCallbacks
from treadle.app.sessions.offered_tools import (
    FILE_WRITERS,
    choose_family,
    choose_tools,
    list_tools,
)
from treadle.app.sessions.prompt_files import list_prompts, list_skill_folders
from treadle.app.sessions.providers import Models, is_played
from treadle.app.sessions.situation import SituationObserver
from treadle.app.sessions.sub_agents import TASK_TYPE, SubAgentParts, make_sub_agents
from treadle.app.sessions.system_prompt import make_system_prompt
from treadle.app.sessions.tool_hooks import add_hooks, run_between_hooks
from treadle.app.tool_servers.session_servers import SessionServers
from treadle.config.loader import DEFAULT_ORIGIN, LoadedSettings
from treadle.config.settings import ApprovalMode, NetworkMode, SandboxLevel, Settings
from treadle.core.config import AgentConfig, choose_model
from treadle.core.llm import Usage
from treadle.core.task.machine import TaskMachine
from treadle.core.tool_families import ToolKind, names_of
from treadle.core.tools import ToolDefinition
from treadle.errors import UsageError
from treadle.outputs import Output
from treadle.risk.commits import UncommittedFile
from treadle.runtime.commit_message import Composer
from treadle.runtime.defaults import collect_user_secrets
from treadle.runtime.options import DriverOptions
from treadle.runtime.ports import Provider, Tools
from treadle.runtime.subagents import SubAgent
from treadle.runtime.titles import Titler
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Network
from treadle.sandbox.thread_scratch import scratch_of
from treadle.secrets.redaction import Redactor
from treadle.store.live_answer import LiveAnswerWriter
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.facts import ContextObserved
from treadle.thread.fold import ThreadFold
from treadle.tools.registry import Registry
from treadle.workspace.commit import GitWorkspace
from treadle.workspace.context import describe_context
from treadle.workspace.files.states import FileStates

NO_SEARCH_NOTICE: Final = (
    "web_search is set, but {model} cannot be asked to search the web: its provider has no search "
    "of its own, or is spoken to in a language without one"
)
PLANS: Final = names_of(ToolKind.PLAN)
"""What tells people a plan: that of the agent alone."""
READ_ONLY_NOTICE: Final = (
    "sandbox read-only: the agent can run commands, which leave nothing, but not change files"
)


class RunChoice(Struct, frozen=True):
    """What a person may choose per run; `None` keeps what the thread has recorded.

    `mode` is an approval mode, `mode_if_unset` that of a new thread for which no settings choose
    one. `max_steps` bounds the turns of this run only; `None` is what the settings say. `record` is
    a file that keeps what models stream. `task_type` is the kind of a new task. `sandbox` and
    `network` say what holds commands; a thread keeps neither. With `may_change` the mode may become
    another one in the course of the run. `instructions` stand in a new system prompt in place of
    those that the folder has; the tools of the names `left_out` are not offered.
    """

    model: str | None = None
    mode: ApprovalMode | None = None
    mode_if_unset: ApprovalMode | None = None
    max_steps: int | None = None
    record: str | None = None
    task_type: str = "default"
    sandbox: SandboxLevel | None = None
    network: NetworkMode | None = None
    may_change: bool = False
    instructions: str | None = None
    left_out: tuple[str, ...] = ()


class DriverParts(Struct, frozen=True):
    """What a driver is made of, besides its thread and the people it tells and asks."""

    folder: str
    config: AgentConfig
    provider: Provider
    tools: Tools
    workspace: GitWorkspace
    redactor: Redactor
    hook_usage: Callable[[], tuple[Usage | None, str]]
    context: ContextObserved
    titler: Titler | None
    places: Places
    hides: Callable[[str | Path], bool]
    sandbox: Sandbox
    situation: SituationObserver
    sub_agents: tuple[SubAgent, ...]
    hooks: Hooks

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told of its tools."""
        return (*self.tools.definitions(), *(one.definition for one in self.sub_agents))

    def make_options(
        self, thread_id: str, people: PersonCallbacks | None, on_output: Callable[[Output], None]
    ) -> DriverOptions:
        """What a driver works with besides its thread, its model and its tools.

        Args:
            thread_id: the thread.
            people: who is asked, if anybody is there.
            on_output: gets every output.
        """
        self.sandbox.keep_scratch(scratch_of(self.places.scratch, thread_id))
        return DriverOptions(
            workspace=self.workspace,
            files=FileStates(
                self.workspace.repository,
                thread_id,
                redact=self.redactor.redact,
                hides=self.hides,
            ),
            context=self.context,
            redactor=self.redactor,
            ask=None if people is None else people.ask,
            approve=None if people is None else self.hooks.announce(people.approve),
            answer_server=None if people is None else people.answer_server,
            on_output=on_output,
            live=LiveAnswerWriter(self.places, thread_id),
            hook_usage=self.hook_usage,
            sub_agents=self.sub_agents,
        )


class Setup(Struct, frozen=True):
    """What this user has chosen, here, for one thread: `thread`, or a new one.

    `folder` is where the command was started, or what `-C` says. `notices` are for the person.
    """

    store: LocalStore
    thread: ThreadFold | None
    folder: str
    has_chosen_folder: bool
    choice: RunChoice
    loaded: LoadedSettings
    models: Models
    auto_commit: bool
    notices: list[str]
    hooks: Hooks
    host: Host
    servers: SessionServers

    @property
    def thread_id(self) -> str | None:
        """The thread; `None` for a new one."""
        return None if self.thread is None else self.thread.header.thread

    @property
    def is_task(self) -> bool:
        """Whether there is a thread, and it holds a task."""
        return self.thread is not None and isinstance(self.thread.machine, TaskMachine)

    def build_parts(self) -> DriverParts:
        """Choose model, tools and settings; nothing is written or sent.

        Raises:
            NotConfiguredError: no model was chosen, nor is one recorded; or it has no key.
            UsageError: the thread's folder is gone, or there is no such model.
        """
        folder = self.workspace()
        approval = self._choose_approval()
        sandbox = self.make_sandbox(folder)
        situation = self.make_observer(folder, sandbox)
        config = self._build_config(folder, situation, approval)
        provider = self.host.wrap_provider(self.models.open(config.model_name))
        self.servers.window = provider.traits(config.model_name).context_tokens_max or 0
        if unknown := self.models.fetch_unknown_traits(config.model_name):
            self.notices.append(unknown)
        if config.web_search and self.models.lacks_web_search(config.model_name):
            self.notices.append(NO_SEARCH_NOTICE.format(model=config.model_name))
        commits = self.auto_commit and (self.choice.may_change or not approval.only_reads)
        composer = _make_composer(self.loaded.settings, self.models, config) if commits else None
        secrets = {**self.models.keys, **self.servers.secrets}
        redactor = Redactor({**secrets, **collect_user_secrets(Path(folder))})
        self.models.redact = self.hooks.redact = redactor.redact
        hides = make_hidden_check(folder, self.store.places)
        workspace = GitWorkspace(
            folder,
            auto_commit=self.auto_commit,
            compose=composer,
            redactor=redactor,
            hides=hides,
            confined=make_hook_runner(sandbox),
        )
        make_tools = partial(self.make_tools, folder, sandbox, make_others_check(workspace))
        if sandbox.only_reads and not approval.only_reads:
            self.notices.append(READ_ONLY_NOTICE)
        self.notices.extend(filter(None, [approval.notice]))
        return DriverParts(
            folder=folder,
            config=config,
            provider=provider,
            tools=self.add_hooks(make_tools()),
            sub_agents=_make_sub_agents(self, situation, config, redactor, make_tools),
            workspace=workspace,
            redactor=redactor,
            hook_usage=_report_no_usage if composer is None else composer.take_usage,
            context=describe_context(
                folder,
                self.folder,
                config,
                approval.name,
                os.environ,
                began_in=None if self.thread is None else self.thread.header.workspace,
            ),
            titler=_make_titler(self.loaded.settings, self.models, config.model_name),
            places=self.store.places,
            hides=hides,
            sandbox=sandbox,
            situation=situation,
            hooks=self.hooks,
        )

    def add_hooks(self, tools: Tools) -> Tools:
        """The tools, with the person's hooks around their calls."""
        return add_hooks(tools, self.hooks) if self.hooks.surround_calls else tools

    def make_sandbox(self, folder: str) -> Sandbox:
        """What holds the commands of this run: what was chosen for it, else what is set."""
        skills = list_skill_folders(list_prompts(folder, self.store.places), folder)
        policy = replace(make_policy(self.loaded.settings, self.store.places), skills=skills)
        if self.choice.sandbox:
            policy = replace(policy, level=Level(self.choice.sandbox))
        network, may_ask = Network(self._wanted_network), self._may_ask()
        # It is asked for in the course of work, whatever the mode: nobody expects a run to wait.
        if network is Network.ASK and not self.choice.network and not self._has_somebody:
            network = Network.OFF
        sandbox = Sandbox(replace(policy, network=network, may_ask=may_ask), folder)
        if self.thread_id is not None:
            sandbox.keep_scratch(scratch_of(self.store.places.scratch, self.thread_id))
        return sandbox

    def make_tools(
        self,
        folder: str,
        sandbox: Sandbox,
        others_files: Callable[[], Sequence[UncommittedFile]] = tuple,
        left_out: Collection[str] = (),
    ) -> Tools:
        """The tools of the thread, for calls in this folder, but for those of these names."""
        family = self.choose_family()
        kept = self.thread if self.is_task and self.choice.mode is None else None
        chosen = choose_tools(
            list_tools(family, kept),
            sandbox.policy.level,
            only_reads=self._choose_approval().only_reads,
            family=family,
            has_network=self._wanted_network != "off",
            left_out={*left_out, *self.choice.left_out},
        )
        made = Registry(
            chosen.tools,
            workspace=folder,
            sandbox=sandbox,
            others_files=others_files,
            unavailable=chosen.unavailable,
        )
        joined = made if FILE_WRITERS & set(left_out) else self.servers.join(made)
        return self.host.wrap_tools(joined)

    def _may_ask(self) -> bool:
        """Whether anybody can be asked; if not, such calls are refused, and the run goes on.

        A run in `auto` that nobody watches would stop for good at the first call that asks. One
        that was told to ask does, and so does a thread in which a question waits already.
        """
        return self._has_somebody or not self._choose_approval().asks_nothing

    @property
    def _has_somebody(self) -> bool:
        """Whether a person is there to be asked, or has a question already."""
        waits = self.thread is not None and bool(self.thread.machine.questions)
        return self.choice.may_change or waits or self.host.people is not None

    @property
    def _wanted_network(self) -> NetworkMode:
        return self.choice.network or self.loaded.settings.network

    def make_observer(self, folder: str, sandbox: Sandbox) -> SituationObserver:
        """Who looks at where and how the agent works."""
        has_people = self.host.people is not None or self.choice.may_change
        return SituationObserver(folder, sandbox, has_people, self.auto_commit)

    def choose_family(self) -> str:
        """That of the thread, or of the model with which it begins."""
        return choose_family(self.thread, lambda: self.models.find_family(self._model_name()))

    def _build_config(
        self, folder: str, situation: SituationObserver, approval: Approval
    ) -> AgentConfig:
        """What the thread has recorded, with what was set or chosen since."""
        thread, settings = self.thread, self.loaded.settings
        config = AgentConfig() if thread is None else thread.machine.config
        config = replace(config, family=self.choose_family())
        has_moved = thread is None or folder != thread.workspace
        # Another program told its models something else first, which is not known here.
        is_strange = thread is not None and thread.imported_from and not config.system_prompt
        # What a task is told first stands with its task.
        if (has_moved or is_strange) and not self.is_task:
            begun = situation.observe_beginning(approval.name)
            places, words = self.store.places, self.choice.instructions
            told = make_system_prompt(begun, places, config.family, self.notices, words)
            config = replace(config, system_prompt=told)
        if thread is None or self._is_set("max_tokens"):
            config = replace(config, max_tokens=settings.max_tokens or 0)
        if thread is None or self._is_set("compact_at"):
            config = replace(config, compact_at_tokens=settings.compact_at)
        if thread is None or self._is_set("temperature"):
            config = replace(config, temperature=settings.temperature)
        if thread is None or self._is_set("reasoning"):
            config = replace(config, reasoning=settings.reasoning)
        max_steps = 0 if self.is_task else self.choice.max_steps or settings.max_steps or 0
        return replace(
            config,
            model_name=self._model_name(),
            max_steps=max_steps,
            approval=approval.policy,
            # Not what the thread has recorded: it sends words of the person's to others, and costs.
            web_search=settings.web_search,
        )

    def _model_name(self) -> str:
        """The model chosen for this run, that of the thread, or that of the settings."""
        wanted = self.choice.model
        if self.thread is None:
            kind = self.choice.task_type
            return self.models.resolve_name(
                wanted or choose_model(self.loaded.settings.models, kind)
            )
        machine = self.thread.machine
        if not isinstance(machine, TaskMachine):
            return self.models.resolve_name(wanted or machine.config.model_name or None)
        if wanted and machine.memory.config.models:
            raise UsageError(
                f"thread {self.thread_id} has models by kind of task, recorded with its task",
                hint="leave --model out",
            )
        return self.models.resolve_name(wanted or machine.model_name or None)

    def _is_set(self, key: str) -> bool:
        return self.loaded.origins.get(key, DEFAULT_ORIGIN) != DEFAULT_ORIGIN

    def _choose_approval(self) -> Approval:
        """A thread keeps its approval mode; a new one has that of the settings."""
        if self.choice.mode is None and self.thread is not None:
            return find_recorded_approval(self.thread.machine.config)
        return self.choose_new_approval()

    def choose_new_approval(self) -> Approval:
        """The approval mode of a thread that begins here."""
        chosen = self.choice.mode
        if chosen is None and not self._is_set("approval_mode"):
            chosen = self.choice.mode_if_unset
        return make_approval(chosen or self.loaded.settings.approval_mode)

    def workspace(self) -> str:
        """The folder the agent works in. Raises `UsageError` if it is gone."""
        recorded = None if self.thread is None else self.thread.workspace
        if self.has_chosen_folder or self.thread is None or recorded is None:
            return self.folder
        if not Path(recorded).is_dir():
            raise UsageError(
                f"the folder of thread {self.thread_id} is not here: {recorded}",
                hint=_make_folder_hint(self.folder, self.thread),
            )
        return recorded


def _make_sub_agents(
    setup: Setup,
    situation: SituationObserver,
    config: AgentConfig,
    redactor: Redactor,
    make_tools: Callable[[frozenset[str]], Tools],
) -> tuple[SubAgent, ...]:
    """Who can be handed a job. A task keeps the tools it was begun with."""
    wanted = setup.loaded.settings.models.get(TASK_TYPE)
    is_own = bool(wanted) and not is_played(config.model_name)
    machine = None if setup.thread is None else setup.thread.machine
    told = (
        machine.memory.system_prompt if isinstance(machine, TaskMachine) else config.system_prompt
    )
    made = make_sub_agents(
        SubAgentParts(
            setup.store,
            situation.folder,
            told,
            situation.observe,
            setup.models.resolve_name(wanted) if is_own else "",
            setup.models.open,
            setup.add_hooks(make_tools(PLANS | FILE_WRITERS)),
            setup.add_hooks(make_tools(PLANS)),
            redactor,
            partial(run_between_hooks, setup.hooks),
        )
    )
    made = tuple(one for one in made if one.name not in setup.choice.left_out)
    if setup.thread is None or not setup.is_task:
        return made
    offered = {one.name for one in setup.thread.machine.config.tools}
    return tuple(one for one in made if one.name in offered)


async def close_setup(setup: Setup) -> None:
    """End what was opened and started for a thread: who answers, and servers of tools."""
    try:
        await setup.servers.aclose()
    finally:
        await setup.models.aclose()


def make_others_check(workspace: GitWorkspace) -> Callable[[], Sequence[UncommittedFile]]:
    """What in a repository is not committed and not the agent's, as `bash` asks for it."""
    return lambda: [
        UncommittedFile(one.name, one.is_untracked, one.is_staged)
        for one in workspace.list_others_changes()
    ]


def _make_composer(settings: Settings, models: Models, config: AgentConfig) -> Composer:
    """Who writes commit messages: a model of its own, or the thread's.

    A model that is played answers for itself: a replay asks nobody else.
    """
    wanted = settings.models.get("commit_message")
    name = config.model_name
    if wanted and not is_played(name):
        name = models.resolve_name(wanted)
    return Composer(models.open(name), name)


def _make_titler(settings: Settings, models: Models, model_name: str) -> Titler | None:
    """Who writes titles, if the settings name a model for that.

    A played model is left alone: a replay asks nobody else.
    """
    wanted = settings.models.get("title")
    if not wanted or is_played(model_name):
        return None
    name = models.resolve_name(wanted)
    return Titler(models.open(name), name)


def _make_folder_hint(here: str, thread: ThreadFold) -> str:
    """What to do where the folder of a thread is not: it may lie elsewhere on this machine."""
    from treadle.app.sessions.moved_repository import has_same_remote

    thread_id = thread.header.thread
    if has_same_remote(here, thread.git.git_remote_url):
        return (
            f"this folder is in the same repository: `treadle resume {thread_id} -C .` goes on here"
        )
    return (
        f"`treadle resume {thread_id} -C FOLDER` goes on in another one; `treadle show` "
        "works without it"
    )


def _report_no_usage() -> tuple[None, str]:
    return None, ""
