"""Answers as AG-UI events, in the order that frontends hold a stream to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import InvocationMessage, Message, StopReason, Usage
from handrail.node.gateways.agui.interrupts import interrupt_id
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest, UnconfirmedCall
from handrail.node.gateways.wire import AnswerWriter, encode

Event = dict[str, Any]
_APPROVAL = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
}


def _frames(events: Sequence[Event]) -> bytes:
    return b"".join(b"data: %b\n\n" % encode(event) for event in events)


class AguiWriter(AnswerWriter):
    """Writes each reply of the model as a message of its own, followed by its calls and their results."""

    collects: ClassVar[bool] = True
    between: ClassVar[str] = ""

    def __init__(self, id: str, created: int, model: str, asked: GatewayRequest) -> None:
        self._run = dict(asked.echo)
        self._id = id
        self._model = model
        self._client = frozenset(tool.name for tool in asked.tools)
        self._shows_calls = asked.ours.show_calls
        self._shown = {message.id for message in asked.messages if isinstance(message, InvocationMessage)}
        """Calls that the frontend knows."""
        self._count = 0
        self._open: tuple[str, str] | None = None
        """The kind and the id of the message under way."""

    def resume(self, messages: Sequence[Message]) -> None:
        self._shown |= {message.id for message in messages if isinstance(message, InvocationMessage)}

    def begin(self) -> bytes:
        return _frames([{"type": "RUN_STARTED", **self._run}])

    def text(self, piece: str) -> bytes:
        events = self._opened("TEXT_MESSAGE")
        return _frames([*events, {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._message, "delta": piece}])

    def reasoning(self, piece: str) -> bytes:
        events = self._opened("REASONING_MESSAGE")
        return _frames([*events, {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._message, "delta": piece}])

    @property
    def _message(self) -> str:
        return "" if self._open is None else self._open[1]

    def _opened(self, kind: str) -> list[Event]:
        """What begins a message of this kind, unless one is under way."""
        if self._open is not None and self._open[0] == kind:
            return []
        events = self._closed()
        self._count += 1
        id = f"{self._id}-{self._count}"
        self._open = (kind, id)
        if kind == "REASONING_MESSAGE":
            events.append({"type": "REASONING_START", "messageId": id})
            return [*events, {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}]
        return [*events, {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}]

    def _closed(self) -> list[Event]:
        if self._open is None:
            return []
        kind, id = self._open
        self._open = None
        events: list[Event] = [{"type": f"{kind}_END", "messageId": id}]
        return [*events, {"type": "REASONING_END", "messageId": id}] if kind == "REASONING_MESSAGE" else events

    def end_reply(self, calls: Sequence[ToolCall], stop: StopReason) -> bytes:
        spoken = self._open[1] if self._open is not None and self._open[0] == "TEXT_MESSAGE" else None
        events = self._closed()
        for call in calls:
            if self._shows_calls or call.name in self._client:
                self._shown.add(call.id)
                events += _call(call, spoken)
        return _frames(events)

    def end_call(self, result: ToolResult) -> bytes:
        if result.tool_call_id not in self._shown or result.outcome == "needs_confirmation":
            return b""
        self._count += 1
        return _frames(
            [
                *self._closed(),
                {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": f"{self._id}-{self._count}",
                    "toolCallId": result.tool_call_id,
                    "role": "tool",
                    "content": result.content if isinstance(result.content, str) else encode(result.content).decode(),
                },
            ]
        )

    def finish(self, ended: GatewayOutcome) -> bytes:
        return _frames([*self._closed(), *self._notices(ended), self._finished(ended)])

    def _notices(self, ended: GatewayOutcome) -> list[Event]:
        return [{"type": "CUSTOM", "name": "handrail.notice", "value": words} for words in ended.notices]

    def _finished(self, ended: GatewayOutcome) -> Event:
        outcome: dict[str, Any] = {"type": "success"}
        if ended.calls:
            outcome["pendingToolCallIds"] = [call.id for call in ended.calls]
        if ended.waiting:
            interrupts = [_interrupt(ended.run, each) for each in ended.waiting]
            outcome = {"type": "interrupt", "interrupts": interrupts}
        return {
            "type": "RUN_FINISHED",
            **self._run,
            "outcome": outcome,
            "usage": [{"model": self._model, **_usage(ended.usage)}],
            "metadata": {"handrail": {"run": ended.run, "stop": ended.stop}},
        }

    def whole(self, ended: GatewayOutcome) -> dict[str, Any]:
        """A stream of which nothing was sent before its end is never whole: what is here is its last event."""
        return self._finished(ended)

    def broken(self, failure: GatewayFailure, run: str) -> bytes:
        error = {"type": "RUN_ERROR", "message": failure.message, "code": failure.code}
        return _frames([*self._closed(), {**error, "metadata": {"handrail": {"run": run}}}])


def agui_error_body(failure: GatewayFailure, id: str) -> dict[str, Any]:
    return {"error": {"code": failure.code, "message": failure.message, "param": failure.param}, "request_id": id}


def _call(call: ToolCall, message: str | None) -> list[Event]:
    started: Event = {"type": "TOOL_CALL_START", "toolCallId": call.id, "toolCallName": call.name}
    if message is not None:
        started["parentMessageId"] = message
    written = call.arguments if isinstance(call.arguments, str) else encode(call.arguments).decode()
    return [
        started,
        {"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": written},
        {"type": "TOOL_CALL_END", "toolCallId": call.id},
    ]


def _interrupt(run: str, waits: UnconfirmedCall) -> Event:
    how = f"on the page of the node, or with: handrail confirm allow {waits.request}"
    return {
        "id": interrupt_id(run, waits.request),
        "reason": "tool_call",
        "message": f"{waits.tool} waits for a person's answer. It is given {how}",
        "toolCallId": waits.call_id,
        "responseSchema": _APPROVAL,
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cachedInputTokens": usage.cached_tokens,
        "cacheWriteInputTokens": usage.cache_written_tokens,
    }
