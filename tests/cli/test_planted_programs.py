"""What a command writes where programs are looked for never runs outside the sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

import treadle as package
from cli.conftest import Run
from treadle import helper_programs

Script: TypeAlias = Callable[[str], str]

NAMES: Final = "git rg gpg ssh bwrap sh bash env python3 vi ours key cat grep sed"
PLANT: Final = f"""
for name in {NAMES}; do
  printf '#!/bin/sh\\necho "$0 $*" >> %s\\nPATH=/usr/bin:/bin exec "${{0##*/}}" "$@"\\n' "$RAN" \\
    > .venv/bin/$name
  chmod +x .venv/bin/$name
done
mkdir -p lib && echo 'open("{{ran}}", "a").write("sitecustomize")' > lib/sitecustomize.py
cp lib/sitecustomize.py lib/decimal.py
git --version
"""
REPLIES: Final = """
[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = '''%s''' } }]
[[replies]]
calls = [
  { tool = "search_files", arguments = { pattern = "add" } },
  { tool = "write_file", arguments = { path = "new.py", content = "x = 1" } },
  { tool = "write_file", arguments = { path = ".venv/bin/git", content = "#!/bin/false" } },
]
[[replies]]
calls = [{ tool = "bash", arguments = { access = "write", command = "git status; git add -A" } }]
[[replies]]
text = "Done."
"""


def test_programs_that_a_command_plants_in_the_path_do_not_run_outside(
    treadle: Run,
    script: Script,
    repository: Path,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    """Git, its gpg and its hooks, ripgrep, a hook, a key command; in that turn and in the next."""
    ran = tmp_path / "ran"
    (repository / ".venv/bin").mkdir(parents=True)
    (tmp_path / "to-venv").symlink_to(repository / ".venv/bin")
    path = f".venv/bin::{repository}/.venv/bin:{tmp_path}/to-venv:{os.environ['PATH']}"
    hook = repository / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\ngit --version >/dev/null\ncat /dev/null\n")
    hook.chmod(0o755)
    subprocess.run(
        ["git", "config", "commit.gpgsign", "true"], cwd=repository, env=environment, check=True
    )
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[hooks.check]\non = "after_turn"\ncommand = ["git", "--version"]\n'
        '[providers.anthropic]\nkey_command = "cat /dev/null"\n'
    )
    planting = PLANT.replace("$RAN", str(ran)).replace("{ran}", str(ran))
    model = script(REPLIES % planting)
    more = {"PATH": path, "PYTHONPATH": str(repository / "lib")}
    first = treadle("-p", "go", "-m", model, "--approval-mode", "auto", **more)
    assert first.stdout == "Done.\n", first.stderr
    assert (repository / ".venv/bin/gpg").exists(), "nothing was planted"
    assert not ran.exists(), ran.read_text()
    again = {"PATH": path}
    for arguments in (
        ("-p", "go", "-m", model, "--approval-mode", "auto"),
        ("doctor",),
        ("blame", "calc.py"),
    ):
        treadle(*arguments, **again)
        assert not ran.exists(), (arguments, ran.read_text())


def test_a_folder_that_python_looks_into_at_its_start_is_told_also_as_an_empty_entry(
    treadle: Run, repository: Path
) -> None:
    values = {":/opt": True, f"/opt:{repository}": True, "/opt": False, "": False}
    for value, is_told in values.items():
        done = treadle("doctor", PYTHONPATH=value)
        assert (f"modules in {repository}, where" in done.stdout) == is_told, (value, done.stdout)


ASKED: Final = """
import platform
from treadle.app.upkeep.checks import check_versions
from treadle.models.anthropic.provider import AnthropicProvider
AnthropicProvider("key", base_url="http://127.0.0.1:9")._make_endpoint()
list(check_versions())
print(platform.platform())
"""


def test_what_libraries_ask_of_the_machine_starts_no_program(
    tmp_path: Path, environment: dict[str, str], treadle: Run
) -> None:
    """With a plant for every program of the system, and nothing else, in the `PATH`."""
    ran, bin_folder = tmp_path / "ran", tmp_path / "bin"
    bin_folder.mkdir()
    (tmp_path / "plant").write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
    (tmp_path / "plant").chmod(0o755)
    names = {path.name for folder in ("/usr/bin", "/bin") for path in Path(folder).iterdir()}
    for name in (*names, *({"lsb_release"} - names)):
        (bin_folder / name).symlink_to(tmp_path / "plant")
    subprocess.run(["uname"], env={"PATH": str(bin_folder)}, check=True)
    assert ran.read_text(), "a plant that nobody would see"
    ran.unlink()
    alone = {**environment, "PATH": str(bin_folder)}
    done = subprocess.run([sys.executable, "-c", ASKED], env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert treadle("completion", "bash", PATH=str(bin_folder)).returncode == 0
    assert not ran.exists(), ran.read_text()


def test_commands_cannot_change_the_environment_that_treadle_runs_from(
    script: Script, repository: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """One in the workspace; Python runs each line of a `.pth` file there that begins so."""
    venv = repository / "tools/env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    roots = (Path(str(msgspec.__file__)).parents[1], Path(package.__file__).parents[1])
    (site / "found.pth").write_text("".join(f"{root}\n" for root in roots))
    ran = tmp_path / "ran"
    place = site.relative_to(repository)
    write = f"echo 'import os; os.mkdir(\"{ran}\")' > {place}/x.pth"
    commands = (
        f"{write} && touch changed",
        f"mv tools gone && mkdir -p {place} && {write} && touch changed",
        'tools/env/bin/python -c \'open("written", "w")\'',
    )
    calls = "".join(
        "[[replies]]\n[[replies.calls]]\ntool = 'bash'\n"
        f"arguments = {{ access = 'write', command = '''{one}''' }}\n"
        for one in commands
    )
    calls += (
        "[[replies]]\ncalls = [{ tool = 'write_file', "
        f"arguments = {{ path = '{place}/x.pth', content = 'import os' }} }}]\n"
    )
    model = script(f"{calls}[[replies]]\ntext = 'Done.'\n")
    run = [venv / "bin/python", "-P", "-m", "treadle"]

    def treadle(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*run, *arguments], cwd=repository, env=environment, capture_output=True, text=True
        )

    done = treadle("-p", "go", "-m", model, "--approval-mode", "auto")
    assert (done.returncode, (repository / "written").exists()) == (0, True), done.stderr
    assert f"Treadle itself runs from {venv}" in done.stderr
    assert not (repository / "changed").exists()
    assert not (site / "x.pth").exists()
    assert not ran.exists()
    assert f"Treadle itself runs from {venv}" in treadle("doctor").stdout


def test_nothing_is_said_where_treadle_lies_elsewhere(treadle: Run, script: Script) -> None:
    done = treadle("-p", "go", "-m", script("[[replies]]\ntext = 'Done.'\n"))
    assert "runs outside the sandbox" not in done.stderr
    assert tuple(helper_programs.own_code()) == ()
