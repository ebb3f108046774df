"""Answers as responses: events of a stream in the order that clients hold it to, or one document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import Citation, Media, Message, StopReason, Usage
from handrail.node.gateways.failures import GatewayFailure
from handrail.node.gateways.openai.write import DONE, openai_error_body
from handrail.node.gateways.openai_responses.output_items import CUT, Event, ResponseOutput
from handrail.node.gateways.openai_responses.read import UNSAID
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.wire import AnswerWriter, encode

_INCOMPLETE: dict[StopReason, str] = {
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


class ResponsesWriter(AnswerWriter):
    """Writes one response. It collects what happens whether or not it is streamed: the document is made of the same."""

    collects: ClassVar[bool] = True
    between: ClassVar[str] = ""

    def __init__(self, id: str, created: int, model: str, asked: GatewayRequest) -> None:
        self.id = id
        self._head: dict[str, Any] = {"id": id, "object": "response", "created_at": created, "model": model}
        self._echo = asked.echo or UNSAID
        self._client = frozenset(tool.name for tool in asked.tools)
        self._shows_calls = asked.ours.show_calls
        self._output = ResponseOutput(id)
        self._called: set[str] = set()
        self._number = 0
        self._over: dict[str, Any] | None = None
        """The document, once nothing more can change."""

    # ── while it comes ───────────────────────────────────────────────────────────────

    def resume(self, messages: Sequence[Message], *, from_record: bool = False) -> None:
        """`from_record` is for a request that is no longer known: calls without a result are then the client's."""
        self._output.rebuild(messages, None if from_record else self._client)

    def begin(self) -> bytes:
        return self._frames(
            [
                {"type": "response.created", "response": self.snapshot("in_progress")},
                {"type": "response.in_progress", "response": self.snapshot("in_progress")},
            ]
        )

    def text(self, piece: str) -> bytes:
        opened = b"" if self._output.speaking else self._frames(self._output.open_message())
        self._output.say(piece)
        item, at = self._output.speaking or ("", 0)
        self._number += 1
        # Almost every frame is a piece of text: it is written without the detour over a dict.
        return opened + (
            b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d,'
            b'"item_id":"%b","output_index":%d,"content_index":0,"delta":%b,"logprobs":[]}\n\n'
            % (self._number - 1, item.encode(), at, encode(piece))
        )

    def reasoning(self, piece: str) -> bytes:
        return self._frames(self._output.think(piece))

    def citation(self, citation: Citation) -> bytes:
        return self._frames(self._output.cite(citation))

    def media(self, media: Media) -> bytes:
        return self._frames(self._output.show(media))

    def end_reply(self, calls: Sequence[ToolCall], stop: StopReason) -> bytes:
        ours = [call for call in calls if call.name not in self._client]
        self._called.update(call.name for call in ours)
        return self._frames(self._output.end_reply(ours if self._shows_calls else (), stop))

    def end_call(self, result: ToolResult) -> bytes:
        return self._frames(self._output.end_call(result))

    # ── when it is over ──────────────────────────────────────────────────────────────

    def finish(self, ended: GatewayOutcome) -> bytes:
        events = self._finish(ended)
        document = self.whole(ended)
        events.append({"type": f"response.{document['status']}", "response": document})
        return self._frames(events) + DONE

    def whole(self, ended: GatewayOutcome) -> dict[str, Any]:
        if self._over is None:
            self._finish(ended)
        assert self._over is not None
        return self._over

    def _finish(self, ended: GatewayOutcome) -> list[Event]:
        if self._over is not None:
            return []
        events = self._output.finish(ended.calls, ended.stop if ended.stop in CUT else "end")
        reason = _INCOMPLETE.get(ended.stop)
        document = self.snapshot("incomplete" if reason else "completed")
        document["completed_at"] = None if reason else ended.at
        document["incomplete_details"] = {"reason": reason} if reason else None
        document["usage"] = _usage(ended.usage)
        self._over = document | ended.extension
        return events

    def broken(self, failure: GatewayFailure, run: str) -> bytes:
        """The error, and then the response as it failed: clients look for the one or for the other."""
        error = responses_error_body(failure, run)["error"]
        events: list[Event] = [
            {"type": "error", **{name: error[name] for name in ("code", "message", "param")}, "error": error},
            {"type": "response.failed", "response": self.fail(failure)},
        ]
        return self._frames(events) + DONE

    def fail(self, failure: GatewayFailure) -> dict[str, Any]:
        """The document of a response that failed; of one that was cancelled it says that."""
        if self._over is None:
            self._output.cut_off()
            self._over = self.snapshot("cancelled" if failure.code == "cancelled" else "failed")
            self._over["error"] = {"code": "server_error", "message": failure.message}
        return self._over

    @property
    def called(self) -> frozenset[str]:
        """The tools of the node that were called so far, also where the calls are not shown."""
        shown = (item["name"] for item in self._output.items if item["type"] == "mcp_call")
        return frozenset((*self._called, *shown))

    def snapshot(self, status: str) -> dict[str, Any]:
        """The document as it stands."""
        return {
            **self._head,
            "status": status,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": [dict(item) for item in self._output.items],
            "usage": None,
            **self._echo,
        }

    def _frames(self, events: Sequence[Event]) -> bytes:
        frames = []
        for event in events:
            numbered = {"type": event["type"], "sequence_number": self._number, **event}
            frames.append(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(numbered)))
            self._number += 1
        return b"".join(frames)


def responses_error_body(failure: GatewayFailure, id: str) -> dict[str, Any]:
    found = openai_error_body(failure, id)
    if code := (failure.api_details or {}).get("code"):
        found["error"]["code"] = code
    return found


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_written_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
