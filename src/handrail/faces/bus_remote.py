"""A call that another node answers: passed on for its caller, with no more rights than it has here."""

from __future__ import annotations

from typing import Any

from handrail.bus.codes import WIRE
from handrail.bus.port import Bus
from handrail.bus.providers import Provider
from handrail.bus.request import Caller
from handrail.bus.streams import Response
from handrail.core.context import Context
from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.faces.asked import Asked
from handrail.faces.bus_checks import is_fault
from handrail.faces.bus_local import encoded_as
from handrail.faces.capability import closed


async def passed_on(
    provider: Provider, bus: Bus, asked: Asked, caller: Caller, context: Context, clock: Clock
) -> Response:
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
    started, ok = clock.monotonic(), True
    provider.in_flight += 1
    try:
        return await _answered(bus, asked, caller, context)
    except BusError as error:
        ok = not is_fault(error, asked)
        if error.code not in WIRE:
            raise closed(error) from error
        raise
    finally:
        provider.in_flight -= 1
        now = clock.monotonic()
        provider.health.note(ok, (now - started) * 1000, now)


async def _answered(bus: Bus, asked: Asked, caller: Caller, context: Context) -> Response:
    # One hop deeper, so that nodes which know each other do not send a call round.
    how: Any = {
        **asked.how,
        "caller": caller,
        "token": asked.token,
        "deadline": asked.deadline,
        "timeout_seconds": None,
        "depth": context.depth + 1,
        "call_id": asked.call_id,
    }
    if asked.channel is None:
        response = await bus.call(asked.name, asked.wanted, asked.body, **how)
        asked.bytes_out = len(encoded_as(response.get("output")))
        return Response(response.get("output") or {}, response.get("meta") or {})
    interactive = asked.channel.interactive
    async with bus.stream(asked.name, asked.wanted, asked.body, interactive=interactive, **how) as stream:
        return await asked.channel.relay(stream)
