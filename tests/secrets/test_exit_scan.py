"""The third look names kinds and places, and never what it has found."""

from __future__ import annotations

import random

from hypothesis import example, given
from hypothesis import strategies as st

from token_samples import TOKENS
from treadle.secrets.exit_scan import Looker, SecretFinding
from treadle.secrets.redaction import Redactor

TOKEN = TOKENS["github_token"](random.Random(9))
LOOKER = Looker(Redactor({"own": "Zx9RvB47Hq2LmN0"}))


def line(seq: int, text: str) -> bytes:
    return b'{"seq":%d,"at":"","event":{"text":"%b"},"hash":""}\n' % (seq, text.encode())


def test_it_says_in_which_records_secrets_are() -> None:
    data = [line(1, "x") + line(2, TOKEN) + line(3, f"{TOKEN} Zx9RvB47Hq2LmN0"), line(4, TOKEN)]
    assert LOOKER.find(data) == [
        SecretFinding("github_token", 3, (2, 3, 4)),
        SecretFinding("own", 1, (3,)),
    ]
    assert LOOKER.describe_findings(data) == ["github_token in records 2, 3, 4", "own in record 3"]


def test_it_counts_what_stands_elsewhere() -> None:
    outputs = [f"a {TOKEN} b {TOKEN}".encode(), b"\xff" + TOKEN.encode(), b"nothing"]
    assert LOOKER.find(outputs) == [SecretFinding("github_token", 3, (), 2)]
    assert LOOKER.describe_findings([*outputs, line(7, TOKEN)]) == [
        "github_token in record 7 and 2 large outputs"
    ]
    assert LOOKER.describe_findings(outputs[:1]) == ["github_token in a large output"]


def test_many_records_are_counted_and_clean_ones_are_not_told() -> None:
    told = LOOKER.describe_findings(line(seq, TOKEN) for seq in range(1, 9))
    assert told == ["github_token in records 1, 2, 3, 4, 5 and 3 more"]
    assert LOOKER.describe_findings([line(1, "[REDACTED:github_token]"), b""]) == []


@example(data=[b"<https%3A%2F%2Fexample.org/a>"])
@example(data=[b'{"seq":1,\xff\xfe%3A%2F%2F\x00'])
@given(data=st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode))))
def test_no_bytes_are_too_odd_to_be_looked_at(data: list[bytes]) -> None:
    assert LOOKER.describe_findings([*data, line(7, f" {TOKEN} ")])[-1:] == [
        "github_token in record 7"
    ]
