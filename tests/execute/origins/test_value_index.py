"""The index of values finds every result in which a field has a value; it may name others too."""

from __future__ import annotations

from hypothesis import assume, given, settings, strategies as st

from handrail.execute.origins.result_records import field_has
from handrail.execute.origins.value_index import ValueIndex
from handrail.tools.result_fields import Field
from tests.examples import examples

TEXTS = st.text(alphabet="aAé1 2.-@_'/\u0301ß", max_size=12)
VALUES = TEXTS | st.integers(-20, 20) | st.booleans() | st.none() | st.sampled_from([1.0, 12.5, "12.50", "2026-11-18"])


@settings(max_examples=examples(400))
@given(fields=st.lists(VALUES, min_size=1, max_size=4), value=VALUES)
def test_no_field_that_has_a_value_is_missed(fields: list[object], value: object) -> None:
    assume(not isinstance(value, str) or value.strip())  # nothing is looked for by nothing
    index = ValueIndex()
    for at, each in enumerate(fields):
        index.add(each, str(at))
    having = {str(at) for at, each in enumerate(fields) if field_has(Field((), each, False, False), value)}
    assert having <= set(index.holding(value))


def test_results_without_the_words_are_left_out() -> None:
    index = ValueIndex()
    index.add("Write to eve@collect.example", "call-1")
    index.add("Write to anna@north.example", "call-2")
    index.add(312.5, "call-3")
    assert index.holding("anna@north.example") == {"call-2"}
    assert index.holding(312.5) == {"call-3"}
    assert index.holding("nobody") == set()
