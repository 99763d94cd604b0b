"""Which files a command runs that stand in the workspace, as far as its words say. Pure.

A grant for `bash x.sh` is for what the person has looked at: not for whatever the file holds when
the agent has written it again. So the kind of such a command says which content it is for. What
runs the project by a name of its own (`make test`, `npm run build`, `pytest`) has no such file: a
grant for it is for the project, however it changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Final

from treadle.risk.calls import has_option, name_of
from treadle.risk.code import INTERPRETERS
from treadle.risk.path_risks import candidates
from treadle.risk.split import Simple
from treadle.risk.wrappers import SHELLS

_FILTERS: Final = frozenset({"sed", "awk", "gawk", "mawk", "make", "gmake"})
"""Their operands are data or targets, and a file of theirs is a program only behind an option."""
_ON_DATA: Final = _FILTERS | frozenset(
    {
        *(
            "cp",
            "mv",
            "rm",
            "rmdir",
            "mkdir",
            "touch",
            "ln",
            "cat",
            "tac",
            "head",
            "tail",
            "less",
            "wc",
        )
    }
    | {
        *(
            "sort",
            "uniq",
            "cut",
            "paste",
            "tr",
            "nl",
            "fold",
            "fmt",
            "column",
            "comm",
            "join",
            "tree",
        )
    }
    | {*("diff", "cmp", "patch", "file", "stat", "du", "df", "ls", "grep", "egrep", "fgrep", "rg")}
    | {*("chmod", "chown", "basename", "dirname", "realpath", "readlink", "echo", "printf", "test")}
    | {*("[", "true", "false", ":", "cd", "pushd", "pwd", "date", "tee", "truncate", "split", "ag")}
    | {*("md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "od", "xxd", "hexdump", "strings")}
    | {
        *(
            "gzip",
            "gunzip",
            "zcat",
            "bzip2",
            "xz",
            "zstd",
            "zip",
            "unzip",
            "tar",
            "jq",
            "yq",
            "curl",
        )
    }
    | {*("wget", "rsync", "scp", "git", "gh", "npm", "yarn", "cargo")}
    | {*("ruff", "black", "isort", "mypy", "flake8", "prettier", "tsc", "gofmt", "rustfmt")}
    | {*("clang-format", "shellcheck", "shfmt")}
)
"""What they name is read or written, or is no file. All others may run it: there are too many."""
_RUNNERS: Final = (
    (SHELLS | INTERPRETERS | {"source", "."}) - _FILTERS
    | {"uv", "poetry", "pipenv", "hatch", "pdm", "rye", "bundle", "npx", "bunx", "pnpx", "pnpm"}
    | {"go", "java", "dotnet"}
)
"""They run what is named wherever they stand among the words."""
_ENDS: Final = (
    *("", ".py", "/__init__.py", "/__main__.py", ".js", ".cjs", ".mjs", ".ts", "/index.js"),
    *("/package.json", ".rb", ".pm", ".pl", ".lua", ".mk", ".sh"),
)
"""What interpreters add to a name to find the file."""
_FOLDER_COUNT_MAX: Final = 4


def files_run(simple: Simple, kind: str) -> tuple[str, ...]:
    """The paths in a command that may be of files it runs; more rather than fewer.

    Of a kind that stands for any arguments (`uv run pytest`) only the program counts.

    A program that is named by a path, and all that could be a path or a module in what a program
    is given that may run it.
    """
    texts = tuple(word.text for word in simple.words)
    found = [texts[0]] if texts and "/" in texts[0] else []
    if not " ".join(map(quote, texts)).endswith(kind):
        return tuple(found)
    names = {name_of(text) for text in texts}
    takes_file = names & _FILTERS and has_option(texts, "-f", "--file", "--makefile")
    if names & _RUNNERS or takes_file or name_of(texts[0]) not in _ON_DATA:
        for folder in _searched(texts):
            for text in texts[1:]:
                found += (
                    posixpath.join(folder, f"{name}{end}") for name in _named(text) for end in _ENDS
                )
    return tuple(dict.fromkeys(found))


def _searched(texts: Iterable[str]) -> tuple[str, ...]:
    """Where modules are looked for: the folder itself, and those of `-I`."""
    folders, is_next = [""], False
    for text in texts:
        if is_next:
            folders.append(text)
        elif text.startswith("-I") and len(text) > 2:
            folders.append(text[2:])
        is_next = text == "-I"
    return tuple(dict.fromkeys(folders))[:_FOLDER_COUNT_MAX]


def _named(text: str) -> Iterator[str]:
    """The paths and modules that may stand in an argument, also joined to a short option."""
    for part in (text, text[2:] if text.startswith("-") else ""):
        for path in filter(None, (*candidates(part), part.replace("::", "/"))):
            yield path
            if "/" not in path:
                yield path.replace(".", "/")


def folders_of(commands: Iterable[Simple]) -> tuple[str, ...]:
    """The folders in which commands that follow each other may run, relative to the first one."""
    found = ["."]
    for simple in commands:
        texts = tuple(word.text for word in simple.words)
        if len(texts) == 2 and texts[0] in ("cd", "pushd"):
            found.append(posixpath.normpath(posixpath.join(found[-1], texts[1])))
    return tuple(dict.fromkeys(found))
