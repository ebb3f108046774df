"""The bus over NATS under fire, by the numbers of the fault list: 26 to 32.

The server is a real one, workers are processes that are killed with -9. How long something takes is asserted
only against the deadline that would have ended it otherwise.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg

from handrail.core.errors import BusError
from handrail.core.ids import new_id
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.link import NatsLink
from handrail.node.nats.messages import (
    NatsAccepted,
    NatsChunk,
    NatsGo,
    NatsHeartbeat,
    NatsRequest,
    NatsResult,
    WorkerMessage,
    decode_caller_message,
    decode_worker_message,
    encode_nats_message,
)
from handrail.node.nats.served_calls import ServedCall, ServedCallTable
from handrail.node.tokens.identity import Identity
from soak.nats import run as town
from tests.node.nats.nats_fixtures import (
    HOME,
    PATIENT,
    QUICK,
    NatsServer,
    bank_workers,
    begun,
    caller,
    effects,
    nats_server,
    node,
)
from tests.polling import until, until_asked, until_still

PATIENCE = 60.0
LONG = 50.0
"""The deadline of calls that must end much sooner, seconds."""
SOON = 20.0
"""Much sooner, on a busy machine."""


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    """For the tests that leave it alone."""
    with nats_server() as running:
        yield running


@pytest.fixture
def home() -> str:
    return new_id("home")


async def failed(asking: Any) -> BusError:
    with pytest.raises(BusError) as raised:
        async with asyncio.timeout(PATIENCE):
            await asking
    return raised.value


class Counted:
    """A handler that counts how often it ran, and may be held."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, request: RouteRequest) -> dict[str, Any]:
        self.runs.append(request.call_id)
        self.begun.set()
        try:
            if request.input.get("hold"):
                await self.release.wait()
        finally:
            self.ended.set()
        return {"output": {"runs": len(self.runs)}}


# ── 26: duplicate delivery ───────────────────────────────────────────────────────────────


async def flushed(client: Client) -> None:
    """Until the server knows of every subscription: the first PING of nats-py may overtake them."""
    for _ in range(2):
        await client.flush()


@asynccontextmanager
async def raw(server: NatsServer) -> AsyncIterator[tuple[Client, str, Callable[[], Any]]]:
    """A client that speaks the protocol by hand: itself, its inbox, and what arrives there."""
    client, heard = Client(), asyncio.Queue[WorkerMessage]()

    async def arrived(message: Msg) -> None:
        await heard.put(decode_worker_message(message.data))

    await client.connect(server.url)
    inbox = f"_INBOX.{secrets.token_hex(8)}"
    await client.subscribe(f"{inbox}.*", cb=arrived)
    await flushed(client)

    async def answer() -> WorkerMessage:
        while True:
            found = await heard.get()
            if not isinstance(found, NatsHeartbeat):
                return found

    try:
        yield client, inbox, answer
    finally:
        await client.close()


@pytest.mark.parametrize("side_effects", [False, True], ids=["a read", "a side effect"])
async def test_26_a_message_that_is_delivered_twice_runs_once_and_is_answered_alike(
    server: NatsServer, home: str, side_effects: bool
) -> None:
    pay = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        raw(server) as (client, inbox, answer),
    ):
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=side_effects), pay)
        await door.refresh()
        request = NatsRequest(ref="r1", call_id="c1", capability="bank.pay", version="1.0", body={}, community=home)
        answers = []
        for _ in range(2):
            await client.publish(f"cap.{home}.bank.pay.1", encode_nats_message(request), f"{inbox}.r1")
            while isinstance(found := await answer(), NatsAccepted):
                assert found.waits == side_effects
                for _ in range(2):
                    await client.publish(f"cap.{home}._node.{found.worker}", encode_nats_message(NatsGo(ref="r1")))
            answers.append(found)

    assert answers[0] == answers[1]
    assert isinstance(answers[0], NatsResult) and answers[0].body["output"] == {"runs": 1}
    assert pay.runs == ["c1"]


