"""What the configuration says of the effects of a server's tools holds for every client of the proxy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client

from handrail.app import AppAdditions
from handrail.app.mcp_serving import open_served
from handrail.config.load import load_config
from handrail.core.errors import ConfigError
from handrail.mcp.server.build import build_mcp_server
from tests.app.app_folder import AppFolder, call
from tests.mcp.server.http_clients import serving
from tests.mcp.server.server_setup import LEGACY, MODERN, text
from tests.mcp.servers.described_server import tool

SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}, "cents": {"type": "integer"}}}
EFFECT = '[mcp.shop.tools.pay]\neffect_key = ["order"]\n'


async def paid(place: AppFolder, config: str, era: str, *, http: bool, **arguments: Any) -> str:
    """A client and its proxy, from their start to their end."""
    journal, wanted = place.folder / "journal.db", AppAdditions(rules=("allow shop:*",))
    async with open_served(load_config(place.config(config)), journal, wanted, place.person, version="1") as served:
        if not http:
            async with Client(build_mcp_server(served), mode=era, cache=None) as client:
                return text(await client.call_tool("pay", arguments))
        async with serving(served) as address, Client(address, mode=era, cache=None) as client:
            return text(await client.call_tool("pay", arguments))


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_key_in_the_file_says_which_payment_of_a_server_it_is(place: AppFolder, era: str, http: bool) -> None:
    config = place.server("shop", tool("pay", inputSchema=SCHEMA)) + EFFECT
    first = await paid(place, config, era, http=http, order=17, cents=500)
    same = await paid(place, config, era, http=http, order=17, cents=600)
    other = await paid(place, config, era, http=http, order=18, cents=500)
    assert '"cents": 500' in first and '"cents": 500' in same
    assert "not run again" in same
    assert '"order": 18' in other and "not run again" not in other


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_client_that_is_restarted_repeats_nothing_at_a_proxy_that_goes_on(place: AppFolder, era: str) -> None:
    config = place.config(place.server("shop", tool("pay", inputSchema=SCHEMA)))
    journal, wanted = place.folder / "journal.db", AppAdditions(rules=("allow shop:*",))
    said: list[list[str]] = []
    opened = open_served(load_config(config), journal, wanted, place.person, version="1")
    async with opened as served, serving(served) as address:
        for calls in (2, 1):
            async with Client(address, mode=era, cache=None) as client:
                said.append([text(await client.call_tool("pay", {"order": 17})) for _ in range(calls)])
    assert ["not run again" in each for each in (*said[0], *said[1])] == [False, False, True]


async def test_the_window_of_a_servers_tool_is_its_own(place: AppFolder) -> None:
    config = place.server("shop", tool("pay", inputSchema=SCHEMA)) + "[mcp.shop.tools.pay]\nrepeat_window = 0.001\n"
    await paid(place, config, MODERN, http=False, order=17)
    await asyncio.sleep(0.002)
    assert "not run again" not in await paid(place, config, MODERN, http=False, order=17)


async def test_a_tool_with_a_key_that_it_does_not_take_is_held_back_and_one_that_is_not_there_is_told(
    place: AppFolder,
) -> None:
    config = place.server("shop", tool("pay", inputSchema=SCHEMA), tool("look"))
    config += '[mcp.shop.tools.pay]\neffect_key = ["oder"]\n[mcp.shop.tools.pey]\nrepeat_window = 60\n'
    async with place.app(config) as app:
        held = app.servers["shop"].ensemble.held
        looked = await call(app, "look")
    assert "'oder'" in held["pay"] and "the server does not list it" in held["pey"]
    assert looked.outcome == "needs_confirmation"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("effect_key = 'order'", r"mcp\.shop\.tools\.pay\.effect_key: must be a list"),
        ("repeat_window = -1", r"mcp\.shop\.tools\.pay\.repeat_window: must be more than 0 seconds"),
        ("effect_keys = []", "effect_key"),
    ],
)
def test_a_mistake_in_the_settings_of_a_tool_is_named(place: AppFolder, wrong: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(place.config(place.server("shop") + f"[mcp.shop.tools.pay]\n{wrong}\n"))
