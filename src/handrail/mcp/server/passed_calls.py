"""Calls that a server behind us answers: its results unchanged, and what it tells the client meanwhile."""

from __future__ import annotations

from typing import Any, cast

import mcp_types as types
import msgspec
from mcp_types.methods import CACHEABLE_METHODS

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import ToolResult
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.caller import Request, is_modern
from handrail.mcp.server.calls_in_progress import CallInProgress
from handrail.mcp.server.question_wire import LEVEL, wants_log_level
from handrail.mcp.server.sendable import sendable_json

LOG = "notifications/message"
_OF_THE_WIRE = frozenset(
    (
        "progressToken",
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_INFO_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
    )
)
"""Keys of `_meta` that are between a client and us."""
_USUAL_LEVEL = "info"
"""The level of messages for a client that did not say which level it wants."""
_MOST_KEPT = 1_000
_MOST_BYTES = 16 * 1024 * 1024

Kept = tuple[Any, dict[str, Any]]


class PassedResults:
    """Results of servers behind us as they came, for the calls that they answer, and those that share the answer."""

    def __init__(self) -> None:
        self._kept = BoundedMemory[str, Kept](
            _MOST_KEPT, weight=lambda kept: len(msgspec.json.encode(kept[1])), most_weight=_MOST_BYTES, keep_newest=True
        )

    def keep(self, call_id: str, value: Any, result: dict[str, Any]) -> None:
        self._kept[call_id] = value, sendable_json(result)

    def of(self, result: ToolResult) -> dict[str, Any] | None:
        """What the server said, if the client is to have just that: nothing of it was cut, changed or replaced."""
        value, kept = self._kept.get(result.reused_from or result.tool_call_id) or (None, None)
        if kept is None or result.spilled is not None or result.withheld:
            return None
        if result.outcome == "ok":
            return kept if not kept.get("isError") and result.content == value else None
        failed_there = result.error is not None and (result.outcome, result.error.code) == ("failed", "failed")
        return kept if failed_there and kept.get("isError") else None


class PassedCallClient:
    """The client of a call that another server answers; see `ClientBehindCall`."""

    def __init__(self, request: Request, going: CallInProgress, results: PassedResults) -> None:
        self.who: object = going.owner if is_modern(request) else connection_of(request)
        self.meta = passed_meta(request)
        self._results = results
        self._going = going

    def keep(self, call_id: str, value: Any, result: dict[str, Any]) -> None:
        self._results.keep(call_id, value, result)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if (now := self._going.request) is not None:
            await send_passed(now, method, params)


def passed_meta(request: Request) -> dict[str, Any]:
    """`_meta` of a request, without what is between the client and us."""
    meta = (request.params or {}).get("_meta") or {}
    kept = {name: value for name, value in meta.items() if name not in _OF_THE_WIRE}
    if not is_modern(request):  # it said once which messages it wants; a modern server is told so each time
        kept[types.LOG_LEVEL_META_KEY] = connection_of(request).state.get(LEVEL, _USUAL_LEVEL)
    return kept


def in_era_of(request: Request, answer: dict[str, Any]) -> dict[str, Any]:
    """A result with what the client's era wants in every result, and without what its era does not know."""
    cached = ("ttlMs", "cacheScope") if request.method in CACHEABLE_METHODS else ()
    if is_modern(request):
        usual = dict(zip(cached, (0, "private"), strict=False))
        return {"resultType": "complete", **usual, **answer}
    kept = {name: value for name, value in answer.items() if name not in ("resultType", *cached)}
    if isinstance(meta := kept.pop("_meta", None), dict):
        meta = {name: value for name, value in meta.items() if name != types.SERVER_INFO_META_KEY}
    return {**kept, "_meta": meta} if meta else kept


class PassedNotification(types.Notification[dict[str, Any], str]):
    """Any notification, as it came."""


async def send_passed(request: Request, method: str, params: dict[str, Any]) -> None:
    """Tell the client of a request what a server told us, as it came; a message for its log if it wants that."""
    if method != LOG or wants_log_level(request, params.get("level", "debug")):
        told = PassedNotification(method=method, params=params)
        await request.session.send_notification(cast(Any, told), related_request_id=request.request_id)
