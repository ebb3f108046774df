"""The key of a model's service: a node that asks it for others tells nobody, even where the service shows it.

42 secrets. What callers bring themselves is planted in `test_secrets_on_the_bus.py`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from handrail.core.errors import BusError
from handrail.node.http.bus import HttpBus
from handrail.node.nats.bus import NatsBus
from tests.app.test_network_node import CONFIG, lent, opened, served
from tests.node.nats.nats_fixtures import CALM, nats_server

KEY = "sk-modelkey0123456789abcdefABCDEF01234567"
PAID = """
[models.paid]
provider = "openai"
model = "m"
base_url = "{url}"
key = "env:PAID_KEY"
[node]
nats = "{nats}"
"""
ASKED = {"messages": [{"role": "user", "content": "Hello."}]}


async def refuse(request: web.Request) -> web.Response:
    message = f"the key {request.headers['authorization']} is wrong"
    return web.json_response({"error": {"message": message}}, status=401)


async def test_case_42_a_key_that_its_service_shows_in_an_error_goes_no_further(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PAID_KEY", KEY)
    service = web.Application()
    service.router.add_post("/{path:.*}", refuse)
    said: list[str] = []
    (tmp_path / "replies.toml").write_text('[[reply]]\ntext = "never"\n')
    with nats_server() as server:
        async with TestServer(service) as paid:
            config = CONFIG + PAID.format(url=paid.make_url("/v1"), nats=server.url)
            (tmp_path / "handrail.toml").write_text(config)
            async with opened(tmp_path) as node, served(node) as url, node.door():
                token = lent(node, "*")
                for bus in (HttpBus(url, token=token), NatsBus(server.url, community="home", token=token, pace=CALM)):
                    async with bus:
                        with pytest.raises(BusError) as refused:
                            await bus.call("llm.chat", (2, 0), {"params": {"model": "paid"}, "input": ASKED})
                        said.append(f"{refused.value!r} {refused.value.to_dict()}")
                async with (
                    aiohttp.ClientSession(url, headers={"authorization": f"Bearer {token}"}) as http,
                    http.post("/v1/chat/completions", json={"model": "paid", **ASKED}) as answer,
                ):
                    said.append(await answer.text())
    kept = _kept(tmp_path)

    assert all("internal_error" in text for text in said[:2]) and "error" in said[2]
    for text in (*said, caplog.text, *kept):
        assert KEY not in text


def _kept(folder: Path) -> list[str]:
    return [each.read_bytes().decode(errors="replace") for each in folder.rglob("*") if each.is_file()]
