"""Puts the parts together: the only place that knows every adapter by name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.cli.providers import CREATOR, Models
from treadle.config.load import load_settings
from treadle.config.settings import Settings
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass
from treadle.errors import UsageError
from treadle.runtime.commit_message import Composer
from treadle.runtime.outputs import Output
from treadle.runtime.recovery import Answer
from treadle.runtime.session import Session
from treadle.store.local import LocalStore
from treadle.store.places import Places
from treadle.thread.facts import ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from treadle.workspace.commit import GitWorkspace
from treadle.workspace.instructions import read_instructions
from treadle.workspace.redact import Redactor, collect_secrets

SYSTEM_PROMPT: Final = """\
You are Treadle, a coding agent. You work in the folder {folder} with the tools you are given.
Look before you change: read the files and run the tests that tell you what is true. Make the
smallest change that does what was asked, check it by running what can be run, and say in a few
sentences what you did and what you saw. A result that begins with ERROR is information: read it
and go on. If a command is reported as uncertain, the process died while it ran: find out whether
it happened before you repeat it."""
"""Recorded in the thread when it begins, so that a resumed thread sends the same bytes."""


class ModelChoice(Struct, frozen=True):
    """What a person may choose per run; `None` keeps what the thread has recorded.

    `max_steps` bounds this run only; `None` is what the settings say. `record` is a file that
    keeps what models stream.
    """

    model: str | None = None
    approval_mode: str | None = None
    max_steps: int | None = None
    record: str | None = None


class Setup(Struct, frozen=True):
    """Everything a session needs, besides a thread."""

    store: LocalStore
    folder: str
    has_chosen_folder: bool
    choice: ModelChoice
    settings: Settings
    models: Models
    auto_commit: bool
    notices: list[str]

    def open(
        self,
        thread_id: str | None,
        on_output: Callable[[Output], None],
        *,
        is_private: bool = False,
        ask: Callable[[ToolCall], Awaitable[Answer]] | None = None,
    ) -> Session:
        """A session on a new thread, or on an existing one.

        Raises:
            NotConfiguredError: no model was chosen, nor is one recorded; or it has no key.
            UsageError: the thread's folder is gone, or there is no such model.
            StoreError: the thread is busy, damaged or newer, or the disk refused.
        """
        recorded = None if thread_id is None else self.store.load(thread_id).fold
        folder = self.folder if recorded is None else self._folder_of(recorded.header)
        config = self._config(folder, recorded)
        provider = self.models.open(config.model_name)
        composer = self._composer(config)
        secrets = {**self.models.keys, **collect_secrets(os.environ, Path.home())}
        redactor = Redactor(secrets)
        self.models.redact = redactor.redact
        tools = Registry(builtin_tools(), workspace=folder)
        if self._mode(recorded) == "plan":
            tools = tools.only({EffectClass.READ})
            self.notices.append(
                "approval mode plan: the agent can read but not change files or run commands; "
                "--approval-mode auto lets it"
            )
        workspace = GitWorkspace(
            folder,
            auto_commit=self.auto_commit,
            compose=composer,
            redactor=redactor,
        )
        writer = (
            self.store.create(CREATOR, workspace=folder, cwd=folder, is_private=is_private)
            if thread_id is None
            else self.store.open(thread_id)
        )
        return Session(
            writer,
            provider,
            tools,
            config,
            workspace=workspace,
            redactor=redactor,
            ask=ask,
            hook_usage=composer.take_usage,
            on_output=on_output,
        )

    def _config(self, folder: str, recorded: ThreadFold | None) -> AgentConfig:
        """What the thread has recorded, with what was chosen for this run."""
        settings, chosen = self.settings, self.choice.model
        max_steps = self.choice.max_steps or settings.max_steps or 0
        if recorded is None:
            name = self.models.name(chosen)
            return AgentConfig(
                model_name=name,
                system_prompt=self._system_prompt(folder),
                max_steps=max_steps,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
                reasoning=settings.reasoning,
            )
        config = recorded.machine.config
        if folder != recorded.header.workspace:
            config = replace(config, system_prompt=self._system_prompt(folder))
        name = self.models.name(chosen or config.model_name)
        return replace(config, model_name=name, max_steps=max_steps)

    def _system_prompt(self, folder: str) -> str:
        found = read_instructions(folder)
        self.notices.extend(found.notices)
        prompt = SYSTEM_PROMPT.format(folder=folder)
        return f"{prompt}\n\n{found.text}" if found.text else prompt

    def _mode(self, recorded: ThreadFold | None) -> str:
        """A thread keeps its approval mode; a new one has that of the settings."""
        if self.choice.approval_mode is not None:
            return self.choice.approval_mode
        if recorded is None:
            return self.settings.approval_mode
        return _recorded_mode(recorded.machine.config)

    def _composer(self, config: AgentConfig) -> Composer:
        """Who writes commit messages: a model of its own, or the thread's."""
        wanted = self.settings.models.get("commit_message")
        name = self.models.name(wanted) if wanted else config.model_name
        return Composer(self.models.open(name), name)

    def _folder_of(self, header: ThreadCreated) -> str:
        recorded = header.workspace
        if self.has_chosen_folder or recorded is None:
            return self.folder
        if not Path(recorded).is_dir():
            raise UsageError(
                f"the folder of thread {header.thread} is gone: {recorded}",
                hint="-C FOLDER goes on in another one; `treadle show` works without it",
            )
        return recorded


def make_setup(choice: ModelChoice, *, folder: str | None, no_commit: bool) -> Setup:
    """The setup of this user, in this folder.

    Raises:
        UsageError: the folder is none, or a setting is not valid.
    """
    path = Path(folder or ".").expanduser()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", hint="-C takes the folder the agent works in")
    here = str(path.resolve())
    loaded = load_settings(here, os.environ)
    return Setup(
        store=LocalStore(Places.find()),
        folder=here,
        has_chosen_folder=folder is not None,
        choice=choice,
        settings=loaded.settings,
        models=Models(loaded, record=choice.record),
        auto_commit=loaded.settings.auto_commit and not no_commit,
        notices=list(loaded.notices),
    )


def find_thread(setup: Setup, text: str | None, *, latest: bool) -> str | None:
    """The thread that `-r` or `-c` names; `None` for a new one."""
    if text:
        return setup.store.resolve(text)
    if not latest:
        return None
    found = setup.store.latest(setup.folder)
    if found is None:
        raise UsageError(
            f"no thread has worked in {setup.folder} yet", hint="leave -c out to start one"
        )
    setup.notices.append(f"going on with {found}")
    return found


def _recorded_mode(config: AgentConfig) -> str:
    """The approval mode a thread was last worked on with; a new one has none, which is `plan`."""
    mutates = any(tool.effect is not EffectClass.READ for tool in config.tools)
    return "auto" if mutates else "plan"
