"""Authenticates a request: the signer of the call, and the token. The bus decides what they may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.request import NOBODY, Caller
from handrail.node.server.envelope import LOOK, PREFIX, CallEnvelope, single_header
from handrail.node.server.retry_checks import may_run_again

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from handrail.node.server.node import NodeServer

HERE = Caller(principal=Principal("loopback"), trust="trusted")
"""The caller of a node that asks nobody for a token."""
TOKEN = f"{PREFIX}Token"
_BEGIN = "hntoken://"
_LONGEST = 8_192


def caller_of(
    server: NodeServer, headers: Headers, envelope: CallEnvelope | None = None, signed: bytes = b""
) -> tuple[Caller, Secret | None]:
    """The caller and its token. `signed` are the bytes of the body that a signature is of.

    Raises:
        BusError: The signature is wrong, or nothing says who it is and this node wants to know.
    """
    token = token_of(headers, envelope)
    signer = _signer(server, envelope, signed)
    if signer is not None:
        return replace(signer, token=token), token
    if token is not None:
        return replace(NOBODY, token=token), token
    if server.token_required:
        raise BusError(
            "unauthorized",
            f"this node requires a token; send it as {TOKEN} or as Authorization: Bearer",
            outcome="forbidden",
        )
    return HERE, None


def token_of(headers: Headers, envelope: CallEnvelope | None = None) -> Secret | None:
    """The token of a request, wherever it stands.

    Raises:
        BusError: There are two that differ, or it is nothing like a token (`token_invalid`).
    """
    scheme, _, bearer = (single_header(headers, "authorization") or "").partition(" ")
    said = (
        single_header(headers, TOKEN),
        single_header(headers, "x-api-key"),  # as Anthropic's clients send it
        bearer if scheme.lower() == "bearer" else None,
        envelope.token if envelope is not None else None,
    )
    found = {each.strip() for each in said if each and each.strip()}
    if len(found) > 1:
        raise BusError("token_invalid", "the request holds two tokens that differ; send one", outcome="forbidden")
    if not found:
        return None
    token = found.pop()
    if not token.startswith(_BEGIN) or len(token) > _LONGEST:
        raise BusError("token_invalid", f"this is not a token; a token begins with {_BEGIN}", outcome="forbidden")
    return Secret(token)


def _signer(server: NodeServer, envelope: CallEnvelope | None, signed: bytes) -> Caller | None:
    if envelope is None or not envelope.signature:
        return None
    if server.check is None:
        raise BusError("invalid_signature", "this node takes no signatures; send a token", outcome="forbidden")
    signer = server.check.authenticate(envelope.fields(), signed)
    if not envelope.to and envelope.capability != LOOK and not may_run_again(server.bus, envelope):
        raise BusError(
            "invalid_signature",
            "a call that changes something is signed for one node, so that no other can be shown it; sign `to`,"
            f" {server.node.node_id}",
            outcome="forbidden",
        )
    return signer
