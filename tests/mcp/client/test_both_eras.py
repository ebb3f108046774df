"""What must work in both eras of the protocol and over both transports, against a server on the official package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from handrail import Executor, Policy, ToolCall
from handrail.mcp import McpBounds, mcp_ensemble
from handrail.mcp.values import Endpoint, Era
from tests.mcp.client.connections import PATIENCE, raw, sdk, web_of_sdk
from tests.polling import until

ERAS: tuple[Era, ...] = ("modern", "legacy")
WILLING = Policy(confirm_side_effects=False)


@asynccontextmanager
async def endpoint(over: str) -> AsyncIterator[Endpoint]:
    if over == "pipes":
        yield sdk()
    else:
        async with web_of_sdk() as (address, _):
            yield address


@pytest.mark.requirement("converser.mcp-more")
@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_who_gives_a_call_up_ends_it_at_the_server_and_hears_of_new_tools(over: str, tmp_path: Path) -> None:
    async with endpoint(over) as server, asyncio.timeout(PATIENCE):
        await asyncio.gather(*(_used(server, era, tmp_path) for era in ERAS))


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_without_templates_still_has_its_resources(era: Era) -> None:
    async with mcp_ensemble("srv", raw(era), era=era, required=True) as ensemble:
        assert [each.uri for each in await ensemble.resources()] == ["file:///a"]


async def _used(server: Endpoint, era: Era, folder: Path) -> None:
    grown = asyncio.Event()
    ensemble = mcp_ensemble("sdk", server, era=era, required=True, bounds=McpBounds(settle=0.01), on_change=grown.set)
    async with ensemble, Executor([ensemble], policy=WILLING) as executor:
        begun, given_up = folder / f"{era}-begun", folder / f"{era}-given-up"
        arguments = {"begun": str(begun), "given_up": str(given_up)}
        waiting = asyncio.create_task(executor.invoke(ToolCall("", "wait", arguments)))
        await until(begun.exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(given_up.exists)

        result = await executor.invoke(ToolCall("", "grow", {"name": f"grown_{era}"}))
        assert result.outcome == "ok", result.text
        while f"grown_{era}" not in ensemble.all_tools:
            grown.clear()
            await grown.wait()
