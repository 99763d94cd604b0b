"""Secrets that get into a session come out of it nowhere: neither known values nor known formats.

The same is done with plain words, which must come out everywhere: so each look can fail.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from cli.teams import Machine, Team
from token_samples import TOKENS, dumps, secret_of
from treadle.server.http.logs import LOGGER, JsonLogFormatter

KNOWN_COUNT: Final = 10
CANARY_COUNT: Final = 50

IN_SEVERAL_LINES: Final = "private_key"

LOGGING: Final = """
import logging, sys
from treadle.cli.log_redaction import configure_logging, report_exception
word = sys.stdin.read()
configure_logging(logging.INFO)
sys.excepthook = report_exception
logging.getLogger("treadle.runtime").info("it said %s", word)
try:
    raise ValueError(word)
except ValueError:
    logging.getLogger("treadle.runtime").exception("the tool raised")
raise RuntimeError(word)
"""


def canaries() -> tuple[list[str], dict[str, str]]:
    """What is written into a session, and the environment that knows some of it."""
    dice = random.Random(50)
    known = {
        f"CANARY_{number}_API_KEY": f"Zq{dice.randbytes(9).hex()}Vw{number}"
        for number in range(KNOWN_COUNT)
    }
    kinds = [kind for kind in TOKENS if kind != IN_SEVERAL_LINES]
    shapes = [TOKENS[kind](dice) for kind in dice.sample(kinds, CANARY_COUNT - KNOWN_COUNT)]
    return [*known.values(), *shapes], known


def plain_words() -> list[str]:
    """As many words that are no secrets."""
    dice = random.Random(51)
    letters = "bcdfghklmnprst"
    return ["".join(dice.choices(letters, k=14)) for _ in range(CANARY_COUNT)]


def needle(word: str) -> bytes:
    """What must not be seen of it, as an index too may keep it: in small letters, in one piece."""
    pieces = re.findall(rb"[a-z0-9]+", secret_of(word).lower().encode())
    return max(pieces, key=len)


def seen(words: list[str], data: bytes) -> list[str]:
    """Those of the words that stand in some bytes."""
    small = data.lower()
    return [word for word in words if needle(word) in small]


def script(words: list[str]) -> str:
    """A model that says them, reads files with them, and names them in calls."""
    text = "\n".join(words)
    read = [{"tool": "read_file", "arguments": {"path": name}} for name in ("notes", "big")]
    read += [{"tool": "read_file", "arguments": {"path": f"x/{word} "}} for word in words[::10]]
    read.append({"tool": "bash", "arguments": {"command": "cat big"}})
    write = {"tool": "write_file", "arguments": {"path": "made", "content": text}}
    said = f"They are:\n{text}\n"
    replies = [{"text": said, "calls": [*read, write]}, {"text": f"Once more:\n{text}\n"}]
    return json.dumps({"replies": replies})


def bytes_of(folder: Path, pattern: str) -> bytes:
    """All that files hold, with their names."""
    files = [path for path in sorted(folder.rglob(pattern)) if path.is_file()]
    assert files, pattern
    return b"\n".join(path.name.encode() + b"\n" + path.read_bytes() for path in files)


def exits(
    team: Team, machine: Machine, words: list[str], known: dict[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Every way out of a session in which the words were met: its name, and what came out."""
    text = "\n".join(words)
    (machine.folder / "notes").write_text(text)
    filler = "nothing to see here\n" * 1000
    (machine.folder / "big").write_text(f"{filler}{text}\n{filler}")
    (machine.folder / "script.json").write_text(script(words))
    token = team.token()
    machine.login(team, token)

    def said(*arguments: str, stdin: str | None = None) -> bytes:
        return machine.ok(*arguments, stdin=stdin, **known).encode()

    model = ("-m", f"scripted:{machine.folder / 'script.json'}", "--approval-mode", "auto")
    yield "stream-json", said("-p", text, *model, "--output-format", "stream-json")
    thread = machine.threads()[0]["id"]
    yield "title", machine.threads()[0]["title"].encode()
    yield "text", said("-p", f"{words[-1]} again", *model)
    said("rename", thread, f"about {words[0]} {words[-1]}")
    said("tag", thread, *words[:2])
    said("note", thread, "-", stdin=text)
    said("sync")
    data = machine.home / "data"
    yield "journal", bytes_of(data / "threads", f"{thread}.jsonl")
    yield "snapshot", bytes_of(data / "threads", f"{thread}.json")
    said("list")
    yield "index", bytes_of(data, "index.sqlite*")
    yield "outputs", bytes_of(data / "blobs", "*")
    yield "all files", bytes_of(machine.home, "*")
    yield "list", said("list", "--json")
    yield "show", said("show", thread)
    yield "show --json", said("show", thread, "--json")
    yield "search", said("search", "made", "--json")
    yield "watch", said("watch", thread, "--json", "--from", "1")
    for form in ("json", "jsonl", "markdown", "html"):
        yield f"export {form}", said("export", thread, "--format", form)
    link = said("share", thread, "--link").decode().strip()
    yield "share page", team.running.ask("GET", link.removeprefix(team.url)).body
    secret = link.rpartition("/")[2]
    shared = team.running.ask("GET", f"/api/threads/{thread}/share/{secret}")
    assert shared.status == 200
    yield "share as JSON", shared.body
    records = team.running.ask("GET", f"/api/threads/{thread}/records", token)
    assert records.status == 200
    yield "synced records", records.body
    yield "document", team.running.ask("GET", f"/api/threads/{thread}", token).body
    database = Path(team.database.removeprefix("sqlite:///"))
    yield "server's database", bytes_of(database.parent, f"{database.name}*")
    yield from processes(machine, text, known)


