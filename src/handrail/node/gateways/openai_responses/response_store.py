"""Responses by their ids: those under way, the last ones in memory, and older ones from the record of their runs.

The id of a response names its run, so the journal needs no second table. What the journal does not have is lost with a
restart: the settings that a response repeats (they read as the defaults), and what the model thought. A response that
was deleted has a last entry that says so; what it did stays on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.context import Context
from handrail.core.errors import BusError, UsageError
from handrail.core.events import Recorded, ReplyGiven, RunFinished, RunStarted
from handrail.core.messages import AssistantMessage, Conversation, Message
from handrail.core.model_request import ModelRequest
from handrail.node.bus.request import Caller
from handrail.node.gateways.answer_memory import weight_of
from handrail.node.gateways.answer_plan import covers_calls, covers_tools
from handrail.node.gateways.failures import GatewayFailure, failure_of
from handrail.node.gateways.gateway import Gateway
from handrail.node.gateways.http_responses import endpoint, whole_answer
from handrail.node.gateways.idempotency import SharedAnswer
from handrail.node.gateways.openai_responses.ids import run_of_response
from handrail.node.gateways.openai_responses.input_items import input_items, input_items_page
from handrail.node.gateways.openai_responses.write import ResponsesWriter
from handrail.node.gateways.request import EarlierAnswer, GatewayOutcome, GatewayRequest
from handrail.node.gateways.request_parsing import refuse_field
from handrail.node.gateways.resumed_runs import DELETED, was_deleted
from handrail.node.gateways.wire_table import RESPONSES
from handrail.run.history import conversation_of, unanswered_calls
from handrail.tools.masking import masked_messages

_NOTHING = GatewayRequest(model=None, messages=(), settings=ModelRequest(messages=()), store=True)
Identified = Callable[[Request], Awaitable[Caller]]
"""Who asks, with the rights of their token; reading what was answered is not a call.

Raises:
    BusError: Nobody that may be answered.
