"""What happens in a conversation, as updates of the Agent Client Protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from acp.helpers import (
    SessionUpdate,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_user_message_text,
)
from acp.schema import (
    PermissionOption,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)

from handrail.desk.values import (
    ConversationEvent,
    ConversationItem,
    ConversationSnapshot,
    DeskQuestion,
    LiveCall,
    RuleOffer,
    ShownServiceCall,
)

ALLOW, DENY, ALWAYS = "allow", "deny", "always-"
"""Ids of the options of a permission request; `always-` goes before the number of a rule that was offered."""


class TurnUpdates:
    """The updates of one turn. A call is told when it is first seen, and again when its stage or progress changes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Any, ...]] = {}
        """What was last told of each call."""
        self._text = ""
        """What was told of the reply under way."""
        self._title = ""

    def of(self, event: ConversationEvent | ConversationSnapshot) -> Iterator[SessionUpdate]:
        if isinstance(event, ConversationSnapshot):
            yield from self._caught_up(event)
            return
        data = event.data
        match event.type:
            case "text":
                self._text += data["text"]
                yield update_agent_message_text(data["text"])
            case "reasoning" | "notice":
                yield update_agent_thought_text(data["text"])
            case "call":
                yield from self._call(data)
            case "service_call":
                yield _service_call(data)
            case "items":
                self._text = ""
            case "about" if data["title"] not in ("", self._title):
                self._title = data["title"]
                yield SessionInfoUpdate(session_update="session_info_update", title=data["title"])

    def _caught_up(self, snapshot: ConversationSnapshot) -> Iterator[SessionUpdate]:
        """The client was so slow that events were forgotten: what is new of the reply under way, and its calls."""
        if (live := snapshot.live) is None:
            return
        if new := live.text.removeprefix(self._text):
            self._text = live.text
            yield update_agent_message_text(new)
        for call in live.calls:
            yield from self._call(call)

    def _call(self, call: LiveCall) -> Iterator[SessionUpdate]:
        facts = (call.stage, call.says, call.current, call.total, call.outcome)
        before = self._told.get(call.call_id)
        if before == facts:
            return
        self._told[call.call_id] = facts
        content = [tool_content(text_block(text))] if (text := _said_by(call)) else None
        shared: dict[str, Any] = {
            "tool_call_id": call.call_id,
            "title": call.name,
            "status": _status(call),
            "raw_input": call.arguments,
            "content": content,
        }
        if before is None:
            yield ToolCallStart(session_update="tool_call", kind=_kind(call.side_effects), **shared)
        else:
            yield ToolCallProgress(session_update="tool_call_update", **shared)


def _status(call: LiveCall) -> ToolCallStatus:
    if call.stage == "done":
        return "completed" if call.outcome == "ok" else "failed"
    return "in_progress" if call.stage == "running" else "pending"


def _kind(side_effects: bool) -> ToolKind:
    return "other" if side_effects else "read"


def _said_by(call: LiveCall) -> str:
    """Its result, or what it says of its progress."""
    if call.result is not None:
        return "\n".join((call.result.text, *call.notes))
    far = "" if call.current is None else f"{call.current:g}" + (f"/{call.total:g} " if call.total else " ")
    return f"{far}{call.says}".strip()


def _service_call(call: ShownServiceCall) -> SessionUpdate:
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=call.id,
        title=call.name,
        kind="fetch",
        status="failed" if call.failed else "completed",
        raw_input=call.arguments,
        content=None if call.result is None else [tool_content(text_block(call.result.text))],
    )


def updates_of_items(items: Sequence[ConversationItem]) -> Iterator[SessionUpdate]:
    """What was said before, for an editor that opens a conversation again."""
    for item in items:
        text = "" if item.text is None else item.text.text
        match item.kind:
            case "user" | "document" if text:
                yield update_user_message_text(text)
            case "assistant":
                if text:
                    yield update_agent_message_text(text)
                for call in item.service_calls:
                    yield _service_call(call)
            case "call":
                yield ToolCallStart(
                    session_update="tool_call",
                    tool_call_id=item.call_id,
                    title=item.name,
                    kind=_kind(item.side_effects),
                    status="pending",
                    raw_input=item.arguments,
                )
            case "result":
                yield ToolCallProgress(
                    session_update="tool_call_update",
                    tool_call_id=item.call_id,
                    status="completed" if item.outcome == "ok" else "failed",
                    content=[tool_content(text_block("\n".join((text, *item.notes))))],
                )


def permission_options(question: DeskQuestion) -> list[PermissionOption]:
    """What a person may choose: this call, every call that a rule covers, or none."""
    always = [
        PermissionOption(option_id=f"{ALWAYS}{at}", name=_rule_sentence(offer), kind="allow_always")
        for at, offer in enumerate(question.offers)
    ]
    return [
        PermissionOption(option_id=ALLOW, name="Allow", kind="allow_once"),
        *always,
        PermissionOption(option_id=DENY, name="Deny", kind="reject_once"),
    ]


def _rule_sentence(offer: RuleOffer) -> str:
    values = [f"{each.name} {'in' if each.inside else '='} {each.value}" for each in offer.values]
    free = [f"any {name}" for name in offer.free]
    held = ", ".join((*values, *free))
    return f"Always allow {offer.tool}" + (f" with {held}" if held else "")


def asked_call(question: DeskQuestion) -> ToolCallUpdate:
    """The call that a permission is asked for, with every argument exactly as it will run."""
    said = "\n\n".join(part for part in (question.description, question.why, question.written) if part)
    return ToolCallUpdate(
        tool_call_id=question.call_id,
        title=question.tool,
        status="pending",
        raw_input=question.arguments,
        content=[tool_content(text_block(said))],
    )