async def test_26_another_attempt_at_the_same_call_is_answered_from_the_first(server: NatsServer, home: str) -> None:
    pay = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home) as me,
    ):
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True, timeout_seconds=LONG), pay)
        await door.refresh()
        body = {"input": {"hold": True}}
        first = asyncio.create_task(me.call("bank.pay", (1, 0), body, call_id="c1"))
        await pay.begun.wait()
        second = asyncio.create_task(me.call("bank.pay", (1, 0), body, call_id="c1"))
        await until(lambda: door.under_way == 1)
        pay.release.set()
        found = [(await each)["output"] for each in (first, second)]
        found.append((await me.call("bank.pay", (1, 0), body, call_id="c1"))["output"])

    assert found == [{"runs": 1}] * 3


async def test_26_what_one_caller_did_is_not_told_to_another_who_knows_the_id(server: NatsServer, home: str) -> None:
    pay = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home, identity=Identity.new()) as me,
        caller(server, community=home, identity=Identity.new()) as other,
        caller(server, community=home) as nobody,
    ):
        bus.register(CapabilityDescriptor(name="bank.pay"), pay)
        await door.refresh()
        found = [
            (await each.call("bank.pay", (1, 0), {}, call_id="c1"))["output"]["runs"] for each in (me, other, nobody)
        ]
        again = [
            (await each.call("bank.pay", (1, 0), {}, call_id="c1"))["output"]["runs"] for each in (me, other, nobody)
        ]

    assert found == again == [1, 2, 3]


async def test_26_a_call_that_never_began_may_be_asked_for_again_by_its_id(server: NatsServer, home: str) -> None:
    pay = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        raw(server) as (client, inbox, answer),
    ):
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), pay)
        await door.refresh()
        ends = []
        for ref in ("r1", "r2"):
            request = NatsRequest(ref=ref, call_id="c1", capability="bank.pay", version="1.0", body={}, community=home)
            await client.publish(f"cap.{home}.bank.pay.1", encode_nats_message(request), f"{inbox}.{ref}")
            taken = await answer()
            if ref == "r2":
                await client.publish(f"cap.{home}._node.{taken.worker}", encode_nats_message(NatsGo(ref=ref)))
            ends.append(await answer())

    assert ends[0].error["begun"] is False
    assert isinstance(ends[1], NatsResult) and pay.runs == ["c1"]


def test_26_a_worker_that_remembers_as_much_as_it_can_takes_side_effects_again_once_it_forgot_some() -> None:
    now = 0.0
    table = ServedCallTable(lambda: now, keep=10.0, effects=1)
    descriptor = CapabilityDescriptor(name="bank.pay", side_effects=True)
    request = NatsRequest(ref="r1", call_id="c1", capability="bank.pay", version="1.0")
    call = ServedCall(NatsLink("nats://nowhere"), request, "", "w", now)
    call.descriptor = descriptor
    table.add(call)
    table.settle(call)
    before, now = table.full, 11.0

    assert (before, table.full) == (True, False)


# ── 27: the worker dies in mid-call ──────────────────────────────────────────────────────


async def under_way(me: NatsBus, ledger: Path, flag: Path) -> dict[str, asyncio.Task[dict[str, Any]]]:
    """A call of each kind that has begun, by what it is."""
    await me.discover()
    asking = {}
    for number, (capability, fate) in enumerate(CALLS):
        body = {"input": {"number": number, "fate": fate, "until": str(flag)}}
        calling = me.call(capability, (1, 0), body, timeout_seconds=LONG)
        asking[f"{capability} {fate}"] = asyncio.create_task(calling)
        await begun(ledger, f"{capability} {number}")
    await until(lambda: len(effects(ledger)) == 3)
    return asking


CALLS = (
    ("bank.look", "waits after"),
    ("bank.put", "waits after"),
    ("bank.pay", "waits before"),
    ("bank.pay", "waits after"),
)


