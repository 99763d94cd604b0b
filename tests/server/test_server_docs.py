"""What docs/server.md says is so: the tables are those of the program, and the examples run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from server.chains import chain
from server.people import People
from server.running import Running
from server.test_documents import body_of
from treadle.server.accounts.access import ACCESS_RULES, CallerRelation, DeletionState
from treadle.server.context import Verb
from treadle.server.data.database import Database
from treadle.server.http.app import ENDPOINTS
from treadle.server.http.settings import MIB, ServerConfig

TEXT: Final = (Path(__file__).parents[2] / "docs" / "server.md").read_text()

WHO: Final = {
    "its owner": CallerRelation.OWNER,
    "admin of its organization": CallerRelation.ORGANIZATION_ADMIN,
    "member of its organization": CallerRelation.MEMBER,
    "anybody, also without a token": CallerRelation.EVERYONE,
    "support staff": CallerRelation.SUPPORT,
    "support staff, granted": CallerRelation.GRANTED,
}
WORDS: Final = {
    "visibility": {Verb.SET_VISIBILITY},
    "support access": {Verb.GRANT_SUPPORT},
    "ask for access": {Verb.REQUEST_SUPPORT},
    "push": {Verb.PUSH, Verb.CREATE},
    "from the start": {Verb.CREATE},
    "everything but asking for support access": {*Verb} - {Verb.REQUEST_SUPPORT},
}


def rows(head: str) -> list[list[str]]:
    """The cells of the table with this head."""
    table = TEXT.partition(f"| {head} |")[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines()[2:] if line.startswith("| ")]
    assert lines
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]


def test_the_table_of_the_api_is_that_of_the_program() -> None:
    said = [tuple(cells) for cells in rows("method and path")]
    assert said == [
        (f"`{one.method} {one.path}`", one.about, "yes" if one.is_open else "") for one in ENDPOINTS
    ]


def test_the_table_of_who_may_do_what_is_that_of_the_program() -> None:
    said: dict[tuple[CallerRelation, DeletionState], tuple[set[str], set[Verb]]] = {}
    for who, visibilities, lives, may in rows("who"):
        verbs: set[Verb] = set()
        for word in may.split(", "):
            verbs |= WORDS.get(word) or {Verb(word)}
        known = {"any": {"organization", "private", "public"}}
        seen = known.get(visibilities) or set(visibilities.split(", "))
        for life in lives.split(", "):
            said[WHO[who], DeletionState(life)] = (seen, verbs)
    assert said == {
        (rule.relation, rule.life): ({*rule.visibilities}, {*rule.verbs}) for rule in ACCESS_RULES
    }


def test_the_limits_are_those_of_the_program() -> None:
    one = ServerConfig()
    told = [
        f"{one.body_size_max // MIB} MiB (`--body-max`)",
        f"{one.body_room_max // MIB} MiB per process",
        f"{one.header_size_max // 1024} KiB, {one.header_count_max}, "
        f"{one.url_size_max // 1024} KiB",
        f"{one.rate:g} per second after a burst of {one.burst} (`--rate`)",
        f"{one.worker_count}, {one.queue_max} per process",
        f"{one.connection_count_max} per process",
        f"{one.stream_count_max} per process, {one.stream_count_max_per_user} per user",
        f"headers of a request are there | {one.header_time_s:g} s |",
        f"two requests of a connection | {one.idle_time_s:g} s |",
        f"until the body is there | {one.body_time_s:g} s, "
        f"or longer at {one.body_rate_min // 1024} KiB per second",
        f"what is under way to it | {one.write_time_s:g} s |",
        f"to read why | {one.linger_time_s:g} s |",
        f"when the server is stopped | {one.stop_time_s:g} s |",
        f"sign of life every {one.heartbeat_time_s:g} s",
    ]
    assert [line for line in told if line not in TEXT] == []


def test_the_examples_of_the_api_run(
    database: Database, database_url: str, people: People, tmp_path: Path
) -> None:
    script = re.findall(r"```\n(export T=.*?)```", TEXT, re.DOTALL)[0]
    journal = chain()
    (tmp_path / "journal.jsonl").write_bytes(journal.data)
    with Running(database_url, rate=0, heartbeat_time_s=0.3) as server:
        token = people.token("owner")
        done = run(server, token, script.replace("http://127.0.0.1:8080", server.url), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall("^id: (.*)", done.stdout, re.MULTILINE) == ["1", "2"]


def run(server: Running, token: str, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script as a person runs it, who stops what does not end once it has told two changes."""
    name = re.findall(r"DOCUMENT=(\S+)", script)[0]
    (folder / "thread.json").write_bytes(body_of(id=name))
    begin = (
        'set -e\ncurl() { if [ "$1" = -sNf ]; then\n'
        'command curl --max-time 60 "$@" | grep -m 4 -e "^id: " -e "^data: "\n'
        'else command curl "$@"; fi; echo; }\n'
    )
    return subprocess.run(
        ["bash", "-c", begin + script],
        cwd=folder,
        env={**os.environ, "TREADLE_TOKEN": token},
        capture_output=True,
        text=True,
    )
