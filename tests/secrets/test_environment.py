"""Environment variables: what commands do not get is what is taken out of texts."""

from __future__ import annotations

import json
import os
import random
import subprocess
from typing import Final

from token_samples import TOKENS, secret_of
from treadle.process.environment import clean_environment
from treadle.secrets.environment import find_in_environment, is_credential
from treadle.secrets.redaction import Redactor

DICE: Final = random.Random(9)
WORD: Final = "tok3n-x7YzQ9aa-7"

CREDENTIALS: Final = {
    **dict.fromkeys(
        [
            *("GITHUB_PAT", "MYSQL_PWD", "SMTP_PASS", "SENTRY_DSN", "NPM_CONFIG__AUTH"),
            *("SESSION_COOKIE", "GPG_PASSPHRASE", "pass", "DB_PASS2", "HTTP_AUTHORIZATION"),
            *("ANTHROPIC_API_KEY", "github_token", "AWS_SECRET_ACCESS", "PGPASSWORD"),
            *("DBPASS", "ROOTPW", "LDAP_BINDPW", "APIKEYS", "BUNDLE_GEMS__EXAMPLE__COM"),
            *("MYSQL_PASSWD", "APP_JWT", "LDAP_PW", "SSHPASS", "BW_SESSION", "OP_SESSION_ada"),
        ],
        WORD,
    ),
    "SLACK_WEBHOOK_URL": f"https://hooks.example/services/{WORD}",
    "DATABASE_URL": f"postgres://me:{WORD}@db.example/x",
    "HTTPS_PROXY": f"http://me:{WORD}@proxy.example:8080",
    "GIT_REMOTE": f"see https://{WORD}1234567@github.com/x/y",
    "OPENAI": TOKENS["openai_key"](DICE),
    "DEPLOY": TOKENS["private_key"](DICE),
    "STORAGE": f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={WORD}Ab12==",
    "JDBC_URL": f"jdbc:postgresql://db.example/x?user=ada&password={WORD}",
    "CONNINFO": f"host=db user=ada password={WORD} sslmode=on",
    "ORACLE": f"jdbc:oracle:thin:scott/{WORD}@//db.example:1521/x",
    "ACCOUNT": json.dumps({"user": "ada", "password": WORD}),
    "API": f"https://api.example/x?v=1&access_token={WORD}",
    "BLOB": f"https://x.blob.example/c?sv=2022&sig={WORD}",
    "OTLP_HEADERS": f"Authorization=Bearer {WORD}",
    "HEADER": f"Authorization: Bearer {WORD}",
    "CURL_OPTIONS": f"-sS -u admin:{WORD}",
    "MYSQL_OPTIONS": f"-uroot -p{WORD}",
    "JAVA_OPTIONS": f"-Xmx2g -Djavax.net.ssl.keyStorePassword={WORD}",
    "LOGIN": f"login --password {WORD}",
    "REGISTRIES": json.dumps({"github-oauth": {"git.example": WORD}}),
    "CACHE": f"redis://:{WORD}/+x@cache.example:6379",
}
"""Each holds a secret that is telling."""

SHORT: Final = {
    "SOME_KEY": "x",
    "PGPASSWORD": "pw",
    "CONNINFO": "host=db user=ada password=pw",
    "MSSQL": "Server=db;User Id=sa;Pwd=pw;",
    "DATABASE_URL": "postgres://me:pw@db.example/x",
    "MIRROR": "https://word@git.example/x",
    "GOOGLE_APPLICATION_CREDENTIALS": "x",
    "ORACLE": "jdbc:oracle:thin:scott/pw@//db.example:1521/x",
    "ACCOUNT": '{"user": "ada", "password": "pw"}',
    "CURL_OPTIONS": "-u admin:pw",
    "API": "https://api.example/x?access_token=pw",
    "HEADER": "Authorization: Bearer pw",
}
"""Credentials that are too short to be looked for in texts."""

