"""The conversation of one run as it grows, and what the record has of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from handrail.core.calls import ToolResult
from handrail.core.context import Context
from handrail.core.events import AttemptFailed, ConversationChanged, Emit, ReplyFailed, ReplyGiven
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
)
from handrail.core.tasks import run_to_completion
from handrail.execute.executor import Executor
from handrail.execute.ledger import CallLedger
from handrail.execute.recorder import RunRecorder
from handrail.run.history import conversation_of
from handrail.run.offering import ToolSelection
from handrail.tools.masking import masked_messages

Follow = Callable[[Conversation], None]


class RunMemory:
    """What a runner knows of a run between two of its prompts, so that a long one is not looked through again."""

    __slots__ = ("recorded", "selection", "taken")

    def __init__(self, taken: TakenIds) -> None:
        self.recorded = Conversation()
        """The conversation as the record has it."""
        self.taken = taken
        self.selection: ToolSelection | None = None
        """What `recorded` has come to be offered."""


class TakenIds:
    """The ids that calls of a run have had; a model may use one again, and then its call is given another."""

    __slots__ = ("_ledger", "_said")

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._ledger: CallLedger | None = None

    def take_up(self, ledger: CallLedger, messages: Iterable[Message]) -> None:
        """Go on with what the executor knows of the run, and with these messages of its conversation."""
        self._ledger = ledger
        self._said.update([message.call.id for message in messages if type(message) is InvocationMessage])

    def add(self, id: str) -> None:
        self._said.add(id)

    def __contains__(self, id: str) -> bool:
        return id in self._said or (self._ledger is not None and self._ledger.has_call(id))


class RunTranscript:
    """Writes down what is said before anything depends on it. `follow` is told of every change."""

    def __init__(
        self, conversation: Conversation, executor: Executor, context: Context, emit: Emit, follow: Follow | None
    ) -> None:
        self.conversation = conversation
        self.recorded = Conversation()
        """The conversation as the record has it."""
        self.run = context.run or executor.run
        self._executor = executor
        self._context = context
        self._emit = emit
        self._follow = follow
        self._is_silent = executor.runs.is_silent(emit)
        self._alike = 0
        """How many messages the conversation and the record begin with alike."""

    async def begin(self, recorded: Conversation | None, grown_from: Conversation | None = None) -> int:
        """Compare with the record, which is read unless it is given: how many messages it has already.

        What the conversation has grown from by additions is not compared, where that is what the record has.
        """
        if recorded is None:
            recorded = conversation_of(await self._executor.runs.history(self.run))
        self.recorded = recorded
        grew = grown_from is not None and grown_from.messages is recorded.messages
        self._alike = len(recorded) if grew else _shared(recorded, self.conversation)
        return self._alike

    async def write_down(self, *, soon: bool = False) -> None:
        """Record what was said since the record was last written to, or taken back; `soon` if nothing waits for it."""
        keep = self._alike
        added = self.conversation.messages[keep:]
        if added or keep < len(self.recorded):
            changed = ConversationChanged(
                run=self.run, at=self._executor.runs.now(), keep=keep, messages=self._writable(added)
            )
            recorder = await self._executor.runs.recorder(self._context, self._emit)
            if recorder.record_soon(changed) if soon else recorder.record_at_once(changed):
                self._wrote()
            else:
                await run_to_completion(self._write(recorder, changed))

    async def _write(self, recorder: RunRecorder, changed: ConversationChanged) -> None:
        await recorder.record(changed)
        self._wrote()

    def _wrote(self) -> None:
        self.recorded = self.conversation
        self._alike = len(self.conversation)
        self._tell()

    async def reply(
        self, message: AssistantMessage, calls: tuple[InvocationMessage, ...], *, soon: bool = False
    ) -> None:
        """Record a reply, before any of its effects is; `soon` if something is recorded after it in any case. The
        conversation does not have it yet: `grow` adds it."""
        if self._is_silent:
            return
        given = ReplyGiven(
            run=self.run,
            at=message.at,
            model=message.model,
            stop=message.stop,
            input_tokens=message.usage.input_tokens if message.usage else 0,
            output_tokens=message.usage.output_tokens if message.usage else 0,
            messages=self._writable((message, *calls)),
        )
        recorder = await self._executor.runs.recorder(self._context, self._emit)
        if not (soon and recorder.record_soon(given)):
            await recorder.record_whole(given)

    async def failed(self, attempt: AttemptFailed, number: int, *, last: bool) -> None:
        """The record shows each attempt at a reply."""
        event = ReplyFailed(
            run=self.run,
            at=self._executor.runs.now(),
            model=attempt.model,
            attempt=number,
            error=attempt.error,
            status=attempt.status,
            delay_ms=None if last else round(attempt.delay * 1000),
            words=attempt.text,
        )
        await self._executor.runs.record(event, self._context, self._emit)

    def grow(self, *messages: Message) -> None:
        """Add what the record already has."""
        self.conversation = self.recorded = self.conversation.add(*messages)
        self._alike = len(self.conversation)
        self._tell()

    def settled(self, results: list[ToolResult]) -> None:
        """Add results, which are on record with their calls."""
        self.grow(*self._as_messages(results))

    async def tell(self, results: list[ToolResult]) -> None:
        """The model hears something that the entries of its calls do not say: that one waits for a person, or the
        answers to the others before that one has its own."""
        if results:
            self.conversation = self.conversation.add(*self._as_messages(results))
            await self.write_down()

    async def supervise(self, text: str) -> None:
        """Have the program say something, unless it was the last to speak and said just that."""
        last = self.conversation.messages[-1]
        if not (isinstance(last, SupervisorMessage) and last.text == text):
            self.conversation = self.conversation.supervised(text, self._executor.runs.now())
            await self.write_down()

    async def take_back(self, count: int) -> None:
        """Go back to the first so many messages."""
        self.conversation = self.conversation.upto(count)
        self._alike = min(self._alike, len(self.conversation))
        await self.write_down()

    def _as_messages(self, results: list[ToolResult]) -> list[ResultMessage]:
        return [ResultMessage(result, self._executor.runs.now()) for result in results]

    def _tell(self) -> None:
        if self._follow is not None:
            self._follow(self.conversation)

    def _writable(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages as they may be written down: without the secrets that calls hold."""
        return masked_messages(messages, self._executor.runs.tools_of(self.run))


def _shared(one: Conversation, other: Conversation) -> int:
    """The number of messages that both have in common at their beginning."""
    count = 0
    for left, right in zip(one.messages, other.messages, strict=False):
        if left is not right and not _alike(left, right):
            break
        count += 1
    return count


def _alike(left: Message, right: Message) -> bool:
    """Whether two messages say the same. The record and the conversation note different times of one result."""
    match left, right:
        case ResultMessage(), ResultMessage():
            return left.result == right.result
    return left == right
