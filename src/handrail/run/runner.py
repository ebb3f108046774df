"""The runner: the only thing that loops. It pushes events, so streaming and not are the same code."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import (
    BrokenChoice,
    HandrailError,
    JournalError,
    LimitExceeded,
    ModelError,
    ToolFailed,
)
from handrail.core.events import AttemptFailed, Emit, Notice, ignore
from handrail.core.ids import NewId, new_id
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    UserMessage,
)
from handrail.core.model import ModelRequest, Scratch, ToolChoice, ToolOffer
from handrail.core.ports import Model
from handrail.execute.executor import Executor
from handrail.execute.whole import to_the_end
from handrail.run.calls import Calls, Started
from handrail.run.history import unanswered
from handrail.run.limits import Budget, Limits
from handrail.run.offering import Offering, Offers, Selection, Shown
from handrail.run.reply import Reply
from handrail.run.transcript import Follow, Transcript
from handrail.tools.registry import RegisteredTools

_REMEMBERED = 64
"""Runs of which a runner knows what is on record, without reading it."""

FINALISE = "The limit of tool calls is reached. Finalise your answer now, without calling tools."

ALWAYS_VALID = ("find_tools", "read_output")
"""What the runtime itself offers is valid for every model."""

OnError = Literal["surface", "fail_fast"]
OnWait = Literal["tell", "pause"]
"""When a call waits for a person: tell the model, or end here until the call has its answer."""


class Runner:
    """A model, an executor, and how far they may go together."""

    def __init__(
        self,
        model: Model,
        executor: Executor,
        limits: Limits = Limits(),
        *,
        on_error: OnError = "surface",
        on_wait: OnWait = "tell",
        defaults: ModelRequest = ModelRequest(messages=()),
        offering: Offering = Offering(),
        valid: tuple[tuple[str, ...], ...] = (),
        own_ids: bool = False,
        new_id: NewId = new_id,
    ) -> None:
        self._model = model
        self._executor = executor
        self._limits = limits
        self._on_error = on_error
        self._on_wait = on_wait
        self._defaults = defaults
        """What every request has besides its messages and tools: temperature, limits of tokens, and so on."""
        self._new_id = new_id
        self._own_ids = own_ids
        """Whether every call gets an id from here, so that no two calls of any two runs have the same."""
        self._offering = offering
        self._valid = tuple((*patterns, *ALWAYS_VALID) if patterns else () for patterns in valid)
        """Lists of patterns; each must cover a tool for this model to be offered it, or to call it; an
        empty one leaves none."""
        offering.equip(executor)
        self._offers = Offers(offering, executor.tools, model, self._valid)
        self._known: dict[str, Conversation] = {}
        self._scratch = Scratch()
        """What was made of the conversation that it ran last, for the next run of the same one."""

    @property
    def may_call(self) -> frozenset[str]:
        """The names of the tools that runs which begin now are offered, or come to be."""
        return self._offers_of(self._executor.tools).names

    async def run(
        self,
        conversation: Conversation,
        context: Context = Context(),
        emit: Emit = ignore,
        *,
        tool_choice: ToolChoice = "auto",
        follow: Follow | None = None,
        external: tuple[ToolOffer, ...] = (),
    ) -> Conversation:
        """Go on until the model calls no tool: the conversation with everything that was said and done.

        A conversation that ends in calls without results, as that of a run that was cut off or
        that waited for a person's word, is taken up there. `follow` is told of every change, also
        when the run is cancelled. Tools that are `external` are offered beside those of the executor
        and run by whoever asks here: the run ends at a call of one, without a result of that call.
        What it raises has the conversation so far as its attribute `conversation`.

        Raises:
            LimitExceeded: A limit is reached and the limits say to raise.
            ToolFailed: A tool failed, under `fail_fast`.
            ModelError: The model gave no usable reply.
        """
        tracer = self._executor.tracer
        if tracer is None:
            return await self._run(_Run(self, conversation, context, emit, follow, external), tool_choice)
        with tracer.run(context.run or self._executor.run, self._model.name, context) as span:
            context = msgspec.structs.replace(context, trace=span.parent)
            return await self._run(_Run(self, conversation, context, emit, follow, external), tool_choice)

    async def _run(self, run: _Run, tool_choice: ToolChoice) -> Conversation:
        try:
            await run.begin()
            await run.loop(tool_choice)
        except HandrailError as error:
            error.conversation = run.conversation
            raise
        finally:
            self._remember(run.transcript.run, run.transcript.recorded)
        return run.conversation

    def _remember(self, run: str, recorded: Conversation) -> None:
        """What the record has of the latest runs; that of an older one is read again if it is taken up."""
        self._known.pop(run, None)
        self._known[run] = recorded
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _equip(self) -> None:
        """The tools that a new run gets may have become too many to show at once."""
        if self._executor.tools is not self._offers.of:
            self._offering.equip(self._executor)

    def _offers_of(self, tools: RegisteredTools) -> Offers:
        """How the tools of a run are offered. They may be others than those of the run before."""
        if self._offers.of is not tools:
            self._offers = Offers(self._offering, tools, self._model, self._valid)
        return self._offers


class _Run:
    """One use of a runner: what is said, what is called, and what it has used up."""

    def __init__(
        self,
        runner: Runner,
        conversation: Conversation,
        context: Context,
        emit: Emit,
        follow: Follow | None,
        external: tuple[ToolOffer, ...],
    ) -> None:
        self._runner = runner
        self._executor = runner._executor
        self._limits = runner._limits
        self._budget = Budget(self._limits, asyncio.get_running_loop().time())
        deadlines = [each for each in (context.deadline, self._budget.deadline) if each is not None]
        self._context = msgspec.structs.replace(
            context,
            model=runner._model.name,
            deadline=min(deadlines, default=None),
            within=(*context.within, *runner._valid),
        )
        self._emit = emit
        self.transcript = Transcript(conversation, self._executor, self._context, emit, follow)
        self._calls = Calls(self._executor, self._limits, self._context, emit)
        self._offers: Selection
        self._external = external
        self._elsewhere = frozenset(offer.name for offer in external)
        """Names of tools that are not run here, whatever else goes by them."""
        self._joined: tuple[Shown, tuple[ToolOffer, ...]] | None = None
        self._scratch = Scratch(runner._scratch)
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

    async def begin(self) -> None:
        self._runner._equip()
        # A run that was let go of may have been taken up elsewhere: then only the record knows.
        run = self.transcript.run
        known = self._runner._known.get(run) if self._executor.holds(run) else None
        self._ids |= await self._executor.calls(self._context)  # from here on nobody else writes to the run
        self._offers = self._runner._offers_of(self._executor.tools_of(run)).begin()
        self._take_stock(await self.transcript.begin(known))
        await self.transcript.write_down()

    def _take_stock(self, known: int) -> None:
        """A run that is taken up has used something of its limits already; only time does not count on."""
        messages = self.conversation.messages
        self._ended = 0 < known == len(messages) and isinstance(messages[-1], AssistantMessage)
        calls: dict[str, ToolCall] = {}
        for at in range(_user_spoke(messages) + 1, known):
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
        if (cut_off := unanswered(self.conversation)) and not await self._answer(cut_off, {}):
            return
        while self._turns < self._limits.iterations and self._calls.wrong < self._limits.wrong_calls:
            if await self._is_over():
                return
            # A choice is for the first reply: a model that must call would never come to an answer.
            calls, started = await self._ask(choice if self._turns == 0 else "auto")
            self._turns += 1
            if not calls or not await self._answer(calls, started):
                return
        if self._calls.wrong >= self._limits.wrong_calls:
            await self._at_the_limit("wrong calls", self._limits.wrong_calls)
        else:
            await self._at_the_limit("iterations", self._limits.iterations)

    async def _ask(self, choice: ToolChoice) -> tuple[tuple[InvocationMessage, ...], Started]:
        runner = self._runner
        shown = self._offers.shown(self.conversation.messages, choice)
        await self._executor.offered(
            self._context, (*shown.names, *(offer.name for offer in self._external)), self._emit
        )
        request = msgspec.structs.replace(
            runner._defaults,
            messages=self.conversation.messages,
            tools=self._beside(shown) if self._external else shown.tools,
            tool_choice=choice,
            scratch=self._scratch,
        )
        self._attempts = 0
        self._calls.await_reply()
        early = _never if choice == "none" else self._early if self._external else self._calls.early
        reply = Reply(self._ids, runner._new_id, early, own_ids=runner._own_ids)
        try:
            whole, message = await self._reply(reply, request)
        except ModelError as error:
            await self._failed(AttemptFailed.of(error, runner._model.name), last=True)
            raise
        calls = tuple(reply.invocations) if whole and choice != "none" else ()
        self._budget.spend(message.usage)
        await self._take_in(message, calls, reply)
        if not whole:
            await self._is_over()
        return calls, reply.started

    def _beside(self, shown: Shown) -> tuple[ToolOffer, ...]:
        """What is offered with the external tools: the same object as long as it is the same."""
        if self._joined is None or self._joined[0] is not shown:
            self._joined = shown, (*shown.tools, *self._external)
        return self._joined[1]

    def _early(self, call: ToolCall) -> asyncio.Task[ToolResult] | None:
        return None if call.name in self._elsewhere else self._calls.early(call)

    async def _reply(self, reply: Reply, request: ModelRequest) -> tuple[bool, AssistantMessage]:
        tracer = self._executor.tracer
        if tracer is None:
            return await self._read(reply, request), reply.message(self._executor.now())
        with tracer.turn(self._runner._model.name, request, self._context.trace) as span:
            whole, message = await self._read(reply, request), reply.message(self._executor.now())
            span.replied(message)
            return whole, message

    async def _read(self, reply: Reply, request: ModelRequest) -> bool:
        """Whether it came whole: the limit of seconds may cut it."""
        if self._budget.deadline is None:
            await reply.read(self._runner._model, request, self._emit, self._failed)
            return True
        try:
            async with asyncio.timeout_at(self._budget.deadline) as time:
                await reply.read(self._runner._model, request, self._emit, self._failed)
        except TimeoutError:
            if not time.expired():
                raise
            return False
        return True

    async def _take_in(self, message: AssistantMessage, calls: tuple[InvocationMessage, ...], reply: Reply) -> None:
        try:
            await self.transcript.reply(message, calls)
        except asyncio.CancelledError:
            self.transcript.grow(message, *calls)
            await to_the_end(self._wind_up(calls, reply))
            raise
        except BaseException:
            await reply.abandon()
            raise
        self.transcript.grow(message, *calls)

    async def _failed(self, attempt: AttemptFailed, *, last: bool = False) -> None:
        self._attempts += 1
        await self.transcript.failed(attempt, self._attempts, last=last)

    async def _answer(self, calls: tuple[InvocationMessage, ...], started: Started) -> bool:
        """Every call gets exactly one result, the real one if it finished, whatever happens meanwhile.

        False if a call waits for a person and the run is to wait with it, or is answered elsewhere; then that call
        has none yet.
        """
        here = self._here(calls)
        try:
            results = await self._calls.settle(here, started)
        except JournalError:
            raise  # without a record there is no answer to take in; each call is found out when the run is taken up
        except BaseException:
            await to_the_end(self._wind_up(calls))
            raise
        settled = [result for result in results if result.outcome != "needs_confirmation"]
        waiting = [result for result in results if result.outcome == "needs_confirmation"]
        handed_over = len(here) < len(calls)
        paused = bool(waiting) and self._runner._on_wait == "pause"
        if paused or handed_over:
            await self.transcript.tell(settled if paused else results)
        else:
            self.transcript.settled(settled)
            await self.transcript.tell(waiting)
        if self._runner._on_error == "fail_fast":
            await self._fail_on(settled if paused else results)
        return not (paused or handed_over)

    def _here(self, calls: tuple[InvocationMessage, ...]) -> tuple[InvocationMessage, ...]:
        """Those of the calls that the executor settles."""
        return tuple(each for each in calls if each.call.name not in self._elsewhere) if self._elsewhere else calls

    async def _wind_up(self, calls: tuple[InvocationMessage, ...], reply: Reply | None = None) -> None:
        """The caller is gone: end what is under way, and take in what became of each call."""
        if reply is not None:
            await reply.abandon()
        self.transcript.settled(await self._calls.known(self._here(calls)))

    async def _fail_on(self, results: list[ToolResult]) -> None:
        failed = next((result for result in results if result.is_error), None)
        if failed is None:
            return
        await self._emit(Notice(text=f"tool {failed.name!r} failed: {failed.text}"))
        await self.transcript.take_back(self._checkpoint)
        raise ToolFailed(failed.name, failed.outcome, failed.text)

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
            await self._ask("none")
        except BrokenChoice:  # it cannot do without; what was said and done so far is the answer
            await self._emit(Notice(text=f"stopped at the limit of {value} {limit}: the model goes on calling tools"))


def _user_spoke(messages: tuple[Message, ...]) -> int:
    """Where the user last said something; -1 is nowhere."""
    spoke = (at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], UserMessage))
    return next(spoke, -1)


def _never(call: ToolCall) -> None:
    """Start no call early."""
