"""A turn under way, put together from its events. It believes no order of them: some services send calls in pieces
and others whole, some calls begin before the reply has ended, and a tool may call others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.display import browser_safe_text
from handrail.core.events import (
    CallAsked,
    CallDelta,
    CallIntended,
    CallProgress,
    CallRequested,
    CallSettled,
    CitationAdded,
    ConfirmationRequested,
    Event,
    MediaAdded,
    Notice,
    ReasoningDelta,
    ReplyFailed,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.messages import AssistantMessage, Citation, Media, ServiceCall
from handrail.core.redact import redact_text
from handrail.desk.message_view import (
    CLIP,
    MessageView,
    clip_text,
    indented_answer,
    notes_of,
    shown_service_call,
)
from handrail.desk.values import LiveCall, LiveTurn, ShownServiceCall

_WRITTEN = 2 * CLIP
"""Characters of arguments that are shown while they are written."""
_STEP = 16
"""Arguments that grew by less than this, or than a sixteenth, are not told again: telling all of them each time
would cost the square of their length."""


class TurnAssembler:
    """Takes events, and says at any moment how the turn stands."""

    def __init__(self, shown: MessageView, *, begun: int = 0, model: str = "") -> None:
        self._shown = shown
        self._begun = begun
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._notices: list[str] = []
        self._citations: list[Citation] = []
        self._media: list[Media] = []
        self._service_calls: list[ServiceCall] = []
        self._shown_service_calls: list[ShownServiceCall] = []
        self._calls: dict[str, LiveCall] = {}
        self._written: dict[str, _GrowingArguments] = {}
        self.requested: set[str] = set()
        """The calls that the model made itself."""

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def live(self) -> LiveTurn:
        return LiveTurn(
            text=self.text,
            reasoning="".join(self._reasoning),
            calls=tuple(self._calls.values()),
            notices=tuple(self._notices),
            model=self._model,
            begun=self._begun,
            service_calls=tuple(self._shown_service_calls),
        )

    def broken_off(self, at: int) -> AssistantMessage | None:
        """What the model said before its reply broke off, as a message; None if that is nothing."""
        if not (self.text.strip() or self._media or self._service_calls):
            return None
        return AssistantMessage(
            self.text,
            at,
            self._model,
            "max_tokens",
            citations=tuple(self._citations),
            media=tuple(self._media),
            service_calls=tuple(self._service_calls),
        )

    def took_in(self, answered: Iterable[str]) -> tuple[LiveCall, ...]:
        """The conversation has what the model said, and the results of these calls: the calls that are left."""
        self._text.clear()
        self._reasoning.clear()
        self._citations.clear()
        self._media.clear()
        self._service_calls.clear()
        self._shown_service_calls.clear()
        over = set(answered)
        self._calls = {
            id: call for id, call in self._calls.items() if id not in over and (id in self.requested or not _done(call))
        }
        self._written.clear()
        return tuple(self._calls.values())

    def take(self, event: Event) -> LiveCall | None:
        """The call that is another now, if one is and it is worth telling."""
        match event:
            case TextDelta(text=piece):
                self._text.append(browser_safe_text(piece))
            case ReasoningDelta(text=piece):
                self._reasoning.append(browser_safe_text(piece))
            case Notice(text=words):
                self._notices.append(browser_safe_text(redact_text(words)))
            case CitationAdded(citation=citation):
                self._citations.append(citation)
            case MediaAdded(media=media):
                self._media.append(media)
            case ServiceCallMade(call=made):
                self._service_calls.append(made)
                self._shown_service_calls.append(shown_service_call(made))
            case ReplyFailed():
                self._start_over()
            case CallDelta():
                return self._write(event)
            case CallRequested(call=call):
                self._request(call)
                return self._put(call.id, call.name, arguments=call.arguments)
            case CallAsked() if event.call_id in self._calls:
                return None
            case ConfirmationRequested():
                return self._put(event.call_id, event.tool, event.arguments, stage="asked")
            case CallIntended():
                return self._put(event.call_id, event.tool, event.arguments, stage="running", begun=event.at)
            case CallProgress():
                facts = {
                    "current": event.current,
                    "total": event.total,
                    "says": browser_safe_text(redact_text(event.stage)),
                }
                return self._put(event.call_id, event.tool, **facts)
            case CallSettled():
                return self._settle(event)
        return None

    def _start_over(self) -> None:
        """An attempt at a reply failed, and another may follow: what it wrote of calls is no call."""
        self._written.clear()
        self._calls = {id: call for id, call in self._calls.items() if call.stage != "writing"}

    def _request(self, call: ToolCall) -> None:
        """The model made it. If it was written under another id, it is not one more call."""
        self.requested.add(call.id)
        self._written.pop(call.id, None)
        if call.id not in self._calls:
            name = self._shown.name(call.name)
            same = (id for id, each in self._calls.items() if each.stage == "writing" and each.name == name)
            if (other := next(same, None)) is not None and other not in self.requested:
                del self._calls[other]

    def _write(self, event: CallDelta) -> LiveCall | None:
        before = self._calls.get(event.call_id)
        if before is not None and (before.stage != "writing" or self._shown.has_secrets(before.name)):
            return None
        if self._shown.has_secrets(event.name):  # they cannot be told apart yet
            return self._put(event.call_id, event.name)
        text = self._written.setdefault(event.call_id, _GrowingArguments()).add(event.arguments)
        if text is None and before is not None:
            return None
        return self._put(event.call_id, event.name, written=browser_safe_text(redact_text(text or "")))

    def _settle(self, event: CallSettled) -> LiveCall:
        result = event.result
        facts: dict[str, Any] = {"outcome": event.outcome, "duration_us": event.duration_us}
        if isinstance(result, ToolResult):
            facts["result"] = clip_text(indented_answer(result))
            facts["notes"] = notes_of(result)
            facts["error"] = "" if result.error is None else browser_safe_text(result.error.code)
        return self._put(event.call_id, event.tool, stage="done", **facts)

    def _put(self, id: str, name: str, arguments: Any = None, **facts: Any) -> LiveCall:
        """The call with these facts. One that is done stays done."""
        before = self._calls.get(id) or LiveCall(call_id=id, name=self._shown.name(name))
        if before.stage == "done":
            facts.pop("stage", None)
        if name:
            facts |= {"name": self._shown.name(name), "side_effects": self._shown.has_effects(name)}
        if arguments is not None:
            facts |= self._shown.given(name, arguments)
        self._calls[id] = replace(before, **facts)
        return self._calls[id]


class _GrowingArguments:
    """Arguments as they grow, told when they have grown enough."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._told = 0

    def add(self, piece: str) -> str | None:
        """Adds pieces of calls. Returns all of them as they are shown, if that is worth telling."""
        if self._length < _WRITTEN:
            self._pieces.append(piece)
        self._length += len(piece)
        grown = self._length - self._told
        if self._told >= _WRITTEN or (self._told and grown < max(_STEP, self._told // _STEP)):
            return None
        self._told = self._length
        return "".join(self._pieces)[:_WRITTEN]


def _done(call: LiveCall) -> bool:
    return call.stage == "done"
