"""What is hidden from tools stays so, whatever the workspace, the tool and the name of the path."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tools.definitions import list_path_tools
from treadle.core.messages import ToolCall
from treadle.core.tools import Outcome, ToolExecutionOutcome
from treadle.platform.open_beneath import OpenBeneath, open_beneath, open_by_walk
from treadle.sandbox.box import Sandbox
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.path_rules import CREDENTIALS_OF_HOME, HISTORIES_OF_HOME
from treadle.sandbox.policy import Level, Policy
from treadle.tool_failure import ToolFailure
from treadle.tools.builtin import OWN_TOOLS
from treadle.tools.paths import Root
from treadle.tools.registry import Registry

CANARY: Final = "canary-2c61"
FILES: Final = (
    *(".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".docker/config.json"),
    *(".bash_history", ".local/share/fish/fish_history", ".claude/projects/x/session.jsonl"),
    *("snap/firefox/common/.mozilla/firefox/x/logins.json", ".var/app/org.x.Y/config/z"),
    *(".local/share/atuin/history.db", ".config/zsh/.zsh_history", ".bash_history-01234.tmp"),
    *(".pulumi/credentials.json", ".oci/config", ".local/share/com.vercel.cli/auth.json"),
    *(".vault-token", ".gradle/gradle.properties", ".mozilla/firefox/x/logins.json"),
)
OWN: Final = ("own/config/config.toml", "own/data/threads/T.jsonl")


TRIED: Final[dict[str, dict[str, object]]] = {
    "read_file": {},
    "search_files": {"pattern": "."},
    "edit_file": {"edits": [{"old_str": CANARY, "new_str": "x"}]},
    "write_file": {"content": "x"},
    "apply_patch": {"patch": "*** Delete File: {path}"},
}
"""The tools that take the path of a file, and their other arguments."""

TRIED_WITH_FOLDERS: Final = "list_files"


def test_every_tool_that_takes_a_path_is_tried_and_stands_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
    section = page.partition("## What no tool sees\n")[2].partition("\n## ")[0]
    missing = [name for name in list_path_tools() if name not in (*TRIED, TRIED_WITH_FOLDERS)]
    assert missing == [], f"{missing} take a path: give each a row in TRIED of this file"
    missing = [name for name in list_path_tools() if f"`{name}`" not in section]
    assert missing == [], f"{missing}: name them in docs/sandbox.md, What no tool sees"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "people" / "ada"
    for name in (*FILES, *OWN):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"{CANARY}\n")
    (made / "project").mkdir()
    (made / "project" / "notes.txt").write_text("nothing secret\n")
    (made / ".config" / "black").write_text("plain\n")
    monkeypatch.setenv("HOME", str(made))
    return made


def box(workspace: Path, home: Path, level: Level = Level.OFF, **policy: object) -> Sandbox:
    hidden = tuple(str(home / "own" / name) for name in ("data", "state", "config"))
    settings: dict[str, object] = {"level": level, "hidden": hidden, **policy}
    return Sandbox(Policy(**settings), workspace)  # type: ignore[arg-type]


async def execute(tools: Registry, tool: str, **arguments: object) -> Outcome:
    if "patch" in arguments:
        lines = str(arguments["patch"]).format(path=arguments["path"])
        arguments = {"input": f"*** Begin Patch\n{lines}\n*** End Patch"}
    call = ToolCall("c", tool, json.dumps(arguments))
    return await tools.execute(call, key="c", progress=lambda report: None)


def text_of(outcome: Outcome) -> str:
    if isinstance(outcome, ToolExecutionOutcome.Success):
        return outcome.output
    return f"{outcome.error.text} {outcome.error.output}"


def names_of(path: Path, workspace: Path, home: Path) -> Iterator[str]:
    """What one may call a file of the home by in a workspace that holds it."""
    name = os.path.relpath(path, workspace)
    top, _, rest = str(path.relative_to(home)).partition("/")
    yield from (name, str(path), f"./{name}", f"{Path(name).parent}//{path.name}")
    yield f"{os.path.relpath(home, workspace)}/project/../{path.relative_to(home)}"
    for link, target in (("to_file", path), ("to_folder", home / top), ("to_home", home)):
        if not (workspace / link).is_symlink():
            (workspace / link).symlink_to(os.path.relpath(target, workspace))
    if (workspace / "to_file").samefile(path):
        yield "to_file"
    if rest and (workspace / "to_folder").samefile(home / top):
        yield f"to_folder/{rest}"
    yield f"to_home/{path.relative_to(home)}"
    hard = workspace / f"hard_{path.name}_{abs(hash(path))}"
    if not hard.exists():
        os.link(path, hard)
    yield hard.name


@pytest.mark.parametrize("above", [0, 1], ids=["home", "parent of the home"])
async def test_no_file_tool_reads_or_changes_what_is_hidden_by_any_name(
    home: Path, above: int
) -> None:
    workspace = home if not above else home.parent
    tools = Registry(OWN_TOOLS, workspace=workspace, sandbox=box(workspace, home))
    wrong = []
    for hidden in (*FILES, *OWN):
        for name in names_of(home / hidden, workspace, home):
            for tool, more in TRIED.items():
                if tool == "write_file" and name.startswith("hard_"):
                    continue  # it makes a new file of this name: the other one keeps its content
                outcome = await execute(tools, tool, path=name, **more)
                said = text_of(outcome)
                hint = "Treadle keeps" if hidden in OWN else "sandbox_readable"
                if isinstance(outcome, ToolExecutionOutcome.Success) or hint not in said:
                    wrong.append((tool, name, said))
                if CANARY in said or (home / hidden).read_text() != f"{CANARY}\n":
                    wrong.append((tool, name, "the secret"))
    assert wrong == []


@pytest.mark.parametrize("above", [0, 1], ids=["home", "parent of the home"])
async def test_lists_and_searches_leave_out_what_is_hidden_and_nothing_else(
    home: Path, above: int
) -> None:
    workspace = home if not above else home.parent
    prefix = "" if not above else f"{home.name}/"
    for _ in names_of(home / FILES[0], workspace, home):
        pass  # makes the links
    tools = Registry(OWN_TOOLS, workspace=workspace, sandbox=box(workspace, home))
    listed = text_of(await execute(tools, "list_files")).splitlines()
    assert [name for name in listed if name.removeprefix(prefix) in (*FILES, *OWN)] == []
    assert {f"{prefix}project/notes.txt", f"{prefix}.config/black"} <= {*listed}
    for pattern in (CANARY, "."):
        assert CANARY not in text_of(await execute(tools, "search_files", pattern=pattern))
    for folder in (".ssh", "to_folder", "own/data", ".config/gh"):
        place = folder if folder == "to_folder" else prefix + folder
        said = text_of(await execute(tools, TRIED_WITH_FOLDERS, path=place))
        assert "is hidden from tools" in said


async def test_what_is_hidden_is_not_made_where_it_is_missing(home: Path) -> None:
    tools = Registry(OWN_TOOLS, workspace=home, sandbox=box(home, home))
    for name in (".gnupg/gpg.conf", ".kube/config", ".zsh_history", "own/state/x", ".PGPASS"):
        said = text_of(await execute(tools, "write_file", path=name, content="x"))
        assert "is hidden from tools" in said, name
        assert not (home / name).exists()
    assert not (home / ".gnupg").exists()
    made = await execute(tools, "write_file", path=".config/new/x", content="x")
    assert isinstance(made, ToolExecutionOutcome.Success)


@pytest.mark.parametrize("opener", [open_beneath, open_by_walk])
def test_a_folder_that_becomes_a_link_is_followed_to_what_is_hidden(
    home: Path, opener: OpenBeneath
) -> None:
    (home / ".ssh").rename(home / "keys")
    (home / ".ssh").symlink_to("keys")
    root = Root(home, opener=opener, rules=box(home, home).rules)
    with pytest.raises(ToolFailure, match="hidden from tools"):
        root.open_file("keys/id_rsa")


async def test_a_person_lets_tools_see_a_place_by_naming_it(home: Path) -> None:
    seen = ("~/.docker", f"{home}/.config", "~")
    tools = Registry(OWN_TOOLS, workspace=home, sandbox=box(home, home, readable=seen))
    wrong = [
        name
        for name in (*FILES, *OWN)
        if (CANARY in text_of(await execute(tools, "read_file", path=name)))
        != name.startswith((".docker", ".config"))
    ]
    assert wrong == []


def test_what_is_written_where_a_home_is_in_the_workspace_is_asked_about(
    home: Path, tmp_path: Path
) -> None:
    """In a folder of its own a project is changed as ever; a hidden file is never asked about."""
    (tmp_path / "with_own").mkdir()
    cases: list[tuple[Path, Sandbox, bool]] = [
        (home, box(home, home), True),
        (home.parent, box(home.parent, home), True),
        (home / "own", box(home / "own", home), True),
        (home / "project", box(home / "project", home), False),
    ]
    for workspace, sandbox, asks in cases:
        tools = Registry(OWN_TOOLS, workspace=workspace, sandbox=sandbox)
        call = ToolCall("c", "write_file", json.dumps({"path": "new.txt", "content": "x"}))
        scope = tools.scope_of(call)
        assert scope is not None
        assert (scope.must_ask, bool(scope.reasons)) == (asks, asks), workspace
    tools = Registry(OWN_TOOLS, workspace=home, sandbox=box(home, home))
    for path in (".ssh/authorized_keys", "own/config/config.toml"):
        call = ToolCall("c", "write_file", json.dumps({"path": path, "content": "x"}))
        scope = tools.scope_of(call)
        assert scope is not None
        assert "is hidden from tools" in scope.refused


@pytest.mark.parametrize("backend", [b for b in BACKENDS if find_backend((b,)).name])
async def test_commands_see_and_change_no_more_than_file_tools(home: Path, backend: str) -> None:
    (home / ".bashrc").write_text("true\n")
    (home / ".config" / "autostart").mkdir()
    hidden = tuple(str(home / "own" / name) for name in ("data", "state", "config"))
    policy = Policy(hidden=hidden, may_ask=False)
    sandbox = Sandbox(policy, home, backends=(backend,))
    tools = Registry(OWN_TOOLS, workspace=home, sandbox=sandbox)
    told = text_of(await execute(tools, "bash", command="cat " + " ".join((*FILES, *OWN))))
    assert CANARY not in told
    attack = (
        "echo evil >> .bashrc; echo evil > .config/autostart/x.desktop; mv .config c; echo evil > "
        "own/config/config.toml; rm -rf .ssh own; echo ok > project/out"
    )
    await execute(tools, "bash", command=attack)
    assert not (home / "project" / "out").exists()
    await execute(tools, "bash", command=attack, access="write")
    assert (home / ".bashrc").read_text() == "true\n"
    assert list((home / ".config" / "autostart").iterdir()) == []
    assert {(home / name).read_text() for name in (*FILES, *OWN)} == {f"{CANARY}\n"}
    # Without bubblewrap nothing in a workspace can be hidden: nothing runs there.
    assert (home / "project" / "out").exists() == (backend == "bubblewrap")


@pytest.mark.parametrize("backend", [b for b in BACKENDS if find_backend((b,)).name])
async def test_a_folder_besides_the_workspace_hides_the_same(home: Path, backend: str) -> None:
    (home / "own" / "plain").write_text("plain\n")
    hidden = tuple(str(home / "own" / name) for name in ("data", "state", "config"))
    names = " ".join(str(home / name) for name in (*FILES, *OWN, "own/plain"))
    for policy, is_seen in (
        (Policy(hidden=hidden, readable=(str(home / "own"),)), True),
        (Policy(hidden=hidden, writable=("~",), may_ask=False), backend == "bubblewrap"),
    ):
        sandbox = Sandbox(policy, home / "project", backends=(backend,))
        tools = Registry(OWN_TOOLS, workspace=home / "project", sandbox=sandbox)
        for access, is_told in (("read", True), ("write", is_seen)):
            call = {"command": f"cat {names}", "access": access}
            told = text_of(await execute(tools, "bash", **call))
            assert (CANARY in told, "plain\n" in told) == (False, is_told), policy


def test_the_table_names_each_place_once() -> None:
    names = (*CREDENTIALS_OF_HOME, *HISTORIES_OF_HOME)
    assert sorted(names) == sorted({*names})
    assert [name for name in names if name.startswith("/") or name.endswith("/")] == []


NAMED: Final = {
    "KUBECONFIG": "keys/kube-a",
    "PGPASSFILE": "keys/pgpass",
    "NETRC": "keys/netrc",
    "AWS_SHARED_CREDENTIALS_FILE": "keys/aws",
    "GOOGLE_APPLICATION_CREDENTIALS": "keys/google.json",
    "HISTFILE": "keys/history",
    "PYTHON_HISTORY": "keys/python",
    "ZDOTDIR": "keys/.zsh_history",
}


@pytest.mark.parametrize("is_inside", [True, *([False] if os.access("/opt", os.W_OK) else [])])
@pytest.mark.parametrize("backend", [b for b in BACKENDS if find_backend((b,)).name])
async def test_what_variables_name_is_hidden_wherever_it_lies(
    home: Path, backend: str, is_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = home / "project"
    names = " ".join((*NAMED.values(), "keys/kube-b", "keys/plain"))
    with TemporaryDirectory(dir="/opt") as beside:  # a folder of the system, which commands see
        top = workspace if is_inside else Path(beside)
        (top / "keys").mkdir()
        for variable, name in NAMED.items():
            (top / name).write_text(f"{CANARY} {variable}\n")
            monkeypatch.setenv(variable, str(top / name))
        monkeypatch.setenv("ZDOTDIR", str(top / "keys"))
        (top / "keys/kube-b").write_text(f"{CANARY} second\n")
        monkeypatch.setenv("KUBECONFIG", f"{top}/keys/kube-a:{top}/keys/kube-b")
        monkeypatch.setenv("LESSHISTFILE", "/dev/null")
        (top / "keys/plain").write_text("plain\n")
        for readable, is_seen in (((), False), ((str(top / "keys"),), True)):
            sandbox = Sandbox(
                Policy(readable=readable, may_ask=False), workspace, backends=(backend,)
            )
            tools = Registry(OWN_TOOLS, workspace=workspace, sandbox=sandbox)
            for access in ("read", "write"):
                call = {"command": f"cd {top}; cat {names}", "access": access}
                told = text_of(await execute(tools, "bash", **call))
                is_refused = (
                    is_inside and not is_seen and (access, backend) == ("write", "landlock")
                )
                assert (CANARY in told, "plain\n" in told) == (is_seen, not is_refused), told
            if is_inside:
                read = [await execute(tools, "read_file", path=name) for name in NAMED.values()]
                assert {CANARY in text_of(one) for one in read} == {is_seen}
