"""Capabilities as tools of an executor, and the executor's results as responses.

One executor runs everything on a bus, so a capability is checked, permitted, bounded in time, settled once and
recorded as any tool is. Nothing is confirmed here: the right of a caller is its scope, and who lets a *model*
call asks a person before.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace as changed
from functools import partial
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import Output, ToolResult
from handrail.core.errors import BusError, Outcome, ToolError, UsageError
from handrail.core.invocation import Invocation
from handrail.core.outcome_codes import CODES
from handrail.execute.policy import Policy
from handrail.node.bus.capability_providers import CapabilityProvider
from handrail.node.bus.compact_journal import is_omitted
from handrail.node.bus.descriptor import CapabilityDescriptor, Trust
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.result_labels import OUTSIDE, labels_of_tool, with_labels
from handrail.node.bus.schemas import bad_request_error, object_schema_of, response_shape
from handrail.node.bus.streams import CapabilityResponse
from handrail.node.bus.versions import Version, version_text
from handrail.node.bus.wire_codes import BEGUN, ELSEWHERE, REFUSALS, WIRE
from handrail.node.capability_call import BusCall
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.tool import Tool

BUS = "bus"
"""The key in `auxdata` under which a handler finds what came with the call."""
ALL = 1 << 40
"""Characters: nothing on the bus is cut, since its reader may be a program."""
CANCEL = 0.15
"""Seconds that a cancelled handler has to end: its caller has the end of the call within 0.2."""
_MANY = 1_000_000

logger = logging.getLogger(__name__)


def bus_policy(policy: Policy | None, max_depth: int, *, asks: bool) -> Policy:
    """The policy of a bus's executor. The bus, not the executor, limits how many calls of a capability run at once."""
    given = policy or Policy()
    return changed(
        given,
        confirm_side_effects=asks,
        # Where values come from is judged where their model is: a node knows no person's words.
        after_untrusted="allow" if given.after_untrusted == "origins" else given.after_untrusted,
        # A caller may be a program, and one that has a model makes handles of what it is given.
        flows=changed(given.flows, untrusted_results="shown"),
        max_depth=max_depth,
        max_output=ALL,
        concurrency=_MANY,
        cancel_grace=min(given.cancel_grace, CANCEL),
    )


# ── capability → tool ────────────────────────────────────────────────────────────────────


def tool_of(descriptor: CapabilityDescriptor, handler: Handler) -> Tool:
    """The capability as the executor runs it; its arguments are the body of the call.

    Raises:
        InvalidDefinition, InvalidSchema: It cannot work as it is described.
    """
    definition = ToolDefinition(
        f"{descriptor.name}-{version_text(descriptor.version)}",
        descriptor.description,
        descriptor.request_schema,
        response_shape(descriptor.response_schema),
        side_effects=descriptor.side_effects,
        idempotent=descriptor.idempotent,
        timeout=descriptor.timeout_seconds,
        binding=Binding(descriptor.name, descriptor.version),
        untrusted=descriptor.untrusted or (descriptor.labels is not None and bool(descriptor.labels.untrusted)),
    )
    run = partial(_handled, descriptor, handler)
    return Tool(definition, run, style="invocation", isolation="loop", share=False)


async def _handled(descriptor: CapabilityDescriptor, handler: Handler, invocation: Invocation) -> Output:
    asked: BusCall = invocation.context.auxdata[BUS]
    context = invocation.context
    request = RouteRequest(
        capability=descriptor.name,
        version=descriptor.version,
        body=invocation.arguments,
        caller=asked.caller,
        context=context if descriptor.needs is None else replace(context, scopes=descriptor.needs),
        call_id=asked.call_id,
        bus=asked.bus,
        channel=asked.channel,
        session_id=asked.terms.session_id,
        trace_id=asked.trace_id,
        on_outside=partial(invocation.label_result, OUTSIDE),
    )
    try:
        response = await handler(request)
    except BusError as error:
        raise _noted(asked, error) from error
    except ToolError:
        raise
    except Exception as error:
        _log(descriptor, error)
        hidden = BusError("internal_error", f"{descriptor.full_name} failed; the log of its node says with what")
        raise _noted(asked, hidden) from error
    if asked.channel is not None and asked.channel.broken is not None:
        raise _noted(asked, asked.channel.broken)
    return Output(response)


def _noted(asked: BusCall, error: BusError) -> ToolError:
    """Keep the error as it is for the caller, and give the executor what it can record."""
    asked.error = error = closed_error(error)
    refusal = REFUSALS.get(error.outcome)
    return ToolError(error.code, error.message) if refusal is None else refusal(error.message or error.code)


def closed_error(error: BusError) -> BusError:
    """A copy that is what callers may see: of the closed set of codes, and no more than it says."""
    told = BusError.from_dict(error.to_dict())
    told.code = error.code if error.code in WIRE else "internal_error"
    told.is_nested = error.is_nested
    return told


