"""A definition as a tool that can run: by a handler of the program's own, or by the capability that it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ResultLabels
from handrail.core.errors import BusError, Forbidden, MissingExtra, TimedOut, ToolError
from handrail.core.invocation import Invocation
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import CallTerms
from handrail.node.bus.result_labels import OUTSIDE, labels_from_elsewhere, said_labels
from handrail.node.bus.wire_codes import REFUSALS, WIRE
from handrail.node.capability_bus import CapabilityBus
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.tool import Tool

_MAY_NOT = frozenset({code for code, wire in WIRE.items() if wire.http in (401, 403)} | {"token_expired"})
"""Codes that say that the caller may not."""
TOOLS_CALL = "llm.tools.call"


def bound_tool(
    definition: ToolDefinition, bus: Bus, terms: CallTerms, handlers: Mapping[str, Callable[..., Any]]
) -> Tool:
    """The handler of that name comes first, then the binding; a tool with neither says so when it is called."""
    if (handler := handlers.get(definition.name)) is not None:
        return Tool(definition, handler)
    if definition.binding is not None:
        reads = not definition.side_effects
        bound = BoundCapability(bus, definition.binding, terms, reads=reads, definition=definition)
        return Tool(definition, bound.run, style="invocation")

    async def nothing(invocation: Invocation) -> Any:
        raise ToolError("not_implemented", f"{definition.name!r} is bound to no capability and has no handler")

    return Tool(definition, nothing, style="invocation")


def capability_body(binding: Binding, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a call: each argument in `params` or `input`, under its name there. A constant is not the model's."""
    halves: dict[str, dict[str, Any]] = {"params": {}, "input": {}}
    for name, value in {**arguments, **binding.constants}.items():
        halves["params" if name in binding.params else "input"][binding.renames.get(name, name)] = value
    return {half: fields for half, fields in halves.items() if fields or half == "input"}


@dataclass(slots=True, eq=False, repr=False)
class BoundCapability:
    """A capability as the handler of a tool, called for whoever calls the tool."""

    bus: Bus
    binding: Binding
    terms: CallTerms
    _: KW_ONLY
    reads: bool = False
    """Whether the tool was declared to change nothing; then its capability has to say so too."""
    definition: ToolDefinition | None = None
    """What is configured of the tool. Where it says who writes its results, that counts."""
    _harmless: set[str] = field(default_factory=set)
    """Capabilities that were seen to say so."""
    _streams: bool | None = None
    """Whether its response goes out in frames; None is not known yet."""

    async def run(self, invocation: Invocation) -> Any:
        """Its output. One that streams is drained to it; of any other, its progress is told.

        Raises:
            ToolError: It failed, or answered with an error.
        """
        trace = invocation.context.trace or self.terms.trace
        terms = replace(self.terms, call_id=invocation.idempotency_key, trace=trace)
        body = capability_body(self.binding, invocation.arguments)
        try:
            if self.reads:
                await self._check_harmless(body)
            output, meta = await (
                self._drained(body, terms) if await self._is_stream() else self._told(body, terms, invocation)
            )
        except BusError as error:
            if error.is_nested or not await self._is_of_this_node():
                self._label(invocation, OUTSIDE)  # an error has words, and no labels
            raise tool_error(error) from error
        labels = said_labels(meta) if self._is_own_bus else labels_from_elsewhere(meta, believed=False)
        if labels is not None:
            self._label(invocation, labels)
        if isinstance(output, dict) and output.get("error"):
            raise tool_error(BusError.from_dict(output))
        return output

    async def _check_harmless(self, body: Mapping[str, Any]) -> None:
        """A side effect that the tool does not declare would be made without anybody's approval."""
        name, target = self.binding.capability, body["input"].get("target_capability")
        if name == TOOLS_CALL and isinstance(target, str):
            name = target.partition("@")[0]  # that changes what its target does
        if name in self._harmless:
            return
        try:
            offers = await self.bus.discover(name)
        except MissingExtra:
            return
        if any(offer.descriptor.side_effects for offer in offers):
            raise Forbidden(f"{name} changes something, and this tool is declared not to; declare its side_effects")
        if offers:
            self._harmless.add(name)

    async def _is_stream(self) -> bool:
        if self._streams is None:
            try:
                offers = await self.bus.discover(self.binding.capability)
            except MissingExtra:  # what there is cannot be told here; to call it needs no extra
                return True
            if not offers:
                return False
            self._streams = any(offer.descriptor.stream_schema for offer in offers)
        return self._streams

    def _label(self, invocation: Invocation, labels: ResultLabels) -> None:
        """Have what the bus says of an answer count, unless the tool is configured otherwise."""
        known = self.definition
        if known is None or not (known.untrusted or known.own):
            private = () if known is None else known.private
            invocation.label_result(ResultLabels(labels.untrusted, (*labels.private, *private), labels.own))

    @property
    def _is_own_bus(self) -> bool:
        """Whether the bus is in this process, and has judged what other nodes say."""
        return isinstance(self.bus, CapabilityBus)

    async def _is_of_this_node(self) -> bool:
        """Whether nobody else can have answered."""
        if not self._is_own_bus:
            return False
        try:
            return all(offer.local for offer in await self.bus.discover(self.binding.capability))
        except MissingExtra:  # what there is cannot be told here
            return False

    async def _drained(self, body: dict[str, Any], terms: CallTerms) -> tuple[Any, Mapping[str, Any]]:
        response = await self.bus.call(self.binding.capability, self.binding.version, body, terms=terms)
        return response.get("output"), response.get("meta") or {}

    async def _told(
        self, body: dict[str, Any], terms: CallTerms, invocation: Invocation
    ) -> tuple[Any, Mapping[str, Any]]:
        output: Any = None
        async with self.bus.stream(self.binding.capability, self.binding.version, body, terms=terms) as frames:
            async for frame in frames:
                match frame.event:
                    case "progress":
                        _report(invocation, frame.data)
                    case "result":
                        output = frame.data
                    case "error":
                        raise BusError.from_dict(frame.data)
                    case "done":
                        return output, frame.data
        raise BusError("partition", "the stream broke off", outcome="in_doubt")


def _report(invocation: Invocation, data: Mapping[str, Any]) -> None:
    current, total, stage = data.get("current"), data.get("total"), data.get("stage")
    invocation.progress(
        current if isinstance(current, int | float) else None,
        total if isinstance(total, int | float) else None,
        stage if isinstance(stage, str) else "",
    )


def tool_error(error: BusError) -> ToolError:
    """What a model is told of an error of the bus: its code and its words, with the outcome that it means."""
    kind = REFUSALS.get(error.outcome)
    if kind is None and error.code in _MAY_NOT:
        kind = Forbidden
    if kind is None and error.code == "timeout":
        kind = TimedOut
    if kind is None:
        return ToolError(error.code, str(error))
    told = kind(str(error))
    told.code = error.code
    return told
