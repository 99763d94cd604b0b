"""A yes to a command that runs a file is for that file as it was."""

from __future__ import annotations

import json
from pathlib import Path

from treadle.core.approval import AlwaysAsk, Scope
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.runtime.grants import make_kind_grants
from treadle.thread.grants import apply_grant_fact
from treadle.tools.builtin import builtin_tools
from treadle.tools.files import content_of
from treadle.tools.paths import Root
from treadle.tools.registry import Registry

WRAPPERS = (
    *("nohup", "nice", "nice -n 5", "setsid", "stdbuf -oL", "timeout 60", "timeout -k 5 60", "env"),
    *(
        "env -i",
        "strace -f",
        "ltrace",
        "ionice -c 3",
        "chrt 5",
        "time",
        "/usr/bin/time -v",
        "flock l",
    ),
    *("command", "exec", "xvfb-run", "taskset 1", "unbuffer", "chronic", "valgrind", "hyperfine"),
)
RUNS: tuple[tuple[str, str, str], ...] = (
    ("bash x.sh", ".", "x.sh"),
    ("bash -x x.sh --fast", ".", "x.sh"),
    ("sh ./x.sh", ".", "x.sh"),
    ("source x.sh", ".", "x.sh"),
    (". ./x.sh", ".", "x.sh"),
    ("./x.sh", ".", "x.sh"),
    ("bin/tool --check", ".", "bin/tool"),
    (".venv/bin/pytest -q", ".", ".venv/bin/pytest"),
    ("python x.py", ".", "x.py"),
    ("python3.11 -W ignore x.py", ".", "x.py"),
    ("python -m pkg.gen", ".", "pkg/gen.py"),
    ("python pkg", ".", "pkg/__main__.py"),
    ("node y.js", ".", "y.js"),
    ("awk -f x.awk data", ".", "x.awk"),
    ("uv run x.py", ".", "x.py"),
    ("timeout 60 bash x.sh", ".", "x.sh"),
    ("git status && bash x.sh", ".", "x.sh"),
    ("bash x.sh", "sub", "sub/x.sh"),
    ("cd sub && bash x.sh", ".", "sub/x.sh"),
    ("cd sub && cd deep && ./x.sh", ".", "sub/deep/x.sh"),
    ("bash link.sh", ".", "x.sh"),
)
"""A command, the folder it begins in, and the file that it runs."""
BY_OTHERS: tuple[tuple[str, str, str], ...] = (
    *((f"{wrapper} ./x.sh", ".", "x.sh") for wrapper in WRAPPERS),
    *((f"{wrapper} bash x.sh", ".", "x.sh") for wrapper in WRAPPERS),
    *((command, ".", "x.sh") for command in ("bats x.sh", "prove ./x.sh", "expect -f x.sh")),
    *((command, ".", "x.sh") for command in ("zx x.sh", "find . -exec ./x.sh {} +", "ts ./x.sh")),
    ("python -mpkg.gen", ".", "pkg/gen.py"),
    ("python -m pkg", ".", "pkg/__main__.py"),
    ("python -m pkg", ".", "pkg/__init__.py"),
    ("python -m unittest tests/test_x.py", ".", "tests/test_x.py"),
    ("python -m unittest tests.test_x", ".", "tests/test_x.py"),
    ("python -m cProfile x.py", ".", "x.py"),
    ("python -m doctest -v x.py", ".", "x.py"),
    ("coverage run x.py", ".", "x.py"),
    ("coverage run -m pkg", ".", "pkg/__main__.py"),
    ("python -m coverage run x.py", ".", "x.py"),
    ("gunicorn pkg.app:main", ".", "pkg/app.py"),
    ("flask --app x run", ".", "x.py"),
    ("node x", ".", "x.js"),
    ("node x", ".", "x/index.js"),
    ("mocha -r ./setup.js", ".", "setup.js"),
    ("mocha tests/x.js", ".", "tests/x.js"),
    ("tsx x.ts", ".", "x.ts"),
    ("bun run x.ts", ".", "x.ts"),
    ("ruby -r./x -e 1", ".", "x.rb"),
    ("ruby -r ./x -e 1", ".", "x.rb"),
    ("ruby -I lib -r x -e 1", ".", "lib/x.rb"),
    ("rspec spec/x_spec.rb", ".", "spec/x_spec.rb"),
    ("perl -I. -Mx -e 1", ".", "x.pm"),
    ("perl -Ilib -MFoo::Bar -e 1", ".", "lib/Foo/Bar.pm"),
    ("perl x.pl", ".", "x.pl"),
    ("lua -l x", ".", "x.lua"),
    ("awk -fx.awk data", ".", "x.awk"),
    ("gawk --file=x.awk data", ".", "x.awk"),
    ("sed -nf x.sed data", ".", "x.sed"),
    ("make -f x.mk build", ".", "x.mk"),
    ("make -fx.mk", ".", "x.mk"),
    ("make --makefile=x.mk", ".", "x.mk"),
    ("make --file x.mk", ".", "x.mk"),
    ("just -f x.just", ".", "x.just"),
    ("cmake -P x.cmake", ".", "x.cmake"),
    ("ant -f x.xml", ".", "x.xml"),
    ("java X.java", ".", "X.java"),
    ("go run x.go", ".", "x.go"),
    ("psql -f x.sql", ".", "x.sql"),
    ("gdb -x x.gdb", ".", "x.gdb"),
    ("gnuplot x.gp", ".", "x.gp"),
    ("ansible-playbook x.yml", ".", "x.yml"),
    ("docker compose -f x.yml up", ".", "x.yml"),
    ("php x.php", ".", "x.php"),
    ("deno run x.ts", ".", "x.ts"),
    ("npx tsx x.ts", ".", "x.ts"),
    ("xargs -a list ./x.sh", ".", "x.sh"),
    ("vim -S x.vim", ".", "x.vim"),
)
"""The same by other programs; for some of these commands no grant is offered."""
RUNS_BY_OTHERS = {command for command, _, _ in BY_OTHERS}
FOR_THE_PROJECT = (
    "make build",
    "npm run build",
    "pytest -q x.sh",
    "uv run pytest x.sh",
    "git status",
    "sed -n 1,5p x.sh",
)


