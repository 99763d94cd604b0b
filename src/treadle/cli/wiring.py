"""Puts the parts together: the only place that knows every adapter by name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle import __version__
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import EffectClass
from treadle.errors import NotConfiguredError, UsageError
from treadle.models.script import load_script
from treadle.models.scripted import ScriptedModel
from treadle.runtime.commit_message import Composer
from treadle.runtime.outputs import Output
from treadle.runtime.ports import Provider
from treadle.runtime.recovery import Answer
from treadle.runtime.session import Session
from treadle.store.local import LocalStore
from treadle.store.places import Places
from treadle.thread.facts import ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry
from treadle.workspace.commit import GitWorkspace
from treadle.workspace.redact import Redactor, collect_secrets

CREATOR: Final = f"treadle {__version__}"

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

    `max_steps` bounds this run only; 0 is no bound.
    """

    model: str | None = None
    approval_mode: str | None = None
    max_steps: int = 0


class Setup(Struct, frozen=True):
    """Everything a session needs, besides a thread."""

    store: LocalStore
    folder: str
    has_chosen_folder: bool
    choice: ModelChoice
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
            NotConfiguredError: no model was chosen, nor is one recorded.
            UsageError: the thread's folder is gone.
            StoreError: the thread is busy, damaged or newer, or the disk refused.
        """
        recorded = None if thread_id is None else self.store.load(thread_id).fold
        folder = self.folder if recorded is None else self._folder_of(recorded.header)
        config = self._config(folder, recorded)
        provider = make_provider(config.model_name)
        redactor = Redactor(collect_secrets(os.environ, Path.home()))
        tools = Registry(builtin_tools(), workspace=folder)
        if (self.choice.approval_mode or _recorded_mode(config)) == "plan":
            tools = tools.only({EffectClass.READ})
            self.notices.append(
                "approval mode plan: the agent can read but not change files or run commands; "
                "--approval-mode auto lets it"
            )
        composer = Composer(provider, config.model_name)
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
        config = (
            AgentConfig(system_prompt=SYSTEM_PROMPT.format(folder=folder))
            if recorded is None
            else recorded.machine.config
        )
        if recorded is not None and folder != recorded.header.workspace:
            config = replace(config, system_prompt=SYSTEM_PROMPT.format(folder=folder))
        model = self.choice.model
        return replace(
            config,
            model_name=_lasting_name(model) if model else config.model_name,
            max_steps=self.choice.max_steps,
        )

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


def make_setup(choice: ModelChoice, *, folder: str | None, auto_commit: bool) -> Setup:
    """The setup of this user, in this folder.

    Raises:
        UsageError: the folder is none.
    """
    path = Path(folder or ".").expanduser()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", hint="-C takes the folder the agent works in")
    store = LocalStore(Places.find())
    return Setup(store, str(path.resolve()), folder is not None, choice, auto_commit, [])


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


def make_provider(model: str | None) -> Provider:
    """Who answers for a model name.

    Raises:
        NotConfiguredError: no model is named.
        UsageError: nobody answers for this name, or its script is not valid.
    """
    if not model:
        raise NotConfiguredError(
            "no model is configured: give -m scripted:FILE or set TREADLE_MODEL",
            hint="`treadle demo` works without one",
        )
    kind, _, rest = model.partition(":")
    if kind != "scripted" or not rest:
        raise UsageError(f"unknown model {model!r}", hint="this version has scripted:FILE")
    return ScriptedModel(load_script(rest))


def _recorded_mode(config: AgentConfig) -> str:
    """The approval mode a thread was last worked on with; a new one has none, which is `plan`."""
    mutates = any(tool.effect is not EffectClass.READ for tool in config.tools)
    return "auto" if mutates else "plan"


def _lasting_name(model: str) -> str:
    """The name as the thread keeps it: a script's path must hold from any folder."""
    kind, _, rest = model.partition(":")
    return f"{kind}:{Path(rest).expanduser().resolve()}" if rest else kind