async def test_27_when_the_only_worker_dies_every_call_is_told_soon_and_as_what_it_is(
    server: NatsServer, tmp_path: Path, home: str
) -> None:
    ledger = tmp_path / "ledger"
    with bank_workers(server, ledger, 1, community=home) as (worker,):
        async with asyncio.timeout(PATIENCE), caller(server, community=home) as me:
            asking = await under_way(me, ledger, tmp_path / "never")
            async with me.stream("bank.count", (1, 0), {"input": {"n": 10, "waits_at": 5}}) as stream:
                frames = [await anext(stream) for _ in range(5)]
                started = time.monotonic()
                worker.kill()
                frames += [frame async for frame in stream]
            errors = {what: await failed(each) for what, each in asking.items()}
            seconds = time.monotonic() - started

    assert {what: (error.code, error.outcome) for what, error in errors.items()} == {
        "bank.look waits after": ("partition", "failed"),
        "bank.put waits after": ("partition", "in_doubt"),
        "bank.pay waits before": ("partition", "in_doubt"),
        "bank.pay waits after": ("partition", "in_doubt"),
    }
    assert seconds < SOON
    assert [frame.data.get("n") for frame in frames[:-1]] == list(range(5))
    assert (frames[-1].event, frames[-1].data["error"]) == ("error", "partition")


async def test_27_where_there_is_another_worker_only_what_may_run_again_does(
    server: NatsServer, tmp_path: Path, home: str
) -> None:
    ledger, flag = tmp_path / "ledger", tmp_path / "go on"
    with bank_workers(server, ledger, 1, community=home) as (worker,):
        async with asyncio.timeout(PATIENCE), caller(server, community=home) as me:
            asking = await under_way(me, ledger, flag)
            with bank_workers(server, ledger, 1, community=home):
                worker.kill()
                errors = {what: await failed(asking[what]) for what in asking if what.startswith("bank.pay")}
                await until(lambda: len(effects(ledger)) == 5)  # the other two, once more
                flag.touch()
                again = [(await asking[what])["output"]["number"] for what in asking if what not in errors]

    assert {error.outcome for error in errors.values()} == {"in_doubt"}
    assert again == [0, 1]
    assert sorted(effects(ledger)) == ["bank.look 0", "bank.look 0", "bank.pay 3", "bank.put 1", "bank.put 1"]


async def test_27_a_payment_in_doubt_that_is_asked_for_again_is_not_made_by_another_worker(
    server: NatsServer, tmp_path: Path, home: str
) -> None:
    ledger = tmp_path / "ledger"
    body = {"input": {"number": 1, "fate": "dies after"}}
    with bank_workers(server, ledger, 1, community=home):
        async with asyncio.timeout(PATIENCE), caller(server, community=home) as me:
            first = await failed(me.call("bank.pay", (1, 0), body, call_id="c1"))
            async with node(server, community=home) as (bus, door):
                bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), Counted())
                await door.refresh()
                again = await failed(me.call("bank.pay", (1, 0), body, call_id="c1"))
                other = await me.call("bank.pay", (1, 0), body, call_id="c2")

    assert (first.outcome, again.outcome) == ("in_doubt", "in_doubt")
    assert other["output"] == {"runs": 1}
    assert effects(ledger) == ["bank.pay 1"]


