"""Whatever a handler returns becomes JSON that everybody can read, or an honest refusal."""

from __future__ import annotations

import datetime
import enum
import functools
import math
import subprocess
import sys
import uuid
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from handrail import Executor, Policy, ToolCall, tool
from handrail.core.calls import Attachment, Output, Problem, ToolResult
from handrail.core.errors import Denied, InvalidOutput, ToolError
from handrail.core.redact import MASK, Secret
from handrail.execute.output import check_output, normalise_output, read_worker_output
from handrail.tools.handlers import Style

STYLES: tuple[Style, ...] = ("arguments", "context", "invocation", "named")
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
anything = st.recursive(
    scalars | st.binary() | st.decimals() | st.datetimes() | st.uuids() | st.sets(st.text(max_size=3), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    | st.tuples(inner, inner),
    max_leaves=8,
)  # fmt: skip


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Place:
    name: str
    at: Point
    tags: set[str] = field(default_factory=set)


class City(msgspec.Struct):
    name: str
    seen: datetime.date


class Model(BaseModel):
    name: str
    when: datetime.datetime


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
FORMS: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    ("text", "text"),
    ("naïve 🙂", "naïve 🙂"),
    (0.1, 0.1),
    (2**70, 2**70),
    (-(2**200), -(2**200)),
    (b"bytes", "bytes"),
    (bytearray(b"bytes"), "bytes"),
    (memoryview(b"bytes"), "bytes"),
    ({"raw": b"\xff"}, {"raw": "/w=="}),
    ((1, (2,)), [1, [2]]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    ({"set": {"b", "a", "c"}, "list": [{"z", "y"}]}, {"set": ["a", "b", "c"], "list": [["y", "z"]]}),
    ({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}),
    (NOON, "2024-02-29T12:00:00Z"),
    (NOON.date(), "2024-02-29"),
    (datetime.timedelta(seconds=90), "PT90S"),
    (datetime.UTC, "UTC"),
    (Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("/a/b"), "/a/b"),
    ([Path("a")], ["a"]),
    (Colour.RED, "red"),
    ({"level": Level.HIGH}, {"level": 3}),
    (Point(1, 2), [1, 2]),
    (Place("Lisbon", Point(1, 2)), {"name": "Lisbon", "at": [1, 2], "tags": []}),
    (City("Lisbon", NOON.date()), {"name": "Lisbon", "seen": "2024-02-29"}),
    (Model(name="a", when=NOON), {"name": "a", "when": "2024-02-29T12:00:00Z"}),
    ([Model(name="a", when=NOON)], [{"name": "a", "when": "2024-02-29T12:00:00Z"}]),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (defaultdict(int, a=1), {"a": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (UserDict({"a": 1}), {"a": 1}),
    (deque([1, 2]), [1, 2]),
    (range(3), [0, 1, 2]),
    (Text("text"), "text"),
    ([Number(3), Real(0.5)], [3, 0.5]),
    ({"key": Secret("hunter2")}, {"key": MASK}),
]


@pytest.mark.requirement("nrv.result")
@pytest.mark.parametrize(("value", "plain"), FORMS)
@pytest.mark.parametrize("style", STYLES)
def test_a_value_has_its_plain_form(value: Any, plain: Any, style: Style) -> None:
    assert normalise_output(value, style) == Output(plain)
    assert type(normalise_output(value, style).output) is type(plain)


@given(anything)
def test_whatever_is_returned_is_json_or_refused(value: Any) -> None:
    try:
        output = normalise_output(value, "arguments")
    except InvalidOutput:
        return

    encoded = msgspec.json.encode(output.output)
    assert msgspec.json.decode(encoded) == output.output


def test_the_keys_of_an_object_stay_in_their_order() -> None:
    assert list(normalise_output({"b": 1, "a": {"d": 1, "c": 2}}, "arguments").output) == ["b", "a"]


def test_a_set_has_the_same_order_in_every_process() -> None:
    code = """
from handrail.execute.output import normalise_output
print(normalise_output({"s": set("abcdefgh"), "t": {1, "a"}}, "named").output)
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(seen) == 1


@pytest.mark.requirement("nrv.warnings")
@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, "nan"),
        ([1.0, math.inf, None], [1.0, "inf", None]),
        ({"a": {"b": -math.inf}}, {"a": {"b": "-inf"}}),
        ("half \ud83d", "half \\ud83d"),
        ({"\udc00": ["\ud800"]}, {"\\udc00": ["\\ud800"]}),
        (b"\xff\xfe", "//4="),
        (Path("\udcff"), "\\udcff"),
    ],
)
def test_what_json_cannot_hold_is_spelt_out_with_a_warning(value: Any, plain: Any) -> None:
    output = normalise_output(value, "arguments")

    assert output.output == plain
    assert len(output.warnings) == 1


def test_a_null_alone_is_no_reason_to_warn() -> None:
    assert normalise_output({"a": None, "b": "null"}, "arguments") == Output({"a": None, "b": "null"})


def numbers() -> Iterator[int]:
    yield 1


class Strange:
    @property
    def model_dump(self) -> Any:
        raise RuntimeError("no")


class Endless:
    def model_dump(self, mode: str) -> Any:
        return Endless()


class Halved:
    def model_dump(self, mode: str) -> Any:
        return "\ud800".encode()


def circle() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


@pytest.mark.requirement("nrv.result")
@pytest.mark.parametrize(
    "value",
    [
        object(),
        [object()],
        numbers(),
        numbers,
        1j,
        type,
        Model,
        ValueError("returned, not raised"),
        {(1, 2): 3},
        {None: 1},
        {1: "a", "1": "b"},
        {"deep": [{1: "a", "1": "b"}]},
        Strange(),
        Endless(),
        Halved(),
        circle(),
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_form_is_refused_and_says_that_the_tool_ran(value: Any) -> None:
    with pytest.raises(InvalidOutput, match="the tool ran"):
        normalise_output(value, "arguments")


def nested(depth: int, wrap: Any = lambda inner: [inner]) -> Any:
    return functools.reduce(lambda inner, _: wrap(inner), range(depth), "x")


@dataclass
class Box:
    inner: Any


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}, Box], ids=["list", "dict", "object"]
)
def test_a_result_may_be_a_hundred_levels_deep_and_no_deeper(wrap: Any) -> None:
    normalise_output(nested(100, wrap), "arguments")
    with pytest.raises(InvalidOutput, match="nested"):
        normalise_output(nested(101, wrap), "arguments")
    with pytest.raises(InvalidOutput, match="nested"):
        normalise_output(["\ud800", nested(100, wrap)], "arguments")


def test_a_bottomless_result_is_refused() -> None:
    value = nested(100_000)

    with pytest.raises(InvalidOutput, match="nested"):
        normalise_output(value, "arguments")
    while isinstance(value, list):  # or freeing it would recurse as deep
        value = value[0]


def test_many_brackets_are_not_many_levels() -> None:
    assert normalise_output([[]] * 1000, "arguments").output == [[]] * 1000
    assert normalise_output("[" * 1000, "arguments").output == "[" * 1000


# ── results that say more ─────────────────────────────────────────────────────────────

IMAGE = Attachment("a.png", "image/png", b"\x89PNG")


@pytest.mark.requirement("nrv.result")
@pytest.mark.requirement("nrv.warnings")
def test_output_warnings_and_attachments_all_reach_the_caller() -> None:
    said = Output({"n": {2, 1}}, ("old data",), (IMAGE,))

    assert normalise_output(said, "arguments") == Output({"n": [1, 2]}, ("old data",), (IMAGE,))


@pytest.mark.requirement("nrv.result")
@pytest.mark.parametrize(
    ("returned", "output"),
    [
        ({"output": 5}, Output(5)),
        ({"output": None, "warnings": None, "attachments": None}, Output(None)),
        ({"output": 5, "warnings": ["a", "b"]}, Output(5, ("a", "b"))),
        ({"output": 5, "warnings": "one"}, Output(5, ("one",))),
        ({"output": 5, "attachments": [IMAGE]}, Output(5, (), (IMAGE,))),
        (
            {"output": 5, "attachments": [{"name": "a.png", "media_type": "image/png", "data": "iVBORw=="}]},
            Output(5, (), (IMAGE,)),
        ),
    ],
)
def test_the_result_object_of_nrv_is_read(returned: dict[str, Any], output: Output) -> None:
    assert normalise_output(returned, "invocation") == output


@pytest.mark.parametrize("style", [style for style in STYLES if style != "invocation"])
def test_a_plain_function_may_return_an_object_that_looks_like_one(style: Style) -> None:
    returned = {"output": 5, "warnings": ["mine"]}

    assert normalise_output(returned, style) == Output(returned)


@pytest.mark.parametrize("returned", [{"output": 5, "other": 1}, {"warnings": []}, {}])
def test_an_object_with_other_keys_is_a_plain_value_in_every_style(returned: dict[str, Any]) -> None:
    assert normalise_output(returned, "invocation") == Output(returned)


@pytest.mark.parametrize("attachment", [{}, 5, {"name": "a", "media_type": "b", "data": "not base64!"}, None])
def test_an_attachment_that_is_none_is_refused(attachment: Any) -> None:
    with pytest.raises(InvalidOutput, match="attachment"):
        normalise_output({"output": 1, "attachments": [attachment]}, "invocation")
    with pytest.raises(InvalidOutput, match="attachment"):
        normalise_output(Output(1, (), (attachment,)), "arguments")


def test_the_warnings_of_a_tool_come_before_ours() -> None:
    assert normalise_output(Output(math.nan, ("careful",)), "arguments").warnings[0] == "careful"
    assert normalise_output(Output(1, "careful"), "arguments").warnings == ("careful",)  # type: ignore[arg-type]  # a likely slip


# ── errors that are returned ──────────────────────────────────────────────────────────


@pytest.mark.requirement("nrv.result")
def test_a_returned_error_is_raised_as_it_is() -> None:
    error = ToolError("NOT_FOUND", "no such city")

    with pytest.raises(ToolError) as caught:
        normalise_output(error, "invocation")
    assert caught.value is error
    with pytest.raises(Denied):
        normalise_output(Denied("no"), "arguments")


def test_the_result_of_another_call_is_passed_on() -> None:
    result = ToolResult("c2", "other", {"n": 1}, warnings=("w",), attachments=(IMAGE,))

    assert normalise_output(result, "arguments") == Output({"n": 1}, ("w",), (IMAGE,))


def test_the_failure_of_another_call_is_a_failure() -> None:
    failed = ToolResult("c2", "other", "words", "failed", error=Problem("NOT_FOUND", "no such city"))
    silent = ToolResult.from_dict({"tool_call_id": "c2", "name": "other", "content": "words", "is_error": True})

    for result, code, message in ((failed, "NOT_FOUND", "no such city"), (silent, "failed", "words")):
        with pytest.raises(ToolError) as caught:
            normalise_output(result, "arguments")
        assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(("depth", "good"), [(0, True), (100, True), (101, False), (900, False)])
def test_what_a_worker_sent_may_be_as_deep_as_what_a_handler_returned(depth: int, good: bool) -> None:
    nested: Any = 1
    for level in range(depth):
        nested = [1, nested] if level % 2 else {"a": nested}
    for read in (read_worker_output, functools.partial(normalise_output, style="arguments")):
        if good:
            assert read(Output(nested)) == Output(nested)
        else:
            with pytest.raises(InvalidOutput, match="deeper than 100"):
                read(Output(nested))


# ── the declared form ─────────────────────────────────────────────────────────────────


DECLARED = {"type": "object", "required": ["n"]}


def annotated() -> dict[str, int]:
    """Say one thing and do another."""
    return cast("dict[str, int]", "text")


def test_a_result_is_held_to_the_schema_that_its_tool_declares() -> None:
    declared = tool(annotated, output_schema=DECLARED)

    assert check_output(normalise_output({"n": 1}, "arguments"), declared) == ()
    assert check_output(normalise_output({}, "arguments"), tool(annotated, output_schema=None)) == ()
    for enforced in (
        declared,
        tool(annotated).changed(output_schema=DECLARED),
        tool(annotated, check_output="enforce"),
    ):
        with pytest.raises(InvalidOutput, match="expected object"):
            check_output(normalise_output("text", "arguments"), enforced)


def test_a_schema_that_was_read_off_an_annotation_only_warns_and_can_be_switched_off() -> None:
    (warning,) = check_output(normalise_output("text", "arguments"), tool(annotated))
    assert "return annotation of 'annotated'" in warning and "expected object" in warning
    assert check_output(normalise_output("text", "arguments"), tool(annotated, check_output="off")) == ()
    assert (
        check_output(normalise_output("text", "arguments"), tool(annotated, output_schema=DECLARED, check_output="off"))
        == ()
    )


async def test_a_model_of_pydantic_is_written_by_the_names_that_its_schema_has() -> None:
    class Person(BaseModel):
        name: str = Field(alias="fullName")

    @tool
    def same(person: Person) -> list[Person]:
        """Give the person back."""
        return [person]

    async with Executor([same]) as executor:
        result = await executor.invoke(ToolCall("1", "same", {"person": {"fullName": "Ada"}}))

    assert (result.content, result.warnings) == ([{"fullName": "Ada"}], ())


async def test_a_side_effect_with_a_wrong_annotation_is_ok_and_its_value_and_a_warning_are_told() -> None:
    @tool(side_effects=True)
    def send(to: str) -> dict[str, str]:
        return cast("dict[str, str]", f"sent to {to}")

    async with Executor([send], policy=Policy(confirm_side_effects=False)) as executor:
        result = await executor.invoke(ToolCall("1", "send", {"to": "ada"}))

    assert (result.outcome, result.content) == ("ok", "sent to ada")
    assert "return annotation of 'send'" in result.warnings[0]


@pytest.mark.parametrize("returned", ["sent", object()])
async def test_a_side_effect_whose_result_cannot_be_used_is_said_to_be_done(returned: Any) -> None:
    @tool(side_effects=True, output_schema=DECLARED)
    async def send() -> Any:
        return returned

    @tool(output_schema=DECLARED)
    async def look() -> Any:
        return returned

    async with Executor([send, look], policy=Policy(confirm_side_effects=False)) as executor:
        effect, read = [await executor.invoke(ToolCall(name, name)) for name in ("send", "look")]

    assert (effect.outcome, effect.error and effect.error.code) == ("failed", "invalid_output")
    assert "'send' has done what it was asked; do not repeat it" in effect.text
    assert "do not repeat" not in read.text
