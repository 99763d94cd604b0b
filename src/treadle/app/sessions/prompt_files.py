"""Skills and slash commands of a repository and of its user: which there are, and what they say.

A skill is a folder of the open Agent Skills format. An agent is told its name and description when
a thread begins, reads its SKILL.md when a task fits, and its other files as that asks for them. A
person calls it, or a command, with `/NAME`: what is said then is the line as it was typed, and
behind it the text of the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from treadle.app.files.hidden_paths import make_hidden_check
from treadle.app.sessions.agents_file import AGENTS_FILE_PROMPT, COMMAND_NAME
from treadle.config.project_trust import TrustedFiles, read_trusted_files
from treadle.core.tool_families import OWN_NAMES, ToolKind
from treadle.errors import UsageError
from treadle.models.catalog import suggest_name
from treadle.store.paths import Places
from treadle.thread.typed_words import EXPANSION_HEAD
from treadle.workspace.prompt_files.discovery import (
    FoundPrompts,
    PromptFile,
    RefusedFile,
    find_prompts,
    list_prompt_folders,
)
from treadle.workspace.prompt_files.prompts import Prompt, fill_arguments

CATALOGUE_SIZE_MAX: Final = 24 * 1024
"""Characters of all descriptions that an agent is told, about 6,000 tokens."""

PromptUse: TypeAlias = Literal["used", "new", "changed", "shadowed"]
"""Whether it is used; else it is not trusted yet, has changed since, or another has its name."""

_CALL: Final = re.compile(r"/([^\s/]+)(?:\s+(.*))?\Z", re.DOTALL)

_SKILLS_HEAD: Final = """\
Skills are folders of instructions for a kind of work. When a task fits one of these, read its
SKILL.md with {reader} before you begin, and follow it; paths in it are relative to its folder.
Read its other files when it says so, and run its scripts as commands."""


class ListedPrompt(Struct, frozen=True):
    """A skill or a command, where it is from, and whether it is used."""

    prompt: Prompt
    path: Path
    origin: Literal["repository", "user"]
    use: PromptUse

    @property
    def folder(self) -> Path:
        """Of a skill: where its other files are."""
        return self.path.parent


class PromptFileList(Struct, frozen=True):
    """All skills and commands that were found, in the order in which the first of a name counts.

    `refused` are files that cannot be used at all.
    """

    prompts: tuple[ListedPrompt, ...] = ()
    refused: tuple[RefusedFile, ...] = ()

    @property
    def used(self) -> tuple[ListedPrompt, ...]:
        """Those that can be called by their name."""
        return tuple(one for one in self.prompts if one.use == "used")

    @property
    def told_skills(self) -> tuple[ListedPrompt, ...]:
        """The skills that an agent may use by itself."""
        return tuple(one for one in self.used if one.prompt.kind == "skill" and one.prompt.is_told)


def list_prompts(folder: str | Path, places: Places) -> PromptFileList:
    """The skills and commands that hold in a folder.

    Args:
        folder: where the agent works.
        places: the folders of the user.

    Raises:
        DiskError: the machine fails to read what the user trusts.
    """
    found = find_project_prompts(folder, places)
    trusted = read_trusted_files(places)
    return PromptFileList(tuple(_judge(found.files, trusted)), found.refused)


def find_project_prompts(folder: str | Path, places: Places) -> FoundPrompts:
    """Skills and commands as they stand, whoever trusts them. Never fails."""

    @cache
    def hides(path: Path) -> bool:
        return make_hidden_check("/", places)(path)

    home = None
    with suppress(RuntimeError):  # an account without a home, as in some containers
        home = Path.home()
    return find_prompts(list_prompt_folders(Path(folder), places.config, home), hides)


def _judge(files: Iterable[PromptFile], trusted: TrustedFiles) -> Iterable[ListedPrompt]:
    """What is used: trusted, and the first of its name."""
    names: set[str] = set()
    for file in files:
        state = trusted.find_prompt_state(file)
        use: PromptUse = "used" if state == "trusted" else state
        if use == "used" and file.prompt.name in names:
            use = "shadowed"
        elif use == "used":
            names.add(file.prompt.name)
        origin: Literal["repository", "user"] = "user" if file.root is None else "repository"
        yield ListedPrompt(file.prompt, file.path, origin, use)


def describe_skills(
    listed: PromptFileList, folder: str, reader: str = OWN_NAMES[ToolKind.READ]
) -> str:
    """What an agent is told of the skills when its thread begins; empty if there are none.

    Args:
        listed: of `list_prompts`.
        folder: where the agent works; paths in it are told relative to it.
        reader: the tool with which it reads files.
    """
    lines = _list_catalogue(listed, folder)
    return "\n".join((_SKILLS_HEAD.format(reader=reader), *lines)) if lines else ""


def describe_unused_prompts(listed: PromptFileList, folder: str) -> list[str]:
    """Lines for the person about skills and commands that are not used, though they might be."""
    notices = [f"{one.path} is not used: {one.reason}" for one in listed.refused]
    for use, why in (
        ("new", "nobody has trusted {them} yet"),
        ("changed", "changed since trusted"),
    ):
        names = [one.prompt.name for one in listed.prompts if one.use == use]
        if names:
            told = ", ".join(names)
            reason = why.format(them="it" if len(names) == 1 else "them")
            notices.append(
                f"skills and commands of this repository that are not used, {reason}: {told}; "
                "`treadle config trust` looks at them"
            )
    left = len(listed.told_skills) - len(_list_catalogue(listed, folder))
    if left:
        notices.append(
            f"the agent is not told of {left} of {len(listed.told_skills)} skills: their "
            f"descriptions have more than {CATALOGUE_SIZE_MAX} characters together"
        )
    return notices


def _list_catalogue(listed: PromptFileList, folder: str) -> list[str]:
    """A line for each skill, as long as there is room."""
    lines: list[str] = []
    room = CATALOGUE_SIZE_MAX
    for one in listed.told_skills:
        where = format_path(one.folder, folder)
        line = f"- {one.prompt.name} ({where}/SKILL.md): {one.prompt.description}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return lines


def list_skill_folders(listed: PromptFileList, folder: str) -> tuple[str, ...]:
    """The folders of skills outside of where the agent works, which its tools read too."""
    here = Path(folder).resolve()
    folders = (one.folder for one in listed.used if one.prompt.kind == "skill")
    return tuple(str(one) for one in folders if here != one and here not in one.parents)


def expand_prompt(text: str, listed: PromptFileList) -> str:
    """What is said for a line that a person typed: for `/NAME ARGUMENTS` the text of its file too.

    Other texts are said as they are.

    Args:
        text: as it was typed.
        listed: of `list_prompts`.

    Raises:
        UsageError: nothing is called so, it is not used, or its arguments do not fit.
    """
    if (call := _CALL.match(text)) is None:
        return text
    name, arguments = call[1], (call[2] or "").strip()
    found = next((one for one in listed.used if one.prompt.name == name), None)
    if found is None and name == COMMAND_NAME:
        return f"{text}{EXPANSION_HEAD}prompt of Treadle]\n{AGENTS_FILE_PROMPT}"
    if found is None:
        raise _make_unknown_error(name, listed)
    prompt = found.prompt
    if prompt.kind == "skill":
        what = f"skill; its folder is {found.folder}]"
        return f"{text}{EXPANSION_HEAD}{what}\n{prompt.body}"
    try:
        body = fill_arguments(prompt, arguments)
    except ValueError as error:
        hint = f"/{name} is {found.path}"
        raise UsageError(f"/{name}: {error}", hint=hint) from error
    return f"{text}{EXPANSION_HEAD}prompt, {found.path}]\n{body}"


def _make_unknown_error(name: str, listed: PromptFileList) -> UsageError:
    for one in listed.prompts:
        if one.prompt.name == name:
            changed = "it changed since it was trusted"
            reason = changed if one.use == "changed" else "nobody has trusted it yet"
            return UsageError(
                f"/{name} ({one.path}) is not used: {reason}",
                hint="`treadle config trust` looks at it",
            )
    advice = suggest_name(f"/{name}", [f"/{one.prompt.name}" for one in listed.used])
    return UsageError(
        f"there is no skill or command /{name}{advice}",
        hint="a prompt that begins with a slash is said with a space before it",
    )


_USES: Final = {
    "new": "not used: nobody has trusted it yet",
    "changed": "not used: it changed since it was trusted",
    "shadowed": "not used: another one that comes before it has its name",
}


def describe_prompt_use(one: ListedPrompt, taken: Collection[str] = ()) -> tuple[str, ...]:
    """Whose a skill or command is, whether it is used, and what its file should say otherwise.

    Args:
        one: the skill or command.
        taken: names that something else has.
    """
    prompt = one.prompt
    parts = ["of the repository" if one.origin == "repository" else "yours", _USES.get(one.use, "")]
    if one.use == "used" and prompt.name in taken:
        parts.append("not called so: the chat has a command of this name")
    if prompt.kind == "skill" and not prompt.is_told:
        parts.append("agents are not told of it")
    if prompt.compatibility:
        parts.append(f"needs: {prompt.compatibility}")
    return tuple(part for part in (*parts, *prompt.remarks) if part)


def format_path(path: Path, folder: str) -> str:
    """A path for a model or a person: relative to the folder it lies in, else whole."""
    here = Path(folder).resolve()
    return str(path.relative_to(here)) if here in path.parents else str(path)