async def test_27_a_repeated_go_that_nobody_hears_proves_nothing(server: NatsServer, home: str) -> None:
    """The first may have arrived: so nobody else is asked."""
    pay, word = Counted(), asyncio.Queue[str]()
    gone, other_is_there = asyncio.Event(), asyncio.Event()
    taken = encode_nats_message(
        NatsAccepted(worker="dying", lease_ms=300, retriable=False, side_effects=True, waits=True)
    )
    async with (
        asyncio.timeout(PATIENCE),
        raw(server) as (client, _, _),
        caller(server, community=home) as me,
        node(server, community=home) as (bus, door),
        asyncio.TaskGroup() as group,
    ):

        async def hears(message: Msg) -> None:
            if isinstance(decode_caller_message(message.data), NatsRequest):
                await client.publish(message.reply, taken)
            else:
                await word.put(message.reply)

        async def dies() -> None:
            reply = await word.get()
            await direct.unsubscribe()
            gone.set()
            await other_is_there.wait()
            await client.publish(reply, taken)  # as a heartbeat that crossed with the word

        await client.subscribe(f"cap.{home}.bank.pay.1", cb=hears)
        direct = await client.subscribe(f"cap.{home}._node.dying", cb=hears)
        await flushed(client)
        group.create_task(dies())
        asking = asyncio.create_task(me.call("bank.pay", (1, 0), {}, timeout_seconds=LONG))
        await gone.wait()
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), pay)
        await door.refresh()
        other_is_there.set()
        error = await failed(asking)

    assert (error.code, error.outcome) == ("partition", "in_doubt")
    assert pay.runs == []


async def test_27_a_caller_that_is_gone_does_not_keep_a_worker_busy(server: NatsServer, home: str) -> None:
    held = Counted()
    async with asyncio.timeout(PATIENCE), node(server, community=home) as (bus, door):
        bus.register(CapabilityDescriptor(name="bank.look", timeout_seconds=LONG), held)
        await door.refresh()
        me = NatsBus(server.url, community=home, pace=QUICK)
        asking = asyncio.create_task(me.call("bank.look", (1, 0), {"input": {"hold": True}}))
        await held.begun.wait()
        await me.aclose()  # as if it had died: it says nothing
        await held.ended.wait()
        asking.cancel()
        await asyncio.wait({asking})


async def test_27_a_caller_that_died_and_asks_again_by_the_id_is_still_waited_for(
    server: NatsServer, home: str
) -> None:
    """The connection on which it was asked first is gone for good, and the other one is not."""
    held, identity = Counted(), Identity.new()
    body = {"input": {"hold": True}}
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home, identity=identity) as again,
    ):
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True, timeout_seconds=LONG), held)
        await door.refresh()
        died = NatsBus(server.url, community=home, pace=QUICK, identity=identity)
        first = asyncio.create_task(died.call("bank.pay", (1, 0), body, call_id="c1"))
        await held.begun.wait()
        second = asyncio.create_task(again.call("bank.pay", (1, 0), body, call_id="c1"))
        await until(lambda: len(next(iter(door._table.running.values())).refs) == 2)
        await died.aclose()
        gone = Counted()  # somebody else who died at the same time: when it is given up, the other one would be too
        bus.register(CapabilityDescriptor(name="bank.look", timeout_seconds=LONG), gone)
        other = NatsBus(server.url, community=home, pace=QUICK)
        third = asyncio.create_task(other.call("bank.look", (1, 0), body))
        await gone.begun.wait()
        await other.aclose()
        await gone.ended.wait()
        held.release.set()
        response = await second
        for each in (first, third):
            each.cancel()
        await asyncio.wait({first, third})

    assert response["output"] == {"runs": 1}


async def test_27_a_stream_that_is_cancelled_ends_at_the_worker_though_nobody_reads_on(
    server: NatsServer, home: str
) -> None:
    ended = asyncio.Event()

    async def endless(request: RouteRequest) -> dict[str, Any]:
        try:
            await request.send("token", {})
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {"output": {}}

    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home) as me,
    ):
        schema = {"token": {"type": "object"}}
        bus.register(CapabilityDescriptor(name="text.endless", stream_schema=schema, timeout_seconds=LONG), endless)
        await door.refresh()
        async with me.stream("text.endless", (1, 0), {}) as stream:
            await anext(stream)
            await stream.cancel()
            await asyncio.wait_for(ended.wait(), SOON)
            last = [frame async for frame in stream][-1]

    assert last.data["error"] == "cancelled"


# ── 28: slow consumers, lost frames ──────────────────────────────────────────────────────


class Lossy(NatsLink):
    """A connection whose client drops some of what arrives, as nats-py does when it is slow."""

    dice: random.Random
    share: float
    dropped = 0

    def _arrived(self, message: Msg) -> None:
        if self.dice.random() < self.share:
            self.dropped += 1
        else:
            super()._arrived(message)


