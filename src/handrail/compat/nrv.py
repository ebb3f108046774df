"""nrv's tool calls, as `nrv-llm-tool-calls.md` describes them, in Python.

    from handrail.compat.nrv import ToolDescriptor, ToolInvocation, ToolRegistry, ToolResult, client

A handler takes one `ToolInvocation`, whatever its parameter is called, and returns a `ToolResult`, a plain value, or
a `ToolError`.

The stream of a `client` is `Started`, then `Token`, `ToolCallStreamEvent` and `ToolResultStreamEvent` as they come,
then `Metrics` and `Completed`, or `Error` and nothing more. Every call that is acted on has one result: validated, run
under its timeout, never retried by us.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import msgspec
from msgspec import Struct

from handrail.core import calls
from handrail.core.calls import Attachment, Output as ToolResult
from handrail.core.closing import ClosedOnExit
from handrail.core.context import Context
from handrail.core.errors import (
    DuplicateTool,
    HandrailError,
    InvalidSchema,
    JournalError,
    LimitExceeded,
    ModelError,
    ModelUnavailable,
    ProtocolError,
    RateLimited,
    RequestRefused,
    ToolError,
    ToolFailed,
)
from handrail.core.events import CallRequested, CallSettled, Emit, Event, ReplyFinished, TextDelta
from handrail.core.ids import NewId, new_id
from handrail.core.invocation import Invocation as ToolInvocation
from handrail.core.messages import Conversation, ResultMessage
from handrail.core.outcome_codes import CODES
from handrail.core.ports import Clock, Journal, Model, SystemClock
from handrail.execute.approvers import AnyApprover
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.run.limits import Limits
from handrail.run.runner import Runner
from handrail.sessions.llm import LLM, Prompt, conversation_of
from handrail.sessions.session_engine import stream_emitted
from handrail.tools import registry
from handrail.tools.definition import ToolDefinition
from handrail.tools.registry import RegisteredTools

__all__ = [
    "Attachment",
    "Client",
    "Completed",
    "DuplicateTool",
    "Error",
    "InvalidSchema",
    "Metrics",
    "RegisteredTools",
    "Started",
    "Token",
    "ToolCallStreamEvent",
    "ToolDescriptor",
    "ToolError",
    "ToolHandler",
    "ToolInvocation",
    "ToolRegistry",
    "ToolResult",
    "ToolResultStreamEvent",
    "client",
    "create_tool_registry",
]

ToolHandler = Callable[[ToolInvocation], Awaitable[Any]]


@dataclass(frozen=True)
class ToolDescriptor:
    """What the orchestrator and the model know of a tool."""

    name: str
    """The name in kebab-case."""
    description: str
    input_schema: dict[str, Any]
    returns: dict[str, Any] | None = None
    timeout_ms: int | None = None

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition.from_dict({key: value for key, value in asdict(self).items() if value is not None})

    def to_json(self) -> str:
        """JSON in the spelling of JS/TS: `inputSchema`, `timeoutMs`. What is not set is left out."""
        spelled = {"input_schema": "inputSchema", "timeout_ms": "timeoutMs"}
        fields = {spelled.get(key, key): value for key, value in asdict(self).items() if value is not None}
        return msgspec.json.encode(fields).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ToolDescriptor:
        """Read JSON in the spelling of JS/TS or of Rust.

        Raises:
            InvalidDefinition: A key is unknown or missing.
        """
        read = ToolDefinition.from_dict(msgspec.json.decode(text))
        return cls(read.name, read.description, read.input_schema, read.output_schema, read.timeout_ms)


class ToolRegistry(registry.ToolRegistry):
    """`handrail.ToolRegistry` that holds names to kebab-case and calls every handler with one `ToolInvocation`."""

    def __init__(self) -> None:
        super().__init__(names="kebab")

    @classmethod
    def new(cls) -> Self:
        return cls()

    def register(  # type: ignore[override]  # a descriptor and its handler, and nothing else
        self, descriptor: ToolDescriptor | ToolDefinition | Mapping[str, Any], handler: ToolHandler
    ) -> Self:
        """
        Raises:
            DuplicateTool: The name is taken.
            InvalidDefinition: The name is not kebab-case.
            InvalidSchema: A schema is wrong.
        """
        what = descriptor.definition if isinstance(descriptor, ToolDescriptor) else descriptor
        return super().register(what, handler, style="invocation")


def create_tool_registry() -> ToolRegistry:
    """`createToolRegistry()` of JS/TS."""
    return ToolRegistry()


class Started(Struct, frozen=True, tag="Started"):
    task_id: str
    accepted_at: int


class Token(Struct, frozen=True, tag="Token"):
    text: str
    index: int


class ToolCallStreamEvent(Struct, frozen=True, tag="ToolCall"):
    descriptor_name: str
    invocation_id: str
    arguments_json: str


class ToolResultStreamEvent(Struct, frozen=True, tag="ToolResult"):
    invocation_id: str
    payload_json: str
    """`{"output", "warnings"?, "attachments"?}`, or `{"error": {"code", "message"}}`."""


class Metrics(Struct, frozen=True, tag="Metrics", omit_defaults=True):
    latency_ms: int | None = None
    queue_depth: int | None = None


class Completed(Struct, frozen=True, tag="Completed"):
    finish_reason: str


class Error(Struct, frozen=True, tag="Error", omit_defaults=True):
    code: str
    message: str
    retriable: bool = False
    retry_after_ms: int | None = None


# The document calls them so, and programs look at the name of an event's type.
ToolCallStreamEvent.__name__, ToolResultStreamEvent.__name__ = "ToolCall", "ToolResult"
StreamEvent = Started | Token | ToolCallStreamEvent | ToolResultStreamEvent | Metrics | Completed | Error

_FINISH = {"end": "stop", "max_tokens": "length", "stop_sequence": "stop", "refusal": "content_filter"}
"""nrv's words for the ends of replies that it names differently."""
_ERRORS: tuple[tuple[type[HandrailError], str, bool], ...] = (
    (RateLimited, "RATE_LIMIT", True),
    (ModelUnavailable, "MODEL_UNAVAILABLE", True),
    (RequestRefused, "HTTP_ERROR", False),
    (ProtocolError, "STREAM_ABORTED", True),
    (ModelError, "STREAM_ERROR", False),
    (LimitExceeded, CODES["limit"].nrv, False),
    (JournalError, "PROOF_FAILED", False),
)
"""The first that fits. Retrying is the caller's choice; this only says where it may help."""
_UNAUTHORISED = (401, 403)


