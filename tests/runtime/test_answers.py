"""An answer has the form that was asked for, or a few lines say what is wrong with it and where."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from case_tables import for_every_row
from treadle.errors import UsageError
from treadle.runtime.answer_form import FAULTS_MAX, AnswerForm


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a plan."""

    title: str
    minutes: Annotated[int, Meta(ge=1)] = 5
    then: Step | None = None


class Plan(Struct, frozen=True):
    """What to do."""

    steps: tuple[Step, ...]
    certainty: float = 1.0


PLAN = AnswerForm.of_type(Plan)
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer"},
        "friends": {"type": "array", "items": {"$ref": "#"}},
        "contact": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/address"}]},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}},
            "required": ["street"],
        }
    },
}
BOTH = [PLAN, AnswerForm.of_schema({"type": "object"})]


# ---- a type ------------------------------------------------------------------------------------


def test_an_answer_of_a_type_is_a_value_of_it() -> None:
    text = '{"steps": [{"title": "a", "then": {"title": "b", "minutes": 1}}]}'
    assert PLAN.find_fault(text) == ""
    assert PLAN.decode(text) == Plan((Step("a", then=Step("b", 1)),))


def test_the_schema_of_a_type_is_plain_json_with_references() -> None:
    assert json.loads(json.dumps(PLAN.schema)) == PLAN.schema
    assert PLAN.schema["$ref"] == "#/$defs/Plan"
    assert PLAN.schema["$defs"]["Step"]["properties"]["then"]["anyOf"][0] == {
        "$ref": "#/$defs/Step"
    }


def test_a_form_of_a_type_and_one_of_its_schema_ask_for_the_same() -> None:
    by_schema = AnswerForm.of_schema(PLAN.schema)
    assert by_schema.schema == PLAN.schema
    for text in ('{"steps":[{"title":"a","then":{"title":"b"}}]}', '{"steps":[]}'):
        assert (PLAN.find_fault(text), by_schema.find_fault(text)) == ("", "")
    for text in ("{}", "[]", '{"steps":[{"title":"a","minutes":0}]}', '{"steps":[{"tilte":"a"}]}'):
        assert PLAN.find_fault(text)
        assert by_schema.find_fault(text)


@for_every_row(
    "text, told",
    [
        ("{}", "Object missing required field `steps`"),
        ('{"steps": [{"title": 3}]}', "Expected `str`, got `int` - at `$.steps[0].title`"),
        ('{"steps": [{"title": "", "minutes": 0}]}', "Expected `int` >= 1 - at `$.steps[0]"),
        ('{"steps": [{"title": "", "minute": 1}]}', "unknown field `minute` - at `$.steps[0]`"),
        ('{"steps": [], "certainty": 1e999}', "Number out of range - at `$.certainty`"),
    ],
)
def test_what_does_not_fit_a_type_is_told_with_its_place(text: str, told: str) -> None:
    assert told in PLAN.find_fault(text)


@for_every_row("kind", [list[int], dict[str, bool], int, str])
def test_every_type_that_has_a_schema_can_be_a_form(kind: type) -> None:
    form: AnswerForm[Any] = AnswerForm.of_type(kind)
    value = {"array": [1], "object": {"a": True}, "integer": 3, "string": "x"}[form.schema["type"]]
    assert form.decode(json.dumps(value)) == value


@for_every_row("kind", [object, socket.socket, Step | Plan])
def test_a_type_that_json_cannot_say_is_refused_in_one_line(kind: Any) -> None:
    with pytest.raises(UsageError, match="cannot be the form of an answer: ") as raised:
        AnswerForm.of_type(kind)
    assert "\n" not in raised.value.message


# ---- a schema ----------------------------------------------------------------------------------


def test_an_answer_of_a_schema_is_plain_data() -> None:
    form = AnswerForm.of_schema(PERSON)
    text = '{"name": "Ada", "friends": [{"name": "Bo"}], "contact": {"street": "x"}}'
    assert form.find_fault(text) == ""
    assert form.decode(text) == json.loads(text)
    assert form.schema == PERSON


def test_a_form_keeps_its_schema_though_the_caller_changes_theirs() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = AnswerForm.of_schema(schema)
    schema["type"] = "array"
    assert form.schema["type"] == "object"
    assert form.find_fault("{}") == ""


