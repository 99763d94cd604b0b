"""What rounds of an agent cost in tokens: `python -m bench.rounds`.

Five small packages that stand in the development environment are each a repository with a bug put
in. A scripted model finds and mends it with the tools of its family, as models do: it lists, runs
the failing check, searches, reads, edits, runs the check again, and looks at what came of it. The
tokens of each request are guessed, by four characters each. The same is done with results cut at
10 kB and 30 kB, as other agents cut them. The check decides whether the bug is gone.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from treadle.core.budget import estimate_tokens

CAPS: Final = {"as it is": 0, "10 kB": 10_000, "30 kB": 30_000}
"""Characters of a result that a request keeps; 0 changes nothing."""
_RUN: Final = (
    "import sys; from treadle.runtime import calls; cap = int(sys.argv.pop(1)); "
    "calls.OUTPUT_LENGTH_MAX = cap or calls.OUTPUT_LENGTH_MAX; "
    "calls.cut_middle.__defaults__ = ('', calls.OUTPUT_LENGTH_MAX); "
    "from treadle.cli.main import main; sys.exit(main())"
)


@dataclass(frozen=True)
class Bug:
    """A package, the text in one of its files that is right, what it becomes, and a check."""

    package: str
    file: str
    right: str
    wrong: str
    check: str
    word: str
    """What one would search for."""


BUGS: Final = (
    Bug(
        "iniconfig",
        "_parse.py",
        'line.split("=", 1)',
        'line.split("=")',
        "from iniconfig import IniConfig; "
        "assert IniConfig('x', data='[a]\\nk = b=c\\n')['a']['k'] == 'b=c'",
        "split",
    ),
    Bug(
        "h11",
        "_headers.py",
        "found_raw_value = found_raw_value.lower()",
        "found_raw_value = bytes(found_raw_value)",
        "from h11._headers import Headers, get_comma_header as g; "
        "h = Headers([(b'connection', b'connection', b'Close, Upgrade')]); "
        "assert g(h, b'connection') == [b'close', b'upgrade'], g(h, b'connection')",
        "get_comma_header",
    ),
    Bug(
        "packaging",
        "utils.py",
        'while "--" in value:',
        'if "---" in value:',
        "from packaging.utils import canonicalize_name as c; assert c('a._b') == 'a-b', c('a._b')",
        "canonicalize_name",
    ),
    Bug(
        "mdurl",
        "_encode.py",
        "code == 0x25 and i + 2 < l",
        "code == 0x25 and i + 3 < l",
        "import mdurl; assert mdurl.encode('a%20') == 'a%20', mdurl.encode('a%20')",
        "keep_escaped",
    ),
    Bug(
        "click",
        "formatting.py",
        "max(widths.get(idx, 0), term_len(col))",
        "min(widths.get(idx, 0), term_len(col))",
        "from click.formatting import measure_table as m; "
        "assert m([('a', 'bb'), ('ccc', 'd')]) == (3, 2), m([('a', 'bb'), ('ccc', 'd')])",
        "measure_table",
    ),
)

Call = tuple[str, dict[str, Any]]


def _script_calls(family: str, bug: Bug) -> list[Call]:
    """What the model calls, a call for each round, as its family has the tools."""
    path = f"{bug.package}/{bug.file}"
    check = f'python3 -c "{bug.check}"'
    files = f"sorted(pathlib.Path('{bug.package}').glob('*.py'))"
    everything = f'python3 -c "import pathlib; [print(f, f.read_text()) for f in {files}]"'
    own: dict[str, Call] = {
        "list": ("list_files", {"path": "."}),
        "check": ("bash", {"command": check}),
        "search": ("search_files", {"pattern": bug.word, "path": bug.package}),
        "read": ("read_file", {"path": path}),
        "edit": (
            "edit_file",
            {"path": path, "edits": [{"old_str": bug.wrong, "new_str": bug.right}]},
        ),
        "all": ("bash", {"command": everything}),
    }
    calls = own | SHAPES[family](bug, check, everything)
    return [calls[step] for step in ("list", "check", "search", "read", "edit", "check", "all")]


def _patch_of(bug: Bug, path: str) -> str:
    """The edit as a patch: the line that holds the bug, before and after."""
    line = next(
        one for one in _read(bug).replace(bug.right, bug.wrong).splitlines() if bug.wrong in one
    )
    return (
        f"*** Begin Patch\n*** Update File: {path}\n@@\n-{line}\n"
        f"+{line.replace(bug.wrong, bug.right)}\n*** End Patch"
    )


def _shape_openai(bug: Bug, check: str, everything: str) -> dict[str, Call]:
    return {
        "check": ("shell_command", {"command": check}),
        "edit": ("apply_patch", {"input": _patch_of(bug, f"{bug.package}/{bug.file}")}),
        "all": ("shell_command", {"command": everything}),
    }


def _shape_gemini(bug: Bug, check: str, everything: str) -> dict[str, Call]:
    path = f"{bug.package}/{bug.file}"
    edit = {"file_path": path, "old_string": bug.wrong, "new_string": bug.right}
    return {
        "list": ("list_directory", {"dir_path": "."}),
        "check": ("run_shell_command", {"command": check}),
        "search": ("grep_search", {"pattern": bug.word, "dir_path": bug.package}),
        "read": ("read_file", {"file_path": path}),
        "edit": ("replace", edit),
        "all": ("run_shell_command", {"command": everything}),
    }


SHAPES: Final = {
    "claude": lambda *_: dict[str, Call](),
    "openai": _shape_openai,
    "gemini": _shape_gemini,
}


def _folder_of(bug: Bug) -> Path:
    found = importlib.import_module(bug.package).__file__
    assert found is not None
    return Path(found).parent


def _read(bug: Bug) -> str:
    return (_folder_of(bug) / bug.file).read_text(encoding="utf-8")


def _make_repository(bug: Bug, place: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(_folder_of(bug), place / bug.package, ignore=ignored)
    file = place / bug.package / bug.file
    text = file.read_text(encoding="utf-8")
    assert text.count(bug.right) == 1, f"{bug.package} has changed: choose another bug"
    file.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "as it was"]):
        own = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
        subprocess.run([*own, *arguments], cwd=place, check=True)


def _write_script(calls: list[Call], place: Path) -> Path:
    replies = [
        "[[replies]]\n"
        f"when = {{ step = {step} }}\n"
        "[[replies.calls]]\n"
        f"tool = {json.dumps(tool)}\n"
        f"arguments_text = {json.dumps(json.dumps(given))}\n"
        for step, (tool, given) in enumerate(calls)
    ]
    replies.append(f'[[replies]]\nwhen = {{ step = {len(calls)} }}\ntext = "It is mended."\n')
    script = place / "script.toml"
    script.write_text("\n".join(replies), encoding="utf-8")
    return script


def measure(family: str, bug: Bug, cap: int) -> list[int]:
    """Tokens of each request of a run that mends the bug."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        repository, home = place / "repository", place / "home"
        repository.mkdir()
        _make_repository(bug, repository)
        model = f"scripted:{_write_script(_script_calls(family, bug), place)}"
        environment = {
            **os.environ,
            "TREADLE_HOME": str(home),
            "HOME": str(place),
            "PYTHONPATH": "",
        }
        words = ["-p", "mend it", "-m", model, "--approval-mode", "auto", "--no-commit"]
        subprocess.run(
            [sys.executable, "-c", _RUN, str(cap), *words],
            cwd=repository,
            env=environment,
            check=True,
            capture_output=True,
        )
        check = [sys.executable, "-c", bug.check]
        isolated = {**os.environ, "PYTHONPATH": str(repository)}
        subprocess.run(check, cwd=repository, env=isolated, check=True)
        [journal] = (home / "data" / "threads").glob("*.jsonl")
        return [*_list_tokens(journal.read_text(encoding="utf-8").splitlines())]


def _list_tokens(lines: list[str]) -> Iterator[int]:
    """Those of each request; a scripted model counts messages, so the tools are added."""
    offered = 0
    for line in lines:
        event: Mapping[str, Any] = json.loads(line)["event"]
        if event["type"] == "configured":
            told = [
                {name: one.get(name) for name in ("name", "description", "input_schema")}
                for one in event["config"]["tools"]
            ]
            offered = estimate_tokens(len(json.dumps(told)))
        elif event["type"] == "llm_completed":
            yield event["response"]["usage"]["input_tokens"] + offered


def main() -> None:
    """Measure each family, package and cap, and print what each round cost."""
    print(f"{'family':<8}{'package':<12}{'cap':<9}{'sum':>9}  tokens of each request")
    for family in SHAPES:
        for bug in BUGS:
            for name, cap in CAPS.items():
                tokens = measure(family, bug, cap)
                rounds = " ".join(f"{one:>7,}" for one in tokens)
                print(
                    f"{family:<8}{bug.package:<12}{name:<9}{sum(tokens):>9,}  {rounds}", flush=True
                )


if __name__ == "__main__":
    main()