async def lossy_stream(server: NatsServer, home: str, seed: int, share: float) -> tuple[list[StreamFrame], int]:
    async def count(request: RouteRequest) -> dict[str, Any]:
        for n in range(40):
            await request.send("token", {"n": n})
        return {"output": {}}

    link = Lossy(server.url, pace=QUICK)
    link.dice, link.share = random.Random(seed), share
    async with asyncio.timeout(PATIENCE), node(server, community=home) as (bus, door), link:
        bus.register(CapabilityDescriptor(name="text.count", stream_schema={"token": {"type": "object"}}), count)
        await door.refresh()
        me = NatsBus(link, community=home, window=8)
        async with me.stream("text.count", (1, 0), {}, timeout_seconds=LONG) as stream:
            return [frame async for frame in stream], link.dropped


@pytest.mark.parametrize("seed", range(6))
async def test_28_frames_that_are_lost_are_sent_again_and_none_is_ever_left_out(
    server: NatsServer, home: str, seed: int
) -> None:
    frames, dropped = await lossy_stream(server, home, seed, 0.1)

    numbers = [frame.data["n"] for frame in frames if frame.event == "token"]
    assert numbers == list(range(len(numbers)))
    assert [frame.seq for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[-1].event == "done" and len(numbers) == 40
    assert dropped > 0


async def test_28_a_worker_that_leaves_a_frame_out_for_good_gives_an_error_and_no_shorter_stream(
    server: NatsServer, home: str
) -> None:
    async with asyncio.timeout(PATIENCE), raw(server) as (client, _, _), caller(server, community=home) as me:

        async def evil(message: Msg) -> None:
            said = decode_caller_message(message.data)
            told: list[WorkerMessage] = [
                NatsAccepted(worker="evil", lease_ms=300),
                NatsChunk(seq=1, event="token", data={"n": 1}),
                NatsChunk(seq=3, event="token", data={"n": 3}),
                NatsResult(seq=4, body={}),
            ]
            for each in told[0 if isinstance(said, NatsRequest) else 1 :]:
                await client.publish(message.reply, encode_nats_message(each))

        await client.subscribe(f"cap.{home}.text.count.1", cb=evil)
        await client.subscribe(f"cap.{home}._node.evil", cb=evil)
        await flushed(client)
        async with me.stream("text.count", (1, 0), {}, timeout_seconds=LONG) as stream:
            frames = [frame async for frame in stream]

    assert [frame.event for frame in frames] == ["token", "error"]
    assert frames[-1].data["error"] == "partition"


async def test_28_no_more_frames_are_under_way_than_the_window_has_room_for(server: NatsServer, home: str) -> None:
    sent = 0

    async def endless(request: RouteRequest) -> dict[str, Any]:
        nonlocal sent
        while True:
            await request.send("token", {})
            sent += 1

    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        raw(server) as (client, inbox, answer),
    ):
        bus.register(
            CapabilityDescriptor(name="text.endless", stream_schema={"token": {}}, timeout_seconds=LONG), endless
        )
        await door.refresh()
        request = NatsRequest(
            ref="r1", call_id="c1", capability="text.endless", version="1.0", body={}, window=5, stream=True
        )
        await client.publish(f"cap.{home}.text.endless.1", encode_nats_message(request), f"{inbox}.r1")
        assert isinstance(await answer(), NatsAccepted)
        seen = [await answer() for _ in range(5)]
        await until_still(lambda: sent)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await answer()

    assert [each.seq for each in seen] == [1, 2, 3, 4, 5]


# ── 29: head-of-line blocking, overload ──────────────────────────────────────────────────


