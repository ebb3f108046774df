"""What a browser is told: a small closed set of events, made from those of the runtime. Pure.

The system prompt, declared secrets, idempotency keys, what a model service said about a
failure and what a tool raised are not among it. `docs/howto/web-applications.md` has the
table of types and fields; they do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolResult, encode_data
from handrail.core.confirmation import Confirmation
from handrail.core.display import browser_safe, browser_safe_text
from handrail.core.errors import LimitExceeded, ModelError, Outcome, RateLimited, ToolFailed
from handrail.core.events import (
    AttemptFailed,
    CallIntended,
    CallProgress,
    CallRequested,
    CallSettled,
    CitationAdded,
    ConfirmationAnswered,
    ConfirmationRequested,
    Event,
    MediaAdded,
    ReasoningDelta,
    TextDelta,
)
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    UserMessage,
)
from handrail.core.redact import redact, redact_text
from handrail.tools.masking import masked_messages
from handrail.tools.registry import RegisteredTools

TURN_ENDS = frozenset({"done", "waiting", "failed", "stopped"})
"""The types of the last event of a turn: each turn has exactly one of them."""
_CLIP = 4_000
"""Characters of what a tool answered."""

_FAILURES: dict[Outcome, str] = {
    "unknown_tool": "There is no such tool.",
    "invalid_arguments": "The arguments did not fit.",
    "forbidden": "This is not allowed.",
    "denied": "This was denied.",
    "needs_confirmation": "This waits for a confirmation.",
    "timeout": "This took too long.",
    "failed": "This failed.",
    "cancelled": "This was stopped.",
    "in_doubt": "This was interrupted, and it is not known whether it took effect.",
    "limit": "A limit was reached.",
}


class WebEvent(Struct, frozen=True, kw_only=True):
    """One event of a session. In JSON it is `data` with its type: `{"type": "text", "text": "Hel"}`."""

    n: int
    """The id of the event in the stream; a browser that reconnects sends the last one it has."""
    type: str
    data: Any = {}

    @property
    def cursor(self) -> int:
        return self.n

    def to_sse(self) -> bytes:
        """The event as it goes over the wire."""
        told = {"type": self.type, **self.data}
        try:
            data = msgspec.json.encode(told)
        except UnicodeEncodeError:  # a model wrote half a surrogate pair
            data = msgspec.json.encode(browser_safe(told))
        return b"id: %d\ndata: %b\n\n" % (self.n, data)


def browser_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """The type and the data of what a browser is told of an event; None if it is not told."""
    match event:
        case TextDelta(text=text):
            return "text", {"text": browser_safe_text(text)}
        case ReasoningDelta(text=text):
            return "reasoning", {"text": browser_safe_text(text)}
        case CallRequested(call=call):
            return "call", {"id": browser_safe_text(call.id), "tool": browser_safe_text(call.name)}
        case CallIntended():
            return "running", {"id": event.call_id, "tool": event.tool, "arguments": _shown(event.arguments)}
        case CallProgress():
            done = {"current": event.current, "total": event.total, "stage": event.stage}
            return "progress", {"id": event.call_id, "tool": event.tool, **browser_safe(done)}
        case CallSettled():
            return "result", {"id": browser_safe_text(event.call_id), "tool": event.tool, **_told(event)}
        case ConfirmationRequested():
            return "question", recorded_question(event)
        case ConfirmationAnswered():
            return "answered", {"id": event.request, "decision": event.decision}
        case AttemptFailed(delay=delay):
            return "retry", {"seconds": delay}
        case CitationAdded(citation=citation):
            return "citation", browser_safe(msgspec.to_builtins(citation))
        case MediaAdded(media=media):
            return "media", _media(media)
    return None


def asked_question(question: Confirmation, about: str = "") -> dict[str, Any]:
    """A question as a browser shows it: exactly what would run, without declared secrets."""
    asked = {
        "id": question.request,
        "call": question.call_id,
        "tool": question.tool,
        "description": about or question.description,
        "arguments": question.shown,
        "why": question.why,
    }
    shown: dict[str, Any] = browser_safe(asked if question.form is None else {**asked, "form": question.form})
    return shown


def recorded_question(asked: ConfirmationRequested, about: str = "") -> dict[str, Any]:
    """The same from the record. The arguments are null if they were erased."""
    shown: dict[str, Any] = browser_safe(
        {
            "id": asked.request,
            "call": asked.call_id,
            "tool": asked.tool,
            "description": about,
            "arguments": asked.arguments,
            "why": "" if asked.asked is None else asked.asked.why,
        }
    )
    return shown


def browser_messages(messages: Sequence[Message], tools: RegisteredTools) -> list[dict[str, Any]]:
    """What was said and done, for a page that is loaded. What supervises the model is not shown."""
    return [shown for message in masked_messages(messages, tools) for shown in _message(message)]


def _message(message: Message) -> Iterable[dict[str, Any]]:
    match message:
        case UserMessage():
            media = [part for part in message.content if isinstance(part, Media)]
            named = [{"media_type": each.media_type, "name": each.name} for each in media]
            yield browser_safe({"role": "user", "text": message.text, **({"media": named} if named else {})})
        case AssistantMessage() if message.text or message.media:
            made = [_media(each) for each in message.media]
            cited = [msgspec.to_builtins(each) for each in message.citations]
            extras = {**({"media": made} if made else {}), **({"citations": cited} if cited else {})}
            yield browser_safe({"role": "assistant", "text": message.text, **extras})
        case InvocationMessage(call=call):
            given = {"id": call.id, "tool": call.name, "arguments": _shown(call.arguments)}
            yield browser_safe({"role": "call", **given})
        case ResultMessage(result=result):
            told = {"id": result.tool_call_id, "tool": result.name, "outcome": result.outcome}
            yield browser_safe({"role": "result", **told, "text": result_text(result)})


def result_text(result: ToolResult) -> str:
    """What a tool answered, cut; of a failure, plain words without what was raised."""
    if result.is_error:
        return _FAILURES[result.outcome]
    text = redact_text(result.text)
    return browser_safe_text(text if len(text) <= _CLIP else f"{text[:_CLIP]}…")


def failure(error: BaseException) -> tuple[str, str]:
    """A code, and words for the user that name nothing of the program."""
    match error:
        case RateLimited():
            return "rate_limited", "The model is busy. Try again in a moment."
        case ModelError():
            return "model", "The model gave no usable answer. Try again."
        case LimitExceeded():
            return "limit", "The answer was stopped at a limit."
        case ToolFailed():
            return "tool", "A step of the answer failed, and so it was stopped."
    return "internal", "Something went wrong on the server."


def _told(event: CallSettled) -> dict[str, Any]:
    text = "" if event.result is None else result_text(event.result)
    return {"outcome": event.outcome, "text": text}


def _shown(arguments: Any) -> Any:
    return browser_safe(redact(arguments))


def _media(media: Media) -> dict[str, Any]:
    data = {} if media.data is None else {"data": encode_data(media.data)}
    address = {} if media.url is None else {"url": media.url}
    shown: dict[str, Any] = browser_safe({"media_type": media.media_type, "name": media.name, **address, **data})
    return shown