def processes(machine: Machine, text: str, known: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """What is said on stderr of failures, in processes of their own."""
    commands = {
        "error": ["-m", "treadle", "-vv", "show", text],
        "usage": ["-m", "treadle", "-vv", "-p", "x", "--output-format", text],
        "model": [
            "-m",
            "treadle",
            "-v",
            "-p",
            "x",
            "-m",
            f"scripted:{' '.join(text.split()[-3:])}",
        ],
        "log and crash": ["-c", LOGGING],
    }
    environment = {**machine.environment, "TREADLE_HOME": str(machine.home), **known}
    for name, arguments in commands.items():
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=machine.folder,
            env=environment,
            input=text.encode(),
            capture_output=True,
            timeout=60,
        )
        assert ended.returncode != 0
        yield name, ended.stdout + ended.stderr


def test_secrets_come_out_nowhere(team: Team, laptop: Machine) -> None:
    words, known = canaries()
    assert len({needle(word) for word in words}) == CANARY_COUNT
    found = {name: seen(words, data) for name, data in exits(team, laptop, words, known)}
    assert len(found) >= 12
    assert {name: leaked for name, leaked in found.items() if leaked} == {}


def test_plain_words_come_out_everywhere(team: Team, laptop: Machine) -> None:
    words = plain_words()
    found = {name: seen(words, data) for name, data in exits(team, laptop, words, {})}
    assert [name for name, shown in found.items() if not shown] == []


