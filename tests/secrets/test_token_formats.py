"""Tokens are found by their format alone, wherever they stand, and nothing else is."""

from __future__ import annotations

import base64
import json
import random
import re
import sysconfig
from collections.abc import Callable, Iterator
from itertools import chain, islice, product, repeat
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from case_tables import for_every_row
from processor_time import slow
from token_samples import ALNUM, TOKENS, WORDY, secret_of
from treadle.secrets.redaction import Redactor
from treadle.secrets.token_formats import find_shapes
from treadle.secrets.token_rules import RULES, TokenRule

EACH: Final = 12
"""Tokens of each kind."""

CONTEXTS: Final[dict[str, Callable[[str], str]]] = {
    "raw": lambda text: text,
    "prose": lambda text: f"I have put it there: {text}, as you said.",
    "env": lambda text: f"DEBUG=1\nTHE_VALUE={text}\nOTHER=2\n",
    "export": lambda text: f"export THE_VALUE='{text}' && run",
    "json": lambda text: json.dumps({"value": text, "n": 1}),
    "json in json": lambda text: json.dumps({"body": json.dumps({"value": f"a\n{text}\tb"})}),
    "json, three deep": lambda text: json.dumps(json.dumps(json.dumps(f"\n{text}\n"))),
    "yaml": lambda text: f"service:\n  value: {text}  # rotate\n",
    "code": lambda text: f'client = Client("{text}", retries=3)\n',
    "header": lambda text: f"GET / HTTP/1.1\r\nAuthorization: Bearer {text}\r\n\r\n",
    "url": lambda text: f"https://api.internal/v1?value={text}&n=1",
    "url, encoded": lambda text: f"https://api.internal/v1?value={quote(text, safe='')}&n=1",
    "markdown": lambda text: f"| value | `{text}` |\n",
    "colours": lambda text: f"\x1b[31m{text}\x1b[0m",
    "diff": lambda text: f"-old\n+{text}\n",
}


def tokens(kind: str, count: int = EACH) -> list[str]:
    dice = random.Random(f"{kind} 6")
    return [TOKENS[kind](dice) for _ in range(count)]


def test_every_rule_has_tokens_to_be_tried_with() -> None:
    assert {*TOKENS} == {rule.kind for rule in RULES}
    assert len(TOKENS) > 75


@for_every_row("kind", TOKENS)
def test_a_token_is_found_in_every_context(kind: str) -> None:
    redact = Redactor({}).redact
    missed = [
        (name, told)
        for name, context in CONTEXTS.items()
        for token in tokens(kind)
        for told in [redact(context(token))]
        if secret_of(token) in told or secret_of(token) in json.dumps(told)
    ]
    assert missed == []


@for_every_row("kind", TOKENS)
def test_what_is_found_has_the_kind_of_its_rule(kind: str) -> None:
    for token in tokens(kind):
        cleaned = Redactor({}).redact(f"a: {token} .")
        assert f"[REDACTED:{kind}]" in cleaned
        assert cleaned.startswith("a: ")
        assert cleaned.endswith(" .")


def in_base64(token: str) -> Iterator[str]:
    for before, encode in (
        ("", base64.b64encode),
        ("KEY=", base64.urlsafe_b64encode),
        ("user:", base64.b64encode),
        ("\n", base64.b64encode),
    ):
        yield encode(f"{before}{token}\n".encode()).decode()


def test_nine_of_ten_tokens_in_base64_are_found() -> None:
    found = [
        bool(find_shapes(f"data: {form}\n"))
        for kind in TOKENS
        for token in tokens(kind)
        for form in in_base64(token)
    ]
    assert sum(found) / len(found) > 0.99


