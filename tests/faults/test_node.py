"""Fault cases 37, 40, 42 and 44, at the door of a node: pages that mean harm, ids that are guessed, secrets, floods."""

from __future__ import annotations

import asyncio
import gzip
import logging
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from handrail.node.server.node import ServerLimits
from tests.node.server.http_node import CALL, NodeFixture, ask, call_headers, client, open_connection, serving

EVIL = ["http://evil.example", "null", "https://127.0.0.1.evil.example", "file://"]
CANARY = "canary-5b1e9f0c"
JSON = {**call_headers("test.say"), "content-type": "application/json"}


# ── 37: cross-site WebSocket hijack; DNS rebinding ─────────────────────────────────────


@pytest.mark.parametrize("origin", EVIL)
async def test_case_37_a_page_of_a_foreign_origin_opens_no_socket(origin: str) -> None:
    scene = NodeFixture()
    async with serving(scene) as url:
        address = url.replace("http", "ws") + CALL
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                address,
                subprotocols=["hearthnet-bus.v2"],  # type: ignore[list-item]
                additional_headers={"origin": origin, "authorization": f"Bearer {scene.token}"},
            )
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("path", ["/health", "/manifest", "/capabilities", "/nothing"])
async def test_case_37_a_name_that_was_pointed_at_us_is_misdirected(path: str) -> None:
    scene = NodeFixture(token_required=False)
    async with serving(scene) as url, client(url) as http:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil:80"):
            said = await http.get(path, headers={"host": host})
            assert (said.status_code, said.json()["error"]) == (421, "bad_request")


@pytest.mark.parametrize("origin", EVIL)
async def test_case_37_a_page_of_a_foreign_origin_calls_nothing(origin: str) -> None:
    scene = NodeFixture(token_required=False)
    async with serving(scene) as url, client(url) as http:
        said = await http.post(CALL, json={}, headers={**call_headers("test.say"), "origin": origin})
    assert said.status_code == 403
    assert "access-control-allow-origin" not in said.headers
    assert scene.works.runs == 0


async def test_case_37_no_page_can_ask_in_a_form_that_needs_no_leave() -> None:
    """A form of a page sends these types without asking first; none of them is taken."""
    scene = NodeFixture(token_required=False)
    async with serving(scene) as url, client(url) as http:
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            said = await http.post(CALL, content=b"{}", headers={**call_headers("test.say"), "content-type": media})
            assert said.status_code == 415
    assert scene.works.runs == 0


# ── 40: ids of others ──────────────────────────────────────────────────────────────────


async def test_case_40_a_stream_is_not_there_for_who_holds_another_token() -> None:
    scene = NodeFixture()
    asked = {"input": {"to": 9, "stop_at": 3}}
    headers = {**call_headers("test.count", request_id="guessed"), "accept": "text/event-stream"}
    async with (
        serving(scene) as url,
        client(url, scene.token) as ann,
        client(url, scene.token_for("test.*")) as bob,
        ann.stream("POST", CALL, json=asked, headers=headers) as stream,
    ):
        assert await anext(stream.aiter_lines()) == "event: item"
        stolen = await bob.post(CALL, json=asked, headers={**headers, "last-event-id": "1"})
        assert (stolen.status_code, stolen.json()["error"]) == (404, "not_found")


async def test_case_40_an_answer_is_not_given_to_who_only_knows_its_id() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as ann, client(url, scene.token_for("test.*")) as bob:
        await ask(ann, "test.say", {"text": "for ann"}, request_id="guessed")
        assert "for ann" not in (await ask(bob, "test.say", {"text": ""}, request_id="guessed")).text


# ── 42: secrets ────────────────────────────────────────────────────────────────────────


