"""How a connection to another node fails, what an answer that is no success means, and when to try again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from handrail.core.backoff import longest_wait
from handrail.core.errors import BusError, Outcome
from handrail.http import BadHttpAnswer, HttpAddress, HttpAnswer, HttpClient, HttpNotConnected, request_head
from handrail.node.bus.wire_codes import WIRE

_BY_STATUS = {413: "bad_request", 415: "bad_request", 403: "unauthorized", 421: "bad_request", 500: "internal_error"}
_BY_STATUS |= {wire.http: code for code, wire in reversed(WIRE.items()) if wire.http not in _BY_STATUS}
PROXIES = frozenset({502, 504})
"""What something in between says when it lost the node: nobody knows what became of the request."""
NOT_NOW = frozenset({"capacity_exceeded", "rate_limited", "partition"})
"""What a node says that does not let a call in for the moment."""
_AT_THE_DOOR = frozenset(
    {"unauthorized", "invalid_signature", "revoked", "not_federated", "federation_forbidden", "not_found"}
    | {code for code in WIRE if code.startswith("token_")}
)
LONGEST = 60.0
_FIRST = 0.25


class LinkLost(Exception):
    """The connection is gone, and the call may go on without us."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.sent = sent
        """Whether the other node may have got what was asked."""


class SocketsUnsupported(Exception):
    """This node does not stream that way: by server-sent events it may."""


async def ask_node(
    client: HttpClient, method: str, address: HttpAddress, headers: Mapping[str, str], payload: bytes = b""
) -> HttpAnswer:
    """Send a request, and wait for the head of its answer.

    Raises:
        LinkLost: There is none.
    """
    try:
        return await client.ask(address, request_head(method, address, headers), payload)
    except HttpNotConnected as error:
        raise LinkLost(str(error), sent=False) from error
    except (OSError, BadHttpAnswer) as error:
        raise LinkLost(str(error) or type(error).__name__) from error


async def read_piece(answer: HttpAnswer) -> bytes:
    """What has come of the body since; nothing at its end.

    Raises:
        LinkLost: It broke off.
    """
    try:
        return await answer.read()
    except (OSError, BadHttpAnswer) as error:
        raise LinkLost(str(error) or type(error).__name__) from error


async def read_answer(answer: HttpAnswer, most: int) -> bytes:
    """The whole body, or, of one that is longer than `most` bytes, somewhat more than those. The answer is closed.

    Raises:
        LinkLost: It broke off, or it is not the node that answered.
    """
    body = bytearray()
    try:
        while len(body) <= most and (piece := await read_piece(answer)):
            body += piece
    finally:
        answer.close()
    if answer.status in PROXIES:
        raise LinkLost(f"something before the node answered {answer.status}")
    return bytes(body)


def error_of_answer(status: int, body: bytes) -> BusError:
    """The error that a node answered; or, from whoever else answered, what the status stands for."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("error"), str):
        found = BusError.from_dict(said)
        return found if found.code in WIRE else BusError("internal_error", found.message, outcome=found.outcome)
    code = _BY_STATUS.get(status, "internal_error" if status >= 500 else "bad_request")
    # A node says what became of the call. Who else fails in answering may have passed it on.
    outcome: Outcome = "in_doubt" if code == "internal_error" else "failed"
    return BusError(code, f"the node answered {status} and said no more", outcome=outcome)


def is_momentary_refusal(error: BusError) -> bool:
    """Whether a later attempt was not let in for the moment, which says nothing about the one before."""
    return error.code in NOT_NOW and error.outcome != "in_doubt" and not error.details.get("begun")


def in_doubt_error(error: BusError) -> BusError:
    """What a later attempt was refused with, at the door: the one before may have been let in, and done."""
    if error.code not in _AT_THE_DOOR or error.outcome == "in_doubt":
        return error
    why = f"the call was put before, and whether it was done is not known; asked again, the node says: {error.message}"
    return BusError(error.code, why, outcome="in_doubt", retry_after_ms=error.retry_after_ms)


class HttpBackoff:
    """How long to wait before asking again: up to ¼, 1, 2, 4 … 60 seconds, so that many who lost one node part.

    The first try is early: a node lets a call go on without its caller for less than a second.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._tries = 0

    def delay(self) -> float:
        most = longest_wait(self._tries, 1.0, LONGEST) if self._tries else _FIRST
        self._tries += 1
        return self._chance() * most

    def reset(self) -> None:
        """Something came: whatever breaks next breaks for the first time."""
        self._tries = 0
