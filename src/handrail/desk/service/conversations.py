"""Conversations and questions as capabilities: what the page's chat calls.

Each is a thin row over one method of the desk. What goes in is bounded here; what it means, the desk says.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.service.capabilities import AtMachine, CapabilityTable, Offered
from handrail.desk.values import AttachedFile, ConversationEvent, ConversationSnapshot
from handrail.desk.views.settings import AT_MACHINE
from handrail.node.bus.request import Caller, RouteRequest
from handrail.node.services.schema_parts import closed_object

WATCHED = ("talk", "gone", "alert", "settled", "question", "answered", "tools")
"""The frames of `desk.watch`."""
_PLAIN = {"gone": "id", "settled": "id", "answered": "request", "tools": "count"}
"""The names on the wire of results that are one plain value."""
FOLLOWED = ("snapshot", "told")
"""The frames of `desk.follow`."""
_ID = {"type": "string", "minLength": 1, "maxLength": 200}
_NAME = {"type": "string", "maxLength": 200}
_WORDS = {"type": "string", "maxLength": 1_000_000}
_SHORT = {"type": "string", "maxLength": 2_000}
_INDEX = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_BYTES = {"type": "string", "maxLength": 16_000_000, "description": "In base64."}
_TABLE = CapabilityTable(
    {
        "after": {"type": "integer", "minimum": 0},
        "arguments": {
            "type": ["object", "string"],
            "description": "As an object, or as JSON text, which keeps numbers that a browser would round.",
        },
        "attached": {
            "type": "array",
            "maxItems": 32,
            "items": closed_object(
                {"name": _NAME, "media_type": _NAME, "data": _BYTES}, ["name", "media_type", "data"]
            ),
        },
        "before": _INDEX,
        "data": _BYTES,
        "decision": {"enum": ["allow", "always", "deny", "edit", "later"]},
        "ensembles": {"anyOf": [{"type": "array", "maxItems": 1_000, "items": _NAME}, {"type": "null"}]},
        "id": _ID,
        "index": _INDEX,
        "limit": {"type": "integer", "minimum": 1, "maximum": 500},
        "model": {"anyOf": [_ID, {"type": "null"}]},
        "off": {"type": "array", "maxItems": 10_000, "items": _NAME},
        "once": _ID,
        "part": _INDEX,
        "reason": _SHORT,
        "request": _ID,
        "rule": {"type": "string", "minLength": 1, "maxLength": 10_000},
        "search": _SHORT,
        "system": _WORDS,
        "text": _WORDS,
        "title": {"type": "string", "minLength": 1, "maxLength": 500},
        "upto": _INDEX,
    }
)


class ConversationCapabilities:
    """What the desk can do with conversations."""

    def __init__(self, desk: Desk, at_machine: AtMachine) -> None:
        self._desk = desk
        self._at_machine = at_machine

    def capabilities(self) -> Iterator[Offered]:
        desk, answer, stream = self._desk, _TABLE.answer, _TABLE.stream
        # looking
        yield answer("desk.about", "What the page loads first: models, tools, settings.", desk.about)
        yield answer("desk.talks", "List conversations, most recently used first.", desk.talks, "search?", "talks")
        yield stream("desk.watch", "Changes in all conversations, as they happen.", self._watch, frames=WATCHED)
        says = "A conversation and its events, as they happen."
        yield stream("desk.follow", says, self._follow, "id after?", frames=FOLLOWED)
        yield answer("desk.items", "Older messages of a conversation.", desk.items, "id before limit?", "items")
        yield answer("desk.whole", "The full text of a shortened message.", desk.whole, "id index", "text")
        yield answer("desk.attachment", "A file that is attached to a message.", desk.attachment, "id index part")
        # talking
        fields = "model? ensembles? off? system?"
        yield answer("desk.begin", "Start a conversation.", desk.begin, fields, "id", changes=True)
        fields = "id text attached? upto? once?"
        yield answer("desk.say", "Send a prompt; the model answers.", self._say, fields, "index", changes=True)
        yield answer("desk.again", "Let the model answer again.", desk.again, "id", changes=True)
        yield answer("desk.stop", "Stop the current turn.", desk.stop, "id")
        yield answer("desk.undo", "Undo: keep only the first messages.", desk.undo, "id upto", "words")
        yield answer("desk.choose", "Choose the model and the tools.", desk.choose, "id model? ensembles? off?")
        # keeping
        yield answer("desk.fork", "Continue in a copy of the conversation.", desk.fork, "id upto?", "id", changes=True)
        yield answer("desk.rename", "Rename a conversation.", desk.rename, "id title")
        yield answer("desk.delete", "Delete a conversation; the record stays.", desk.delete, "id")
        yield answer("desk.share", "Export a conversation as a file.", desk.share, "id")
        yield answer("desk.take", "Import a conversation from a file.", self._take, "data", "id", changes=True)
        # asking
        yield answer("desk.questions", "Calls that wait for approval.", desk.all_questions, key="questions")
        fields = "request decision arguments? reason? rule?"
        yield answer("desk.decide", "Allow, deny or edit a call.", self._decide, fields, with_caller=True, changes=True)
        yield answer("desk.dismiss", "Dismiss a failure alert.", desk.dismiss, "id")

    async def _watch(self, request: RouteRequest) -> None:
        await _tell(request, self._desk.watch())

    async def _follow(self, request: RouteRequest) -> None:
        await _tell(request, _named(self._desk.follow(**request.input)))

    async def _say(self, *, attached: Sequence[dict[str, Any]] = (), **given: Any) -> int:
        return await self._desk.say(**given, attached=tuple(map(_attached, attached)))

    async def _take(self, data: str) -> str:
        return await self._desk.take(decode_base64_bytes(data))

    async def _decide(self, *, caller: Caller, **given: Any) -> None:
        if given["decision"] == "always" and not self._at_machine(caller):
            raise UsageError(f"a rule is set only at the machine itself ({AT_MACHINE}); allow this one call")
        await self._desk.decide(**given)


async def _named(
    news: AsyncGenerator[ConversationSnapshot | ConversationEvent, None],
) -> AsyncGenerator[tuple[str, Any], None]:
    async with aclosing(news):
        async for each in news:
            yield ("snapshot" if isinstance(each, ConversationSnapshot) else "told"), each


async def _tell(request: RouteRequest, news: AsyncGenerator[tuple[str, Any], None]) -> None:
    """Send what there is until it ends or nobody listens any more; then nothing of it is left."""
    async with aclosing(news):
        async for name, value in news:
            shown = msgspec.to_builtins(value)
            await request.send(name, shown if isinstance(shown, dict) else {_PLAIN[name]: shown})


def _attached(given: dict[str, Any]) -> AttachedFile:
    return AttachedFile(name=given["name"], media_type=given["media_type"], data=decode_base64_bytes(given["data"]))


def decode_base64_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError("the data of a file is in base64, and this is not") from error
