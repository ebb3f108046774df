"""What is asked of a call before it runs, in this order, and what an error says about trying elsewhere."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from handrail.core.context import Context
from handrail.core.errors import BusError
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.descriptor import CapabilityDescriptor, is_trusted_enough
from handrail.node.bus.interfaces import Admission
from handrail.node.bus.request import OWN, Caller
from handrail.node.bus.routing import version_nearness
from handrail.node.bus.versions import satisfies
from handrail.node.bus.wire_codes import BEGUN, ELSEWHERE
from handrail.node.capability_call import BusCall
from handrail.node.capability_tools import BUS


async def admit(admission: Admission | None, asked: BusCall, descriptor: CapabilityDescriptor) -> Caller:
    """The caller as it is known. The program itself, with no token, needs no admission.

    Raises:
        BusError: It may not.
    """
    caller = asked.terms.caller
    if asked.token is not None and caller.token is None:
        caller = replace(caller, token=asked.token)
    if admission is None or caller is OWN:
        return caller
    known = await admission.admit(caller, asked.token, descriptor, asked.body)
    return known if asked.token is None or known.token is not None else replace(known, token=asked.token)


async def is_admitted_to(
    admission: Admission | None, asked: BusCall, first: CapabilityProvider, other: CapabilityProvider
) -> bool:
    """Whether a caller admitted at the first provider is also admitted at another, which may read the body otherwise.

    Admission that must be asked again counts it as one more call.
    """
    one, two = first.descriptor, other.descriptor
    try:
        if (one.version, one.request_schema) != (two.version, two.request_schema):
            asked.caller = await admit(admission, asked, two)
        check_trust_and_right(two, asked)
    except BusError:
        return False
    return True


def may_run_again(providers: list[CapabilityProvider]) -> bool:
    return all(each.descriptor.retriable for each in providers)


def pinned_provider(
    before: CapabilityProvider, providers: list[CapabilityProvider], asked: BusCall
) -> CapabilityProvider:
    """The provider to which this call went before, or another by the same way: whoever is there knows where it went.

    Raises:
        BusError: It is not there any more, and nobody else knows what became of it (`in_doubt`).
    """
    there = [each for each in providers if each.bus is before.bus and satisfies(each.descriptor.version, asked.wanted)]
    if not there:
        why = (
            f"node {before.node_id!r} was given this call and cannot be asked now; nobody else knows what became of it"
        )
        raise BusError("partition", why, outcome="in_doubt")
    return max(there, key=lambda each: (each.node_id == before.node_id, version_nearness(each, asked.wanted)))


def check_trust_and_right(descriptor: CapabilityDescriptor, asked: BusCall) -> Context:
    """What goes along with the call, once its caller is trusted enough and means this very capability.

    Raises:
        BusError: `unauthorized` or `schema_mismatch`.
    """
    caller, terms = asked.caller, asked.terms
    if caller.trust != "self" and not is_trusted_enough(caller.trust, descriptor.trust_required):
        raise BusError(
            "unauthorized",
            f"{descriptor.full_name} is for callers that are at least {descriptor.trust_required!r};"
            f" this one is {caller.trust!r}",
            outcome="forbidden",
        )
    if terms.schema_hash is not None and terms.schema_hash != descriptor.schema_hash:
        raise BusError(
            "schema_mismatch",
            f"{descriptor.full_name} is not what its caller takes it for; ask what there is again",
            schema_hash_expected=descriptor.schema_hash,
        )
    until = asyncio.get_running_loop().time() + descriptor.timeout_seconds
    return Context(
        principal=caller.principal,
        token=asked.token,
        within=terms.within,
        deadline=until if terms.deadline is None else min(until, terms.deadline),
        depth=terms.depth,
        trace=terms.trace,
        auxdata={BUS: asked},
    )


def check_reach(context: Context, max_depth: int) -> BusError | None:
    """Why a call that is otherwise right does not run."""
    if context.depth > max_depth:
        return BusError("bad_request", f"capabilities call each other {context.depth} deep; the limit is {max_depth}")
    if context.deadline is not None and context.deadline <= asyncio.get_running_loop().time():
        return BusError("timeout", "its caller no longer waits; nothing was run", outcome="timeout")
    return None


def is_fault(error: BusError, asked: BusCall) -> bool:
    """Whether it is the provider's, and not something that its caller did, or that it was told on the way."""
    if error.is_nested:
        return False
    if error.code == "timeout":
        return asked.terms.deadline is None
    return error.code in ("internal_error", "partition")


def is_elsewhere(error: BusError, descriptor: CapabilityDescriptor) -> bool:
    """Whether another provider may be asked: nothing ran there, or it may run again."""
    if error.details.get(BEGUN) and not descriptor.retriable:
        return False
    if error.outcome in ("in_doubt", "timeout"):
        return error.outcome == "in_doubt" and descriptor.retriable
    return error.code in ELSEWHERE
