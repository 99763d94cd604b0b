"""No secret is shown that comes in pieces, wherever it is cut, and nothing else is lost."""

from __future__ import annotations

import base64
import json
import random
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from token_samples import TOKENS, secret_of
from treadle.secrets.redaction import Redactor
from treadle.secrets.stream_redaction import HELD_LENGTH_MAX, WORD_LENGTH_MAX

KNOWN = "correct horse 4711 battery"
"""A secret with spaces in it."""
REDACTOR = Redactor({"pass_phrase": KNOWN})


def shown(pieces: list[str]) -> list[str]:
    stream = REDACTOR.stream()
    return [*map(stream.feed, pieces), stream.end()]


@for_every_row("kind", [*TOKENS, "pass_phrase"])
def test_a_secret_cut_anywhere_is_never_shown(kind: str) -> None:
    token = KNOWN if kind == "pass_phrase" else TOKENS[kind](random.Random(f"{kind} 7"))
    text = f"It is {token} and no other.\n"
    whole = REDACTOR.redact(text)
    assert f"[REDACTED:{kind}]" in whole
    for place in range(0, len(text), 1 if len(text) < 400 else 7):
        assert "".join(shown([text[:place], text[place:]])) == whole, place


@for_every_row("kind", [*TOKENS, "pass_phrase"])
@for_every_row("size", [1, 3, 17])
def test_a_secret_in_small_pieces_is_never_shown(kind: str, size: int) -> None:
    token = KNOWN if kind == "pass_phrase" else TOKENS[kind](random.Random(f"{kind} 8"))
    hidden = token if kind == "pass_phrase" else secret_of(token)
    text = f'a "{token}" b'
    told = shown([text[start : start + size] for start in range(0, len(text), size)])
    assert hidden not in "".join(told)
    assert "".join(told).endswith(" b")


def test_base64_in_lines_is_never_shown_before_what_it_hides_is_known() -> None:
    token = TOKENS["github_token"](random.Random(9))
    shown_forms = []
    for size, secret, width in product((1, 7, 50), (token, KNOWN), (64, 76)):
        for offset in range(30, 80):
            digits = base64.b64encode(f"{'.' * offset}{secret}\nand more".encode()).decode()
            lines = [digits[place : place + width] for place in range(0, len(digits), width)]
            text = "It is\n" + "\n".join(lines) + "\nand that is all\n"
            told = "".join(shown([text[at : at + size] for at in range(0, len(text), size)]))
            if told != REDACTOR.redact(text) or "REDACTED" not in told:
                shown_forms.append((size, width, offset, secret))
    assert shown_forms == []


@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["correct", " ", "sk-", "://"]))))
def test_what_holds_no_secret_comes_out_as_it_went_in(pieces: list[str]) -> None:
    assert "".join(shown(pieces)) == "".join(pieces)


def test_words_are_shown_when_the_next_one_begins() -> None:
    assert shown(["The ans", "wer is", " 42", "."]) == ["The ", "answer ", "is ", "", "42."]


def test_a_name_without_a_value_holds_nothing_back_for_long() -> None:
    pieces = ["Discord ", "is ", "a ", "place"]
    assert "".join(shown(pieces)[:3]) == "Discord is a "


def test_no_text_is_held_back_for_ever() -> None:
    stream = REDACTOR.stream()
    edge = "-" * 5
    told = stream.feed(f"{edge}BEGIN PRIVATE KEY{edge}\n")
    count = 0
    while not told:
        told = stream.feed("Ab3+" * 16 + "\n")
        count += 65
        assert count <= HELD_LENGTH_MAX + 65
    assert "Ab3+" not in told


def test_escapes_and_labels_pass_as_they_are() -> None:
    text = json.dumps({"a": "[REDACTED:pass_phrase]", "b": "x\ny"})
    assert "".join(shown(list(text))) == text


@for_every_row("kind", sorted(TOKENS))
def test_a_secret_before_another_line_is_never_shown_wherever_they_are_cut(kind: str) -> None:
    """The next line may look like the rest of it; what tells that it is a secret stays with it."""
    token = TOKENS[kind](random.Random(f"{kind} 9"))
    text = f"It is\n{token}\nSKf89b0\n"
    for cut in range(len(text) - 8, len(text)):
        assert secret_of(token) not in "".join(shown([text[:20], text[20:cut], text[cut:]])), cut


@for_every_row("before", [0, 1, 2030, 2100, 5000])
@for_every_row("kind", ["github_token", "anthropic_key", "jwt", "url_password"])
def test_a_secret_cut_in_a_word_without_end_is_never_shown(kind: str, before: int) -> None:
    """JSON without spaces is one word, and longer than any token."""
    token = TOKENS[kind](random.Random(f"{kind} 10"))
    text = json.dumps({"a": "x,y;" * (before // 4), "b": token, "c": "z." * 1500})
    text = text.replace(" ", "")
    start = text.index(token)
    for cut in range(start + 1, start + len(token), 9):
        told = shown([text[: start // 2], text[start // 2 : cut], text[cut:]])
        assert "".join(told) == REDACTOR.redact(text), cut


def test_a_word_without_end_is_shown_but_for_its_last_characters() -> None:
    stream = REDACTOR.stream()
    count = sum(len(stream.feed('{"a":[1,2,3]},')) for _ in range(1000))
    assert 0 <= 14 * 1000 - WORD_LENGTH_MAX - count < 256


def long_key(end: str, line: str = "\n") -> str:
    """As PGP writes them; far longer than what is held back, its last line a short one."""
    dice, edge = random.Random(11), "-" * 5
    data = base64.b64encode(dice.randbytes(43_000)).decode()
    lines = [data[start : start + 64] for start in range(0, len(data), 64)]
    head = f"{edge}BEGIN PGP PRIVATE KEY BLOCK{edge}"
    foot = f"{edge}END PGP PRIVATE KEY BLOCK{edge}" if end else ""
    return line.join([head, "", *lines, "Ab3=", "=x9Yz", foot]) + end


@for_every_row("size", [61, 4096, 40_000])
@for_every_row("line", ["\n", "\\n"])
def test_of_a_key_too_long_to_be_held_back_its_label_is_shown(size: int, line: str) -> None:
    key, token = long_key(" ", line), TOKENS["private_key"](random.Random(12))
    text = f"It is\n{key}and {long_key(' ', line)}also\n{token}\nand no other.\n"
    told = "".join(shown([text[start : start + size] for start in range(0, len(text), size)]))
    label = "[REDACTED:private_key]"
    assert told == f"It is\n{label} and {label} also\n{label}\nand no other.\n"
    assert told == REDACTOR.redact(text)


def test_a_long_key_without_an_end_is_swallowed_and_what_follows_is_shown() -> None:
    text = long_key("") + " \nThat is it. " + "x" * 80_000
    told = "".join(shown([text[start : start + 500] for start in range(0, len(text), 500)]))
    assert told.startswith("[REDACTED:private_key]")
    assert told.endswith(" \nThat is it. " + "x" * 80_000)
    assert len(told) < 80_100


def test_nothing_is_shown_of_a_long_key_that_goes_on() -> None:
    stream, key = REDACTOR.stream(), long_key("")
    assert stream.feed(key[:40_000]) == "[REDACTED:private_key]"
    assert {stream.feed(key[place : place + 7]) for place in range(40_000, 41_400, 7)} == {""}
    assert stream.end() == ""
