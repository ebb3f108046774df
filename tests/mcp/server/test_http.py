"""The server on a socket: both eras on one path, and no client can keep it from others or from its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from hypothesis import given, strategies as st
from mcp import Client
from mcp.server.streamable_http import EventMessage

from handrail.core.context import Principal
from handrail.core.errors import UsageError
from handrail.core.events import CallSettled
from handrail.core.invocation import Invocation
from handrail.http.listener import listening_socket
from handrail.http.request_guard import BodyLimitMiddleware, Message, Receive, Scope, Send
from handrail.mcp.server.client_questions import ClientAsk
from handrail.mcp.server.http import HttpLimits, serve_http
from handrail.mcp.server.http_app import SessionEventStore
from handrail.tools.tool import tool
from tests import prestarted
from tests.mcp.server.http_clients import HandshakeHttpClient, ModernHttpClient, read, serving, words
from tests.mcp.server.server_setup import ERAS, scene, text

ROOT = Path(__file__).resolve().parents[3]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(share=False)
async def hang() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


@pytest.mark.requirement("converser.mcp-server")
@pytest.mark.parametrize("era", ERAS)
async def test_clients_of_both_eras_are_served_on_one_path(era: str) -> None:
    async with serving(scene(add).served) as url, Client(url, mode=era, cache=None) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["add"]
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


async def test_anything_beside_the_path_is_not_there() -> None:
    async with serving(scene(add).served, path="/here") as url, httpx2.AsyncClient() as http:
        assert url.endswith("/here")
        assert (await http.post(url.replace("/here", "/mcp"), json={})).status_code == 404


async def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="choose another port"):
        await serve_http(scene(add).served, port=taken.getsockname()[1])


# ── who may come in ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("token", [None, "wrong", "Secret"])
async def test_without_the_token_nothing_is_said(token: str | None) -> None:
    async with serving(scene(add).served, token="secret") as url, ModernHttpClient(url, token=token) as wire:
        said = await wire.send("tools/list")
        assert (said.status_code, said.headers["www-authenticate"]) == (401, "Bearer")
        assert "add" not in said.text


async def test_with_the_token_it_works() -> None:
    async with serving(scene(add).served, token="secret") as url, ModernHttpClient(url, token="secret") as wire:
        assert words(await wire.call("add", {"a": 1, "b": 2})) == "3"


async def test_a_call_is_made_in_the_name_of_the_holder_of_its_token() -> None:
    stage = scene(add, principal=lambda caller: Principal(caller.subject or "nobody"))
    async with (
        serving(stage.served, token={"ann": "one", "bob": "two"}) as url,
        ModernHttpClient(url, token="two") as wire,
    ):
        await wire.call("add", {"a": 1, "b": 2})
        assert {event.principal for event in stage.journal.events if hasattr(event, "principal")} == {"bob"}


async def test_a_session_is_not_there_for_who_holds_another_token() -> None:
    tokens = {"ann": "one", "bob": "two"}
    async with (
        serving(scene(add).served, token=tokens) as url,
        HandshakeHttpClient(url, token="one") as ann,
        HandshakeHttpClient(url, token="two") as bob,
    ):
        assert (await ann.send("tools/list", {})).status_code == 200
        bob.session = ann.session
        assert (await bob.send("tools/list", {})).status_code == 404


# ── how much of it one client may take up ──────────────────────────────────────────────


async def test_a_request_that_is_too_large_is_refused_before_it_is_read() -> None:
    async with serving(scene(add).served, limits=HttpLimits(body=2_000)) as url, ModernHttpClient(url) as wire:
        assert (await wire.send("tools/list", {"x": "y" * 2_000})).status_code == 413

        assert words(await wire.call("add", {"a": 1, "b": 2})) == "3"


async def test_who_is_refused_in_the_middle_of_a_request_is_told_why_when_it_has_sent_the_rest() -> None:
    happened: list[str] = []
    left = [{"type": "http.request", "body": b" " * 1_000, "more_body": more} for more in (False, True, True)]

    async def receive() -> Message:
        happened.append("read")
        return left.pop()

    async def send(message: Message) -> None:
        happened.append(f"{message['type']} {message.get('status', '')}")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError

    scope = {"type": "http", "headers": [(b"content-length", b"3000")]}
    await BodyLimitMiddleware(app, size=2_000, seconds=10)(scope, receive, send)
    assert happened == ["read", "read", "read", "http.response.start 413", "http.response.body "]


async def test_who_is_refused_and_goes_on_sending_is_cut_off() -> None:
    async with asyncio.timeout(20), serving(scene(add).served, token="one") as url:
        reader, writer = await opened(url)
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 401")
        writer.close()


async def test_a_length_of_five_thousand_digits_is_too_large() -> None:
    statuses: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it was let in")

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    scope = {"type": "http", "method": "POST", "headers": [(b"content-length", b"9" * 5_000)]}
    await BodyLimitMiddleware(app, size=2_000, seconds=10)(scope, receive, send)
    assert statuses[0] == 413


def test_an_answer_does_not_wait_until_the_client_has_acknowledged_its_head() -> None:
    with listening_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_who_goes_on_sending_after_that_is_cut_off() -> None:
    async with serving(scene(add).served, limits=HttpLimits(body=2_000)) as url:
        reader, writer = await opened(url)
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while not reader.at_eof():
                    writer.write(b"1f4\r\n" + b" " * 500 + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()


async def opened(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", httpx2.URL(url).port)


@pytest.mark.parametrize("said", [b"", b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: "])
async def test_a_connection_that_does_not_say_what_it_wants_is_closed(said: bytes) -> None:
    async with serving(scene(add).served, limits=HttpLimits(head_seconds=0.2)) as url:
        reader, writer = await opened(url)
        writer.write(said)
        assert await reader.read() == b""
        writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with serving(scene(add).served, limits=HttpLimits(body_seconds=0.2)) as url:
        reader, writer = await opened(url)
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_beyond_so_many_connections_others_are_told_to_come_back() -> None:
    async with serving(scene(add).served, limits=HttpLimits(connections=4)) as url:
        idle = [await opened(url) for _ in range(4)]
        async with ModernHttpClient(url) as wire:
            assert (await wire.send("tools/list")).status_code == 503
            for _, writer in idle:
                writer.close()
                await writer.wait_closed()
            while (await wire.send("tools/list")).status_code == 503:
                pass  # until it has noticed that they are gone


async def test_a_slow_client_does_not_hold_up_the_others() -> None:
    async with serving(scene(add, hang).served) as url, ModernHttpClient(url) as wire:
        slow = asyncio.create_task(wire.send("tools/call", {"name": "hang", "arguments": {}}))
        assert words(await wire.call("add", {"a": 1, "b": 2})) == "3"
        slow.cancel()
        await asyncio.wait((slow,))


# ── its end ────────────────────────────────────────────────────────────────────────────


async def test_calls_that_are_under_way_are_cancelled_and_answered_when_it_ends() -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()

    @tool(share=False)
    async def beginning() -> str:
        """Say that it has begun, and never end."""
        begun.put_nowait("begun")
        await asyncio.Event().wait()
        return "never"

    stage = scene(beginning)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve_http(stage.served, ready=address.set_result))
    async with (
        asyncio.timeout(20),
        ModernHttpClient(await address) as wire,
        HandshakeHttpClient(await address) as legacy,
    ):
        modern = asyncio.create_task(wire.ask("tools/call", {"name": "beginning", "arguments": {}}))
        old = asyncio.create_task(legacy.send("tools/call", {"name": "beginning", "arguments": {}}))
        assert [await begun.get(), await begun.get()] == ["begun", "begun"]
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server
        for said in (await modern, read(await old)):
            assert said["result"]["isError"]
            assert "The server ended while this call was running" in words(said["result"])
    assert [event.outcome for event in stage.recorded(CallSettled)] == ["cancelled", "cancelled"]


async def test_open_streams_do_not_keep_it_from_ending() -> None:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve_http(scene(add).served, ready=address.set_result))
    url = await address
    async with asyncio.timeout(20), ModernHttpClient(url) as wire, HandshakeHttpClient(url) as legacy:
        body, fields = wire.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, {})
        async with (
            wire.http.stream("POST", url, json=body, headers=fields) as listening,
            legacy.http.stream("GET", url, headers=legacy.headers) as standing,
        ):
            assert (listening.status_code, standing.status_code) == (200, 200)
            server.cancel()
            with pytest.raises(asyncio.CancelledError):
                await server


async def test_sigterm_ends_it_in_good_order() -> None:
    process = await asyncio.create_subprocess_exec(
        *prestarted.command(), "-m", "conformance.server", cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().strip()
            async with ModernHttpClient(url) as wire:
                call = {"name": "slow_compute", "arguments": {"seconds": 60}, "_meta": {"progressToken": 1}}
                body, fields = wire.request("tools/call", call, {})
                async with wire.http.stream("POST", url, json=body, headers=fields) as going:
                    lines = (line async for line in going.aiter_lines() if line.startswith("data:"))
                    assert "begun" in await anext(lines)
                    process.send_signal(signal.SIGTERM)
                    assert "The server ended" in await anext(lines)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# ── streams that can be taken up again ─────────────────────────────────────────────────


@tool(share=False)
async def pausing(word: str, invocation: Invocation) -> str:
    """End the stream before the answer."""
    client = ClientAsk.of(invocation)
    await client.log(f"before {word}")
    await client.pause()
    await client.log(f"after {word}")
    return f"done {word}"


async def test_a_broken_stream_is_taken_up_where_it_broke_and_by_its_own_session_only() -> None:
    async with serving(scene(pausing).served) as url, HandshakeHttpClient(url) as ann, HandshakeHttpClient(url) as bob:
        events = {}
        for who, word in ((ann, "ann"), (bob, "bob")):
            # The same request id in both: the streams of both have the same name.
            said = await who.send("tools/call", {"name": "pausing", "arguments": {"word": word}}, 7)
            assert "done" not in said.text
            events[word] = next(line[3:].strip() for line in said.text.splitlines() if line.startswith("id:"))
        assert "done ann" in await _rest(ann, events["ann"])
        assert "ann" not in await _rest(bob, events["ann"])


async def _rest(client: HandshakeHttpClient, event: str) -> str:
    """What came after an event, up to the answer; nothing if there is no such event."""
    headers = {**client.headers, "last-event-id": event}
    got = ""
    async with asyncio.timeout(20), client.http.stream("GET", client.url, headers=headers) as again:
        async for line in again.aiter_lines():
            got += f"{line}\n"
            if "done" in line:
                break
    return got


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300)), max_size=40),
    st.integers(1, 10),
    st.integers(100, 2_000),
)
async def test_what_is_kept_of_streams_is_bounded_and_in_order(
    sent: list[tuple[str, int]], events: int, size: int
) -> None:
    store = SessionEventStore(events=events, size=size)
    ids = []
    for stream, length in sent:
        note = types.JSONRPCNotification(jsonrpc="2.0", method="n", params={"x": "y" * length})
        ids.append((stream, await store.store_event(stream, note)))
    assert len(store._kept) <= events
    assert sum(each[3] for each in store._kept) <= size
    for stream, id in ids:
        got: list[str] = []

        async def take(event: EventMessage, got: list[str] = got) -> None:
            got.append(event.event_id or "")

        if await store.replay_events_after(id, take) == stream:
            assert got == [other for name, other in ids if name == stream and int(other) > int(id)]


@given(st.text())
async def test_an_event_that_nobody_sent_has_no_stream(id: str) -> None:
    async def never(event: EventMessage) -> None:
        raise NotImplementedError

    assert await SessionEventStore().replay_events_after(id, never) is None
