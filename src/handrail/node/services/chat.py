"""Messages from one to one: kept here, handed on as soon as the recipient can be reached, and never twice.

A recipient is a node, or whoever listens on this one. A message to another node goes to
its `chat.deliver`, signed by this node: there it is from this node, which says for whom.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal, get_args

from handrail.core.errors import BusError
from handrail.core.tasks import run_to_completion
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus, Handler, Predicate
from handrail.node.bus.request import CallTerms, RouteRequest
from handrail.node.services import schema_parts as shape
from handrail.node.services.event_log import EventDraft, EventLog, LoggedEvent, author_name, wire_time

logger = logging.getLogger(__name__)

Delivered = Literal["direct", "forwarded", "queued"]
Listener = Callable[[dict[str, Any]], Awaitable[None]]
"""Is told of a message, in the shape of `chat.history`. If it fails, the message stays queued."""

_KIND = "chat.message"
_AT_A_TIME = 1000
"""Messages that are looked at together when those that wait are tried again."""
_ID = shape.text(1, 100)
_TEXT = shape.text(0, 20_000)
_ATTACHMENTS = shape.array(shape.closed_object({"cid": shape.CID, "name": shape.text(0, 200)}, ["cid"]), maxItems=16)
_RECEIPT = shape.full_object(
    {"event_id": _ID, "lamport": shape.LAMPORT, "delivered": shape.choice(*get_args(Delivered))}
)
_MESSAGE = shape.closed_object(
    {
        "event_id": _ID,
        "lamport": shape.LAMPORT,
        "from": shape.NODE,
        "on_behalf_of": {
            **shape.NODE,
            "description": "On whose behalf the sender says that it sent this. Not verified.",
        },
        "to": shape.NODE,
        "body": _TEXT,
        "attachments": _ATTACHMENTS,
        "created_at": shape.TIME,
        "delivered_at": shape.TIME,
    },
    ["event_id", "lamport", "from", "to", "body", "attachments", "created_at"],
)

SEND = CapabilityDescriptor(
    name="chat.send",
    max_concurrent=64,
    description="Send a message to one recipient, in your name.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {"client_id": shape.CLIENT_ID, "recipient": shape.NODE, "body": _TEXT, "attachments": _ATTACHMENTS},
            ["recipient", "body"],
        )
    ),
    response_schema=_RECEIPT,
    side_effects=True,
    idempotent=True,
)
HISTORY = CapabilityDescriptor(
    name="chat.history",
    max_concurrent=64,
    description="List your messages, sent and received: the newest, or those after a number.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {
                "peer": {**shape.NODE, "description": "Only messages to and from this node."},
                "since_lamport": shape.LAMPORT,
                "limit": shape.whole(1, 500, default=200),
            }
        )
    ),
    response_schema=shape.full_object({"messages": shape.array(_MESSAGE)}),
    trust_required="self",
    untrusted=True,
)
_DELIVER_INPUT = shape.closed_object(
    {"event_id": _ID, "lamport": shape.LAMPORT, "on_behalf_of": shape.NODE, "body": _TEXT, "attachments": _ATTACHMENTS},
    ["event_id", "lamport", "body"],
)


def _deliver_descriptor(node_id: str) -> CapabilityDescriptor:
    return CapabilityDescriptor(
        name="chat.deliver",
        max_concurrent=64,
        description="Accept a message from another node for a recipient on this one.",
        request_schema=shape.request_schema_of(_DELIVER_INPUT, shape.full_object({"recipient": shape.NODE})),
        response_schema=_RECEIPT,
        params={"recipient": node_id},
        side_effects=True,
        idempotent=True,
    )


class ChatService:
    """`chat.send`, `chat.history` and `chat.deliver` over a log. Without a bus nothing is handed to other nodes."""

    def __init__(self, log: EventLog, *, node_id: str = "self", bus: Bus | None = None) -> None:
        self._log = log
        self._node_id = node_id
        self._bus = bus
        self._listeners: dict[str, list[Listener]] = {}
        self._under_way: set[str] = set()

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler, Predicate]]:
        yield SEND, self.send, _any
        yield HISTORY, self.history, _any
        yield _deliver_descriptor(self._node_id), self.deliver, lambda params: self._is_here(params.get("recipient"))

    async def listen(self, recipient: str, listener: Listener) -> Callable[[], None]:
        """Tell somebody on this node of their messages, those that wait included. Returns how to stop it."""
        listeners = self._listeners.setdefault(recipient, [])
        listeners.append(listener)
        await self.flush(recipient)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)
            if not listeners and self._listeners.get(recipient) is listeners:
                del self._listeners[recipient]

        return stop

    async def flush(self, recipient: str | None = None) -> int:
        """Try again with what is queued, for one recipient or for all; says how many messages went."""
        where, values = "kind = ? AND state = 'queued'", [_KIND]
        if recipient is not None:
            where, values = f"{where} AND recipient = ?", [*values, recipient]
        went, last, more = 0, 0, True
        while more:
            found = f"{where} AND lamport > ?"
            waiting, more = await self._log.find(found, [*values, last], newest=False, limit=_AT_A_TIME)
            went += len([event for event in waiting if await self._hand_on(event) != "queued"])
            last = waiting[-1].lamport if waiting else last
        return went

    async def send(self, request: RouteRequest) -> dict[str, Any]:
        given = request.input
        draft = self._draft(request, given["recipient"], given.get("client_id") or request.call_id)
        return await self._kept(draft, request)

    async def deliver(self, request: RouteRequest) -> dict[str, Any]:
        given, recipient = request.input, request.params["recipient"]
        if not self._is_here(recipient):
            raise BusError("not_found", f"{recipient[:80]!r} is not on this node")
        draft = self._draft(request, recipient, given["event_id"], heard=given["lamport"])
        if "on_behalf_of" in given:
            draft.content["on_behalf_of"] = given["on_behalf_of"]
        return await self._kept(draft, None)

    def _draft(self, request: RouteRequest, recipient: str, client_id: str, heard: int = 0) -> EventDraft:
        given, author = request.input, author_name(request.caller, self._node_id)
        content = {"body": given["body"], "attachments": given.get("attachments", [])}
        return EventDraft(_KIND, author, client_id, content, recipient, state="queued", heard=heard)

    async def history(self, request: RouteRequest) -> dict[str, Any]:
        asked, me = request.input, author_name(request.caller, self._node_id)
        where, values = "kind = ? AND (author = ? OR recipient = ?)", [_KIND, me, me]
        if "peer" in asked:
            where, values = f"{where} AND (author = ? OR recipient = ?)", [*values, asked["peer"], asked["peer"]]
        if (since := asked.get("since_lamport")) is not None:
            where, values = f"{where} AND lamport > ?", [*values, since]
        found, _ = await self._log.find(where, values, newest=since is None, limit=int(asked.get("limit", 200)))
        for event in found:
            if event.recipient == me and event.state == "queued":
                await self._log.settle(event.id, "direct")
        return {"output": {"messages": [_shown(event) for event in found]}}

    async def _kept(self, draft: EventDraft, request: RouteRequest | None) -> dict[str, Any]:
        event, _ = await self._log.add(draft)
        state = await self._hand_on(event, request) if event.state == "queued" else event.state
        return {"output": {"event_id": event.id, "lamport": event.lamport, "delivered": state}}

    async def _hand_on(self, event: LoggedEvent, request: RouteRequest | None = None) -> Delivered:
        """Try to get a message to its recipient. Two tries at once are one."""
        if event.id in self._under_way:
            return "queued"
        self._under_way.add(event.id)
        try:
            state = await self._tell_listeners(event) or await self._forwarded(event, request)
            if state is not None:
                await run_to_completion(self._log.settle(event.id, state))  # else it would be handed on again
            return state or "queued"
        finally:
            self._under_way.discard(event.id)

    async def _tell_listeners(self, event: LoggedEvent) -> Delivered | None:
        told: Delivered | None = None
        for listener in list(self._listeners.get(event.recipient or "", ())):
            try:
                await listener(_shown(event))
                told = "direct"
            except Exception:
                logger.exception("a listener failed on message %s", event.id)
        return told

    async def _forwarded(self, event: LoggedEvent, request: RouteRequest | None) -> Delivered | None:
        if self._bus is None or event.recipient == self._node_id or not await self._reachable(event.recipient):
            return None
        sent = {"event_id": event.id, "lamport": event.lamport, **event.content}
        sent |= {} if event.author == self._node_id else {"on_behalf_of": event.author}
        message = {"params": {"recipient": event.recipient}, "input": sent}
        # The node itself hands it on: the caller's right is to send, not to act on the other node.
        passed = {} if request is None else request.passed_on()
        terms = CallTerms.of(passed)
        own = CallTerms(deadline=terms.deadline, depth=terms.depth, trace=terms.trace)
        try:
            await self._bus.call("chat.deliver", (1, 0), message, terms=own)
        except BusError as error:
            logger.warning("message %s stays queued: %s", event.id, error.code)
            return None
        return "forwarded"

    def _is_here(self, recipient: str | None) -> bool:
        return recipient == self._node_id or bool(self._listeners.get(recipient or ""))

    async def _reachable(self, recipient: str | None) -> bool:
        assert self._bus is not None
        offers = await self._bus.discover("chat.deliver")
        return any(not offer.local and offer.descriptor.params.get("recipient") == recipient for offer in offers)


def _any(params: Mapping[str, Any]) -> bool:
    return True


def _shown(event: LoggedEvent) -> dict[str, Any]:
    delivered = {} if event.state == "queued" or event.changed is None else {"delivered_at": wire_time(event.changed)}
    return {
        "event_id": event.id,
        "lamport": event.lamport,
        "from": event.author,
        "to": event.recipient,
        **event.content,
        "created_at": wire_time(event.created),
        **delivered,
    }
