"""A model that answers from a file, for demonstrations and tests of whole programs: `scripted:replies.toml`.

    [[reply]]
    text = "Let me see."
    calls = [{ name = "add", arguments = { a = 1, b = 2 } }]

    [[reply]]
    text = "It is 3."

Which reply comes next is read from the conversation and not counted, so a run that
was cut off goes on in another process. A reply with `when` is for questions that
hold these words; those of one question come in their order. A reply with an `error`
fails instead, as a service does: `error = "model_unavailable"`; one with `breaks`
is cut off after its text. `citations`, `media` (its data in base64) and `service_calls`
are what a service adds to a reply, with the fields of the values in `core/messages.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused, UsageError
from handrail.core.events import (
    CallDelta,
    CallRequested,
    CitationAdded,
    MediaAdded,
    ModelEvent,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.ids import NewId, new_id
from handrail.core.messages import AssistantMessage, Citation, Media, ServiceCall, UserMessage
from handrail.core.model_request import ModelRequest

Error = Literal["model_error", "rate_limited", "model_unavailable", "request_refused", "protocol_error"]
ERRORS: Mapping[str, type[ModelError]] = {
    kind.code: kind for kind in (ModelError, RateLimited, ModelUnavailable, RequestRefused, ProtocolError)
}

_PIECE = 24
"""Characters of arguments that come at once."""


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A call in a reply of a script. Its arguments may also be text, valid or not, as a model would write them."""

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)
    id: str = ""


class ReplyLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One reply of a script in a file."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    when: str | None = None
    error: Error | None = None
    """Instead of a reply: the code of a `ModelError`, of which `text` are the words."""
    breaks: str | None = None
    """What a service says that breaks off after the text."""
    citations: tuple[Citation, ...] = ()
    media: tuple[Media, ...] = ()
    service_calls: tuple[ServiceCall, ...] = ()


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """The replies of a model, as a file has them."""

    reply: tuple[ReplyLine, ...]
    name: str = "scripted"


class ScriptFile:
    """A `Model`. The text of a reply comes word by word, as from a service, and the arguments of a call in pieces."""

    def __init__(self, script: Script, *, new_id: NewId = new_id) -> None:
        self.name: str = script.name
        self._replies = script.reply
        self._new_id = new_id

    @classmethod
    def read(cls, path: Path) -> ScriptFile:
        """The script in this file, TOML or JSON.

        Raises:
            UsageError: There is no such file, or it is no script.
        """
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
        try:
            return cls(decode(path.read_bytes(), type=Script))
        except OSError as error:
            raise UsageError(f"the script {str(path)!r} cannot be read: {error.strerror}") from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise UsageError(f"{path}: is not a script of replies: {error}") from error

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reply = self._next(request)
        if reply.error is not None:
            raise ERRORS[reply.error](reply.text or "the script says so")
        for made in reply.service_calls:
            yield ServiceCallMade(call=made)
        for word in re.findall(r"\S*\s*", reply.text):
            if word:
                await asyncio.sleep(0)  # as from a service, others get their turn
                yield TextDelta(text=word)
        for citation in reply.citations:
            yield CitationAdded(citation=citation)
        for media in reply.media:
            yield MediaAdded(media=media)
        if reply.breaks is not None:
            raise ProtocolError(reply.breaks)
        for number, call in enumerate(reply.calls):
            id = call.id or self._new_id("call")
            for piece in _pieces(call.arguments):
                if not number:  # from the first whole call on, what may begin early would, and the order were chance
                    await asyncio.sleep(0)
                yield CallDelta(call_id=id, name=call.name, arguments=piece)
            yield CallRequested(call=ToolCall(id, call.name, call.arguments))
        yield ReplyFinished(stop="tool_calls" if reply.calls else "end", model=self.name)

    def _next(self, request: ModelRequest) -> ReplyLine:
        asked, since, before = "", 0, 0
        for message in request.messages:
            match message:
                case UserMessage():
                    asked, since = message.text, 0
                case AssistantMessage():
                    since, before = since + 1, before + 1
        fitting = [reply for reply in self._replies if reply.when is not None and reply.when in asked]
        replies, at = (fitting, since) if fitting else ([r for r in self._replies if r.when is None], before)
        if at >= len(replies):
            raise ModelError(f"the script has {len(replies)} replies here and was asked for one more")
        return replies[at]


def _pieces(arguments: dict[str, Any] | str) -> list[str]:
    """The text of the arguments as it comes over a wire."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
