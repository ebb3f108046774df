"""The network as a page is shown it, with nodes that are really there and really go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from handrail.app.network_node import NetworkNode, open_node
from handrail.app.person import Person
from handrail.config.load import load_config
from handrail.config.values import Config
from handrail.core.errors import BusError
from handrail.desk.views.network import NetworkView
from handrail.desk.views.values import NetworkPage, NodeRow
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.bus import NatsBus
from handrail.node.server.serving import serve
from tests.node.nats.nats_fixtures import QUICK, nats_server, node as worker

FEW = "[services]\n" + "".join(
    f"{name} = false\n" for name in ("blobs", "rag", "trans", "market", "chat", "img", "stt")
)
ECHO = CapabilityDescriptor(name="echo.say", description="Say it again.")


async def say(request: RouteRequest) -> dict[str, object]:
    return {"output": request.input}


def configured(folder: Path, text: str) -> Config:
    folder.mkdir()
    (folder / "handrail.toml").write_text(text + FEW)
    return load_config(folder / "handrail.toml")


@asynccontextmanager
async def opened(folder: Path, text: str, **environ: str) -> AsyncIterator[NetworkNode]:
    config, person = configured(folder, text), Person(tell=lambda line: None)
    async with open_node(config, folder / "journal.db", person=person, look=None, environ=environ) as node:
        yield node


@asynccontextmanager
async def served(node: NetworkNode, port: int = 0) -> AsyncIterator[str]:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(node.server(), port=port, ready=address.set_result))
    try:
        task.add_done_callback(lambda _: address.cancel())
        yield await address
    finally:
        task.cancel()
        await asyncio.wait({task})


def row(network: NetworkPage, node_id: str) -> NodeRow:
    return next(each for each in network.nodes if each.node_id == node_id)


async def until(view: NetworkView, is_so: Callable[[NetworkPage], bool]) -> NetworkPage:
    async with asyncio.timeout(20), aclosing(view.changes()) as changes:
        async for network in changes:
            if is_so(network):
                return network
    raise AssertionError("it never ends by itself")


async def test_another_node_is_there_by_its_name_and_lost_when_it_goes_and_there_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "b", '[node]\nname = "b"\n') as b, AsyncExitStack() as up:
        b.bus.register(ECHO, say)
        url = await up.enter_async_context(served(b))
        config = f'[node]\nname = "a"\n[node.peers.cellar]\nurl = "{url}"\ntoken = "env:CELLAR"\n'
        async with opened(tmp_path / "a", config, CELLAR=b.session_token()) as a:
            view = NetworkView(a.bus, lambda: a.config, pace=0.01, older=0.0)
            there = await until(view, lambda found: len(found.nodes) == 2)
            here, other = there.nodes[0], row(there, b.identity.node_id)
            assert (here.node_id, here.name, here.local, here.state) == (a.identity.node_id, "a", True, "here")
            assert (other.name, other.local, other.state) == ("cellar", False, "there")
            assert "echo.say@1.0" in [each.name for each in other.capabilities]
            assert other.seen > 0 and there.lost == 0

            await up.aclose()
            gone = await until(view, lambda found: row(found, b.identity.node_id).state == "lost")
            assert row(gone, b.identity.node_id).seen >= other.seen
            assert gone.lost == 1

            async with served(b, int(url.rpartition(":")[2])):
                back = await until(view, lambda found: row(found, b.identity.node_id).state == "there")
            assert back.lost == 1


async def test_a_node_that_never_came_is_shown_as_lost_by_its_name(tmp_path: Path) -> None:
    config = '[node]\nname = "a"\n[node.peers.attic]\nurl = "http://127.0.0.1:9"\n'
    async with opened(tmp_path / "a", config) as a:
        network = NetworkView(a.bus, lambda: a.config).now()

        assert [(each.name, each.state, each.seen) for each in network.nodes[1:]] == [("attic", "lost", 0)]
        assert network.lost == 0


async def test_a_worker_on_nats_that_vanished_is_lost_for_a_while_with_when_it_was_last_seen() -> None:
    with nats_server() as server:
        async with NatsBus(server.url, community="home", pace=QUICK) as remote, CapabilityBus(node_id="a") as bus:
            config = load_config(None)
            view = NetworkView(bus, lambda: config, pace=0.01, older=0.0)
            async with worker(server, node_id="b") as (other, door):
                other.register(ECHO, say)
                await door.refresh()
                await bus.connect(remote, keep=True)
                there = await until(view, lambda found: len(found.nodes) == 2)
                (name,) = (each.name for each in there.nodes[1].capabilities)
                assert name == "echo.say@1.0"
            gone = await until(view, lambda found: found.nodes[-1].state == "lost")

            assert [each.node_id for each in gone.nodes] == [each.node_id for each in there.nodes]
            assert gone.nodes[-1].seen > 0
            assert gone.lost == 1


async def test_calls_are_counted_traced_and_shown_while_they_are_under_way(tmp_path: Path) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def wait(request: RouteRequest) -> dict[str, object]:
        entered.set()
        await leave.wait()
        return {"output": {}}

    async with CapabilityBus(node_id="a") as bus:
        config = load_config(None)
        view = NetworkView(bus, lambda: config)
        bus.register(ECHO, say)
        bus.register(replace(ECHO, name="door.wait", side_effects=True), wait)
        await bus.call("echo.say", (1, 0), {"input": {"text": "hello"}})
        with pytest.raises(BusError):
            await bus.call("echo.shout", (1, 0), {"input": {}})
        call = asyncio.create_task(bus.call("door.wait", (1, 0), {"input": {}}))
        await entered.wait()
        busy = view.now()
        leave.set()
        await call
        done = view.now()

    assert (busy.under_way, busy.nodes[0].in_flight, busy.answered) == (1, 1, 1)
    assert (done.under_way, done.nodes[0].in_flight, done.answered) == (0, 0, 2)
    shown = {each.name: (each.in_flight, each.side_effects) for each in busy.nodes[0].capabilities}
    assert shown == {"door.wait@1.0": (1, True), "echo.say@1.0": (0, False)}
    assert [(each.capability, each.result) for each in done.traces] == [
        ("door.wait@1.0", "ok"),
        ("echo.shout@1.0", "not_found"),
        ("echo.say@1.0", "ok"),
    ]


async def test_the_calls_of_the_page_itself_are_left_out() -> None:
    async with CapabilityBus(node_id="a") as bus:
        config = load_config(None)
        view = NetworkView(bus, lambda: config)
        seen: list[NetworkPage] = []

        async def look(request: RouteRequest) -> dict[str, object]:
            seen.append(view.now())
            return {"output": {}}

        bus.register(replace(ECHO, name="desk.network", recorded=False), look)
        bus.register(ECHO, say)
        await bus.call("desk.network", (1, 0), {"input": {}})
        await bus.call("desk.network", (1, 0), {"input": {}})

    assert [(each.under_way, each.answered, each.traces) for each in seen] == [(0, 0, ())] * 2
    assert [each.name for each in seen[0].nodes[0].capabilities] == ["echo.say@1.0"]


async def test_it_is_told_again_only_when_something_changed() -> None:
    async with CapabilityBus(node_id="a") as bus:
        config = load_config(None)
        view = NetworkView(bus, lambda: config, pace=0.0)
        async with asyncio.timeout(20), aclosing(view.changes()) as changes:
            first = await anext(changes)
            next_one = asyncio.ensure_future(anext(changes))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not next_one.done()
            bus.register(ECHO, say)
            assert (await next_one) != first


class Uneven:
    """A clock whose two faces are never read in the same moment."""

    def __init__(self) -> None:
        self._read = 0

    def monotonic(self) -> float:
        self._read += 1
        return self._read * 0.0007

    def now(self) -> int:
        return 1_000_000 + int(self.monotonic() * 1000)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


async def test_a_node_that_was_seen_once_was_seen_at_one_moment_however_often_one_looks() -> None:
    async with CapabilityBus(node_id="a") as bus, CapabilityBus(node_id="b") as other:
        config = load_config(None)
        other.register(ECHO, say)
        await bus.connect(other)
        view = NetworkView(bus, lambda: config, clock=Uneven(), older=1e9)

        assert len({view.now().nodes[1].seen for _ in range(50)}) == 1
