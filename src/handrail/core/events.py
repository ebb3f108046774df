"""Everything that can happen, as one closed union: for streams and for the record.

The tags are on the wire and on disk. They do not change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import ConfirmationSubject
from handrail.core.errors import ModelError, Outcome
from handrail.core.messages import Artefact, Citation, Media, Message, ServiceCall, StopReason, Usage
from handrail.core.origins import ArgumentOrigin

VERSION = 1
"""The version of the entries on disk. A journal with a higher one is refused, not guessed at."""


class RunStarted(Struct, frozen=True, tag="run.started", kw_only=True):
    """A run has begun."""

    run: str
    at: int
    """Milliseconds since 1970, as every `at` here."""
    tools: str
    """The digest of the frozen set that this run may call."""
    principal: str = "local"
    body: ClassVar[str | None] = None


class RunResumed(Struct, frozen=True, tag="run.resumed", kw_only=True):
    """The run was resumed, perhaps with other tools than at its beginning."""

    run: str
    at: int
    tools: str
    principal: str = "local"
    body: ClassVar[str | None] = None


class RunFinished(Struct, frozen=True, tag="run.finished", kw_only=True):
    """A run has ended."""

    run: str
    at: int
    reason: str
    body: ClassVar[str | None] = None


class ToolsOffered(Struct, frozen=True, tag="tools.offered", kw_only=True):
    """Which tools a model was shown in one turn."""

    run: str
    at: int
    tools: tuple[str, ...]
    body: ClassVar[str | None] = None


class CallAsked(Struct, frozen=True, tag="call.asked", kw_only=True):
    """The request of a call that did not run: it was refused, or answered with another call's result."""

    run: str
    at: int
    call_id: str
    tool: str
    principal: str = "local"
    arguments: Any = None
    """The arguments as they were written, text or object, with secrets masked."""
    body: ClassVar[str | None] = "arguments"


class CallIntended(Struct, frozen=True, tag="call.intended", kw_only=True):
    """A checked and permitted call is about to run. For a side effect this is on disk before anything happens."""

    run: str
    at: int
    call_id: str
    tool: str
    side_effects: bool
    idempotent: bool
    key: str
    """The idempotency key: the same for every attempt at this call, and for no other call. It is drawn, not derived,
    so that it tells nothing about erased arguments."""
    principal: str = "local"
    depth: int = 0
    grant: str | None = None
    """The confirmation that this call uses up."""
    arguments: Any = None
    origins: tuple[ArgumentOrigin, ...] | UnsetType = UNSET
    """The places that the arguments come from, without their values; unset if that was not looked for."""
    body: ClassVar[str | None] = "arguments"


class CallSettled(Struct, frozen=True, tag="call.settled", kw_only=True):
    """The one answer to a call."""

    run: str
    at: int
    call_id: str
    tool: str
    outcome: Outcome
    duration_us: int
    ran: bool
    """Whether the handler was started for this answer."""
    result: ToolResult | None = None
    """The result; None once its body was erased."""
    body: ClassVar[str | None] = "result"


class CallAmended(Struct, frozen=True, tag="call.amended", kw_only=True):
    """The result of a call that became known after the call was answered or interrupted.

    What comes late stands beside the answer; but of a call in doubt, what a person found out is the answer.
    """

    run: str
    at: int
    call_id: str
    tool: str
    outcome: Outcome
    why: Literal["late", "person"]
    result: ToolResult | None = None
    body: ClassVar[str | None] = "result"


class ConfirmationRequested(Struct, frozen=True, tag="confirmation.requested", kw_only=True):
    """A side effect waits for an answer."""

    run: str
    at: int
    request: str
    call_id: str
    tool: str
    binds: str
    """Hash of tool, its definition, canonical arguments, run, call id and a nonce: what a grant is good for."""
    asked: ConfirmationSubject | None = None
    body: ClassVar[str | None] = "asked"

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments; None once they were erased."""
        return None if self.asked is None else self.asked.arguments

    def answered(
        self, decision: Literal["allow", "deny"], *, at: int, by: str, reason: str = ""
    ) -> ConfirmationAnswered:
        """A person's decision on it."""
        return ConfirmationAnswered(
            run=self.run,
            at=at,
            request=self.request,
            call_id=self.call_id,
            binds=self.binds,
            decision=decision,
            by=by,
            reason=reason,
        )


class ConfirmationAnswered(Struct, frozen=True, tag="confirmation.answered", kw_only=True):
    """A question about a side effect was answered."""

    run: str
    at: int
    request: str
    call_id: str
    binds: str
    decision: Literal["allow", "deny"]
    by: str
    reason: str = ""
    edited: bool = False
    """Allowed with other arguments than were asked about; `binds` is of those, and the intent has them."""
    body: ClassVar[str | None] = None


class CallProgress(Struct, frozen=True, tag="call.progress", kw_only=True):
    """The progress of a running tool. Streamed, not recorded."""

    run: str
    call_id: str
    tool: str
    current: float | None = None
    total: float | None = None
    stage: str = ""


class ConversationChanged(Struct, frozen=True, tag="conversation.changed", kw_only=True):
    """The messages before the model is asked: keep the first `keep` of the run's messages, then add these."""

    run: str
    at: int
    keep: int
    messages: tuple[Message, ...] | None = None
    """The messages; None once they were erased."""
    body: ClassVar[str | None] = "messages"


