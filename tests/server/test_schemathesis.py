"""Requests made from the OpenAPI document, well formed and not: none fails, none odd passes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from hypothesis import HealthCheck, Phase, assume, given, settings

from server.people import People
from server.running import Running
from treadle.server.http.app import ENDPOINTS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import CHECKS, load_all_checks
    from schemathesis.generation import GenerationMode


@schemathesis.serializer("application/x-ndjson")
def lines_of(_: Any, value: Any) -> bytes:
    """Whatever is made up, as a line."""
    return value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"


STREAMS: Final = {one.path for one in ENDPOINTS if one.is_stream}
"""An answer that does not end is looked at in `test_stream.py`."""

MEANT: Final = ["positive_data_acceptance"]
"""What fits the schema may still be refused for what it means: a name that is taken, a search for
nothing but signs, a time that is over, a document that is no later version."""

EXAMPLES: Final = 2
EXAMPLES_MANY: Final = 150


@pytest.fixture
def server(database_url: str, people: People) -> Iterator[Running]:
    with Running(database_url, rate=0) as running:
        yield running


def fuzz(server: Running, token: str, examples: int) -> int:
    """Try every operation with requests of both kinds; gives how many were sent."""
    schema: Any = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json")
    # Any refusal is one, also for an address that is too long.
    refused = schema.config.checks.negative_data_rejection
    refused.expected_statuses = ["4xx"]
    # Each request has the token: one that lacks it is tried by `test_access_over_http.py`.
    schema.config.generation.with_security_parameters = False
    load_all_checks()
    checks = [one for one in CHECKS.get_all() if one.__name__ not in MEANT]
    assert len(checks) > 8
    headers = {"Authorization": f"Bearer {token}"}
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in STREAMS:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and not _has_input(operation):
                continue

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=examples,
                database=None,
                deadline=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def attempt(case: Any) -> None:
                nonlocal sent
                assume(_is_sent_whole(case))
                sent += 1
                response = case.call_and_validate(headers=headers, checks=checks, timeout=60)
                assert response.status_code < 500

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attempt()
    return sent


def _is_sent_whole(case: Any) -> bool:
    """Whether no part of the query is lost on the way: an empty list has no form in an address."""
    address = requests.Request(**case.as_transport_kwargs()).prepare().url
    sent = parse_qs(urlsplit(address).query, keep_blank_values=True)
    return set(case.query or {}) <= set(sent)


def _has_input(operation: Any) -> bool:
    return bool(operation.body or list(operation.query) or list(operation.path_parameters))


def test_requests_made_from_the_document_find_nothing(server: Running, people: People) -> None:
    assert fuzz(server, people.token("admin"), EXAMPLES) >= 100


@pytest.mark.torture
@pytest.mark.timeout(3000)
def test_many_requests_made_from_the_document_find_nothing(server: Running, people: People) -> None:
    assert fuzz(server, people.token("admin"), EXAMPLES_MANY) >= 5000
