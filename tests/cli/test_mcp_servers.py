"""`treadle mcp add`, `list`, `remove`: what stands in the settings afterwards."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from cli.conftest import Run


def settings(tmp_path: Path) -> dict[str, Any]:
    return tomllib.loads((tmp_path / "home" / "config" / "config.toml").read_text())


def listed(treadle: Run, **extra: str) -> list[dict[str, Any]]:
    done = treadle("mcp", "list", "--json", **extra)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_servers_are_added_listed_and_removed_and_all_else_stays(
    treadle: Run, tmp_path: Path
) -> None:
    file = tmp_path / "home" / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("# Mine.\nmax_steps = 3\n\n[models]\ndefault = 'a:b'  # the best\n")
    before = file.read_text()
    done = treadle(
        *("mcp", "add", "files", "--network", "-e", "LEVEL=info", "-e", "FILES_TOKEN"),
        *("--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "."),
    )
    assert done.returncode == 0, done.stderr
    assert "treadle mcp test files" in done.stderr
    url = "https://mcp.example.com/mcp"
    header = "Authorization: Bearer ${DOCS_TOKEN}"
    assert treadle("mcp", "add", "docs", url, "-H", header).returncode == 0
    assert file.read_text().startswith(before.rstrip())
    assert settings(tmp_path)["mcp"] == {
        "files": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "."],
            "env": {"LEVEL": "info", "FILES_TOKEN": "${FILES_TOKEN}"},
            "network": True,
        },
        "docs": {"url": url, "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}},
    }
    rows = {one["name"]: one for one in listed(treadle, FILES_TOKEN="t0ken-0123456789")}
    assert rows["files"]["state"] == "used"
    assert rows["docs"]["problem"] == "the variable DOCS_TOKEN is not set"
    assert rows["docs"]["server"] == url
    people = treadle("mcp", "list").stdout.splitlines()
    assert people[0].split() == [
        *("docs", "the", "variable", "DOCS_TOKEN", "is", "not", "set", url),
        rows["docs"]["origin"],
    ]
    assert treadle("mcp", "remove", "files").returncode == 0
    assert treadle("mcp", "remove", "docs").returncode == 0
    assert file.read_text() == before
    assert "there are no servers" in treadle("mcp", "list").stderr


def test_what_cannot_be_added_is_told_and_the_file_stays_as_it_was(
    treadle: Run, tmp_path: Path
) -> None:
    assert treadle("mcp", "add", "files", "files-server").returncode == 0
    before = settings(tmp_path)
    for arguments, said in {
        ("add", "files", "other"): "there is a server files already",
        ("add", "a b", "x"): "the key must be a name of letters",
        ("add", "x", "-e", "MY_TOKEN=abcdefgh", "--", "y"): "names another: ${NAME}",
        (
            "add",
            "x",
            "https://h.example",
            "-e",
            "A=b",
        ): "--env, --network and --write are",
        ("add", "x", "-H", "A: b", "--", "y"): "--header is for a URL",
        ("add", "x", "https://h.example", "-H", "A"): "--header takes NAME: TEXT",
        ("add", "x"): "Missing argument",
        ("remove", "other"): "your settings name no server other",
    }.items():
        done = treadle("mcp", *arguments)
        assert (done.returncode, said in done.stderr) == (2, True), (arguments, done.stderr)
        assert settings(tmp_path) == before


def test_a_project_brings_servers_along_which_are_looked_at_first(
    treadle: Run, repository: Path
) -> None:
    server = {"command": "theirs", "args": ["--token", "hunter2-literal"], "env": {"T": "hunter2"}}
    (repository / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": server}}))
    assert listed(treadle) == []
    done = treadle("config", "trust", "--yes")
    assert "hunter2-literal" in done.stdout, "who trusts it has seen all of it"
    (one,) = listed(treadle)
    assert (one["name"], one["state"], one["is_of_project"]) == ("theirs", "used", True)
    assert "hunter2" not in treadle("config", "show").stdout
    hostile = {"command": "a\x1b[31m\nb", "args": ["\x9b2J\u202e"]}
    (repository / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": hostile}}))
    assert treadle("config", "trust", "--yes").returncode == 0
    shown = treadle("mcp", "list").stdout
    assert shown.count("\n") == 1
    assert not {"\x1b", "\x9b", "\u202e"} & {*shown}
    tried = treadle("mcp", "test", "theirs")
    assert tried.returncode == 5
    assert not {"\x1b", "\x9b", "\u202e"} & {*tried.stdout, *tried.stderr}
    assert treadle("config", "trust", "--remove").returncode == 0
    assert listed(treadle) == []
