"""Calls put together from the pieces that a stream brings, whatever the server makes of indexes and ids.

Pieces find their call by index, by id, or by coming next; a new id, or a new name
after arguments, is a new call even at a used index. Arguments are joined once and
given on as they were written: nothing here reads them but to see where one object
ends and another begins. Checking them is the executor's work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from handrail.core.calls import ToolCall
from handrail.core.errors import ProtocolError
from handrail.core.events import CallDelta, CallReady, CallRequested, ModelEvent, Notice
from handrail.core.ids import NewId, new_id
from handrail.core.jsontext import JSONTextError, kind_of, parse_object
from handrail.core.messages import Artefact
from handrail.models.tool_names import NameMap

Mend = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Given the name of a tool (ours) and the arguments of a call: the arguments as the tool's full schema means them."""

_TOKEN = re.compile(r'[{}\[\]]|"(?>(?:[^"\\]+|\\.)*)("?)', re.DOTALL)
"""A bracket, or a string as far as it goes: with its closing quote if it has one."""
_REST_OF_STRING = re.compile(r'(?>(?:[^"\\]+|\\.)*)("?)', re.DOTALL)
_TEXT = re.compile(r"\S")
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _ObjectScanner:
    """Follows JSON text from piece to piece, to see where a top-level object ends."""

    def __init__(self) -> None:
        self.begun = False
        self.whole = False
        self._is_object = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def split(self, text: str) -> int | None:
        """The position in this piece at which another object begins after the first was complete; None if none does."""
        at = 0
        if not text:
            return None
        if not self.begun:
            first = _TEXT.search(text)
            if first is None:
                return None
            self.begun, self._is_object = True, first[0] == "{"
            if self._is_object and text.endswith("}") and _is_object(text):
                self.whole = True  # arguments that come in one piece need not be followed mark by mark
                return None
        if self.whole:
            return self._following(text, at)
        if self._in_string:
            rest = _REST_OF_STRING.match(text, self._escaped)
            assert rest is not None  # it matches nothing, too
            at = rest.end()
            self._leave_string(rest, text)
        for token in _TOKEN.finditer(text, at):
            if (mark := token[0][0]) == '"':
                self._leave_string(token, text)
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0 and self._is_object:
                    self.whole = True
                    return self._following(text, token.end())
        return None

    def _leave_string(self, found: re.Match[str], text: str) -> None:
        """A string ends where its quote is, or goes on in the next piece, maybe with what a backslash there escapes."""
        self._in_string = not found[1]
        self._escaped = self._in_string and found.end() < len(text)

    def _following(self, text: str, at: int) -> int | None:
        following = _TEXT.search(text, at)
        return following.start() if following is not None and following[0] == "{" else None


def _is_object(text: str) -> bool:
    """Whether a text is one JSON object and nothing else."""
    try:
        _decode_object(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


@dataclass(slots=True, eq=False)
class _OpenCall:
    """A call that is being written."""

    index: int | None
    wire_id: str | None
    id: str = ""
    """The one it goes by here; given when its first piece goes out."""
    name: str = ""
    ours: str = ""
    """Its name as the tool has it, once that was needed."""
    pieces: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)
    artefacts: list[Artefact] = field(default_factory=list)
    is_ready: bool = False
    """Whether the call was announced to whoever wants to begin early."""
    objects: _ObjectScanner = field(default_factory=_ObjectScanner)