def client(
    tools: RegisteredTools,
    model: Model | LLM,
    *,
    proof_sink: Journal | None = None,
    policy: Policy = Policy(),
    limits: Limits = Limits(),
    approver: AnyApprover | None = None,
    clock: Clock = SystemClock(),
    new_id: NewId = new_id,
) -> Client:
    """A client for a frozen set of tools. With a `proof_sink` every invocation is recorded there, else nothing is."""
    executor = Executor(tools, policy=policy, approver=approver, journal=proof_sink, clock=clock, new_id=new_id)
    return Client(model, executor, limits, clock, new_id)


class Client(ClosedOnExit):
    """Asks a model and answers its tool calls. It is used in one event loop; `aclose()` it there."""

    def __init__(self, model: Model | LLM, executor: Executor, limits: Limits, clock: Clock, new_id: NewId) -> None:
        llm = model if isinstance(model, LLM) else LLM(model)
        self._executor = executor
        self._runner = Runner(llm.model, executor, limits, defaults=llm.defaults, new_id=new_id)
        self._clock = clock
        self._new_id = new_id

    async def stream(self, prompt: Prompt, context: Context = Context()) -> AsyncGenerator[StreamEvent, None]:
        """One task. Closing the stream cancels it: nothing comes after that, and no tool is left running.

        It is a run of its own, which ends with it, unless the context names one to go on with.
        """
        own = not context.run
        context = msgspec.structs.replace(context, run=context.run or self._new_id("run"))
        begun = self._clock.monotonic()
        yield Started(context.run, self._clock.now())
        state = _State()

        async def run(emit: Emit) -> None:
            work = self._runner.run(conversation_of(prompt), context, emit, follow=state.follow)
            await (self._to_its_end(work, context.run) if own else work)

        try:
            async with aclosing(stream_emitted(run)) as events:
                async for event in events:
                    for told in state.told(event):
                        yield told
        except HandrailError as error:
            for told in state.late():
                yield told
            yield _error(error)
            return
        for told in state.late():
            yield told
        yield Metrics(latency_ms=round((self._clock.monotonic() - begun) * 1000))
        yield Completed(state.finish)

    async def _to_its_end(self, work: Coroutine[Any, Any, Any], run: str) -> None:
        """Let nothing of a run stay that nobody can go on with by name: neither its lease nor what is known of it."""
        reason = "cancelled"
        try:
            await work
            reason = "done"
        except HandrailError:
            reason = "failed"
            raise
        finally:
            await self._executor.finish(run, reason)

    async def aclose(self) -> None:
        await self._executor.aclose()


