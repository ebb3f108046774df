"""The calls of one run and their states: settled, running, left open by a dead process, confirmed.

It is the journal's memory while a run is worked on. Each call id is settled once;
asking again gives the same answer, whatever happened in between.

A call id is in these states, one after the other; `unknown` goes beside them:

    asked        its name and arguments are fixed            `settle_once`
    under way    somebody settles it, others wait with them  `settle_once`
    open         its intent is on record and its end is not  `note` of `CallIntended`
    on the way   its result is being written                 `is_writing`
    unwritten    its result could not be written             `is_lost`; asked again, it is only written
    settled      its result is on record, and is the answer  `note` of `CallSettled`, or `keep_result`
    unknown      an effect may have taken place, and its end is not on record: until `known`
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import grant_binding
from handrail.core.errors import Outcome, ToolError
from handrail.core.events import (
    CallAmended,
    CallAsked,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    ConversationChanged,
    Recorded,
)
from handrail.core.messages import InvocationMessage, Message, ResultMessage
from handrail.core.ports import Lease
from handrail.core.single_flight import SingleFlight
from handrail.execute.origins.plans import RunPlan
from handrail.execute.origins.run_origins import RunOrigins
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool


class CallLedger:
    """One run's calls, from its history and from now on."""

    def __init__(
        self,
        run: str,
        tools: RegisteredTools,
        lease: Lease | None = None,
        history: Sequence[Recorded] = (),
        *,
        is_below: bool = False,
        follows_origins: bool = True,
    ) -> None:
        """`is_below` is for a run that a call began: a model wrote its prompt."""
        self.run = run
        self.tools: RegisteredTools = tools
        """What its calls may name, from when it was begun or taken up until it is let go."""
        self._lease = lease
        self._settled: dict[str, ToolResult] = {}
        self._on_the_way: dict[str, ToolResult] = {}
        """Answers that are being written. Who was cancelled may not wait for the end of that, and it is the answer."""
        self._asked: dict[str, ToolCall] = {}
        self._flights: SingleFlight[str, ToolResult] = SingleFlight()
        self.open: dict[str, CallIntended] = {}
        """Begun by a process that died before it could say how they ended."""
        self.requests: dict[str, ConfirmationRequested] = {}
        self._requests_of: dict[str, list[ConfirmationRequested]] = {}
        self.answers: dict[str, ConfirmationAnswered] = {}
        """By request. The first answer to a question is the answer."""
        self._awaited: dict[str, asyncio.Future[ConfirmationAnswered]] = {}
        """The questions whose answer somebody waits for, by request."""
        self._used: set[str] = set()
        self.unwritten: dict[str, tuple[ToolResult, Callable[[], Awaitable[None]]]] = {}
        """Answers that are known and could not be written, and what writes them."""
        self.unknown: set[str] = set()
        """Side effects that may have taken place, and whose end is not on record."""
        self._words: dict[str, dict[str, Any]] = {}
        """Tool definitions that people were asked about, by digest."""
        self._approved: dict[str, str] = {}
        """The digest of the definition under which a tool was last allowed to run."""
        self.answered_unrun: dict[tuple[str, Outcome], list[Any]] = {}
        """The arguments of calls that were answered by what is known of another one, its result or that nobody knows,
        by tool and answer, as the record has them."""
        self._asked_unrun: dict[str, Any] = {}
        self.origins: RunOrigins = RunOrigins(follows=follows_origins)
        """Whose words it has read, and where the values come from that it has seen."""
        self.withheld: dict[str, str] = {}
        """The words that handles stand for."""
        self.plan: RunPlan | None = None
        """What the model stated that it would do for the person's last words, before it read anything from outside."""
        self._alike: dict[tuple[Tool, frozenset[str]], tuple[int, dict[frozenset[tuple[str, str]], list[str]]]] = {}
        """The answered calls of a tool by the texts they were made with, and how many answers are in it."""
        self._is_below = is_below
        self.before: dict[str, CallIntended] = {}
        """What earlier processes intended, so that an id cannot come to mean another call."""
        for event in history:
            self.note(event)
            if isinstance(event, CallIntended):
                self.before[event.call_id] = event
        self.unknown |= {id for id, begun in self.open.items() if begun.side_effects}
        self.continues: bool = False
        """Whether this process let the run go before and took it up again, and knows everything of it."""
        self.history: Sequence[Recorded] | None = history
        """What the record had when it was taken up, nothing if it is new; None once something was written besides."""

    def note(self, event: Recorded) -> None:
        """Take an event into account, from the history or just recorded."""
        self.history = None
        match event:
            case CallIntended():
                if event.call_id in self._settled:
                    self._alike.clear()
                self.open[event.call_id] = event
                self.origins.ask(event.call_id, event.arguments)
                if event.grant is not None:
                    self._used.add(event.grant)
            case CallAsked():
                if event.call_id in self._settled:
                    self._alike.clear()
                self._asked_unrun[event.call_id] = event.arguments
                self.origins.ask(event.call_id, event.arguments)
            case CallSettled():
                if event.call_id in self._asked_unrun:
                    arguments = self._asked_unrun.pop(event.call_id)
                    if event.outcome in ("ok", "in_doubt"):
                        self.answered_unrun.setdefault((event.tool, event.outcome), []).append(arguments)
                self.known(event.call_id)
                self._keep(event.result or _erased(event))
                if event.result is None:  # what was erased may have come from anywhere
                    self.origins.read_outside(event.tool)
            case CallAmended(result=result, why="person") if result is not None:
                self.known(event.call_id)
                self._keep(result)
            case CallAmended(result=result) if result is not None and result.untrusted:
                self.origins.read_outside(result.name)
            case ConfirmationRequested():
                self.requests[event.request] = event
                self._requests_of.setdefault(event.call_id, []).append(event)
                if event.asked is not None and event.asked.words is not None:
                    self._words[event.asked.definition] = event.asked.words
            case ConfirmationAnswered():
                self._note_answer(event)
            case ConversationChanged(messages=messages):
                if messages:
                    if self._alike:
                        self._forget_alike(messages)
                    results = [each.result for each in messages if type(each) is ResultMessage]
                    for result in results:
                        if result.withheld:
                            self._withhold(result)
                    self.origins.hear(messages, self.tools, below=self._is_below)

    def _forget_alike(self, messages: tuple[Message, ...]) -> None:
        asked = (message for message in messages if isinstance(message, InvocationMessage))
        if any(not self.origins.arguments_of(message.call.id) for message in asked):
            self._alike.clear()  # only now is it known what it was made with

    def _withhold(self, result: ToolResult) -> None:
        self.withheld.update((each.handle, each.text) for each in result.withheld if each.handle)

    def complete_arguments(self, call_id: str, arguments: dict[str, Any]) -> None:
        """Notes what a call is made with once words stand in place of handles."""
        self._alike.clear()
        self.origins.ask(call_id, arguments)

    def join(self, above: CallLedger) -> None:
        """Have read what the run has read whose call began this one, and the other way round."""
        above.withheld.update(self.withheld)
        self.withheld = above.withheld
        self.origins = self.origins.below(above.origins)
        self.plan = None if above.plan is None else RunPlan.none(asks=above.plan.asks)
        self._alike.clear()
        self._is_below = True

    def was_done(self, tool: Tool, arguments: dict[str, Any], besides: frozenset[str]) -> bool:
        """Whether a call was answered `ok` in this run that is equal but for the arguments in `besides`."""

        def compared(given: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in given.items() if name not in besides}

        def made_with(id: str) -> dict[str, Any]:
            return compared(tool.complete(self.origins.arguments_of(id)))

        seen, alike = self._alike.get((tool, besides)) or (0, {})
        for id, result in islice(self._settled.items(), seen, None):
            if result.name in tool.names:
                alike.setdefault(_texts(made_with(id)), []).append(id)
        self._alike[tool, besides] = len(self._settled), alike
        wanted = compared(arguments)
        return any(
            self._settled[id].outcome == "ok" and made_with(id) == wanted for id in alike.get(_texts(wanted), ())
        )

    def has_other_effect(self, tool: Tool) -> bool:
        """Whether a side effect of another tool was answered `ok` in this run."""
        return any(
            result.outcome == "ok"
            and result.name not in tool.names
            and result.name in self.tools
            and not self.tools.find(result.name).reads
            for result in self._settled.values()
        )

    def known(self, call_id: str) -> None:
        """Marks a call as no longer in doubt."""
        self.open.pop(call_id, None)
        self.unknown.discard(call_id)

    def has_end(self, call_id: str) -> bool:
        """Whether its answer is there, or on its way into the record."""
        return call_id in self._settled or call_id in self._on_the_way

    def is_writing(self, result: ToolResult) -> None:
        """Notes that this result is being written to the journal."""
        self._on_the_way[result.tool_call_id] = result

    def is_lost(self, result: ToolResult, write: Callable[[], Awaitable[None]]) -> None:
        """Notes that a result could not be written; `write` tries again."""
        self._on_the_way.pop(result.tool_call_id, None)
        self.unwritten[result.tool_call_id] = result, write

    def _keep(self, result: ToolResult) -> None:
        self._on_the_way.pop(result.tool_call_id, None)
        self._settled[result.tool_call_id] = result
        self._withhold(result)
        self.origins.settle(result, self.tools)
        if result.untrusted:
            self.origins.read_outside(result.name)

    def _note_answer(self, answer: ConfirmationAnswered) -> None:
        if self.answers.setdefault(answer.request, answer) is not answer:
            return
        waits = self._awaited.pop(answer.request, None)
        if waits is not None and not waits.done():
            waits.set_result(answer)
        if answer.decision != "allow":
            return
        request = self.requests.get(answer.request)
        if request is not None and request.asked is not None:
            self._approved[request.tool] = request.asked.definition

    def request_for(
        self, call_id: str, tool: str, arguments: dict[str, Any], definition: str
    ) -> ConfirmationRequested | None:
        """The question that was last asked about exactly this call of the tool as it is defined now."""
        for request in reversed(self._requests_of.get(call_id, ())):
            if request.asked is not None:
                binds = grant_binding(request.asked.nonce, self.run, call_id, tool, arguments, definition)
                if binds == request.binds:
                    return request
        return None

    def earlier_definition(self, call_id: str, tool: str, definition: str) -> str | None:
        """The digest of another definition that the tool had when it was last allowed, or this call was asked about."""
        asked = (each.asked.definition for each in self._requests_of.get(call_id, ()) if each.asked is not None)
        last = self._approved.get(tool) or next(asked, None)
        return last if last and last != definition else None

    def words_of(self, definition: str) -> dict[str, Any] | None:
        """A definition that a person of this run was asked about, unless it was erased."""
        return self._words.get(definition)

    @property
    def calls(self) -> set[str]:
        """The ids that name a call of this run; none of them may come to name another."""
        return {*self._settled, *self._asked, *self.open, *self.before}

    def has_call(self, call_id: str) -> bool:
        """Whether an id names a call of this run: one of `calls`, without making them all."""
        return any(call_id in known for known in (self._asked, self._settled, self.open, self.before))

    @property
    def begun(self) -> set[str]:
        """The ids of calls that were begun or answered. One that only waits for a person is not among them."""
        return {*self._settled, *self._on_the_way, *self.open, *self.before}

    def unused_answer(self, request: ConfirmationRequested) -> ConfirmationAnswered | None:
        """The person's decision on it, if it was given and not yet used."""
        answer = self.answers.get(request.request)
        return None if answer is None or answer.request in self._used or answer.binds != request.binds else answer

    async def wait_in_process(self, request: str) -> ConfirmationAnswered:
        """The answer to a question, once it is known in this run."""
        if request in self.answers:
            return self.answers[request]
        waits = self._awaited.setdefault(request, asyncio.get_running_loop().create_future())
        return await asyncio.shield(waits)

    def was_edited(self, intent: CallIntended) -> bool:
        """Whether a person changed its arguments before it ran."""
        answer = self.answers.get(intent.grant or "")
        return answer is not None and answer.edited

    async def settle_once(self, call: ToolCall, settle: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Settle a call unless it is settled; two that ask at once share the answer.

        Raises:
            ToolError: The id already names another call.
        """
        known = self._asked.setdefault(call.id, call)
        self.origins.ask(call.id, call.arguments)
        if known is not call and (known.name, known.arguments) != (call.name, call.arguments):
            raise ToolError("duplicate_id", f"call id {call.id!r} already names another call; give each its own id")
        result, _ = await self._flights.share(call.id, lambda: self._known_or_settled(call.id, settle))
        return result

    async def _known_or_settled(self, call_id: str, settle: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        result = self._settled.get(call_id) or self._on_the_way.get(call_id)
        if result is None:
            result = await settle()
            self.keep_result(result)
        return result

    def keep_result(self, result: ToolResult) -> None:
        """Keep an answer as the answer. One that waits for a person's decision is not yet one."""
        if result.outcome != "needs_confirmation":
            self._keep(result)

    def release(self) -> None:
        """Let others work on the run."""
        if self._lease is not None:
            self._lease.release()

    def take_up(self, tools: RegisteredTools, lease: Lease) -> None:
        """Go on after the run was let go of, and nobody wrote to its record meanwhile."""
        self.tools, self._lease, self.continues = tools, lease, True
        self.before.update(self.open)
        self.unknown |= {id for id, begun in self.open.items() if begun.side_effects}


def _texts(given: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in given.items() if isinstance(value, str))


def _erased(event: CallSettled) -> ToolResult:
    return ToolResult(event.call_id, event.tool, "[this result was erased]", event.outcome)
