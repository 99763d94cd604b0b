"""Known secrets are replaced, in every form, and nothing else is."""

from __future__ import annotations

import base64
import json
import random
from itertools import product
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from case_tables import for_every_row
from processor_time import GROWTH_MAX, growth, slow
from token_samples import TOKENS, dumps
from treadle.runtime.ports import TextRedactor as RedactorPort
from treadle.secrets.redaction import PIECE_LENGTH_MIN, Redactor, _forms

KEY = 'sk-Zx9/Rv+B4 "7\\Hq2?&ü'
"""A secret with something that every encoding must escape."""
LABEL = "[REDACTED:api_key]"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor({"API_KEY": KEY})


def test_it_is_what_the_runtime_asks_for(redactor: Redactor) -> None:
    port: RedactorPort = redactor
    assert port.redact(f"a {KEY} b") == f"a {LABEL} b"


@for_every_row(
    "form",
    [
        KEY,
        json.dumps(KEY)[1:-1],
        json.dumps(KEY, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(KEY))[3:-3],
        json.dumps(json.dumps(KEY, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(json.dumps(KEY)[1:-1])[1:-1])[1:-1],
        json.dumps(json.dumps(json.dumps(json.dumps(KEY)[1:-1])[1:-1])[1:-1])[1:-1],
        KEY.replace("/", "\\/"),
        quote(KEY),
        quote(KEY, safe=""),
        quote_plus(KEY),
        quote(KEY, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
    ],
)
def test_every_form_is_replaced(redactor: Redactor, form: str) -> None:
    if "%2f" in form:
        form = form.replace("%5C", "%5c").replace("%3F", "%3f").replace("%C3%BC", "%c3%bc")
    assert redactor.redact(f"x={form};") == f"x={LABEL};"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@given(
    before=st.binary(max_size=9), after=st.binary(max_size=9), secret=st.text("?>~ü7", min_size=6)
)
def test_base64_is_recognised_wherever_the_secret_stands_in_it(
    encode: object, before: bytes, after: bytes, secret: str
) -> None:
    value = f"Zx{secret}"
    text = encode(before + value.encode() + after).decode()  # type: ignore[operator]
    cleaned = Redactor({"k": value}).redact(text)
    assert "[REDACTED:k]" in cleaned
    left = cleaned.replace("[REDACTED:k]", "").rstrip("=")
    # Only digits that hold bits of the neighbours are left.
    assert len(left) * 6 <= (len(before) + len(after)) * 8 + 2 * 6


def test_no_digit_of_a_known_value_is_left_of_base64_that_was_cut_into_lines() -> None:
    value = "Zx9-plain?word7/Qé".replace("é", "")
    left = []
    for offset, behind, width, line_end in product(
        range(120, 180), ("", "\n", "and more"), (64, 76), ("\n", "\r\n", "\\n", "\n  ")
    ):
        digits = base64.b64encode(b"." * offset + (value + behind).encode()).decode()
        lines = [digits[place : place + width] for place in range(0, len(digits), width)]
        cleaned = Redactor({"k": value}, has_shapes=False).redact(line_end.join(lines))
        before = cleaned.partition("[REDACTED:k]")[0].replace(line_end, "")
        after = cleaned.rpartition("[REDACTED:k]")[2].replace(line_end, "").rstrip("=")
        # A digit at the edge holds bits of both, and goes.
        if len(before) > offset * 8 // 6 or len(after) > -(-len(behind) * 8 // 6):
            left.append((offset, behind, width, line_end))
    assert left == []


def test_no_line_of_a_dump_is_left_that_shows_a_known_value_or_a_token() -> None:
    token = TOKENS["github_token"](random.Random(3))
    left = []
    for secret, offset in product(("Zx9-plain?word7/Q4", token), range(24, 56, 3)):
        data = b"." * offset + f" {secret}\nand more that is none of it\n".encode()
        for name, lines in dumps(data).items():
            for joint, head in (("\n", ""), ("\\n", '{"a": "'), ("\n    ", "    "), ("\r\n", "> ")):
                told = head + joint.join(line for _, line in lines) + joint
                cleaned = Redactor({"k": "Zx9-plain?word7/Q4"}).redact(told)
                place = 0
                for part, line in lines:
                    # Of a line of base64 that holds bits of both only those of the neighbours stay.
                    shown = max(min(place + len(part), offset + 1 + len(secret)), 0)
                    shown -= max(place, offset + 1)
                    place += len(part)
                    if shown == len(part) and line.strip() in cleaned:
                        left.append((name, joint, offset, line))
                if "[REDACTED:" not in cleaned or "[REDACTED:" not in cleaned:
                    left.append((name, joint, offset, ""))
    assert left == []


def test_of_many_texts_in_base64_that_begin_and_end_alike_none_is_passed_over() -> None:
    data = [b"nothing to see here: Zx9-plain?word7/Q%d\n and the rest of it" % n for n in range(30)]
    known = {f"k{n}": f"Zx9-plain?word7/Q{n}" for n in range(30)}
    for name in ("xxd -p", "base64 -w 20"):
        forms = ("\n".join(line for _, line in dumps(one)[name]) for one in data)
        assert Redactor(known).redact("\n\n".join(forms)).count("REDACTED") == 30, name


def test_what_a_dump_shows_of_no_secret_stays() -> None:
    words = b"nothing to see here, and a lot of it: 0123456789 deadbeef\n" * 3
    for lines in dumps(words).values():
        text = "\n".join(line for _, line in lines)
        assert Redactor({"k": "Zx9-plain?word7/Q4"}).redact(text) == text


def test_no_digit_at_the_end_of_base64_is_left() -> None:
    for length, behind in product(range(10, 16), ("", "\n")):
        value = "Zx9plain7words77"[:length]
        text = base64.b64encode(f"{value}{behind}".encode()).decode()
        assert Redactor({"k": value}).redact(f"it is {text} .") == "it is [REDACTED:k] ."


@pytest.mark.parametrize("tail", ["", "\n"])
def test_a_private_key_is_replaced_as_a_whole_and_line_by_line(tail: str) -> None:
    lines = [base64.b64encode(bytes([n] * 48)).decode() for n in range(40, 44)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "abc=", "-----END PRIVATE KEY-----"])
    redactor = Redactor({"ssh": key + tail})
    assert redactor.redact(f"<{key}>") == "<[REDACTED:ssh]>"
    assert redactor.redact(json.dumps(key)) == '"[REDACTED:ssh]"'
    for line in lines:
        assert redactor.redact(f"+ {line} -") == "+ [REDACTED:ssh] -"
    harmless = "a file with -----BEGIN PRIVATE KEY----- in it, and abc="
    assert redactor.redact(harmless) == harmless


def test_a_text_without_secrets_is_the_same_object(redactor: Redactor) -> None:
    text = "nothing to see " * 100
    assert redactor.redact(text) is text
    assert Redactor({}).redact(text) is text
    assert Redactor({}).redact("[REDACTED:api_key]") == "[REDACTED:api_key]"


def test_short_values_are_left_out_and_kinds_are_made_safe() -> None:
    redactor = Redactor({"short": "x7y8z9w", "My Kind]": "x7y8z9w0", "": "a1b2c3d4"})
    assert redactor.redact("x7y8z9w") == "x7y8z9w"
    assert redactor.redact("x7y8z9w0") == "[REDACTED:my_kind_]"
    assert redactor.redact("a1b2c3d4") == "[REDACTED:secret]"


def test_the_longest_secret_at_a_place_gives_the_kind() -> None:
    redactor = Redactor({"short": "abcd1234", "long": "abcd1234efgh", "inner": "1234efgh"})
    assert redactor.redact("abcd1234efgh") == "[REDACTED:long]"
    assert redactor.redact("abcd1234") == "[REDACTED:short]"
    assert redactor.redact("xx1234efgh") == "xx[REDACTED:inner]"


def test_of_secrets_that_overlap_no_piece_is_left_over() -> None:
    redactor = Redactor({"a": "abcd1234", "b": "1234wxyz9"})
    assert redactor.redact("-abcd1234wxyz9-") == "-[REDACTED:b]-"
    assert redactor.redact("abcd1234abcd1234") == "[REDACTED:a][REDACTED:a]"
    assert Redactor({"c": "ab12ab12"}).redact("xab12ab12ab12x") == "x[REDACTED:c]x"


def test_a_label_in_the_text_stays_even_if_a_secret_looks_like_it() -> None:
    redactor = Redactor({"api_key": "REDACTED:", "x": "[REDACTED:api_key]", "y": "ED:api_key] z"})
    assert redactor.redact("REDACTED:") == "[REDACTED:api_key]"
    assert redactor.redact("[REDACTED:api_key] z") == "[REDACTED:api_key] z"


def test_a_secret_that_needs_no_escapes_is_looked_for_in_no_more_forms() -> None:
    plain = {"abcd1234wxyz", json.dumps("abcd1234wxyz")[1:-1]}
    forms = set(_forms("abcd1234wxyz", 8))
    assert plain <= forms
    assert len(forms) == 1 + 2 + 3, "itself, hex in two cases, base64 at three offsets"


WORD = "SEKRIT-deadbeef-42"
MARK = "\n[... 129246 characters left out, all of it is kept beside ...]\n"


@pytest.mark.parametrize("depth", range(3))
def test_no_piece_of_a_secret_is_left_where_a_text_was_cut(depth: int) -> None:
    for start, end in product(range(len(WORD) + 1), repeat=2):
        look_at_cut(start, end, depth)


def look_at_cut(start: int, end: int, depth: int) -> None:
    redactor = Redactor({"k": WORD}, length_min=4)
    text = f"head {WORD[:end]}{MARK}{WORD[start:]} tail"
    for _ in range(depth):
        text = json.dumps(text)[1:-1]
    cleaned = redactor.redact_cut(text)
    left = [
        WORD[place : place + PIECE_LENGTH_MIN]
        for place in range(len(WORD) - PIECE_LENGTH_MIN + 1)
        if WORD[place : place + PIECE_LENGTH_MIN] in cleaned
    ]
    assert left == []
    assert cleaned.startswith("head ")
    assert cleaned.endswith(" tail")
    assert "129246 characters left out" in cleaned
    assert redactor.redact_cut(cleaned) == cleaned


@pytest.mark.parametrize("length_min", [len(WORD), len(WORD) - 1])
def test_the_shortest_secret_is_found_behind_percent_signs_too(length_min: int) -> None:
    form = f"https%3A%2F%2Fexample.org%2F%3Fx%3D{WORD[:3]}%{ord(WORD[3]):02X}{WORD[4:]}"
    redact = Redactor({"k": WORD}, length_min=length_min).redact
    assert redact(form) == "https%3A%2F%2Fexample.org%2F%3Fx%3D[REDACTED:k]"


def test_a_short_dump_is_found_wherever_it_begins() -> None:
    """Of a dump of letters some forms have no digits but those of one offset."""
    secret = "correcthorsebatt"
    redactor = Redactor({"pw": secret})
    missed = {
        (name, count)
        for name, lines in dumps(secret.encode()).items()
        for count in range(320)
        if not name.startswith("base64")
        and not redactor.find("\n".join(("x" * count, *(line for _, line in lines))))
    }
    assert missed == set()


def test_a_piece_of_a_secret_anywhere_else_stays() -> None:
    redactor = Redactor({"k": WORD}, length_min=4)
    for text in (f"{WORD[:9]} {MARK} {WORD[9:]}", f"{WORD[:9]} 3 characters left out", WORD[:9]):
        assert redactor.redact_cut(text) == text
    assert redactor.redact(f"{WORD[:9]}{MARK}") == f"{WORD[:9]}{MARK}"


PIECES = st.sampled_from(
    ["abcd1234", "1234abcd", "[REDACTED:", "[REDACTED:a]", "[REDACTED:b]", "]", "a", "b", ":a]"]
)
TEXTS = st.lists(st.one_of(PIECES, st.text("ab12[]:REDCT", max_size=4)), max_size=12).map("".join)


@given(text=TEXTS, first=TEXTS, second=TEXTS)
@example(text="1234abcd[REDACTED:a]", first="abcd[REDACTED", second="1234abcd")
@example(text="[REDACTED:abcd1234]", first="abcd1234", second="")
def test_redacting_twice_is_redacting_once(text: str, first: str, second: str) -> None:
    redactor = Redactor({"a": first, "b": second, "c": "abcd1234"})
    once = redactor.redact(text)
    assert redactor.redact(once) == once


@given(
    secrets=st.lists(st.text(min_size=8, max_size=20).map(str.strip), max_size=4),
    pieces=st.lists(st.one_of(st.text(max_size=10), st.integers(0, 3)), max_size=10),
)
def test_no_secret_is_left_and_what_stands_around_it_stays(
    secrets: list[str], pieces: list[str | int]
) -> None:
    secrets = [f"Q7{secret}7Q" for secret in secrets if "Q" not in secret]
    redactor = Redactor({f"k{number}": secret for number, secret in enumerate(secrets)})
    texts = [
        piece if isinstance(piece, str) else secrets[piece] if piece < len(secrets) else ""
        for piece in pieces
    ]
    cleaned = redactor.redact("".join(texts))
    assert not any(secret in cleaned for secret in secrets)
    assert redactor.redact(cleaned) == cleaned
    if not secrets:
        assert cleaned == "".join(texts)


CORPUS = {
    "dotenv": "API_KEY={}\nDEBUG=1\n",
    "shell": "curl -H 'Authorization: Bearer {}' https://api.example.com",
    "json": '{{"key": "{}", "n": 1}}',
    "yaml": "key: {}  # comment",
    "url": "https://user:{}@host/path?x=1",
    "python": "client = Client('{}')",
    "markdown": "The key is `{}`.",
    "unicode": "ключ→{}←",
    "joined": "prefix{}suffix",
    "lines": "\n\n{}\r\n",
}


@for_every_row("template", CORPUS.values())
def test_a_secret_is_found_in_every_context(template: str) -> None:
    key = "sk-proj-Zx9RvB47Hq2LmN0"
    cleaned = Redactor({"api_key": key}).redact(template.format(key))
    assert cleaned == template.format(LABEL)


def test_what_a_hostile_text_costs_grows_with_its_length() -> None:
    redactor = Redactor(
        {"a": "abababab1", "b": "ab" * 20, **{f"k{n}": f"{n}x" * 5 for n in range(20)}}
    )
    shapes = (
        "ab",
        "[REDACTED:",
        "0000000 00",
        "00 ",
        "0x00, ",
        "0000000   ",
        "a" * 16 + "\n",
        "\\n",
    )
    assert slow(redactor.redact, {shape: shape * 10_000 for shape in shapes}) == []


def test_a_dump_in_a_long_text_costs_what_it_is_itself() -> None:
    redact = Redactor({"k": "Zx9-plain?word7/Q4"}).redact
    text = "def plain(words):\n    return [one for one in words if one.is_long]\n" * 40_000
    shown = f"00 01 02 03 04 05 06\n{b'Zx9-plain?word7/Q4'.hex(' ')}\n"
    half = len(text) // 2
    with_one = text[:half] + shown + text[half:]
    assert growth(lambda: redact(with_one), lambda: redact(text)) <= GROWTH_MAX
    assert redact(with_one).count("REDACTED") == 1
