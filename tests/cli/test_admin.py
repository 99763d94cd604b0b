"""`treadle admin`: who runs a server makes and disables people, in its database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct
from sqlalchemy import select

from server.databases import Templates
from treadle.cli.main import main
from treadle.errors import TreadleError
from treadle.server.accounts import tokens
from treadle.server.context import Principal
from treadle.server.data import schema
from treadle.server.data.database import Database
from treadle.server.refusals import Refusal
from treadle.store.local_store import utc_now

PLACE: Final = Path("state", "server", "server.db")


class Done(Struct, frozen=True):
    """What became of a command."""

    returncode: int
    stdout: str
    stderr: str


Admin = Callable[..., Done]


@pytest.fixture
def admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Admin:
    """The command, run in this process by the function that the console script calls."""
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["treadle", "admin", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, told.out, told.err)

    return run


@pytest.fixture
def file(tmp_path: Path, templates: Templates) -> Path:
    """The database that `treadle serve` would use."""
    found = tmp_path / "home" / PLACE
    found.parent.mkdir(parents=True)
    url = templates.copy("sqlite", found.parent)
    return Path(url.removeprefix("sqlite:///")).rename(found)


@pytest.fixture(scope="module")
def templates() -> Iterator[Templates]:
    found = Templates()
    yield found
    found.close()


def _whose(file: Path, token: str) -> Principal:
    database = Database(f"sqlite:///{file}")
    try:
        with database.read() as db:
            return tokens.identify_caller(db, token, utc_now())
    finally:
        database.dispose()


def test_quotas_are_set_listed_and_taken_away(admin: Admin, file: Path) -> None:
    assert admin("organizations", "add", "acme").returncode == 0
    assert admin("users", "add", "ada", "--organization", "acme").returncode == 0
    done = admin("users", "change", "ada", "--storage-max", "1.5 GiB", "--threads-max", "5000")
    assert done.returncode == 0, done.stderr
    assert admin("organizations", "change", "acme", "--threads-max", "9").returncode == 0
    assert "at most 5000 threads and 1.5 GiB" in admin("users", "list").stdout
    assert "at most 9 threads" in admin("organizations", "list").stdout
    [line] = [one for one in admin("usage").stdout.splitlines() if one.startswith("ada ")]
    assert line.split(None, 2)[2] == "0 threads  0 B  at most 5000 threads and 1.5 GiB"
    users = json.loads(admin("usage", "--json").stdout)["users"]
    [told] = [one for one in users if one["user"] == "ada"]
    assert (told["threads_max"], told["storage_max"]) == (5000, 3 * 2**29)
    assert admin("users", "change", "ada", "--storage-max", "any").returncode == 0
    assert "at most 5000 threads\n" in admin("users", "list").stdout
    for option, text in (
        *(("--storage-max", one) for one in ("much", "-1", "5 PiB", "1e3", "")),
        *(("--threads-max", one) for one in ("-1", "many", "1.5", "9" * 30)),
    ):
        refused = admin("users", "change", "ada", option, text)
        assert (refused.returncode, "or say any" in refused.stderr) == (2, True), (option, text)
    assert admin("organizations", "change", "acme").returncode == 2
    unknown = admin("organizations", "change", "x", "--threads-max", "1")
    assert "organizations list" in unknown.stderr


def test_an_operator_makes_people_and_gives_them_tokens(admin: Admin, file: Path) -> None:
    assert admin("organizations", "add", "Acme").returncode == 0
    made = admin("users", "add", "Ada", "--organization", "acme", "--support")
    assert (made.returncode, made.stdout) == (0, "")
    done = admin("tokens", "add", "ada", "--name", "laptop", "--expires", "90d")
    token = done.stdout.strip()
    assert done.stdout == f"{token}\n"
    assert token not in done.stderr
    found = _whose(file, token)
    assert (found.user, found.organization, found.is_support) == ("ada", "acme", True)
    assert found.token_expires_at is not None

    users = json.loads(admin("users", "list", "--json").stdout)["users"]
    assert [(user["name"], user["is_support"]) for user in users] == [("ada", True)]
    listed = admin("tokens", "list", "--user", "ada", "--json")
    lines = json.loads(listed.stdout)["tokens"]
    assert [(line["name"], line["is_revoked"]) for line in lines] == [("laptop", False)]
    assert token not in listed.stdout

    assert admin("users", "disable", "ada").returncode == 0
    with pytest.raises(Refusal):
        _whose(file, token)
    assert admin("users", "enable", "ada").returncode == 0
    assert _whose(file, token).user == "ada"
    assert admin("tokens", "revoke", str(lines[0]["id"])).returncode == 0
    with pytest.raises(Refusal):
        _whose(file, token)

    log = json.loads(admin("audit", "--json").stdout)["lines"]
    assert {line["actor"] for line in log} == {"operator"}
    assert [line["action"] for line in log][::-1] == [
        "organization_made",
        "user_made",
        "token_made",
        "user_changed",
        "user_changed",
        "token_revoked",
    ]


def test_lists_are_told_in_columns_for_people(admin: Admin, file: Path) -> None:
    admin("organizations", "add", "acme")
    admin("users", "add", "ada", "--organization", "acme", "--admin")
    admin("tokens", "add", "ada")
    assert admin("organizations", "list").stdout == "acme  1 user\n"
    assert admin("users", "list").stdout == "ada  acme  member, admin\n"
    assert admin("tokens", "list").stdout == ("1  ada  operator  until revoked  used never  all\n")
    admin("users", "change", "ada", "--role", "organization_admin", "--support")
    told = admin("users", "list").stdout
    assert told == "ada  acme  organization admin, admin, support\n"
    assert len(admin("audit").stdout.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["users", "add", "ada", "--organization", "elsewhere"],
            "admin organizations add elsewhere",
        ),
        (["users", "add", "a b", "--organization", "acme"], "that is no name"),
        (["users", "disable", "nobody"], "there is no user 'nobody'"),
        (["users", "change", "nobody"], "say what is to change"),
        (["tokens", "add", "nobody"], "treadle admin users list"),
        (["tokens", "add", "nobody", "--expires", "never"], "is no time"),
        (["tokens", "revoke", "7"], "there is no token 7"),
        (["tokens", "revoke", "0"], "0"),
        (["audit", "--limit", "0"], "0"),
        (["users", "list", "--database", "mysql://x/y"], "mysql"),
        (["users", "list", "--database", "nonsense"], "cannot be read"),
        (["users", "list", "--database", "sqlite:////nowhere/at/all.db"], "/nowhere/at/all.db"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    admin: Admin, file: Path, arguments: list[str], said: str
) -> None:
    done = admin(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert _rows(file) == []


def _rows(file: Path) -> list[object]:
    database = Database(f"sqlite:///{file}")
    try:
        with database.read() as db:
            return [*db.execute(select(schema.users)), *db.execute(select(schema.audit))]
    finally:
        database.dispose()


def test_looking_for_a_database_makes_none(admin: Admin, tmp_path: Path) -> None:
    done = admin("users", "list")
    assert done.returncode == 2
    assert "treadle serve" in done.stderr
    assert not (tmp_path / "home" / "state" / "server").exists()


def test_a_database_without_tables_is_left_as_it_is(admin: Admin, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch(mode=0o600)
    done = admin("users", "list", "--database", f"sqlite:///{empty}")
    assert done.returncode == 2
    assert "has not the tables" in done.stderr


def test_without_the_server_installed_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from treadle.cli.main import main\n"
        "sys.argv = ['treadle', 'admin', 'users', 'list']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 5
    assert 'pip install ".[server]"' in done.stderr


def test_importing_the_command_loads_nothing_of_the_server() -> None:
    program = (
        "import sys, treadle.cli.admin_command\n"
        "print([name for name in sys.modules if name.startswith(('sqlalchemy', 'treadle.server'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_an_error_of_the_command_is_one_of_ours() -> None:
    """What a `Refusal` says reaches the console script as an error it knows."""
    from treadle.app.server_operator import run_as_operator

    with pytest.raises(TreadleError):
        run_as_operator("nonsense", lambda context: None)


def test_people_are_invited_by_links(admin: Admin, file: Path) -> None:
    assert admin("organizations", "add", "acme").returncode == 0
    made = admin(
        *("invitations", "add", "--organization", "acme", "--base-url", "https://t.example/")
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("https://t.example/join/tri_")
    assert made.stderr.startswith("invitation 1 to acme, for one person, good until ")
    bare = admin("invitations", "add", "--organization", "acme", "--role", "organization_admin")
    assert bare.stdout.startswith("/join/tri_")
    assert "--base-url says it" in bare.stderr
    assert admin("invitations", "revoke", "1").returncode == 0
    listed = admin("invitations", "list").stdout.splitlines()
    assert listed[0].startswith("2  acme  organization admin  open until ")
    assert listed[1].split() == ["1", "acme", "member", "closed"]
    assert "tri_" not in "".join(listed) + admin("invitations", "list", "--json").stdout
    for arguments in (["revoke", "9"], ["add", "--organization", "x"]):
        assert admin("invitations", *arguments).returncode == 2
    assert admin("invitations", "add", "--organization", "acme", "--expires", "91d").returncode == 2


def test_a_token_is_made_for_what_it_is_for(admin: Admin, file: Path) -> None:
    admin("organizations", "add", "acme")
    admin("users", "add", "ada", "--organization", "acme")
    assert admin("tokens", "add", "ada", "--scope", "sync").returncode == 0
    assert admin("tokens", "add", "ada", "--scope", "root").returncode == 2
    listed = admin("tokens", "list", "--user", "ada").stdout.splitlines()
    assert [line.split()[-1] for line in listed] == ["sync"]


def test_a_user_is_linked_to_who_it_is_at_a_provider(admin: Admin, file: Path) -> None:
    admin("organizations", "add", "acme")
    admin("users", "add", "ada", "--organization", "acme")
    nameless = admin("identities", "add", "ada", "7f9c")
    assert (nameless.returncode, "--oidc-issuer" in nameless.stderr) == (2, True)
    made = admin("identities", "add", "ada", "7f9c", "--issuer", "https://p.example")
    assert (made.returncode, made.stderr) == (0, "7f9c at https://p.example signs in as ada\n")
    listed = admin("identities", "list").stdout.split()
    assert listed[:4] == ["1", "ada", "7f9c", "https://p.example"]
    assert json.loads(admin("identities", "list", "--json").stdout)["identities"][0]["id"] == 1
    assert admin("identities", "add", "eve", "7f9c").returncode == 2
    assert admin("identities", "remove", "1").returncode == 0
    gone = admin("identities", "remove", "1")
    assert (gone.returncode, "there is no identity 1" in gone.stderr) == (2, True)


def test_what_models_were_used_is_shown_as_a_table_for_people_and_programs(
    admin: Admin, file: Path
) -> None:
    assert "no model was asked" in admin("usage", "--models").stderr
    assert json.loads(admin("usage", "--models", "--since", "all", "--json").stdout) == {
        "lines": []
    }
    [head] = admin("usage", "--models", "--csv").stdout.splitlines()
    assert head.startswith("day,user,organization,model,requests,input_tokens")
    for wrong in (("--since", "7d"), ("--csv",)):
        refused = admin("usage", *wrong)
        assert (refused.returncode, "--models" in refused.stderr) == (2, True)
