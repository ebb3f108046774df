"""A network that loses, doubles, delays and reorders messages, by seed and in no time: what NATS does, at its worst.

Callers and workers are the real ones; of them only `NatsLink` is told to take its client from here.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from handrail.node.nats.link import NatsLink
from handrail.node.nats.message_parts import PartAssembler
from handrail.node.nats.nats_py_internals import subscribe_directly
from handrail.node.nats.pace import NatsPace


class InstantLoop(asyncio.SelectorEventLoop):
    """A loop that does not wait: when there is nothing to do, it is later."""

    def __init__(self) -> None:
        self._at = 0.0
        loop = self

        class Skipping(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                assert timeout is not None, "everybody waits, and for nothing"
                loop._at += max(timeout, 1e-6)  # whatever is done takes some time
                return super().select(0)

        super().__init__(Skipping())

    def time(self) -> float:
        return self._at


class Network:
    def __init__(self, dice: random.Random, strays: str) -> None:
        """`strays`: of what is sent to such subjects, a double may reach another one of its queue."""
        self.dice = dice
        self._strays = strays
        self.clients: list[FakeClient] = []

    def publish(self, sender: FakeClient, subject: str, data: bytes, reply: str) -> None:
        if sender.gone or sender.cut:
            return
        found = [each for client in self.clients if not client.gone for each in client.subscriptions]
        found = [each for each in found if _matches(each.subject, subject)]
        if not found and reply:
            nobody = Msg(_client=None, subject=reply, headers={"Status": "503"})  # type: ignore[arg-type]
            for each in (each for each in sender.subscriptions if _matches(each.subject, reply)):
                each.deliver(nobody)
        message = Msg(_client=None, subject=subject, reply=reply, data=data)  # type: ignore[arg-type]
        queued = [each for each in found if each.queue]
        self.dice.shuffle(queued)
        for copy in range(self.dice.choices((0, 1, 2), (4, 92, 4))[0]):
            one = queued[copy if self._strays in subject else 0 :][:1]
            for each in (*(each for each in found if not each.queue), *one):
                wait = self.dice.expovariate(200) if self.dice.random() < 0.95 else self.dice.random()
                asyncio.get_running_loop().call_later(wait, each.deliver, message)


class FakeSubscription:
    def __init__(self, client: FakeClient, subject: str, queue: str, heard: Callable[[Msg], Any]) -> None:
        self._client = client
        self.subject = subject
        self.queue = queue
        self._heard = heard

    def deliver(self, message: Msg) -> None:
        if self in self._client.subscriptions and not self._client.gone and not self._client.cut:
            asyncio.get_running_loop().create_task(self._heard(message))

    async def drain(self) -> None:
        self._client.subscriptions.remove(self)


class FakeClient:
    max_payload = 1_000
    is_closed = False

    def __init__(self, network: Network) -> None:
        self._network = network
        network.clients.append(self)
        self.subscriptions: list[FakeSubscription] = []
        self.gone = False
        """Killed: it says and hears nothing any more."""
        self.cut = False
        """What it says, and what is said to it, is lost; it does not know."""
        self.is_connected = True

    async def subscribe(self, subject: str, queue: str = "", cb: Any = None, **_: Any) -> FakeSubscription:
        self.subscriptions.append(FakeSubscription(self, subject, queue, cb))
        return self.subscriptions[-1]

    async def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        self._network.publish(self, subject, data, reply)

    async def flush(self) -> None: ...

    async def close(self) -> None:
        self.gone = True


class FakeLink(NatsLink):
    def __init__(self, network: Network, pace: NatsPace) -> None:
        super().__init__("nats://nowhere", pace=pace, chance=network.dice.random)
        self.client = FakeClient(network)

    async def _connect(self) -> Client:
        client: Any = self.client
        self._client = client
        self._assembler = PartAssembler(asyncio.get_running_loop().time)
        await subscribe_directly(client, f"{self.prefix}.*", self._arrived)
        self._signal.set()
        return client  # type: ignore[no-any-return]

    async def broken(self, seconds: float, *, noticed: bool) -> None:
        """Nothing comes through for a while. Whoever notices connects again."""
        self.client.cut = True
        if noticed:
            self.client.is_connected = False
            await self._disconnected()
        await asyncio.sleep(seconds)
        self.client.cut, self.client.is_connected = False, True
        if noticed:
            await self._reconnected()


def _matches(pattern: str, subject: str) -> bool:
    return pattern == subject or (pattern.endswith(".*") and pattern[:-2] == subject.rpartition(".")[0])
