"""Where a browser comes back to after signing in: one answer, at a port of this machine, while somebody waits.

Only the request that carries the secret `state` counts, and only the first.
Anything else that finds the port gets an error page and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import AsyncIterator, Mapping
from urllib.parse import parse_qs, urlsplit

from handrail.core.timeouts import time_limit

HOST = "127.0.0.1"
PATH = "/callback"
_HEAD = 16 * 1024
_PATIENCE = 10.0
"""Seconds in which a browser must have said what it wants."""

_PAGES = {
    200: "Thank you. You can close this window and go back to handrail.",
    400: "This is not the sign-in that handrail waits for. Start again from handrail.",
    404: "There is nothing here.",
    409: "This sign-in was used already.",
}
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 409: "Conflict"}


def redirect_address(port: int) -> str:
    return f"http://{HOST}:{port}{PATH}"


def free_port(wanted: int) -> int | None:
    """The wanted port if it can be had, any for 0; None if somebody else has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError:
            return None
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def listen_for_redirect(port: int, state: str) -> AsyncIterator[asyncio.Future[Mapping[str, str]]]:
    """Within the block the browser can come back; the future has what it brought.

    Raises:
        OSError: the port belongs to somebody else.
    """
    answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
    visits: set[asyncio.Task[None]] = set()

    def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_visit(reader, writer, state, answer))
        visits.add(task)
        task.add_done_callback(visits.discard)

    server = await asyncio.start_server(visit, HOST, port, limit=_HEAD)
    try:
        yield answer
    finally:
        server.close()
        for task in visits:
            task.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
        answer.cancel()


async def _visit(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: str, answer: asyncio.Future[Mapping[str, str]]
) -> None:
    try:
        async with time_limit(_PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            status, brought = _understood(head, state)
            if status == 200 and answer.done():
                status = 409
            try:
                writer.write(_page(status))
                await writer.drain()
            finally:
                # The page goes first: whoever waits may close the port as soon as there is an answer.
                if status == 200 and not answer.done():
                    answer.set_result(brought)
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    finally:
        writer.close()


def _understood(head: bytes, state: str) -> tuple[int, Mapping[str, str]]:
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or words[0] != "GET":
        return 400, {}
    try:
        parts = urlsplit(words[1])
        given = parse_qs(parts.query, max_num_fields=50)
    except ValueError:
        return 400, {}
    if parts.path != PATH:
        return 404, {}
    brought = {name: values[0] for name, values in given.items()}
    if not hmac.compare_digest(brought.get("state", "").encode(), state.encode()):
        return 400, {}
    return 200, brought


def _page(status: int) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>handrail</title><p>{_PAGES[status]}</p>\n".encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
