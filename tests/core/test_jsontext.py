"""JSON text is read strictly: what is JSON comes back exact, what is not is refused with the place."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fuzz.law import on_time
from handrail.core.jsontext import JSONTextError, kind_of, parse, parse_lightly, parse_object, why_not_json
from tests.examples import examples

ACCEPTED = {
    "array_empty": "[]",
    "array_false": "[false]",
    "array_heterogeneous": '[null, 1, "1", {}]',
    "array_nested": "[[[[]]]]",
    "array_spaces": " [ 1 , 2 ]\n",
    "array_trailing_newline": "[1]\r\n\t ",
    "deepest": "[" * 100 + "]" * 100,
    "int_beyond_64_bits": "18446744073709551617",
    "int_negative_big": "-170141183460469231731687303715884105729",
    "int_400_digits": "9" * 400,
    "number_e": "1e2",
    "number_e_capital_plus": "1E+2",
    "number_fraction_exponent": "123.456e-10",
    "number_minus_zero": "-0",
    "number_minus_zero_float": "-0.0",
    "number_underflow": "1e-400",
    "object_empty": "{}",
    "object_empty_key": '{"": 0}',
    "object_same_key_in_two_objects": '{"a": {"a": 1}, "b": {"a": 2}}',
    "object_colons_in_strings": '{"a:b": "c:d", "url": "http://x/y"}',
    "object_escaped_null_in_key": r'{"a\u0000b": 1}',
    "string_all_escapes": r'"\"\\\/\b\f\n\r\t"',
    "string_accepted_surrogate_pair": r'"\ud83d\ude39"',
    "string_delete_character": '"\x7f"',
    "string_line_separator": '"\u2028"',
    "string_nonbmp": '"😀"',
    "string_escaped_control": r'"\u0012"',
    "lonely_null": "null",
    "lonely_true": "true",
    "lonely_string": '"x"',
}

REFUSED = {
    "empty": "",
    "space_only": " ",
    "array_comma_only": "[,]",
    "array_double_comma": "[1,,2]",
    "array_extra_close": "[1]]",
    "array_missing_comma": "[1 2]",
    "array_missing_value": "[,1]",
    "array_trailing_comma": "[1,]",
    "array_unclosed": "[1",
    "array_wrong_close": "[1}",
    "bom": "\ufeff{}",
    "capital_true": "True",
    "comment": "[1] // x",
    "comment_block": "{/* */}",
    "deep": "[" * 101 + "]" * 101,
    "deep_beyond_recursion": "[" * 100_000,
    "deep_objects": '{"a":' * 100_000,
    "duplicate_key": '{"a": 1, "a": 2}',
    "duplicate_key_spelt_differently": r'{"a": 1, "\u0061": 2}',
    "duplicate_key_nested": '[{"x": {"b": 1, "b": 1}}]',
    "duplicate_key_with_colons": '{"a": "::", "a": ":"}',
    "infinity": "Infinity",
    "int_401_digits": "1" + "0" * 400,
    "int_5000_digits": "[" + "9" * 5000 + "]",
    "nan": "NaN",
    "nan_inside": '{"a": NaN}',
    "negative_infinity": "[-Infinity]",
    "number_double_minus": "--1",
    "number_hex": "0x1",
    "number_leading_plus": "+1",
    "number_leading_zero": "012",
    "number_no_fraction": "1.",
    "number_no_integer": ".5",
    "number_only_minus": "-",
    "number_open_exponent": "1e",
    "number_overflow": "1e999",
    "number_negative_overflow": "[-1e999]",
    "object_bare_key": "{a: 1}",
    "object_missing_colon": '{"a" 1}',
    "object_missing_value": '{"a":}',
    "object_non_string_key": "{1: 1}",
    "object_trailing_comma": '{"a": 1,}',
    "object_twice": "{}{}",
    "object_unclosed": '{"a": 1',
    "single_quotes": "{'a': 1}",
    "string_control_character": '"\x01"',
    "string_incomplete_escape": '"\\',
    "string_incomplete_unicode": r'"\u00"',
    "string_invalid_escape": r'"\x41"',
    "string_lone_high_surrogate": r'"\ud800"',
    "string_lone_high_surrogate_then_text": r'"\ud800abc"',
    "string_lone_low_surrogate": r'"\udc00"',
    "string_raw_newline": '"a\nb"',
    "string_raw_tab": '"a\tb"',
    "string_real_surrogate": '"\ud800"',
    "string_unclosed": '"a',
    "trailing_text": '{"a": 1} x',
    "true_cut": "tru",
    "unicode_space": "\u00a0{}",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    expected = json.loads(text)
    assert parse(text) == expected
    assert parse(text.encode()) == expected
    assert type(parse(text)) is type(expected)


@pytest.mark.requirement("abstractllm.unparsable-arguments")
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(JSONTextError):
        parse(text)
    with pytest.raises(JSONTextError):
        parse(text.encode(errors="surrogatepass"))


@pytest.mark.parametrize(
    ("text", "position"),
    [('{"a": x}', 6), ('{"é": x}', 6), ('{"é": x}'.encode(), 7), ("\ufeff{}", 0), ("[1,", 3), (b'"\xff"', 1)],
)
def test_the_error_says_where_reading_stopped(text: str | bytes, position: int) -> None:
    with pytest.raises(JSONTextError) as caught:
        parse(text)
    assert caught.value.position == position
    assert str(position) in str(caught.value)


def test_a_duplicate_key_is_named() -> None:
    with pytest.raises(JSONTextError, match="'unit' occurs twice"):
        parse('{"unit": 1, "place": {"unit": 2}, "unit": 3}')


def test_a_text_beyond_the_size_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(JSONTextError, match="longer than 4"):
        parse("[1, 2]", max_size=4)
    assert parse("[12]", max_size=4) == [12]


@pytest.mark.parametrize("text", ["", " \n", "null", b""])
def test_no_text_and_null_are_no_arguments(text: str | bytes) -> None:
    assert parse_object(text) == {}


@pytest.mark.requirement("abstractllm.unparsable-arguments")
@pytest.mark.parametrize(("text", "kind"), [("[]", "array"), ("5", "integer"), ('"{}"', "string"), ("true", "boolean")])
def test_arguments_that_are_not_an_object_are_refused_by_kind(text: str, kind: str) -> None:
    with pytest.raises(JSONTextError, match=f"expected a JSON object, got {kind}"):
        parse_object(text)


def test_every_kind_of_value_has_its_json_name() -> None:
    values: list[Any] = [None, True, 1, 1.5, "", [], (), {}, set()]
    names = ["null", "boolean", "integer", "number", "string", "array", "array", "object", "set"]
    assert [kind_of(value) for value in values] == names


@pytest.mark.parametrize(
    "value",
    [math.nan, [math.inf], {"a": -math.inf}, {1: 2}, {"a": {1}}, b"", object(), "\ud800", {"\udc00": 1}, [[[[]]]]],
)
def test_a_value_without_a_json_form_is_odd(value: Any) -> None:
    assert why_not_json(value, 3) is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.booleans())
def test_whatever_json_writes_is_read_back_equal_and_is_not_odd(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse(text) == value
    assert why_not_json(value) is None


@settings(max_examples=examples(300))
@given(st.text(alphabet='{}[]":,\\u0aeE1-+. tfnrls\n') | st.text())
def test_any_text_is_read_as_the_standard_library_reads_it_or_refused(text: str) -> None:
    try:
        value = parse(text)
    except JSONTextError:
        return
    assert value == json.loads(text)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = parse(data)
    except JSONTextError:
        return
    assert value == json.loads(data.decode())


@given(st.lists(st.tuples(st.sampled_from("abc:"), st.sampled_from(["1", '":"', "{}"])), max_size=5))
def test_a_key_is_never_lost(pairs: list[tuple[str, str]]) -> None:
    text = "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}"
    if len({key for key, _ in pairs}) == len(pairs):
        assert len(parse(text)) == len(pairs)
    else:
        with pytest.raises(JSONTextError, match="occurs twice"):
            parse(text)


def test_many_numbers_at_the_edge_of_what_a_float_holds_cost_no_more_than_others() -> None:
    with on_time(2.0):  # msgspec itself takes more than twice that
        assert parse_lightly(b"[" + b"1.7976931348623157e308," * 500_000 + b"1.5]")[-2:] == [
            1.7976931348623157e308,
            1.5,
        ]


def test_many_numbers_that_are_almost_too_long_cost_no_more_than_other_text() -> None:
    text = b'"' + (b"1" * 400 + b" ") * 50_000 + b'"'
    with on_time(2.0):  # looked for one by one, run by run, they take more than twice that
        assert len(parse_lightly(text)) == len(text) - 2


@pytest.mark.parametrize("beside", ["[]", json.dumps([[]] * 200), '"' + "7" * 500 + '"'])
def test_read_lightly_the_last_of_two_keys_stands_however_much_is_beside_it(beside: str) -> None:
    assert parse_lightly(f'{{"a": 1, "b": {beside}, "a": 2}}'.encode())["a"] == 2


@pytest.mark.parametrize("text", ["[" * 101 + "]" * 101, "[" * 100_000, "9" * 401, '{"a": ', "\ufeff{}"])
def test_read_lightly_the_limits_are_the_same(text: str) -> None:
    with pytest.raises(JSONTextError):
        parse_lightly(text.encode())


@pytest.mark.parametrize("text", [b"[]," * 50, b"{}," * 50, b'"",' * 50, b'{"a":[0,0]},' * 20, b'"\\\\",' * 99])
def test_text_of_strangers_has_only_so_many_values(text: bytes) -> None:
    with pytest.raises(JSONTextError, match="more than 40 values"):
        parse_lightly(b"[" + text + b"0]", max_values=40)


@given(st.recursive(st.none() | st.text('a,[{\\"é', max_size=20), lambda each: st.lists(each, max_size=5)))
def test_marks_in_strings_are_no_values(value: Any) -> None:
    assert parse_lightly(json.dumps(value, ensure_ascii=False).encode(), max_values=10**6) == value


def test_a_table_in_a_string_is_one_value() -> None:
    assert parse_lightly(json.dumps(["a,b,[c]\n" * 1_000, 1]).encode(), max_values=2)[1] == 1
