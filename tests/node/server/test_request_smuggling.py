"""Requests that a proxy and the node could read in different ways are refused, and their connection is closed."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.http.strict_requests import request_ambiguity
from tests.node.server.http_node import CALL, NodeFixture, open_connection, serving

BODY = b'{"input":{}}'
SECOND = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def request(scene: NodeFixture, *fields: bytes, version: bytes = b"1.1") -> bytes:
    """The head of a call that is otherwise in order, as lines that end with CR LF."""
    lines = (
        b"POST %b HTTP/%b" % (CALL.encode(), version),
        b"Host: localhost",
        b"Content-Type: application/json",
        b"X-HearthNet-Capability: test.say",
        b"Authorization: Bearer " + str(scene.token).encode(),
        *fields,
    )
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def answers_to(url: str, raw: bytes) -> bytes:
    """Everything the node says until it closes the connection."""
    reader, writer = await open_connection(url)
    writer.write(raw)
    try:
        return await reader.read()
    finally:
        writer.close()


LENGTH = b"Content-Length: %d" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%b\r\n" % (len(BODY), BODY)


def with_both(scene: NodeFixture) -> bytes:
    return request(scene, LENGTH, CHUNKED) + CHUNKS + b"0\r\n\r\n"


def with_both_in_the_other_order(scene: NodeFixture) -> bytes:
    return request(scene, CHUNKED, b"content-length : 4".replace(b" :", b":")) + CHUNKS + b"0\r\n\r\n"


def with_bare_line_feeds(scene: NodeFixture) -> bytes:
    return request(scene, LENGTH).replace(b"\r\n", b"\n") + BODY


def with_one_bare_line_feed(scene: NodeFixture) -> bytes:
    return request(scene, b"X-One: 1\nX-Two: 2", LENGTH) + BODY


def with_a_folded_header(scene: NodeFixture) -> bytes:
    return request(scene, b"X-One: 1\r\n Transfer-Encoding: chunked", LENGTH) + BODY


def with_chunks_in_http_1_0(scene: NodeFixture) -> bytes:
    return request(scene, CHUNKED, version=b"1.0") + CHUNKS + b"0\r\n\r\n"


def with_headers_after_its_chunks(scene: NodeFixture) -> bytes:
    return request(scene, CHUNKED) + CHUNKS + b"0\r\nX-Late: 1\r\n\r\n"


def with_chunks_that_end_in_a_bare_line_feed(scene: NodeFixture) -> bytes:
    return request(scene, CHUNKED) + CHUNKS + b"0\r\n\n"


@pytest.mark.parametrize(
    "written",
    [
        with_both,
        with_both_in_the_other_order,
        with_bare_line_feeds,
        with_one_bare_line_feed,
        with_a_folded_header,
        with_chunks_in_http_1_0,
        with_headers_after_its_chunks,
        with_chunks_that_end_in_a_bare_line_feed,
    ],
)
async def test_an_ambiguous_request_runs_nothing_and_closes_its_connection(written: object) -> None:
    assert callable(written)
    scene = NodeFixture()
    async with serving(scene) as url:
        said = await answers_to(url, written(scene) + SECOND)
    assert said.startswith(b"HTTP/1.1 400 ") and b"connection: close" in said.lower()
    assert said.count(b"HTTP/1.1 ") == 1  # what came after it was not read as a request
    assert b"Invalid HTTP request received: " in said  # and why
    assert scene.works.runs == 0


async def test_an_ambiguous_request_after_a_good_one_on_the_same_connection_is_refused_too() -> None:
    scene = NodeFixture()
    async with serving(scene) as url:
        said = await answers_to(url, SECOND + with_both(scene) + SECOND)
    assert [said.count(status) for status in (b"HTTP/1.1 200 ", b"HTTP/1.1 400 ", b"HTTP/1.1 ")] == [1, 1, 2]
    assert scene.works.runs == 0


async def test_a_body_in_chunks_is_still_read_however_it_is_cut() -> None:
    scene = NodeFixture()
    raw = request(scene, CHUNKED, b"Connection: close") + CHUNKS + b"0\r\n\r\n"
    async with serving(scene) as url:
        for cut in range(len(raw) - 25, len(raw)):
            reader, writer = await open_connection(url)
            writer.write(raw[:cut])
            await writer.drain()
            writer.write(raw[cut:])
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()


NAMES = st.sampled_from([b"Host", b"Content-Length", b"Transfer-Encoding", b"X-A"])
VALUES = st.binary(max_size=12).filter(lambda value: not set(value) & set(b"\r\n\0") and value.strip() == value)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5))
def test_a_head_in_order_is_refused_only_for_two_lengths(fields: list[tuple[bytes, bytes]]) -> None:
    head = b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % each for each in fields) + b"\r\n"
    names = {name for name, _ in fields}
    assert (request_ambiguity(head) is not None) == ({b"Content-Length", b"Transfer-Encoding"} <= names)


@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=5), st.data())
def test_a_head_with_a_line_that_ends_otherwise_is_always_refused(
    fields: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    lines = [b"GET / HTTP/1.1", *(b"%b: %b" % each for each in fields), b"", b""]
    ends = [data.draw(st.sampled_from([b"\r\n", b"\n", b"\r\n "])) for _ in lines[:-1]]
    if all(end == b"\r\n" for end in ends):
        ends[data.draw(st.integers(0, len(ends) - 1))] = b"\n"
    head = b"".join(line + end for line, end in zip(lines, [*ends, b""], strict=True))
    assert request_ambiguity(head) is not None
