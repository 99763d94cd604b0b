"""Servers of tools in the settings: a person's own, and those that a project brings along."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from config.conftest import Desk
from token_samples import TOKENS
from treadle.app.project_trust import read_project_files
from treadle.config.loader import check_project_file
from treadle.config.mcp_servers import (
    ServerSetting,
    ToolSetting,
    fill_in_variables,
    is_server_name,
)
from treadle.config.project_file import SERVERS_NAME, find_project_file
from treadle.config.project_trust import distrust_project, trust_project
from treadle.errors import ConfigError, UsageError

Mistake = Callable[[str], str]
TOKEN = TOKENS["anthropic_key"](random.Random(1))


def write_servers(desk: Desk, servers: Any, *, is_trusted: bool = True) -> None:
    text = servers if isinstance(servers, str) else json.dumps({"mcpServers": servers})
    (desk.project / SERVERS_NAME).write_text(text)
    if is_trusted:
        files = read_project_files(desk.project, desk.places)
        trust_project(desk.places, files.settings, files.prompts, files.servers)


def test_what_a_person_says_of_servers_is_read_and_what_may_be_secret_is_not_shown(
    desk: Desk,
) -> None:
    desk.write_user("""
[mcp.files]
command = "npx"
args = ["-y", "files", "."]
env = { TOKEN = "${FILES_TOKEN}", LEVEL = "info" }
network = true
tools = { "*" = { effect = "read", risk = "low" }, write = { risk = "high" } }