@dataclass(slots=True)
class _State:
    """What one stream has told so far."""

    tokens: int = 0
    finish: str = "stop"
    asked: set[str] = field(default_factory=set)
    conversation: Conversation = field(default_factory=Conversation)
    """The conversation as it is now. It has the answers of calls that were not run, and so have no entry of their own.
    """
    read: int = 0
    """Messages of it in which every answer was told."""

    def follow(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def told(self, event: Event) -> Iterator[StreamEvent]:
        """What an event is in nrv's words. Calls that tools make are not the model's, and are left out."""
        match event:
            case TextDelta(text=text) if text:
                yield from self.late()
                yield Token(text, self.tokens)
                self.tokens += 1
            case CallRequested(call=call):
                yield from self.late()
                self.asked.add(call.id)
                yield ToolCallStreamEvent(call.name, call.id, _json(call.arguments))
            case CallSettled(call_id=id, result=calls.ToolResult() as result) if id in self.asked:
                yield self._answer(result)
            case ReplyFinished(stop=stop):
                self.finish = _FINISH.get(stop, stop)

    def late(self) -> Iterator[StreamEvent]:
        """Answers that are in the conversation and were not told yet."""
        if not self.asked:
            return
        new, self.read = self.conversation.messages[self.read :], len(self.conversation)
        for message in new:
            if isinstance(message, ResultMessage) and message.invocation_id in self.asked:
                yield self._answer(message.result)

    def _answer(self, result: calls.ToolResult) -> ToolResultStreamEvent:
        self.asked.discard(result.tool_call_id)
        return ToolResultStreamEvent(result.tool_call_id, _json(payload(result)))


def payload(result: calls.ToolResult) -> dict[str, Any]:
    """A result as nrv writes it. The code is the tool's own, or nrv's for the outcome."""
    if result.outcome == "ok":
        whole = {
            "output": result.content,
            "warnings": list(result.warnings),
            "attachments": msgspec.to_builtins(result.attachments),
        }
        return {key: value for key, value in whole.items() if value or key == "output"}
    own = result.error.code if result.error is not None and result.outcome == "failed" else ""
    code = own.upper() if own not in ("", "failed") else CODES[result.outcome].nrv
    return {"error": {"code": code, "message": result.error.message if result.error else result.text}}


def _error(error: HandrailError) -> Error:
    if isinstance(error, ToolFailed):
        return Error(next(row.nrv for outcome, row in CODES.items() if outcome == error.outcome), str(error))
    code, retriable = next(
        ((code, again) for kind, code, again in _ERRORS if isinstance(error, kind)), ("ERROR", False)
    )
    after = None
    if isinstance(error, ModelError):
        code = "AUTH_REQUIRED" if error.status in _UNAUTHORISED else code
        after = None if error.retry_after is None else round(error.retry_after * 1000)
    return Error(code, str(error), retriable, after)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
