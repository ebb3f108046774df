"""The one place that relies on names which nats-py keeps to itself, and on what it does badly.

| name | what for | without it |
|---|---|---|
| `Client._connect_command`, `_server_info`, `_current_server` | nothing in clear where TLS is wanted | no connection |
| `Subscription._pending_queue` | a message is heard as it is read, not in a task | nats-py's own way |
| `Client._pending`, `_transport._io_writer` | a message is written at once, not in a task | nats-py's own way |
| `Client._transport._bare_io_writer` | closes the socket also where closing the client failed | it stays open |

`pyproject.toml` holds nats-py below the first release that was not tried; `docs/design/dependencies.md` says what would
let us do without, and `tests/node/nats/test_nats_py_internals.py` tells when a name is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from handrail.core.errors import MissingExtra

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

logger = logging.getLogger(__name__)

NOT_ENCRYPTED = "NotEncrypted"
_PATIENCE = 0.05
"""Seconds before a task that did not hear is told once more."""

OnMessage = Callable[["Msg"], None]
"""Takes a message. It only reads it and hands it on."""


def new_client() -> Client:
    """A client that says nothing without TLS where TLS is wanted, by its address or by files that only TLS can use.

    nats-py encrypts only what the server says has to be encrypted, and whoever is in between can say that nothing has.

    Raises:
        MissingExtra: nats-py is not installed.
    """
    try:
        from nats.aio.client import Client
        from nats.errors import Error
    except ImportError as error:
        raise MissingExtra("calls over NATS", "nats") from error
    client = Client()
    command = client._connect_command

    def checked() -> bytes:
        """The first thing that is said, with the password: afterwards it would be too late."""
        scheme = "" if client._current_server is None else client._current_server.uri.scheme
        is_wanted = scheme == "tls" or (scheme != "wss" and "tls" in client.options)
        if is_wanted and not (client._server_info.get("tls_required") or client.options["tls_handshake_first"]):
            raise Error(NOT_ENCRYPTED)
        return command()

    client._connect_command = checked  # type: ignore[method-assign]
    return client


class _DirectQueue(asyncio.Queue["Msg"]):
    """A queue in which nothing ever waits."""

    def __init__(self, heard: OnMessage) -> None:
        super().__init__()
        self._heard = heard

    def put_nowait(self, item: Msg) -> None:
        try:
            self._heard(item)
        except Exception:  # here it would end the connection, and with it every other call
            logger.exception("a message over NATS could not be taken")


async def subscribe_directly(client: Client, subject: str, heard: OnMessage, queue: str = "") -> Any:
    """A subscription whose messages are heard as they are read."""

    async def later(message: Msg) -> None:
        heard(message)

    # Without a limit: it counts what waits in its own queue, and nothing does.
    found = await client.subscribe(subject, queue=queue, cb=later, pending_bytes_limit=0)
    if isinstance(getattr(found, "_pending_queue", None), asyncio.Queue):
        found._pending_queue = _DirectQueue(heard)
    return found


def publish_directly(client: Any, subject: str, payload: bytes, reply: str = "") -> bool:
    """Send a message at once. False: something waits to be written before it, and it has to go the usual way."""
    try:
        transport = client._transport
        if client._pending or transport._io_writer.transport.get_write_buffer_size():
            return False
        transport.write(b"PUB %b %d\r\n%b\r\n" % (_subjects(subject, reply), len(payload), payload))
    except (AttributeError, ValueError):
        return False
    return True


def _subjects(subject: str, reply: str) -> bytes:
    """Both subjects as they stand in a PUB line.

    Raises:
        ValueError: One of them would be read as something else than a subject.
    """
    words = f"{subject} {reply}" if reply else subject
    if not words.isprintable() or words.count(" ") != bool(reply) or not subject:
        raise ValueError(words)
    return words.encode()


async def stop_task(task: asyncio.Task[None]) -> None:
    """End it. nats-py loses a cancellation now and then, and would go on connecting for ever."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_PATIENCE)


async def close_client(client: Client) -> None:
    try:
        with contextlib.suppress(Exception):  # whatever it says, it is thrown away
            await client.close()
    finally:
        # Where nats-py fails or is cancelled on the way, it calls itself closed and leaves its connection open.
        writer = getattr(getattr(client, "_transport", None), "_bare_io_writer", None)
        if writer is not None and not writer.is_closing():
            writer.transport.abort()


async def flush_client(client: Client) -> None:
    """Waits until the server has received everything sent or subscribed so far."""
    # nats-py writes its PING past what still waits to be written: only the second one comes after it.
    await client.flush()
    await client.flush()
