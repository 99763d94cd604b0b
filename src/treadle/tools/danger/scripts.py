"""Which files a command runs that stand in the workspace, as far as its words say. Pure.

A grant for `bash x.sh` is for what the person has looked at: not for whatever the file holds when
the agent has written it again. So the kind of such a command says which content it is for. What
runs the project by a name of its own (`make test`, `npm run build`, `pytest`) has no such file: a
grant for it is for the project, however it changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from shlex import quote
from typing import Final

from treadle.tools.danger.calls import has_option, name_of
from treadle.tools.danger.code import INTERPRETERS
from treadle.tools.danger.places import candidates
from treadle.tools.danger.split import Simple
from treadle.tools.danger.wrappers import SHELLS

_FILTERS: Final = frozenset({"sed", "awk", "gawk", "mawk"})
"""Their operands are data, and a file of theirs is a program only behind an option."""
_RUNNERS: Final = (
    (SHELLS | INTERPRETERS | {"source", "."}) - _FILTERS - {"make"}
    | {"uv", "poetry", "pipenv", "hatch", "pdm", "rye", "bundle", "npx", "bunx", "pnpx", "pnpm"}
    | {"go", "java", "dotnet"}
)


def files_run(simple: Simple, kind: str) -> tuple[str, ...]:
    """The paths in a command that may be of files it runs; more rather than fewer.

    Of a kind that stands for any arguments (`uv run pytest`) only the program counts.

    A program that is named by a path, and all that could be a path or a module in what an
    interpreter is given.
    """
    texts = tuple(word.text for word in simple.words)
    found = [texts[0]] if texts and "/" in texts[0] else []
    names = {name_of(text) for text in texts}
    if not " ".join(map(quote, texts)).endswith(kind):
        return tuple(found)
    if names & _RUNNERS or (names & _FILTERS and has_option(texts, "-f", "--file")):
        found += [path for text in texts[1:] for path in candidates(text)]
    if names & {"python", "pypy"}:
        modules = [text.replace(".", "/") for text in texts]
        found += [f"{module}.py" for module in modules]
        found += [f"{path}/__main__.py" for path in (*modules, *found)]
    return tuple(dict.fromkeys(found))


def folders_of(commands: Iterable[Simple]) -> tuple[str, ...]:
    """The folders in which commands that follow each other may run, relative to the first one."""
    found = ["."]
    for simple in commands:
        texts = tuple(word.text for word in simple.words)
        if len(texts) == 2 and texts[0] in ("cd", "pushd"):
            found.append(posixpath.normpath(posixpath.join(found[-1], texts[1])))
    return tuple(dict.fromkeys(found))
