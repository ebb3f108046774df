"""One connection to NATS: it comes back by itself, and everything sent to us arrives by one subscription.

It says whether something was sent, not whether it arrived: the two ends of a call find that out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import msgspec

from handrail.core.backoff import longest_wait
from handrail.core.closing import ClosedOnExit
from handrail.core.errors import BusError
from handrail.core.timeouts import time_limit
from handrail.node.nats.mailbox import Mailbox
from handrail.node.nats.message_parts import PartAssembler, split_payload
from handrail.node.nats.messages import CallerMessage, WorkerMessage, decode_worker_message, encode_nats_message
from handrail.node.nats.nats_py_internals import (
    OnMessage,
    close_client,
    flush_client,
    new_client,
    publish_directly,
    stop_task,
    subscribe_directly,
)
from handrail.node.nats.pace import NatsPace
from handrail.node.nats.server_addresses import checked_addresses, trouble_kind, unreachable_error

if TYPE_CHECKING:
    from nats.aio.client import Client, Server
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

logger = logging.getLogger(__name__)

_FIRST, _LONGEST = 0.05, 2.0
"""Seconds before a first attempt to connect again, and between later ones; half of it is chance."""
_PENDING = 16 * 1024 * 1024
_NOBODY = "503"


class NoListener:
    """Stands in place of a message: nobody listens on the subject that was asked."""


class Reconnected:
    """Stands in place of a message: what was under way when the connection broke may be lost."""


NOBODY, RECONNECTED = NoListener(), Reconnected()
Arrived = bytes | NoListener | Reconnected


Receiver = Callable[[Arrived], None]


class NatsLink(ClosedOnExit):
    """A connection that callers and workers of one process may share. Used with `async with`, or opened and closed."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        name: str = "handrail",
        pace: NatsPace = NatsPace(),
        options: Mapping[str, Any] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`options` are those of `nats.connect`: credentials, TLS, …

        Raises:
            UsageError: An address cannot be read.
        """
        self.pace = pace
        self.prefix: str = f"{(options or {}).get('inbox_prefix', '_INBOX')}.{secrets.token_hex(12)}"
        """What is sent to us goes to subjects that begin so."""
        self._servers = checked_addresses(servers)
        self._name = name
        self._options = dict(options or {})
        self._chance = chance
        self._client: Client | None = None
        self._attempt: asyncio.Task[Client] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._up: asyncio.Event | None = None
        self.listening: set[SubjectListener] = set()
        self._troubles: set[str] = set()
        """What went wrong since there was a connection: each is told once, for every attempt fails alike."""
        self._receivers: dict[str, Receiver] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = False
        self._told_of_loss = True
        """Whether the log says that there is no connection."""
        self.came_back_at: float = float("-inf")
        """When the connection was made again last, on the clock of the loop."""

    # ── its life ─────────────────────────────────────────────────────────────────────────

    async def open(self) -> Client:
        """The connection, made if there is none. Whoever asks meanwhile waits for the same attempt.

        Raises:
            BusError: No server was reached in time, or it does not let us in (`partition`).
        """
        if self._client is not None:
            return self._client
        if self._attempt is None:
            self._up = self._up or asyncio.Event()
            self._attempt = asyncio.get_running_loop().create_task(self._connect())
            self._attempt.add_done_callback(self._attempted)
        return await asyncio.shield(self._attempt)

    def _attempted(self, attempt: asyncio.Task[Client]) -> None:
        self._attempt = None
        if not attempt.cancelled():
            attempt.exception()  # whoever waits has it, and perhaps nobody does any more

    async def _connect(self) -> Client:
        if self._ended:
            raise BusError("partition", "this connection to NATS was closed; open a new one")
        client = new_client()
        from nats.errors import Error

        greeting = asyncio.get_running_loop().create_task(self._greet(client))
        try:
            done, _ = await asyncio.wait({greeting}, timeout=self.pace.connect)
            if not done:
                raise TimeoutError
            greeting.result()
        except BaseException as error:
            await stop_task(greeting)
            await close_client(client)
            match error:
                case asyncio.CancelledError():
                    raise BusError("partition", "this connection to NATS was closed; open a new one") from None
                case OSError() | Error():  # a TimeoutError is one
                    raise unreachable_error(self._troubles or {type(error).__name__}) from None
            raise
        self._client = client
        self._troubles.clear()
        self._told_of_loss = False
        self._signal.set()
        return client

    async def _greet(self, client: Client) -> None:
        await client.connect(**self._connecting())
        self._assembler = PartAssembler(asyncio.get_running_loop().time)
        await subscribe_directly(client, f"{self.prefix}.*", self._arrived)
        for each in list(self.listening):
            await each.begin(client)
        await flush_client(client)

    def _connecting(self) -> dict[str, Any]:
        return {
            "servers": self._servers,
            "name": self._name,
            "error_cb": self._went_wrong,
            "disconnected_cb": self._disconnected,
            "reconnected_cb": self._reconnected,
            "closed_cb": self._closed,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": _FIRST,
            "reconnect_to_server_handler": self._next_server,
            "ping_interval": max(1, round(self.pace.lease)),
            "pending_size": _PENDING,
            **self._options,
        }

    async def aclose(self) -> None:
        self._ended = True
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait({self._renewal})
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        client, self._client = self._client, None
        if client is not None:
            await close_client(client)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    # ── sending ──────────────────────────────────────────────────────────────────────────

    @property
    def is_up(self) -> bool:
        """Whether there is a connection, and we have been told so: what was under way is then looked after.

        nats-py knows a moment before it tells, both of a loss and of a new connection.
        """
        up = self._up is not None and self._up.is_set()
        return up and self._client is not None and self._client.is_connected

    async def wait_up(self, seconds: float) -> bool:
        """Whether there is a connection, within that time.

        Raises:
            BusError: A first one cannot be made (`partition`).
        """
        with contextlib.suppress(TimeoutError):
            async with time_limit(max(seconds, 0.0)):
                while not self.is_up:
                    client = await self.open()
                    if not client.is_connected:
                        self._signal.clear()  # it is lost, and we will be told in a moment
                    await self._signal.wait()
        return self.is_up

    async def send(self, subject: str, message: CallerMessage | WorkerMessage, reply: str = "") -> bool:
        """Send a message, in parts where it is large. False is that there is no connection now.

        Raises:
            BusError: It is too large for any number of parts (`bad_request`).
        """
        return await self.send_bytes(subject, encode_nats_message(message), reply)

    async def send_bytes(self, subject: str, payload: bytes, reply: str = "") -> bool:
        client = self._client
        if client is None or not client.is_connected:
            return False  # buffered by the library it would arrive when nobody waits any more
        from nats.errors import Error

        try:
            if len(payload) <= client.max_payload:
                if not publish_directly(client, subject, payload, reply):
                    await client.publish(subject, payload, reply)
            else:
                for part in split_payload(payload, client.max_payload):
                    await client.publish(subject, part, reply)
        except (Error, OSError) as error:
            logger.warning("a message could not be sent over NATS: %s", type(error).__name__)
            return False
        return True

    async def flush(self) -> None:
        """Waits until the server has received everything sent or subscribed so far."""
        await flush_client(await self.open())

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do it, and let nobody wait for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def fits(self, payload: bytes) -> bool:
        """Whether it is one message."""
        return self._client is None or len(payload) <= self._client.max_payload

    # ── what arrives ─────────────────────────────────────────────────────────────────────

    async def listen(self, subject: str, heard: OnMessage, *, queue: str = "") -> SubjectListener:
        """Hear what is sent to that subject, until it is left; or a share of it, with the others of the queue.

        Raises:
            BusError: There is no connection, and none can be made (`partition`).
        """
        client = await self.open()
        listening = SubjectListener(self, subject, heard, queue)
        self.listening.add(listening)
        await listening.begin(client)
        return listening

    def expect(self, token: str, receiver: Receiver) -> str:
        """What is sent to the subject that is returned goes to the receiver, until `forget`."""
        self._receivers[token] = receiver
        return f"{self.prefix}.{token}"

    def forget(self, token: str) -> None:
        self._receivers.pop(token, None)

    async def ask(self, subject: str, message: CallerMessage, seconds: float) -> WorkerMessage | NoListener | None:
        """Asks one question that has one answer; None if none came in time."""
        token = secrets.token_hex(12)
        box: Mailbox[Arrived] = Mailbox()
        reply = self.expect(token, box.put)
        try:
            if not await self.wait_up(seconds) or not await self.send(subject, message, reply):
                return None
            match await box.get(seconds):
                case bytes() as payload:
                    return read_worker_message(payload)
                case NoListener() as nobody:
                    return nobody
            return None
        finally:
            self.forget(token)

    def _arrived(self, message: Msg) -> None:
        receiver = self._receivers.get(message.subject[len(self.prefix) + 1 :])
        if receiver is None:
            return
        if is_no_listener(message):
            receiver(NOBODY)
            return
        payload = self._assembler.feed(message.data)
        if payload is not None:
            receiver(payload)

    # ── coming and going ─────────────────────────────────────────────────────────────────

    @property
    def _signal(self) -> asyncio.Event:
        assert self._up is not None  # made by `open`
        return self._up

    def _next_server(self, servers: list[Server], _: dict[str, Any]) -> tuple[Server, float]:
        """The one that was tried least, after a while that grows, and with some chance in it."""
        chosen = min(servers, key=lambda each: (each.reconnects, self._chance()))
        wait = longest_wait(chosen.reconnects + 1, _FIRST, _LONGEST)
        return chosen, wait * (0.5 + self._chance() / 2)

    async def _disconnected(self) -> None:
        self._signal.clear()
        told, self._told_of_loss = self._told_of_loss, True
        if not told and not self._ended:
            logger.warning("the connection to NATS is gone; connecting again")

    async def _closed(self) -> None:
        """nats-py gives up after some errors, as when a password was changed. We do not."""
        await self._disconnected()
        if not self._ended and self._client is not None and self._client.is_closed:
            self._client = None
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        wait = _FIRST
        while not self._ended:
            try:
                await self.open()
            except BusError:
                await asyncio.sleep(wait * (0.5 + self._chance() / 2))
                wait = min(wait * 2, _LONGEST)
            else:
                await self._reconnected()
                return

    async def _reconnected(self) -> None:
        self.came_back_at = asyncio.get_running_loop().time()
        self._told_of_loss = False
        self._troubles.clear()
        self._signal.set()
        logger.info("connected to NATS again")
        for receiver in list(self._receivers.values()):
            receiver(RECONNECTED)

    async def _went_wrong(self, error: Exception) -> None:
        kind = trouble_kind(error)
        if self.is_up or kind not in self._troubles:
            logger.warning("NATS: %s", kind)
        self._troubles.add(kind)


class SubjectListener:
    """One subject that is listened to, over whichever connection there is."""

    def __init__(self, link: NatsLink, subject: str, heard: OnMessage, queue: str) -> None:
        self._link = link
        self._subject = subject
        self._heard = heard
        self._queue = queue
        self._subscription: Subscription | None = None

    async def begin(self, client: Client) -> None:
        self._subscription = await subscribe_directly(client, self._subject, self._heard, self._queue)

    async def leave(self) -> None:
        """Stops listening, once what is on the way was heard; a server that says nothing is not waited for."""
        from nats.errors import Error

        self._link.listening.discard(self)
        if self._subscription is not None:
            with contextlib.suppress(Error, OSError):
                async with time_limit(self._link.pace.lease):
                    await self._subscription.drain()  # type: ignore[no-untyped-call]  # nats-py has no types here


def read_worker_message(payload: bytes) -> WorkerMessage | None:
    """What a worker sent; None if it cannot be read."""
    try:
        return decode_worker_message(payload)
    except msgspec.MsgspecError:
        logger.warning("a message over NATS cannot be read; it is passed over")
        return None


def is_no_listener(message: Msg) -> bool:
    """Whether this is the server saying that nobody listens."""
    return not message.data and bool(message.headers) and (message.headers or {}).get("Status") == _NOBODY
