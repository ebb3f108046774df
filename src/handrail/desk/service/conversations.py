"""Conversations and questions as capabilities: what the page's chat calls.

Each is a thin row over one method of the desk. What goes in is bounded here; what it means, the desk says.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.service.capabilities import (
    AtMachine,
    Offered,
    answer_capability,
    caller_answer_capability,
    stream_capability,
)
from handrail.desk.values import AttachedFile, ConversationEvent, ConversationSnapshot
from handrail.desk.views.settings import AT_MACHINE
from handrail.node.bus.request import Caller, RouteRequest
from handrail.node.services.schema_parts import closed_object

WATCHED = ("talk", "gone", "alert", "settled", "question", "answered", "tools")
"""The frames of `desk.watch`."""
_PLAIN = {"gone": "id", "settled": "id", "answered": "request", "tools": "count"}
"""Of those that are told as one plain value, its name on the wire."""
FOLLOWED = ("snapshot", "told")
"""The frames of `desk.follow`."""
_ID = {"type": "string", "minLength": 1, "maxLength": 200}
_NAME = {"type": "string", "maxLength": 200}
_MODEL = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "null"}]}
_ENSEMBLES = {"anyOf": [{"type": "array", "maxItems": 1_000, "items": _NAME}, {"type": "null"}]}
_WORDS = {"type": "string", "maxLength": 1_000_000}
_SHORT = {"type": "string", "maxLength": 2_000}
_INDEX = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_BYTES = {"type": "string", "maxLength": 16_000_000, "description": "In base64."}
_ATTACHED = {
    "type": "array",
    "maxItems": 32,
    "items": closed_object({"name": _NAME, "media_type": _NAME, "data": _BYTES}, ["name", "media_type", "data"]),
}
_GIVEN = {"type": ["object", "string"], "description": "A string is the JSON text: exact, where a browser rounds."}
_DECISION = {"enum": ["allow", "always", "deny", "edit", "later"]}


class ConversationCapabilities:
    """What the desk can do with conversations."""

    def __init__(self, desk: Desk, at_machine: AtMachine) -> None:
        self._desk = desk
        self._at_machine = at_machine

    def capabilities(self) -> Iterator[Offered]:
        yield from self._looking()
        yield from self._talking()
        yield from self._keeping()
        yield from self._asking()

    def _looking(self) -> Iterator[Offered]:
        desk, one = self._desk, {"id": _ID}

        async def talks(given: dict[str, Any]) -> Any:
            return {"talks": await desk.talks(given.get("search", ""))}

        async def items(given: dict[str, Any]) -> Any:
            return {"items": await desk.items(given["id"], given["before"], given.get("limit", 40))}

        async def whole(given: dict[str, Any]) -> Any:
            return {"text": await desk.whole(given["id"], given["index"])}

        async def attachment(given: dict[str, Any]) -> Any:
            return await desk.attachment(given["id"], given["index"], given["part"])

        async def watch(request: RouteRequest) -> None:
            await _tell(request, desk.watch())

        async def follow(request: RouteRequest) -> None:
            given = request.input
            await _tell(request, _named(desk.follow(given["id"], given.get("after"))))

        async def about(given: dict[str, Any]) -> Any:
            return desk.about()

        page = {**one, "before": _INDEX, "limit": {"type": "integer", "minimum": 1, "maximum": 500}}
        yield answer_capability("desk.about", "What a page needs to begin.", about)
        yield answer_capability("desk.talks", "Conversations, the last used first.", talks, {"search": _SHORT})
        yield stream_capability("desk.watch", "News of all conversations.", watch, frames=WATCHED)
        told = {**one, "after": {"type": "integer", "minimum": 0}}
        yield stream_capability(
            "desk.follow", "A conversation, and what happens in it.", follow, told, ["id"], frames=FOLLOWED
        )
        yield answer_capability("desk.items", "Older messages.", items, page, ["id", "before"])
        yield answer_capability("desk.whole", "All of a text.", whole, {**one, "index": _INDEX}, ["id", "index"])
        part = {**one, "index": _INDEX, "part": _INDEX}
        yield answer_capability("desk.attachment", "A file of a message.", attachment, part, ["id", "index", "part"])

    def _talking(self) -> Iterator[Offered]:
        desk, one = self._desk, {"id": _ID}

        async def begin(given: dict[str, Any]) -> Any:
            return {"id": await desk.begin(**given)}

        async def say(given: dict[str, Any]) -> Any:
            attached = tuple(_attached(each) for each in given.get("attached", ()))
            upto, once = given.get("upto"), given.get("once")
            return {"index": await desk.say(given["id"], given["text"], attached, upto=upto, once=once)}

        async def again(given: dict[str, Any]) -> Any:
            await desk.again(given["id"])

        async def stop(given: dict[str, Any]) -> Any:
            await desk.stop(given["id"])

        async def undo(given: dict[str, Any]) -> Any:
            return {"words": await desk.undo(given["id"], given["upto"])}

        async def choose(given: dict[str, Any]) -> Any:
            await desk.choose(**given)

        chosen = {"model": _MODEL, "ensembles": _ENSEMBLES}
        words = {**one, "text": _WORDS, "attached": _ATTACHED, "upto": _INDEX, "once": _ID}
        yield answer_capability("desk.begin", "A new conversation.", begin, {**chosen, "system": _WORDS}, changes=True)
        yield answer_capability(
            "desk.say", "Say something; the model answers.", say, words, ["id", "text"], changes=True
        )
        yield answer_capability("desk.again", "Let the model answer again.", again, one, ["id"], changes=True)
        yield answer_capability("desk.stop", "End the turn under way.", stop, one, ["id"])
        yield answer_capability("desk.undo", "Keep so many messages.", undo, {**one, "upto": _INDEX}, ["id", "upto"])
        yield answer_capability("desk.choose", "Other models and tools.", choose, {**one, **chosen}, ["id"])

    def _keeping(self) -> Iterator[Offered]:
        desk, one = self._desk, {"id": _ID}

        async def fork(given: dict[str, Any]) -> Any:
            return {"id": await desk.fork(given["id"], given.get("upto"))}

        async def rename(given: dict[str, Any]) -> Any:
            await desk.rename(given["id"], given["title"])

        async def delete(given: dict[str, Any]) -> Any:
            await desk.delete(given["id"])

        async def share(given: dict[str, Any]) -> Any:
            return await desk.share(given["id"])

        async def take(given: dict[str, Any]) -> Any:
            return {"id": await desk.take(decode_base64_bytes(given["data"]))}

        title = {"type": "string", "minLength": 1, "maxLength": 500}
        yield answer_capability("desk.fork", "Go on elsewhere.", fork, {**one, "upto": _INDEX}, ["id"], changes=True)
        yield answer_capability("desk.rename", "Another title.", rename, {**one, "title": title}, ["id", "title"])
        yield answer_capability("desk.delete", "Delete a conversation; the record stays.", delete, one, ["id"])
        yield answer_capability("desk.share", "A conversation as a file.", share, one, ["id"])
        yield answer_capability(
            "desk.take", "A conversation of a file.", take, {"data": _BYTES}, ["data"], changes=True
        )

    def _asking(self) -> Iterator[Offered]:
        desk = self._desk

        async def questions(given: dict[str, Any]) -> Any:
            return {"questions": desk.questions}

        async def decide(given: dict[str, Any], caller: Caller) -> Any:
            if given["decision"] == "always" and not self._at_machine(caller):
                raise UsageError(f"a rule is set only at the machine itself ({AT_MACHINE}); allow this one call")
            how = {name: given[name] for name in ("arguments", "reason", "rule") if name in given}
            await desk.decide(given["request"], given["decision"], **how)

        async def dismiss(given: dict[str, Any]) -> Any:
            await desk.dismiss(given["id"])

        word = {"request": _ID, "decision": _DECISION, "arguments": _GIVEN, "reason": _SHORT}
        rule = {"type": "string", "minLength": 1, "maxLength": 10_000}
        yield answer_capability("desk.questions", "What waits for a word.", questions)
        yield caller_answer_capability(
            "desk.decide", "A person's word.", decide, {**word, "rule": rule}, ["request", "decision"], changes=True
        )
        yield answer_capability("desk.dismiss", "The failure was seen.", dismiss, {"id": _ID}, ["id"])


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