async def test_29_a_slow_call_holds_up_no_other_on_the_same_worker(server: NatsServer, home: str) -> None:
    held = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home) as me,
    ):
        bus.register(CapabilityDescriptor(name="bank.look", timeout_seconds=LONG), held)
        await door.refresh()
        slow = asyncio.create_task(me.call("bank.look", (1, 0), {"input": {"hold": True}}))
        await held.begun.wait()
        quick = await asyncio.gather(*(me.call("bank.look", (1, 0), {}) for _ in range(6)))
        assert not slow.done()
        held.release.set()
        await slow

    assert len(quick) == 6


@pytest.mark.parametrize("side_effects", [False, True], ids=["a read", "a side effect"])
async def test_29_a_full_worker_sends_calls_to_another_and_all_full_is_said_so(
    server: NatsServer, home: str, side_effects: bool
) -> None:
    held = [Counted(), Counted()]
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (one, first),
        node(server, community=home) as (two, second),
        caller(server, community=home) as me,
    ):
        for bus, handler in zip((one, two), held, strict=True):
            descriptor = CapabilityDescriptor(
                name="bank.pay", side_effects=side_effects, max_concurrent=1, timeout_seconds=LONG
            )
            bus.register(descriptor, handler)
        await first.refresh()
        await second.refresh()
        asking = []
        for count in (1, 2):  # whoever gets the first, the second goes to the other
            asking.append(asyncio.create_task(me.call("bank.pay", (1, 0), {"input": {"hold": True}})))
            await until(lambda count=count: sum(len(each.runs) for each in held) == count)  # type: ignore[misc]
        error = await failed(me.call("bank.pay", (1, 0), {}))
        for each in held:
            each.release.set()
        await asyncio.gather(*asking)

    assert [len(each.runs) for each in held] == [1, 1]
    assert (error.code, error.outcome != "in_doubt") == ("capacity_exceeded", True)
    assert error.retry_after_ms is not None


async def test_29_of_many_payments_at_once_each_finds_a_place_if_there_is_one(server: NatsServer, home: str) -> None:
    held = [Counted(), Counted()]
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (one, first),
        node(server, community=home) as (two, second),
        caller(server, community=home) as me,
    ):
        for bus, handler in zip((one, two), held, strict=True):
            descriptor = CapabilityDescriptor(
                name="bank.pay", side_effects=True, max_concurrent=8, timeout_seconds=LONG
            )
            bus.register(descriptor, handler)
        await first.refresh()
        await second.refresh()
        calls = [asyncio.create_task(me.call("bank.pay", (1, 0), {"input": {"hold": True}})) for _ in range(16)]
        await until(lambda: sum(len(each.runs) for each in held) == 16 or any(each.done() for each in calls))
        for each in held:
            each.release.set()
        await asyncio.gather(*calls)

    assert [len(each.runs) for each in held] == [8, 8]


async def test_29_work_for_which_nobody_waits_any_more_is_not_begun(server: NatsServer, home: str) -> None:
    pay = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        raw(server) as (client, inbox, answer),
    ):
        bus.register(CapabilityDescriptor(name="bank.pay"), pay)
        await door.refresh()
        request = NatsRequest(
            ref="r1", call_id="c1", capability="bank.pay", version="1.0", body={}, timeout_ms=0, community=home
        )
        await client.publish(f"cap.{home}.bank.pay.1", encode_nats_message(request), f"{inbox}.r1")
        found = await answer()

    assert found.error["error"] == "timeout"
    assert pay.runs == []


async def test_29_a_side_effect_without_a_go_never_begins(server: NatsServer, home: str) -> None:
    pay = Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        raw(server) as (client, inbox, answer),
    ):
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), pay)
        await door.refresh()
        request = NatsRequest(ref="r1", call_id="c1", capability="bank.pay", version="1.0", body={}, community=home)
        await client.publish(f"cap.{home}.bank.pay.1", encode_nats_message(request), f"{inbox}.r1")
        taken, ended = await answer(), await answer()
        await client.publish(f"cap.{home}._node.{taken.worker}", encode_nats_message(NatsGo(ref="r1")))
        await client.flush()
        await door.refresh()

    assert taken.waits
    assert (ended.error["error"], ended.error["begun"]) == ("partition", False)
    assert pay.runs == []


