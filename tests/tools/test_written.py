"""What a yes to writing a file covers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from treadle.app.sessions.approval_modes import make_approval
from treadle.core.approval import Scope
from treadle.core.config import AgentConfig
from treadle.core.messages import ToolCall
from treadle.core.tools import RewrittenFile, RiskLevel, ToolExecutionOutcome
from treadle.risk.run_files import BY_THEMSELVES, ON_COMMAND
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Level, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.files import EDIT_SIZE_MAX, overwrite
from treadle.tools.paths import Root
from treadle.tools.registry import Registry


def asked(path: str, tool: str = "write_file") -> ToolCall:
    edits = [{"old_str": "a", "new_str": "b"}]
    rest = {"content": "x"} if tool == "write_file" else {"edits": edits}
    return ToolCall("a", tool, json.dumps({"path": path, **rest}))


def scope(folder: Path, path: str, tool: str = "write_file") -> Scope:
    found = Registry(builtin_tools(), workspace=folder).scope_of(asked(path, tool))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.py", "a.py"),
        ("src/a.py", "src/"),
        ("./src/../src/deep/a.py", "src/deep/"),
        ("link/a.py", "src/"),
    ],
)
def test_the_kind_of_a_file_is_its_folder_where_it_really_is(
    folder: Path, path: str, kind: str
) -> None:
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "link").symlink_to("src")
    assert scope(folder, path).kinds == (kind,)


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_a_yes_is_bound_to_the_file_as_it_is(folder: Path, tool: str) -> None:
    seen = [scope(folder, "a", tool).content]
    for text in ("one", "two", ""):
        (folder / "a").write_text(text)
        seen.append(scope(folder, "a", tool).content)
    assert len(set(seen)) == 4
    (folder / "a").unlink()
    assert scope(folder, "a", tool).content == seen[0]


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
@pytest.mark.parametrize("path", ["src/a.py", "./src/../src/a.py", "link/a.py"])
async def test_a_call_says_of_the_file_it_wrote_what_its_scope_said_before_and_says_now(
    folder: Path, path: str, tool: str
) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a.py").write_text("a")
    (folder / "link").symlink_to("src")
    before = scope(folder, path, tool)
    registry = Registry(builtin_tools(), workspace=folder)
    outcome = await registry.execute(asked(path, tool), key="k", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Success)
    after = scope(folder, path, tool)
    assert before.file == after.file == "src/a.py"
    assert outcome.rewritten == (RewrittenFile("src/a.py", before.content, after.content),)
    assert before.content != after.content


def test_what_is_too_large_to_be_edited_is_told_as_its_scope_tells_it(folder: Path) -> None:
    (folder / "a").write_bytes(bytes(EDIT_SIZE_MAX + 1))
    before = scope(folder, "a").content
    root = Root(folder)
    assert overwrite(root, "a", b"x").before == before
    first = overwrite(root, "a", bytes(EDIT_SIZE_MAX + 1))
    assert first.after == scope(folder, "a").content
    second = overwrite(root, "a", bytes(EDIT_SIZE_MAX + 1))
    assert second.before == first.after
    assert second.after != first.after


def test_a_yes_is_bound_to_the_workspace(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert scope(folder, "a").ground != scope(tmp_path / "other", "a").ground
    assert scope(folder, "a").ground == scope(folder, "src/b").ground


@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", ".treadle/settings.toml"),
        *(".githooks/x", ".husky/pre-push", ".vscode/tasks.json", ".idea/x.xml", ".envrc"),
        *("home/.bashrc", ".profile", ".git"),
    ],
)
def test_what_other_programs_run_is_of_high_risk_and_has_no_kind(folder: Path, path: str) -> None:
    registry = Registry(builtin_tools(), workspace=folder)
    assert registry.risk_of(asked(path)) is RiskLevel.HIGH
    found = scope(folder, path)
    assert found.kinds == ()
    assert "programs run what is in" in found.reasons[0]


def test_what_git_would_read_is_asked_about_in_every_mode(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = folder / "ws"
    for name, value in {
        "GIT_CONFIG_GLOBAL": f"{ws}/link",
        "GIT_CONFIG_SYSTEM": f"{ws}/system",
        "GIT_TEMPLATE_DIR": f"{ws}/template",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "include.path",
        "GIT_CONFIG_VALUE_0": f"{ws}/included",
        "GIT_CONFIG_KEY_1": "core.hooksPath",
        "GIT_CONFIG_VALUE_1": f"{ws}/hooks",
    }.items():
        monkeypatch.setenv(name, value)
    (ws / "sub").mkdir(parents=True)
    (ws / "link").symlink_to("conf/mine")
    for where in (folder, ws, ws / "sub"):
        subprocess.run(["git", "init", "-q", where], check=True)
    for where, key, value in (
        (folder, "include.path", "../ws/from-above"),
        (ws, "include.path", "../one"),
        (ws, "core.hooksPath", "dev/_"),
        (ws / "sub", "core.hooksPath", "dev"),
    ):
        subprocess.run(["git", "config", "--local", key, value], cwd=where, check=True)
    (ws / "one").write_text("[include]\n\tpath = two\n")
    asks = [
        *("conf/mine", "link", "system", "template/config", "template/hooks/pre-commit"),
        *("included", "hooks/x", "hooks/deep/x", "from-above", "one", "two", "dev/x", "sub/dev/x"),
    ]
    plain = [
        *("conf/x", "sub/system", "dev.py", "sub/one", "config", "hooks.py"),
    ]
    registry, wrong = Registry(builtin_tools(), workspace=ws), []
    config = AgentConfig(tools=registry.definitions(), approval=make_approval("auto").policy)

    def is_asked(path: str) -> bool:
        call = asked(path)
        found = registry.scope_of(call)
        return config.make_question(call, registry.risk_of(call), found) is not None

    wrong += [path for path in (*asks, *plain) if is_asked(path) is (path in plain)]
    assert wrong == []
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "own/mine")
    names = ("own/mine", "sub/own/mine", "mine", "own/x")
    assert [is_asked(name) for name in names] == [True, True, False, False]


ASKED: Final = {
    "a login": ".bashrc .bashrc.d/x .config/zsh/.zshrc .oh-my-zsh/x .config/nushell/x"
    " .xmonad/xmonad.hs .config/autostart/x.desktop .xinitrc Library/LaunchAgents/x.plist",
    "agents": "AGENTS.md AGENT.md QWEN.md CRUSH.md .rules .agents/x .augment/rules/x.md",
    "servers of agents": ".claude/settings.json .mcp.json crush.json .crush.json .qwen/x.json"
    " .kilocode/mcp.json .factory/mcp.json .trae/mcp.json opencode.json .gemini/settings.json",
    "editors": ".vscode/tasks.json .idea/workspace.xml x.code-workspace .nova/x",
    "vim": ".exrc _exrc .vimrc _vimrc .gvimrc .nvimrc .nvim.lua .lvimrc .config/helix/x",
    "emacs": ".dir-locals.el .dir-locals-2.el .config/emacs/init.el",
    "containers": ".devcontainer/devcontainer.json .devcontainer.json .gitpod.yml devfile.yaml",
    "git": ".git/config .gitmodules .gitconfig .husky/pre-commit",
    "other systems": ".hg/hgrc .hgrc .config/hg/hgrc .jj/repo/config.toml .svn/wc.db",
    "hooks": "lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.toml"
    " lefthook-local.yml lefthook-local.yaml lefthook-local.toml .lefthook-local.yml"
    " .config/lefthook.yml .config/lefthook-local.toml .lefthook/pre-commit/x.sh prek.toml hk.pkl"
    " .pre-commit-config.yaml .pre-commit-config.yml .lintstagedrc.mjs .simple-git-hooks.json",
    "shells": ".envrc .envrc.local mise.toml .mise.toml mise.local.toml .mise.local.toml"
    " mise.production.local.toml .config/mise.local.toml .config/mise/config.toml .mise/config.toml"
    " mise/config.toml .shadowenv.d/x.lisp .rvmrc .autoenv",
    "servers": ".github/workflows/x.yml .gitlab-ci.yml buildspec.yml .cirrus.yml .tekton/x.yaml"
    " netlify.toml Jenkinsfile .builds/x.yml",
    "cargo": ".cargo/config.toml .cargo/config rust-toolchain rust-toolchain.toml",
    "package managers": ".npmrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs pnpm-workspace.yaml uv.toml"
    " .bazelrc NuGet.Config .mvn/maven.config gradle/wrapper/gradle-wrapper.properties",
    "python": "x.pth sitecustomize.py usercustomize.py",
    "path": ".venv/bin/python venv/bin/git node_modules/.bin/x .local/bin/git",
    "programs": ".Rprofile .Renviron .wezterm.lua .iex.exs .ghci .gdbinit .psqlrc .tmux.conf"
    " .ansible.cfg ansible.cfg .config/kitty/kitty.conf .mongorc.js .ocamlinit",
}
"""By hand, beside the table: who takes a row away, or writes it wrong, is told here."""


def test_what_runs_by_itself_is_asked_about(folder: Path) -> None:
    registry = Registry(builtin_tools(), workspace=folder)
    paths = [path for names in ASKED.values() for path in names.split()]
    missed = [
        path
        for name in paths
        for path in (name, f"sub/{name}")
        if registry.risk_of(asked(path)) is not RiskLevel.HIGH
    ]
    assert missed == []


def test_each_file_of_the_table_is_asked_about_or_not_as_it_says_and_the_page_lists_it(
    folder: Path,
) -> None:
    registry, wrong = Registry(builtin_tools(), workspace=folder), []
    page = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text(encoding="utf-8")
    auto_edit = make_approval("auto-edit").policy
    for row, is_asked in [*((r, True) for r in BY_THEMSELVES), *((r, False) for r in ON_COMMAND)]:
        for name in row.names:
            made = name.replace("*", "some") + "x" * name.endswith("/")
            for path in (made, f"deep/er/{made}", made.upper()):
                if not is_asked and path == made.upper():
                    continue
                call = asked(path)
                risk, found = registry.risk_of(call), registry.scope_of(call)
                assert found is not None
                config = AgentConfig(tools=registry.definitions(), approval=auto_edit)
                has_question = config.make_question(call, risk, found) is not None
                if has_question != is_asked or bool(found.kinds) == is_asked:
                    wrong.append(path)
        line = f"| {', '.join(f'`{name}`' for name in row.names)} | {row.why} |"
        if line not in page:
            wrong.append(line)
    assert wrong == []
    listed = page.partition("## Files that other programs run")[2].partition("\n## ")[0]
    count = len(BY_THEMSELVES) + len(ON_COMMAND)
    assert listed.count("\n| `") == count, "the page lists more than the table"


@pytest.mark.parametrize("path", ["Makefile", "git/x", ".gitignore", ".github/x", "bashrc", "a.py"])
def test_other_files_are_of_the_risk_of_their_tool(folder: Path, path: str) -> None:
    registry = Registry(builtin_tools(), workspace=folder)
    assert registry.risk_of(asked(path)) is None
    assert scope(folder, path).reasons == ()


def test_a_link_to_what_other_programs_run_must_be_asked_about(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "innocent").symlink_to(".git")
    found = scope(folder, "innocent/hooks")
    assert (found.kinds, found.must_ask) == ((), True)
    assert any("leads to" in why for why in found.reasons)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "out/x"])
def test_a_call_whose_path_leads_outside_is_like_no_other_because_it_fails_by_itself(
    folder: Path, path: str
) -> None:
    (folder / "out").symlink_to("/etc")
    scope = Registry(builtin_tools(), workspace=folder).scope_of(asked(path))
    assert scope == Scope(reasons=("it does not fit its tool, which will refuse it",))


def test_a_yes_to_a_command_is_bound_to_folder_environment_and_sandbox(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "src").mkdir()
    policy, closed = Policy(), Policy(Level.READ_ONLY)

    def ground(where: Path, sandbox: Policy | None, **rest: object) -> str:
        box = None if sandbox is None else Sandbox(sandbox, where)
        registry = Registry(builtin_tools(), workspace=where, sandbox=box)
        arguments = json.dumps({"command": "ls", "access": "write", **rest})
        scope = registry.scope_of(ToolCall("a", "bash", arguments))
        assert scope is not None
        return scope.ground

    seen = [
        *(ground(folder, None), ground(folder, None, cwd="src"), ground(tmp_path, None)),
        *(ground(folder, policy), ground(folder, policy, cwd="src"), ground(tmp_path, policy)),
        *(ground(folder, closed), ground(folder, policy, network=True)),
    ]
    assert ground(folder, policy) == seen[3]
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/opt/bin")
    seen += [ground(folder, None), ground(folder, policy)]
    assert len(set(seen)) == len(seen)
