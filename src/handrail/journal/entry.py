"""Events as entries and back. Pure: no files, no clock, no tree.

An entry is a **leaf**, canonical JSON that is kept for ever, and for most kinds of
event a **body**, the one field that may hold private data. The leaf has only the
salted digest of the body, so a body can be erased and the leaf still be proven.
What looks like a secret is masked before either is made. Where that changed the arguments
of a question or of an intent, the exact ones are encrypted (`body_encryption.py`), and the leaf has
their digest too.

An `EntryDraft` is all of an entry but its place, which `seal_entry` adds.
"""

from __future__ import annotations

import hashlib
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct

from handrail.core.errors import JournalError
from handrail.core.events import VERSION, CallIntended, ConfirmationRequested, Recorded
from handrail.core.redact import may_hold_secret, redact, redact_text
from handrail.journal import escape
from handrail.journal.body_encryption import BodyEncryption

NO_PREVIOUS = "0" * 64
SALT_SIZE = 16
LOST = b'{"$lost":"nested too deeply to be recorded"}'

_sorted = msgspec.json.Encoder(order="sorted")
_plain = msgspec.json.Encoder()
_SHA256 = hashlib.sha256()
_CLASSES: dict[str, type[Recorded]] = {kind.__struct_config__.tag: kind for kind in get_args(Recorded)}
_HEADS: dict[type, tuple[str, str | None]] = {kind: (tag, kind.body) for tag, kind in _CLASSES.items()}

_EXACT = (CallIntended, ConfirmationRequested)
"""The events whose arguments are kept exactly: what a person decided about, and what ran."""


class BodyRef(Struct, frozen=True):
    """What a leaf says of its body."""

    digest: str
    """Hex of SHA-256 over salt and data."""
    size: int


class EffectNote(Struct):
    """The side effect that an entry is about, noted only while nobody has noted it after the one that is known."""

    identity: bytes
    after: int | None
    written: bool = False
    """Whether the entry was written."""


class EntryDraft(Struct, frozen=True, gc=False):
    """An entry that has no place yet."""

    type: str
    run: str
    call: str | None
    at: int
    head: dict[str, Any]
    salt: bytes | None
    data: bytes | None
    exact: bytes | None = None
    """The exact body, encrypted, where `data` hides a part of it."""
    request: str = ""
    """The question that this entry answers, if it is written only while nobody else has answered it."""
    effect: EffectNote | None = None


class LeafPosition(Struct, frozen=True, gc=False):
    """The position that a leaf names as its own."""

    v: int
    seq: int
    n: int
    prev: str
    type: str
    run: Any
    at: int
    call_id: Any = None
    body: BodyRef | None = None
    exact: BodyRef | None = None
    """Of the exact body, where `body` hides a part of it. Its digest is made with the journal's key."""


_places = msgspec.json.Decoder(LeafPosition)


def draft(event: Recorded, salt: bytes, sealing: BodyEncryption | None = None) -> EntryDraft:
    """Everything about an entry that does not depend on the entries before it.

    With `sealing`, arguments that the mask changes are kept exactly, encrypted.
    """
    tag, body = _HEADS[type(event)]
    head = msgspec.structs.asdict(event)
    head["v"], head["type"] = VERSION, tag
    if "origins" in head:
        origins = head.pop("origins")
        if origins is not UNSET:
            head["origins"] = msgspec.to_builtins(origins)
    call = head.get("call_id")
    column = column_for_id(call) if call else None
    if head.get("reason"):
        head["reason"] = redact_text(head["reason"])
    if body is None:
        return EntryDraft(tag, column_for_id(event.run), column, event.at, head, None, None)
    data, unmasked = _bodies(head.pop(body))
    head["body"] = {"digest": body_digest(salt, data), "size": len(data)}
    exact = None
    if unmasked is not None and sealing is not None and isinstance(event, _EXACT):
        sealed = sealing.seal(salt, unmasked)
        head["exact"] = {"digest": sealed.digest, "size": sealed.size}
        exact = sealed.data
    return EntryDraft(tag, column_for_id(event.run), column, event.at, head, salt, data, exact)


def seal_entry(draft: EntryDraft, seq: int, n: int, prev: str) -> bytes:
    """The leaf: the draft in its place. Without floats and with ASCII keys, sorted JSON is canonical JSON.

    Raises:
        TypeError: A field of the event is of a type that it cannot have.
    """
    head = draft.head
    head["seq"], head["n"], head["prev"] = seq, n, prev
    try:
        return _sorted.encode(head)
    except UnicodeEncodeError:
        return _sorted.encode(escape.escape(head))


def _bodies(value: Any) -> tuple[bytes, bytes | None]:
    """A body as JSON as it is recorded, with secrets masked and what JSON cannot say escaped; and without the mask, if
    the mask changed it."""
    try:
        data = encoded_body(value)
        if data is not None and _is_harmless(data.decode()):
            return data, None
        plain = escape.plain(value)
        unmasked, data = _plain.encode(escape.escape(plain)), _plain.encode(escape.escape(redact(plain)))
        return data, None if unmasked == data else unmasked
    except RecursionError:
        return LOST, None


def body_digest(salt: bytes, data: bytes) -> str:
    hashed = _SHA256.copy()  # which is quicker than making one
    hashed.update(salt + data)
    return hashed.hexdigest()


def leaf_position(leaf: bytes) -> LeafPosition:
    """Reads the position of a leaf, without the rest of it.

    Raises:
        JournalError: It is not a leaf, or one of a later version.
    """
    try:
        found = _places.decode(leaf)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(f"not an entry of a journal: {error}") from error
    _check_version(found.v, found.type)
    return found


def decode_event(leaf: bytes, data: bytes | None) -> Recorded:
    """The event of an entry; if its body was erased, with None in its place.

    Raises:
        JournalError: It cannot be read, or a later version of handrail wrote it.
    """
    try:
        fields = escape.decode(leaf)
        _check_version(fields["v"], fields["type"])
        cls = _CLASSES[fields["type"]]
        if cls.body is not None:
            fields[cls.body] = None if data is None or data == LOST else escape.decode(data)
        event: Recorded = msgspec.convert(fields, cls)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise JournalError(f"an entry cannot be read ({error}); run: handrail proof verify") from error
    return event


def encoded_body(value: Any) -> bytes | None:
    """A body as plain JSON, nothing masked or escaped; None if JSON cannot say it."""
    try:
        return _plain.encode(value)
    except (ValueError, TypeError):
        return None


def _is_harmless(text: str) -> bool:
    """Whether a body can be recorded as it is: nothing has to be escaped, and nothing looks like a secret."""
    return not ("$" in text and '"$' in text) and "null" not in text and not may_hold_secret(text)


def _check_version(version: object, kind: object) -> None:
    if not isinstance(version, int) or version > VERSION:
        raise JournalError(
            f"an entry was written in format {version!r}, and this handrail reads up to {VERSION}; upgrade handrail"
        )
    if kind not in _CLASSES:
        raise JournalError(
            f"an entry of format {version} has the unknown type {kind!r}; a later handrail wrote it: upgrade handrail"
        )


def column_for_id(text: str) -> str:
    """A run or a call id as its column in the table has it."""
    return text if text.isascii() and not text.startswith("$") else escape.column(text)
