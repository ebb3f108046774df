"""The capabilities of this node: their tools, the executor that runs them, and the runs that their calls are in."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import Any

import msgspec

from handrail.core.backoff import longest_wait
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import BusError, JournalError, LeaseHeld, LeaseLost, OutcomeUnrecorded, UsageError
from handrail.core.events import CallProgress, Emit, ProgressListener, ignore_event
from handrail.core.ids import NewId
from handrail.core.ports import Approver, Clock, Journal, Tracer
from handrail.execute.executor import Executor
from handrail.execute.isolation.handler_target import check_isolation
from handrail.execute.policy import Policy
from handrail.node.bus.answered_calls import AnsweredCalls, Key, KnownLater, NothingBegun
from handrail.node.bus.call_runs import BusRuns
from handrail.node.bus.capability_providers import CapabilityProvider, CapabilityRegistry
from handrail.node.bus.compact_journal import CompactJournal
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler, Predicate
from handrail.node.bus.schemas import bad_request_error
from handrail.node.bus.streams import CapabilityResponse, FrameStream
from handrail.node.call_checks import check_reach, is_fault
from handrail.node.capability_call import BusCall
from handrail.node.capability_tools import (
    arguments_of,
    bus_policy,
    check_name_free,
    problems_of,
    response_of,
    tool_of,
)
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

logger = logging.getLogger(__name__)

_LETS_GO = 1.0
"""Seconds for which a run may be in use by another process that is about to let go of it."""
_encode = msgspec.json.Encoder(order="deterministic").encode


class LocalCapabilities:
    """Runs what this node offers, each call once."""

    def __init__(
        self,
        journal: Journal | None,
        policy: Policy | None,
        approver: Approver | None,
        deps: Any,
        tracer: Tracer | None,
        max_depth: int,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self.policy = bus_policy(policy, max_depth, asks=approver is not None)
        self._journal = journal = None if journal is None else CompactJournal(journal)
        self._clock = clock
        self._executor = Executor(
            RegisteredTools(()),
            policy=self.policy,
            approver=approver,
            journal=journal,
            deps=deps,
            tracer=tracer,
            clock=clock,
            new_id=new_id,
        )
        self._tools: dict[str, Tool] = {}
        """By each of their names."""
        self._is_changed = False
        self._runs = BusRuns(new_id, clock, self._executor.finish)
        self._replays = AnsweredCalls(clock)

    def add(
        self,
        descriptor: CapabilityDescriptor,
        handler: Handler,
        predicate: Predicate | None,
        registry: CapabilityRegistry,
        node_id: str,
    ) -> None:
        tool = tool_of(descriptor, handler)
        self._take(CapabilityProvider(descriptor, node_id, tool=tool, predicate=predicate), registry, tool)

    def add_tool(
        self, descriptor: CapabilityDescriptor, tool: Tool, registry: CapabilityRegistry, node_id: str
    ) -> None:
        self._take(CapabilityProvider(descriptor, node_id, tool=tool, is_tool=True), registry, tool)

    def _take(self, provider: CapabilityProvider, registry: CapabilityRegistry, tool: Tool) -> None:
        registry.add(provider)
        try:
            check_name_free(tool, self._tools)
            check_isolation(tool)
            tool.check_deps(self._executor.deps)
        except UsageError:
            registry.remove(provider.descriptor.name, provider.descriptor.version)
            raise
        self._tools[tool.name] = self._tools[tool.scoped_name] = tool
        self._is_changed = True

    def remove(self, provider: CapabilityProvider) -> None:
        self._tools = {name: tool for name, tool in self._tools.items() if tool is not provider.tool}
        self._is_changed = True

    def knows(self, key: Key) -> bool:
        """Whether this call is under way here, or has its answer."""
        return key in self._replays

    async def call(self, provider: CapabilityProvider, asked: BusCall, context: Context) -> CapabilityResponse:
        """Runs a call, once for each id that its caller gave.

        Raises:
            BusError: It gave no response.
        """
        body, encoded = asked.body, encode_or_empty(asked.body)
        asked.bytes_in = len(encoded)
        if not encoded or not isinstance(body.get("params", {}), dict) or not isinstance(body.get("input", {}), dict):
            raise bad_request_error(
                problems_of(provider, body) or ["the body has no JSON form of at most 64-bit integers"]
            )
        if (refusal := check_reach(context, self.policy.max_depth)) is not None:
            raise self._first(provider, asked, refusal)
        if asked.terms.call_id is None:
            return await self._run_with_capacity(provider, asked, context, asked.call_id)
        same = hashlib.sha256(provider.descriptor.full_name.encode() + b"\0" + encoded).digest()
        return await self._replays.once(
            (asked.caller.id, asked.call_id),
            same,
            lambda id: self._run_with_capacity(provider, asked, context, id),
            # A tool knows one call from another by a key that is drawn for each: it cannot tell that it ran before.
            again=provider.descriptor.retriable and not (provider.is_tool and provider.descriptor.side_effects),
            ended=lambda: _answer_after_cancel(provider, asked),
            until=context.deadline,
        )

    async def _run_with_capacity(
        self, provider: CapabilityProvider, asked: BusCall, context: Context, id: str
    ) -> CapabilityResponse:
        descriptor = provider.descriptor
        if provider.in_flight >= descriptor.max_concurrent:
            raise self._first(provider, asked, _full(provider))
        if self._is_changed:
            self._is_changed = False
            self._executor.renew(RegisteredTools(dict.fromkeys(self._tools.values())))
        if asked.channel is not None:  # an answer from memory has no frames: then its output is told
            asked.channel.hides_output = descriptor.stream_schema is not None
        with provider.serving(self._clock, lambda error: _is_own_fault(provider, asked, error)):
            return await self._run_in_record(provider, asked, context, id)

    async def _run_in_record(
        self, provider: CapabilityProvider, asked: BusCall, context: Context, id: str
    ) -> CapabilityResponse:
        if provider.tool is None:
            raise AssertionError("what this node offers has a tool")
        call = ToolCall(id, provider.tool.name, arguments_of(provider, asked.body))
        effect = not provider.descriptor.retriable and self._journal is not None
        session = asked.terms.session_id
        alone = asked.terms.call_id if effect and session is None else None
        run = self._runs.begin(asked.caller.id, session, self._executor.tools, alone)
        try:
            if (ending := self._runs.ending(run)) is not None:
                await asyncio.wait({ending})
            elif self._runs.are_ending:
                await asyncio.sleep(0)  # calls that never wait would let no run end, and keep all of their results
            context = msgspec.structs.replace(context, run=run.id)
            result = await self._invoke_once_free(call, context, asked)
            response = response_of(provider, asked, result)
            asked.bytes_out = len(encode_or_empty(response.output))
            return response
        except (LeaseHeld, LeaseLost) as error:
            raise _held(provider) from error
        except JournalError as error:
            raise _unrecorded(provider, error) from error
        finally:
            self._runs.end(run, asked.bytes_in + asked.bytes_out)

    async def _invoke_once_free(self, call: ToolCall, context: Context, asked: BusCall) -> ToolResult:
        """Invoke the call; while another replica has the run, for a moment, try again. A replica answers before it lets
        go of the run, and what it has settled is then read from the record."""
        tries, end = 0, time.monotonic() + _LETS_GO
        while True:
            try:
                return await self._invoke(call, context, asked)
            except LeaseHeld:
                if time.monotonic() >= end:
                    raise
            tries += 1
            await asyncio.sleep(longest_wait(tries, 0.02, 0.2))

    async def _invoke(self, call: ToolCall, context: Context, asked: BusCall) -> ToolResult:
        try:
            return await self._executor.invoke(call, context, _progress_to(asked.channel))
        except asyncio.CancelledError:
            if asked.terms.call_id is not None:  # whoever asks again is told what became of it
                asked.ended = await self._executor.result_of_left_call(call, context)
            raise

    def _first(self, provider: CapabilityProvider, asked: BusCall, refusal: BusError) -> BusError:
        """What is wrong with a body is told before what stands in its way."""
        problems = problems_of(provider, asked.body)
        return bad_request_error(problems) if problems else refusal

    async def aclose(self) -> None:
        await self._runs.aclose()
        await self._executor.aclose()


def _progress_to(channel: FrameStream | None) -> Emit:
    if channel is None:
        return ignore_event

    async def heard(event: CallProgress) -> None:
        channel.progress(event.current, event.total, event.stage)

    return ProgressListener(heard)


def _is_own_fault(provider: CapabilityProvider, asked: BusCall, error: BusError) -> bool:
    # The words of a tool that could not do what it was asked are for its caller: the tool is well.
    return is_fault(error, asked) and not (provider.is_tool and error.outcome == "failed")


def _answer_after_cancel(provider: CapabilityProvider, asked: BusCall) -> CapabilityResponse | BusError | None:
    try:
        return None if asked.ended is None else response_of(provider, asked, asked.ended)
    except BusError as error:
        return error


def _full(provider: CapabilityProvider) -> BusError:
    typical = provider.health.milliseconds(0.5)
    most = provider.descriptor.max_concurrent
    return NothingBegun(
        "capacity_exceeded",
        f"{provider.descriptor.full_name} does {most} at once, and that many are under way",
        outcome="limit",
        retry_after_ms=250 if typical is None else min(5_000, max(20, int(typical))),
    )


def _held(provider: CapabilityProvider) -> BusError:
    # Whoever asks again, once the other has answered or its lease has expired, is told what became of it.
    return NothingBegun(
        "partition",
        "another process works on the same session or call; wait for its end, or ask there",
        outcome="failed" if provider.descriptor.retriable else "in_doubt",
        retry_after_ms=1_000,
    )


def _unrecorded(provider: CapabilityProvider, error: JournalError) -> BusError:
    if not isinstance(error, OutcomeUnrecorded):
        logger.warning("a call of %s was not run: %s", provider.descriptor.full_name, error)
        why = "the record of this node cannot be kept, so the call was not run"
        return NothingBegun("internal_error", why, retry_after_ms=1_000, begun=False)
    logger.warning("a call of %s is not recorded: %s", provider.descriptor.full_name, error)
    how = "may have run" if error.outcome is None else f"ran and ended with {error.outcome!r}"
    return KnownLater(
        "internal_error",
        f"the call {how}, but the record of this node cannot be kept; do not repeat it",
        outcome="failed" if provider.descriptor.retriable else "in_doubt",
    )


def encode_or_empty(value: object) -> bytes:
    """The value as JSON, or no bytes if it has no JSON form: that is refused later, with the reason."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""
