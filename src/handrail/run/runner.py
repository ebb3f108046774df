"""The runner: the only thing that loops. It pushes events, so streaming and not are the same code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import HandrailError, LimitExceeded, LimitReached, ToolFailed, UnknownTool
from handrail.core.events import ConversationChanged, Emit, Notice, ReplyGiven, ignore
from handrail.core.ids import NewId, new_id
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
)
from handrail.core.model import ModelRequest, ToolChoice, ToolOffer
from handrail.core.ports import Model
from handrail.execute.executor import Executor
from handrail.run.history import conversation_of, unanswered
from handrail.run.limits import Budget, Limits
from handrail.run.repeats import Repeats
from handrail.run.reply import Reply

_REMEMBERED = 64
"""Runs of which a runner knows what is on record, without reading it."""

FINALISE = "The limit of tool calls is reached. Finalise your answer now, without calling tools."

OnError = Literal["surface", "fail_fast"]
OnWait = Literal["tell", "pause"]
"""When a call waits for a person: tell the model, or end here until the call has its answer."""
Follow = Callable[[Conversation], None]


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
        self._offers = tuple(
            ToolOffer(tool.name, tool.description, tool.input_schema)
            for tool in executor.tools.for_model(model.name).definitions
        )
        self._known: dict[str, Conversation] = {}

    async def run(
        self,
        conversation: Conversation,
        context: Context = Context(),
        emit: Emit = ignore,
        *,
        tool_choice: ToolChoice = "auto",
        follow: Follow | None = None,
    ) -> Conversation:
        """Go on until the model calls no tool: the conversation with everything that was said and done.

        A conversation that ends in calls without results, as that of a run that was cut off or
        that waited for a person's word, is taken up there. `follow` is told of every change, also
        when the run is cancelled.

        Raises:
            LimitExceeded: A limit is reached and the limits say to raise.
            ToolFailed: A tool failed, under `fail_fast`.
            ModelError: The model gave no usable reply.
            Each of them has the conversation so far as its attribute `conversation`.
        """
        run = _Run(self, conversation, context, emit, follow)
        try:
            await run.begin()
            await run.loop(tool_choice)
        except HandrailError as error:
            error.conversation = run.conversation
            raise
        finally:
            self._remember(run.id, run.recorded)
        return run.conversation

    def _remember(self, run: str, recorded: Conversation) -> None:
        """What the record has of the latest runs; that of an older one is read again if it is taken up."""
        self._known.pop(run, None)
        self._known[run] = recorded
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]


class _Run:
    """One use of a runner: its conversation as it grows, and what it has used up."""

    def __init__(
        self, runner: Runner, conversation: Conversation, context: Context, emit: Emit, follow: Follow | None
    ) -> None:
        self._runner = runner
        self._executor = runner._executor
        self._limits = runner._limits
        self.conversation = conversation
        self.id = context.run or self._executor.run
        self._budget = Budget(self._limits, asyncio.get_running_loop().time())
        deadlines = [each for each in (context.deadline, self._budget.deadline) if each is not None]
        self._context = msgspec.structs.replace(
            context, model=runner._model.name, deadline=min(deadlines, default=None)
        )
        self._emit = emit
        self._follow = follow
        self._repeats = Repeats(self._limits.same_failure)
        self._checkpoint = len(conversation)
        self._calls = 0
        """Of the reply that is arriving."""
        self.recorded = Conversation()
        """The conversation as the record has it."""

    async def begin(self) -> None:
        known = self._runner._known.get(self.id)
        self.recorded = conversation_of(await self._executor.history(self.id)) if known is None else known
        await self._write_down()

    async def _write_down(self) -> None:
        """Record what was said since the record was last written to, or taken back."""
        keep = _shared(self.recorded, self.conversation)
        added = self.conversation.messages[keep:]
        if added or keep < len(self.recorded):
            changed = ConversationChanged(
                run=self.id, at=self._executor.now(), keep=keep, messages=self._writable(added)
            )
            await self._executor.record(changed, self._context, self._emit)
            self.recorded = self.conversation
            if self._follow is not None:
                self._follow(self.conversation)

    async def loop(self, choice: ToolChoice) -> None:
        if (cut_off := unanswered(self.conversation)) and not await self._answer(cut_off, {}):
            return
        for turn in range(self._limits.iterations):
            if await self._is_over():
                return
            # A choice is for the first reply: a model that must call would never come to an answer.
            calls, started = await self._ask(choice if turn == 0 else "auto")
            if not calls or not await self._answer(calls, started):
                return
        await self._at_the_limit()

    async def _ask(
        self, choice: ToolChoice
    ) -> tuple[tuple[InvocationMessage, ...], dict[str, asyncio.Task[ToolResult]]]:
        runner = self._runner
        await self._executor.offered(self._context, tuple(offer.name for offer in runner._offers), self._emit)
        request = msgspec.structs.replace(
            runner._defaults, messages=self.conversation.messages, tools=runner._offers, tool_choice=choice
        )
        self._calls = 0
        reply = Reply(_ids(self.conversation), runner._new_id, _never if choice == "none" else self._early)
        whole = True
        try:
            async with asyncio.timeout_at(self._budget.deadline) as time:
                await reply.read(runner._model, request, self._emit)
        except TimeoutError:
            if not time.expired():
                raise
            whole = False
        message = reply.message(self._executor.now())
        calls = tuple(reply.invocations) if whole and choice != "none" else ()
        self._budget.spend(message.usage)
        await self._take_down(message, calls, reply)
        if not whole:
            await self._is_over()
        return calls, reply.started

    async def _take_down(self, message: AssistantMessage, calls: tuple[InvocationMessage, ...], reply: Reply) -> None:
        """The reply is on record before any of its effects is."""
        try:
            await self._executor.record(
                ReplyGiven(
                    run=self.id,
                    at=message.at,
                    model=message.model,
                    stop=message.stop,
                    input_tokens=message.usage.input_tokens if message.usage else 0,
                    output_tokens=message.usage.output_tokens if message.usage else 0,
                    messages=self._writable((message, *calls)),
                ),
                self._context,
                self._emit,
            )
        except BaseException:
            await reply.abandon()
            raise
        self._grow(message, *calls)

    def _early(self, call: ToolCall) -> asyncio.Task[ToolResult] | None:
        """A read may begin as soon as its last byte has arrived, while the model still speaks."""
        try:
            tool = self._executor.tools.find(call.name)
        except UnknownTool:
            return None
        self._calls += 1
        if not tool.reads or self._calls > self._limits.calls_per_turn or self._repeats.refusal(call) is not None:
            return None
        return asyncio.create_task(self._executor.invoke(call, self._context, self._emit))

    async def _answer(self, calls: tuple[InvocationMessage, ...], started: dict[str, asyncio.Task[ToolResult]]) -> bool:
        """Every call gets exactly one result, the real one if it finished, whatever happens meanwhile.

        False if a call waits for a person and the run is to wait with it; then that call has none yet.
        """
        tasks = {
            message.id: started.get(message.id) or asyncio.create_task(self._settle(message.call, number))
            for number, message in enumerate(calls)
        }
        try:
            await asyncio.gather(*tasks.values())
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())
            self._grow(*await self._known_results(calls))
            raise
        results = [tasks[message.id].result() for message in calls]
        for message, result in zip(calls, results, strict=True):
            self._repeats.note(message.call, result)
        settled = [result for result in results if result.outcome != "needs_confirmation"]
        waiting = [result for result in results if result.outcome == "needs_confirmation"]
        self._grow(*(ResultMessage(result, self._executor.now()) for result in settled))
        paused = bool(waiting) and self._runner._on_wait == "pause"
        if not paused:
            await self._tell(waiting)
        if self._runner._on_error == "fail_fast":
            await self._fail_on(settled if paused else results)
        return not paused

    async def _tell(self, waiting: list[ToolResult]) -> None:
        """The model hears that calls wait for a person. They are not settled, so their entries do not say it."""
        told = (ResultMessage(result, self._executor.now()) for result in waiting)
        self.conversation = self.conversation.add(*told)
        await self._write_down()

    async def _settle(self, call: ToolCall, number: int) -> ToolResult:
        refusal = self._repeats.refusal(call)
        if number >= self._limits.calls_per_turn:
            most = self._limits.calls_per_turn
            refusal = LimitReached(f"not run: at most {most} calls are taken from one reply; ask again for the rest")
        if refusal is not None:
            return await self._executor.refuse(call, refusal, self._context, self._emit)
        return await self._executor.invoke(call, self._context, self._emit)

    async def _known_results(self, calls: tuple[InvocationMessage, ...]) -> list[ResultMessage]:
        """After a cancellation: what the executor has written down for each call."""
        found = [await self._executor.answered(message.call, self._context) for message in calls]
        return [ResultMessage(result, self._executor.now()) for result in found]

    async def _fail_on(self, results: list[ToolResult]) -> None:
        failed = next((result for result in results if result.is_error), None)
        if failed is None:
            return
        await self._emit(Notice(text=f"tool {failed.name!r} failed: {failed.text}"))
        self.conversation = self.conversation.upto(self._checkpoint)
        if self._follow is not None:
            self._follow(self.conversation)
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

    async def _at_the_limit(self) -> None:
        match self._limits.on_limit:
            case "error":
                raise LimitExceeded("iterations", self._limits.iterations)
            case "finalise":
                if not await self._is_over():
                    self.conversation = self.conversation.add(SupervisorMessage(FINALISE, self._executor.now()))
                    await self._write_down()
                    await self._ask("none")

    def _writable(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages as they may be written down: without the secrets that calls hold."""
        return tuple(
            self._masked(message) if isinstance(message, InvocationMessage) else message for message in messages
        )

    def _masked(self, message: InvocationMessage) -> InvocationMessage:
        try:
            tool = self._executor.tools.find(message.call.name)
        except UnknownTool:
            return message
        call = msgspec.structs.replace(message.call, arguments=tool.masked(message.call.arguments))
        return msgspec.structs.replace(message, call=call)

    def _grow(self, *messages: Message) -> None:
        """Add what the record already has."""
        self.conversation = self.recorded = self.conversation.add(*messages)
        if self._follow is not None:
            self._follow(self.conversation)


def _never(call: ToolCall) -> None:
    """Start no call early."""


def _ids(conversation: Conversation) -> set[str]:
    return {message.call.id for message in conversation.messages if isinstance(message, InvocationMessage)}


def _shared(one: Conversation, other: Conversation) -> int:
    """How many messages they begin with alike."""
    count = 0
    for left, right in zip(one.messages, other.messages, strict=False):
        if left is not right and left != right:
            break
        count += 1
    return count
