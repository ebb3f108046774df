"""Admission of requests while the node is full or ends, and of large ones.

Everybody may send `SMALL` bytes, in which a token or a signature may stand. What is larger costs memory to hold and
time to parse, so the node reads it only from callers that it has identified before: by the headers of a request, or by
the opening of a socket.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.websockets import WebSocket

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.http.request_guard import SMALL, App, Receive, Scope, Send, drain_request, receive_until_shutdown
from handrail.node.bus.request import NOBODY, Caller
from handrail.node.server.authentication import HERE, caller_of, token_of
from handrail.node.server.envelope import LOOK, PREFIX, CallEnvelope, envelope_from_headers, single_header
from handrail.node.server.json_responses import error_response
from handrail.node.server.lifecycle import AGAIN_MS, NodeLifecycle

if TYPE_CHECKING:
    from handrail.node.server.node import NodeServer

SUBPROTOCOL_TOKEN = "hntoken."
"""Begins the subprotocol in which a page, which cannot set headers on a socket, puts its token, in base64url."""
IDENTIFIED = "handrail.identified"
"""The extension of a socket's scope whose `admit` is called when its client is identified."""
_LOOKS = ("GET", "HEAD", "OPTIONS")


class CrowdLimit:
    """Turns requests away while there are too many."""

    def __init__(self, app: App, *, crowded: Callable[[], bool]) -> None:
        self._app = app
        self._crowded = crowded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and self._crowded():
            error = BusError("capacity_exceeded", "the node has no room", retry_after_ms=AGAIN_MS)
            return await refuse_admission(error, 503, scope, receive, send)
        return await self._app(scope, receive, send)


class AdmissionGate:
    """Counts those that are inside, and lets nobody in any more once the node ends."""

    def __init__(self, app: App, *, life: NodeLifecycle) -> None:
        self._app = app
        self._life = life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in _LOOKS:
            return await self._app(scope, receive, send)
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        try:
            self._life.check()
        except BusError as error:
            return await refuse_admission(error, 503, scope, receive, send)
        with self._life.request():
            if scope["type"] == "http":
                receive = receive_until_shutdown(receive, self._life.over)
            return await self._app(scope, receive, send)


async def refuse_admission(error: BusError, status: int | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request, and a socket too: before it is opened it is a request like others. No status is that of the
    error."""
    if scope["type"] == "websocket":
        await receive()
        return await error_response(error, status)(scope, receive, send)
    # Who still sends then is cut off: else it could go on, and nobody reads it.
    headers = {} if await drain_request(receive) else {"connection": "close"}
    return await error_response(error, status, headers)(scope, receive, send)


async def refusal_of_large_body(server: NodeServer, scope: Scope) -> App | None:
    """What to answer in place of reading a large body; None if the headers identify who sends it.

    A signature is of the whole body: it is checked when the body is there, and before it is parsed. Here it is enough
    that the node knows the sender that the request names.
    """
    try:
        await _identify(server, *_claimed(server, Headers(scope=scope)))
    except BusError as error:
        return partial(refuse_admission, error, None)
    return None


async def admit_large_messages(server: NodeServer, websocket: WebSocket) -> None:
    """Let a socket send large messages if its opening identifies it.

    What is wrong with the opening is not said here: the first message says who calls too, and is answered with it.
    """
    try:
        caller, token = _opened_by(server, websocket)
        await identify_sender(server, websocket, caller, token)
    except BusError:
        return


async def identify_sender(server: NodeServer, websocket: WebSocket, caller: Caller, token: Secret | None) -> None:
    """Let a socket send large messages, now that its caller has said who it is.

    Raises:
        BusError: The caller is not known here, or its token is not good.
    """
    await _identify(server, caller, token)
    extension = websocket.scope.get("extensions", {}).get(IDENTIFIED)
    if extension is not None:
        extension["admit"]()


async def _identify(server: NodeServer, caller: Caller, token: Secret | None) -> None:
    if caller == HERE:
        return
    if server.identify is not None and (token is not None or caller != NOBODY):
        found = await server.identify(caller, token)
        if token is not None or found.trust != "unknown":
            return
    raise BusError(
        "unauthorized",
        f"more than {SMALL:,} bytes are read only from callers that this node knows;"
        " send a token as Authorization: Bearer, or the signature in headers",
        outcome="forbidden",
    )


def _claimed(server: NodeServer, headers: Headers) -> tuple[Caller, Secret | None]:
    """The sender that a request names, and its token; nothing of it is checked."""
    token = token_of(headers)
    sender = single_header(headers, f"{PREFIX}From")
    if sender and single_header(headers, f"{PREFIX}Signature") and server.check is not None:
        return Caller(principal=Principal(sender)), token
    return (HERE if token is None and not server.token_required else NOBODY), token


def _opened_by(server: NodeServer, websocket: WebSocket) -> tuple[Caller, Secret | None]:
    said = [each for each in websocket.scope["subprotocols"] if each.startswith(SUBPROTOCOL_TOKEN)]
    envelope = envelope_from_headers(websocket.headers)
    if envelope is not None and envelope.signature and envelope.capability != LOOK:
        raise BusError("invalid_signature", f"to open a socket, sign a call of {LOOK!r}", outcome="forbidden")
    if said and envelope is None:
        envelope = CallEnvelope(capability=LOOK, token=_decoded(said[0]))
    return caller_of(server, websocket.headers, envelope)


def _decoded(subprotocol: str) -> str:
    text = subprotocol.removeprefix(SUBPROTOCOL_TOKEN)
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        raise BusError("token_invalid", "the token in the subprotocol is not base64url", outcome="forbidden") from None
