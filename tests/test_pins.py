"""All that `make` installs is pinned to a version and to hashes, for every dependency there is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parent.parent
_PIN: Final = re.compile(r"([a-z0-9.-]+)==(\S+)(?: ; .+)?(?: --hash=sha256:[0-9a-f]{64})+")


def pins(name: str) -> dict[str, str]:
    """The versions of a file; each line of it, with those that go on, is a pin with hashes."""
    lines = (ROOT / name).read_text(encoding="utf-8").replace(" \\\n   ", "").splitlines()
    assert [line for line in lines if not _PIN.fullmatch(line)] == []
    return {line.partition("==")[0]: line.partition("==")[2].split()[0] for line in lines}


def test_every_dependency_is_pinned_with_hashes_and_the_build_backend_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    backend = project["build-system"]["requires"]
    run = [*project["project"]["dependencies"], *groups["build"], *backend]
    extras = project["project"]["optional-dependencies"].values()
    dev = [*run, *(text for extra in extras for text in extra), *groups["dev"]]
    missing = []
    for name, wanted in (("constraints-run.txt", run), ("constraints.txt", dev)):
        pinned = pins(name)
        missing += [
            (name, text)
            for text in wanted
            if pinned.get(canonicalize_name(Requirement(text).name), "none")
            not in Requirement(text).specifier
        ]
    assert missing == [], "make pins"
    assert pins("constraints-run.txt").items() <= pins("constraints.txt").items()


def test_make_installs_nothing_without_hashes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    installing = [
        line
        for line in text.splitlines()
        if re.search(r"(INSTALL|pip install|uv (pip|sync|tool|run))", line)
    ]
    allowed = ("--require-hashes", "--no-index --no-deps --no-build-isolation", "uv pip compile")
    unchecked = [line for line in installing if not any(one in line for one in allowed)]
    assert unchecked == ["INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check"]


def test_what_comes_from_npm_is_pinned_with_hashes_too() -> None:
    """And nothing of it runs a script while it is installed."""
    folder = ROOT / "tests"
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert [name for name, one in packages.items() if "integrity" not in one] == []
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert wanted == {name: packages[f"node_modules/{name}"]["version"] for name in wanted}, (
        "npm install --package-lock-only, in that folder"
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [line for line in makefile.splitlines() if "npm" in line and "$(BIN)" in line] == [
        "\t$(BIN)/npm ci --silent --ignore-scripts --no-audit --no-fund --prefix $(JUDGES)"
    ]