async def test_29_a_worker_that_is_told_to_stop_ends_what_it_began_and_takes_nothing_new(
    server: NatsServer, tmp_path: Path, home: str
) -> None:
    ledger, flag = tmp_path / "ledger", tmp_path / "go on"
    with bank_workers(server, ledger, 1, community=home) as (worker,):
        async with asyncio.timeout(PATIENCE), caller(server, community=home) as me:
            body = {"input": {"number": 1, "fate": "waits before", "until": str(flag)}}
            asking = asyncio.create_task(me.call("bank.pay", (1, 0), body))
            await begun(ledger, "bank.pay 1")
            worker.terminate()
            await until_gone_from_discovery(me)
            error = await failed(me.call("bank.pay", (1, 0), {"input": {"number": 2}}))
            flag.touch()
            response = await asking
            code = await asyncio.to_thread(worker.gone)

    assert response["output"]["number"] == 1
    assert (error.outcome, code) == ("failed", 0) or (error.code, code) == ("partition", 0)
    assert effects(ledger) == ["bank.pay 1"]


async def until_gone_from_discovery(me: NatsBus) -> None:
    """A worker that drains says so to others, not to us."""

    async def gone() -> bool:
        return not await me.discover("bank.pay")

    await until_asked(gone)


# ── 30: the server restarts ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("side_effects", [False, True], ids=["a read", "a side effect"])
async def test_30_a_call_under_way_outlives_the_server_and_is_answered_once(side_effects: bool) -> None:
    pay = Counted()
    with nats_server() as server:
        async with (
            asyncio.timeout(PATIENCE),
            node(server, pace=PATIENT) as (bus, door),
            caller(server, pace=PATIENT) as me,
        ):
            descriptor = CapabilityDescriptor(name="bank.pay", side_effects=side_effects, timeout_seconds=LONG)
            bus.register(descriptor, pay)
            await door.refresh()
            asking = asyncio.create_task(me.call("bank.pay", (1, 0), {"input": {"hold": True}}, timeout_seconds=LONG))
            await pay.begun.wait()
            server.kill()
            pay.release.set()
            await pay.ended.wait()  # its answer has nowhere to go
            server.start()
            response = await asking
            after = await me.call("bank.pay", (1, 0), {}, timeout_seconds=LONG)

    assert response["output"] == {"runs": 1}
    assert after["output"] == {"runs": 2}


async def test_30_a_stream_goes_on_over_a_restart_and_loses_nothing() -> None:
    go_on = asyncio.Event()

    async def count(request: RouteRequest) -> dict[str, Any]:
        for n in range(30):
            if n == 10:
                await go_on.wait()
            await request.send("token", {"n": n})
        return {"output": {}}

    with nats_server() as server:
        async with (
            asyncio.timeout(PATIENCE),
            node(server, pace=PATIENT) as (bus, door),
            caller(server, pace=PATIENT, window=8) as me,
        ):
            schema = {"token": {"type": "object"}}
            bus.register(CapabilityDescriptor(name="text.count", stream_schema=schema, timeout_seconds=LONG), count)
            await door.refresh()
            frames = []
            async with me.stream("text.count", (1, 0), {}, timeout_seconds=LONG) as stream:
                async for frame in stream:
                    frames.append(frame)
                    if len(frames) == 10:
                        server.kill()
                        go_on.set()
                        await asyncio.sleep(0.1)  # some of them are sent into nothing
                        server.start()

    assert [frame.data.get("n") for frame in frames[:-1]] == list(range(30))
    assert frames[-1].event == "done"


async def test_30_without_a_server_a_call_says_so_and_later_calls_work_again() -> None:
    pay = Counted()
    with nats_server() as server:
        async with asyncio.timeout(PATIENCE), node(server) as (bus, door), caller(server) as me:
            bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), pay)
            await door.refresh()
            await me.call("bank.pay", (1, 0), {})
            server.kill()
            error = await failed(me.call("bank.pay", (1, 0), {}))
            server.start()
            response = await me.call("bank.pay", (1, 0), {}, timeout_seconds=LONG)

    assert (error.code, error.outcome) == ("partition", "failed")
    assert response["output"] == {"runs": 2}