def test_nothing_that_was_sent_is_in_the_logs_of_the_server(
    team: Team, laptop: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    words, _ = canaries()
    caplog.set_level(logging.DEBUG, LOGGER.name)
    token = team.token()
    for word in words:
        team.running.ask("GET", f"/api/threads/{needle(word).decode()}", token)
        team.running.ask("GET", f"/api/threads/search?q={needle(word).decode()}", token)
        team.running.ask("PUT", "/api/threads/x/records", token, word.encode())
    told = [record for record in caplog.records if record.name == LOGGER.name]
    lines = "\n".join(map(JsonLogFormatter().format, told)).encode()
    assert lines.count(b"/api/threads/search") >= len(words)
    assert seen([*words, token], lines) == []


VARIABLES: Final = (
    *(
        "ACME_API_KEY",
        "GH_TOKEN",
        "GITHUB_PAT",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SMTP_PASS",
        "SSHPASS",
    ),
    *("DBPASS", "ROOTPW", "LDAP_BINDPW", "APIKEYS", "BUNDLE_GEMS__EXAMPLE__COM"),
    *("BW_SESSION", "OP_SESSION_ada", "SENTRY_DSN", "APP_JWT", "NPM_CONFIG__AUTH", "DB_PASS2"),
    *("CLIENT_SECRET", "SIGNING_KEY", "SESSION_COOKIE", "GPG_PASSPHRASE", "SOME_CREDENTIALS"),
)
USER_FILES: Final = {
    ".aws/credentials": "[default]\naws_secret_access_key = {}\n",
    ".cargo/credentials.toml": '[registry]\ntoken = "{}"\n',
    ".claude/.credentials.json": '{{"claudeAiOauth": {{"accessToken": "{}"}}}}',
    ".codex/auth.json": '{{"tokens": {{"access_token": "{}"}}}}',
    ".composer/auth.json": '{{"github-oauth": {{"oauth_token": "{}"}}}}',
    ".config/gcloud/application_default_credentials.json": '{{"client_secret": "{}"}}',
    ".config/gh/hosts.yml": (
        "github.com:\n    users:\n        ada:\n            oauth_token: {}\n    user: ada\n"
    ),
    ".config/git/credentials": "https://ada:{}@git.example\n",
    ".config/glab-cli/config.yml": "hosts:\n  gitlab.com:\n    token: !!null {}\n",
    ".config/hcloud/cli.toml": '[[contexts]]\ntoken = "{}"\n',
    ".config/pip/pip.conf": "[global]\nindex-url = https://ada:{}@pypi.example/simple\n",
    ".config/rclone/rclone.conf": "[x]\nsecret_access_key = {}\n",
    ".databrickscfg": "[DEFAULT]\ntoken = {}\n",
    ".docker/config.json": '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}',
    ".gem/credentials": "---\n:rubygems_api_key: {}\n",
    ".gemini/oauth_creds.json": '{{"refresh_token": "{}"}}',
    ".git-credentials": "https://ada:{}@git.example\n",
    ".gradle/gradle.properties": "nexusPassword={}\n",
    ".kube/config": "users:\n- name: ada\n  user:\n    token: {}\n",
    ".local/share/opencode/auth.json": '{{"acme": {{"type": "api", "key": "{}"}}}}',
    ".m2/settings.xml": "<server><id>x</id><password>{}</password></server>",
    ".my.cnf": "[client]\npassword={}\n",
    ".netrc": "machine git.example login ada password {}\n",
    ".npmrc": "//registry.example/:_authToken={}\n",
    ".pgpass": "db.example:5432:*:ada:{}\n",
    ".pypirc": "[pypi]\nusername = ada\npassword = {}\n",
    ".s3cfg": "secret_key = {}\n",
    ".terraform.d/credentials.tfrc.json": (
        '{{"credentials": {{"app.terraform.io": {{"token": "{}"}}}}}}'
    ),
    ".vault-token": "{}",
    ".yarnrc.yml": 'npmAuthIdent: "ada:{}"\n',
    ".cache/huggingface/token": "{}\n",
    ".authinfo": 'machine git.example login ada password "{}"\n',
    ".bundle/config": '---\nBUNDLE_GEMS__EXAMPLE__COM: "ada:{}"\n',
    ".config/composer/auth.json": '{{"github-oauth": {{"github.com": "{}"}}}}',
    ".config/containers/auth.json": '{{"auths": {{"r.example": {{"identitytoken": "{}"}}}}}}',
    ".config/netlify/config.json": '{{"users": {{"1": {{"auth": {{"token": "{}"}}}}}}}}',
    ".azure/msal_token_cache.json": '{{"RefreshToken": {{"x": {{"secret": "{}"}}}}}}',
    ".boto": "[Credentials]\ngs_oauth2_refresh_token = {}\n",
    ".config/hub": "github.com:\n- user: ada\n  oauth_token: {}\n",
    ".fly/config.yml": "access_token: {}\n",
    ".local/share/gem/credentials": "---\n:https://gems.example: {}\n",
    ".terraformrc": 'credentials "app.terraform.io" {{\n  token = "{}"\n}}\n',
    ".nuget/NuGet/NuGet.Config": '<add key="ClearTextPassword" value="{}" />\n',
    ".pulumi/credentials.json": '{{"accessTokens": {{"https://api.example": "{}"}}}}',
    "elsewhere/kube": "users:\n- name: bob\n  user:\n    token: {}\n",
    "keys/acme": "{}\n",
    "keys/other": "{}\n",
}
PROJECT_FILES: Final = {
    ".env": "ACME_TOKEN={}\n",
    ".env.local": "# mine\nexport OTHER_SECRET='{}'\n",
    ".envrc": "export DEPLOY_KEY={}\n",
    "apps/web/.env.production": "SESSION_SECRET={}\n",
    "staging.env": "ADMIN_PASSWORD={}\n",
    "odd/.env": "A_TOKEN={}\n",
    "odd/.env.comment": "A_TOKEN={}  # it is new\n",
    "odd/.env.quoted": "A_TOKEN='{}'\nB=1\n",
    "odd/.env.backtick": "export A_TOKEN=`{}`\n",
}
ODD: Final = ",&;'x$Y\"z"
"""What is put into the values of those that are odd: marks of shells, of JSON and of lists."""


def planted(machine: Machine) -> tuple[dict[str, str], dict[str, str]]:
    """Secrets wherever this machine keeps some, by where each is; and the environment with them."""
    dice = random.Random(60)
    values: dict[str, str] = {}

    def value(place: str, middle: str = "+") -> str:
        return values.setdefault(
            place,
            f"Cq7{dice.randbytes(4).hex()}{middle}{dice.randbytes(4).hex()}Vx{len(values):02}",
        )

    environment = {name: value(name) for name in VARIABLES}
    environment["JDBC_URL"] = f"jdbc:postgresql://db/x?user=ada&password={value('JDBC_URL')}"
    environment["DATABASE_URL"] = f"postgres://ada:{value('DATABASE_URL')}@db/x"
    environment["BROKER"] = f"Endpoint=sb://x;SharedAccessKeyName=r;Password={value('BROKER')}"
    home = Path(machine.environment["HOME"])
    environment["KUBECONFIG"] = str(home / "elsewhere/kube")
    for folder, files in ((home, USER_FILES), (machine.folder, PROJECT_FILES)):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            odd = ODD.replace("'", "") if "quoted" in name else ODD
            path.write_text(text.format(value(name, odd if name.startswith("odd/") else "+")))
    settings = machine.home / "config" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        "".join(
            f'[providers.{name}]\napi = "openai-chat"\nbase_url = "https://{name}.example/v1"\n'
            f'key_file = "{home}/keys/{name}"\n'
            for name in ("acme", "other")
        )
    )
    return values, environment


