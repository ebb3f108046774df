"""What a client is sent at once: an answer that is whole, the list of models, a refusal, and what is kept of either."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from handrail.core.errors import BusError
from handrail.http.event_stream import STREAM_HEADERS, FrameTape
from handrail.http.request_guard import ClientGone
from handrail.node.gateways.failures import OVERLOADED, GatewayFailure, failure_of
from handrail.node.gateways.idempotency import SharedAnswer, interrupted_request_error
from handrail.node.gateways.wire import GatewayWire, encode


def answer_headers(id: str) -> dict[str, str]:
    return {"x-request-id": id, "request-id": id, "x-handrail-run": id, "cache-control": "no-store"}


def whole_answer(said: object, id: str) -> Response:
    return Response(encode(said), media_type="application/json", headers=answer_headers(id))


def refusal_response(wire: GatewayWire, failure: GatewayFailure, id: str, *, again: bool = True) -> Response:
    if failure.status == OVERLOADED:
        failure = replace(failure, status=wire.overloaded)
    return Response(
        encode(wire.failed(failure, id)),
        failure.status,
        media_type="application/json",
        headers={**answer_headers(id), **failure.headers(again=again)},
    )


def endpoint(
    wire: GatewayWire, new_id: Callable[[], str], answer: Callable[[Request, str], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose errors have the form of this API. `answer` is given the id of its answer."""

    async def answered(request: Request) -> Response:
        id = new_id()
        try:
            return await answer(request, id)
        except (ClientGone, ClientDisconnect):
            return Response(status_code=499)  # for the log; nobody reads it
        except Exception as error:
            return refusal_response(wire, failure_of(error), id)

    return answered


def model_list_body(wire: GatewayWire, names: Sequence[str], name: str | None = None) -> dict[str, Any]:
    """The models that can be asked for, or the one of that name, in the form of either API.

    Raises:
        BusError: There is none of that name.
    """
    one = _MODEL_FORMS[wire.name]
    if name is not None:
        if name not in names:
            raise BusError("not_found", f"there is no model {name[:60]!r} here", param="model")
        return one(name)
    models = [one(each) for each in names]
    if wire.name == "openai":
        return {"object": "list", "data": models}
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"data": models, "has_more": False, **ends}


_MODEL_FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai": lambda name: {"id": name, "object": "model", "created": 0, "owned_by": "handrail"},
    "anthropic": lambda name: {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    },
}


def response_to_store(answer: SharedAnswer) -> Response | None:
    """What is answered whenever a key comes again; None if the request may be begun again."""
    plan, talk = answer.plan, answer.talk
    if (talk.failed or talk.task.cancelled()) and not talk.changed:
        return None
    error = interrupted_request_error() if talk.task.cancelled() else talk.task.exception()
    if error is not None:
        return refusal_response(plan.wire, failure_of(error), talk.run, again=False)
    if isinstance(answer.pipe, FrameTape) and plan.asked.stream:
        return Response(answer.pipe.data, headers={**STREAM_HEADERS, **answer_headers(talk.run)})
    return whole_answer(plan.writer.whole(talk.task.result()), talk.run)
