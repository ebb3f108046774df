"""What can be done with a response that was created: read it, list its input, cancel it, delete it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from handrail.core.errors import BusError
from handrail.core.messages import Message
from handrail.node.bus.request import Caller
from handrail.node.gateways.gateway import Gateway
from handrail.node.gateways.http_responses import endpoint, whole_answer
from handrail.node.gateways.idempotency import SharedAnswer
from handrail.node.gateways.openai_responses.input_items import input_items, input_items_page
from handrail.node.gateways.openai_responses.response_store import ResponseStore, StoredResponse
from handrail.node.gateways.openai_responses.write import ResponsesWriter
from handrail.node.gateways.request_parsing import refuse_field
from handrail.node.gateways.wire_table import RESPONSES
from handrail.tools.masking import masked_messages

Identified = Callable[[Request], Awaitable[Caller]]
"""Who asks, with the rights of their token; reading what was answered is not a call.

Raises:
    BusError: Nobody that may be answered.
"""
Work = Callable[[Request, Caller, str], Awaitable[object]]


class ResponseRoutes:
    def __init__(self, gateway: Gateway, store: ResponseStore, identified: Identified) -> None:
        self._gateway = gateway
        self._store = store
        self._identified = identified

    def routes(self) -> list[Route]:
        one = f"{RESPONSES.path}/{{id}}"
        return [
            Route(one, self._door(self._get), methods=["GET"]),
            Route(one, self._door(self._delete), methods=["DELETE"]),
            Route(f"{one}/cancel", self._door(self._cancel), methods=["POST"]),
            Route(f"{one}/input_items", self._door(self._input_items), methods=["GET"]),
        ]

    def _door(self, work: Work) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request, name: str) -> Response:
            caller = await self._identified(request)
            return whole_answer(await work(request, caller, request.path_params["id"]), name)

        return endpoint(RESPONSES, partial(self._gateway.new_id, "request"), answer)

    async def _get(self, request: Request, caller: Caller, id: str) -> object:
        if request.query_params.get("stream", "false").lower() not in ("false", "0", ""):
            refuse_field("stream", "a response that was created before is read whole here; leave it out")
        return _document(await self._found(id, caller))

    async def _delete(self, request: Request, caller: Caller, id: str) -> object:
        found = await self._found(id, caller)
        if isinstance(found, SharedAnswer):
            raise BusError("bad_request", "this response is not complete yet; cancel it first", status=409)
        await self._store.delete(found, caller)
        return {"id": id, "object": "response", "deleted": True}

    async def _cancel(self, request: Request, caller: Caller, id: str) -> object:
        """One that is over stays as it ended, and is answered as it is."""
        if isinstance(found := await self._found(id, caller), SharedAnswer):
            await found.talk.stop()
            found = await self._found(id, caller)
        return _document(found)

    async def _input_items(self, request: Request, caller: Caller, id: str) -> object:
        found = await self._found(id, caller)
        given: Sequence[Message]
        if isinstance(found, SharedAnswer):
            taken = found.plan.taken
            given = taken.conversation.messages[found.plan.asked.instructions : taken.asked]
        else:
            given = found.input
        tools = self._gateway.executor.tools
        return input_items_page(
            input_items(id, masked_messages(given, tools), tools.__contains__), request.query_params
        )

    async def _found(self, id: str, caller: Caller) -> SharedAnswer | StoredResponse:
        found = self._store.live(id, caller) or await self._store.find(id, caller)
        if found is None:
            raise BusError("not_found", f"there is no response {id[:80]!r}", param="response_id")
        return found


def _document(found: SharedAnswer | StoredResponse) -> object:
    return response_snapshot(found) if isinstance(found, SharedAnswer) else found.document


def response_snapshot(answer: SharedAnswer) -> dict[str, object]:
    """A response under way, or one that has just ended, as it stands."""
    writer = answer.plan.writer
    assert isinstance(writer, ResponsesWriter)  # only responses are stored
    return writer.snapshot("in_progress")
