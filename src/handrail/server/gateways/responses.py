"""What a client is sent at once: an answer that is whole, a refusal, and what is kept of either."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.responses import Response

from handrail.server.gateways.failures import OVERLOADED, Failure, failure_of
from handrail.server.gateways.pipe import Tape
from handrail.server.gateways.repeats import Answer, cut_off
from handrail.server.gateways.told import STREAM_HEADERS
from handrail.server.gateways.wire import Wire, encode


def headers_of(id: str) -> dict[str, str]:
    return {"x-request-id": id, "request-id": id, "x-handrail-run": id, "cache-control": "no-store"}


def whole(said: object, id: str) -> Response:
    return Response(encode(said), media_type="application/json", headers=headers_of(id))


def refusal(wire: Wire, failure: Failure, id: str, *, again: bool = True) -> Response:
    if failure.status == OVERLOADED:
        failure = replace(failure, status=wire.overloaded)
    return Response(
        encode(wire.failed(failure, id)),
        failure.status,
        media_type="application/json",
        headers={**headers_of(id), **failure.headers(again=again)},
    )


def to_keep(answer: Answer) -> Response | None:
    """What is answered whenever a key comes again; None if the request may be begun anew."""
    plan, talk = answer.plan, answer.talk
    if (talk.failed or talk.task.cancelled()) and not talk.changed:
        return None
    error = cut_off() if talk.task.cancelled() else talk.task.exception()
    if error is not None:
        return refusal(plan.wire, failure_of(error), talk.run, again=False)
    if isinstance(answer.pipe, Tape) and plan.asked.stream:
        return Response(answer.pipe.data, headers={**STREAM_HEADERS, **headers_of(talk.run)})
    return whole(plan.writer.whole(talk.task.result()), talk.run)
