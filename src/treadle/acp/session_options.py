"""What can be chosen in a session, as the protocol has it: modes, models, commands."""

from __future__ import annotations

from typing import Any, Final

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    UnstructuredCommandInput,
)

from treadle.app.editors.editor_session import COMPACT, EditorSession
from treadle.app.sessions.limits import MODES

MODE_OPTION: Final = "mode"
MODEL_OPTION: Final = "model"

_MODE_TEXTS: Final = {
    "plan": ("Plan", "Reads and runs commands that change nothing."),
    "ask": ("Ask", "Asks before it changes a file or runs a command that may."),
    "auto-edit": ("Auto-edit", "Edits files unasked; asks before a command that may change some."),
    "auto": ("Auto", "Asks nothing."),
}


def list_modes(session: EditorSession) -> SessionModeState:
    """The approval modes, and the one that holds."""
    modes = [
        SessionMode(id=mode, name=_MODE_TEXTS[mode][0], description=_MODE_TEXTS[mode][1])
        for mode in MODES
    ]
    if session.mode not in MODES:  # a program of the library chose a policy of its own
        modes.append(SessionMode(id=session.mode, name="As it was begun"))
    return SessionModeState(current_mode_id=session.mode, available_modes=modes)


def list_options(
    session: EditorSession,
) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
    """The same modes, and the models: editors that know options look at nothing else."""
    modes = [
        SessionConfigSelectOption(value=one.id, name=one.name, description=one.description)
        for one in list_modes(session).available_modes
    ]
    models = [SessionConfigSelectOption(value=one, name=one) for one in session.list_models()]
    return [
        _make_option(MODE_OPTION, "Approval mode", session.mode, modes),
        _make_option(MODEL_OPTION, "Model", session.model, models),
    ]


def list_commands(session: EditorSession) -> AvailableCommandsUpdate:
    """The person's own commands and skills, and the one of ours that makes sense here."""
    commands = [
        AvailableCommand(
            name=one.prompt.name,
            description=one.prompt.description or f"the {one.prompt.kind} {one.prompt.name}",
            input=_make_input(one.prompt.argument_hint or "arguments"),
        )
        for one in session.list_commands()
    ]
    if all(one.name != COMPACT for one in commands):
        what = "have a summary stand for the conversation so far"
        hint = _make_input("what must not be forgotten")
        commands.append(AvailableCommand(name=COMPACT, description=what, input=hint))
    return AvailableCommandsUpdate(
        session_update="available_commands_update", available_commands=commands
    )


def _make_option(
    name: str, label: str, value: str, options: list[SessionConfigSelectOption]
) -> SessionConfigOptionSelect:
    category: Any = name
    return SessionConfigOptionSelect(
        type="select", id=name, name=label, category=category, current_value=value, options=options
    )


def _make_input(hint: str) -> AvailableCommandInput:
    return AvailableCommandInput(root=UnstructuredCommandInput(hint=hint))