class CallAssembler:
    """One per reply. Give it every piece as it comes; it gives `CallDelta`s, and `CallRequested` for each whole call.

    Say `complete` where the wire says that a call has ended, and `finish` at the
    end of the reply. Do not call `finish` when the reply was cut off.
    """

    def __init__(self, new_id: NewId = new_id, names: NameMap | None = None, *, mend: Mend | None = None) -> None:
        self._new_id = new_id
        self._names = names
        self.mend = mend
        """It holds nothing that holds this: a circle would wait for the garbage collector."""
        self._open: dict[_OpenCall, None] = {}
        self._by_index: dict[int, _OpenCall] = {}
        self._by_id: dict[str, _OpenCall] = {}
        self._last: _OpenCall | None = None
        self._used: set[str] = set()
        self.bare: set[str] = set()
        """Calls that ended without any arguments."""
        self.tells_early = False
        """Whether to say when a call seems whole, before the wire does."""

    def delta(
        self,
        *,
        index: int | None = None,
        id: str | None = None,
        name: str | None = None,
        arguments: str | dict[str, Any] | None = None,
        artefacts: tuple[Artefact, ...] = (),
    ) -> Iterable[ModelEvent]:
        """Take one piece: text of arguments, or an object that is all of them."""
        last = self._last
        if (
            last is not None
            and isinstance(arguments, str)
            and not (name or artefacts)
            and (not id or id == last.wire_id)
            and index == last.index
            and (index is None or self._by_index.get(index) is last)
        ):
            return self._further(last, arguments)
        return self._piece(index, id or None, name or "", _as_text(arguments), artefacts)

    def more(self, texts: Sequence[str], *, index: int | None) -> Iterable[ModelEvent]:
        """Take several pieces of arguments that follow one at the same index, with nothing else between them."""
        last = self._last
        if last is not None and last.id and not last.unsent and last is self._at(index) and all(texts):
            before = copy(last.objects)
            if last.objects.split("".join(texts)) is None and not last.objects.whole:
                last.pieces += texts
                id, name = last.id, last.ours or self._ours(last.name)
                return [CallDelta(call_id=id, name=name, arguments=text) for text in texts]
            last.objects = before
            if (half := len(texts) // 2) > 0:  # a call ends somewhere in them, mostly in the last
                return [*self.more(texts[:half], index=index), *self.more(texts[half:], index=index)]
        return [event for text in texts for event in self.delta(index=index, arguments=text)]

    def _further(self, call: _OpenCall, text: str) -> Iterable[ModelEvent]:
        """The way of nearly every piece: more arguments for the call that was written last."""
        cut = call.objects.split(text)
        if cut is not None or call.unsent or not call.id or not text:
            return self._split(call, text, cut)
        call.pieces.append(text)
        if not call.ours:
            call.ours = self._ours(call.name)
        delta = CallDelta(call_id=call.id, name=call.ours, arguments=text)
        return (delta, *self._ready(call)) if call.objects.whole else (delta,)

    def _piece(
        self, index: int | None, id: str | None, name: str, text: str, artefacts: tuple[Artefact, ...]
    ) -> list[ModelEvent]:
        for what, word in (("id", id), ("name", name)):
            if word is not None and not isinstance(word, str):
                raise ProtocolError(f"the {what} of a call is not text but {kind_of(word)}; ask again")
        says = name or artefacts or text.strip() or (id and id not in self._used)
        if not says and self._at(index) is None:
            return []
        call = self._find(index, id, name)
        call.artefacts += artefacts
        if name and call.name != name:
            call.name += name
            call.ours = ""
        self._last = call
        return self._split(call, text, call.objects.split(text))

    def complete(self, index: int | None = None) -> list[ModelEvent]:
        """The call at this index, or the one written last, has ended. Nothing, if there is none.

        Raises:
            ProtocolError: It has no name.
        """
        call = self._at(index)
        return [] if call is None else self._close(call)

    def finish(self) -> list[ModelEvent]:
        """The reply has ended: all calls that are open, in the order in which they began.

        Raises:
            ProtocolError: One has no name. None is given out then.
        """
        for call in self._open:
            _require_name(call)
        return [event for call in list(self._open) for event in self._close(call)]

    def settled(self) -> list[ModelEvent]:
        """Calls whose arguments are one whole object, up to the first that is not: the rest is for `finish`."""
        found: list[ModelEvent] = []
        if all(call.name for call in self._open):
            for call in list(self._open):
                if not call.objects.whole:
                    break
                found += self._close(call)
        return found

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and not ended."""
        return bool(self._open)

    def _at(self, index: int | None) -> _OpenCall | None:
        """The call that a piece with this index belongs to, if nothing else speaks against it."""
        return self._last if index is None else self._by_index.get(index)

    def _find(self, index: int | None, id: str | None, name: str) -> _OpenCall:
        here = self._at(index)
        if here is None and self._last is not None and self._last.index is None and not (id or name):
            return self._last  # an index that begins in mid-call
        if here is not None and id in (None, here.wire_id):
            return here if _may_continue_name(here, name, same_id=id is not None) else self._begin(index, id)
        if id is not None and (known := self._by_id.get(id)) is not None and (index is None or not name):
            return known if _may_continue_name(known, name, same_id=True) else self._begin(index, id)
        if here is not None and here.wire_id is None and _takes_id(here, name):
            here.wire_id = id
            self._note(here)
            return here
        if here is not None and not name and _lacks_more(here, index):
            return here  # some servers draw a new id for every piece
        return self._begin(index, id)

    def _begin(self, index: int | None, id: str | None, name: str = "") -> _OpenCall:
        call = _OpenCall(index, id, name=name)
        self._open[call] = None
        self._note(call)
        return call

    def _note(self, call: _OpenCall) -> None:
        self._last = call
        if call.index is not None:
            self._by_index[call.index] = call
        if call.wire_id is not None:
            self._by_id[call.wire_id] = call

    def _split(self, call: _OpenCall, text: str, cut: int | None) -> list[ModelEvent]:
        """Add text to a call; where a second object begins in it, that is another call of the same tool."""
        found: list[ModelEvent] = []
        while cut is not None:
            found += self._tell(call, text[:cut])
            text = text[cut:]
            if call.name:
                found += self._close(call)
            call = self._begin(call.index, call.wire_id, call.name)
            cut = call.objects.split(text)
        return found + self._tell(call, text)

    def _tell(self, call: _OpenCall, text: str) -> list[ModelEvent]:
        if text:
            call.pieces.append(text)
            call.unsent.append(text)
        # Without an id yet, wait for one until arguments come: some servers send it after the name.
        if call.name and (call.wire_id is not None or call.unsent):
            text, call.unsent = "".join(call.unsent), []
            delta = CallDelta(call_id=self._identify(call), name=self._ours(call.name), arguments=text)
            return [delta, *self._ready(call)]
        return []

    def _ready(self, call: _OpenCall) -> Iterable[ModelEvent]:
        if self.tells_early and call.objects.whole and not call.is_ready:
            call.is_ready = True
            return (CallReady(call=self._made(call)),)
        return ()

    def _made(self, call: _OpenCall) -> ToolCall:
        name, text = self._ours(call.name), "".join(call.pieces)
        if text.strip() in ("", "null"):
            text = "{}"
        if self.mend is not None:
            text = _mended(self.mend, name, text)
        return ToolCall(self._identify(call), name, text)

    def _close(self, call: _OpenCall) -> list[ModelEvent]:
        _require_name(call)
        self._forget(call)
        made, id = self._made(call), self._identify(call)
        requested = CallRequested(call=made, artefacts=tuple(call.artefacts))
        if not call.objects.begun:
            self.bare.add(id)
        if call.wire_id in (None, id):
            return [requested]
        words = f"two calls of one reply have the id {call.wire_id!r}; the second goes by {id!r} here"
        return [Notice(text=words), requested]

    def _forget(self, call: _OpenCall) -> None:
        del self._open[call]
        if self._last is call:
            self._last = None
        if call.index is not None and self._by_index.get(call.index) is call:
            del self._by_index[call.index]
        if call.wire_id is not None and self._by_id.get(call.wire_id) is call:
            del self._by_id[call.wire_id]

    def _identify(self, call: _OpenCall) -> str:
        """Its id for the rest of its life: the wire's, if no other call of this reply has it."""
        if not call.id:
            given = call.wire_id
            call.id = given if given is not None and given not in self._used else self._new_id("call")
            self._used.add(call.id)
        return call.id

    def _ours(self, name: str) -> str:
        return name if self._names is None else self._names.from_wire(name)


def _may_continue_name(call: _OpenCall, name: str, *, same_id: bool) -> bool:
    """Whether a piece with this name can belong to the call. A name may come in pieces, or again with every piece."""
    if not name or not call.name or not call.objects.begun:
        return True
    return name == call.name and (same_id or not call.objects.whole)


def _lacks_more(call: _OpenCall, index: int | None) -> bool:
    """Whether a piece without a name can only belong to this call, whatever its id."""
    return bool(call.name) and not call.objects.whole and (index is not None or call.objects.begun)


def _takes_id(call: _OpenCall, name: str) -> bool:
    """Whether an id that comes late is this call's."""
    return not name or not call.name or (name == call.name and not call.objects.whole)


def has_cut_arguments(call: ToolCall) -> bool:
    """True if the arguments break off."""
    try:
        parse_object(str(call.arguments))
    except JSONTextError:
        return True
    return False


def _require_name(call: _OpenCall) -> None:
    if not call.name:
        text = "".join(call.pieces)[:80]
        raise ProtocolError(f"the model's reply has a call without a name (its arguments: {text!r}); ask again")


def _as_text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _mended(mend: Mend, name: str, text: str) -> str:
    """The text with its arguments mended; the very same text if there was nothing to mend, or nothing readable."""
    if "null" not in text:  # which is all that is ever mended
        return text
    try:
        arguments = parse_object(text)
    except JSONTextError:
        return text
    changed = mend(name, arguments)
    return text if changed == arguments else _as_text(changed)