def scope(registry: Registry, command: str, cwd: str) -> tuple[ToolCall, Scope]:
    call = ToolCall("c", "bash", json.dumps({"command": command, "cwd": cwd}))
    found = registry.scope_of(call)
    assert found is not None
    return call, found


def test_a_grant_holds_for_the_file_as_it_was_and_a_yes_too(folder: Path) -> None:
    registry, root, wrong = Registry(builtin_tools(), workspace=folder), Root(folder), []
    (folder / "link.sh").symlink_to("x.sh")
    for command, cwd, name in (*RUNS, *BY_OTHERS):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        config = AgentConfig(tools=registry.definitions(), approval=AlwaysAsk())
        for content in (None, "one"):  # allowed before there is a file, and with one
            if content is not None:
                file.write_text(content)
            call, first = scope(registry, command, cwd)
            question = config.make_question(call, RiskLevel.HIGH, first)
            assert question is not None
            if not first.kinds and command in RUNS_BY_OTHERS:
                continue  # no grant is offered
            granted = config
            for fact in make_kind_grants(question, first.kinds):
                granted = apply_grant_fact(granted, fact)
            for now, is_asked in ((content, False), ("two", True), ("one", content != "one")):
                if now is None:
                    file.unlink(missing_ok=True)
                else:
                    file.write_text(now)
                call, later = scope(registry, command, cwd)
                asked = granted.make_question(call, RiskLevel.HIGH, later) is not None
                if not first.kinds or asked != is_asked:
                    wrong.append((command, content, now, first.kinds, later.kinds))
                if later.binding == first.binding and now != content:
                    wrong.append((command, "bound", now))
        if first.kinds and (later.file, later.content) != (name, content_of(root, name)):
            wrong.append((command, later.file, later.content))
        file.unlink(missing_ok=True)
    assert not wrong, {one[0]: one for one in wrong}


def test_a_grant_for_the_project_is_for_it_however_it_changes(folder: Path) -> None:
    registry = Registry(builtin_tools(), workspace=folder)
    before = {command: scope(registry, command, ".")[1] for command in FOR_THE_PROJECT}
    for name in ("Makefile", "package.json", "conftest.py", "x.sh", "build"):
        (folder / name).write_text("changed")
    after = {command: scope(registry, command, ".")[1] for command in FOR_THE_PROJECT}
    assert before == after
    assert all(one.kinds for one in after.values())


def test_a_program_outside_to_which_a_link_leads_is_told_by_its_place(folder: Path) -> None:
    registry = Registry(builtin_tools(), workspace=folder)
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / "x.py").write_text("pass")
    kinds = []
    for target in ("/bin/sh", "/bin/cat"):
        (folder / ".venv/bin/python").unlink(missing_ok=True)
        (folder / ".venv/bin/python").symlink_to(target)
        found = scope(registry, ".venv/bin/python x.py", ".")[1]
        kinds.append(found.kinds)
        # What an earlier call of the round writes is followed for the script alone.
        assert found.file == "x.py"
    assert kinds[0] != kinds[1]
