"""What nats-py needs around it: addresses that are checked, ends that are sure, errors that tell no secret."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from handrail.core.errors import BusError, UsageError

if TYPE_CHECKING:
    from nats.aio.client import Client

_SCHEMES = ("nats", "tls", "ws", "wss")
_REFUSED = "it does not let us in"
_PLAIN = "NotEncrypted"
_ASKED = "it asks for a certificate of ours"
_ASKING = ("certificate required", "certificate_required", "bad certificate", "unknown ca")
"""What a server says, by TLS, of a client whose certificate is missing or not good."""
_PATIENCE = 0.05
"""Seconds before a task that did not hear is told once more."""


def split_addresses(text: str) -> tuple[str, ...]:
    """The addresses in a text that separates them by commas. A password may have a comma: then it is one address."""
    parts = tuple(part.strip() for part in text.split(","))
    return parts if all(map(_is_usable, parts)) else (text,)


def checked_addresses(servers: str | Sequence[str]) -> list[str]:
    """The addresses of servers.

    Raises:
        UsageError: One of them is none. It is not shown: it may hold a password.
    """
    addresses = [servers] if isinstance(servers, str) else list(servers)
    if not addresses or not all(map(_is_usable, addresses)):
        raise UsageError("the address of the NATS server cannot be read; write nats://HOST:4222, or tls://HOST:4222")
    return addresses


def _is_usable(address: str) -> bool:
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def trouble_kind(error: Exception) -> str:
    """What went wrong, by its kind: the text of some errors has the address of the server, password included."""
    said = str(error).lower()
    if any(each in said for each in _ASKING):
        return _ASKED
    return _REFUSED if "authorization" in said or "authentication" in said else type(error).__name__


def unreachable_error(troubles: set[str]) -> BusError:
    if _REFUSED in troubles:
        return BusError("partition", "the NATS server does not let us in; check the user and password, or the key")
    if _ASKED in troubles:
        why = "the NATS server asks for a certificate, and was shown none that it takes"
        return BusError("partition", f"{why}; name one that it takes by nats_cert and nats_key under [node]")
    if _PLAIN in troubles:
        why = "the NATS server does not encrypt, and tls:// in its address, or a file for TLS, says that it has to"
        return BusError("partition", f"{why}; nothing was sent to it: give the server its certificate")
    if any(each.startswith("SSLCert") for each in troubles):
        why = "the certificate of the NATS server is signed by nobody that is known here"
        return BusError("partition", f"{why}; name its authority's file by nats_ca under [node], or in SSL_CERT_FILE")
    return BusError("partition", f"no NATS server can be reached: {', '.join(sorted(troubles))}")


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
    """Until the server has everything that was sent and subscribed to before."""
    # nats-py writes its PING past what still waits to be written: only the second one comes after it.
    await client.flush()
    await client.flush()
