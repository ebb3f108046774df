"""One run: asks the model, has its calls settled, and again, until the model calls no tool or a limit is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import BrokenChoice, JournalError, LimitExceeded, ModelError, ToolFailed
from handrail.core.events import AttemptFailed, Emit, Notice
from handrail.core.ids import NewId
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.core.model_request import ModelRequest, ModelScratch, ToolChoice, ToolOffer
from handrail.core.ports import Model
from handrail.core.redact import redact
from handrail.core.tasks import run_to_completion
from handrail.core.timeouts import time_limit_at
from handrail.execute.executor import Executor
from handrail.run.history import last_user_position, unanswered_calls
from handrail.run.limits import Limits, RunBudget
from handrail.run.offering import ExternalTools, OfferableTools, ToolSelection
from handrail.run.reply import ModelReply
from handrail.run.run_calls import RunCalls, Started
from handrail.run.transcript import Follow, RunTranscript
from handrail.tools.registry import RegisteredTools

OnError = Literal["surface", "fail_fast"]
OnWait = Literal["tell", "pause"]
"""When a call waits for a person: tell the model, or end here until the call has its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """Who is asked, who settles the calls, and how far they may go together."""

    model: Model
    executor: Executor
    limits: Limits
    on_error: OnError
    on_wait: OnWait
    defaults: ModelRequest
    """What every request has besides its messages and tools: temperature, limits of tokens, and so on."""
    valid: tuple[tuple[str, ...], ...]
    """Lists of patterns; each must cover a tool for this model to be offered it, or to call it; an
    empty one leaves none."""
    own_ids: bool
    """Whether every call gets an id from here, so that no two calls of any two runs have the same."""
    new_id: NewId


FINALISE = "The limit of tool calls is reached. Finalise your answer now, without calling tools."


