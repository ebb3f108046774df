"""What operators and other nodes look at: what there is here, how it goes, and whether it is up.

Whether it is up is told to everybody, and so is who it is; the rest to those who say who they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from handrail.core.canonical import canonical_json
from handrail.core.context import Context
from handrail.core.errors import BusError, JournalError
from handrail.node.bus.descriptor import is_trusted_enough
from handrail.node.bus.interfaces import CapabilityOffer
from handrail.node.bus.request import Caller
from handrail.node.server.authentication import caller_of
from handrail.node.server.content_negotiation import JSON, preferred_media_type
from handrail.node.server.envelope import LOOK, envelope_from_headers
from handrail.node.server.json_responses import PLAIN, json_response
from handrail.node.server.openapi import openapi_document

if TYPE_CHECKING:
    from handrail.node.server.node import NodeServer

logger = logging.getLogger(__name__)

PROMETHEUS = "text/plain"
TRACES = 10_000


async def health(server: NodeServer, request: Request) -> Response:
    return json_response({"status": "ok"})


async def ready(server: NodeServer, request: Request) -> Response:
    phase = server.life.phase
    if phase != "ready":
        raise BusError("partition", f"the node is {phase}", retry_after_ms=1_000)
    if server.recording is not None:
        try:
            await server.recording()
        except JournalError as error:
            logger.warning("the node is not ready: %s", error)
            raise BusError("partition", "the node cannot keep its record", retry_after_ms=10_000) from error
    return json_response({"status": phase})


async def manifest(server: NodeServer, request: Request) -> Response:
    """Describes this node to everybody; and what it offers, to those who may see it."""
    said: dict[str, Any] = msgspec.to_builtins(server.node)
    if await _may_look(server, request):
        said["capabilities"] = [_listed(offer) for offer in await server.bus.discover() if offer.local]
    if server.sign is not None:
        said["signature"] = server.sign(canonical_json(said))
    return json_response(said)


async def capabilities(server: NodeServer, caller: Caller, request: Request) -> Response:
    scopes = Context(principal=caller.principal)
    offers = [
        offer
        for offer in await server.bus.discover()
        if is_trusted_enough(caller.trust, offer.descriptor.trust_required)
        and scopes.allows(offer.descriptor.full_name)
    ]
    return json_response({"node_id": server.node.node_id, "capabilities": [_listed(offer) for offer in offers]})


async def metrics(server: NodeServer, caller: Caller, request: Request) -> Response:
    return await numbers(server, request)


async def numbers(server: NodeServer, request: Request) -> Response:
    """Gives metrics for Prometheus to whoever may read them here."""
    text = server.metrics() if server.metrics is not None else server.counted.text()
    response = Response(text, media_type="text/plain; version=0.0.4")
    response.raw_headers.extend(PLAIN)
    return response


async def traces(server: NodeServer, caller: Caller, request: Request) -> Response:
    said = request.query_params.getlist("n") or ["50"]
    if len(said) != 1 or not (said[0].isascii() and said[0].isdecimal() and len(said[0]) < 7):
        raise BusError("bad_request", "n is how many traces are wanted, a number")
    wanted = int(said[0])
    if not 1 <= wanted <= TRACES:
        raise BusError("bad_request", f"n is between 1 and {TRACES:,}")
    return json_response({"traces": server.bus.recent_traces(wanted)})


async def telemetry(server: NodeServer, caller: Caller, request: Request) -> Response:
    assert server.telemetry is not None  # else it has no route
    return json_response({"tools": await asyncio.to_thread(server.telemetry)})  # it may have a journal to read


async def openapi(server: NodeServer, caller: Caller, request: Request) -> Response:
    return json_response(openapi_document(server))


class InfoRoute(NamedTuple):
    endpoint: Callable[[NodeServer, Caller, Request], Awaitable[Response]]
    needs: str | None = None
    """What a token must be good for; None is any token."""
    media: str = JSON


OPEN: dict[str, Callable[[NodeServer, Request], Awaitable[Response]]] = {
    "/health": health,
    "/ready": ready,
    "/manifest": manifest,
}
LOOKS: dict[str, InfoRoute] = {
    "/capabilities": InfoRoute(capabilities),
    "/openapi.json": InfoRoute(openapi),
    "/metrics": InfoRoute(metrics, "node.metrics@1.0", PROMETHEUS),
    "/trace/recent": InfoRoute(traces, "node.trace@1.0"),
    "/telemetry": InfoRoute(telemetry, "node.telemetry@1.0"),
}


def info_paths(server: NodeServer) -> list[str]:
    """The pages that this node has."""
    return [path for path, page in LOOKS.items() if page.endpoint is not telemetry or server.telemetry is not None]


async def answer_info_request(server: NodeServer, path: str, request: Request) -> Response:
    """Show one of the pages that not everybody sees.

    Raises:
        BusError: Whoever asks may not see it.
        HTTPException: The client wants it in another form.
    """
    page = LOOKS[path]
    preferred_media_type(request.headers, page.media)
    caller = await identify_viewer(server, request)
    if page.needs is not None and not is_trusted_enough(caller.trust, "member"):
        raise BusError("unauthorized", "this is shown to members", outcome="forbidden")
    if page.needs is not None and not Context(principal=caller.principal).allows(page.needs):
        raise BusError("token_scope_insufficient", f"the token is not for {page.needs!r}", outcome="forbidden")
    return await page.endpoint(server, caller, request)


async def identify_viewer(server: NodeServer, request: Request) -> Caller:
    """Identifies who reads.

    Raises:
        BusError: Nothing says who it is, or what says so is wrong.
    """
    envelope = envelope_from_headers(request.headers)
    if envelope is not None and envelope.signature and envelope.capability != LOOK:
        raise BusError("invalid_signature", f"to look at a node, sign a call of {LOOK!r}", outcome="forbidden")
    caller, token = caller_of(server, request.headers, envelope)
    if server.identify is not None:
        return await server.identify(caller, token)
    if token is not None:
        raise BusError("token_invalid", "this node knows no tokens", outcome="forbidden")
    return caller


async def _may_look(server: NodeServer, request: Request) -> bool:
    try:
        await identify_viewer(server, request)
    except BusError as error:
        if error.code == "unauthorized":
            return False
        raise
    return True


def _listed(offer: CapabilityOffer) -> dict[str, Any]:
    return {
        **offer.descriptor.to_dict(),
        "schema_hash": offer.schema_hash,
        "node_id": offer.node_id,
        "local": offer.local,
        "in_flight": offer.in_flight,
    }