"""
Work = Callable[[Request, Caller, str], Awaitable[object]]


class StoredResponse(Struct, frozen=True, kw_only=True):
    id: str
    whose: str
    messages: tuple[Message, ...]
    """The whole conversation: what was asked, and then the answer."""
    asked: int
    """The number of messages that were asked."""
    instructions: int
    """The number of leading messages that are instructions, which do not carry over."""
    document: dict[str, Any]
    called: frozenset[str] = frozenset()
    """The tools of the node that it called, also those of which the messages do not tell because it failed."""

    client_calls: frozenset[str] = frozenset()
    """The ids of calls that clients were handed by the responses that it continues."""

    @property
    def input(self) -> tuple[Message, ...]:
        return self.messages[self.instructions : self.asked]

    @property
    def earlier(self) -> EarlierAnswer:
        shown = {item["id"]: item for item in self.document["output"]}
        found = EarlierAnswer(self.messages[self.instructions :], shown)
        return replace(found, client_calls=self.client_calls | found.handed)


def _weight_of(response: StoredResponse) -> int:
    return 2_000 + weight_of(response.messages)


class ResponseStore:
    def __init__(self, gateway: Gateway, on_delete: Callable[[str], None]) -> None:
        """`on_delete` is told the run of a response that is deleted."""
        self._on_delete = on_delete
        self._executor = gateway.executor
        self._bounds = gateway.bounds
        self._live: dict[str, SharedAnswer] = {}
        self._stored = BoundedMemory[str, StoredResponse](
            self._bounds.kept, weight=_weight_of, most_weight=self._bounds.kept_characters, lru=True
        )

    # ── as they come and end ─────────────────────────────────────────────────────────

    def begin(self, answer: SharedAnswer) -> None:
        if answer.plan.asked.store:
            self._live[answer.plan.id] = answer

    def over(self, answer: SharedAnswer) -> None:
        """Its run has ended. An answer that failed before its client had an id of it is not stored."""
        plan, talk = answer.plan, answer.talk
        self._live.pop(plan.id, None)
        document = _document_of(answer) if plan.asked.store else None
        if document is None:
            return
        self._stored[plan.id] = StoredResponse(
            id=plan.id,
            whose=plan.context.principal.id,
            messages=talk.conversation.messages,
            asked=plan.taken.asked,
            instructions=plan.asked.instructions,
            document=document,
            called=_called(answer),
            client_calls=plan.asked.client_calls,
        )

    # ── as they are asked for ────────────────────────────────────────────────────────

    async def resolved(self, asked: GatewayRequest, caller: Caller) -> GatewayRequest:
        """The request with the answers that it continues.

        Raises:
            BusError: The one that it continues is not there, or is not over.
        """
        assert asked.resolve is not None
        found: dict[str, EarlierAnswer] = {}
        for id in dict.fromkeys((*((asked.previous,) if asked.previous else ()), *asked.references)):
            if self.live(id, caller) is not None:
                raise BusError("bad_request", f"the response {id!r} is not complete yet; wait for it", status=409)
            response = await self.find(id, caller)
            if response is None:
                continue
            if id == asked.previous:
                _check_complete(response)
            found[id] = response.earlier
        return asked.resolve(found)

    def live(self, id: str, caller: Caller) -> SharedAnswer | None:
        """The answer under way with this id, on the same terms as `find`."""
        answer = self._live.get(id)
        if answer is None or answer.plan.context.principal.id != caller.id:
            return None
        conversation, asked = answer.plan.taken.conversation, answer.plan.asked
        return answer if self._covered(caller, conversation, _called(answer), asked.client_calls) else None

    async def find(self, id: str, caller: Caller) -> StoredResponse | None:
        """A response of this caller, with rights to every tool that it called; None if there is none."""
        found = self._stored.get(id) or await self._recorded(id)
        if found is None or found.whose != caller.id:
            return None
        conversation, client_calls = Conversation(found.messages), found.earlier.client_calls
        return found if self._covered(caller, conversation, found.called, client_calls) else None

    def _covered(
        self, caller: Caller, conversation: Conversation, called: frozenset[str], client_calls: frozenset[str]
    ) -> bool:
        seen = covers_calls(caller, self._executor, conversation, client_calls)
        return seen and covers_tools(caller, self._executor, called)

    async def delete(self, response: StoredResponse, caller: Caller) -> None:
        self._stored.pop(response.id, None)
        run, _ = run_of_response(response.id) or ("", 0)
        if not run:
            return
        self._on_delete(run)
        if await self._executor.runs.history(run):
            await self._executor.runs.known_calls(Context(run=run, principal=caller.principal))  # takes the run up
            await self._executor.finish(run, DELETED)

    async def _recorded(self, id: str) -> StoredResponse | None:
        named = run_of_response(id) if id not in self._live else None
        history = await self._executor.runs.history(named[0]) if named is not None else []
        begun = next((event for event in history if isinstance(event, RunStarted)), None)
        if begun is None or named is None:
            return None
        if was_deleted(history):
            return None
        reason = next((event.reason for event in reversed(history) if isinstance(event, RunFinished)), None)
        try:
            conversation = conversation_of(history)
        except UsageError:  # its words were erased
            return None
        asked = len(conversation_of(takewhile(lambda event: not isinstance(event, ReplyGiven), history)))
        found = StoredResponse(
            id=id,
            whose=begun.principal,
            messages=conversation.messages,
            asked=asked,
            instructions=named[1],
            document=_rebuilt(id, begun, history, conversation, asked, reason),
        )
        self._stored[found.id] = found
        return found


def _check_complete(response: StoredResponse) -> None:
    """Refuses a response that failed: its conversation lacks what it did, and a model would do that again."""
    if (status := response.document["status"]) in ("failed", "cancelled"):
        raise BusError(
            "bad_request",
            f"the response {response.id!r} is {status}, and cannot be continued; send the conversation itself",
            param="previous_response_id",
            api_details={"code": "previous_response_not_found"},
        )


def _called(answer: SharedAnswer) -> frozenset[str]:
    writer = answer.plan.writer
    return writer.called if isinstance(writer, ResponsesWriter) else frozenset()


def _document_of(answer: SharedAnswer) -> dict[str, Any] | None:
    writer, talk = answer.plan.writer, answer.talk
    if not isinstance(writer, ResponsesWriter):
        return None
    if talk.task.cancelled():
        return writer.fail(_CANCELLED)
    error = talk.task.exception()
    if error is None:
        return writer.whole(talk.task.result())
    return writer.fail(failure_of(error)) if answer.plan.asked.background else None


_COMPLETE = ("done", "handed over", "waits")
_CANCELLED = GatewayFailure(status=499, code="cancelled", message="this response was cancelled")
_CUT_OFF = GatewayFailure(status=500, code="internal_error", message="this response was cut off before it was complete")


def _rebuilt(
    id: str,
    begun: RunStarted,
    history: Sequence[Recorded],
    conversation: Conversation,
    asked: int,
    reason: str | None,
) -> dict[str, Any]:
    """The document of a response of which only the record is left."""
    model = next((event.model for event in reversed(history) if isinstance(event, ReplyGiven)), "")
    new = conversation.messages[asked:]
    writer = ResponsesWriter(id, begun.at // 1000, model, _NOTHING)
    writer.resume(new, from_record=True)
    said_all = bool(new) and isinstance(new[-1], AssistantMessage) and new[-1].stop != "tool_calls"
    complete = reason in _COMPLETE or (reason is None and said_all)  # None: the node was killed, perhaps after it
    if not complete:
        return writer.fail(_CANCELLED if reason == "cancelled" else _CUT_OFF)
    calls = tuple(message.call for message in unanswered_calls(conversation)) if reason == "handed over" else ()
    last = next((each for each in reversed(new) if isinstance(each, AssistantMessage)), None)
    stop = "end" if last is None or last.stop == "tool_calls" else last.stop
    usage = Conversation(new).usage
    ended = GatewayOutcome(run=begun.run, calls=calls, stop=stop, usage=usage, at=history[-1].at // 1000)
    return {**writer.whole(ended), "instructions": _instructions(conversation, id)}


def _instructions(conversation: Conversation, id: str) -> str | None:
    named = run_of_response(id)
    first = conversation.messages[0] if conversation.messages and named is not None and named[1] else None
    return getattr(first, "text", None)


class ResponseRoutes:
    """What can be done with a response that was created: read it, list its input, cancel it, delete it."""

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
        return _current_document(await self._found(id, caller))

    async def _delete(self, request: Request, caller: Caller, id: str) -> object:
        found = await self._found(id, caller)
        if isinstance(found, SharedAnswer):
            raise BusError("bad_request", "this response is not complete yet; cancel it first", status=409)
        await self._store.delete(found, caller)
        return {"id": id, "object": "response", "deleted": True}

    async def _cancel(self, request: Request, caller: Caller, id: str) -> object:
        """Cancels a response. One that is over stays as it ended, and is answered as it is."""
        if isinstance(found := await self._found(id, caller), SharedAnswer):
            await found.talk.stop()
            found = await self._found(id, caller)
        return _current_document(found)

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


def _current_document(found: SharedAnswer | StoredResponse) -> object:
    return response_snapshot(found) if isinstance(found, SharedAnswer) else found.document


def response_snapshot(answer: SharedAnswer) -> dict[str, object]:
    """A response under way, or one that has just ended, as it stands."""
    writer = answer.plan.writer
    assert isinstance(writer, ResponsesWriter)  # only responses are stored
    return writer.snapshot("in_progress")
