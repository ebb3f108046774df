"""Calls that stream over server-sent events: frames in order, one end, and a client that comes back reads on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.server.call_route import encode_server_sent_events
from handrail.node.server.node import ServerLimits
from handrail.node.server.stream_replay import encode_frame
from tests.node.server.http_node import (
    CALL,
    NodeFixture,
    call_headers,
    client,
    events,
    eventually,
    open_connection,
    serving,
)
from tests.polling import until_still

SSE = {"accept": "text/event-stream"}


async def stream(
    http: httpx2.AsyncClient, name: str, input: dict[str, Any] | None = None, **headers: str
) -> httpx2.Response:
    return await http.post(CALL, json={"input": input or {}}, headers={**call_headers(name, **headers), **SSE})


@asynccontextmanager
async def reading(
    http: httpx2.AsyncClient, name: str, input: dict[str, Any], last: int | None = None, **headers: str
) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of a stream, as they come."""
    fields = {**call_headers(name, **headers), **SSE, **({} if last is None else {"last-event-id": str(last)})}
    async with http.stream("POST", CALL, json={"input": input}, headers=fields) as response:
        assert response.status_code == 200, await response.aread()
        yield response.aiter_lines()


async def until(lines: AsyncIterator[str], wanted: str) -> list[str]:
    seen = []
    async for line in lines:
        seen.append(line)
        if line == wanted:
            break
    return seen


async def test_frames_come_numbered_and_end_once() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await stream(http, "test.count", {"to": 3})
    assert said.headers["content-type"] == "text/event-stream; charset=utf-8"
    found = events(said.text)
    assert [(each["event"], each["id"]) for each in found] == [
        ("item", "1"),
        ("item", "2"),
        ("item", "3"),
        ("done", "4"),
    ]
    assert [json.loads(each["data"])["n"] for each in found[:3]] == [1, 2, 3]
    assert json.loads(found[3]["data"])["counted"] == 3


async def test_what_does_not_stream_is_one_result_and_its_end() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await stream(http, "test.say", {"text": "x"})
    found = events(said.text)
    assert [each["event"] for each in found] == ["result", "done"]
    assert json.loads(found[0]["data"]) == {"said": "x"}


async def test_an_error_before_the_first_frame_has_its_status() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await stream(http, "test.fail", {"code": "rate_limited", "after": 500})
    assert (said.status_code, said.json()["error"], said.headers["retry-after"]) == (429, "rate_limited", "1")


async def test_an_error_after_it_is_the_last_frame_of_a_200() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await stream(http, "test.count", {"to": 2, "stop_at": 2}, timeout_ms="100")
    assert said.status_code == 200
    found = events(said.text)
    assert [each["event"] for each in found] == ["item", "item", "error"]
    assert json.loads(found[-1]["data"])["error"] == "timeout"


async def test_a_silent_stream_says_that_it_is_still_there() -> None:
    scene = NodeFixture(limits=ServerLimits(keep_alive=0.05, grace=0.2))
    async with (
        serving(scene) as url,
        client(url, scene.token) as http,
        reading(http, "test.count", {"to": 2, "stop_at": 1}) as lines,
    ):
        await until(lines, "id: 1")
        await until(lines, ": still there")
        scene.works.go_on.set()
        assert "event: done" in await until(lines, "event: done")


async def test_a_stream_that_is_silent_from_the_start_begins_all_the_same() -> None:
    scene = NodeFixture(limits=ServerLimits(keep_alive=0.05, grace=0.2))
    async with serving(scene) as url, client(url, scene.token) as http, reading(http, "test.hang", {}) as lines:
        await until(lines, ": still there")
        scene.works.go_on.set()
        await until(lines, "event: done")


async def test_who_was_cut_off_reads_on_where_it_was() -> None:
    scene = NodeFixture()
    asked = {"to": 5, "stop_at": 3}
    async with serving(scene) as url, client(url, scene.token) as http:
        async with reading(http, "test.count", asked, request_id="r") as lines:
            await until(lines, "id: 3")
        async with reading(http, "test.count", asked, last=2, request_id="r") as lines:
            seen = await until(lines, "id: 3")
            scene.works.go_on.set()
            seen += await until(lines, "id: 6")
    assert [line for line in seen if line.startswith("id")] == ["id: 3", "id: 4", "id: 5", "id: 6"]
    assert scene.works.runs == 1


async def test_who_gave_its_call_no_id_is_told_one_by_which_it_can_be_taken_up() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await stream(http, "test.count", {"to": 3})
        again = await stream(http, "test.count", {"to": 3}, request_id=said.headers["x-hearthnet-request-id"])
    assert (again.text, scene.works.runs) == (said.text, 1)


