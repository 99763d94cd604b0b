"""The OpenAPI document: it says what the routes do, because both are made of one table."""

from __future__ import annotations

import json
import re

from jsonschema import Draft202012Validator

from treadle.api.error_codes import ErrorCode
from treadle.server.http.app import ENDPOINTS
from treadle.server.http.endpoint_calls import APPLICATION_ENDPOINTS
from treadle.server.http.openapi import make_openapi_document
from treadle.server.http.request_reader import PATH_PATTERNS

FOUND = json.loads(json.dumps(make_openapi_document(ENDPOINTS)))


def test_every_endpoint_is_told_once_and_by_a_name_of_its_own() -> None:
    told = {(path, method) for path, one in FOUND["paths"].items() for method in one}
    assert told == {(one.path, one.method.lower()) for one in ENDPOINTS}
    assert len({one.name for one in ENDPOINTS}) == len(ENDPOINTS) == len(told)
    assert {one.name for one in ENDPOINTS} >= APPLICATION_ENDPOINTS


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    schemas = FOUND["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(FOUND)))
    assert named
    assert named <= schemas.keys()


def test_every_name_in_a_path_has_a_pattern_and_is_told() -> None:
    for path, operations in FOUND["paths"].items():
        names = set(re.findall(r"\{(\w+)\}", path))
        assert names <= PATH_PATTERNS.keys()
        for one in operations.values():
            assert {p["name"] for p in one["parameters"] if p["in"] == "path"} == names


def test_every_status_that_an_endpoint_may_answer_is_told() -> None:
    for one in ENDPOINTS:
        told = FOUND["paths"][one.path][one.method.lower()]["responses"]
        wanted = {one.status, *one.more_statuses, *(code.status for code in one.all_codes)}
        assert {int(status) for status in told} == wanted


def test_whatever_has_a_body_may_be_too_large_too_slow_and_of_the_wrong_kind() -> None:
    for one in ENDPOINTS:
        about_bodies = {ErrorCode.TOO_LARGE, ErrorCode.TIMEOUT, ErrorCode.UNSUPPORTED_MEDIA}
        assert (one.all_codes & about_bodies == about_bodies) == (one.body is not None)
        assert one.is_open or ErrorCode.UNAUTHORIZED in one.all_codes