@for_every_row(
    "text, told",
    [
        ("{}", "'name' is a required property - at `$`"),
        ('{"name": 3}', "3 is not of type 'string' - at `$.name`"),
        ('{"name": "a", "friends": [{"name": "b", "age": 1.5}]}', "at `$.friends[0].age`"),
        ('{"name": "a", "surname": 1}', "('surname' was unexpected) - at `$`"),
        (
            '{"name": "a", "contact": {"street": 3}}',
            "not valid under any of the given schemas - at `$.contact`; "
            "nearest: 3 is not of type 'string' - at `$.contact.street`",
        ),
    ],
)
def test_what_does_not_fit_a_schema_is_told_with_its_place(text: str, told: str) -> None:
    fault = AnswerForm.of_schema(PERSON).find_fault(text)
    assert told in fault
    assert "\n" not in fault


def test_several_faults_are_told_a_line_each_and_many_are_bounded() -> None:
    form = AnswerForm.of_schema({"items": {"type": "string"}})
    assert form.find_fault("[1, 2]").splitlines() == [
        "1 is not of type 'string' - at `$[0]`",
        "2 is not of type 'string' - at `$[1]`",
    ]
    many = form.find_fault(json.dumps(list(range(1000)))).splitlines()
    assert (len(many), many[-1]) == (FAULTS_MAX + 1, "and more")
    exactly = form.find_fault(json.dumps(list(range(FAULTS_MAX)))).splitlines()
    assert (len(exactly), exactly[-1][:1]) == (FAULTS_MAX, str(FAULTS_MAX - 1))


def test_a_long_value_is_told_in_short_and_what_is_wrong_with_it_in_full() -> None:
    fault = AnswerForm.of_schema({"type": "object"}).find_fault(json.dumps("line\n" * 10_000))
    assert len(fault) < 500
    assert "is not of type 'object' - at `$`" in fault


@for_every_row(
    "schema, told",
    [
        ({"type": "objekt"}, "'objekt' is not valid under any of the given schemas - at `$.type`"),
        ({"properties": {"a": {"minimum": "1"}}}, "not of type 'number' - at `$.properties.a"),
        ({"pattern": "("}, "'(' is not a 'regex' - at `$.pattern`"),
        ({"$ref": "#/$defs/gone"}, "the $ref #/$defs/gone leads nowhere within it"),
        ({"items": {"$ref": "file:///etc/passwd"}}, "file:///etc/passwd leads nowhere"),
        ({"$ref": "http://["}, "the $ref http://[ leads nowhere"),
        ({"title": "x", "$ref": "#/title"}, "the $ref #/title leads to no schema"),
        ({"x": {"type": 3}, "$ref": "#/x"}, "the $ref #/x leads to no schema: 3 is not valid"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}}, "leads back to itself"),
        (
            {"properties": {"x": {"not": {"$ref": "#"}}}, "allOf": [{"$ref": "#/properties/x"}]},
            "bac",
        ),
        ({"default": object()}, "Encoding objects of type object is unsupported"),
    ],
)
def test_a_schema_that_is_not_valid_is_refused_when_the_form_is_made(
    schema: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as raised:
        AnswerForm.of_schema(schema)
    assert raised.value.message.startswith("the JSON schema is not valid: ")
    assert told in raised.value.message


def test_a_schema_that_is_nested_without_measure_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(UsageError, match="nested too deeply"):
        AnswerForm.of_schema(schema)


@for_every_row("draft", ["http://json-schema.org/draft-07/schema#", "x", 3])
def test_a_schema_of_another_draft_is_refused_with_what_to_do(draft: object) -> None:
    with pytest.raises(UsageError, match=f"the schema is of {draft}; only ") as raised:
        AnswerForm.of_schema({"$schema": draft})
    assert "leave out `$schema`" in raised.value.hint


@for_every_row(
    "schema",
    [
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"properties": {"next": {"$ref": "#"}}},
        {"$defs": {"n": {"$anchor": "n", "type": "object"}}, "$ref": "#n"},
        {"$dynamicAnchor": "n", "properties": {"c": {"$dynamicRef": "#n"}}},
        {"$id": "https://x.invalid/a", "$defs": {"b": {"$id": "b", "type": "object"}}, "$ref": "b"},
        {"enum": [{"a": [{"$ref": "#/is/only/data"}]}, {}]},
        {"definitions": {"old": {"type": "object"}}, "$ref": "#/definitions/old"},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": True},
    ],
)
def test_schemas_that_refer_within_themselves_are_taken(schema: dict[str, Any]) -> None:
    assert AnswerForm.of_schema(schema).find_fault("{}") == ""


def test_nothing_is_fetched_for_a_reference() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        with pytest.raises(UsageError, match="leads nowhere"):
            AnswerForm.of_schema({"properties": {"a": {"$ref": address}}})
        AnswerForm.of_schema({"$id": address, "type": "object"}).find_fault("{}")
        with pytest.raises(BlockingIOError):
            server.accept()


# ---- the text around it ------------------------------------------------------------------------


