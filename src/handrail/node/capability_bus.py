"""The bus of one process: the only place where capabilities run, for programs, for doors and for each other.

    bus = CapabilityBus()
    bus.register(CapabilityDescriptor(name="echo.say"), say)
    await bus.call("echo.say", (1, 0), {"input": {"text": "hello"}})

It is no server. HTTP and NATS are doors to it: they find out who asks, and pass that on explicitly, as `CallTerms`.

A call takes these steps, which stand below in this order:

1. `call` and `stream` make terms of their options; `_serve_and_trace` counts the call and notes how it ended.
2. `_admit_and_route` finds who offers the capability, asks admission who the caller is, and keeps a call that must not
   run twice to one provider (`call_placements.py`).
3. `_try_providers` asks one provider after the other, as long as nothing was begun by the one before.
4. `_call_provider` checks trust, schema, depth and time. A capability of this node is run by its executor, once for
   each id that a caller gave (`local_calls.py`); another node is asked on behalf of the caller (`remote_calls.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Unpack

from handrail.core.closing import ClosedOnExit
from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Clock, Journal, SystemClock, Tracer
from handrail.execute.approvers import AnyApprover, as_approver
from handrail.execute.policy import Policy
from handrail.node.bus.answered_calls import Key
from handrail.node.bus.call_placements import CallPlacements
from handrail.node.bus.call_trace import CallTraceEvent, TraceRing, topology
from handrail.node.bus.capability_providers import CapabilityProvider, CapabilityRegistry, ConnectedPeer
from handrail.node.bus.descriptor import CapabilityDescriptor, Trust
from handrail.node.bus.interfaces import (
    Admission,
    Bus,
    CallOptions,
    CapabilityOffer,
    Handler,
    Predicate,
    StreamOptions,
)
from handrail.node.bus.peers import ConnectedPeers
from handrail.node.bus.request import Caller, CallTerms, RouteRequest
from handrail.node.bus.routing import CapabilityRouter, ProvidersSuspended
from handrail.node.bus.schemas import CapabilitySchemas
from handrail.node.bus.streams import CapabilityResponse, FrameStream
from handrail.node.bus.versions import Version, VersionReq, version_of
from handrail.node.call_checks import (
    admit,
    check_reach,
    check_trust_and_right,
    is_admitted_to,
    is_elsewhere,
    may_run_again,
    pinned_provider,
)
from handrail.node.capability_call import BusCall, ended_call_trace
from handrail.node.capability_tools import capability_of
from handrail.node.local_calls import LocalCapabilities
from handrail.node.remote_calls import forward_call
from handrail.tools.definition import Binding
from handrail.tools.tool import Tool

logger = logging.getLogger(__name__)

Registration = tuple[CapabilityDescriptor, Handler] | tuple[CapabilityDescriptor, Handler, Predicate]


class CapabilityService(Protocol):
    """What offers several capabilities at once."""

    def capabilities(self) -> Iterable[Registration]: ...


class CapabilityBus(ClosedOnExit):
    """Registers, routes and calls capabilities. Use it with `async with`, or close it."""

    def __init__(
        self,
        *,
        node_id: str = "self",
        admission: Admission | None = None,
        journal: Journal | None = None,
        policy: Policy | None = None,
        approver: AnyApprover | None = None,
        deps: Any = None,
        tracer: Tracer | None = None,
        max_depth: int = 6,
        ring: int = 10_000,
        clock: Clock | None = None,
        new_id: NewId = new_id,
    ) -> None:
        """`approver` is asked about side effects, as standing rules may be; by default the caller's right is enough.

        `deps` is what tools get as `Invocation.deps`, whoever calls: dependencies of a caller stay where it is.
        """
        self._node_id = node_id
        self._admission = admission
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self.max_depth = max_depth
        self.registry: CapabilityRegistry = CapabilityRegistry()
        self.schema: CapabilitySchemas = CapabilitySchemas()
        self.listeners: list[Callable[[CallTraceEvent], None]] = []
        """Told of every call that has ended."""
        self.under_way: int = 0
        """Calls that have not ended."""
        self._idle = asyncio.Event()
        self._traces = TraceRing(ring)
        self._router = CapabilityRouter(self._clock)
        self._placed = CallPlacements(self._clock)
        self._peers = ConnectedPeers(node_id, self._clock)
        approver = as_approver(approver)
        self._local = LocalCapabilities(journal, policy, approver, deps, tracer, max_depth, self._clock, new_id)
        self._unrecorded = LocalCapabilities(None, policy, approver, deps, tracer, max_depth, self._clock, new_id)
        self._closed = False

    @property
    def node_id(self) -> str:
        return self._node_id

    # ── what there is ────────────────────────────────────────────────────────────────

    def register(self, descriptor: CapabilityDescriptor, handler: Handler, predicate: Predicate | None = None) -> None:
        """Offer a capability.

        Raises:
            UsageError: It is registered already, or it cannot work as it is described.
        """
        self._executor_of(descriptor).add(descriptor, handler, predicate, self.registry, self._node_id)

    register_capability = register

    def register_service(self, service: CapabilityService) -> None:
        """Offer everything that a service has, or nothing of it if one of them cannot be registered."""
        done: list[CapabilityDescriptor] = []
        try:
            for registration in service.capabilities():
                self.register(*registration)
                done.append(registration[0])
        except BaseException:
            for descriptor in done:
                self.unregister(descriptor.name, descriptor.version)
            raise

    def register_tool(
        self,
        tool: Tool,
        *,
        name: str | None = None,
        version: Version = (1, 0),
        trust: Trust = "member",
    ) -> CapabilityDescriptor:
        """Offer a tool as it is, where and as long as it runs: `input` are its arguments, `output.content` its result.

        Raises:
            UsageError: The capability, or a tool of that name, is registered already, or the tool needs other
                dependencies than those of the bus.
        """
        descriptor = capability_of(tool, name, version, trust, self._local.policy)
        bound = tool.changed(binding=Binding(descriptor.name, version))
        self._local.add_tool(descriptor, bound, self.registry, self._node_id)
        return descriptor

    def unregister(self, name: str, version: Version) -> None:
        """Offer it no longer; calls under way go on.

        Raises:
            UsageError: It is not registered.
        """
        provider = self.registry.remove(name, version)
        self.schema.forget(provider.descriptor)
        self._executor_of(provider.descriptor).remove(provider)

    async def connect(
        self, remote: Bus, *, refresh: float = 30.0, keep: bool = False, name: str = "", believed: bool = False
    ) -> None:
        """Let calls go to another bus too, for what it has; it is asked again from time to time.

        With `keep` it joins when it comes, also if it is not there now; that is raised all the same. `name` is what
        people call it. Its answers count as written by outsiders, unless it is `believed` about who wrote them.

        Raises:
            BusError: It cannot be reached.
            UsageError: It has our own id.
        """
        await self._peers.connect(remote, refresh, keep=keep, name=name, believed=believed)

    async def disconnect(self, remote: Bus) -> None:
        """Sends no more calls there. Its owner closes it."""
        await self._peers.disconnect(remote)

    async def discover(self, name: str | None = None) -> list[CapabilityOffer]:
        """What this node has for others, and what it last heard that they have. It waits for nobody."""
        providers = [*(each for each in self.registry if each.descriptor.recorded), *self._peers.fresh()]
        return [
            CapabilityOffer(
                node_id=each.node_id,
                descriptor=each.descriptor,
                schema_hash=each.descriptor.schema_hash,
                local=each.is_local,
                in_flight=each.in_flight,
            )
            for each in providers
            if name is None or each.descriptor.name == name
        ]

    # ── calls ────────────────────────────────────────────────────────────────────────

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        return (await self._serve_and_trace(capability, version_req, body, CallTerms.of(options), None)).to_dict()

    def stream(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[StreamOptions]
    ) -> FrameStream:
        terms = CallTerms.of(options)

        async def serve(stream: FrameStream) -> CapabilityResponse:
            response = await self._serve_and_trace(capability, version_req, body, terms, stream)
            return CapabilityResponse(None, response.meta) if stream.hides_output else response

        return FrameStream(serve, interactive=terms.interactive)

    async def handle_call(self, request: RouteRequest) -> dict[str, Any]:
        """Make a call that somebody else has put together, on behalf of whom it says."""
        options: CallOptions = {
            **request.passed_on(),
            "depth": request.context.depth,
            "call_id": request.call_id or None,
        }
        return await self.call(request.capability, request.version, request.body, **options)

    async def _serve_and_trace(
        self, name: str, wanted: VersionReq, body: Any, terms: CallTerms, channel: FrameStream | None
    ) -> CapabilityResponse:
        started, result, response = self._clock.monotonic(), "ok", None
        asked = BusCall(self, name, body, terms.from_now(), terms.call_id or self._new_id("call"), channel)
        self.under_way += 1
        try:
            asked.wanted = version_of(wanted)
            response = await self._admit_and_route(asked)
            ms = round((self._clock.monotonic() - started) * 1000, 3)
            response = CapabilityResponse(response.output, {**response.meta, "ms": ms})
            return response
        except BusError as error:
            result = error.code
            raise
        except BaseException as error:
            result = "cancelled" if isinstance(error, asyncio.CancelledError) else "internal_error"
            raise
        finally:
            self.under_way -= 1
            self._note(asked, result, (self._clock.monotonic() - started) * 1000, response)

    async def _admit_and_route(self, asked: BusCall) -> CapabilityResponse:
        if self._closed:
            raise BusError("partition", "this node is closing", retry_after_ms=1_000)
        name, params = asked.name, asked.body.get("params")
        known = self.registry.of(name)
        if self._peers.any and all(each.descriptor.recorded for each in known):
            known = [*known, *await self._peers.of(name, known)]
        routes, alone = self._routes(asked, known, params if isinstance(params, dict) else {})
        asked.provider = routes[0]
        if self._admission is not None or asked.token is not None:
            asked.caller = await admit(self._admission, asked, routes[0].descriptor)
        if asked.terms.call_id is None:
            return await self._try_providers(routes, asked)
        key = (asked.caller.id, asked.call_id)
        if alone is not None:
            routes = [self._provider_that_had(key, routes, alone)]
        if not self._peers.any or may_run_again(routes):
            return await self._try_providers(routes, asked)
        with await self._placed.turn(key, asked.terms.depth, asked.terms.deadline):
            if (before := self._placed.providers.get(key)) is not None:
                routes = [pinned_provider(before, known, asked)]
            return await self._try_providers(routes, asked, key)

    def _routes(
        self, asked: BusCall, known: list[CapabilityProvider], params: dict[str, Any]
    ) -> tuple[list[CapabilityProvider], ProvidersSuspended | None]:
        """The providers that may be asked. With a reason why not, they may be asked only about a call that they had."""
        try:
            return self._router.order(asked.name, asked.wanted, known, params, asked.who), None
        except ProvidersSuspended as alone:
            if asked.terms.call_id is None:
                raise
            return alone.providers, alone

    def _provider_that_had(
        self, key: Key, providers: list[CapabilityProvider], alone: ProvidersSuspended
    ) -> CapabilityProvider:
        before = self._placed.providers.get(key)
        for each in providers:
            if each is before or (each.is_local and self._executor_of(each.descriptor).knows(key)):
                return each
        raise alone

    async def _try_providers(
        self, routes: list[CapabilityProvider], asked: BusCall, key: Key | None = None
    ) -> CapabilityResponse:
        """What the first gives who gives something. `key` is that of a call which must not run twice."""
        failed: BusError | None = None
        for provider in routes:
            if failed is not None and not await is_admitted_to(self._admission, asked, routes[0], provider):
                continue
            asked.provider = provider
            if key is not None:
                self._placed.providers[key] = provider
            try:
                response = await self._call_provider(provider, asked)
            except BusError as error:
                if not is_elsewhere(error, provider.descriptor):
                    raise
                if key is not None:
                    self._placed.providers.pop(key, None)
                if asked.channel is not None and asked.channel.has_sent:
                    raise
                failed = failed if failed is not None and error.details.get("came_back") else error
            else:
                self._router.went(asked.who, provider)
                return response
        raise failed or AssertionError("there is somebody to ask")

    def _executor_of(self, descriptor: CapabilityDescriptor) -> LocalCapabilities:
        return self._local if descriptor.recorded else self._unrecorded

    async def _call_provider(self, provider: CapabilityProvider, asked: BusCall) -> CapabilityResponse:
        context = check_trust_and_right(provider.descriptor, asked)
        if asked.channel is not None:
            asked.channel.serves(provider)
        if provider.bus is None:
            return await self._executor_of(provider.descriptor).call(provider, asked, context)
        if (refusal := check_reach(context, self.max_depth)) is not None:
            raise refusal
        return await forward_call(
            provider, provider.bus, asked, self._caller_shown_to(asked.caller, provider.bus), context, self._clock
        )

    def _caller_shown_to(self, caller: Caller, bus: Bus) -> Caller:
        """The caller that another node sees. Over a wire this program signs; a bus in this process would take the
        caller for its own."""
        if caller.trust != "self" or not isinstance(bus, CapabilityBus):
            return caller
        return Caller(principal=Principal(self._node_id, caller.principal.scopes), trust="member", token=caller.token)

    # ── what became of them ──────────────────────────────────────────────────────────

    def _note(self, asked: BusCall, result: str, ms: float, response: CapabilityResponse | None) -> None:
        if not self.under_way:
            self._idle.set()
        event = ended_call_trace(asked, result, ms, response, self._clock.now())
        self._traces.add(event, None if asked.provider is None else asked.provider.full_name)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception as error:  # the call has its answer, whoever cannot hear of it
                logger.error("a listener of the bus failed with %s", type(error).__name__)

    def recent_traces(self, n: int = 50) -> list[CallTraceEvent]:
        """What became of the last calls, the newest first."""
        return self._traces.recent(n)

    def stats(self) -> dict[str, dict[str, Any]]:
        """The statistics of each capability: calls, how they ended, how many are under way, how long they take."""
        return self._traces.stats([*self.registry, *self._peers.providers()])

    def topology_snapshot(self) -> dict[str, Any]:
        """Which node has what, and how it is doing."""
        providers = [*self.registry, *self._peers.providers()]
        return {"node_id": self._node_id, "nodes": topology(self._node_id, providers, self._clock.monotonic())}

    def neighbours(self, older: float = 30.0) -> tuple[ConnectedPeer, ...]:
        """The buses that were connected, lost or not; those not heard of for so many seconds are asked again."""
        return self._peers.all(older)

    # ── its end ──────────────────────────────────────────────────────────────────────

    async def drained(self) -> None:
        """Wait until no call is under way. Put a timeout around it."""
        while self.under_way:
            self._idle.clear()
            await self._idle.wait()

    async def aclose(self) -> None:
        """Take no more calls, end what still runs where that is possible, and let go of every run."""
        self._closed = True
        await self._peers.aclose()
        await self._local.aclose()
        await self._unrecorded.aclose()
