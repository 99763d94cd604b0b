"""Puts the parts together: the only place that knows every adapter by name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.cli.providers import CREATOR, Models, is_played
from treadle.config.load import DEFAULT, Loaded, load_settings
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
    loaded: Loaded
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
        mode = self._mode(recorded)
        composer = self._composer(config) if self.auto_commit and mode == "auto" else None
        secrets = {**self.models.keys, **collect_secrets(os.environ, Path.home())}
        redactor = Redactor(secrets)
        self.models.redact = redactor.redact
        tools = Registry(builtin_tools(), workspace=folder)
        if mode == "plan":
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
            hook_usage=composer.take_usage if composer is not None else _nothing,
            on_output=on_output,
        )

    def _config(self, folder: str, recorded: ThreadFold | None) -> AgentConfig:
        """What the thread has recorded, with what was set or chosen since."""
        chosen, settings = self.choice.model, self.loaded.settings
        config = AgentConfig() if recorded is None else recorded.machine.config
        name = self.models.name(chosen or config.model_name or None)
        if recorded is None or folder != recorded.header.workspace:
            config = replace(config, system_prompt=self._system_prompt(folder))
        if recorded is None or self._is_set("max_tokens"):
            config = replace(config, max_tokens=settings.max_tokens or 0)
        if recorded is None or self._is_set("temperature"):
            config = replace(config, temperature=settings.temperature)
        if recorded is None or self._is_set("reasoning"):
            config = replace(config, reasoning=settings.reasoning)
        max_steps = self.choice.max_steps or settings.max_steps or 0
        return replace(config, model_name=name, max_steps=max_steps)

    def _is_set(self, key: str) -> bool:
        return self.loaded.origins.get(key, DEFAULT) != DEFAULT

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
            return self.loaded.settings.approval_mode
        return _recorded_mode(recorded.machine.config)

    def _composer(self, config: AgentConfig) -> Composer:
        """Who writes commit messages: a model of its own, or the thread's.

        A model that is played answers for itself: a replay asks nobody else.
        """
        wanted = self.loaded.settings.models.get("commit_message")
        name = config.model_name
        if wanted and not is_played(name):
            name = self.models.name(wanted)
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


def make_setup(
    choice: ModelChoice,
    *,
    folder: str | None,
    no_commit: bool,
    thread: str | None = None,
    latest: bool = False,
) -> tuple[Setup, str | None]:
    """The setup of this user, and the thread it is for; `None` for a new one.

    The settings are those of the folder the agent will work in.

    Args:
        choice: what was chosen for this run.
        folder: the folder that was chosen; by default the thread's, or this one.
        no_commit: whether commits were turned off.
        thread: the beginning of a thread's id.
        latest: whether to take the last thread of the folder.

    Raises:
        UsageError: the folder is none, there is no such thread, or a setting is not valid.
    """
    path = Path(folder or ".").expanduser()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", hint="-C takes the folder the agent works in")
    here = str(path.resolve())
    store = LocalStore(Places.find())
    notices: list[str] = []
    thread_id = _find_thread(store, here, thread, latest=latest, notices=notices)
    works_in = here
    if thread_id is not None and folder is None:
        recorded = store.load(thread_id).fold.header.workspace
        works_in = recorded if recorded and Path(recorded).is_dir() else here
    loaded = load_settings(works_in, os.environ)
    setup = Setup(
        store=store,
        folder=here,
        has_chosen_folder=folder is not None,
        choice=choice,
        loaded=loaded,
        models=Models(loaded, record=choice.record),
        auto_commit=loaded.settings.auto_commit and not no_commit,
        notices=[*loaded.notices, *notices],
    )
    return setup, thread_id


def _find_thread(
    store: LocalStore, folder: str, text: str | None, *, latest: bool, notices: list[str]
) -> str | None:
    """The thread that `-r` or `-c` names; `None` for a new one."""
    if text:
        return store.resolve(text)
    if not latest:
        return None
    found = store.latest(folder)
    if found is None:
        raise UsageError(f"no thread has worked in {folder} yet", hint="leave -c out to start one")
    notices.append(f"going on with {found}")
    return found


def _nothing() -> tuple[None, str]:
    return None, ""


def _recorded_mode(config: AgentConfig) -> str:
    """The approval mode a thread was last worked on with; a new one has none, which is `plan`."""
    mutates = any(tool.effect is not EffectClass.READ for tool in config.tools)
    return "auto" if mutates else "plan"