@for_every_row(
    "text",
    [
        "{}",
        " \n\t{}\r\n",
        "```json\n{}\n```",
        "```\n{}\n```",
        "\n```JSON\r\n{}\r\n```  \n",
        "```json {} ```",
        "```{}```",
    ],
)
def test_white_space_and_one_code_fence_around_a_document_are_allowed(text: str) -> None:
    assert AnswerForm.of_schema({"type": "object"}).decode(text) == {}


@for_every_row(
    "text",
    [
        *("Here it is: {}", "{} That is all.", "{}{}", "Here:\n```json\n{}\n```"),
        *("```json\n{}\n```\nDone.", "```json\n{}", "{}\n```", "```\n```json\n{}\n```\n```"),
        *("```json\n{}\n```\n```json\n{}\n```", "```python\n{}\n```", "```", "``````", "`{}`"),
    ],
)
@for_every_row("form", BOTH)
def test_anything_else_around_a_document_is_a_fault(form: AnswerForm[Any], text: str) -> None:
    fits = '{"steps": []}'
    assert form.find_fault(fits) == ""
    fault = form.find_fault(text.replace("{}", fits))
    assert fault.startswith("not a JSON document: ")
    assert fault.endswith("Answer with one JSON document and nothing around it.")


def test_a_fence_within_a_document_is_part_of_it() -> None:
    inner = json.dumps({"a": "```json\nx\n```"})
    form = AnswerForm.of_schema({"type": "object"})
    assert form.decode(f"```json\n{inner}\n```") == form.decode(inner) == json.loads(inner)


@for_every_row(
    "text, told",
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("```json\n```", "the answer is empty"),
        ('{"a": 1,\n "b" 2}', "Expecting ':' delimiter: line 2 column 6"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes: line 1 column 2"),
        ('{"a": [1, 2', "Expecting ',' delimiter"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": Infinity}', "Infinity is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": "\\ud800"}', "not a JSON document: "),
        ('{"a": "\ud800"}', "half of a surrogate pair"),
        ('{"steps": [], "certainty": 1e999}', "out of range"),
        ('{"a": ' * 50_000, "nested too deeply"),
    ],
)
@for_every_row("form", BOTH)
def test_what_is_no_json_is_told_with_its_place(
    form: AnswerForm[Any], text: str, told: str
) -> None:
    assert told in form.find_fault(text)


def test_a_document_too_deep_or_a_number_too_large_to_check_is_a_fault() -> None:
    tree = AnswerForm.of_schema({"properties": {"a": {"$ref": "#"}}})
    assert tree.find_fault('{"a":' * 900 + "1" + "}" * 900) == "the document is nested too deeply"
    assert tree.find_fault('{"a":' * 20 + "1" + "}" * 20) == ""
    half = AnswerForm.of_schema({"multipleOf": 0.5})
    assert half.find_fault("1" * 400) == "a number in the document is too large"


def test_decoding_what_does_not_fit_is_an_error_of_the_caller() -> None:
    with pytest.raises(UsageError, match=r"does not have the form asked for: .*`steps`"):
        PLAN.decode("{}")


FORMS = [PLAN, *(AnswerForm.of_schema(one) for one in (PERSON, PLAN.schema, {"type": "string"}))]
NAMES = st.sampled_from(["steps", "title", "then", "minutes", "name", "friends", "contact", "x"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)
STEPS = st.recursive(
    st.fixed_dictionaries({"title": st.text()}, optional={"minutes": st.integers(1, 2**63 - 1)}),
    lambda inner: st.fixed_dictionaries({"title": st.text(), "then": inner}),
    max_leaves=3,
)
FITTING = st.fixed_dictionaries({"steps": st.lists(STEPS, max_size=3)}) | st.text()
"""Data that some of the forms take; of the others, hardly any is."""


@given(
    (DATA | FITTING).map(json.dumps) | st.text(st.characters()),
    st.sampled_from(FORMS),
)
def test_whatever_a_model_writes_it_is_a_value_or_has_a_fault(
    text: str, form: AnswerForm[Any]
) -> None:
    fault = form.find_fault(text)
    if fault:
        with pytest.raises(UsageError):
            form.decode(text)
    else:
        value = form.decode(text)
        assert form.decode(msgspec.json.encode(value).decode()) == value
    assert len(fault) < 10_000


def test_the_checker_of_schemas_is_loaded_only_for_a_schema() -> None:
    program = (
        "import sys\n"
        "from treadle.runtime.answer_form import AnswerForm\n"
        "AnswerForm.of_type(int).find_fault('x')\n"
        "print('jsonschema' in sys.modules)\n"
        "AnswerForm.of_schema({})\n"
        "print('jsonschema' in sys.modules)\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.split() == ["False", "True"]