def encodings(value: str) -> dict[str, str]:
    """A secret as it is, and in each form that is one step away and is promised to be known."""
    data = value.encode()
    around = b"nothing to see here: " + data + b"\nthe rest of it"
    long = base64.b64encode(b"nothing to see here, and " * 2 + data + b"\nthe rest of it").decode()
    return {
        "plain": value,
        "base64": base64.b64encode(data + b"\n").decode(),
        "base64 for URLs": base64.urlsafe_b64encode(b"a:" + data).decode(),
        "base64 in lines": "\n".join(long[at : at + 76] for at in range(0, len(long), 76)),
        "hex": data.hex(),
        "percent": quote(value, safe=""),
        **{name: "\n".join(line for _, line in lines) for name, lines in dumps(around).items()},
        "JSON in JSON": json.dumps(json.dumps({"k": value})),
        "URL": f"https://{value}x7Yz@git.example/x.git",
    }


def test_what_this_machine_keeps_is_in_no_file_and_in_no_answer(laptop: Machine) -> None:
    values, environment = planted(laptop)
    assert len(values) >= 60
    forms = {
        (place, form): text
        for place, value in values.items()
        for form, text in encodings(value).items()
    }
    (laptop.folder / "notes").write_text("\n\n".join(forms.values()))
    replies = [
        {"calls": [{"tool": "bash", "arguments": {"command": "cat notes; env"}}]},
        {"calls": [{"tool": "read_file", "arguments": {"path": "notes"}}]},
        {"text": "They are:\n\n" + "\n\n".join(forms.values())},
    ]
    (laptop.folder / "script.json").write_text(json.dumps({"replies": replies}))
    script_file = f"scripted:{laptop.folder / 'script.json'}"
    said = laptop.ok("-p", "go", "-m", script_file, "--approval-mode", "auto", **environment)
    kept = said.encode() + bytes_of(laptop.home / "data", "*")
    left = [
        f"{place} as {form}"
        for (place, form), text in forms.items()
        if any(piece.encode() in kept for piece in pieces(text, values[place], form))
    ]
    assert left == []


def pieces(text: str, value: str, form: str) -> list[str]:
    """What must not be seen of a secret in some form: it, or a line of it."""
    around = b"nothing to see here: " + value.encode() + b"\nthe rest of it"
    if form in dumps(around):
        return [line.strip() for part, line in dumps(around)[form] if part in value.encode()]
    if not form.startswith("base64"):
        return [text if form in ("hex", "percent") else value]
    joined = text.replace("\n", "")
    start = base64.b64decode(joined.translate(str.maketrans("-_", "+/"))).index(value.encode())
    first, last = -(-8 * start // 6), 8 * (start + len(value)) // 6
    line_length = text.find("\n") if "\n" in text else len(text)
    places = [first, *range(line_length, last, line_length), last]
    return [joined[a:b] for a, b in pairwise(places) if b - a >= 8]


def test_neither_the_model_nor_the_journal_is_given_a_token_of_a_prompt(laptop: Machine) -> None:
    token = TOKENS["github_token"](random.Random(5))
    mark = "[REDACTED:github_token]"
    seen_clean = {"when": {"user": "^use .REDACTED:github_token. now$"}, "text": "It is hidden."}
    told = json.dumps({"replies": [seen_clean, {"when": {"user": "gh._"}, "text": "I saw it."}]})
    (laptop.folder / "script.json").write_text(told)
    script_file = f"scripted:{laptop.folder / 'script.json'}"
    assert laptop.ok("-p", f"use {token} now", "-m", script_file) == "It is hidden.\n"
    journal = laptop.journal(laptop.threads()[0]["id"])
    assert mark.encode() in journal
    assert needle(token) not in journal.lower()
