"""The board of a community: who offers and who needs what. Posts end by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services import schema_parts as shape
from handrail.node.services.event_log import EventDraft, EventLog, LoggedEvent, author_name, wire_time

_KIND = "market.post"
_DAY = 86_400
_CATEGORY = shape.choice("offer", "request", "info", "emergency")
_TAGS = shape.array(shape.text(1, 50), maxItems=20, uniqueItems=True)
_LOCATION = shape.closed_object(
    {
        "lat": {"type": "number", "minimum": -90, "maximum": 90},
        "lng": {"type": "number", "minimum": -180, "maximum": 180},
        "label": shape.text(0, 200),
    },
    minProperties=1,
)
_CONTENT = {
    "category": _CATEGORY,
    "title": shape.text(1, 200),
    "body": shape.text(0, 10_000),
    "location": _LOCATION,
    "tags": _TAGS,
}
_POST_FIELDS = {"event_id": shape.TEXT, "lamport": shape.LAMPORT, "author": shape.NODE, **_CONTENT}
_POST_FIELDS |= {"created_at": shape.TIME, "expires_at": shape.TIME}
_POST = shape.closed_object(_POST_FIELDS, [name for name in _POST_FIELDS if name != "location"])

LIST = CapabilityDescriptor(
    name="market.list",
    max_concurrent=64,
    description="List posts of the marketplace that have not expired: the newest, or those after a number.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {
                "category": _CATEGORY,
                "tags": {**_TAGS, "description": "Only posts that have all of these."},
                "since_lamport": {**shape.LAMPORT, "description": "Only posts after this number, oldest first."},
                "limit": shape.whole(1, 500, default=50),
            }
        )
    ),
    response_schema=shape.full_object(
        {
            "posts": shape.array(_POST),
            "max_lamport": {**shape.LAMPORT, "description": "Pass it as since_lamport to continue from here."},
        }
    ),
    untrusted=True,
)
POST = CapabilityDescriptor(
    name="market.post",
    max_concurrent=64,
    description="Publish a post on the marketplace, in your name. It expires after `ttl_seconds`.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {"client_id": shape.CLIENT_ID, **_CONTENT, "ttl_seconds": shape.whole(1, 30 * _DAY, default=7 * _DAY)},
            ["category", "title", "body"],
        )
    ),
    response_schema=shape.full_object({"event_id": shape.TEXT, "lamport": shape.LAMPORT}),
    side_effects=True,
    idempotent=True,
)


class MarketService:
    """`market.list` and `market.post` over a log. The author is always the caller, whatever the post says."""

    def __init__(self, log: EventLog, *, node_id: str = "self") -> None:
        self._log = log
        self._node_id = node_id

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield LIST, self.list
        yield POST, self.post

    async def post(self, request: RouteRequest) -> dict[str, Any]:
        given = request.input
        draft = EventDraft(
            kind=_KIND,
            author=author_name(request.caller, self._node_id),
            client_id=given.get("client_id") or request.call_id,
            content={key: given[key] for key in _CONTENT if key in given},
            lives_ms=int(given.get("ttl_seconds", 7 * _DAY)) * 1000,
        )
        event, _ = await self._log.add(draft)
        return {"output": {"event_id": event.id, "lamport": event.lamport}}

    async def list(self, request: RouteRequest) -> dict[str, Any]:
        asked = request.input
        since, tags = asked.get("since_lamport"), asked.get("tags", [])
        where, values = ["kind = ?"], [_KIND]
        if since is not None:
            where, values = [*where, "lamport > ?"], [*values, since]
        if "category" in asked:
            where, values = [*where, "json_extract(content, '$.category') = ?"], [*values, asked["category"]]
        for tag in tags:
            where.append("EXISTS (SELECT 1 FROM json_each(content, '$.tags') WHERE value = ?)")
            values.append(tag)
        # Read before the posts: one that is added meanwhile is then listed twice, and not skipped.
        latest = await self._log.latest(_KIND)
        posts, more = await self._log.find(
            " AND ".join(where), values, newest=since is None, limit=int(asked.get("limit", 50))
        )
        cut = more and since is not None
        highest = posts[-1].lamport if cut else max(latest, since or 0)
        return {"output": {"posts": [_post_as_json(post) for post in posts], "max_lamport": highest}}


def _post_as_json(post: LoggedEvent) -> dict[str, Any]:
    return {
        "event_id": post.id,
        "lamport": post.lamport,
        "author": post.author,
        "tags": [],
        **post.content,
        "created_at": wire_time(post.created),
        "expires_at": wire_time(post.expires or post.created),
    }
