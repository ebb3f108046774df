"""Large messages are read only from callers that the node has identified, however they say who they are."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from handrail.core.canonical import canonical_json
from handrail.node.http import HttpBus
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.signatures import as_headers, sign_call
from handrail.node.tokens.token import issue
from tests.node.server.http_node import CALL, NodeFixture, ask, call_headers, client, serving
from tests.node.server.websocket_client import PROTOCOL, receive_message, receive_until_closed, send_message, socket_to

LARGE = {"to": 1, "text": "x" * 200_000}


def message(token: str = "", input: dict[str, Any] = LARGE) -> str:
    envelope = {"capability": "test.count", "body": {"input": input}, **({"token": token} if token else {})}
    return json.dumps({"type": "call", "envelope": envelope})


async def said_on(url: str, text: str, **options: Any) -> tuple[list[str], int | None, str | None]:
    """The events of a socket on which this was said first, and how it was closed."""
    async with socket_to(url, **options) as connection:
        with contextlib.suppress(ConnectionClosed):
            await send_message(connection, text)
        heard = await receive_until_closed(connection)
        return [each["event"] for each in heard], connection.close_code, connection.close_reason


async def test_a_large_first_message_is_not_read_though_a_good_token_stands_in_it() -> None:
    scene = NodeFixture()
    async with serving(scene) as url:
        events, code, why = await said_on(url, message(scene.token))
    assert (events, code, scene.works.runs) == ([], 1008, 0)
    assert why is not None and "when you open the socket" in why


async def test_a_large_first_message_is_read_from_whoever_brought_a_token_to_the_opening() -> None:
    scene = NodeFixture()
    in_subprotocol = "hntoken." + base64.urlsafe_b64encode(scene.token.encode()).decode().rstrip("=")
    ways: list[dict[str, Any]] = [
        {"additional_headers": {"authorization": f"Bearer {scene.token}"}},
        {"subprotocols": [Subprotocol(PROTOCOL), Subprotocol(in_subprotocol)]},
    ]
    async with serving(scene) as url:
        for way in ways:
            assert (await said_on(url, message(scene.token), **way))[0] == ["item", "done"]


@pytest.mark.parametrize("text", ["hntoken://v1/x.y.z", "é", "\0", ""])
async def test_a_token_in_the_subprotocol_that_is_none_opens_a_socket_for_small_messages(text: str) -> None:
    scene = NodeFixture()
    bad = "hntoken." + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    protocols = [Subprotocol(PROTOCOL), Subprotocol(bad)]
    async with serving(scene) as url:
        small = await said_on(url, message(scene.token, {"to": 1}), subprotocols=protocols)
        large = await said_on(url, message(scene.token), subprotocols=protocols)
    assert (small[0], large[:2]) == (["item", "done"], ([], 1008))


async def test_what_follows_a_small_first_message_of_a_known_caller_may_be_large() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, socket_to(url) as connection:
        await send_message(connection, message(scene.token, {"to": 2, "stop_at": 1}))
        await scene.works.started.wait()
        await send_message(connection, {"type": "tool_result", "tool_call_id": "t", "body": "x" * 200_000})
        heard = [await receive_message(connection), await receive_message(connection)]
        scene.works.go_on.set()
        heard += await receive_until_closed(connection)
    assert [each.get("event", each.get("type")) for each in heard] == ["item", "refused", "item", "done"]


async def test_our_client_opens_its_sockets_so_that_large_calls_are_read() -> None:
    scene = NodeFixture()
    async with serving(scene) as url:
        for who in ({"token": str(scene.token)}, {"identity": scene.friend, "community": "us"}):
            async with HttpBus(url, transport="websocket", **who) as bus:
                frames = [frame.event async for frame in bus.stream("test.count", (1, 0), {"input": LARGE})]
            assert frames == ["item", "done"], who


async def test_our_client_is_told_at_once_that_the_node_does_not_know_it() -> None:
    scene, stranger = NodeFixture(), Identity.from_seed(bytes([7]) * 32)
    async with serving(scene) as url, HttpBus(url, transport="websocket", identity=stranger, community="us") as bus:
        frames = [frame async for frame in bus.stream("test.count", (1, 0), {"input": LARGE})]
    assert [(frame.event, frame.data["error"]) for frame in frames] == [("error", "unauthorized")]
    assert scene.works.runs == 0


# ── requests ─────────────────────────────────────────────────────────────────────────────


async def test_a_large_request_with_its_token_in_a_header_is_read() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        assert (await ask(http, "test.say", LARGE)).status_code == 200


async def test_a_large_request_whose_token_stands_only_in_it_is_not_read() -> None:
    scene = NodeFixture()
    envelope = {"capability": "test.say", "token": str(scene.token), "body": {"input": LARGE}}
    async with serving(scene) as url, client(url) as http:
        said = await http.post(CALL, json=envelope)
        small = await http.post(CALL, json={**envelope, "body": {"input": {"text": "x"}}})
    assert (said.status_code, said.json()["error"]) == (401, "unauthorized")
    assert "Authorization" in said.json()["message"]
    assert small.status_code == 200


async def test_a_large_request_that_a_member_signed_is_read_and_one_that_a_stranger_signed_is_not() -> None:
    scene, stranger = NodeFixture(), Identity.from_seed(bytes([7]) * 32)
    raw = canonical_json({"input": LARGE})

    def signed(who: Identity, body: bytes = raw) -> dict[str, str]:
        fields = sign_call(who, capability="test.say", version="1.0", request_id="r", community="us", body=body)
        return {**as_headers(fields), "content-type": "application/json"}

    async with serving(scene) as url, client(url) as http:
        read = await http.post(CALL, content=raw, headers=signed(scene.friend))
        unknown = await http.post(CALL, content=raw, headers=signed(stranger))
        forged = await http.post(CALL, content=raw, headers=signed(scene.friend, b"{}"))
    assert read.status_code == 200
    assert (unknown.status_code, unknown.json()["error"]) == (401, "unauthorized")
    assert (forged.json()["error"], scene.works.runs) == ("invalid_signature", 1)


async def test_who_asks_is_checked_before_a_body_is_parsed() -> None:
    """A body that is no JSON is told so only to those who may call."""
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as http:
        headers = {**call_headers("test.say"), "content-type": "application/json"}
        stranger = await http.post(CALL, content=b"[1,", headers=headers)
        known = await http.post(CALL, content=b"[1,", headers={**headers, "authorization": f"Bearer {scene.token}"})
    assert (stranger.status_code, stranger.json()["error"]) == (401, "unauthorized")
    assert (known.status_code, known.json()["error"]) == (400, "bad_request")


async def test_without_tokens_everybody_here_may_send_large_messages() -> None:
    scene = NodeFixture(token_required=False)
    async with serving(scene) as url, client(url) as http:
        assert (await ask(http, "test.say", LARGE)).status_code == 200
        assert (await said_on(url, message()))[0] == ["item", "done"]


async def test_a_large_request_with_a_revoked_token_is_refused_as_such() -> None:
    scene = NodeFixture()
    held, token = issue(scene.identity, scene.store, Scope.of(["*"]))
    scene.store.revoke(held.id)
    async with serving(scene) as url, client(url, token) as http:
        said = await ask(http, "test.say", LARGE)
    assert (said.json()["error"], scene.works.runs) == ("token_revoked", 0)