async def test_case_42_a_secret_in_a_token_or_an_argument_is_in_no_log_error_or_trace(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    scene = NodeFixture()
    said: list[str] = []
    async with serving(scene) as url, client(url, scene.token) as http, client(url) as bare:
        for token in (CANARY, f"hntoken://v1/{CANARY}", f"{scene.token}{CANARY}"):
            for headers in ({"authorization": f"Bearer {token}"}, {"x-hearthnet-token": token}, {"x-api-key": token}):
                said.append((await bare.post(CALL, json={}, headers={**call_headers("test.say"), **headers})).text)
                said.append((await bare.get("/capabilities", headers=headers)).text)
        for code in ("internal_error", "bad_request", "timeout"):
            said.append((await ask(http, "test.fail", {"code": code, "key": CANARY})).text)
        said.append((await http.post(CALL, content=b"{" + CANARY.encode(), headers=JSON)).text)
        said.append((await ask(http, "test.hang", {"key": CANARY}, timeout_ms="10")).text)
        said += [(await http.get(path)).text for path in ("/trace/recent", "/metrics", "/capabilities", "/manifest")]
    written = capfd.readouterr()
    for text in (*said, caplog.text, written.out, written.err):
        assert CANARY not in text
        assert str(scene.token) not in text


# ── 44: floods ─────────────────────────────────────────────────────────────────────────


async def test_case_44_a_body_that_unpacks_to_a_gigabyte_is_not_unpacked() -> None:
    scene = NodeFixture()
    bomb = gzip.compress(bytes(10_000_000))
    async with serving(scene) as url, client(url, scene.token) as http:
        for packing in ("gzip", "deflate", "br", "gzip, gzip"):
            headers = {**call_headers("test.say"), "content-type": "application/json", "content-encoding": packing}
            said = await http.post(CALL, content=bomb, headers=headers)
            assert (said.status_code, said.json()["error"]) == (415, "bad_request")


@pytest.mark.parametrize(
    "said", [b"", b"POST /bus/v1/call HT", b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\nX: "]
)
async def test_case_44_who_is_slow_to_say_what_it_wants_is_cut_off(said: bytes) -> None:
    scene = NodeFixture(limits=ServerLimits(head_seconds=0.2, grace=0.2))
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        writer.write(said)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()


async def test_case_44_a_byte_now_and_then_does_not_keep_the_door_open() -> None:
    scene = NodeFixture(limits=ServerLimits(head_seconds=0.3, grace=0.2))
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        ended = asyncio.create_task(reader.read())
        async with asyncio.timeout(10):
            with suppress(ConnectionError):
                writer.write(b"GET /health HTTP/1.1\r\n")
                while not ended.done():
                    writer.write(b"X")
                    await asyncio.sleep(0.02)
        assert ended.done()
        writer.close()


async def test_case_44_a_body_that_does_not_come_is_not_waited_for() -> None:
    scene = NodeFixture(limits=ServerLimits(body_seconds=0.2, grace=0.2))
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        writer.write(b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408") and b'"error":"timeout"' in answer
        writer.close()


@pytest.mark.parametrize("length", [b"99999999999", b"9" * 5_000])
async def test_case_44_a_body_that_would_be_too_large_is_not_read(length: bytes) -> None:
    scene = NodeFixture()
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        head = b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + b"\r\n\r\n"
        writer.write(head)
        async with asyncio.timeout(10):
            assert (await reader.readline()).split()[1] in (b"413", b"400")
        writer.close()


async def test_case_44_a_head_without_end_is_not_kept() -> None:
    scene = NodeFixture()
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
                while not reader.at_eof():
                    writer.write(b"X-A: " + b"a" * 1_000 + b"\r\n")
                    await writer.drain()
                    if reader._buffer:  # type: ignore[attr-defined]
                        break
                    await asyncio.sleep(0)
            with suppress(ConnectionError):
                assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        writer.close()


async def test_case_44_beyond_so_many_connections_others_are_told_to_come_back() -> None:
    scene = NodeFixture(limits=ServerLimits(connections=20, grace=0.2))
    async with serving(scene) as url, client(url, scene.token) as http:
        idle = [await open_connection(url) for _ in range(20)]
        said = await ask(http, "test.say")
        assert (said.status_code, said.json()["error"], said.headers["retry-after"]) == (503, "capacity_exceeded", "1")
        for _, writer in idle:
            writer.close()
        while (await ask(http, "test.say")).status_code != 200:
            pass


async def test_case_44_far_beyond_that_they_are_not_even_listened_to() -> None:
    scene = NodeFixture(limits=ServerLimits(connections=10, grace=0.2))
    async with serving(scene) as url:
        many: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = [await open_connection(url) for _ in range(60)]
        closed: list[Any] = []
        async with asyncio.timeout(10):
            for reader, writer in many[20:]:
                with suppress(ConnectionError):
                    closed.append(await reader.read())
                writer.close()
        assert closed.count(b"") == len(closed)
        for _, writer in many[:20]:
            writer.close()
