"""What types arguments and results may have, and what is refused where it is declared."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest
from msgspec import Meta, Struct

from case_tables import for_every_row
from treadle.core.messages import ToolCall
from treadle.core.tools import ToolErrorKind, ToolExecutionOutcome
from treadle.errors import UsageError
from treadle.tools.context import ToolContext
from treadle.tools.function_tool import Tool, tool
from treadle.tools.registry import AgentContext, Registry


class Size(enum.Enum):
    SMALL = "small"


class Customer(pydantic.BaseModel):
    name: str
    since: date | None = None
    age: Annotated[int, pydantic.Field(gt=17)] = 18


@pydantic.dataclasses.dataclass
class Checked:
    count: Annotated[int, pydantic.Field(gt=0)]


@dataclasses.dataclass
class Circle:
    radius: float


@dataclasses.dataclass
class Square:
    side: float


class Order(Struct):
    customer: Customer
    others: list[Customer] = []


class Row(TypedDict):
    id: int


class Pair(NamedTuple):
    left: int
    right: int


class Opaque:
    pass


TAKEN: list[tuple[Any, Any, Any]] = [
    (bool, True, True),
    (Size, "small", Size.SMALL),
    (Literal["a", "b"], "b", "b"),
    (datetime, "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),  # noqa: DTZ001
    (date, "2026-01-02", date(2026, 1, 2)),
    (Decimal, "1.10", Decimal("1.10")),
    (Circle, {"radius": 2.5}, Circle(2.5)),
    (Row, {"id": 1}, {"id": 1}),
    (Pair, [1, 2], Pair(1, 2)),
    (Circle | Square, {"side": 2.0}, Square(2.0)),
    (Annotated[int, Meta(gt=3)], 4, 4),
    (Annotated[int, annotated_types.Gt(3)], 4, 4),
    (Annotated[str, pydantic.Field(pattern="^a")], "abc", "abc"),
    (Customer, {"name": "A", "since": "2026-01-02"}, Customer(name="A", since=date(2026, 1, 2))),
    (Customer | None, None, None),
    (list[Customer], [{"name": "A"}], [Customer(name="A")]),
    (dict[str, Customer], {"x": {"name": "A"}}, {"x": Customer(name="A")}),
    (Customer | Circle, {"radius": 1.0}, Circle(1.0)),
    (Checked, {"count": 2}, Checked(2)),
    (Order, {"customer": {"name": "A"}}, Order(Customer(name="A"))),
    (tuple[Customer, int], [{"name": "A"}, 3], (Customer(name="A"), 3)),
]


def declare(hint: Any, result: Any = str) -> Tool[..., Any]:
    def take(value: Any) -> Any:
        """Take a value."""
        return value

    take.__annotations__ = {"value": hint, "return": result}
    return tool(take)


def returning(value: Any, hint: Any) -> Tool[..., Any]:
    def give() -> Any:
        """Give a value."""
        return value

    give.__annotations__ = {"return": hint}
    return tool(give)


async def call(one: Tool[..., Any], text: str, **context: Any) -> Any:
    tools = Registry([one], **context)
    name = one.definition.name
    return await tools.execute(ToolCall("c", name, text), key="T-1:c", progress=lambda _: None)


def test_values_of_every_kind_of_type_come_in_as_what_they_are() -> None:
    missed = []
    for hint, given, value in TAKEN:
        one = declare(hint)
        text = msgspec.json.encode({"value": given}).decode()
        found = one.signature.parse(text)["value"]
        if found != value or type(found) is not type(value):
            missed.append((hint, found))
        schema = one.definition.input_schema["properties"]["value"]
        if not {"type", "anyOf", "enum"} & schema.keys() or "$ref" in str(schema):
            missed.append((hint, schema))
    assert missed == []


async def test_results_of_every_kind_of_type_are_told_as_json() -> None:
    missed = []
    for hint, _, value in TAKEN:
        if isinstance(value, str):  # it is told as it is
            continue
        outcome = await call(returning(value, hint), "{}")
        told = msgspec.json.decode(outcome.output)
        again = declare(hint).signature.parse(msgspec.json.encode({"value": told}).decode())
        if again["value"] != value:
            missed.append((hint, told))
    assert missed == []


WRONG: list[tuple[Any, Any, str]] = [
    (Customer, {"since": "soon"}, r"Field required, in `\.name`; .*in `\.since` - at `\$\.value`"),
    (Customer, {"name": "A", "age": 3}, r"greater than 17, in `\.age` - at `\$\.value`"),
    (list[Customer], [{}], r"Field required, in `\[0\]\.name`"),
    (Order, {"customer": {}}, r"Field required, in `\.name` - at `\$\.value\.customer`"),
    (Annotated[int, annotated_types.Gt(3)], 3, "greater than 3"),
    (Checked, {"count": 0}, "greater than 0"),
    (list[Annotated[int, pydantic.Field(gt=9)]], [*range(9)], "; and more - at"),
]


async def test_the_model_is_told_what_is_wrong_and_where() -> None:
    for hint, given, reason in WRONG:
        outcome = await call(declare(hint), msgspec.json.encode({"value": given}).decode())
        assert outcome.error.kind is ToolErrorKind.INVALID_ARGUMENTS
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(outcome.error.text)


class Tree(pydantic.BaseModel):
    below: list[Tree] = []


@for_every_row("hint", [Opaque, list[Opaque], Callable[[], int], object, Tree])
def test_what_cannot_be_described_is_refused_where_it_is_declared(hint: Any) -> None:
    with pytest.raises(UsageError, match="what JSON cannot say"):
        declare(hint)


@pytest.mark.parametrize("hint", [Opaque, list[Opaque], Callable[[], int]])
def test_what_cannot_be_told_is_refused_where_it_is_declared(hint: Any) -> None:
    with pytest.raises(UsageError, match="the tool take returns what JSON cannot say"):
        declare(int, hint)


async def test_a_default_may_be_any_value() -> None:
    @tool
    def greet(
        customer: Customer = Customer(name="you"),  # noqa: B008
        words: list[str] = ["hello"],  # noqa: B006
    ) -> str:
        """Greet a customer."""
        words.append(customer.name)
        return " ".join(words)

    for _ in range(2):
        assert (await call(greet, "{}")).output == "hello you"


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def sell(self, context: ToolContext[int], thing: str) -> str:
        """Sell a thing."""
        return f"{thing} by {self.name}, {context.deps} of them"

    @tool
    async def buy(self, thing: str) -> str:
        """Buy a thing."""
        return f"{thing} for {self.name}"


async def test_a_method_is_a_tool_of_its_object() -> None:
    shop = Shop("Ann")
    sold = await call(shop.sell, '{"thing": "tea"}', context=AgentContext(2))
    assert sold == ToolExecutionOutcome.Success("c", "tea by Ann, 2 of them")
    bought = await call(shop.buy, '{"thing": "tea"}')
    assert bought == ToolExecutionOutcome.Success("c", "tea for Ann")
    assert await shop.buy("salt") == "salt for Ann"
    assert list(shop.sell.definition.input_schema["properties"]) == ["thing"]
    with pytest.raises(UsageError, match="sell is a method, and nobody says of which object"):
        Registry([Shop.sell])


async def test_a_call_knows_its_program_its_thread_and_its_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def look(context: ToolContext[str]) -> str:
        """Look around."""
        context.log.warning("looked")
        return f"{context.deps} {context.thread_id} {context.thread_key} {context.call_id}"

    outcome = await call(look, "{}", context=AgentContext("deps", "customer-7"))
    assert outcome.output == "deps T-1 customer-7 c"
    assert [one.name for one in caplog.records] == ["treadle.tools.look"]
