"""Which places of a value a schema declares as secret."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.redact import MASK
from handrail.core.secret_pointers import has_mask_at, mask_pointers
from handrail.tools.schema.validator import Validator

SECRET = {"type": "string", "writeOnly": True}
TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/tree"}, "free": {"type": "object"}},
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"key": SECRET, "below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        }
    },
}
CASES: list[tuple[str, dict[str, Any], Any, list[str]]] = [
    ("beside a free object", {"properties": {"key": SECRET, "free": {}}}, {"key": "s", "free": {"key": "x"}}, ["/key"]),
    ("of a map", {"properties": {"a": {}}, "additionalProperties": SECRET}, {"a": "x", "b": "s"}, ["/b"]),
    ("of a pattern", {"patternProperties": {"^k": SECRET}}, {"k1": "s"}, ["/k1"]),
    ("of a list", {"properties": {"keys": {"items": SECRET}}}, {"keys": ["s", "t"]}, ["/keys/0", "/keys/1"]),
    ("of a pair", {"properties": {"pair": {"prefixItems": [{}, SECRET]}}}, {"pair": ["x", "s"]}, ["/pair/1"]),
    ("of a choice", {"properties": {"key": {"anyOf": [SECRET, {"type": "null"}]}}}, {"key": "s"}, ["/key"]),
    (
        "of a recursive schema",
        TREE,
        {"tree": {"key": "s", "below": [{"key": "t"}]}, "free": {"key": "x"}},
        ["/tree/key", "/tree/below/0/key"],
    ),
    ("with a slash in its name", {"properties": {"a/b~": SECRET}}, {"a/b~": "s", "a": {"b~": "x"}}, ["/a~1b~0"]),
]


@pytest.mark.parametrize(("schema", "value", "places"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_secret_is_a_place_that_the_schema_declares_and_nothing_else(
    schema: dict[str, Any], value: Any, places: list[str]
) -> None:
    found = Validator(schema, "a test").secret_places(value)

    masked = mask_pointers(value, found)

    assert list(found) == places
    assert str(masked).count(MASK) == len(places)
    assert has_mask_at(masked, found)
    assert not has_mask_at(value, found)


_JSON = st.recursive(
    st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.dictionaries(st.text(), _JSON))
def test_nothing_in_a_free_object_is_ever_masked(free: dict[str, Any]) -> None:
    schema = {"properties": {"password": SECRET, "free": {"type": "object"}}}
    value = {"password": "s", "free": free}

    assert mask_pointers(value, Validator(schema, "a test").secret_places(value)) == {"password": MASK, "free": free}


def test_names_that_an_earlier_version_wrote_are_masked_at_any_depth() -> None:
    assert mask_pointers({"a": {"key": "s"}}, ("key",)) == {"a": {"key": MASK}}
    assert has_mask_at({"a": {"key": MASK}}, ("key",))
