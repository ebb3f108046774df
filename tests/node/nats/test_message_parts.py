"""Payloads over the limit: cut and put together, or dropped, never changed."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import BusError
from handrail.node.nats.message_parts import MOST, PartAssembler, split_payload


def assembled(parts: list[bytes]) -> list[bytes]:
    assembler = PartAssembler(itertools.count().__next__)
    return [whole for part in parts if (whole := assembler.feed(part)) is not None]


@given(payload=st.binary(min_size=1, max_size=2_000), limit=st.integers(min_value=58, max_value=500))
def test_any_payload_arrives_as_it_was_however_small_the_parts(payload: bytes, limit: int) -> None:
    json = b"{" + payload
    parts = list(split_payload(json, limit))

    assert all(len(part) <= limit for part in parts)
    assert assembled(parts) == [json]


@given(payload=st.binary(min_size=300, max_size=1_000), seed=st.integers(0, 2**32))
def test_parts_that_are_lost_doubled_swapped_or_damaged_never_make_another_payload(payload: bytes, seed: int) -> None:
    json, dice = b"{" + payload, random.Random(seed)
    parts = list(split_payload(json, 120))
    where = dice.randrange(len(parts))
    match dice.randrange(4):
        case 0:
            del parts[where]
        case 1:
            parts.insert(where, parts[where])
        case 2:
            other = dice.randrange(len(parts))
            parts[where], parts[other] = parts[other], parts[where]
        case _:
            damaged = bytearray(parts[where])
            damaged[dice.randrange(len(damaged))] ^= 1 + dice.randrange(255)
            parts[where] = bytes(damaged)

    assert assembled(parts) in ([], [json]) or parts[where][:1] != b"\x00"


@given(data=st.binary(max_size=300))
def test_what_was_never_a_part_harms_nobody(data: bytes) -> None:
    assert assembled([b"\x00" + data]) in ([], [data[56:]])


def test_parts_of_several_messages_may_be_mixed() -> None:
    one, two = b"{" + b"a" * 500, b"{" + b"b" * 500
    mixed = [part for pair in zip(split_payload(one, 120), split_payload(two, 120), strict=True) for part in pair]

    assert assembled(mixed) == [one, two]


def test_what_is_too_much_is_refused_by_who_sends_it() -> None:
    with pytest.raises(BusError) as refused:
        list(split_payload(b"{" * (MOST + 1), 1_000_000))

    assert refused.value.code == "bad_request"


def test_unfinished_messages_take_a_bounded_room_for_a_bounded_time() -> None:
    now = 0.0
    assembler = PartAssembler(lambda: now, most=1_000)
    whole = b"{" + b"x" * 600
    first, *rest = split_payload(whole, 500)
    assert assembler.feed(first) is None
    crowded = list(split_payload(whole, 500))
    assert [assembler.feed(part) for part in crowded] == [None] * len(crowded)

    now = 61.0
    assert [assembler.feed(part) for part in split_payload(whole, 500)][-1] == whole
    assert [assembler.feed(part) for part in rest] == [None] * len(rest)


def test_a_part_with_nothing_in_it_is_none() -> None:
    first, *rest = split_payload(b"{" * 500, 120)
    empty = first[:57]

    assert assembled([empty, first, *rest]) == [b"{" * 500]


def test_only_so_many_messages_are_put_together_at_once() -> None:
    assembler = PartAssembler(lambda: 0.0)
    begun = [list(split_payload(b"{%d" % number + b"x" * 500, 120)) for number in range(1_001)]
    for first, *_ in begun:
        assembler.feed(first)

    assert [assembler.feed(part) for part in begun[0][1:]][-1] is None
    assert [assembler.feed(part) for part in begun[-1][1:]][-1] == b"{1000" + b"x" * 500
