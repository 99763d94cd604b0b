"""The cache of a workspace: kept between commands, never the person's own, trusted by nobody."""

from __future__ import annotations

import io
import json
import os
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from treadle import helper_programs
from treadle.core.messages import ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.caches import (
    UNUSED_S_MAX,
    find_old_caches,
    make_cache,
    remove_old_caches,
    variables_of,
)
from treadle.sandbox.detect import BACKENDS, find_backend
from treadle.sandbox.policy import Level, Network, Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

VARIABLES = (
    *("XDG_CACHE_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache", "YARN_GLOBAL_FOLDER"),
    *("BUN_INSTALL_CACHE_DIR", "GOCACHE", "GOMODCACHE", "CARGO_HOME", "GRADLE_USER_HOME"),
    "NUGET_PACKAGES",
)


@pytest.fixture(params=[name for name in BACKENDS if find_backend((name,)).name])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with what cargo, go, maven and pip have fetched for the person."""
    made = tmp_path / "home"
    for name in (
        *(".cargo/registry/cache/index/a-1.0.crate", ".cargo/registry/src/index/a-1.0/lib.rs"),
        *(".cargo/registry/index/index/.cache/a", ".cargo/config.toml", ".cache/pip/own"),
        *("go/pkg/mod/cache/download/x/@v/list", ".m2/repository/x.jar"),
        *("ws/a", "other/a"),
    ):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("the person's own\n")
    for name in (*VARIABLES, "GOPROXY", "GOPATH", "MAVEN_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("GOPROXY", "https://proxy.example,off")
    return made


def tools(home: Path, backend: str, name: str = "ws", **more: object) -> Registry:
    policy = Policy(**{"caches": str(home / ".cache/treadle/commands"), **more})  # type: ignore[arg-type]
    sandbox = Sandbox(policy, home / name, backends=(backend,))
    return Registry(builtin_tools(), workspace=home / name, sandbox=sandbox)


async def shown(registry: Registry, command: str, **more: object) -> str:
    call = ToolCall("c", "bash", json.dumps({"command": command, "access": "write", **more}))
    outcome = await registry.execute(call, key="c", progress=lambda report: None)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_what_a_command_keeps_there_the_next_one_finds_and_nobody_else(
    home: Path, backend: str
) -> None:
    before = files_of(home)
    quoted = " ".join(f'"${name}"' for name in VARIABLES)
    said = await shown(tools(home, backend), f"for i in {quoted}; do echo kept > $i/new; done")
    assert said == "[exit code 0]"
    again = await shown(tools(home, backend), f"for i in {quoted}; do cat $i/new; done")
    assert again == "kept\n" * len(VARIABLES) + "[exit code 0]"
    other = await shown(
        tools(home, backend, "other"), f"cat {quoted} {home}/.cache/treadle/*/*/*/*"
    )
    assert "kept" not in other
    after = files_of(home)
    assert {name: after.get(name) for name in before} == before
    new = set(after) - set(before)
    assert all(name.startswith(f"{home}/.cache/treadle/commands/") for name in new)
    # Without a place for caches, or where nothing lasts, there is none.
    said = await shown(tools(home, backend, caches=""), "echo $PIP_CACHE_DIR-$GOMODCACHE-")
    assert said == "--\n[exit code 0]"
    reading = tools(home, backend, level=Level.READ_ONLY)
    command = 'echo x > "$CARGO_HOME/new"; echo y > "$PIP_CACHE_DIR"; cat "$CARGO_HOME/new"'
    said = await shown(reading, command, access="read")
    assert "kept" in said
    assert files_of(home) == after


async def test_what_the_person_has_fetched_is_found_and_not_written(
    home: Path, backend: str
) -> None:
    before = files_of(home)
    said = await shown(
        tools(home, backend),
        "cd $CARGO_HOME/registry && cat cache/*/a-1.0.crate src/*/a-1.0/lib.rs index/*/.cache/a;"
        "echo evil > cache/index/a-1.0.crate; echo new > cache/index/b-1.0.crate;"
        "rm -rf src/index/a-1.0; echo $GOPROXY; echo $MAVEN_ARGS; cat ${GOPROXY%%,*} 2>/dev/null;"
        "x=${GOPROXY#file://}; cat ${x%%,*}/x/@v/list",
    )
    assert said.count("the person's own\n") == 4
    assert f"file://{home}/go/pkg/mod/cache/download,https://proxy.example,off\n" in said
    assert f"-Dmaven.repo.local.tail={home}/.m2/repository\n" in said
    after = files_of(home)
    assert {name: after.get(name) for name in before} == before
    # What it removed of the links is there again, what it made is kept.
    said = await shown(
        tools(home, backend), "cd $CARGO_HOME/registry; cat */index/*-1.0*/* */*/*.crate"
    )
    assert said == "the person's own\n" * 2 + "new\n[exit code 0]"


async def test_links_that_a_command_makes_lead_nothing_elsewhere(home: Path, backend: str) -> None:
    outside = home / "outside"
    outside.mkdir()
    attack = (
        "cd $CARGO_HOME && rm -rf registry git && ln -s {0} registry && ln -s {0} git;"
        "cd .. && rm -rf pip && ln -s {0} pip; rm -rf cargo && ln -s {0} cargo"
    )
    said = await shown(tools(home, backend), attack.format(outside))
    assert said == "[exit code 0]"
    await shown(tools(home, backend), "true")
    assert not list(outside.iterdir())
    [cache] = [one for one in (home / ".cache/treadle/commands").iterdir() if one.is_dir()]
    (home / "ws/a").unlink()
    (home / "ws").rmdir()
    (outside / "kept").write_text("kept")
    remove_old_caches(str(cache.parent), 0.0, [str(cache)])
    assert not cache.exists()
    assert (outside / "kept").read_text() == "kept"


async def test_no_program_is_taken_from_a_cache(home: Path, backend: str) -> None:
    await shown(
        tools(home, backend),
        "printf '#!/bin/sh\n' > $PIP_CACHE_DIR/git; chmod +x $PIP_CACHE_DIR/git",
    )
    [cache] = [one for one in (home / ".cache/treadle/commands").iterdir() if one.is_dir()]
    assert os.access(cache / "pip/git", os.X_OK)
    found = helper_programs.find_program("git", {"PATH": f"{cache}/pip:{os.environ['PATH']}"})
    assert found is not None
    assert not found.startswith(str(cache))


def test_who_lets_commands_see_or_change_a_cache_of_their_own_means_it(home: Path) -> None:
    all_of_them = set(variables_of("/c", {}, str(home), ()))
    expected = {
        ".cache/huggingface": {"XDG_CACHE_HOME"},
        ".cache": {"XDG_CACHE_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR", "GOCACHE"},
        ".cargo": {"CARGO_HOME"},
        "go": {"GOMODCACHE", "GOPROXY"},
        ".m2": {"MAVEN_ARGS"},
        "src": set(),
    }
    found = {
        name: all_of_them - set(variables_of("/c", {}, str(home), [f"{home}/{name}"]))
        for name in expected
    }
    assert found == expected
    own = variables_of("/c", {"PIP_CACHE_DIR": "/srv/pip"}, str(home), ["/srv"])
    assert "PIP_CACHE_DIR" not in own


def test_a_cache_is_old_when_its_workspace_is_gone_or_was_not_used(tmp_path: Path) -> None:
    base = tmp_path / "caches"
    made = {}
    for name in ("used", "gone", "unused"):
        (tmp_path / name).mkdir()
        made[name] = Path(make_cache(str(base), str(tmp_path / name)))
        folder = made[name] / "go-mod/read-only"
        folder.mkdir()
        (folder / "file").write_text("12345")
        folder.chmod(0o500)
    (tmp_path / "gone").rmdir()
    note = made["unused"].with_suffix(".workspace")
    now_s = note.stat().st_mtime
    os.utime(note, (now_s - UNUSED_S_MAX - 1,) * 2)
    found = find_old_caches(str(base), now_s)
    assert {one.path: one.size for one in found} == {
        str(made["gone"]): 5,
        str(made["unused"]): 5,
    }
    # Who uses it again keeps it, also after somebody has looked.
    make_cache(str(base), str(tmp_path / "unused"))
    assert remove_old_caches(str(base), now_s, [one.path for one in found]) == tuple(
        one for one in found if one.path == str(made["gone"])
    )
    assert {one.name for one in base.iterdir()} == {
        name
        for kept in (made["used"], made["unused"])
        for name in (kept.name, f"{kept.name}.workspace")
    }
    assert find_old_caches("", now_s) == ()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A package index on the loopback with one wheel and one npm package; what was asked of it."""
    folder = tmp_path / "index"
    (folder / "pip/shed").mkdir(parents=True)
    with zipfile.ZipFile(folder / "pip/shed/shed-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("shed.py", "")
        wheel.writestr(
            "shed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: shed\nVersion: 1.0\n"
        )
        wheel.writestr("shed-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("shed-1.0.dist-info/RECORD", "")
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Cache-Control", "max-age=600")
            super().end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


async def test_pip_fetches_a_wheel_once(
    home: Path, backend: str, index: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = index
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    registry = tools(home, backend, network=Network.ON)
    # Without `site` no .pth file counts: pip would look at the folder that this program is
    # installed from, which commands do not see where the clone lies in /tmp.
    command = (
        f"PYTHONPATH={sysconfig.get_path('purelib')} {sys.executable} -S -m pip download "
        "-q --no-deps --disable-pip-version-check "
        f"--index-url {address}/pip/ --trusted-host 127.0.0.1 -d"
    )
    for name in ("one", "two"):
        said = await shown(registry, f"{command} {name} shed && ls {name}", network=True)
        assert "shed-1.0-py3-none-any.whl" in said
    assert sum(path.endswith(".whl") for path in asked) == 1


async def test_npm_fetches_a_package_once(
    home: Path, backend: str, index: tuple[str, list[str]]
) -> None:
    address, asked = index
    folder = home.parent / "index"
    text = b'{"name": "shed", "version": "1.0.0"}'
    with tarfile.open(folder / "shed.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("package/package.json")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    (folder / "shed").write_text(
        json.dumps(
            {
                "name": "shed",
                "dist-tags": {"latest": "1.0.0"},
                "versions": {
                    "1.0.0": {
                        "name": "shed",
                        "version": "1.0.0",
                        "dist": {"tarball": f"{address}/shed.tgz"},
                    }
                },
            }
        )
    )
    registry = tools(home, backend, network=Network.ON)
    command = f"npm install --silent --no-audit --no-fund --registry {address} --prefix"
    for name in ("one", "two"):
        said = await shown(
            registry, f"mkdir {name}; {command} {name} shed && ls {name}/node_modules", network=True
        )
        assert "shed" in said
    assert asked.count("/shed.tgz") == 1
