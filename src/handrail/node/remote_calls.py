"""A call that another node answers: passed on for its caller, with no more rights than it has here."""

from __future__ import annotations

from msgspec.structs import replace

from handrail.core.context import Context
from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import Caller
from handrail.node.bus.result_labels import labels_from_elsewhere, with_labels
from handrail.node.bus.streams import CapabilityResponse
from handrail.node.bus.wire_codes import WIRE
from handrail.node.call_checks import is_fault
from handrail.node.capability_call import BusCall
from handrail.node.capability_tools import closed_error
from handrail.node.local_calls import encode_or_empty


async def forward_call(
    provider: CapabilityProvider, bus: Bus, asked: BusCall, caller: Caller, context: Context, clock: Clock
) -> CapabilityResponse:
    """What the other node gave, asked as this caller.

    Raises:
        BusError: It gave no response, or the caller may not ask for it.
    """
    if not context.allows(provider.descriptor.full_name):
        raise BusError(
            "token_scope_insufficient",
            f"{provider.descriptor.full_name} is outside what {asked.caller.id!r} may call",
            outcome="forbidden",
        )
    try:
        with provider.serving(clock, lambda error: is_fault(error, asked)):
            response = await _call_or_stream(bus, asked, caller, context)
            labels = labels_from_elsewhere(response.meta, believed=provider.believed)
            return CapabilityResponse(response.output, with_labels(response.meta, labels))
    except BusError as error:
        if error.code not in WIRE:
            raise closed_error(error) from error
        raise


async def _call_or_stream(bus: Bus, asked: BusCall, caller: Caller, context: Context) -> CapabilityResponse:
    # One hop deeper, so that nodes which know each other do not send a call round.
    terms = replace(asked.terms, caller=caller, token=asked.token, depth=context.depth + 1, call_id=asked.call_id)
    if asked.channel is None:
        response = await bus.call(asked.name, asked.wanted, asked.body, terms=terms)
        asked.bytes_out = len(encode_or_empty(response.get("output")))
        return CapabilityResponse(response.get("output") or {}, response.get("meta") or {})
    async with bus.stream(asked.name, asked.wanted, asked.body, terms=terms) as stream:
        return await asked.channel.relay(stream)