@pytest.mark.parametrize(("name", "outcome"), [("test.say", "failed"), ("test.pay", "in_doubt")])
async def test_of_a_stream_that_is_not_there_any_more_nobody_says_that_it_did_nothing(name: str, outcome: str) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        headers = {**call_headers(name, request_id="r"), **SSE, "last-event-id": "1"}
        said = (await http.post(CALL, json={}, headers=headers)).json()
    assert (said["error"], said["outcome"], scene.works.runs) == ("not_found", outcome, 0)


async def test_a_stream_that_has_ended_can_be_read_again_for_a_while() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        first = await stream(http, "test.count", {"to": 3}, request_id="r")
        again = await stream(http, "test.count", {"to": 3}, request_id="r")
        other = await stream(http, "test.count", {"to": 4}, request_id="r")
    assert first.text == again.text
    assert (other.status_code, scene.works.runs) == (400, 1)


async def test_of_a_long_stream_only_the_last_frames_are_kept() -> None:
    scene = NodeFixture(limits=ServerLimits(frames=64, grace=0.2))
    async with serving(scene) as url, client(url, scene.token) as http:
        await stream(http, "test.count", {"to": 200}, request_id="r")
        async with reading(http, "test.count", {"to": 200}, last=150, request_id="r") as lines:
            assert "id: 151" in await until(lines, "id: 201")
        headers = {**call_headers("test.count", request_id="r"), **SSE, "last-event-id": "5"}
        gone = await http.post(CALL, json={"input": {"to": 200}}, headers=headers)
    assert (gone.status_code, gone.json()["error"]) == (404, "not_found")


@pytest.mark.parametrize("last", ["7", "x", "-1", "²"])
async def test_a_place_that_no_stream_has_is_refused(last: str) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        headers = {**call_headers("test.count", request_id="r"), **SSE, "last-event-id": last}
        said = await http.post(
            CALL, json={}, headers=[(key.encode(), value.encode()) for key, value in headers.items()]
        )
    assert said.status_code in (400, 404)
    assert scene.works.runs == 0


async def test_a_revoked_token_reads_no_further() -> None:
    scene = NodeFixture()
    asked = {"to": 5, "stop_at": 3}
    token = scene.token_for("test.*")
    async with serving(scene) as url, client(url, token) as http:
        async with reading(http, "test.count", asked, request_id="r") as lines:
            await until(lines, "id: 3")
        for entry in scene.store.issued():
            scene.store.revoke(entry.token.id)
        headers = {**call_headers("test.count", request_id="r"), **SSE, "last-event-id": "2"}
        said = await http.post(CALL, json={"input": asked}, headers=headers)
    assert (said.status_code, said.json()["error"]) == (401, "token_revoked")


@pytest.mark.parametrize("linger", [0.0, 0.05])
async def test_a_client_that_vanishes_ends_its_call(linger: float) -> None:
    scene = NodeFixture(limits=ServerLimits(linger=linger, grace=0.2))
    async with serving(scene) as url, client(url, scene.token) as http:
        async with reading(http, "test.count", {"to": 9, "stop_at": 1}) as lines:
            await until(lines, "id: 1")
        await eventually(lambda: scene.works.cancelled.is_set())
        await eventually(lambda: not scene.server.life.under_way and not scene.bus.under_way)


async def test_a_client_that_reads_slowly_slows_the_capability_down() -> None:
    scene = NodeFixture(limits=ServerLimits(linger=0.05, grace=0.2))
    body = b'{"input": {"to": 200000}}'
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        writer.write(
            b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Accept: text/event-stream\r\nX-HearthNet-Capability: test.count\r\n"
            + f"Authorization: Bearer {scene.token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await reader.readuntil(b"id: 1\n")
        await until_still(lambda: scene.works.sent)  # it waits for us
        assert scene.works.sent < 200_000
        writer.close()


def test_a_frame_that_has_no_form_on_the_wire_is_an_error() -> None:
    for frame in (
        StreamFrame("a\nb", {}, 1),
        StreamFrame("item", {"x": "\ud800"}, 1),
        StreamFrame("item", {"x": object()}, 1),
    ):
        assert encode_frame(frame).event == "error"
        assert encode_server_sent_events([encode_frame(frame)]).count(b"\n") == 4


def test_frames_on_the_wire_are_these_bytes() -> None:
    frames = [encode_frame(StreamFrame("token", {"text": "a\nb ü\u2028"}, 7)), encode_frame(StreamFrame("done", {}, 8))]
    assert encode_server_sent_events(frames) == (
        b'event: token\nid: 7\ndata: {"text":"a\\nb \xc3\xbc\xe2\x80\xa8"}\n\nevent: done\nid: 8\ndata: {}\n\n'
    )
