"""The output of a response while it grows: its items, and for each change the events that tell a client of it.

Each reply of the model gives, in this order: a `reasoning` item, a `message`, and a `mcp_call` for each of its calls
that the node runs. Calls that are for the client are the last items of a response, as `function_call`. The ids of
items follow from the reply or the call, not from the place: what is rebuilt from a record has the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from handrail.core.calls import ToolCall, ToolResult, encode_data
from handrail.core.messages import AssistantMessage, Citation, Media, Message, ResultMessage, StopReason
from handrail.models.history import arguments_text
from handrail.node.gateways.answer_memory import shown_tail
from handrail.node.gateways.openai_responses.ids import item_id
from handrail.run.history import calls_of_reply

Event = dict[str, Any]
"""An event without its `sequence_number`."""
LABEL = "handrail"
"""The `server_label` of calls that the node ran."""
_UNSET = ("output", "error", "approval_request_id")
"""What a call that has only begun does not have."""
CUT: tuple[StopReason, ...] = ("max_tokens", "content_filter")


class ResponseOutput:
    """The items so far; at most one of them is being written, and any number of calls are being run."""

    def __init__(self, response: str) -> None:
        self._response = response
        self.items: list[dict[str, Any]] = []
        self._writing: int | None = None
        """The place of the message, or of the reasoning, that is being written."""
        self._pieces: list[str] = []
        self._running: dict[str, int] = {}
        """The places of calls that the node runs, by the ids of the calls."""
        self._early: dict[str, ToolResult] = {}
        """Results of calls that began before their reply was on record."""
        self._reply = 0
        self._parts: dict[str, int] = {}
        """How many items of each kind this reply has so far."""
        self._annotations: dict[int, list[dict[str, Any]]] = {}
        """Of messages, by their places."""

    @property
    def speaking(self) -> tuple[str, int] | None:
        """The id and the place of the message that is being written."""
        at = self._writing
        return None if at is None or self.items[at]["type"] != "message" else (self.items[at]["id"], at)

    # ── what the model says ──────────────────────────────────────────────────────────

    def open_message(self) -> list[Event]:
        events = self.close()
        events.append(self._add(self._named("msg"), "message", role="assistant", content=[]))
        events.append(self._at("response.content_part.added", content_index=0, part=_part("")))
        return events

    def say(self, piece: str) -> None:
        self._pieces.append(piece)

    def cite(self, citation: Citation) -> list[Event]:
        """Name a source of the message that is being written, or of the last one that was."""
        at = next((at for at in reversed(range(len(self.items))) if self.items[at]["type"] == "message"), None)
        if at is None or not citation.url:
            return []
        said = "".join(self._pieces) if at == self._writing else self.items[at]["content"][0]["text"]
        annotation = {
            "type": "url_citation",
            "url": citation.url,
            "title": citation.title,
            "start_index": citation.start or 0,
            "end_index": len(said) if citation.end is None else citation.end,
        }
        known = self._annotations.setdefault(at, [])
        known.append(annotation)
        if at != self._writing:
            self.items[at]["content"][0]["annotations"] = known
        return [
            {
                "type": "response.output_text.annotation.added",
                "item_id": self.items[at]["id"],
                "output_index": at,
                "content_index": 0,
                "annotation_index": len(known) - 1,
                "annotation": annotation,
            }
        ]

    def think(self, piece: str) -> list[Event]:
        events: list[Event] = []
        if self._writing is None or self.items[self._writing]["type"] != "reasoning":
            events += self.close()
            events.append(self._add(self._named("rs"), "reasoning", summary=[]))
            events.append(self._at("response.reasoning_summary_part.added", summary_index=0, part=_summary("")))
        self._pieces.append(piece)
        events.append(self._at("response.reasoning_summary_text.delta", summary_index=0, delta=piece))
        return events

    def show(self, media: Media) -> list[Event]:
        """A picture that the model made."""
        if media.data is None or not media.media_type.startswith("image/"):
            return []
        id = self._named("ig")
        events = [*self.close(), self._add(id, "image_generation_call", result=None)]
        self.items[-1] |= {"status": "completed", "result": encode_data(media.data)}
        return [*events, self._done(self._stop_writing())]

    def close(self, stop: StopReason = "end") -> list[Event]:
        """End the message, or the reasoning, that is being written."""
        if self._writing is None:
            return []
        item, text = self.items[self._writing], "".join(self._pieces)
        if item["type"] == "reasoning":
            part = _summary(text)
            events = [
                self._at("response.reasoning_summary_text.done", summary_index=0, text=text),
                self._at("response.reasoning_summary_part.done", summary_index=0, part=part),
            ]
            item |= {"status": "completed", "summary": [part]}
        else:
            part = _part(text, self._annotations.get(self._writing))
            events = [
                self._at("response.output_text.done", content_index=0, text=text, logprobs=[]),
                self._at("response.content_part.done", content_index=0, part=part),
            ]
            item |= {"status": "incomplete" if stop in CUT else "completed", "content": [part]}
        return [*events, self._done(self._stop_writing())]

    # ── what is called ───────────────────────────────────────────────────────────────

    def end_reply(self, calls: Iterable[ToolCall], stop: StopReason) -> list[Event]:
        """A reply is complete and on record: these of its calls are run by the node."""
        events = [*self.close(stop), *self._give_up_running()]
        for call in calls:
            events += self._begin(call)
            if (result := self._early.get(call.id)) is not None:
                events += self.end_call(result)
        self._early.clear()
        self._parts.clear()
        self._reply += 1
        return events

    def end_call(self, result: ToolResult) -> list[Event]:
        at = self._running.pop(result.tool_call_id, None)
        if at is None:
            self._early[result.tool_call_id] = result
            return []
        if result.is_error:
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": result.text}]}
            return self._close_call(at, "failed", "response.mcp_call.failed", error=error)
        return self._close_call(at, "completed", "response.mcp_call.completed", output=result.text)

    def hand_over(self, calls: Iterable[ToolCall]) -> list[Event]:
        """Calls that the client runs."""
        events: list[Event] = []
        for call in calls:
            written = arguments_text(call)
            id = item_id("fc", self._response, shown_tail(call.id))
            events.append(self._add(id, "function_call", call_id=call.id, name=call.name, arguments=""))
            events.append(self._at("response.function_call_arguments.delta", delta=written))
            events.append(self._at("response.function_call_arguments.done", name=call.name, arguments=written))
            self.items[-1] |= {"status": "completed", "arguments": written}
            events.append(self._done(self._stop_writing()))
        return events

    def finish(self, calls: Iterable[ToolCall], stop: StopReason) -> list[Event]:
        return [*self.close(stop), *self._give_up_running(), *self.hand_over(calls)]

    def cut_off(self) -> None:
        """Ends the output: nothing more comes, and the unfinished item is incomplete."""
        self.close("max_tokens")
        self._give_up_running()

    def _begin(self, call: ToolCall) -> list[Event]:
        written = arguments_text(call)
        id, unset = item_id("mcp", self._response, shown_tail(call.id)), dict.fromkeys(_UNSET)
        events = [
            self._add(id, "mcp_call", server_label=LABEL, name=call.name, arguments="", **unset),
            self._at("response.mcp_call.in_progress"),
            self._at("response.mcp_call_arguments.delta", delta=written),
            self._at("response.mcp_call_arguments.done", arguments=written),
        ]
        self.items[-1]["arguments"] = written
        self._running[call.id] = self._stop_writing()
        return events

    def _close_call(self, at: int, status: str, event: str, **came: Any) -> list[Event]:
        self.items[at] |= {"status": status, **came}
        return [{"type": event, "item_id": self.items[at]["id"], "output_index": at}, self._done(at)]

    def _give_up_running(self) -> list[Event]:
        """Calls without a result, as those that wait for a person."""
        left, self._running = list(self._running.values()), {}
        return [event for at in left for event in self._close_call(at, "incomplete", "response.mcp_call.failed")]

    # ── from a record ────────────────────────────────────────────────────────────────

    def rebuild(self, messages: Iterable[Message], client: frozenset[str] | None = None) -> list[Event]:
        """Take in messages of this response as if they came now. Calls with these names are the client's; None takes
        those for the client's that have no result."""
        messages = tuple(messages)
        answered = {each.invocation_id for each in messages if isinstance(each, ResultMessage)}
        events: list[Event] = []
        for at, message in enumerate(messages):
            match message:
                case AssistantMessage(text=text, stop=stop):
                    if text:
                        events += self.open_message()
                        self.say(text)
                        events.append(self._at("response.output_text.delta", content_index=0, delta=text, logprobs=[]))
                    for citation in message.citations:
                        events += self.cite(citation)
                    for media in message.media:
                        events += self.show(media)
                    calls = calls_of_reply(messages, at)
                    ours = [
                        each for each in calls if (each.id in answered if client is None else each.name not in client)
                    ]
                    events += self.end_reply(ours, stop)
                case ResultMessage(result=result):
                    events += self.end_call(result)
        return events

    # ── events ───────────────────────────────────────────────────────────────────────

    def _named(self, kind: str) -> str:
        count = self._parts[kind] = self._parts.get(kind, 0) + 1
        return item_id(kind, self._response, f"{self._reply}" if count == 1 else f"{self._reply}_{count}")

    def _add(self, id: str, kind: str, **fields: Any) -> Event:
        item = {"id": id, "type": kind, "status": "in_progress", **fields}
        self.items.append(item)
        self._writing, self._pieces = len(self.items) - 1, []
        return {"type": "response.output_item.added", "output_index": self._writing, "item": dict(item)}

    def _stop_writing(self) -> int:
        at, self._writing, self._pieces = self._writing, None, []
        assert at is not None  # it is called only after `_add`
        return at

    def _at(self, kind: str, **fields: Any) -> Event:
        """An event about the item that is being written."""
        assert self._writing is not None
        return {"type": kind, "item_id": self.items[self._writing]["id"], "output_index": self._writing, **fields}

    def _done(self, at: int) -> Event:
        return {"type": "response.output_item.done", "output_index": at, "item": dict(self.items[at])}


def _part(text: str, annotations: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations or [], "logprobs": []}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}
