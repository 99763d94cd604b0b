"""Which files a command may run that stand in the workspace, as far as its words say. Pure.

A grant for `bash x.sh` is for what the person has looked at: not for whatever the file holds when
the agent has written it again. So the kind of such a command says which content it is for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Final

_ON_FILES: Final = re.compile(
    r"(?:rm|rmdir|mv|cp|mkdir|touch|ln|chmod|chown|truncate|tee|cd|pushd|pwd|ls|tree|du|df|stat|file"
    r"|cat|tac|head|tail|wc|sort|uniq|cut|paste|tr|nl|diff|cmp|comm|patch|grep|egrep|fgrep|echo|test"
    r"|true|false|:|basename|dirname|realpath|readlink|date|gzip|gunzip|zip|unzip|kill|sleep"
    r"|(?:md5|sha1|sha256|sha512)sum)(?: .*)?"
    r"|git (?!.* (?:-\w*[cx]|--(?:exec|up|rec|conf|tem|ext)))(?:push|pull|fetch|init|checkout"
    r"|switch|branch|tag|merge|rebase|cherry-pick|revert|reset|restore|stash|clean|rm|mv|remote"
    r"|add|commit|config|worktree)(?: .*)?"
    r"|g?sed(?: -[inrEsz]+| --in-place)*"
    r" (?:[\d,$]+[pd]|s([/|,#@])(?:\\.|(?!\1)[^\\])*+\1(?:\\.|(?!\1)[^\\])*+\1[gipIM\d]*)"
    r"(?: [^ -][^ ]*)*",
    re.DOTALL,
)
"""What these name is read or written, or is no file. All others may run it: there are too many."""
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ENDS: Final = (
    *("", ".py", "/__init__.py", "/__main__.py", ".js", ".cjs", ".mjs", ".ts", "/index.js"),
    *("/package.json", ".rb", ".pm", ".pl", ".lua", ".mk", ".sh"),
)
"""What interpreters add to a name to find the file."""
_FOLDER_OPTION: Final = re.compile(r"(?:-[ICD]|--(?:chdir|directory|cwd|prefix|project))=?")
_OPTION_FOLDER_COUNT_MAX: Final = 4


def name_of(program: str) -> str:
    """The name of a program without its folder."""
    return program.rpartition("/")[2]


def is_on_files(texts: tuple[str, ...]) -> bool:
    """Whether a command is one of a program that never runs what it names."""
    line = " ".join((texts[0], *(re.sub(r"\s", "\0", text) for text in texts[1:])))
    return _ON_FILES.fullmatch(line) is not None


def list_files(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The paths in a command that may be of files it runs; more rather than fewer.

    A program that is named by a path, and, if the program may run what it is given, all in its
    arguments that could be a path or a module.
    """
    found = [texts[0]] if "/" in texts[0] else []
    if not is_on_files(texts):
        for folder in _list_option_folders(texts):
            found += (posixpath.join(folder, path) for text in texts[1:] for path in paths_in(text))
    return tuple(dict.fromkeys(found))


def paths_in(text: str) -> Iterator[str]:
    """The files that may stand in an argument: `x`, `--opt=x`, `-fx`, `-m pkg.x`, `sh -c '. x'`."""
    if _URL.match(text):
        return
    for part in (text, text[2:], text[3:]) if text.startswith("-") else (text,):
        pieces = (part, part.replace("::", "/"), *re.split(r"[=:,{}@<>()\s\"';&|]+", part))
        for piece in filter(None, pieces):
            names = (piece,) if "/" in piece else (piece, piece.replace(".", "/"))
            yield from (f"{name}{end}" for name in names for end in _ENDS)


def _list_option_folders(texts: Iterable[str]) -> tuple[str, ...]:
    """Where the files may lie: in the folder itself, or where an option says (`-Ilib`)."""
    folders, is_next = [""], False
    for text in texts:
        option = _FOLDER_OPTION.match(text)
        if is_next:
            folders.append(text)
        elif option and option.end() < len(text):
            folders.append(text[option.end() :])
        is_next = option is not None and option.end() == len(text)
    return tuple(dict.fromkeys(folders))[:_OPTION_FOLDER_COUNT_MAX]
