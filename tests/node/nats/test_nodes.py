"""Workers among themselves and for others: discovery, identities, large bodies, coming and going."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from nats.aio.client import Client

from handrail.core.errors import BusError
from handrail.core.ids import new_id
from handrail.node.bus.descriptor import CapabilityDescriptor, Trust
from handrail.node.bus.request import NOBODY, Caller, RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from handrail.node.nats.message_parts import MOST
from handrail.node.nats.worker import serve_worker
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token_store import TokenStore
from tests.docs.pages import ROOT, read_page
from tests.node.nats.nats_fixtures import QUICK, NatsServer, WelcomingAdmission, caller, nats_server, node
from tests.polling import until

PATIENCE = 60.0


@pytest.fixture
def home() -> str:
    return new_id("home")


async def echo(request: RouteRequest) -> dict[str, Any]:
    return {"output": request.input}


async def who(request: RouteRequest) -> dict[str, Any]:
    return {"output": {"caller": request.caller.id, "trust": request.caller.trust}}


async def refusal(asking: Any) -> BusError:
    with pytest.raises(BusError) as refused:
        async with asyncio.timeout(PATIENCE):
            await asking
    return refused.value


# ── discovery ────────────────────────────────────────────────────────────────────────────


async def test_tools_for_nats_micro_see_each_capability_with_its_version_and_schema_hash(
    shared: NatsServer, home: str
) -> None:
    client = Client()
    async with asyncio.timeout(PATIENCE), node(shared, community=home) as (bus, door):
        descriptor = CapabilityDescriptor(name="rag.query", version=(1, 2), side_effects=True)
        bus.register(descriptor, echo)
        await door.refresh()
        await client.connect(shared.url)
        ping, info, stats = [
            json.loads((await client.request(f"$SRV.{verb}.cap-{home}.{door.worker}")).data)
            for verb in ("PING", "INFO", "STATS")
        ]
        everybody = json.loads((await client.request(f"$SRV.INFO.cap-{home}")).data)
        await client.close()

    assert {each["type"] for each in (ping, info, stats)} == {
        "io.nats.micro.v1.ping_response",
        "io.nats.micro.v1.info_response",
        "io.nats.micro.v1.stats_response",
    }
    assert everybody == info
    (endpoint,) = info["endpoints"]
    assert (endpoint["subject"], endpoint["queue_group"]) == (f"cap.{home}.rag.query.1", "workers")
    assert endpoint["metadata"]["schema_hash"] == descriptor.schema_hash
    assert (endpoint["metadata"]["version"], endpoint["metadata"]["side_effects"]) == ("1.2", "true")
    assert stats["endpoints"][0]["num_requests"] == 0


async def test_a_worker_that_comes_goes_or_is_killed_is_found_and_forgotten(shared: NatsServer, home: str) -> None:
    async with asyncio.timeout(PATIENCE), caller(shared, community=home) as me:
        assert await me.discover() == []
        async with node(shared, community=home) as (bus, _):
            bus.register(CapabilityDescriptor(name="text.echo"), echo)
            (offer,) = await me.discover("text.echo")
            assert offer.descriptor.full_name == "text.echo@1.0"
        assert await me.discover() == []


async def test_with_no_worker_at_all_a_call_says_that_it_may_be_made_later(shared: NatsServer, home: str) -> None:
    async with caller(shared, community=home) as me:
        error = await refusal(me.call("text.echo", (1, 0), {}))

    assert (error.code, error.outcome) == ("partition", "failed")


async def test_communities_do_not_hear_each_other(shared: NatsServer, home: str) -> None:
    async with node(shared, community=home) as (bus, door), caller(shared, community=f"{home}-x") as me:
        bus.register(CapabilityDescriptor(name="text.echo"), echo)
        await door.refresh()
        error = await refusal(me.call("text.echo", (1, 0), {}))

    assert error.code == "partition"


async def test_a_node_may_serve_and_call_over_one_connection(shared: NatsServer, home: str) -> None:
    async def relayed(request: RouteRequest) -> dict[str, Any]:
        return await request.call("text.echo", (1, 0), request.body)

    async with (
        asyncio.timeout(PATIENCE),
        node(shared, community=home, node_id="far") as (far, far_door),
        CapabilityBus(node_id="near", admission=WelcomingAdmission()) as near,
        NatsLink(shared.url, pace=QUICK) as link,
        NatsDoor(near, link, community=home) as near_door,
        caller(shared, community=home) as me,
    ):
        far.register(CapabilityDescriptor(name="text.echo"), echo)
        near.register(CapabilityDescriptor(name="text.relayed"), relayed)
        await far_door.refresh()
        await near_door.refresh()
        await near.connect(NatsBus(link, community=home))
        response = await me.call("text.relayed", (1, 0), {"input": {"a": 1}})

    assert response["output"] == {"a": 1}


# ── who calls ────────────────────────────────────────────────────────────────────────────


async def test_a_signature_says_who_calls_and_the_directory_how_far_they_are_trusted(
    shared: NatsServer, home: str
) -> None:
    member, stranger = Identity.new(), Identity.new()
    directory: dict[str, Trust] = {member.node_id: "member"}
    admission = TokenAdmission(node_id="n", store=TokenStore(), community=home, directory=directory)
    async with (
        asyncio.timeout(PATIENCE),
        CapabilityBus(admission=admission) as bus,
        NatsLink(shared.url, pace=QUICK) as link,
        caller(shared, community=home, identity=member) as one,
        caller(shared, community=home, identity=stranger) as two,
        caller(shared, community=home) as nobody,
    ):
        bus.register(CapabilityDescriptor(name="who.calls"), who)
        async with NatsDoor(bus, link, community=home):
            known = await one.call("who.calls", (1, 0), {"input": {"ä": 1.5}})
            refused = [await refusal(each.call("who.calls", (1, 0), {})) for each in (two, nobody)]
            lent = await refusal(one.call("who.calls", (1, 0), {}, caller=NOBODY))

    assert known["output"] == {"caller": member.node_id, "trust": "member"}
    assert [error.code for error in (*refused, lent)] == ["unauthorized"] * 3


async def test_a_call_made_for_somebody_else_is_not_signed_with_our_name(shared: NatsServer, home: str) -> None:
    guest = Caller(principal=NOBODY.principal, trust="member")
    async with (
        asyncio.timeout(PATIENCE),
        node(shared, community=home) as (bus, door),
        caller(shared, community=home, identity=Identity.new()) as me,
    ):
        bus.register(CapabilityDescriptor(name="who.calls"), who)
        await door.refresh()
        own = await me.call("who.calls", (1, 0), {})
        error = await refusal(me.call("who.calls", (1, 0), {}, caller=guest))

    assert own["output"]["caller"] == me.node_id
    assert error.code == "token_scope_insufficient"  # what the guest may went along


async def test_a_body_that_was_changed_on_the_way_is_refused(shared: NatsServer, home: str) -> None:
    class Meddling(NatsLink):
        async def send_bytes(self, subject: str, payload: bytes, reply: str = "") -> bool:
            return await super().send_bytes(subject, payload.replace(b'"cents":1', b'"cents":9'), reply)

    async with (
        asyncio.timeout(PATIENCE),
        node(shared, community=home) as (bus, door),
        Meddling(shared.url, pace=QUICK) as link,
    ):
        bus.register(CapabilityDescriptor(name="bank.pay"), echo)
        await door.refresh()
        me = NatsBus(link, community=home, identity=Identity.new())
        error = await refusal(me.call("bank.pay", (1, 0), {"input": {"cents": 1}}))
        fine = await me.call("bank.pay", (1, 0), {"input": {"cents": 2}})

    assert error.code == "invalid_signature"
    assert fine["output"] == {"cents": 2}


async def test_a_token_is_in_no_log_and_no_error(
    shared: NatsServer, home: str, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "hntoken://v1/" + "canary" * 10
    with caplog.at_level(logging.DEBUG):
        async with node(shared, community=home) as (bus, door), caller(shared, community=home, token=canary) as me:
            bus.register(CapabilityDescriptor(name="text.echo"), echo)
            await door.refresh()
            await me.call("text.echo", (1, 0), {"input": {}})
            error = await refusal(me.call("no.such", (1, 0), {}))

    assert "canary" not in caplog.text + str(error.to_dict()) + repr(error)


# ── large ones ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("side_effects", [False, True], ids=["a read", "a side effect"])
async def test_bodies_and_answers_over_the_limit_of_the_server_travel_in_parts(
    side_effects: bool, tmp_path: Any
) -> None:
    (tmp_path / "small.conf").write_text("max_payload: 2048\n")
    with nats_server("-c", str(tmp_path / "small.conf")) as server:
        async with asyncio.timeout(PATIENCE), node(server) as (bus, door), caller(server) as me:
            descriptor = CapabilityDescriptor(name="text.echo", side_effects=side_effects, timeout_seconds=PATIENCE)
            bus.register(descriptor, echo)
            await door.refresh()
            text = "".join(map(str, range(20_000)))
            response = await me.call("text.echo", (1, 0), {"input": {"text": text}})
            frames = [frame async for frame in me.stream("text.echo", (1, 0), {"input": {"text": text}})]

    assert response["output"] == {"text": text}
    assert frames[0].data == {"text": text}


async def test_a_call_that_is_larger_than_anything_may_be_is_refused_here(shared: NatsServer, home: str) -> None:
    async with caller(shared, community=home) as me:
        error = await refusal(me.call("text.echo", (1, 0), {"input": {"text": "x" * MOST}}))

    assert error.code == "bad_request"


# ── its end ──────────────────────────────────────────────────────────────────────────────


async def test_a_worker_serves_until_it_is_told_to_stop(shared: NatsServer, home: str) -> None:
    ready = asyncio.Event()
    async with asyncio.timeout(PATIENCE), node(shared, community=f"{home}-unused") as (bus, _):
        bus.register(CapabilityDescriptor(name="text.echo"), echo)
        serving = asyncio.create_task(
            serve_worker(bus, shared.url, community=home, pace=QUICK, ready=lambda _: ready.set())
        )
        await ready.wait()
        async with caller(shared, community=home) as me:
            await me.call("text.echo", (1, 0), {})
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


async def test_nothing_is_left_behind_when_both_ends_are_closed(shared: NatsServer, home: str) -> None:
    async with node(shared, community=home) as (bus, _):
        bus.register(CapabilityDescriptor(name="text.echo"), echo)
        async with caller(shared, community=home) as me:
            await me.call("text.echo", (1, 0), {})
            async with me.stream("text.echo", (1, 0), {}) as stream:
                await anext(stream)
    here = asyncio.current_task()
    await until(lambda: asyncio.all_tasks() == {here})


# ── the page ─────────────────────────────────────────────────────────────────────────────


async def test_with_the_permissions_that_the_page_gives_workers_serve_and_callers_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = [block.text for block in read_page(ROOT / "docs" / "nats.md").blocks if "authorization" in block.text]
    conf = tmp_path / "nats.conf"
    conf.write_text("\n".join(line for line in shown.splitlines() if not line.startswith("tls")))
    for name in ("WORKER", "CALLER"):
        monkeypatch.setenv(f"{name}_PASSWORD", "swordfish")
    with nats_server("-c", str(conf)) as server:
        as_worker, as_caller = [{"user": name, "password": "swordfish"} for name in ("worker", "caller")]
        async with (
            asyncio.timeout(PATIENCE),
            CapabilityBus(admission=WelcomingAdmission()) as bus,
            NatsLink(server.url, pace=QUICK, options=as_worker) as link,
            NatsDoor(bus, link, community="home") as door,
            NatsBus(server.url, community="home", pace=QUICK, options=as_caller) as me,
        ):
            bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), echo)
            await door.refresh()
            response = await me.call("bank.pay", (1, 0), {"input": {"text": "x" * 2_000_000}})
            (offer,) = await me.discover()
        stranger = NatsBus(server.url, community="home", pace=replace(QUICK, connect=0.3))
        error = await refusal(stranger.call("bank.pay", (1, 0), {}))

    assert len(response["output"]["text"]) == 2_000_000
    assert offer.descriptor.name == "bank.pay"
    assert (error.code, "swordfish" in str(error)) == ("partition", False)
