"""Events become entries and come back; an entry has one spelling; no secret gets into it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings, strategies as st
from inline_snapshot import snapshot

from handrail.core.canonical import canonical_json
from handrail.core.errors import JournalError
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.core.redact import MASK, Secret, redact, redact_text
from handrail.journal.entry import NO_PREVIOUS, body_digest, decode_event, draft, leaf_position, seal_entry
from handrail.journal.escape import column, uncolumn
from tests.core.secret_samples import BESIDE, SHAPES
from tests.examples import examples
from tests.journal.event_samples import any_text, events, finished, intended, settled, texts, values

SALT = b"0123456789abcdef"


def written(event: Recorded) -> tuple[bytes, bytes | None]:
    drafted = draft(event, SALT)
    return seal_entry(drafted, 7, 3, "ab" * 32), drafted.data


def body_data(value: Any) -> bytes:
    """The body that is recorded for a call with these arguments."""
    data = draft(intended(arguments=value), SALT).data
    assert data is not None
    return data


@given(events(texts.filter(lambda text: redact_text(text) == text)))
@settings(max_examples=examples(60))
def test_the_leaf_of_any_event_is_canonical_json(event: Recorded) -> None:
    leaf, _ = written(event)
    value = json.loads(leaf)
    assert leaf == rfc8785.dumps(value) == canonical_json(value)


@given(events())
@settings(max_examples=examples(120))
def test_any_event_comes_back_as_it_was(event: Recorded) -> None:
    leaf, data = written(event)
    assert repr(decode_event(leaf, data)) == repr(event)  # repr, since NaN is not equal to itself


@given(values)
@settings(max_examples=examples(60))
def test_any_value_makes_a_body_that_every_json_reader_can_read(value: Any) -> None:
    json.loads(body_data(value), parse_constant=pytest.fail)


@given(any_text)
@settings(max_examples=examples(60))
def test_any_text_fits_into_a_column_and_comes_back(text: str) -> None:
    column(text).encode()
    assert uncolumn(column(text)) == text


def test_the_bytes_of_a_leaf_do_not_change() -> None:
    leaf, data = written(intended(1))
    assert leaf.decode() == snapshot(
        '{"at":1700000000001,"body":{"digest":"b1fe42b407f78c581b05fe55039058dd2b225911ffc6974d88e6'
        'eab7e423e6f4","size":38},"call_id":"call-1","depth":0,"grant":null,"idempotent":false,"key'
        '":"key-1","n":3,"prev":"abababababababababababababababababababababababababababababababab",'
        '"principal":"local","run":"run-1","seq":7,"side_effects":true,"tool":"io:write","type":"ca'
        'll.intended","v":1}'
    )
    assert data == snapshot(b'{"path":"notes/1.txt","text":"h\xc3\xa9llo"}')


def test_an_erased_body_is_none_and_the_rest_is_there() -> None:
    leaf, _ = written(settled(4))
    event = decode_event(leaf, None)
    assert event == msgspec.structs.replace(settled(4), result=None)


def test_a_leaf_holds_the_digest_of_its_body_and_nothing_else_of_it() -> None:
    leaf, data = written(intended(1, arguments={"card": "private"}))
    assert data is not None
    assert b"private" not in leaf
    said = leaf_position(leaf).body
    assert said is not None
    assert (said.digest, said.size) == (body_digest(SALT, data), len(data))


def test_equal_bodies_have_different_digests_under_different_salts() -> None:
    one, two = draft(settled(), b"a" * 16), draft(settled(), b"b" * 16)
    assert one.data == two.data
    assert one.head["body"] != two.head["body"]


@pytest.mark.requirement("nrv.proof")
def test_secrets_are_masked_in_bodies_and_in_reasons() -> None:
    key = "sk-ant-" + "a1B2" * 8
    leaf, data = written(intended(0, arguments={"key": key, key: [1, f"Bearer {key}"], "free": "text"}))
    assert data is not None
    assert key.encode() not in data
    event = decode_event(leaf, data)
    assert isinstance(event, CallIntended)
    assert event.arguments == {"key": MASK, MASK: [1, f"Bearer {MASK}"], "free": "text"}
    assert key.encode() not in written(finished(reason=f"the key {key} was refused"))[0]


@given(st.sampled_from([*SHAPES.values(), *(text for text, _ in BESIDE.values())]), st.text(max_size=10))
def test_no_text_with_a_secret_slips_past_the_first_look(secret: str, around: str) -> None:
    text = f"{around}\n{secret}"

    assert body_data([text]) == body_data([redact_text(text)])
    assert body_data({"text": text}) == body_data(redact({"text": text}))


@pytest.mark.parametrize("before", ["\n", "\x0b", '"', "\\", "\u2028", "é"])
def test_a_secret_is_found_behind_characters_that_json_escapes(before: str) -> None:
    assert json.loads(body_data({"log": f"{before}sk-{'a1' * 12}"})) == {"log": f"{before}{MASK}"}


def test_a_value_of_the_secret_type_is_masked_whatever_it_looks_like() -> None:
    assert json.loads(body_data({"pin": Secret("1234")})) == {"pin": MASK}


def test_something_that_is_not_data_is_recorded_as_its_type() -> None:
    assert json.loads(body_data({"socket": object(), "known": {1}})) == {"socket": "<object>", "known": [1]}


def test_a_value_nested_too_deeply_is_recorded_as_lost_and_read_as_none() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    leaf, data = written(settled(content=deep))
    event = decode_event(leaf, data)
    assert isinstance(event, CallSettled)
    assert event.result is None
    while deep:  # taken apart by hand: Python frees it recursively
        deep = deep.pop()


def test_an_entry_of_a_later_version_is_refused_with_the_version_and_what_to_do() -> None:
    leaf, data = written(settled())
    later = leaf.replace(b'"v":1', b'"v":2')
    with pytest.raises(JournalError, match=r"format 2.*upgrade"):
        decode_event(later, data)
    with pytest.raises(JournalError, match=r"format 2.*upgrade"):
        leaf_position(later)


def test_an_entry_of_an_unknown_type_is_refused_with_the_type_and_what_to_do() -> None:
    leaf, data = written(settled())
    with pytest.raises(JournalError, match=r"call\.mislaid.*upgrade"):
        decode_event(leaf.replace(b"call.settled", b"call.mislaid"), data)


@given(st.binary(max_size=60))
@settings(max_examples=examples(60))
def test_garbage_is_refused_and_never_crashes(data: bytes) -> None:
    with pytest.raises(JournalError):
        decode_event(data, None)
    with pytest.raises(JournalError):
        leaf_position(data)


def test_the_first_entry_of_a_journal_has_no_entry_before_it() -> None:
    assert len(NO_PREVIOUS) == 64
    assert set(NO_PREVIOUS) == {"0"}
