"""Which settings of a repository that a command has made are taken for harmless."""

from __future__ import annotations

import subprocess
from pathlib import Path

from treadle.sandbox.git_settings import (
    find_risky_settings,
    may_be_written,
    read_settings,
)

RISKY = {
    "extensions.partialClone": "o",
    "remote.o.promisor": "true",
    "remote.o.partialCloneFilter": "blob:none",
    "remote.o.url": "a.b::c",
    "remote.o.pushUrl": "ext::sh -c evil",
    "submodule.s.url": "--upload-pack=evil",
    "submodule.s.update": "!evil",
    "core.fsmonitor": "evil",
}
HARMLESS = {
    "core.bare": "false",
    "remote.o.fetch": "+refs/heads/*:refs/remotes/o/*",
    "remote.o.url": "https://[::1]/a.git",
    "remote.o.pushUrl": "git@a.b:c/d.git",
    "submodule.s.url": "../a::b",
    "submodule.s.update": "rebase",
}


def test_what_may_run_a_program_or_reach_for_an_address_is_no_harmless_setting(
    tmp_path: Path,
) -> None:
    missed = {}
    for expected, table in ((True, RISKY), (False, HARMLESS)):
        for number, (key, value) in enumerate(table.items()):
            file = tmp_path / f"{expected}{number}"
            command = ("git", "config", "--file", str(file), "--add", key, value)
            subprocess.run(command, check=True)
            found = find_risky_settings(read_settings(file))
            if bool(found) is not expected:
                missed[key] = value, found
    assert missed == {}


def test_no_setting_that_a_person_lets_be_written_leads_to_a_repository_of_this_machine() -> None:
    remotes = {
        **dict.fromkeys(("origin", ".", "fork-2", "https://a/b", "git@a:b", "ssh://a/b"), True),
        **dict.fromkeys(("target/g", "./g", "../g", "..", "~/g", "/g", "file:///g", "a::b"), False),
    }
    keys = ("branch.main.remote", "branch.main.pushremote")
    wrong = {
        (key, value)
        for key in keys
        for value, may in remotes.items()
        if may_be_written(key, value) is not may
    }
    assert wrong == set()