async def test_30_no_server_at_all_is_a_partition() -> None:
    me = NatsBus("nats://127.0.0.1:9", community=HOME, pace=replace(QUICK, connect=0.3))
    error = await failed(me.call("bank.pay", (1, 0), {}))
    assert error.code == "partition"


# ── 31: clocks that jump ─────────────────────────────────────────────────────────────────


class Jumping:
    """A wall clock that somebody sets; the monotonic one is the machine's."""

    def __init__(self) -> None:
        self.off = 0

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self.off

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize("hours", [-1, 1])
async def test_31_a_clock_that_jumps_ends_no_call_early_and_a_wrong_one_is_told_to_be_set(
    server: NatsServer, home: str, hours: int
) -> None:
    pay, clock = Counted(), Jumping()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home, identity=Identity.new(), clock=clock) as me,
    ):
        bus.register(CapabilityDescriptor(name="bank.pay", side_effects=True), pay)
        await door.refresh()
        asking = asyncio.create_task(me.call("bank.pay", (1, 0), {"input": {"hold": True}}, timeout_seconds=5))
        await pay.begun.wait()
        clock.off = hours * 3_600_000
        pay.release.set()
        response = await asking
        error = await failed(me.call("bank.pay", (1, 0), {}))

    assert response["output"] == {"runs": 1}
    assert error.code == "invalid_signature" and "clock" in error.message
    assert len(pay.runs) == 1


# ── 32: versions that do not fit ─────────────────────────────────────────────────────────


async def test_32_a_version_that_nobody_has_is_refused_with_those_that_there_are(server: NatsServer, home: str) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home) as me,
    ):
        bus.register(CapabilityDescriptor(name="bank.look", version=(1, 2)), Counted())
        await door.refresh()
        errors = [await failed(me.call("bank.look", version, {})) for version in ((1, 3), (2, 0))]

    assert [(error.code, error.details["available"]) for error in errors] == [("schema_mismatch", ["1.2"])] * 2


async def test_32_of_workers_with_different_minors_the_one_that_can_is_asked(server: NatsServer, home: str) -> None:
    old, new = Counted(), Counted()
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (one, first),
        node(server, community=home) as (two, second),
        caller(server, community=home) as me,
    ):
        one.register(CapabilityDescriptor(name="bank.look", version=(1, 0)), old)
        two.register(CapabilityDescriptor(name="bank.look", version=(1, 4)), new)
        await first.refresh()
        await second.refresh()
        for _ in range(12):
            await me.call("bank.look", (1, 4), {})

    assert (len(old.runs), len(new.runs)) == (0, 12)


async def test_32_a_capability_that_is_taken_away_is_not_found_and_one_that_comes_is(
    server: NatsServer, home: str
) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        node(server, community=home) as (bus, door),
        caller(server, community=home) as me,
    ):
        bus.register(CapabilityDescriptor(name="bank.look"), Counted())
        await me.call("bank.look", (1, 0), {})
        bus.unregister("bank.look", (1, 0))
        await door.refresh()
        error = await failed(me.call("bank.look", (1, 0), {}))
        bus.register(CapabilityDescriptor(name="bank.look"), Counted())
        await me.call("bank.look", (1, 0), {})

    assert error.code == "not_found"


# ── all of it at once ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [7])
async def test_27_30_while_workers_and_server_are_killed_every_call_has_one_true_end_and_no_payment_is_made_twice(
    tmp_path: Path, seed: int
) -> None:
    """A share of `python -m soak nats`."""
    outcomes, lies, kills, left = await town(150, seed, tmp_path)

    assert lies == []
    assert sum(outcomes.values()) == 150 and outcomes["ok"] > 0
    assert kills > 0
    assert left == set()
