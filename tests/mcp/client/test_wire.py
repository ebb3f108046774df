"""Messages that are made to keep their reader busy: refused for what they cost, and the request has an answer."""

from __future__ import annotations

import pytest
from mcp_types import JSONRPCError, JSONRPCResponse

from fuzz.law import on_time
from handrail.mcp.client.wire import MOST_VALUES, read_message, too_many_values


def message(structured: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":' + structured + b"}}"


@pytest.mark.parametrize(
    "structured",
    [
        b"[" + b'"",' * 15_000_000 + b"1]",
        b"{" + b'"a":"b",' * 6_000_000 + b'"c":1}',
        b'"' + b'\\",' * 3_000_000 + b'"',
    ],
    ids=["empty strings", "pairs", "commas in a string"],
)
def test_whether_there_are_too_many_values_is_seen_without_reading_all_of_them(structured: bytes) -> None:
    with on_time(1.5):
        assert too_many_values(message(structured)) == (not structured.startswith(b'"'))


@pytest.mark.parametrize("over", [False, True])
def test_commas_in_strings_are_no_values_and_backslashes_hide_no_quote(over: bool) -> None:
    strings = rb'"a,\\","\",","b,,"' + b"," + rb'"\\\\"'
    line = b"[" + b"1," * (MOST_VALUES - 3 + over) + strings + b"]"
    assert too_many_values(line) == over


@pytest.mark.parametrize(
    "structured",
    [b'"' + b"\\ud83d" * 28_000 + b'"', b"[" + b"[]," * 28_000 + b'"\\ud83d"]'],
    ids=["halves", "values beside one"],
)
def test_text_too_large_to_be_repaired_is_refused(structured: bytes) -> None:
    found = read_message(message(structured))
    assert isinstance(found, JSONRPCError) and found.id == 7
    assert "too large to mend" in found.error.message


def test_halves_of_surrogate_pairs_are_replaced_in_text_that_is_not_too_large() -> None:
    found = read_message(message(b'["a\\ud83db"]'))
    assert isinstance(found, JSONRPCResponse) and found.result["structuredContent"] == ["a\ufffdb"]
