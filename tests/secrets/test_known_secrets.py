"""Which names speak of secrets, which values are secrets, and where they are kept."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from processor_time import slow
from treadle.secrets.assignments import find_in_text
from treadle.secrets.credentials import is_telling, names_a_credential
from treadle.secrets.known_secrets import FILE_SIZE_MAX, find_in_files, find_project_files
from treadle.secrets.redaction import SECRET_COUNT_MAX, collect_secrets

TOKEN = "tok_7Hq2LmZx9RvB4"
OTHER = "pw-5TgB6yHn7UjM8"


CREDENTIAL_NAMES: Final = [
    *("OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GH_TOKEN", "GITHUB_PAT", "AWS_SECRET_ACCESS_KEY"),
    *("PGPASSWORD", "AWS_SESSION_TOKEN", "DB_PASSWD", "MYSQL_PWD", "APIKEY", "apiKey"),
    *("accessToken", "_authToken", "oauth_token", "password", "client-secret", "client_secret"),
    *("private_key", "SIGNING_KEYS", "SMTP_PASS", "GPG_PASSPHRASE", "CREDENTIALS"),
    *("SLACK_WEBHOOK_URL", "NPM_AUTH", "client-key-data", "aws.secretKey", "BEARER", "secret"),
    *("DBPASS", "ROOTPW", "LDAP_BINDPW", "BINDPWD", "APIKEYS", "DBCREDENTIALS", "LDAP_CREDS"),
    *("SESSIONCOOKIE", "npmAuthIdent", "npmAuthToken", "BUNDLE_GEMS__EXAMPLE__COM"),
    *("BUNDLE_GEM__FURY__IO", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
]


def test_these_names_speak_of_secrets() -> None:
    assert [name for name in CREDENTIAL_NAMES if not names_a_credential(name)] == []


OTHER_NAMES: Final = [
    *("PATH", "HOME", "USER", "SHELL", "SSH_AUTH_SOCK", "AWS_ACCESS_KEY_ID", "GIT_AUTHOR_NAME"),
    *("GIT_AUTHOR_EMAIL", "GOOGLE_CREDENTIALS_FILE", "TOKEN_LIMIT", "SSL_KEY_PATH", "PUBLIC_KEY"),
    *("NEXT_PUBLIC_API_KEY", "KEYBOARD_LAYOUT", "COMPASS", "BYPASS_CHECK", "AUTHOR", "XAUTHORITY"),
    *("TOKENIZERS_PARALLELISM", "PATTERN", "SSH_PUB_KEY", "PASSWORD_MODE", "TOKEN_TTL", "MONKEYS"),
    *("HOTKEY", "SSH_ASKPASS", "SURPASS", "INIT_STARTPWD", "BUNDLE_BUILD__PG", "BUNDLE_GEM__TEST"),
    *("BUNDLE_JOBS", "AUTH_TYPE", "SECRET_NAME", "_", "1"),
]


def test_these_names_do_not() -> None:
    assert [name for name in OTHER_NAMES if names_a_credential(name)] == []


SECRETS: Final = [
    TOKEN,
    "sk-proj-abcdefghijklmnop1234",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "/wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "deadbeefdeadbeefdeadbeefdeadbeef",
    "0b0e6f4c-5a84-4d5e-9d0c-33cf4f3b8ad7",
    "hunter2hunter2",
    "correct horse battery staple",
    "correct-horse-battery-staple",
    "abcdefghijklmnop",
    "aBcDeFgHiJ",
    "Tr0ub4dor&3",
    "1234567890123456",
    "P@ss.word1",
    "p/w:x@y!",
    "$s3cret9word",
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----",
]


def test_these_values_are_secrets() -> None:
    assert [value for value in SECRETS if not is_telling(value)] == []


OTHER_VALUES: Final = [
    "",
    "short7!",
    "production",
    "PRODUCTION",
    "Password",
    "password",
    "disabled",
    "undefined",
    "my-service",
    "my-service-account",
    "Hello World",
    "your-api-key",
    "YOUR_API_KEY_HERE",
    "not configured",
    "config/server.key",
    "keys/server1.pem",
    "/etc/ssl/private/key1",
    "~/.ssh/id_ed25519",
    "./secrets/db1",
    "12345678",
    "1.234.567.890",
    "2026-11-21T08:15:30Z",
    "10.0.0.1:8080",
    "db1.internal.example.com",
    "auth.example.com:443",
    "localhost:5432",
    "https://auth.example.com/login?x=1",
    "postgres://ada:hunter2hunter2@db/x",
    "$OPENAI_API_KEY",
    "${OPENAI_API_KEY}",
    "$(pass show github/7)",
    "`aws ecr get-login-2`",
    "<your key here 1>",
    "{{ secrets.KEY1 }}",
    "********",
    "xxxxxxxxxxxx",
    "abab1abab1abab1"[:8].replace("1", "a"),
    "x7" * 10_000,
]


def test_these_values_are_not() -> None:
    assert [value for value in OTHER_VALUES if is_telling(value)] == []


@given(st.text(max_size=200))
def test_any_value_is_judged_and_any_text_is_read(text: str) -> None:
    assert is_telling(text) in (True, False)
    assert all(is_telling(value) for value in find_in_text(text))


TEXTS: Final = [
    (f"machine h login ada password {TOKEN}\n", [TOKEN]),
    (f"machine h\n  login ada\n  password {TOKEN}\n", [TOKEN]),
    (f"https://ada:{TOKEN}@host.example\nhttps://bob:{OTHER}@host\n", [TOKEN, OTHER]),
    (f"https://{TOKEN}1234567890@host.example/x", [f"{TOKEN}1234567890"]),
    ("https://a-person@host.example/x", []),
    ("redis://:p%40ss-w0rd9@host", ["p@ss-w0rd9", "p%40ss-w0rd9"]),
    (f"[default]\naws_access_key_id = AKIA7\naws_secret_access_key = {TOKEN}\n", [TOKEN]),
    (f"github.com:\n    user: ada\n    oauth_token: {TOKEN}\n", [TOKEN]),
    (f"//registry.npmjs.org/:_authToken={TOKEN}\n", [TOKEN]),
    (f'[registry]\ntoken = "{TOKEN}"\n', [TOKEN]),
    (f"export API_KEY='{TOKEN}' # comment\n", [TOKEN]),
    (f"AccountName=x;AccountKey={TOKEN};EndpointSuffix=y", [TOKEN]),
    (f"host=db user=ada password={TOKEN} sslmode=on", [TOKEN]),
    (json.dumps({"a": {"refreshToken": TOKEN, "expires": 1}}), [TOKEN]),
    (
        json.dumps({"private_key": "-----BEGIN\nx7\n"}),
        ["-----BEGIN\\nx7\\n", "-----BEGIN\nx7"],
    ),
    ("password = production\ntoken: null\nkey:\n", []),
    (f"github.com:\n    users:\n        ada:\n            oauth_token: {TOKEN}\n", [TOKEN]),
    (f"users:\n- name: ada\n  user:\n    token: {TOKEN}\n", [TOKEN]),
    (f"auth:\n  password: |-\n    {TOKEN}\n", [TOKEN]),
    (f"<server><id>x</id><password>{TOKEN}</password></server>", [TOKEN]),
    (f"session_cookie = {TOKEN}\ndsn: {OTHER}\npass2={TOKEN}\n", [TOKEN, OTHER]),
]


def test_texts_of_names_and_values_are_read() -> None:
    wrong = [(text, find_in_text(text)) for text, values in TEXTS if find_in_text(text) != values]
    assert wrong == []


GEM: Final = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
IDENT: Final = base64.b64encode(f"ada:{TOKEN}".encode()).decode()
PEM: Final = "-----BEGIN PRIVATE KEY-----\nAb3+Ab3+Ab3+Ab3+\nx7==\n-----END PRIVATE KEY-----"
HELD: Final = (
    # .env: quotes, comments, escapes, several lines
    *((f"A_TOKEN={value}\n", value) for value in ("a,b&c;d$e9", "a'b'c'd9", 'x"y"z"9ab')),
    ("A_TOKEN='a,b&\";$d9'  # x\n", 'a,b&";$d9'),
    ("A_TOKEN='it'\\''s9ab,cd'\n", "it's9ab,cd"),
    ("A_TOKEN='it\\'s9ab,cd'\n", "it's9ab,cd"),
    ('A_TOKEN="a\\"b\\$c9,d"\n', 'a"b$c9,d'),
    ('A_TOKEN="a\\"b\\$c9,d"\n', 'a"b\\$c9,d'),
    ('A_TOKEN="a\\"b\\$c9,d"\n', 'a\\"b\\$c9,d'),
    ("A_TOKEN=`a\"b'c9,d`\n", "a\"b'c9,d"),
    ("export A_TOKEN=a\\ b\\;c9d,e # x\n", "a b;c9d,e"),
    ("A_TOKEN=abcd123#e # x\n", "abcd123#e"),
    ("A_TOKEN=abcd1234#e # x\n", "abcd1234"),
    ("A_TOKEN: abcd1234 efg\n", "abcd1234 efg"),
    (f'A_KEY="{PEM}"\nB=1\n', PEM),
    ("A_KEY='" + PEM.replace("\n", "\\n") + "'\n", PEM.replace("\n", "\\n")),
    ('A_KEY="' + PEM.replace("\n", "\\n") + '"\n', PEM),
    ("GOOGLE='" + json.dumps({"private_key": PEM}) + "'\n", PEM),
    ('GOOGLE="' + json.dumps({"private_key": PEM}).replace('"', '\\"') + '"\n', PEM),
    (f"A_KEY: |\n  {PEM}\nb: 1\n".replace("\n-", "\n  -").replace("\nA", "\n  A"), PEM[:27]),
    (f"API_KEYS={GEM},{GEM[::-1]}\n", GEM[::-1]),
    # tools
    ('machine h login ada password "a b\\"c9d,e"\n', 'a b"c9d,e'),
    (f"https://{GEM}:x-oauth-basic@git.example/x", GEM),
    (f"https://{GEM}:@git.example/x", GEM),
    ("postgres://ada:a/b#c9+d=@db.example/x", "a/b#c9+d="),
    (f'BUNDLE_GEMS__EXAMPLE__COM: "ada:{TOKEN}"\n', TOKEN),
    (f'BUNDLE_GITHUB__COM: "{GEM}:x-oauth-basic"\n', GEM),
    (json.dumps({"github-oauth": {"github.com": GEM}}), GEM),
    (f'{{"db": {{"password":\n  "{TOKEN}"}}}}', TOKEN),
    (json.dumps({"accessTokens": {"https://api.example": GEM}}), GEM),
    (json.dumps([{"name": "API_KEY", "value": TOKEN}]), TOKEN),
    (json.dumps({"auths": {"r.example": {"auth": IDENT}}}), TOKEN),
    (f"npmAuthIdent: ada:{TOKEN}\n", TOKEN),
    (f"npmAuthIdent: {IDENT}\n", TOKEN),
    (f"token: !!null {TOKEN}\n", TOKEN),
    ("<password> a&amp;b c9d,e </password>", "a&b c9d,e"),
    (f"<password><![CDATA[{TOKEN}<]]></password>", f"{TOKEN}<"),
    (f'<add key="ClearTextPassword" value="{TOKEN}" />', TOKEN),
    ("signing.password=a\\:b\\=c9d,e\n", "a:b=c9d,e"),
    # variables and commands
    (f"jdbc:oracle:thin:scott/{TOKEN}@//db.example:1521/x", TOKEN),
    (f"https://api.example/x?v=1&access_token={TOKEN}", TOKEN),
    (f"https://x.blob.example/c?sv=2022&sig={GEM}%3D", f"{GEM}="),
    (f"Authorization: Bearer {TOKEN}", TOKEN),
    (f"Authorization: Basic {IDENT}", TOKEN),
    (f"OTLP_HEADERS=authorization=Bearer {TOKEN}", TOKEN),
    (f"curl -u admin:{TOKEN} https://x.example", TOKEN),
    (f"--proxy-user=ada:{TOKEN}", TOKEN),
    (f"mysql -uroot -p{TOKEN} app", TOKEN),
    (f"mysqldump -h db.example -p'{TOKEN}' app", TOKEN),
    (f"mariadb -p{TOKEN}", TOKEN),
    (f"sshpass -p '{TOKEN}' ssh x", TOKEN),
    (f"-Xmx2g -Djavax.net.ssl.keyStorePassword={TOKEN}", TOKEN),
    (f"login --password {TOKEN}", TOKEN),
    (f"login --api-key='{TOKEN}'", TOKEN),
    (f"export API_KEY=${{API_KEY:-{TOKEN}}}\n", TOKEN),
    (f"API_KEY=${{OTHER-{TOKEN}}}\n", TOKEN),
    (f"API_KEY+={TOKEN}\n", TOKEN),
    (f"api-key: gemini={GEM}\n", GEM),
    (f"api-key: [gemini={GEM}, x=y]\n", GEM),
    (f"users:\n- {{name: x, user: {{token: {TOKEN}}}}}\n", TOKEN),
    (f"//h/:_password={base64.b64encode(TOKEN.encode()).decode()}\n", TOKEN),
    (f"<property><name>Private-Token</name><value>{TOKEN}</value></property>", TOKEN),
)
"""Texts, and what some program reads in them."""


def test_what_any_program_reads_in_a_text_is_known() -> None:
    assert [text for text, value in HELD if value not in "\0".join(find_in_text(text))] == []


HARMLESS: Final = (
    "password = 'tis\nname = to be jolly, they don't\n",
    "user: ada\nsecret_name: x7Yz9-1234\ntoken_type: a9-b8-c7-d6\n",
    "curl -u 1000:1000 x --user=0:0 docker run -u node:node",
    "export TOKEN=$(pass show x/7)\nexport KEY=${A_KEY:-none}\n",
    "docker login --password-stdin registry.example/x7 --token-file ./x7/y8z9",
    "see http://host.example:8080/a/@me and https://example.com/x:y/@z9x8c7v6",
    "-----BEGIN PRIVATE KEY-----",
    "mysql --protocol=tcp -P 3306 -p app_of_2026_a1",
    json.dumps({"github-oauth": {"hosts": ["git.example.internal", "2026112312345678"]}}),
    json.dumps({"builds": {"git.example": GEM}}),
)


def test_what_is_no_secret_is_not_read_as_one() -> None:
    assert {text: find_in_text(text) for text in HARMLESS if find_in_text(text)} == {}


def test_only_a_single_quote_ends_a_value_behind_a_backslash() -> None:
    """A shell knows no escapes between single quotes; other programs do, and read on."""
    assert "a9b8c7d6\\" in find_in_text("A_TOKEN='a9b8c7d6\\'e5f4g3h2'\n")
    assert "a9b8c7d6" not in find_in_text('A_TOKEN="a9b8c7d6\'e5f4\\tg3h2"\n')


def test_a_quote_that_is_never_closed_takes_no_other_line_with_it() -> None:
    found = find_in_text(f"A_TOKEN=\"{TOKEN}\nNAME=a thing of 9 words\nB_TOKEN='{OTHER}'\nC=it's\n")
    assert {TOKEN, OTHER} <= set(found)
    assert not [one for one in found if "thing" in one]


HOSTILE: Final = 2**15
"""Characters of a hostile text: what grows faster than the text shows by then."""


def test_what_a_text_costs_grows_with_its_length() -> None:
    shapes = [
        *("A", "a://", 'key="\\', "key=", "key='", 'key="\n', "-u a", "-u", "<key>", "token: |\n "),
        *("<key><![CDATA[", "name=key,value=", "password ", "jdbc:oracle:a:/", "a://b:", "?sig="),
        *(
            "redis-cli ",
            "key=\\\n",
            '{"key":',
            "key: &a ",
            "key=''",
            "auth:",
            '\\"key\\":',
            "[",
            "`",
        ),
    ]
    texts = {shape: shape * (HOSTILE // len(shape)) for shape in shapes}
    heads = ("<key>", "<key ", "<name>", "key=", 'key="', "key: ", "key: |", "--key", "password")
    for head in heads:
        texts |= {head + run: head + run * HOSTILE for run in (" ", "A", "\\", "\n", "-", "#")}
    assert slow(find_in_text, texts) == []


def put(home: Path, name: str, text: str) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_files_of_tools_are_read_and_values_are_numbered(tmp_path: Path) -> None:
    put(tmp_path, ".netrc", f"machine a password {TOKEN}1\nmachine b password {TOKEN}2\n")
    put(tmp_path, ".config/gh/hosts.yml", f"oauth_token: {TOKEN}3")
    put(tmp_path, ".ssh/id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n")
    put(tmp_path, "project/.env", f"API_KEY={TOKEN}4")
    put(tmp_path, ".pgpass", f"# a:b:c:d:{TOKEN}5\ndb:*:app:ada:{TOKEN}\\:6\n")
    put(tmp_path, "elsewhere/kube", f"user:\n  token: {TOKEN}7")
    put(tmp_path, "acme.key", f"{TOKEN}8\n")
    put(tmp_path, ".gem/credentials", f"---\n:https://gems.example: {TOKEN}9\n")
    put(tmp_path, ".aws/sso/cache/0a.json", json.dumps({"accessToken": f"{TOKEN}a"}))
    put(tmp_path, ".config/pypoetry/auth.toml", f'[pypi-token]\npypi = "{TOKEN}bcd"\n')
    put(tmp_path, ".ssh/work", f"{PEM}\n")
    put(
        tmp_path,
        ".gitconfig",
        f"[user]\n\tsigningkey = 0{TOKEN}\n[url]\n\tx = https://{TOKEN}eee@h\n",
    )
    put(tmp_path, "project/.git/config", f"[remote]\n\turl = https://{TOKEN}fff@h/x\n")
    environ = {"KUBECONFIG": f"{tmp_path}/gone:{tmp_path}/elsewhere/kube"}
    files = [("acme_api_key", tmp_path / "acme.key")]
    found = collect_secrets(environ, tmp_path, workspace=tmp_path / "project", files=files)
    assert found == {
        "gh_hosts": f"{TOKEN}3",
        "netrc": f"{TOKEN}1",
        "netrc_2": f"{TOKEN}2",
        "env": f"{TOKEN}4",
        "pgpass": f"{TOKEN}:6",
        "kube_config": f"{TOKEN}7",
        "acme_api_key": f"{TOKEN}8",
        "gem_credentials": f"{TOKEN}9",
        "aws_session": f"{TOKEN}a",
        "poetry_auth": f"{TOKEN}bcd",
        "ssh_work": PEM,
        "git_config": f"{TOKEN}eee",
        "git_config_2": f"{TOKEN}fff",
        "ssh_id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    }


def test_the_env_files_of_a_project_are_found_and_examples_are_not(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    names = ("repository", "app", "app/.env", "app/web/.env.local", "app/prod.env", "app/.envrc")
    wanted = [f"repository/{name}" for name in names[2:]] + ["repository/.env"]
    left_out = (".env.example", ".env.sample", "a/b/c/d/.env", "node_modules/x/.env", "vendor/.env")
    for name in (*wanted, *(f"repository/app/{name}" for name in left_out), "tests/.env"):
        put(tmp_path, name, "")
    (repository / ".git").mkdir()
    put(tmp_path, ".env", "")
    found = {path for _, path in find_project_files(repository / "app")}
    assert found == {tmp_path / name for name in (*wanted, "repository/.git/config")}
    assert list(find_project_files(tmp_path / "gone")) == []


def test_values_on_lines_of_their_own_and_files_of_nothing_but_keys_are_read(
    tmp_path: Path,
) -> None:
    files = {
        ".kube/config": f"users:\n- user:\n    token:\n      {GEM}\n",
        ".aider.conf.yml": f"api-key:\n- {GEM[::-1]}\n",
        ".local/share/opencode/auth.json": json.dumps({"a": {"refresh": GEM * 2, "expires": 1}}),
    }
    for name, text in files.items():
        put(tmp_path, name, text)
    found = {value for _, value in find_in_files(tmp_path, {})}
    assert {GEM, GEM[::-1], GEM * 2} <= found


def test_a_project_file_of_one_setting_is_not_taken_for_a_key(tmp_path: Path) -> None:
    settings = ("PORT=3000", "NODE_ENV=development", "legacy-peer-deps=true", f"API_KEY={TOKEN}")
    for number, text in enumerate((*settings, f"{GEM}==")):
        put(tmp_path, str(number), f"{text}\n")
    others = [("env", tmp_path / str(number)) for number in range(5)]
    found = [value for _, value in find_in_files(tmp_path / "home", {}, others)]
    assert found == [TOKEN, f"{GEM}=="]


def test_a_value_is_kept_once_and_no_kind_is_lost(tmp_path: Path) -> None:
    put(tmp_path, ".netrc", f"password {TOKEN}1\npassword {TOKEN}2\n")
    environ = {"A_TOKEN": TOKEN, "B_TOKEN": TOKEN, "NETRC_2": "x", "netrc_2_KEY": OTHER}
    assert collect_secrets(environ, tmp_path) == {
        "a_token": TOKEN,
        "netrc_2_key": OTHER,
        "netrc": f"{TOKEN}1",
        "netrc_2": f"{TOKEN}2",
    }


def test_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".netrc").mkdir()
    os.mkfifo(tmp_path / ".npmrc")
    (tmp_path / ".pypirc").symlink_to(tmp_path / ".pypirc")
    (tmp_path / ".git-credentials").write_bytes(b"\xff\x00" * 1000)
    put(tmp_path, ".my.cnf", " " * FILE_SIZE_MAX + f"password={TOKEN}")
    assert collect_secrets({}, tmp_path) == {}
    assert collect_secrets({}, tmp_path / "gone", files=[("x", Path("\0"))]) == {}


def test_there_are_at_most_so_many(tmp_path: Path) -> None:
    environ = {f"TOKEN_{number}_KEY": f"{TOKEN}{number}" for number in range(1000)}
    assert len(collect_secrets(environ, tmp_path)) == SECRET_COUNT_MAX
