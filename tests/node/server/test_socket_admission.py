"""Who may open a WebSocket, and what becomes of sockets when the node ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from tests.node.http.loopback_node import ServerLimits, served
from tests.node.server.websocket_client import (
    call,
    counting_bus,
    receive_message,
    receive_until_closed,
    send_message,
    socket_to,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url() -> AsyncIterator[str]:
    bus, _counting = counting_bus()
    async with bus, served(bus) as found:
        yield found


@pytest.mark.parametrize("spoken", [None, ["chat"], ["hearthnet-bus.v1"]], ids=str)
async def test_another_protocol_is_refused_with_the_one_that_is_spoken(url: str, spoken: list[str] | None) -> None:
    protocols = None if spoken is None else [Subprotocol(each) for each in spoken]
    with pytest.raises(InvalidStatus) as caught:
        async with socket_to(url, subprotocols=protocols):
            pass
    answer = caught.value.response
    assert (answer.status_code, answer.headers["sec-websocket-protocol"]) == (426, "hearthnet-bus.v2")
    assert json.loads(answer.body or b"")["supported"] == ["hearthnet-bus.v2"]


FOREIGN = [
    "https://evil.example",
    "null",
    "http://127.0.0.1:1",
    "http://localhost",
    "file://",
    "http://127.0.0.1:PORTx",
]


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_page_of_another_origin_opens_no_socket(url: str, origin: str) -> None:
    port = url.rpartition(":")[2]
    with pytest.raises(InvalidStatus) as caught:
        async with socket_to(url, origin=Origin(origin.replace("PORT", port))):
            pass
    assert caught.value.response.status_code == 403
    assert json.loads(caught.value.response.body or b"")["error"] == "unauthorized"


async def test_a_page_from_here_and_one_that_was_named_may_open_a_socket() -> None:
    bus, _counting = counting_bus()
    async with bus, served(bus, origins=("https://app.example",)) as url:
        for origin in (url, url.upper(), "https://app.example"):
            async with socket_to(url, origin=Origin(origin)) as client:
                await send_message(client, call(origin.lower().replace("/", "."), to=1))
                assert (await receive_until_closed(client))[-1]["event"] == "done"


async def test_a_name_that_is_not_ours_opens_no_socket(url: str) -> None:
    port = int(url.rpartition(":")[2])
    with pytest.raises(InvalidStatus) as caught:
        address = f"ws://evil.example:{port}/bus/v1/call"
        async with connect(address, host="127.0.0.1", port=port, subprotocols=[Subprotocol("hearthnet-bus.v2")]):
            pass
    assert caught.value.response.status_code == 421
    assert json.loads(caught.value.response.body or b"")["error"] == "bad_request"


async def test_without_a_token_nobody_is_called_for() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, token_required=True) as url, socket_to(url) as client:
        await send_message(client, call())
        [only] = await receive_until_closed(client)
    assert (only["data"]["error"], counting.runs) == ("unauthorized", 0)


async def test_a_socket_that_was_open_before_the_node_ends_begins_no_call_then() -> None:
    bus, counting = counting_bus()
    async with bus, AsyncExitStack() as node:
        url = await node.enter_async_context(served(bus, limits=ServerLimits(grace=2)))
        async with socket_to(url) as one, socket_to(url) as two:
            await send_message(one, call(to=2, wait=2))
            await receive_message(one)
            ending = asyncio.create_task(node.aclose())
            with pytest.raises(InvalidStatus) as caught:
                while True:  # until it takes nobody in any more
                    async with socket_to(url):
                        pass
            await send_message(two, call("r-2"))
            [only] = await receive_until_closed(two)
            counting.go.set()
            assert (await receive_until_closed(one))[-1]["event"] == "done"
            await ending
    assert caught.value.response.status_code == 503
    assert (only["data"]["error"], only["data"]["retry_after_ms"], counting.runs) == ("partition", 1_000, 1)


async def test_a_node_that_ends_tells_every_socket_how_its_call_ended() -> None:
    bus, counting = counting_bus()
    async with bus, AsyncExitStack() as node:
        url = await node.enter_async_context(served(bus, limits=ServerLimits(grace=0.1)))
        async with socket_to(url) as client:
            await send_message(client, call(to=2, wait=2))
            await receive_message(client)
            ending = asyncio.create_task(node.aclose())
            heard = await receive_until_closed(client)
            await ending
    assert [(each["event"], each["data"]["error"]) for each in heard] == [("error", "cancelled")]
    assert counting.cancelled.is_set()
