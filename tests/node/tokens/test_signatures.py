"""Signed calls: who sent this, here, now, once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.datastructures import Headers

from handrail.core.errors import BusError
from handrail.node.bus.request import NOBODY
from handrail.node.server.envelope import envelope_from_headers
from handrail.node.tokens.signatures import (
    STRANGERS,
    WINDOW,
    Authenticator,
    ReplayMemory,
    as_headers,
    format_time,
    parse_time,
    sign_call,
)
from handrail.testing.clock import FixedClock
from tests.node.tokens.signing_nodes import ADA, EVE

BODY = b'{"input":{"q":"rain"}}'


def signed(clock: FixedClock, **changes: Any) -> dict[str, str]:
    facts: dict[str, Any] = {"capability": "rag.query", "version": "1.0", "request_id": "r1", "community": "home"}
    return sign_call(ADA, **{**facts, "body": BODY, **changes}, clock=clock)


def door(clock: FixedClock, **options: Any) -> Authenticator:
    return Authenticator(community="home", clock=clock, **options)


def refusal(door: Authenticator, fields: Any, body: bytes = BODY) -> str:
    with pytest.raises(BusError) as caught:
        door.authenticate(fields, body)
    assert caught.value.code == "invalid_signature"
    return caught.value.message


def test_a_signed_call_is_from_whoever_signed_it_and_has_no_trust_yet() -> None:
    clock = FixedClock()

    caller = door(clock).authenticate(signed(clock), BODY)

    assert (caller.id, caller.trust, caller.token) == (ADA.node_id, "unknown", None)


def test_a_call_that_is_not_signed_is_from_nobody() -> None:
    assert door(FixedClock()).authenticate({"from": ADA.node_id}, BODY) is NOBODY


def test_the_fields_travel_as_headers_and_a_door_reads_them_as_they_were() -> None:
    fields = signed(FixedClock())
    sent = {name.lower(): value for name, value in as_headers(fields).items()}
    envelope = envelope_from_headers(Headers(sent))

    assert envelope is not None and envelope.fields() == fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capability", "rag.ingest"),
        ("version", "2.0"),
        ("request_id", "r2"),
        ("from", EVE.node_id),
        ("timestamp", "2023-11-14T22:13:21.000Z"),
        ("signature", EVE.sign(b"")),
    ],
)
def test_a_changed_field_is_refused(field: str, value: str) -> None:
    clock = FixedClock()

    assert "does not fit" in refusal(door(clock), {**signed(clock), field: value})


def test_a_changed_body_and_another_community_are_refused() -> None:
    clock = FixedClock()

    assert "does not fit" in refusal(door(clock), signed(clock), BODY + b" ")
    assert "another community" in refusal(door(clock), signed(clock, community="elsewhere"))


@pytest.mark.parametrize("field", ["capability", "version", "request_id", "from", "community", "timestamp"])
@pytest.mark.parametrize("value", ["", None, 7, "x" * 300])
def test_a_field_that_is_missing_or_odd_is_refused(field: str, value: Any) -> None:
    clock = FixedClock()

    refusal(door(clock), {**signed(clock), field: value})


@pytest.mark.parametrize(
    ("seconds", "good"), [(-WINDOW - 1, False), (-WINDOW, True), (WINDOW, True), (WINDOW + 1, False)]
)
def test_a_call_is_taken_only_around_its_time(seconds: int, good: bool) -> None:
    there, here = FixedClock(), FixedClock()
    here.advance(seconds)

    if good:
        assert door(here).authenticate(signed(there), BODY).id == ADA.node_id
    else:
        assert "set the clock" in refusal(door(here), signed(there))


def test_the_same_signed_call_is_refused_and_the_next_attempt_is_taken() -> None:
    clock = FixedClock()
    at_door = door(clock)
    first = signed(clock)
    at_door.authenticate(first, BODY)

    assert "seen before" in refusal(at_door, first)
    clock.advance(1)
    assert at_door.authenticate(signed(clock), BODY).id == ADA.node_id


def test_a_call_that_was_refused_can_still_be_made() -> None:
    clock = FixedClock()
    at_door = door(clock)
    refusal(at_door, signed(clock), b"another body")

    assert at_door.authenticate(signed(clock), BODY).id == ADA.node_id


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=200), st.integers(1, 5))
def test_a_memory_of_any_size_takes_no_message_twice(sent: list[tuple[int, int]], most: int) -> None:
    """Each message has one time, as signed messages have; the clock goes on while they come."""
    memory, taken = ReplayMemory(most), []
    for now, (number, at) in enumerate(sent):
        message = f"{number} {at}".encode()
        if abs(now - at) <= WINDOW * 1000 and memory.first(message, at, now):
            taken.append(message)
        assert len(memory) <= most

    assert len(taken) == len(set(taken))


def test_what_can_no_longer_be_sent_is_forgotten() -> None:
    memory = ReplayMemory()
    for number in range(100):
        memory.first(b"%d" % number, 0, 0)

    memory.first(b"later", (WINDOW + 1) * 1000, (WINDOW + 1) * 1000)

    assert len(memory) == 1


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_read_as_they_are_written(at: int) -> None:
    assert parse_time(format_time(at)) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00+00:00",
        "2026-13-31T12:00:00Z",
        "٢٠٢٦-01-31T12:00:00Z",
    ],
)
def test_what_is_no_time_in_utc_is_none(text: str) -> None:
    assert parse_time(text) is None


def test_a_time_without_fractions_is_read() -> None:
    assert parse_time("1970-01-01T00:00:01Z") == 1000


# ── for which node, and strangers ────────────────────────────────────────────────────────


def test_a_call_that_is_signed_for_one_node_is_taken_by_no_other() -> None:
    clock = FixedClock()
    fields = signed(clock, to=EVE.node_id)

    assert "another node" in refusal(door(clock, node_id=ADA.node_id), fields)
    assert "does not fit" in refusal(door(clock, node_id=ADA.node_id), {**fields, "to": ADA.node_id})
    assert "does not fit" in refusal(door(clock, node_id=ADA.node_id), {**fields, "to": ""})
    assert door(clock, node_id=EVE.node_id).authenticate(fields, BODY).id == ADA.node_id


@pytest.mark.parametrize("to", [7, None, "x" * 300])
def test_a_node_that_is_none_is_refused(to: Any) -> None:
    clock = FixedClock()

    refusal(door(clock, node_id=ADA.node_id), {**signed(clock), "to": to})


def test_strangers_that_date_their_calls_ahead_keep_no_known_node_out() -> None:
    clock, ahead = FixedClock(), FixedClock()
    ahead.advance(WINDOW - 1)
    at_door = Authenticator(community="home", clock=clock, known=lambda node: node == ADA.node_id)
    at_door.authenticate(signed(clock, request_id="before"), BODY)
    facts = {"capability": "rag.query", "version": "1.0", "community": "home", "body": BODY}
    with suppress(BusError):  # that is how full it is
        for number in range(STRANGERS + 10):
            at_door.authenticate(sign_call(EVE, **facts, request_id=str(number), clock=ahead), BODY)  # type: ignore[arg-type]

    assert at_door.authenticate(signed(clock), BODY).id == ADA.node_id
    assert "seen before" in refusal(at_door, signed(clock, request_id="before"))  # and it forgets nothing