def _log(descriptor: CapabilityDescriptor, error: Exception) -> None:
    """Logs the type and place of an exception: its text may hold what was asked, and so a secret."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    code = "?" if place is None else place.tb_frame.f_code.co_filename.rpartition("/")[2]
    line = 0 if place is None else place.tb_lineno
    logger.error("%s failed with %s at %s:%d", descriptor.full_name, type(error).__name__, code, line)


# ── tool → capability ────────────────────────────────────────────────────────────────────


def capability_of(tool: Tool, name: str | None, version: Version, trust: Trust, policy: Policy) -> CapabilityDescriptor:
    """What a tool is on the bus: its arguments are the `input`, and its content is in the `output`."""
    definition = tool.definition
    content = definition.output_schema if definition.output_schema is not None else {}
    return CapabilityDescriptor(
        name=name or capability_name(tool),
        version=version,
        description=definition.description,
        request_schema=object_schema_of({"input": definition.input_schema}, {"params": {"type": "object"}}),
        response_schema=object_schema_of({"content": content}, {"attachments": {"type": "array"}}),
        max_concurrent=tool.concurrency or 8,
        trust_required=trust,
        timeout_seconds=definition.timeout or policy.timeout,
        side_effects=definition.side_effects,
        idempotent=definition.idempotent,
        untrusted=bool(definition.untrusted),
        labels=labels_of_tool(definition) if definition.labels is not None else None,
    )


def capability_name(tool: Tool) -> str:
    """What a tool is called on the bus: `io.read_file` is that of `io:read_file`, `tool.add` that of `add`."""
    name = re.sub(r"[^a-z0-9_.-]", "_", tool.scoped_name.lower().replace(":", "."))
    return name if "." in name else f"tool.{name}"


def check_name_free(tool: Tool, others: Mapping[str, Tool]) -> None:
    """Makes sure that no other tool of the bus has a name of this one.

    Raises:
        UsageError: One has, so that the record could not tell them apart.
    """
    for name in (tool.name, tool.scoped_name):
        if name in others:
            raise UsageError(f"a tool on this bus is called {name!r} already; rename one, or give its group a prefix")


# ── result → response ────────────────────────────────────────────────────────────────────


def arguments_of(provider: CapabilityProvider, body: dict[str, Any]) -> Any:
    return body.get("input", {}) if provider.is_tool else body


def problems_of(provider: CapabilityProvider, body: dict[str, Any]) -> list[str]:
    """What is wrong with the body of a call."""
    if provider.tool is None:
        return []
    odd = [f"{part}: expected an object" for part in ("params", "input") if not isinstance(body.get(part, {}), dict)]
    return odd or provider.tool.validator.problems(arguments_of(provider, body))


def response_of(provider: CapabilityProvider, asked: BusCall, result: ToolResult) -> CapabilityResponse:
    """What a settled call gives its caller.

    Raises:
        BusError: It gave no response.
    """
    if result.error is not None or result.outcome != "ok":
        error = _error_of(provider, asked, result)
        if error.code in ELSEWHERE and not provider.descriptor.retriable:
            error.details[BEGUN] = True  # whatever its code says: it may have taken effect before that
        raise error
    if is_omitted(result.content):
        words = "it was done before this node was started anew, and its answer was too large to keep"
        raise BusError("internal_error", words, outcome="in_doubt")  # so that nobody does it again
    labels = provider.descriptor.labels
    if result.untrusted and (labels is None or result.labels == OUTSIDE):
        labels = OUTSIDE
    if not provider.is_tool:
        content: dict[str, Any] = result.content
        return CapabilityResponse(content["output"], with_labels(content.get("meta") or {}, labels))
    output: dict[str, Any] = {"content": result.content}
    if result.attachments:
        output["attachments"] = result.to_dict()["attachments"]
    meta: dict[str, Any] = {"warnings": list(result.warnings)} if result.warnings else {}
    return CapabilityResponse(output, with_labels(meta, labels))


def _error_of(provider: CapabilityProvider, asked: BusCall, result: ToolResult) -> BusError:
    code = "" if result.error is None else result.error.code
    message = result.text if result.error is None else result.error.message
    told, outcome = asked.error, result.outcome
    if told is not None and (code == told.code or outcome == told.outcome):
        return told
    match outcome:
        case "invalid_arguments":
            return bad_request_error(problems_of(provider, asked.body) or [message])
        case "failed" if code == "duplicate_id":
            return BusError("bad_request", message)
        case "failed" if code in WIRE:
            return BusError(code, message)
        case "failed" if not provider.is_tool and code != "invalid_output":
            message = f"{provider.descriptor.full_name} failed"
        case "ok":
            raise AssertionError("a settled call with a value is not an error")
    return _on_wire(outcome, message)


def wire_error(result: ToolResult) -> BusError:
    """Convert a result that is an error to a bus error: for a handler that passes on what `ToolExecutor.dispatch` gave.

    Raises:
        UsageError: The result is no error.
    """
    if result.outcome == "ok":
        raise UsageError(f"the result of {result.name!r} is not an error; return its content")
    return _on_wire(result.outcome, result.text if result.error is None else result.error.message)


def _on_wire(outcome: Outcome, message: str) -> BusError:
    wire = CODES[outcome].hearthnet
    delay = 1_000 if wire == "capacity_exceeded" else None
    return BusError(wire, message, outcome=outcome, retry_after_ms=delay)
