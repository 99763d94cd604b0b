"""Which servers of tools a session may use, by settings and environment, and their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.conftest import Desk
from config.test_mcp_servers import write_servers
from treadle.app.tool_servers.configured import find_tool_server, list_secrets, list_tool_servers
from treadle.app.tool_servers.session_servers import NOT_INSTALLED, make_session_servers
from treadle.errors import UsageError
from treadle.tools.registry import Registry


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def states(desk: Desk, **environ: str) -> dict[str, tuple[str, str]]:
    loaded = desk.load(**environ)
    listed = list_tool_servers(loaded, {**desk.environ, **environ})
    return {one.name: (one.state, one.problem) for one in listed}


def test_a_server_is_used_if_nothing_is_missing_and_the_settings_allow_it(desk: Desk) -> None:
    servers = (
        '[mcp.a]\ncommand = "x"\n[mcp.b]\nurl = "https://h.example/mcp"\n'
        '[mcp.c]\ncommand = "x"\nnetwork = true\n[mcp.d]\nurl = "http://127.0.0.1:1/mcp"\n'
        '[mcp.e]\ncommand = "x"\nenabled = false\n[mcp.f]\nwrite = true\n'
    )
    desk.write_user(servers)
    used = ("used", "")
    assert states(desk) == {"a": used, "b": used, "c": used, "d": used, "e": ("off", "")}
    desk.write_user(f'network = "off"\n{servers}')
    off = ("refused", 'it reaches the network, which network = "off" forbids')
    assert states(desk) == {"a": used, "b": off, "c": off, "d": used, "e": ("off", "")}
    desk.write_user(f"local_only = true\n{servers}")
    elsewhere = ("refused", "it is not on this machine, and local_only allows no other")
    assert states(desk) == {"a": used, "b": elsewhere, "c": used, "d": used, "e": ("off", "")}


def test_no_server_of_a_project_gets_the_key_of_a_provider(desk: Desk) -> None:
    desk.write_user('[mcp.mine]\ncommand = "x"\nenv = { KEY = "${ANTHROPIC_API_KEY}" }\n')
    asked = {"command": "x", "env": {"A": "${ANTHROPIC_API_KEY:-}"}}
    sent = {"url": "https://h.example/${OPENAI_API_KEY}"}
    other = {"command": "x", "env": {"A": "${ISSUES_TOKEN}"}}
    write_servers(desk, {"asked": asked, "sent": sent, "other": other})
    keys = {"ANTHROPIC_API_KEY": "k1", "OPENAI_API_KEY": "k2", "ISSUES_TOKEN": "k3"}
    why = "is a key of a provider, which no server of a project gets"
    assert states(desk, **keys) == {
        "asked": ("refused", f"ANTHROPIC_API_KEY {why}"),
        "mine": ("used", ""),
        "other": ("used", ""),
        "sent": ("refused", f"OPENAI_API_KEY {why}"),
    }


def test_what_a_server_is_given_that_is_secret_is_kept_out_of_texts(desk: Desk) -> None:
    desk.write_user(
        '[mcp.a]\ncommand = "x"\nenv = { API_TOKEN = "${MINE}", LEVEL = "info" }\n'
        '[mcp.b]\nurl = "https://h.example"\nheaders = { Authorization = "Bearer ${MINE}" }\n'
    )
    environ = {"MINE": "hunter2-hunter2"}
    found = list_secrets(list_tool_servers(desk.load(**environ), environ))
    assert {*found.values()} == {"hunter2-hunter2", "Bearer hunter2-hunter2"}


def test_a_session_without_servers_has_its_own_tools_and_nothing_else(desk: Desk) -> None:
    registry = Registry([])
    servers = make_session_servers(desk.load(), desk.environ, desk.places, str(desk.project))
    assert servers.join(registry) is registry
    assert (servers.report(), servers.notices, servers.owns("search_tools")) == ((), (), False)
    with pytest.raises(UsageError, match="no server is called x"):
        find_tool_server(desk.load(), desk.environ, "x")


def test_where_the_protocol_is_not_installed_it_is_said_and_the_session_works(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write_user('[mcp.a]\ncommand = "x"\n')
    module = "treadle.app.tool_servers.session_servers.find_spec"
    monkeypatch.setattr(module, lambda name: None)
    servers = make_session_servers(desk.load(), desk.environ, desk.places, str(desk.project))
    assert servers.notices == (NOT_INSTALLED,)
    registry = Registry([])
    assert servers.join(registry) is registry
    assert [one.words for one in servers.report()] == ["not used"]
