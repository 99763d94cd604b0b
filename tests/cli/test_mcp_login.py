"""`treadle mcp login`: the address is printed, the browser comes back, sessions go on with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2

from cli.conftest import Run
from mcp_servers.accounts import Accounts, make_accounts, serve_accounts  # noqa: F401  fixtures


def test_a_person_logs_in_at_a_server_and_out_again(
    treadle: Run,
    repository: Path,
    environment: dict[str, str],
    accounts: Accounts,
    address: str,
) -> None:
    assert treadle("mcp", "add", "far", address).returncode == 0
    assert treadle("mcp", "add", "near", "near-server").returncode == 0
    refused = treadle("mcp", "test", "far")
    assert (refused.returncode != 0, "(`treadle mcp login far`)" in refused.stderr) == (True, True)
    assert "started by a command" in treadle("mcp", "login", "near").stderr

    command = [sys.executable, "-m", "treadle", "mcp", "login", "far"]
    process = subprocess.Popen(
        command, cwd=repository, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert "close this page" in httpx2.get(url, follow_redirects=True).text
    _, told = process.communicate()
    assert (process.returncode, "you are logged in at far" in told) == (0, True), told

    found = treadle("mcp", "test", "far")
    assert found.stdout.startswith("far__mine"), found.stderr
    token = next(one for one in accounts.valid if one.startswith("a-"))
    assert token in "".join(one.read_text() for one in find_logins(environment))
    assert "is forgotten" in treadle("mcp", "logout", "far").stderr
    assert "there was no login" in treadle("mcp", "logout", "far").stderr
    assert find_logins(environment) == []


def find_logins(environment: dict[str, str]) -> list[Path]:
    return [*Path(environment["TREADLE_HOME"]).rglob("mcp-logins/*.json")]