def test_a_token_in_base64_that_was_cut_into_lines_is_found_with_all_of_its_digits() -> None:
    """As `base64` and `openssl` cut it, on lines of their own and in the JSON of a call."""
    missed = []
    cut = list(product((64, 76), ("\n", "\r\n", "\n    ", "\\n")))
    for kind, token in chain.from_iterable(
        zip(repeat(one), tokens(one, 2), strict=False) for one in TOKENS
    ):
        secret = secret_of(token)
        for before, (width, line_end) in product(("", "a=", "k: 'v'\n" * 7), cut):
            digits = base64.b64encode(f"{before}{token}\nand more".encode()).decode()
            start = len(before) + token.index(secret)
            first, last = -(-8 * start // 6), 8 * (start + len(secret)) // 6
            text = line_end.join(
                digits[place : place + width] for place in range(0, len(digits), width)
            )
            places = [digit + digit // width * len(line_end) for digit in range(first, last)]
            spans = [(span.start, span.end) for span in Redactor({}).find(text)]
            if not all(any(a <= place < b for a, b in spans) for place in places):
                missed.append((kind, before, width, line_end))
    assert missed == []


def test_of_base64_only_what_holds_the_token_goes() -> None:
    token = tokens("github_token")[0]
    around = "nothing to see here, but a lot of it " * 3
    form = base64.b64encode(f"{around} {token} {around}".encode()).decode()
    before, _label, after = re.split(r"(\[REDACTED:github_token\])", Redactor({}).redact(form))
    assert form.startswith(before)
    assert form.endswith(after)
    assert len(form) - len(before) - len(after) <= len(token) * 4 // 3 + 2
    assert base64.b64decode(before[: len(before) // 4 * 4]).decode() in f"{around} "


WRAPS: Final = ("\n", "\r\n", "\n    ", "\\\n", "\\n", "\n> ")


def cut_up(token: str, dice: random.Random) -> str:
    """The token over two or three lines; the first has what tells its kind, and some more."""
    places = sorted(dice.sample(range(14, len(token) - 1), dice.choice([1, 2])))
    parts = [token[a:b] for a, b in zip([0, *places], [*places, None], strict=True)]
    return dice.choice(WRAPS).join(parts)


def test_most_tokens_that_were_cut_into_lines_are_found() -> None:
    dice = random.Random(66)
    kinds = [kind for kind in TOKENS if kind != "private_key"]
    found = []
    for kind in kinds:
        for token in tokens(kind):
            form = cut_up(token, dice)
            left = Redactor({}).redact(f"it is:\n{form}\n\nand that is all")
            found.append(form[-8:] not in left and form[:14] not in left)
    assert sum(found) / len(found) > 0.6


PLACEHOLDERS: Final = (
    *("$TOKEN", "${GITHUB_TOKEN}", "<key>", "<your-api-key>", "{{ secrets.KEY }}", "%s", "***"),
    *("gh" + "p_" + "x" * 36, "gh" + "p_...", "sk-" + "ant-...", "sk-" + "ant-api03-" + "X" * 95),
    *("AK" + "IAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    *("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",),
    *("sk_" + "test_4eC39HqLyjWDarjtT1zdP7dc", "sk-" + "your-api-key-goes-here-1234567890abcdef"),
    *("xo" + "xb-your-bot-token-goes-here-1", "xo" + "xb-123456789012-1234567890123-" + "a1" * 12),
    *("gl" + "pat-" + "0" * 20, "gl" + "pat-ABCDEFGHIJKLMNOPQRST", "np" + "m_" + "abc" * 12),
    *("postgresql://user:password@localhost/db", "https://user:$PASSWORD@host/", "redis://:@host"),
    *("mysql://root:{password}@127.0.0.1:3306/", "https://x:%s@host/", "http://a:b@c"),
    *("amqp://guest:guest@localhost:5672", "https://user:<password>@host", "ftp://me:***@host/"),
    *("-" * 5 + "BEGIN PRIVATE KEY" + "-" * 5 + "\n...\n" + "-" * 5 + "END PRIVATE KEY" + "-" * 5,),
    *("-" * 5 + "BEGIN PUBLIC KEY" + "-" * 5 + "\n" + "Ab3+" * 16 + "\n",),
    *("-" * 5 + "BEGIN CERTIFICATE" + "-" * 5 + "\n" + "Ab3+" * 16 + "\n",),
    *(
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.SflKxwRJSMeKKF2QT4",
    ),
    *(
        "key-value-pairs",
        "task-SK" + "00",
        "sk-learn-is-a-library-with-a-long-name-and-more",
    ),
    *("da39a3ee5e6b4b0d3255bfef95601890afd80709", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
    *("sha512-" + "Ab3+" * 21 + "A==", "[REDACTED:github_token]", "discord server rules"),
    *("T-01a20072-9f39-75df-af66-aeeb66b899c6", "call_" + "aB3" * 8, "toolu_" + "aB3" * 8),
)


@for_every_row("text", PLACEHOLDERS)
def test_what_stands_for_a_token_stays(text: str) -> None:
    for context in CONTEXTS.values():
        told = context(text)
        assert Redactor({}).redact(told) is told


@for_every_row("kind", TOKENS)
def test_what_is_nearly_a_token_stays(kind: str) -> None:
    """One that is far too short, in letters only, or with a wrong checksum is none."""
    for token in tokens(kind, 4):
        if kind == "private_key":
            near = token.split("\n")[0] + "\n"
        elif kind == "url_password":
            near = re.sub(":[^:@]+@", ":password@", token)
        else:
            near = token[: min(len(token) * 2 // 5, 24)]
        assert find_shapes(f"({near})") == [], near


@pytest.mark.parametrize("kind", ["github_token", "treadle_token"])
def test_a_token_with_a_wrong_checksum_is_none(kind: str) -> None:
    for token in tokens(kind):
        wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
        assert find_shapes(wrong) == []


def code_lines() -> Iterator[Path]:
    roots = [sysconfig.get_path(name) for name in ("stdlib", "purelib")]
    for root in roots:
        yield from sorted(path for path in Path(root).glob("*/*.py") if path.stat().st_size < 2**18)


def test_code_stays_as_it_is() -> None:
    """At most 1 of 10,000 lines of the standard library and of packages are taken for secrets."""
    count, changed = 0, []
    for path in islice(code_lines(), 0, None, 3):
        text = path.read_text("utf-8", "replace")
        count += text.count("\n")
        changed += [text[shape.start : shape.end] for shape in find_shapes(text)]
    assert count > 40_000
    assert len(changed) <= count / 10_000, changed


HOSTILE: Final = 2**15
"""Characters of a hostile text: what grows faster than the text shows by then."""


def hostile_texts(rule: TokenRule) -> Iterator[str]:
    literal = rule.literals[0]
    for text in (literal, f"{literal}-", f"{literal}\n", f"\\n{literal}a1", f"{literal}aB3-"):
        yield text * (HOSTILE // len(text))
    yield literal + "aB3-" * (HOSTILE // 4)


def test_a_hostile_text_costs_no_rule_more_than_its_length_does() -> None:
    texts = {
        f"{rule.kind} {number}": text
        for rule in RULES
        for number, text in enumerate(hostile_texts(rule))
    }
    # As long as a file is that a tool reads: each value is looked up behind the one before it.
    texts["values"] = "".join(f"a{number:030d}b = 1\n" for number in range(2**15))
    assert slow(find_shapes, texts) == []


PIECES: Final = st.lists(
    st.one_of(
        st.sampled_from([token for kind in TOKENS for token in tokens(kind, 2)]),
        st.sampled_from([" ", "\n", '"', "=", "x", "\\n", "%3D", "[REDACTED:jwt]", "://u:", "@h"]),
        st.text(max_size=4),
    ),
    max_size=8,
).map("".join)


@given(text=PIECES)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    redact = Redactor({"own": "Zx9RvB47Hq2LmN0"}).redact
    once = redact(text)
    assert redact(once) == once


ODD: Final = st.lists(
    st.one_of(
        st.text("<>%\"' \r\f\v\n\t:/@3A2FhtpsSsk-_AKI", max_size=24),
        st.sampled_from(["%3A%2F%2F", "https%3A", "sk-", "AKIA", "://", "%%", "%2", "eyJ"]),
        st.text(max_size=6),
    ),
    max_size=6,
).map("".join)


@example(text="see <https%3A%2F%2Fexample.org/a> there")
@example(text="a\rhttps%3A%2F%2F\fb")
@given(text=ODD)
def test_no_text_is_too_odd_to_be_looked_at(text: str) -> None:
    redact = Redactor({"own": "Zx9RvB47Hq2LmN0"}).redact
    once = redact(text)
    assert redact(once) == once


@for_every_row("between", ["<", ">", "\r", "\f", "\v", "%", "%%", "%4"])
def test_a_token_behind_percent_signs_is_found_next_to_any_mark(between: str) -> None:
    token = tokens("github_token")[0]
    form = f"{between}%3A%22{token[:9]}%{ord(token[9]):02X}{token[10:]}%2F{between}"
    assert form.startswith(cleaned := Redactor({}).redact(form).partition("[REDACTED:github_")[0])
    assert len(cleaned) == len(between) + 6


@given(text=PIECES)
def test_spans_are_in_order_and_apart(text: str) -> None:
    done = 0
    for span in Redactor({}).find(text):
        assert done <= span.start < span.end <= len(text)
        done = span.end


def test_letters_beyond_ascii_shift_nothing() -> None:
    token = tokens("github_token")[0]
    form = base64.b64encode(f"x={token}".encode()).decode()
    cleaned = Redactor({}).redact(f"ключ🔑 {token} → {form} ← {quote(token + '/é')} ∎")
    assert cleaned.startswith("ключ🔑 [REDACTED:github_token] → ")
    assert cleaned.endswith(" ∎")
    assert " ← [REDACTED:github_token]" in cleaned


def test_tokens_are_found_at_their_places_among_words_that_hold_them() -> None:
    """Each is found again by its word, and a word may stand in a longer one, and stand twice."""
    dice = random.Random(11)
    missed: list[tuple[str, list[str]]] = []
    for kind in TOKENS:
        first, second = tokens(kind, 2)
        longer = f"{dice.choice(ALNUM) * 4}_{first}.{first[:9]}"
        words = [longer, first, f"é{second}", longer, second, first]
        dice.shuffle(words)
        text = f"\N{SNOWMAN} {' and '.join(words)}\n"
        found = [text[shape.start : shape.end] for shape in find_shapes(text)]
        wanted = {secret_of(first): words.count(first), secret_of(second): 2}
        short = [one for one, count in wanted.items() if sum(one in each for each in found) < count]
        if short:
            missed.append((kind, found))
    assert missed == []


def test_a_token_beside_another_is_found_though_only_a_short_word_begins_it() -> None:
    """What begins it is too short to tell it alone; the other says what kind stands here."""
    first, second = tokens("aws_access_key", 2)
    missed = []
    for text, part in (
        (f"{first} and {second[:15]}\n{second[15:]} z", second[:15]),
        *(
            (f"https://{hook} {escaped}", escaped[-20:])
            for url in tokens("slack_webhook")
            for hook in [url.removeprefix("https://")]
            for escaped in [hook.replace("/", "\\/")]
        ),
    ):
        if part in Redactor({}).redact(text):
            missed.append(text)
    assert missed == []


def test_a_webhook_is_found_whose_slashes_are_escaped() -> None:
    missed = [
        url
        for token in (*tokens("discord_webhook"), *tokens("slack_webhook"))
        for slash in ("/", "\\/", "\\\\/")
        for url in [token.replace("/", slash)]
        if url[-20:] in Redactor({}).redact(f'{{"u":"{url}"}}')
    ]
    assert missed == []


def test_what_this_machine_knows_keeps_its_own_name() -> None:
    token = tokens("github_token")[0]
    assert Redactor({"GH_TOKEN": token}).redact(token) == "[REDACTED:gh_token]"
    both = Redactor({"piece": token[8:20]}).redact(f"a {token} b")
    assert both == "a [REDACTED:github_token] b"


def test_the_characters_that_tokens_have_are_those_the_tests_use() -> None:
    assert set(WORDY) - set(ALNUM) == {"_", "-"}