class SingleRun:
    """One run of the loop: its transcript, its calls and its used budget."""

    def __init__(
        self,
        terms: RunTerms,
        conversation: Conversation,
        context: Context,
        emit: Emit,
        follow: Follow | None,
        external: tuple[ToolOffer, ...],
        scratch: ModelScratch,
    ) -> None:
        self._terms = terms
        self._executor = terms.executor
        self._limits = terms.limits
        self._budget = RunBudget(self._limits, asyncio.get_running_loop().time())
        deadlines = [each for each in (context.deadline, self._budget.deadline) if each is not None]
        self._context = msgspec.structs.replace(
            context,
            model=terms.model.name,
            deadline=min(deadlines, default=None),
            within=(*context.within, *terms.valid),
            raised={} if terms.on_error == "fail_fast" else None,
        )
        self._emit = emit
        self.transcript = RunTranscript(conversation, self._executor, self._context, emit, follow)
        self._calls = RunCalls(self._executor, self._limits, self._context, emit)
        self._offers: ToolSelection
        self._elsewhere = ExternalTools(external)
        self._scratch = scratch
        self._ids = {message.id for message in conversation.messages if isinstance(message, InvocationMessage)}
        """Of every call so far; a model may use one again, and then it is given another."""
        self._checkpoint = len(conversation)
        self._turns = 0
        """Replies so far, since the user last spoke."""
        self._attempts = 0
        """That failed, at this reply."""
        self._ended = False
        """Whether it was cut off when everything was said."""

    @property
    def conversation(self) -> Conversation:
        return self.transcript.conversation

    async def begin(self, known: Conversation | None, offers_of: Callable[[RegisteredTools], OfferableTools]) -> None:
        """`known` is what is on record of it, if that need not be read."""
        self._ids |= await self._executor.runs.known_calls(self._context)  # from here on nobody else writes to the run
        self._offers = offers_of(self._executor.runs.tools_of(self.transcript.run)).begin()
        self._take_stock(await self.transcript.begin(known))
        await self.transcript.write_down()

    def _take_stock(self, known: int) -> None:
        """A run that is taken up has used something of its limits already; only time does not count on."""
        messages = self.conversation.messages
        self._ended = 0 < known == len(messages) and isinstance(messages[-1], AssistantMessage)
        calls: dict[str, ToolCall] = {}
        for at in range(last_user_position(messages) + 1, known):
            match message := messages[at]:
                case AssistantMessage():
                    self._checkpoint = min(at, self._checkpoint)
                    self._turns += 1
                    self._budget.spend(message.usage)
                case InvocationMessage():
                    calls[message.id] = message.call
                case ResultMessage() if message.invocation_id in calls:
                    self._calls.count(calls[message.invocation_id], message.result)

    async def loop(self, choice: ToolChoice) -> None:
        if self._ended:
            return
        if (cut_off := unanswered_calls(self.conversation)) and not await self._settle_calls(cut_off, {}):
            return
        while self._turns < self._limits.iterations and self._calls.wrong < self._limits.wrong_calls:
            if await self._is_over():
                return
            # A choice is for the first reply: a model that must call would never come to an answer.
            calls, started = await self._ask_model(choice if self._turns == 0 else "auto")
            self._turns += 1
            if not calls or not await self._settle_calls(calls, started):
                return
        if self._calls.wrong >= self._limits.wrong_calls:
            await self._at_the_limit("wrong calls", self._limits.wrong_calls)
        else:
            await self._at_the_limit("iterations", self._limits.iterations)

    async def _ask_model(self, choice: ToolChoice) -> tuple[tuple[InvocationMessage, ...], Started]:
        terms = self._terms
        shown = self._offers.shown(self.conversation.messages, choice)
        await self._executor.runs.record_offer(self._context, (*shown.names, *self._elsewhere.names), self._emit)
        request = msgspec.structs.replace(
            terms.defaults,
            messages=self.conversation.messages,
            tools=self._elsewhere.beside(shown),
            tool_choice=choice,
            scratch=self._scratch,
        )
        self._attempts = 0
        self._calls.await_reply()
        early = _never if choice == "none" else self._early
        reply = ModelReply(self._ids, terms.new_id, early, own_ids=terms.own_ids)
        try:
            whole, message = await self._reply(reply, request)
        except ModelError as error:
            await self._failed(AttemptFailed.of(error, terms.model.name), last=True)
            raise
        calls = tuple(reply.invocations) if whole and choice != "none" else ()
        self._budget.spend(message.usage)
        await self._take_in(message, calls, reply)
        if not whole:
            await self._is_over()
        return calls, reply.started

    def _early(self, call: ToolCall, emit: Emit) -> asyncio.Task[ToolResult] | None:
        return None if call.name in self._elsewhere.names else self._calls.early(call, emit)

    async def _reply(self, reply: ModelReply, request: ModelRequest) -> tuple[bool, AssistantMessage]:
        tracer = self._executor.tracer
        if tracer is None:
            return await self._read(reply, request), reply.message(self._executor.runs.now())
        with tracer.turn(self.transcript.run, self._terms.model, request, self._context) as span:
            whole, message = await self._read(reply, request), reply.message(self._executor.runs.now())
            span.replied(message)
            return whole, message

    async def _read(self, reply: ModelReply, request: ModelRequest) -> bool:
        """Whether it came whole: the limit of seconds may cut it."""
        if self._budget.deadline is None:
            await reply.read(self._terms.model, request, self._emit, self._failed)
            return True
        try:
            async with time_limit_at(self._budget.deadline) as time:
                await reply.read(self._terms.model, request, self._emit, self._failed)
        except TimeoutError:
            if not time.expired():
                raise
            return False
        return True

    async def _take_in(
        self, message: AssistantMessage, calls: tuple[InvocationMessage, ...], reply: ModelReply
    ) -> None:
        try:
            await self.transcript.reply(message, calls)
        except asyncio.CancelledError:
            self.transcript.grow(message, *calls)
            await run_to_completion(self._wind_up(calls, reply))
            raise
        except BaseException:
            await reply.abandon()
            raise
        self.transcript.grow(message, *calls)

    async def _failed(self, attempt: AttemptFailed, *, last: bool = False) -> None:
        self._attempts += 1
        await self.transcript.failed(attempt, self._attempts, last=last)

    async def _settle_calls(self, calls: tuple[InvocationMessage, ...], started: Started) -> bool:
        """Every call gets exactly one result, the real one if it finished, whatever happens meanwhile.

        False if a call waits for a person and the run is to wait with it, or is answered elsewhere; then that call
        has none yet.
        """
        here = self._elsewhere.left_here(calls)
        try:
            results = await self._calls.settle_reply(here, started)
        except JournalError:
            raise  # without a record there is no answer to take in; each call is found out when the run is taken up
        except BaseException:
            await run_to_completion(self._wind_up(calls))
            raise
        settled = [result for result in results if result.outcome != "needs_confirmation"]
        waiting = [result for result in results if result.outcome == "needs_confirmation"]
        handed_over = len(here) < len(calls)
        paused = bool(waiting) and self._terms.on_wait == "pause"
        if paused or handed_over:
            await self.transcript.tell(settled if paused else results)
        else:
            self.transcript.settled(settled)
            await self.transcript.tell(waiting)
        if self._terms.on_error == "fail_fast":
            await self._fail_on(settled if paused else results)
        return not (paused or handed_over)

    async def _wind_up(self, calls: tuple[InvocationMessage, ...], reply: ModelReply | None = None) -> None:
        """The caller is gone: end what is under way, and take in what became of each call."""
        if reply is not None:
            await reply.abandon()
        self.transcript.settled(await self._calls.known(self._elsewhere.left_here(calls)))

    async def _fail_on(self, results: list[ToolResult]) -> None:
        failed = next((result for result in results if result.is_error), None)
        if failed is None:
            return
        await self._emit(Notice(text=f"tool {failed.name!r} failed: {failed.text}"))
        arguments = self._arguments_of(failed)
        raised = self._context.raised or {}
        await self.transcript.take_back(self._checkpoint)
        raise ToolFailed(failed.name, failed.outcome, failed.text, arguments) from raised.get(failed.tool_call_id)

    def _arguments_of(self, result: ToolResult) -> dict[str, Any] | str:
        """What the call of a result was made with, without its secrets."""
        asked = (each for each in self.conversation.messages if isinstance(each, InvocationMessage))
        call = next((each.call for each in asked if each.id == result.tool_call_id), None)
        if call is None:
            return {}
        tools = self._executor.runs.tools_of(self.transcript.run)
        masked = tools.find(call.name).masked(call.arguments) if call.name in tools else call.arguments
        found: dict[str, Any] | str = redact(masked)
        return found

    async def _is_over(self) -> bool:
        """Whether a limit other than the iterations is reached; then the run ends with what it has."""
        reached = self._budget.exceeded(asyncio.get_running_loop().time())
        if reached is None:
            return False
        if self._limits.on_limit == "error":
            raise LimitExceeded(*reached)
        await self._emit(Notice(text=f"stopped at the limit of {reached[1]:g} {reached[0]}"))
        return True

    async def _at_the_limit(self, limit: str, value: int) -> None:
        match self._limits.on_limit:
            case "error":
                raise LimitExceeded(limit, value)
            case "finalise":
                if not await self._is_over():
                    await self.transcript.supervise(FINALISE)
                    await self._finalise(limit, value)

    async def _finalise(self, limit: str, value: int) -> None:
        try:
            await self._ask_model("none")
        except BrokenChoice:  # it cannot do without; what was said and done so far is the answer
            await self._emit(Notice(text=f"stopped at the limit of {value} {limit}: the model goes on calling tools"))


def _never(call: ToolCall, emit: Emit) -> None:
    """Start no call early."""
