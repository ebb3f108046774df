"""Caches the written conversation, so that a turn writes only its new messages.

A turn adds a few messages to a conversation, and a request has them all. Without the cache every request would write
everything again; what comes out is the same either way, and a codec need not know of it. Not used by Bedrock, whose
bodies botocore writes, nor for prompted calling, which puts every message into words first.

What is kept: for each way of writing (provider, whether tools are offered, and the identity of each value in `given`:
names, profile and the like), the wire's items and their JSON for the messages that nothing later can change
(`settled_message_count`), and the last piece after them. It is kept in the scratch of the request, in memory only; and
copies of it in those of the runner and of the model, for the next run of the conversation, also by another session.

What invalidates it:
- The kept messages are no prefix of the request's any more (a trim, an edit, another branch): another entry replaces
  it.
- Another object in `given`, another provider, tools offered or not: that is another way, with an entry of its own.
  Objects in `given` are compared by identity; an entry holds them, so that no other object gets their identity.
- An id of a call that does not fit `ids`, or a piece that would merge with the item before it: nothing is kept of
  this request, and all of it is written.

What must hold for it to be right: the writer treats turns one by one and depends on nothing but `given`; and
`settled_message_count` counts only messages that stay the same turns whatever follows. Its bounds: `_WAYS` entries for
each scratch but the model's, `_HEAVIEST` bytes there, and nothing is kept of a conversation of `_FEW` messages.

`tests/models/test_conversation_cache.py` compares every codec with and without it, over generated conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.messages import Message
from handrail.core.model_request import ModelRequest, ModelScratch
from handrail.models.codec import EncodedList
from handrail.models.history import (
    AssistantTurn,
    SystemTurn,
    Turn,
    foreign_artefact_notices,
    settled_message_count,
    turns,
)
from handrail.models.shared_encoding import encode_list
from handrail.models.tool_names import NameRule

_FEW = 12
"""Messages that are written sooner than looked up."""
_WAYS = 4
"""The number of forms in which one conversation is kept: a run may change its model and its tools, and change back."""
_OPENING = 3
"""Messages at the beginning by which a conversation is looked up among those of a model."""
_HEAVIEST = 8 * 1024 * 1024
"""Bytes that are kept for a model, whoever uses it."""


class WrittenTurns(Struct):
    """Turns as a service takes them."""

    items: list[dict[str, Any]]
    missed: tuple[str, ...] = ()
    """What could not be written."""
    system: str = ""
    """What the system says first, where the wire has a place of its own for it."""
    known: tuple[EncodedList, ...] = ()
    """The items with their JSON, if that is kept."""

    def after(self, item: dict[str, Any]) -> WrittenTurns:
        """The same turns with one item put before them."""
        items = [item, *self.items]
        said = msgspec.json.encode(item) + b","
        known = tuple(EncodedList(items, (said, *part.text)) for part in self.known)
        return WrittenTurns(items, self.missed, self.system, known)


Write = Callable[..., WrittenTurns]
"""Called with what it depends on, and with turns."""


class _WrittenPiece(Struct, frozen=True):
    """Some messages, as turns and as they are written."""

    messages: tuple[Message, ...]
    history: tuple[Turn, ...]
    part: WrittenTurns
    text: bytes
    """The JSON of its items, with a comma before each that is not the first of all."""

    @property
    def ends(self) -> bool:
        """Whether a reply can follow as a turn of its own: the model did not speak last, nor the system alone."""
        history = self.history
        return not isinstance(history[-1], AssistantTurn) and any(not isinstance(turn, SystemTurn) for turn in history)


class _WritingMethod(Struct, frozen=True):
    """How a conversation is written."""

    write: Write
    given: tuple[Any, ...]
    provider: str
    tools_offered: bool
    ids: NameRule | None

    def whole(self, messages: tuple[Message, ...]) -> WrittenTurns:
        part = self.write(*self.given, turns(messages, provider=self.provider, tools_offered=self.tools_offered))
        part.missed = _each_once(part.missed + foreign_artefact_notices(messages, self.provider))
        return part

    def piece(self, messages: tuple[Message, ...], after: set[str] | None) -> _WrittenPiece | None:
        """Messages that go on from others with calls of these ids; None if they cannot be written without those."""
        history = turns(messages, provider=self.provider, tools_offered=self.tools_offered, after=after)
        if not history or (self.ids is not None and not all(map(self.ids.fits, _ids(history)))):
            return None
        part = self.write(*self.given, history)
        part.missed += foreign_artefact_notices(messages, self.provider)
        known = encode_list(part.items)
        text = b"".join((b"" if after is None else b",", *known.text))
        return _WrittenPiece(messages, history, part, text) if part.items and known.text else None


class _GrowingConversation:
    """A conversation written in one way: what later messages cannot change, and the piece that came last after it."""

    def __init__(self, way: _WritingMethod) -> None:
        self._way = way
        self._messages: tuple[Message, ...] = ()
        self._ids: set[str] = set()
        self._part = WrittenTurns([])
        self._text: list[bytes] = []
        self._last: _WrittenPiece | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def weight(self) -> int:
        """Bytes, roughly."""
        return sum(map(len, self._text)) * 3 + len(self._messages) * 500

    def copy(self) -> _GrowingConversation:
        """A copy that can grow independently."""
        other = _GrowingConversation(self._way)
        other._messages, other._ids = self._messages, set(self._ids)
        other._part = WrittenTurns(list(self._part.items), self._part.missed, self._part.system)
        other._text = self._text[:]
        return other

    def begins(self, messages: tuple[Message, ...]) -> bool:
        return self._messages == messages[: len(self._messages)]  # quick: nearly all are the same objects

    def grown(self, messages: tuple[Message, ...]) -> WrittenTurns | None:
        """All the messages, if they begin with the kept ones; None if they must be written as one."""
        new = messages[len(self._messages) :]
        stays = settled_message_count(new)
        if stays and (piece := self._next(new[:stays])) is not None and piece.ends:
            self._keep(piece)
            new = new[stays:]
        self._last = self._next(new) if self._messages else None
        if self._last is None:
            return None
        items = self._part.items + self._last.part.items
        known = EncodedList(items, (*self._text, self._last.text))
        missed = _each_once(self._part.missed + self._last.part.missed)
        return WrittenTurns(items, missed, self._part.system, (known,))

    def _next(self, messages: tuple[Message, ...]) -> _WrittenPiece | None:
        if self._last is not None and self._last.messages == messages:
            return self._last
        if not self._messages:
            return self._way.piece(messages, None)
        piece = self._way.piece(messages, self._ids)
        return piece if piece is not None and self._is_apart(piece) else None

    def _is_apart(self, piece: _WrittenPiece) -> bool:
        """True if the piece can follow without merging with the last item: it begins with a reply of another role."""
        before, after = self._part.items[-1].get("role"), piece.part.items[0].get("role")
        return isinstance(piece.history[0], AssistantTurn) and (before is None or before != after)

    def _keep(self, piece: _WrittenPiece) -> None:
        if not self._messages:
            self._part.system = piece.part.system
        self._part.items += piece.part.items
        self._part.missed += piece.part.missed
        self._text.append(piece.text)
        self._messages += piece.messages
        self._ids.update(_ids(piece.history))
        self._last = None


_Place = tuple[Any, ...]
_Kept = BoundedMemory[_Place, _GrowingConversation]


def write_conversation(
    request: ModelRequest,
    write: Write,
    *given: Any,
    provider: str,
    tools_offered: bool,
    ids: NameRule | None = None,
) -> WrittenTurns:
    """The messages of a request as `write` writes turns, all of them or only those that are new.

    `write` must treat turns one by one, and depend on nothing else than what it is `given`, which is known by
    identity. An id of a call that does not fit `ids` may be written in a way that depends on the others: then all of
    it is written.
    """
    way = _WritingMethod(write, given, provider, tools_offered, ids)
    if request.scratch is None or len(request.messages) <= _FEW:
        return way.whole(request.messages)
    place = (provider, tools_offered, *map(id, given))
    own = _kept(request.scratch, place, request.messages)
    if own is not None:
        return own.grown(request.messages) or way.whole(request.messages)
    # What others have is only copied, so that nobody's conversation changes that of somebody else.
    runner = request.scratch.base
    model = None if runner is None else runner.base
    opening = (*place, *(getattr(message, "text", None) for message in request.messages[:_OPENING]))
    known = _kept(runner, place, request.messages) or _kept(model, opening, request.messages)
    growing = _GrowingConversation(way) if known is None else known.copy()
    part = growing.grown(request.messages)
    _keep(request.scratch, place, growing)
    if known is None or len(known) < len(growing):
        known = growing.copy()
        _keep(model, opening, known, for_all=True)
    _keep(runner, place, known)
    return part or way.whole(request.messages)


def _kept(scratch: ModelScratch | None, place: _Place, messages: tuple[Message, ...]) -> _GrowingConversation | None:
    """The conversation that the messages go on from, if a scratch has it there."""
    if scratch is None or (kept := scratch.kept.get(__name__)) is None:
        return None
    with scratch.lock:
        found: _GrowingConversation | None = kept.get(place)
    return found if found is not None and found.begins(messages) else None


def _keep(scratch: ModelScratch | None, place: _Place, growing: _GrowingConversation, *, for_all: bool = False) -> None:
    if scratch is None:
        return
    with scratch.lock:
        kept: _Kept | None = scratch.kept.get(__name__)
        if kept is None:
            kept = BoundedMemory(_WAYS)
            if for_all:
                kept = BoundedMemory(weight=_GrowingConversation.weight, most_weight=_HEAVIEST, lru=True)
            scratch.kept[__name__] = kept
        kept[place] = growing


def _each_once(notices: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(notices)) if notices else notices


def _ids(history: tuple[Turn, ...]) -> list[str]:
    return [call.id for turn in history if isinstance(turn, AssistantTurn) for call in turn.calls]
