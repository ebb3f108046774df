"""What a client is sent at once: an answer that is whole, a refusal, and what is kept of either."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.responses import Response

from handrail.node.gateways.event_stream import STREAM_HEADERS
from handrail.node.gateways.failures import OVERLOADED, GatewayFailure, failure_of
from handrail.node.gateways.frame_pipe import FrameTape
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


def response_to_store(answer: SharedAnswer) -> Response | None:
    """What is answered whenever a key comes again; None if the request may be begun anew."""
    plan, talk = answer.plan, answer.talk
    if (talk.failed or talk.task.cancelled()) and not talk.changed:
        return None
    error = interrupted_request_error() if talk.task.cancelled() else talk.task.exception()
    if error is not None:
        return refusal_response(plan.wire, failure_of(error), talk.run, again=False)
    if isinstance(answer.pipe, FrameTape) and plan.asked.stream:
        return Response(answer.pipe.data, headers={**STREAM_HEADERS, **answer_headers(talk.run)})
    return whole_answer(plan.writer.whole(talk.task.result()), talk.run)