HARMLESS: Final = {
    **dict.fromkeys(("PWD", "OLDPWD", "LD_LIBRARY_PATH", "SSH_AUTH_SOCK", "HOME"), "/x"),
    "PATH": "/bin",
    "BYPASS": "1",
    "AUTHOR": "me@example.com",
    "CI_ENV": "x",
    "DATABASE_URL": "postgres://db/x",
    "HTTPS_PROXY": "http://proxy.example:8080",
    "PAGE": "https://example.com/@me",
    "XDG_SESSION_ID": "7",
    "DESKTOP_SESSION": "gnome",
    "TOKENIZERS_PARALLELISM": "false",
    "KEYBOARD_LAYOUT": "us",
    "GIT_AUTHOR_NAME": "Ada",
    "LS_COLORS": "rs=0:di=01;34:ln=01;36",
    "JAVA_OPTS": "-Xmx2g -Dfile.encoding=UTF-8",
    "DOCKER_OPTIONS": "-u 1000:1000 --restart=no",
    "GIT_ASKPASS": "/usr/bin/ask",
    "STARTPWD": "/work",
    "SAMPLES": '{"user": "ada", "password": null}',
    "TRUST": "-Djavax.net.ssl.trustStore=/etc/x --token-file=/x",
    "BUNDLE_BUILD__PG": "--with-x",
    "COMMIT": "9f2c1e7b6a5d4c3b2a1908f7e6d5c4b3a2918070",
}


def test_a_credential_is_kept_from_commands_and_taken_out_of_texts() -> None:
    handed_over = [
        name for name, value in CREDENTIALS.items() if name in clean_environment({name: value})
    ]
    shown = []
    for name, value in CREDENTIALS.items():
        text = Redactor(dict(find_in_environment({name: value}))).redact(f"it is {value}")
        if (WORD if WORD in value else secret_of(value)) in text:
            shown.append(name)
    assert (handed_over, shown) == ([], [])


def test_one_that_is_too_short_for_texts_is_kept_from_commands_all_the_same() -> None:
    assert [name for name, value in SHORT.items() if not is_credential(name, value)] == []
    assert list(find_in_environment(SHORT)) == []


def test_what_is_no_credential_reaches_commands() -> None:
    kept = clean_environment(HARMLESS)
    assert {name: kept.get(name) for name in HARMLESS} == HARMLESS
    assert list(find_in_environment(HARMLESS)) == []


def test_of_a_variable_the_secrets_in_it_are_known_and_all_of_it_if_it_is_one() -> None:
    webhook = "https://hooks.slack.com/services/T0/B0/x7Yz"
    found = find_in_environment(
        {
            "GH_TOKEN": f" {WORD}\n",
            "DATABASE_URL": f"postgres://ada:{WORD}1@db.example.com:5432/app",
            "TOKEN_ENV": "production",
            "SSH_AUTH_SOCK": "/tmp/ssh-x7/agent.1",
            "SLACK_WEBHOOK_URL": webhook,
            "AUTH_URL": "https://auth.example.com/x7/token",
        }
    )
    assert dict(found) == {
        "GH_TOKEN": WORD,
        "DATABASE_URL": f"{WORD}1",
        "SLACK_WEBHOOK_URL": webhook,
    }


def test_numbered_settings_of_git_stay_whole_without_those_that_hold_a_secret() -> None:
    settings = {
        "user.name": ("Ada", True),
        "http.extraheader": (f"Authorization: Basic {WORD}", False),
        f"url.https://{WORD}1234567@git.example/.insteadof": ("https://git.example/", False),
        "sendemail.smtppass": (WORD, False),
        "safe.directory": ("/work", True),
        "branch.x7YzQ9-aa_1.remote": ("origin", True),
    }
    given = {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_CONFIG_KEY_77": "core.beyond"}
    for number, (key, (value, _)) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    cleaned = clean_environment(given)
    said = subprocess.run(
        ["git", "config", "--list", "-z"],
        env={
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **cleaned,
        },
        cwd="/",
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    kept = [f"{key}\n{value}" for key, (value, is_kept) in settings.items() if is_kept]
    assert (said.split("\0")[:-1], WORD in str(cleaned)) == (kept, False)
    redact = Redactor(dict(find_in_environment(given))).redact
    shown = [text for text in (*settings, *dict(settings.values())) if WORD in redact(text)]
    assert (shown, redact("branch.x7YzQ9-aa_1.remote")) == ([], "branch.x7YzQ9-aa_1.remote")


def test_a_setting_of_git_that_lacks_its_half_is_told_by_git_and_not_by_another_one() -> None:
    given = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_VALUE_0": "x", "GIT_CONFIG_KEY_1": "a.b"}
    assert {name: clean_environment(given).get(name) for name in given} == given
    assert "GIT_CONFIG_COUNT" not in clean_environment({"HOME": "/x"})
    assert clean_environment({"GIT_CONFIG_COUNT": "0"})["GIT_CONFIG_COUNT"] == "0"
