"""What one file says: a skill of the open Agent Skills format, or a slash command. Pure."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from treadle.thread.safe_text import sanitize_text
from treadle.workspace.prompt_files.front_matter import parse_markdown_file

NAME_LENGTH_MAX: Final = 64
DESCRIPTION_LENGTH_MAX: Final = 1024
COMPATIBILITY_LENGTH_MAX: Final = 500
HINT_LENGTH_MAX: Final = 80
"""Characters of a command's argument hint, and of a description that is the body's first line."""

FILLED_LENGTH_MAX: Final = 16 * 1024 * 1024
"""Characters of a command with its arguments put in: a few of its placeholders can be terabytes."""

PromptKind: TypeAlias = Literal["skill", "command"]

_COMMAND_NAME: Final = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*\Z")
_PLACEHOLDER: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")
_UNTOLD: Final = frozenset({"true", "yes", "on", "1"})


class Prompt(Struct, frozen=True):
    """A skill or a slash command, as its file says it.

    `is_told` is false for a skill that only a person may call. `remarks` say what of the file is
    not as the format wants it, and what was made of that. `license`, `compatibility`, `metadata`
    and `allowed_tools` are a skill's; they are for people, and allow nothing.
    """

    kind: PromptKind
    name: str
    description: str
    body: str
    argument_hint: str = ""
    is_told: bool = True
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = {}
    allowed_tools: str = ""
    remarks: tuple[str, ...] = ()


def parse_skill(data: bytes, folder_name: str) -> Prompt:
    """A skill's SKILL.md.

    Args:
        data: the file.
        folder_name: what its folder is called, which should be the skill's name.

    Raises:
        ValueError: it is no skill; says why, in words to be put behind "it is not used: ".
    """
    file = parse_markdown_file(data)
    if not file.fields:
        raise ValueError("it has no front matter with a name and a description")
    fields = _Fields(file.fields)
    name = unicodedata.normalize("NFKC", fields.read_text("name"))
    check_skill_name(name)
    if name != unicodedata.normalize("NFKC", folder_name):
        fields.remarks.append("its folder should have its name")
    description = fields.read_text("description", DESCRIPTION_LENGTH_MAX)
    if not description:
        raise ValueError("it has no description")
    return Prompt(
        "skill",
        name,
        description,
        file.body,
        is_told=fields.read_text("disable-model-invocation").lower() not in _UNTOLD,
        license=fields.read_text("license", DESCRIPTION_LENGTH_MAX),
        compatibility=fields.read_text("compatibility", COMPATIBILITY_LENGTH_MAX),
        metadata=fields.read_mapping("metadata"),
        allowed_tools=fields.read_words("allowed-tools"),
        remarks=tuple(fields.remarks),
    )


def parse_command(data: bytes, name: str) -> Prompt:
    """A slash command's file, which is a prompt; its front matter is optional.

    Args:
        data: the file.
        name: of the file, without `.md`.

    Raises:
        ValueError: as `parse_skill`.
    """
    if not _COMMAND_NAME.match(name) or len(name) > NAME_LENGTH_MAX:
        raise ValueError(
            f"a command's name has small letters, digits, - and _, {NAME_LENGTH_MAX} at most"
        )
    file = parse_markdown_file(data)
    if not file.body:
        raise ValueError("there is nothing in it")
    fields = _Fields(file.fields)
    description = fields.read_text("description", DESCRIPTION_LENGTH_MAX)
    if not description:
        first = file.body.partition("\n")[0].lstrip("# ")
        description = sanitize_text(first)[:HINT_LENGTH_MAX]
    hint = fields.read_words("argument-hint", HINT_LENGTH_MAX)
    if not hint and _PLACEHOLDER.search(file.body):
        hint = "[ARGUMENTS]"
    return Prompt("command", name, description, file.body, hint, remarks=tuple(fields.remarks))


def check_skill_name(name: str) -> None:
    """Whether the format allows this name: small letters and digits of any script, and hyphens.

    Raises:
        ValueError: it does not; says why.
    """
    if not name:
        raise ValueError("it has no name")
    if len(name) > NAME_LENGTH_MAX:
        raise ValueError(f"its name has more than {NAME_LENGTH_MAX} characters")
    if name != name.lower() or not all(part and part.isalnum() for part in name.split("-")):
        raise ValueError("its name may have small letters, digits and single hyphens between them")


def fill_arguments(prompt: Prompt, arguments: str) -> str:
    """The body of a command with what was typed behind its name in place of the placeholders.

    `$ARGUMENTS` is all of it; `$1` to `$9` are the words of its first line, with quotes as a shell
    has them, empty where there is none. What was typed is put in once, and not looked at again.

    Raises:
        ValueError: the body takes words, and none was given; a quote is not closed; or the result
            would have more than `FILLED_LENGTH_MAX` characters.
    """
    places = [found[1] for found in _PLACEHOLDER.finditer(prompt.body)]
    if len(prompt.body) + len(places) * len(arguments) > FILLED_LENGTH_MAX:
        times = f"{len(places)} times {len(arguments)} characters"
        raise ValueError(f"{times} are put into it, which makes it too long")
    used = {*places}
    if "1" in used and not arguments:
        hint = prompt.argument_hint
        raise ValueError(f"it needs more words: /{prompt.name} {hint}")
    words: list[str] = []
    if used - {"ARGUMENTS"}:
        try:
            words = shlex.split(arguments.partition("\n")[0])
        except ValueError:
            raise ValueError("a quote is not closed") from None

    def put_in(found: re.Match[str]) -> str:
        if found[1] == "ARGUMENTS":
            return arguments
        place = int(found[1]) - 1
        return words[place] if place < len(words) else ""

    return _PLACEHOLDER.sub(put_in, prompt.body)


class _Fields:
    """Reads the fields of a front matter; what has another type than the format says is left out.

    `remarks` is what people should know of that.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self.remarks: list[str] = []

    def read_text(self, key: str, length_max: int = NAME_LENGTH_MAX + 1) -> str:
        """A text in one line, cut to size; empty if there is none.

        Raises:
            ValueError: it has characters that cannot be seen.
        """
        value = self._fields.get(key, "")
        if not isinstance(value, str):
            self.remarks.append(f"its {key} is no text, and is not used")
            return ""
        # Of what `split` takes for space some steer a terminal, so the text is looked at as it was.
        if sanitize_text(value) != value:
            raise ValueError(f"its {key} has characters that cannot be seen or steer a terminal")
        text = " ".join(value.split())
        if len(text) > length_max:
            if length_max > NAME_LENGTH_MAX + 1:
                self.remarks.append(f"its {key} has {len(text)} characters of {length_max}: cut")
            text = text[:length_max]
        return text

    def read_words(self, key: str, length_max: int = DESCRIPTION_LENGTH_MAX) -> str:
        """A text, or a list of texts, which some programs write instead: `[file]`, `- Read`."""
        value = self._fields.get(key, "")
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            is_hint = key == "argument-hint"
            joined = " ".join(f"[{one}]" if is_hint else one for one in value)
            return _Fields({key: joined}).read_text(key, length_max)
        return self.read_text(key, length_max)

    def read_mapping(self, key: str) -> dict[str, str]:
        """Texts by name."""
        value = self._fields.get(key, {})
        if value == "":
            return {}
        if not isinstance(value, dict) or not all(
            isinstance(one, str) and sanitize_text(one) == one
            for pair in value.items()
            for one in pair
        ):
            self.remarks.append(f"its {key} is no mapping of texts, and is not used")
            return {}
        return dict(value)
