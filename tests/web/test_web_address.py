"""Addresses: their parts, what a grant names, and what could carry something away."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.web.web_address import WebFailure, read_address, read_link


@for_every_row(
    "text, url",
    (
        ("https://Docs.Python.ORG", "https://docs.python.org/"),
        ("HTTPS://docs.python.org./3/?q=1#top", "https://docs.python.org/3/?q=1"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com:80/a", "https://example.com:80/a"),
        ("https://example.com?q", "https://example.com/?q"),
        ("https://example.com/ä?ö=%C3%A4", "https://example.com/%C3%A4?%C3%B6=%C3%A4"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("https://1.1.1.1/", "https://1.1.1.1/"),
        ("https://[2606:4700:0:0::1111]/", "https://[2606:4700::1111]/"),
    ),
)
def test_an_address_has_one_form(text: str, url: str) -> None:
    assert read_address(text).url == url
    assert read_address(url) == read_address(text)


@given(st.text(max_size=60), st.sampled_from(("", "http://", "https://a.example/", "http://[")))
def test_what_is_read_at_all_is_read_alike_again(text: str, start: str) -> None:
    with suppress(WebFailure):
        address = read_address(start + text)
        assert read_address(address.url).url == address.url


@for_every_row(
    "host, site",
    (
        ("example.com", "example.com"),
        ("www.example.com", "example.com"),
        ("docs.example.com", "docs.example.com"),
        ("www.docs.example.com", "docs.example.com"),
        ("evil-example.com", "evil-example.com"),
        ("user.github.io", "user.github.io"),
        ("www.com", "www.com"),
        ("1.1.1.1", "1.1.1.1"),
    ),
)
def test_a_site_is_one_host(host: str, site: str) -> None:
    assert read_address(f"https://{host}/").site == site


@for_every_row(
    "target, carries",
    (
        ("/3/library/asyncio-task.html", False),
        ("/org/repo/commit/4173cf1a083c260f4e344a47575f62235e0a1b2c", False),
        ("/search?q=how+to+pin+a+python+dependency+with+hashes&page=2", False),
        (f"/?d={'QUJD' * 17}", True),
        (f"/?d={'%51%55' * 40}", True),
        ("/" + "a-b/" * 110, True),
    ),
)
def test_an_address_that_could_carry_data_is_told_from_one_that_names_a_page(
    target: str, carries: bool
) -> None:
    assert read_address(f"https://example.com{target}").carries_data is carries


def test_a_link_is_relative_to_its_page() -> None:
    base = read_address("https://example.com/a/b?c")
    assert read_link(base, " ../d ").url == "https://example.com/d"
    assert read_link(base, "//other.example/x").url == "https://other.example/x"
    with pytest.raises(WebFailure, match="javascript"):
        read_link(base, "javascript:alert(1)")
