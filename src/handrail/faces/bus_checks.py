"""What is asked of a call before it runs, in this order, and what an error says about trying elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from handrail.bus.descriptor import CapabilityDescriptor, trusted_enough
from handrail.bus.port import Admission
from handrail.bus.request import OWN, Caller
from handrail.core.context import Context
from handrail.core.errors import BusError
from handrail.faces.asked import Asked
from handrail.faces.capability import BUS


async def admitted(admission: Admission | None, asked: Asked, descriptor: CapabilityDescriptor) -> Caller:
    """The caller as it is known. The program itself, with no token, needs nobody's word.

    Raises:
        BusError: It may not.
    """
    caller = asked.caller
    if asked.token is not None and caller.token is None:
        caller = replace(caller, token=asked.token)
    if admission is None or caller is OWN:
        return caller
    known = await admission.admit(caller, asked.token, descriptor, asked.body)
    return known if asked.token is None or known.token is not None else replace(known, token=asked.token)


def checked_right(descriptor: CapabilityDescriptor, asked: Asked) -> Context:
    """What goes along with the call, once its caller is trusted enough and means this very capability.

    Raises:
        BusError: `unauthorized` or `schema_mismatch`.
    """
    caller, how = asked.caller, asked.how
    if caller.trust != "self" and not trusted_enough(caller.trust, descriptor.trust_required):
        raise BusError(
            "unauthorized",
            f"{descriptor.full_name} is for callers that are at least {descriptor.trust_required!r};"
            f" this one is {caller.trust!r}",
            outcome="forbidden",
        )
    meant = how.get("schema_hash")
    if meant is not None and meant != descriptor.schema_hash:
        raise BusError(
            "schema_mismatch",
            f"{descriptor.full_name} is not what its caller takes it for; ask what there is again",
            schema_hash_expected=descriptor.schema_hash,
        )
    return Context(
        principal=caller.principal,
        token=asked.token,
        within=how.get("within") or (),
        deadline=_deadline(descriptor, how),
        depth=how.get("depth") or 0,
        trace=how.get("trace"),
        auxdata={BUS: asked},
    )


def _deadline(descriptor: CapabilityDescriptor, how: Any) -> float:
    now = asyncio.get_running_loop().time()
    seconds, deadline = how.get("timeout_seconds"), how.get("deadline")
    until = now + descriptor.timeout_seconds
    if seconds is not None:
        until = min(until, now + seconds)
    return until if deadline is None else min(until, float(deadline))


def checked_reach(context: Context, max_depth: int) -> BusError | None:
    """Why a call that is otherwise right does not run."""
    if context.depth > max_depth:
        return BusError("bad_request", f"capabilities call each other {context.depth} deep; the limit is {max_depth}")
    if context.deadline is not None and context.deadline <= asyncio.get_running_loop().time():
        return BusError("timeout", "its caller no longer waits; nothing was run", outcome="timeout")
    return None


def is_fault(error: BusError, asked: Asked) -> bool:
    """Whether it is the provider's, and not something that its caller did."""
    if error.code == "timeout":
        return asked.how.get("timeout_seconds") is None and asked.how.get("deadline") is None
    return error.code in ("internal_error", "partition")


def is_elsewhere(error: BusError, descriptor: CapabilityDescriptor) -> bool:
    """Whether another provider may be asked: nothing ran there, or it may run again."""
    if error.outcome in ("in_doubt", "timeout"):
        return error.outcome == "in_doubt" and descriptor.retriable
    return error.code in ("capacity_exceeded", "partition")