[mcp.issues]
url = "https://example.com/mcp?team=1"
headers = { Authorization = "Bearer ${ISSUES:-}" }
enabled = false
""")
    loaded = desk.load()
    assert loaded.settings.mcp == {
        "files": ServerSetting(
            "npx",
            ("-y", "files", "."),
            {"TOKEN": "${FILES_TOKEN}", "LEVEL": "info"},
            network=True,
            tools={"*": ToolSetting("read", "low"), "write": ToolSetting(risk="high")},
        ),
        "issues": ServerSetting(
            url="https://example.com/mcp?team=1",
            headers={"Authorization": "Bearer ${ISSUES:-}"},
            enabled=False,
        ),
    }
    assert loaded.project_servers == frozenset()
    hidden = [key for key, value in loaded.values.items() if value == "(set, not shown)"]
    assert hidden == [
        *("mcp.files.args", "mcp.files.env.TOKEN", "mcp.files.env.LEVEL"),
        *("mcp.issues.url", "mcp.issues.headers.Authorization"),
    ]
    assert loaded.values["mcp.files.tools.write.risk"] == "high"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('command = "a"\nurl = "https://h/"', "has a command and a url: give one of them"),
        ('env = { GITHUB_TOKEN = "abc" }', "one that is a secret names another: ${NAME}"),
        (f'env = {{ A = "{TOKEN}" }}', "names another: ${NAME}"),
        ('env = { "A=B" = "c" }', "must be a table of variables"),
        ('headers = { Authorization = "Bearer abc" }', "a secret names a variable: ${NAME}"),
        (f'args = ["--key={TOKEN}"]', "by its variable: ${NAME}"),
        (f'args = ["--key=${{KEY:-{TOKEN}}}"]', "by its variable: ${NAME}"),
        ('url = "https://ada:secret@h/mcp"', "with what is secret in it as ${NAME}"),
        ('url = "file:///etc/passwd"', "an address like https://HOST/mcp"),
        ('tools = { read = { effect = "none" } }', "must be a table of tools"),
        ('tools = { read = { effects = "read" } }', "must be a table of tools"),
        ('comand = "a"', "did you mean command?"),
        ("args = 1", "must be a list of words"),
    ],
)
def test_what_does_not_hold_is_told_in_one_line(mistake: Mistake, row: str, said: str) -> None:
    assert said in mistake(f"[mcp.one]\n{row}\n")


def test_names_are_those_that_a_server_of_the_library_may_have(mistake: Mistake) -> None:
    assert [name for name in ("a", "A-b_c", "0", "a" * 32) if not is_server_name(name)] == []
    bad = ("", "_a", "a_", "a__b", "a.b", "a b", "a" * 33, "é")
    assert [name for name in bad if is_server_name(name)] == []
    assert "the key must be a name of letters" in mistake('[mcp."a b"]\ncommand = "x"\n')


def test_variables_are_filled_in_and_one_that_is_not_there_is_named() -> None:
    environ = {"HERE": "yes", "EMPTY": "", "KEY": "k"}
    told = {
        "plain $HERE {x}": "plain $HERE {x}",
        "${HERE} and ${HERE}": "yes and yes",
        "${GONE:-else} ${GONE:-}": "else ",
        "${EMPTY:-else}": "else",
        "${HERE:-else}": "yes",
    }
    assert {text: fill_in_variables(text, environ) for text in told} == told
    for text in ("${GONE}", "${EMPTY}"):
        with pytest.raises(UsageError, match="is not set"):
            fill_in_variables(text, environ)
    with pytest.raises(UsageError, match="KEY is a key of a provider"):
        fill_in_variables("${KEY:-x}", environ, frozenset({"KEY"}))


# ---- a project's -------------------------------------------------------------------------------

FILES = {"command": "npx", "args": ["files"], "env": {"TOKEN": "literal"}}


def test_the_servers_of_a_project_count_once_their_file_was_looked_at(desk: Desk) -> None:
    write_servers(desk, {"files": FILES}, is_trusted=False)
    loaded = desk.load()
    path = desk.project / ".mcp.json"
    assert loaded.settings.mcp == {}
    assert loaded.notices == (
        f"{path} is not used: nobody has trusted it yet; `treadle config trust` looks at it",
    )
    write_servers(desk, {"files": FILES})
    loaded = desk.load()
    assert loaded.settings.mcp == {"files": ServerSetting("npx", ("files",), {"TOKEN": "literal"})}
    assert (loaded.notices, loaded.project_servers) == ((), {"files"})
    assert loaded.origins["mcp.files.command"] == str(path)
    assert loaded.values["mcp.files.env.TOKEN"] == "(set, not shown)"

    write_servers(desk, {"files": {**FILES, "args": ["other"]}}, is_trusted=False)
    loaded = desk.load()
    assert loaded.settings.mcp == {}
    assert "it changed since it was trusted" in loaded.notices[0]
    write_servers(desk, {"files": FILES}, is_trusted=False)
    assert desk.load().settings.mcp != {}, "it is as it was looked at"
    assert distrust_project(desk.places, desk.project)
    assert desk.load().settings.mcp == {}


def test_who_trusts_servers_trusts_no_settings_and_the_other_way_round(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n", is_trusted=False)
    write_servers(desk, {"files": FILES}, is_trusted=False)
    servers = find_project_file(desk.project, SERVERS_NAME)
    trust_project(desk.places, None, servers=servers)
    loaded = desk.load()
    assert (loaded.settings.max_steps, [*loaded.settings.mcp]) == (None, ["files"])
    assert [one for one in loaded.notices if "config.toml is not used" in one] != []
    distrust_project(desk.places, desk.project)
    trust_project(desk.places, find_project_file(desk.project))
    loaded = desk.load()
    assert (loaded.settings.max_steps, [*loaded.settings.mcp]) == (3, [])


def test_what_of_a_file_of_other_agents_cannot_be_used_is_told_and_the_rest_is_used(
    desk: Desk,
) -> None:
    desk.write_user('[mcp.mine]\ncommand = "own"\n')
    write_servers(
        desk,
        {
            "files": {**FILES, "cwd": "/x", "timeout": 3},
            "off": {"type": "http", "url": "https://h.example/mcp", "disabled": True},
            "by-variable": {"url": "${BASE}/mcp"},
            "mine": FILES,
            "bad name": FILES,
            "old": {"type": "sse", "url": "https://h.example/sse"},
            "none": {},
            "both": {"command": "x", "url": "https://h.example"},
            "odd": {"command": ["x"]},
            "text": "x",
        },
    )
    loaded = desk.load()
    assert [*loaded.settings.mcp] == ["mine", "files", "off", "by-variable"]
    assert loaded.settings.mcp["mine"].command == "own", "the person's own comes first"
    assert not loaded.settings.mcp["off"].enabled
    assert loaded.project_servers == {"files", "off", "by-variable"}
    about = {"'bad name'", "'old'", "'none'", "'both'", "'odd'", "'text'", "mine"}
    assert {
        line.split("the server ")[1].split(" is not used")[0] for line in loaded.notices
    } == about
    for text in ("[]", "{}", '{"mcpServers": []}', "{", "\x00"):
        write_servers(desk, text, is_trusted=False)
        file = find_project_file(desk.project, SERVERS_NAME)
        assert file is not None
        with pytest.raises(ConfigError, match='no JSON object with a table "mcpServers"'):
            check_project_file(file, desk.environ)


def test_a_project_may_not_say_what_its_servers_do_unasked_nor_change_a_persons_own(
    desk: Desk,
) -> None:
    desk.write_user('[mcp.mine]\ncommand = "own"\n\n[mcp.theirs]\nnetwork = true\n')
    desk.write_project('[mcp.theirs]\nurl = "https://h.example/mcp"\n')
    loaded = desk.load()
    assert loaded.settings.mcp["theirs"] == ServerSetting(url="https://h.example/mcp", network=True)
    assert loaded.project_servers == {"theirs"}
    for text in (
        '[mcp.theirs]\ncommand = "x"\nnetwork = true\n',
        '[mcp.theirs]\ncommand = "x"\ntools = { "*" = { effect = "read" } }\n',
        '[mcp.theirs]\ncommand = "x"\nwrite = true\n',
        '[mcp.mine]\ncommand = "x"\n',
        "[mcp.mine]\nenabled = true\n",
    ):
        desk.write_project(text)
        with pytest.raises(ConfigError, match="a project's file may not"):
            desk.load()


def test_a_link_for_the_file_of_servers_is_not_followed(desk: Desk) -> None:
    (desk.project / "elsewhere").write_text(json.dumps({"mcpServers": {"files": FILES}}))
    (desk.project / SERVERS_NAME).symlink_to(desk.project / "elsewhere")
    loaded = desk.load()
    assert loaded.settings.mcp == {}
    assert "a symbolic link; it is not used" in loaded.notices[0]
