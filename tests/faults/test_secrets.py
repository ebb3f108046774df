"""A whole node with a record, a gateway and NATS: a secret that comes in is in nothing that goes out or stays.

42 secrets. Each way has tests of its own; here are all of them at once, on a node as a user starts it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from handrail.bus.http.bus import HttpBus
from handrail.bus.nats.bus import NatsBus
from handrail.bus.port import Bus
from handrail.core.errors import BusError
from tests.app.test_network import CONFIG, RAIN, chat, lent, opened, served
from tests.bus.nats.scene import QUICK, nats_server

CANARY = "sk-canary0123456789abcdefABCDEF0123456789"
KEY = "sk-modelkey0123456789abcdefABCDEF01234567"
PLAIN = "waterfall"
REPLIES = f"""
[[reply]]
calls = [{{ name = "search_corpus", arguments = {{ query = "{PLAIN} {CANARY}", corpus = "{CANARY}" }} }}]
[[reply]]
text = "Done."
"""
PAID = """
[models.paid]
provider = "openai"
model = "m"
base_url = "{url}"
key = "env:PAID_KEY"
"""
BODIES: list[dict[str, Any]] = [
    {"params": {"corpus": "docs"}, "input": {"query": CANARY}},
    {"params": {"corpus": CANARY}, "input": {"query": {"password": CANARY}}},
    {"input": {"password": CANARY, CANARY: 1}},
]
CHAT = {"params": {"model": "paid"}, "input": {"messages": [{"role": "user", "content": f"Is {CANARY} good?"}]}}
CAPABILITIES = ("rag.query", "rag.ingest", "market.post", "auth.token.issue", "stt.transcribe", "no.such")


async def echo(request: web.Request) -> web.Response:
    """A service that refuses a key, and shows it."""
    message = f"the key {request.headers['authorization']} is wrong; you said {await request.text()}"
    return web.json_response({"error": {"message": message}}, status=401)


async def said_to(bus: Bus, capability: str, body: dict[str, Any]) -> str:
    """Everything that an error says; what a capability answers is its own."""
    try:
        await bus.call(capability, (1, 0), body)
    except BusError as error:
        return f"{error} {error!r} {error.to_dict()}"
    return ""


async def test_case_42_a_node_keeps_and_tells_no_secret_whatever_way_it_came(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PAID_KEY", KEY)
    (tmp_path / "replies.toml").write_text(REPLIES)
    said: list[str] = []
    service = web.Application()
    service.router.add_post("/{path:.*}", echo)
    paid = TestServer(service)
    await paid.start_server()
    with nats_server() as server:
        (tmp_path / "handrail.toml").write_text(
            CONFIG + PAID.format(url=paid.make_url("/v1")) + f'[node]\nnats = "{server.url}"\n'
        )
        async with opened(tmp_path) as node, served(node) as url, node.door():
            token = lent(node, "*")
            await node.bus.call("rag.ingest", (1, 0), RAIN)
            community = node.config.node.community
            ways: list[HttpBus | NatsBus] = [
                HttpBus(url, token=token),
                HttpBus(url, token=f"{token}{CANARY}"),
                NatsBus(server.url, community=community, token=token, pace=QUICK),
            ]
            for bus in ways:
                said += [await said_to(bus, name, body) for name in CAPABILITIES for body in BODIES]
                said.append(await said_to(bus, "llm.chat", CHAT))
                await bus.aclose()
            said.append(str(await chat(url, token)))
            async with aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}) as http:
                for path in ("/trace/recent", "/metrics", "/capabilities", "/manifest", "/telemetry"):
                    async with http.get(url + path) as answer:
                        said.append(await answer.text())
    await paid.close()
    kept = [
        path.read_bytes().decode(errors="replace") for path in (tmp_path / ".handrail").rglob("*") if path.is_file()
    ]

    assert any(PLAIN in text for text in kept)  # so the record can be read here
    assert any("paid" in text or "401" in text for text in said)
    for text in (*said, caplog.text, *kept):
        assert CANARY not in text and KEY not in text and str(token) not in text
