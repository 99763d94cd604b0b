"""The variables of a confined command, and the settings of git that it finds in its home."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treadle import helper_programs
from treadle.process.command import run_command
from treadle.process.environment import clean_environment
from treadle.process.result import Bounds

_OF_SESSION: Final = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CLIENT", "SSH_CONNECTION"),
    *("SSH_TTY", "GPG_AGENT_INFO", "GPG_TTY", "DBUS_SESSION_BUS_ADDRESS"),
    *("XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XAUTHORITY", "DOCKER_HOST", "TMUX", "TMUX_PANE"),
    *("STY", "WINDOWID", "COLORTERM", "LINES"),
    *("COLUMNS", "PWD", "OLDPWD", "SHLVL"),
    *("_"),
)
"""Variables that lead to sockets outside, or change from one terminal to the next."""
_FROM_GIT: Final = (
    r"^(user\.(name|email)|init\.defaultbranch|core\.(autocrlf|eol)|safe\.directory"
    r"|(pull|push|merge|rebase|diff|advice)\.[a-z]+)$"
)
"""Of the person's settings of git; the others may hold credentials or run programs."""
_GIT_S_MAX: Final = 5.0

_OF_READING: Final[Mapping[str, str]] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "UV_NO_SYNC": "1",
}
"""What keeps programs from writing beside what they read, as they do where they can."""
_IN_SCRATCH: Final = (
    ("XDG_CACHE_HOME", "xdg"),
    ("XDG_STATE_HOME", "state"),
    ("DOTNET_CLI_HOME", "dotnet"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("npm_config_cache", "npm"),
    ("YARN_CACHE_FOLDER", "yarn-1"),
    ("YARN_GLOBAL_FOLDER", "yarn"),
    ("BUN_INSTALL_CACHE_DIR", "bun"),
    ("GOCACHE", "go-build"),
    ("GOMODCACHE", "go-mod"),
    ("CARGO_TARGET_DIR", "cargo-target"),
    ("GRADLE_USER_HOME", "gradle"),
    ("RUFF_CACHE_DIR", "ruff"),
    ("MYPY_CACHE_DIR", "mypy"),
    ("HYPOTHESIS_STORAGE_DIRECTORY", "hypothesis"),
    ("COVERAGE_FILE", "coverage"),
    ("CCACHE_DIR", "ccache"),
)
"""The variable, and the name in the scratch folder of what a program would write elsewhere."""
_IF_SET: Final = (("NODE_COMPILE_CACHE", "node"), ("SCCACHE_DIR", "sccache"))
"""The same, of variables that turn the cache on."""
_FROM_CACHE: Final = (("CARGO_HOME", "cargo"), ("NUGET_PACKAGES", "nuget"))
"""What works where it cannot be written: it is read where commands that write have left it."""
_PYTEST: Final = "-p no:cacheprovider"


def make_environment(environ: Mapping[str, str], *, is_off: bool) -> dict[str, str]:
    """What a command gets of an environment.

    Args:
        environ: the person's.
        is_off: whether nothing holds the command; then it also gets what leads to sockets.
    """
    if is_off:
        return clean_environment(environ)
    return clean_environment(
        {name: value for name, value in environ.items() if name not in _OF_SESSION}
    )


def make_reading_variables(
    env: Mapping[str, str], scratch: str, cache: str, home: str
) -> dict[str, str]:
    """What lets programs work where they can write nothing but a scratch folder.

    Args:
        env: what the command gets else.
        scratch: a folder that is gone afterwards.
        cache: that of the workspace, which can be read; empty if there is none.
        home: the person's home folder.
    """
    place = f"{scratch}/.cache"
    found = {**_OF_READING, **{name: f"{place}/{folder}" for name, folder in _IN_SCRATCH}}
    found |= {name: f"{place}/{folder}" for name, folder in _IF_SET if name in env}
    found["PYTEST_ADDOPTS"] = f"{env.get('PYTEST_ADDOPTS', '')} {_PYTEST}".lstrip()
    read = [f"{home}/.m2/repository"]
    if cache:
        found |= {name: f"{cache}/{folder}" for name, folder in _FROM_CACHE}
        read.insert(0, f"{cache}/maven")
    options = f"-Dmaven.repo.local={place}/maven -Dmaven.repo.local.tail={','.join(read)}"
    found["MAVEN_ARGS"] = f"{options} {env.get('MAVEN_ARGS', '')}".rstrip()
    return found


def read_git_settings(environ: Mapping[str, str]) -> bytes:
    """The person's name and habits in git, without what may be secret."""
    program = helper_programs.find_program("git", environ)
    if program is None:
        return b""
    command = [program, "config", "--global", "--includes", "-z", "--get-regexp"]
    try:
        ran = run_command(
            [*command, _FROM_GIT],
            helper_programs.environment(environ),
            Bounds(_GIT_S_MAX),
            folder="/",
        )
    except OSError:
        return b""
    said = "" if ran.problem else ran.out.decode(errors="replace")
    lines = []
    for setting in filter(None, said.split("\0")):
        key, _, value = setting.partition("\n")
        section, _, name = key.rpartition(".")
        shown = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{name} = "{shown}"\n')
    return "".join(lines).encode()
