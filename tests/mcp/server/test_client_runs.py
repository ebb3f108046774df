"""To whom the calls of several clients belong, over real sockets: sessions, principals, and keys."""

from __future__ import annotations

import pytest
from mcp import Client

from handrail.core.events import CallIntended, RunFinished, RunStarted
from handrail.execute.policy import Policy
from handrail.tools.tool import tool
from tests.mcp.server.http_clients import ModernHttpClient, serving, words
from tests.mcp.server.server_setup import ERAS, LEGACY, MODERN, ServerSetup, keyed, scene, text
from tests.polling import until


class Counted:
    """A scene with a tool that says how often it ran."""

    def __init__(self) -> None:
        self.count = 0

        @tool(side_effects=True)
        def count(what: str = "") -> str:
            """Count."""
            self.count += 1
            return str(self.count)

        self.scene: ServerSetup = scene(count, policy=Policy(confirm_side_effects=False))


async def test_each_session_is_a_run_that_ends_with_it() -> None:
    counted = Counted()
    async with serving(counted.scene.served) as url:
        for what in ("apples", "pears"):
            async with Client(url, mode=LEGACY) as client:
                await client.call_tool("count", {"what": what})
                await client.call_tool("count", {"what": what})
        await until(lambda: len(counted.scene.recorded(RunFinished)) == 2)  # the session ends behind its answer
        assert len(counted.scene.recorded(RunStarted)) == 2
    runs = [event.run for event in counted.scene.recorded(CallIntended)]
    assert runs[0] == runs[1] != runs[2] == runs[3]


async def test_a_client_that_comes_back_gets_the_result_of_its_equal_call_and_may_ask_for_another() -> None:
    counted = Counted()
    said = []
    async with serving(counted.scene.served) as url:
        for _ in range(2):
            async with Client(url, mode=LEGACY) as client:
                said.append(text(await client.call_tool("count", {})))
        async with Client(url, mode=LEGACY) as client:
            said += [text(await client.call_tool("count", {})) for _ in range(2)]
    first, again, once_more, wanted = said
    assert first == "1" and counted.count == 1 and "waits for a person" in wanted
    assert again.startswith("1\n") and "not run again" in again and "not run again" in once_more


async def test_callers_without_a_session_share_the_run_of_their_principal() -> None:
    counted = Counted()
    async with serving(counted.scene.served) as url:
        for _ in range(3):
            async with Client(url, mode=MODERN) as client:
                await client.call_tool("count", {})
    assert len(counted.scene.recorded(RunStarted)) == len(counted.scene.recorded(RunFinished)) == 1


async def test_a_key_means_nothing_to_the_holder_of_another_token() -> None:
    counted = Counted()
    counts = []
    async with serving(counted.scene.served, token={"ann": "one", "bob": "two"}) as url:
        for token in ("one", "two", "one"):
            async with ModernHttpClient(url, token=token) as wire:
                counts.append(words(await wire.call("count", more={"_meta": keyed("k1")})))
    assert counts == ["1", "2", "1"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_sent_again_after_a_lost_connection_is_settled_once(era: str) -> None:
    counted = Counted()
    async with serving(counted.scene.served) as url:
        async with Client(url, mode=era) as client:
            first = await client.call_tool("count", {}, meta=keyed("k1"))
        async with Client(url, mode=era) as client:
            again = await client.call_tool("count", {}, meta=keyed("k1"))
            other = await client.call_tool("count", {}, meta=keyed("k2"))
    assert [text(each) for each in (first, again, other)] == ["1", "1", "2"]