class ReplyGiven(Struct, frozen=True, tag="reply.given", kw_only=True):
    """The model has replied: its message and the calls it made, before any of them is answered."""

    run: str
    at: int
    model: str
    stop: StopReason
    input_tokens: int = 0
    output_tokens: int = 0
    messages: tuple[Message, ...] | None = None
    body: ClassVar[str | None] = "messages"


class ReplyFailed(Struct, frozen=True, tag="reply.failed", kw_only=True):
    """One attempt at a reply failed. Nothing of it was used."""

    run: str
    at: int
    model: str
    attempt: int
    """The first at this reply is 1, whichever model was asked."""
    error: str
    """The code of the `ModelError`."""
    status: int | None = None
    delay_ms: int | None = None
    """The time until the next attempt; None if this was the last."""
    words: str | None = None
    """What the error said; None when erased."""
    body: ClassVar[str | None] = "words"


class TextDelta(Struct, frozen=True, tag="text.delta", kw_only=True):
    """A piece of the model's text. Streamed, not recorded."""

    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning.delta", kw_only=True):
    """A piece of the model's visible reasoning. Streamed, not recorded."""

    text: str


class CallDelta(Struct, frozen=True, tag="call.delta", kw_only=True):
    """A piece of a call as it is written; the pieces of one id join to the arguments' text. Streamed, not recorded."""

    call_id: str
    name: str
    arguments: str


class CitationAdded(Struct, frozen=True, tag="citation.added", kw_only=True):
    """The model names a source for a part of its text. Streamed; the message that is recorded has it too."""

    citation: Citation


class MediaAdded(Struct, frozen=True, tag="media.added", kw_only=True):
    """The model made a picture or a file. Streamed; the message that is recorded has it too."""

    media: Media


class ServiceCallMade(Struct, frozen=True, tag="service_call.made", kw_only=True):
    """The service ran one of its own tools. Streamed; the message that is recorded has it too."""

    call: ServiceCall


class Notice(Struct, frozen=True, tag="notice", kw_only=True):
    """Something that the caller should know about a request: a dropped keyword, a choice that is not enforced."""

    text: str


class AttemptFailed(Struct, frozen=True, tag="attempt.failed", kw_only=True):
    """An attempt at a reply failed, and another follows. The last failure is raised instead. A runner records both."""

    model: str
    error: str
    """The code of the `ModelError`."""
    text: str
    status: int | None = None
    delay: float = 0.0
    """Seconds until the next."""

    @classmethod
    def of(cls, error: ModelError, model: str, delay: float = 0.0) -> AttemptFailed:
        return cls(model=error.model or model, error=error.code, text=str(error), status=error.status, delay=delay)


class CallReady(Struct, frozen=True, tag="call.ready", kw_only=True):
    """A call whose arguments are complete, from a service that reports this only at the end of the reply.

    Work that can be discarded may start. `CallRequested` follows and is authoritative.
    """

    call: ToolCall


class CallRequested(Struct, frozen=True, tag="call.requested", kw_only=True):
    """The model has written a whole call. Streamed; its record is the intent or the answer."""

    call: ToolCall
    artefacts: tuple[Artefact, ...] = ()


class ReplyFinished(Struct, frozen=True, tag="reply.finished", kw_only=True):
    """The end of a reply. Every reply has exactly one, and it comes last; without it the reply was interrupted."""

    stop: StopReason
    model: str = ""
    usage: Usage = Usage()
    artefacts: tuple[Artefact, ...] = ()


Recorded = (
    RunStarted
    | RunResumed
    | RunFinished
    | ToolsOffered
    | CallAsked
    | CallIntended
    | CallSettled
    | CallAmended
    | ConfirmationRequested
    | ConfirmationAnswered
    | ConversationChanged
    | ReplyGiven
    | ReplyFailed
)
ModelEvent = (
    TextDelta
    | ReasoningDelta
    | CallDelta
    | CallReady
    | CallRequested
    | CitationAdded
    | MediaAdded
    | ServiceCallMade
    | Notice
    | AttemptFailed
    | ReplyFinished
)


class AgentChanged(Struct, frozen=True, tag="agent.changed", kw_only=True):
    """From here on another agent answers in the run. Streamed; its record is the call that handed over."""

    run: str
    agent: str


class AgentEvent(Struct, frozen=True, tag="agent.event", kw_only=True):
    """An event in the run of an agent that a call began. Streamed; the agent's run has its own record."""

    agents: tuple[str, ...]
    """The agents that lead to it, the outermost first: the event is of the last one's run."""
    run: str
    event: Recorded | ModelEvent | CallProgress | AgentChanged


Event = Recorded | ModelEvent | CallProgress | AgentChanged | AgentEvent

Emit = Callable[[Event], Awaitable[None]]


class ProgressListener:
    """An `Emit` that hears how far calls are and nothing else: what is recorded need not be told to it."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[CallProgress], Awaitable[None]]) -> None:
        self._tell = tell

    async def __call__(self, event: Event) -> None:
        if isinstance(event, CallProgress):
            await self._tell(event)


async def ignore_event(event: Event) -> None:
    """An `Emit` for callers that want only the result."""
