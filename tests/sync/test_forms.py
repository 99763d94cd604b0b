"""What looks for private texts in what was sent finds them in every form."""

from __future__ import annotations

import base64
import gzip
import json
from urllib.parse import quote

import pytest

from case_tables import for_every_row
from sync.forms import hits

TEXT = "canary «één» 17/ä"
OTHER = "another text altogether"

HIDDEN = {
    "plain": TEXT.encode(),
    "in JSON": json.dumps({"a": [TEXT]}).encode(),
    "in JSON in JSON": json.dumps({"a": json.dumps({"b": TEXT})}).encode(),
    "in a URL": b"GET /x?q=" + quote(TEXT, safe="").encode(),
    "in hexadecimal": b"--" + TEXT.encode().hex().encode(),
    "in UTF-16": TEXT.encode("utf-16"),
    "in gzip": b"POST / HTTP/1.1\r\n\r\n" + gzip.compress(b"x" * 50 + TEXT.encode()),
    **{
        f"in base64 at {offset}": base64.b64encode(b"abc"[:offset] + TEXT.encode() + b"tail")
        for offset in range(3)
    },
}


def in_chunks(data: bytes, size: int) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"POST / HTTP/1.1\r\nhost: x\r\n\r\n" + b"".join(
        b"%x\r\n%b\r\n" % (len(one), one) for one in (*pieces, b"")
    )


@for_every_row("name", HIDDEN)
def test_a_text_is_found_in_every_form(name: str) -> None:
    assert hits(HIDDEN[name], [TEXT, OTHER]) == [TEXT]


@pytest.mark.parametrize("size", [3, 7, 1000])
def test_a_text_is_found_across_the_chunks_of_a_body(size: int) -> None:
    packed = gzip.compress(b"%b and more" % TEXT.encode())
    assert hits(in_chunks(packed, size), [TEXT]) == [TEXT]
    assert hits(in_chunks(TEXT.encode(), size), [TEXT]) == [TEXT]


def test_nothing_is_found_where_nothing_is() -> None:
    assert hits(b"".join(HIDDEN.values()), [OTHER]) == []
