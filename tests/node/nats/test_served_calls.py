"""What a worker says of a call that it has."""

from __future__ import annotations

import pytest

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.nats.link import NatsLink
from handrail.node.nats.messages import NatsRequest
from handrail.node.nats.served_calls import ServedCall


@pytest.mark.parametrize(
    ("descriptor", "told"),
    [
        (None, (False, True)),
        (CapabilityDescriptor(name="bank.look"), (True, False)),
        (CapabilityDescriptor(name="bank.put", side_effects=True, idempotent=True), (True, True)),
        (CapabilityDescriptor(name="bank.pay", side_effects=True), (False, True)),
    ],
)
async def test_until_it_knows_better_a_call_may_have_an_effect_and_may_not_be_made_again(
    descriptor: CapabilityDescriptor | None, told: tuple[bool, bool]
) -> None:
    """Its caller may lose it after this word, and would take the call for harmless."""
    request = NatsRequest(ref="r", call_id="c", capability="bank.put", version="1.0")
    call = ServedCall(NatsLink("nats://127.0.0.1:9"), request, "back", "worker", 0.0)
    call.descriptor = descriptor

    said = call.sign()
    assert (said.retriable, said.side_effects) == told
