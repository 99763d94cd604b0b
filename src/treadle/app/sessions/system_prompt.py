"""What a model is told before everything: recorded when a thread begins, and the same for ever."""

from __future__ import annotations

from typing import Final

from treadle.app.files.hidden_paths import make_hidden_check
from treadle.app.sessions.prompt_files import (
    describe_skills,
    describe_unused_prompts,
    list_prompts,
)
from treadle.core.tool_families import ToolKind, find_family
from treadle.sandbox.thread_scratch import SENTENCE as SCRATCH_SENTENCE
from treadle.store.paths import Places
from treadle.thread.situation import AgentSituation
from treadle.workspace.instructions import read_instructions

SYSTEM_PROMPT: Final = """\
You are Treadle, a coding agent. You work in a folder with the tools you are given.
Look before you change: read the files and run the tests that tell you what is true. Make the
smallest change that does what was asked, check it by running what can be run, and say in a few
sentences what you did and what you saw. A result that begins with ERROR is information: read it
and go on. If a command is reported as uncertain, the process died while it ran: find out whether
it happened before you repeat it."""


def make_system_prompt(
    situation: AgentSituation,
    places: Places,
    family: str,
    notices: list[str],
    instructions: str | None = None,
) -> str:
    """The text for a new thread, of what is the same for most threads first.

    So a provider's cache of one thread serves the next one in the folder that far. A skill that
    comes later is told to the next thread.

    Args:
        situation: where and how the agent works, as it stands when the thread begins.
        places: where skills and threads of this user are.
        family: that of the model: what its tools are called, and what it is told besides.
        notices: gets what a person should know of the files that were read.
        instructions: what stands in place of those that the folder has.
    """
    folder = situation.folder
    # The repository may begin above the workspace.
    found = read_instructions(folder, hides=make_hidden_check("/", places))
    notices.extend(found.notices)
    listed = list_prompts(folder, places)
    notices.extend(describe_unused_prompts(listed, folder))
    prompt = f"{SYSTEM_PROMPT} {SCRATCH_SENTENCE}" if places.scratch else SYSTEM_PROMPT
    about = find_family(family)
    skills = describe_skills(listed, folder, about.name_of(ToolKind.READ))
    rules = found.text if instructions is None else instructions.strip()
    parts = (prompt, about.prompt, rules, skills, situation.text)
    return "\n\n".join(part for part in parts if part)
