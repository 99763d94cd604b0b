"""Finds skills and slash commands in the folders that may hold them.

Whatever stands there can have been put there by others: a file that cannot be used is named with
the reason, and never stops the rest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.thread.safe_text import sanitize_text
from treadle.workspace.bounded_files import (
    find_repository_root,
    list_folders_up,
    read_within,
    resolve_within,
)
from treadle.workspace.prompt_files.front_matter import measure_front_matter
from treadle.workspace.prompt_files.prompts import (
    Prompt,
    PromptKind,
    parse_command,
    parse_skill,
)

FILE_SIZE_MAX: Final = 128 * 1024
"""Bytes of a SKILL.md or of a command: models read all of it when it is used."""
ENTRY_COUNT_MAX: Final = 200
"""Skills, or commands, of one folder."""
FRONT_MATTERS_SIZE_MAX: Final = 512 * 1024
"""Bytes of front matter of one repository: to parse it takes seconds, before anybody trusts it."""
SKILLS_FOLDER: Final = ".agents/skills"
COMMANDS_FOLDER: Final = ".treadle/commands"
SKILL_FILE: Final = "SKILL.md"
COMMAND_SUFFIX: Final = ".md"


class PromptFolder(Struct, frozen=True):
    """A folder that may hold skills or commands; `root` is the repository's, `None` for the user's.

    What is in a repository's folder may not lead out of the repository.
    """

    kind: PromptKind
    folder: Path
    root: Path | None = None


class PromptFile(Struct, frozen=True):
    """A skill or a command, and where it was read: a path without links.

    `key` is the path in the repository by which it is trusted, empty for the user's own; `digest`
    is the SHA-256 of its bytes.
    """

    prompt: Prompt
    path: Path
    root: Path | None
    key: str
    data: bytes

    @property
    def digest(self) -> str:
        """What is remembered of a trusted file."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def folder(self) -> Path:
        """Of a skill: where its other files are."""
        return self.path.parent


class RefusedFile(Struct, frozen=True):
    """A file that cannot be used: its path and the reason, both safe to show."""

    path: str
    reason: str


class FoundPrompts(Struct, frozen=True):
    """What was found, in the order in which the first of a name counts, and what was refused."""

    files: tuple[PromptFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()


def list_prompt_folders(here: Path, user_folder: Path, home: Path | None) -> list[PromptFolder]:
    """The folders that are looked into, the one that counts first first.

    The repository's come before the user's, and of those of a repository the nearest to the
    working folder. A folder of the user's that lies in the working folder may have been written by
    an agent there, so that it counts as the repository's.

    Args:
        here: the working folder.
        user_folder: where the user's settings are.
        home: the user's home folder; `None` if nobody knows it.
    """
    here = here.resolve()
    root = find_repository_root(here)
    folders = [
        PromptFolder("command", root / COMMANDS_FOLDER, root),
        *(PromptFolder("skill", one / SKILLS_FOLDER, root) for one in list_folders_up(root, here)),
        PromptFolder("command", user_folder / "commands"),
        PromptFolder("skill", user_folder / "skills"),
    ]
    if home is not None:
        own = home / SKILLS_FOLDER
        is_inside = root in Path(os.path.realpath(own)).parents
        folders.append(PromptFolder("skill", own, root if is_inside else None))
    return folders


def find_prompts(
    folders: Sequence[PromptFolder], hides: Callable[[Path], bool] = lambda path: False
) -> FoundPrompts:
    """All skills and commands of some folders. Never fails.

    Args:
        folders: where to look.
        hides: whether a path is hidden from tools; no link is followed there.
    """
    files: dict[Path, PromptFile] = {}
    refused: list[RefusedFile] = []
    room = FRONT_MATTERS_SIZE_MAX
    for place in folders:
        for path in _list_candidates(place, refused):
            try:
                real, data = _read_candidate(place, path, hides)
                if place.root is not None:
                    room -= measure_front_matter(data)
                    if room < 0:
                        size_max = FRONT_MATTERS_SIZE_MAX
                        raise ValueError(
                            f"the repository has over {size_max} bytes of front matter"
                        )
                files.setdefault(real, _parse_candidate(place, path, real, data))
            except (OSError, ValueError) as error:
                refused.append(_refuse(path, error))
    return FoundPrompts(tuple(files.values()), tuple(refused))


def _list_candidates(place: PromptFolder, refused: list[RefusedFile]) -> Iterator[Path]:
    """The files that may be skills or commands, by name."""
    try:
        folder = resolve_within(place.folder, place.root)
        names = sorted(os.listdir(folder))  # noqa: PTH208  names, of which many may be others
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        refused.append(_refuse(place.folder, error))
        return
    if place.kind == "skill":
        paths = [folder / name / SKILL_FILE for name in names if not name.startswith(".")]
        paths = [path for path in paths if os.path.lexists(path)]
    else:
        paths = [folder / name for name in names if name.endswith(COMMAND_SUFFIX)]
    if len(paths) > ENTRY_COUNT_MAX:
        reason = f"of its {len(paths)} {place.kind}s the first {ENTRY_COUNT_MAX} are used"
        refused.append(_refuse(place.folder, ValueError(reason)))
    yield from paths[:ENTRY_COUNT_MAX]


def _read_candidate(
    place: PromptFolder, path: Path, hides: Callable[[Path], bool]
) -> tuple[Path, bytes]:
    """Where it is without links, and what it holds."""
    real = resolve_within(path, place.root)
    # Where the user keeps skills is hidden itself, as their settings are: links alone lead astray.
    if real != path and hides(real):
        raise ValueError("it is a link to what is hidden from tools")
    data, is_cut = read_within(real, place.root, FILE_SIZE_MAX)
    if is_cut:
        raise ValueError(f"it has more than {FILE_SIZE_MAX} bytes")
    return real, data


def _parse_candidate(place: PromptFolder, path: Path, real: Path, data: bytes) -> PromptFile:
    name = path.parent.name if place.kind == "skill" else path.stem
    prompt = _parse(place.kind, data, name)
    key = "" if place.root is None else str(real.relative_to(place.root))
    return PromptFile(prompt, real, place.root, key, data)


@lru_cache(maxsize=2 * ENTRY_COUNT_MAX)
def _parse(kind: PromptKind, data: bytes, name: str) -> Prompt:
    """Of the same bytes once: a session looks several times."""
    return parse_skill(data, name) if kind == "skill" else parse_command(data, name)


def _refuse(path: Path, error: OSError | ValueError) -> RefusedFile:
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return RefusedFile(sanitize_text(str(path)), sanitize_text(reason))
