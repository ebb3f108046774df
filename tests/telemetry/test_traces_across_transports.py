"""One trace, whichever way a call takes: over every bus, and through the gateways."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import CapabilityBus, Executor
from handrail.core.ids import trace_id
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.testing.model import ScriptedModel, call, text
from tests.node.bus.transports import TRANSPORTS, Transport
from tests.node.gateways.gateway_server import add, gateway_of, served
from tests.telemetry.test_otel import PARENT, Seen


@pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS.keys())
async def test_a_call_over_the_bus_is_part_of_its_callers_trace(transport: Transport) -> None:
    seen = Seen()
    inside: list[str | None] = []

    async def handler(request: RouteRequest) -> dict[str, Any]:
        inside.append(request.context.trace)
        return {"output": {}}

    async with CapabilityBus(tracer=seen.tracer) as node:
        node.register(CapabilityDescriptor(name="demo.look"), handler)
        async with transport(node) as bus:
            await bus.call("demo.look", (1, 0), {"input": {}}, trace=PARENT)

    assert list(map(trace_id, inside)) == [trace_id(PARENT)]
    [span] = seen.spans.values()
    assert span.name == "execute_tool demo.look-1.0" and span.context is not None
    assert f"{span.context.trace_id:032x}" == trace_id(PARENT)
    assert span.parent is not None and f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
    assert inside[0] is not None and inside[0].split("-")[2] == f"{span.context.span_id:016x}"


@pytest.mark.parametrize("said", [PARENT, "no trace"])
async def test_an_answer_of_a_gateway_is_a_run_with_its_turns_and_calls(said: str) -> None:
    seen = Seen()
    model = ScriptedModel([call("add", a=1, b=2)], [text("3")], name="m")
    body = {"model": "m", "messages": [{"role": "user", "content": "1 + 2?"}]}
    async with (
        Executor([add], tracer=seen.tracer) as executor,
        served(gateway_of(model, executor)) as there,
        there.http() as client,
    ):
        reply = await client.post("/v1/chat/completions", json=body, headers={"traceparent": said})

    assert reply.json()["choices"][0]["message"]["content"] == "3"
    assert seen.spans.keys() == {"invoke_agent m", "chat m", "execute_tool add"}
    run = seen.spans["invoke_agent m"]
    assert run.context is not None and (run.parent is not None) == (said == PARENT)
    assert {span.context and span.context.trace_id for span in seen.spans.values()} == {run.context.trace_id}
    assert said != PARENT or f"{run.context.trace_id:032x}" == trace_id(PARENT)
