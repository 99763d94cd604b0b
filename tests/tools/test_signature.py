"""What a tool's schema is made from, and what happens to arguments that do not fit."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from case_tables import for_every_row
from treadle.core.messages import ToolCall
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.errors import UsageError
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import tool
from treadle.tools.registry import Registry


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """A place."""

    x: int
    y: int = 0


@tool()
def draw(  # noqa: D417  `extra` is left out to see what happens
    context: ToolContext,
    points: Annotated[list[Point], Meta(min_length=1)],
    colour: Literal["red", "blue"] = "red",
    *,
    width: Annotated[float, Meta(gt=0)] | None = None,
    extra: Any = None,
) -> str:
    """Draw a line.

    Through all points: in
    the order given.

    Args:
        context: Not for the model.
        points: Where the line goes,
            from the first: to the last.
        colour (str): How it looks.
        width: In pixels.

    Returns:
        Nothing that matters.
    """
    return repr((points, colour, width, extra))


def test_the_description_is_what_stands_before_the_arguments() -> None:
    assert draw.definition.description == (
        "Draw a line.\n\nThrough all points: in\nthe order given."
    )


def test_the_schema_comes_from_types_and_docstring_and_stands_for_itself() -> None:
    assert draw.definition.input_schema == {
        "type": "object",
        "properties": {
            "points": {
                "description": "Where the line goes, from the first: to the last.",
                "type": "array",
                "items": {
                    "description": "A place.",
                    "type": "object",
                    "properties": {
                        "x": {"type": "integer"},
                        "y": {"type": "integer", "default": 0},
                    },
                    "required": ["x"],
                    "additionalProperties": False,
                },
                "minItems": 1,
            },
            "colour": {
                "description": "How it looks.",
                "enum": ["blue", "red"],
                "default": "red",
            },
            "width": {
                "description": "In pixels.",
                "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}],
                "default": None,
            },
            "extra": {"default": None},
        },
        "required": ["points"],
        "additionalProperties": False,
    }


ONE = '"points":[{"x":1}]'


@for_every_row(
    "text, reason",
    [
        ("{", "Input data was truncated"),
        ("nonsense", "JSON is malformed: "),
        (f"{{{ONE}}} {{}}", "JSON is malformed: "),
        ("\ufeff{}", "JSON is malformed: "),
        ("[]", "Expected `object`, got `array`"),
        ("null", "Expected `object`, got `null`"),
        ('"text"', "Expected `object`, got `str`"),
        ("", "the arguments are missing: the answer was cut"),
        (" \n", "the arguments are missing: the answer was cut"),
        ("{}", "Object missing required field `points`"),
        ('{"points":[]}', "Expected `array` of length >= 1 - at `$.points`"),
        ('{"points":[{"x":"one"}]}', "Expected `int`, got `str` - at `$.points[0].x`"),
        ('{"points":[{"x":1},{}]}', "Object missing required field `x` - at `$.points[1]`"),
        ('{"points":[{"x":true}]}', "Expected `int`, got `bool` - at `$.points[0].x`"),
        (f'{{{ONE},"colour":"green"}}', "Invalid enum value 'green' - at `$.colour`"),
        (f'{{{ONE},"width":0}}', "Expected `float` > 0.0 - at `$.width`"),
        (f'{{{ONE},"width":NaN}}', "JSON is malformed: "),
        (f'{{{ONE},"extra":[Infinity]}}', "JSON is malformed: "),
        (f'{{{ONE},"extra":1e999}}', "Number out of range - at `$.extra`"),
        (f'{{{ONE},"extra":"\\ud800."}}    ', "JSON is malformed: "),
        (f'{{{ONE},"extra":"\ud800"}}', "the text contains half of a surrogate pair"),
        (f'{{{ONE},"extra":{"[" * 64}{"]" * 64}}}', "the JSON is nested deeper than 64 levels"),
        (f'{{{ONE},"extra":{"[" * 5000}{"]" * 5000}}}', "the JSON is nested deeper than 64"),
        ('{"a":' * 10**6, "the JSON is nested deeper than 64 levels"),
        (
            f'{{{ONE},"size":3}}',
            "Object contains unknown field `size` (accepted: points, colour, width, extra)",
        ),
        (
            '{"points":[{"x":1},{"x":1,"z":2}]}',
            "Object contains unknown field `z` - at `$.points[1]` (accepted: x, y)",
        ),
    ],
)
async def test_arguments_that_do_not_fit_are_an_outcome(text: str, reason: str) -> None:
    call = ToolCall("1", "draw", text)
    outcome = await Registry([draw]).execute(call, key="", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Error)
    assert outcome.error.kind is ToolErrorKind.INVALID_ARGUMENTS
    assert outcome.error.message.startswith(reason)


def test_arguments_that_fit_are_typed_and_completed() -> None:
    found = draw.signature.parse('{"points":[{"x":1}],"width":3,"extra":{"a":[1,null]}}')
    assert found == {
        "points": [Point(1, 0)],
        "colour": "red",
        "width": 3,
        "extra": {"a": [1, None]},
    }


def test_brackets_in_text_are_no_nesting() -> None:
    found = draw.signature.parse(f'{{{ONE},"extra":["\\"[[\\\\","{"[{" * 100}"]}}')
    assert found["extra"] == ['"[[\\', "[{" * 100]
    found = draw.signature.parse(f'{{{ONE},"extra":{"[" * 63}{"]" * 63}}}')
    assert repr(found["extra"]) == "[" * 63 + "]" * 63


def test_no_text_at_all_counts_as_no_arguments() -> None:
    @tool()
    def ping() -> str:
        """Answer."""
        return "pong"

    with pytest.raises(ToolFailure, match="the arguments are missing: the answer was cut"):
        ping.signature.parse("")
    with pytest.raises(ToolFailure, match="accepted: none"):
        ping.signature.parse('{"a":1}')


def test_a_default_value_is_not_taken_for_a_schema() -> None:
    @tool()
    def configure(settings: dict[str, Any] = {}, title: str = "x") -> str:  # noqa: B006
        """Configure."""
        return ""

    properties = configure.definition.input_schema["properties"]
    assert properties == {
        "settings": {"type": "object", "default": {}},
        "title": {"type": "string", "default": "x"},
    }


class Tree(Struct):
    children: list[Tree]


def undocumented(text: str) -> str:
    return text


def unannotated(text) -> str:  # type: ignore[no-untyped-def]
    """Do."""
    return str(text)


def starred(*texts: str) -> str:
    """Do."""
    return "".join(texts)


def positional(text: str, /) -> str:
    """Do."""
    return text


def recursive(tree: Tree) -> str:
    """Do."""
    return repr(tree)


def unsayable(text: object, number: complex) -> str:
    """Do."""
    return f"{text}{number}"


def misnamed(text: str) -> str:  # noqa: D417  that is the fault
    """Do.

    Args:
        txet: a slip.
    """
    return text


def unknown_type(text: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Do."""
    return str(text)


@for_every_row(
    "function, fault",
    [
        (undocumented, "has no docstring"),
        (unannotated, "does not annotate text"),
        (starred, "cannot be called by names alone: *texts"),
        (positional, "cannot be called by names alone: text"),
        (recursive, "takes what JSON cannot say"),
        (unsayable, "what JSON cannot say"),
        (misnamed, "describes parameters it does not have: txet"),
        (unknown_type, "has an annotation that its module does not know"),
        (lambda: "", "cannot be the name of a tool"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_when_it_is_declared(
    function: Any, fault: str
) -> None:
    with pytest.raises(UsageError) as caught:
        tool()(function)
    assert fault in str(caught.value)


def test_a_tool_with_words_for_its_risk_or_effect_is_refused_when_it_is_declared() -> None:
    for said, levels in (({"risk": "high"}, "RiskLevel.HIGH"), ({"effect": "r"}, "EffectClass.")):
        with pytest.raises(UsageError, match="cannot have '") as caught:
            tool(**said)(draw.function)  # type: ignore[arg-type, call-overload]
        assert levels in (caught.value.hint or "")


def test_the_arguments_of_the_schema_are_json() -> None:
    assert json.loads(json.dumps(draw.definition.input_schema)) == draw.definition.input_schema
