"""Which files make other programs run something, and whether that takes a person's command. Pure.

Writing one that runs by itself is asked about like a command: whoever opens the folder, changes
into it, commits or logs in would run what the agent wrote, without having asked for it. One that
runs only when a person (or an approved command) runs the project itself, by its tests or its
build, is a part of the project like its code, and is no more dangerous than that.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct


class RunFile(Struct, frozen=True):
    """Files that other programs run.

    `names` are the ends of paths; one that ends in a slash is a folder with all in it, and a star
    stands for any characters of a name. The case of letters does not matter, as it does not on
    some file systems. `why` says who runs them, and when.
    """

    names: tuple[str, ...]
    why: str


_LOGIN: Final = RunFile(
    (
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"),
        *(".login", ".logout", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".inputrc"),
        *(".pam_environment", ".config/environment.d/", ".config/fish/", ".config/autostart/"),
        *(".config/systemd/", ".local/share/systemd/", ".local/share/dbus-1/", ".crontab"),
        *(".config/sway/", ".config/i3/", ".config/hypr/", ".config/plasma-workspace/"),
        *(
            ".bashrc.d/",
            ".bash_completion",
            ".config/bash/",
            ".zsh/",
            ".oh-my-zsh/",
            ".config/zsh/",
        ),
        *(".config/nushell/", ".config/powershell/", ".config/xonsh/", ".xonshrc", ".elvish/"),
        *(".config/elvish/", ".xmonad/", ".config/awesome/", ".config/bspwm/", ".config/sxhkd/"),
        *(".config/qtile/", ".config/openbox/", ".fluxbox/", ".config/waybar/", ".hammerspoon/"),
        *("Library/LaunchAgents/", "Library/LaunchDaemons/", "var/spool/cron/"),
    ),
    "a shell, a desktop or the system runs them when a person logs in, or by the clock",
)
BY_THEMSELVES: Final = (
    _LOGIN,
    RunFile(
        (
            *("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"),
            *("AGENT.md", "QWEN.md", "CRUSH.md", "WARP.md", ".rules"),
            *(".cursorrules", ".windsurfrules", ".clinerules", ".clinerules/", ".goosehints"),
            *(".augment-guidelines", ".augment/", ".rulesync/", ".agents/", ".agent/"),
            *(".github/copilot-instructions.md", ".github/instructions/", ".github/prompts/"),
        ),
        "coding agents, Treadle among them, follow them as the word of their user",
    ),
    RunFile(
        (
            *(".claude/", ".codex/", ".gemini/", ".cursor/", ".windsurf/", ".continue/", ".roo/"),
            *(".kiro/", ".junie/", ".opencode/", ".amazonq/", ".mcp.json", "opencode.json"),
            *("opencode.jsonc", ".aider.conf.yml", ".treadle/", ".qwen/", ".crush/", "crush.json"),
            *(".crush.json", ".factory/", ".trae/", ".kilocode/", ".goose/", ".pi/", ".amp/"),
            *(
                "mcp.json",
                ".vibe/",
                ".copilot/",
                ".gitlab/duo/",
            ),
        ),
        "coding agents start the servers and hooks that they name when they begin",
    ),
    RunFile(
        (
            ".vscode/",
            "*.code-workspace",
            ".idea/",
            ".zed/",
            ".fleet/",
            ".helix/",
            ".theia/",
            ".nova/",
            ".sublime-project",
            "*.sublime-project",
            "*.sublime-workspace",
        ),
        "an editor runs their tasks and tools when the folder is opened",
    ),
    RunFile(
        (
            *(".vimrc", "_vimrc", ".gvimrc", ".exrc", "_exrc", ".nvimrc", ".nvim.lua", ".lvimrc"),
            *(".vim/", ".config/nvim/", ".emacs", ".local.vimrc", ".vimrc.lua", ".vimspector.json"),
            *(".config/helix/", ".config/kak/", ".kak/", ".nanorc", ".lnvim.lua"),
        ),
        "an editor runs them when it starts in the folder",
    ),
    RunFile(
        (".emacs.d/", ".config/emacs/", ".dir-locals.el", ".dir-locals-2.el"),
        "Emacs evaluates them when a file is opened",
    ),
    RunFile(
        (
            ".devcontainer/",
            ".devcontainer.json",
            ".gitpod.yml",
            ".gitpod.Dockerfile",
            ".idx/",
            ".devfile.yaml",
            "devfile.yaml",
            ".vscode-server/",
            ".ona/",
        ),
        "an editor builds and starts the container that they describe when the folder is opened",
    ),
    RunFile(
        (".git/", ".gitconfig", ".config/git/", ".gitmodules", ".githooks/", ".husky/"),
        "git runs what they name, at any command",
    ),
    RunFile(
        (".hg/", ".hgrc", ".config/hg/", ".jj/", ".config/jj/", ".svn/", ".bzr/", ".sl/"),
        "Mercurial, Jujutsu, Subversion and the like run the hooks and tools that they name",
    ),
    RunFile(
        (
            *(".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", ".lefthook/"),
            *("lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*"),
            *(".config/lefthook.*", ".config/lefthook-local.*", ".lefthook-local/", "hk.pkl"),
            *(".overcommit.yml", ".lintstagedrc", ".lintstagedrc.*", "lint-staged.config.*"),
            *("commitlint.config.*", ".commitlintrc", ".commitlintrc.*", ".simple-git-hooks.*"),
            *("simple-git-hooks.*", ".czrc", ".cz.*", ".git-hooks/"),
        ),
        "hooks run it at the next commit, which the auto-commit makes unasked",
    ),
    RunFile(
        (
            *(".envrc", ".envrc.*", ".direnv/", ".autoenv.zsh", ".autoenv", ".autoenv_leave.zsh"),
            *(
                "mise.toml",
                "mise.*.toml",
                ".mise.toml",
                ".mise.*.toml",
                ".mise/",
                "mise/config.toml",
            ),
            *(
                ".config/mise.toml",
                ".config/mise.*.toml",
                ".config/mise/",
                ".rtx.toml",
                ".rtx.*.toml",
            ),
            *(".shadowenv.d/", ".rvmrc"),
        ),
        "a shell runs them when a person changes into the folder",
    ),
    RunFile(
        (
            *(".github/workflows/", ".github/actions/", ".gitlab-ci.yml", ".circleci/"),
            *("Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", ".travis.yml"),
            *(".buildkite/", ".drone.yml", ".woodpecker.yml", ".woodpecker/", ".forgejo/"),
            *(".gitea/", ".teamcity/", "appveyor.yml", ".appveyor.yml", ".semaphore/"),
            *("cloudbuild.yaml", "cloudbuild.yml", ".gitlab/ci/", ".cirrus.yml", ".cirrus.star"),
            *("buildspec.yml", "buildspec.yaml", ".azure-pipelines/", "azure-pipelines-*.yml"),
            *(".pipelines/", ".tekton/", ".harness/", ".drone.jsonnet", ".drone.star"),
            *(".builds/", ".build.yml", "wercker.yml", "codemagic.yaml", "netlify.toml"),
            *("vercel.json", "render.yaml", ".readthedocs.yaml", ".readthedocs.yml"),
        ),
        "a server runs them with the keys of the project as soon as they are pushed",
    ),
    RunFile(
        (".cargo/config.toml", ".cargo/config", "rust-toolchain", "rust-toolchain.toml"),
        "every cargo runs the compiler and the runner that they name; editors start cargo unasked",
    ),
    RunFile(
        (
            *(".yarnrc.yml", ".yarnrc", ".yarn/", ".npmrc", ".pnpmfile.cjs", "bunfig.toml"),
            *(".bundle/", ".mvn/", "gradle/wrapper/", "pip.conf", ".pnpmfile.js", ".pnpmfile.mjs"),
            *("pnpm-workspace.yaml", "uv.toml", ".uv.toml", "nuget.config", ".bazelrc"),
            *(".bazeliskrc", ".sdkmanrc", ".gradle/init.d/", ".config/pip/"),
        ),
        "a package manager runs or fetches what they name at any of its commands",
    ),
    RunFile(
        ("*.pth", "sitecustomize.py", "usercustomize.py"),
        "every Python that finds them runs them when it starts",
    ),
    RunFile(
        (".venv/", "venv/", "node_modules/.bin/", ".local/bin/", ".cargo/bin/"),
        "it is in the PATH of people: what they take for git or ls is run from there",
    ),
    RunFile(
        (
            *(".gdbinit", ".lldbinit", ".pdbrc", ".pythonrc", ".irbrc", ".pryrc", ".psqlrc"),
            *(".sqliterc", ".tmux.conf", ".screenrc", ".curlrc", ".wgetrc", ".ssh/"),
            *(".Rprofile", ".Renviron", ".iex.exs", ".ghci", ".ocamlinit", ".sbclrc", ".guile"),
            *(".julia/config/", ".gdbearlyinit", ".lldbinit-*", ".radare2rc", ".octaverc"),
            *(".mysqlrc", ".duckdbrc", ".mongorc.js", ".mongoshrc.js", ".config/gdb/"),
            *(".wezterm.lua", ".config/wezterm/", ".config/kitty/", ".config/alacritty/"),
            *(".config/ghostty/", ".config/tmux/", ".config/zellij/"),
            *(".mailcap", ".config/starship.toml", ".ansible.cfg"),
            *("ansible.cfg", ".perldb", ".rdbgrc", ".byebugrc", ".phpdbginit"),
            *(".ipython/", ".jupyter/", ".tmuxinator.yml", ".tmuxp.yaml"),
        ),
        "the program of that name runs them, or does what they say, when it starts",
    ),
)
"""These run without a further act of a person: writing them is asked about, also in `auto-edit`."""
ON_COMMAND: Final = (
    RunFile(
        (
            *("Makefile", "GNUmakefile", "makefile", "*.mk", "justfile", "Taskfile.yml"),
            *("Rakefile", "Procfile", "shell.nix", "flake.nix", "devenv.nix", "devbox.json"),
            ".tool-versions",
        ),
        "they run when a person runs one of their targets",
    ),
    RunFile(
        ("package.json", "deno.json", "deno.jsonc", "composer.json"),
        "their scripts run when a person installs or runs the project",
    ),
    RunFile(
        ("conftest.py", "pytest.ini", "tox.ini", "noxfile.py", "jest.config.*", "vitest.config.*"),
        "they run with the tests",
    ),
    RunFile(
        (
            *("setup.py", "pyproject.toml", "build.rs", "Cargo.toml", "build.gradle*", "pom.xml"),
            *("CMakeLists.txt", "meson.build", "Gemfile", "go.mod", "webpack.config.*"),
            "vite.config.*",
        ),
        "they run with the build",
    ),
    RunFile(
        (
            *(".eslintrc.*", "eslint.config.*", ".prettierrc.*", "prettier.config.*", ".pylintrc"),
            *("stylelint.config.*", ".rubocop.yml", ".luarc.json", ".formatter.exs"),
            "tsconfig.json",
        ),
        "linters and formatters load what they name, as a part of the project, also in editors",
    ),
    RunFile(
        ("Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "Vagrantfile"),
        "they run when a person builds or starts them",
    ),
)
"""These are run by whoever runs the project: writing them is like writing its code. Nothing looks
them up; they stand here so that each was decided, and so that the documentation lists them."""
STARTUP_NAMES: Final = tuple(name.rstrip("/") for name in _LOGIN.names)
"""Of a home folder: where it is the workspace, commands cannot change them either."""


def runs_by_itself(path: str) -> tuple[str, str]:
    """What on a relative path other programs run by themselves, and why; both empty if nothing."""
    parts = PurePosixPath(path.casefold()).parts
    shown = PurePosixPath(path).parts
    for row in BY_THEMSELVES:
        for name in row.names:
            wanted = name.rstrip("/").casefold().split("/")
            for end in _ends(parts, wanted, is_folder=name.endswith("/")):
                place = "/".join(shown[end - len(wanted) : end])
                return place + "/" * name.endswith("/"), row.why
    return "", ""


def _ends(parts: tuple[str, ...], wanted: list[str], *, is_folder: bool) -> list[int]:
    """Behind which parts of a path the wanted ones stand: a file's at its end, a folder's anywhere.

    A file that has the name of the folder counts too: it may become one.
    """
    count = len(wanted)
    last = range(count, len(parts) + 1) if is_folder else (len(parts),)
    return [
        end
        for end in last
        if end >= count and all(map(_is_named, parts[end - count : end], wanted))
    ]


def _is_named(part: str, wanted: str) -> bool:
    """Whether a part has a name; `fnmatch` would make a pattern of each, and remember too few."""
    return part == wanted or ("*" in wanted and fnmatchcase(part, wanted))
