"""One connection to NATS: made in time or not at all, and made again whatever the server says."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from handrail.core.errors import BusError, UsageError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from tests.node.nats.nats_fixtures import HOME, QUICK, WelcomingAdmission, nats_server
from tests.polling import until

PATIENCE = 30.0
NOBODY_THERE = "nats://me:swordfish@127.0.0.1:9"


async def echo(request: RouteRequest) -> dict[str, Any]:
    return {"output": request.input}


async def failed(asking: Any) -> BusError:
    with pytest.raises(BusError) as raised:
        await asking
    return raised.value


@pytest.mark.parametrize("address", ["", "nats://me:swordfish@", "http://me:swordfish@host:1", "me:swordfish@h:99999"])
def test_an_address_that_is_none_is_refused_with_what_to_write_and_not_shown(address: str) -> None:
    with pytest.raises(UsageError, match="nats://HOST:4222") as refused:
        NatsLink(address)
    assert "swordfish" not in str(refused.value)


async def test_calls_that_find_no_server_wait_together_and_no_longer_than_they_have_time() -> None:
    bus = NatsBus(NOBODY_THERE, community=HOME, pace=replace(QUICK, connect=PATIENCE * 2))
    async with asyncio.timeout(PATIENCE):
        calls = (failed(bus.call("bank.pay", (1, 0), {}, timeout_seconds=0.1)) for _ in range(3))
        errors = await asyncio.gather(*calls)
        await bus.aclose()

    assert {(error.code, error.outcome) for error in errors} == {("partition", "failed")}


async def test_a_server_that_does_not_let_us_in_is_said_to_in_time_and_without_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """nats-py loses some cancellations in this case: of so many attempts, some would go on for ever."""
    with nats_server("--user", "me", "--pass", "right") as server, caplog.at_level(logging.DEBUG):
        url = server.url.replace("//", "//me:swordfish@")
        links = [NatsLink(url, pace=replace(QUICK, connect=1.0 + n / 200)) for n in range(60)]
        async with asyncio.timeout(PATIENCE):
            errors = await asyncio.gather(*(failed(link.open()) for link in links))

    assert all("does not let us in; check the user and password" in error.message for error in errors)
    assert "swordfish" not in caplog.text


async def test_a_worker_that_was_shut_out_serves_again_once_it_is_let_in(tmp_path: Path) -> None:
    conf = tmp_path / "nats.conf"

    def let_in(password: str) -> None:
        conf.write_text(f"authorization {{ users: [ {{user: me, password: {password}}} ] }}\n")

    let_in("right")
    with nats_server("-c", str(conf)) as server:
        url = server.url.replace("//", "//me:right@")
        async with (
            asyncio.timeout(PATIENCE),
            CapabilityBus(admission=WelcomingAdmission()) as bus,
            NatsLink(url, pace=QUICK) as link,
            NatsDoor(bus, link, community=HOME) as door,
        ):
            bus.register(CapabilityDescriptor(name="text.echo"), echo)
            await door.refresh()
            for password in ("wrong", "right"):
                let_in(password)
                server.signal(signal.SIGHUP)
                await until(lambda up=password == "right": link.is_up == up)  # type: ignore[misc]
            async with NatsBus(url, community=HOME, pace=QUICK) as me:
                response = await me.call("text.echo", (1, 0), {"input": {"a": 1}})

    assert response["output"] == {"a": 1}


async def test_a_server_that_says_nothing_does_not_hold_up_the_end_of_a_worker() -> None:
    with nats_server() as server:
        async with CapabilityBus(admission=WelcomingAdmission()) as bus:
            for n in range(5):
                bus.register(CapabilityDescriptor(name=f"text.echo{n}"), echo)
            link = NatsLink(server.url, pace=QUICK)
            door = NatsDoor(bus, link, community=HOME)
            await door.start()
            server.stop()
            async with asyncio.timeout(PATIENCE):  # nats-py alone waits ten seconds for each of twenty subjects
                await door.aclose(1)
                await link.aclose()
            server.resume()


async def test_a_connection_is_closed_also_where_the_client_fails_to_close_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with nats_server() as server:
        link = NatsLink(server.url, pace=QUICK)
        await link.open()
        client = link._client
        assert client is not None

        async def fails(self: object) -> None:
            raise ConnectionResetError

        monkeypatch.setattr(type(client), "_flush_pending", fails)
        async with asyncio.timeout(PATIENCE):
            await link.aclose()

        assert client.is_closed
        transport: Any = client._transport
        assert transport._bare_io_writer.is_closing()
        left = [task for task in asyncio.all_tasks() if "nats" in repr(task.get_coro())]
        for task in left:  # which nobody ends where the closing failed
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@pytest.mark.parametrize("effects", [False, True])
async def test_a_call_in_the_instant_in_which_its_server_is_lost_is_made_over_another(effects: bool) -> None:
    one_after_the_other = {"dont_randomize": True}
    with nats_server() as first, nats_server() as second:
        servers = [first.url, second.url]
        async with (
            asyncio.timeout(PATIENCE),
            CapabilityBus(admission=WelcomingAdmission()) as bus,
            NatsLink(servers, pace=QUICK, options=one_after_the_other) as link,
            NatsDoor(bus, link, community=HOME) as door,
            NatsLink(servers, pace=QUICK, options=one_after_the_other) as ours,
        ):
            bus.register(CapabilityDescriptor(name="test.echo", side_effects=effects), echo)
            await door.refresh()
            caller = NatsBus(ours, community=HOME)
            assert (await caller.call("test.echo", (1, 0), {"input": {"n": 1}}))["output"] == {"n": 1}
            first.kill()
            while ours.is_up:  # noqa: ASYNC110  # the very step in which it is lost, before anybody is told
                await asyncio.sleep(0)
            answer = await caller.call("test.echo", (1, 0), {"input": {"n": 2}}, timeout_seconds=PATIENCE)
            await caller.aclose()

    assert answer["output"] == {"n": 2}


async def test_calls_all_the_while_a_server_is_lost_are_answered_over_the_other() -> None:
    with nats_server() as first, nats_server() as second:
        servers = [first.url, second.url]
        one_after_the_other = {"dont_randomize": True}
        async with (
            asyncio.timeout(PATIENCE),
            CapabilityBus(admission=WelcomingAdmission()) as bus,
            NatsLink(servers, pace=QUICK, options=one_after_the_other) as link,
            NatsDoor(bus, link, community=HOME) as door,
            NatsLink(servers, pace=QUICK, options=one_after_the_other) as ours,
        ):
            bus.register(CapabilityDescriptor(name="test.echo", max_concurrent=64), echo)
            await door.refresh()
            caller = NatsBus(ours, community=HOME)
            back = asyncio.Event()

            async def ask(number: int) -> int:
                count = 0
                while not back.is_set():
                    said = await caller.call("test.echo", (1, 0), {"input": {"n": number}}, timeout_seconds=PATIENCE)
                    assert said["output"] == {"n": number}
                    count += 1
                return count

            asking = [asyncio.create_task(ask(number)) for number in range(8)]
            await caller.call("test.echo", (1, 0), {"input": {}})
            first.kill()
            await until(lambda: not ours.is_up)
            await until(lambda: ours.is_up and link.is_up)
            await caller.call("test.echo", (1, 0), {"input": {}}, timeout_seconds=PATIENCE)
            back.set()
            counts = await asyncio.gather(*asking)
            await caller.aclose()

    assert all(counts)
