"""Checkpoints: how long a journal is and what its root is, in a signed text.

The formats are C2SP `signed-note` and `tlog-checkpoint`, version 1, so that tools
and witnesses of other transparency logs can read them. A checkpoint proves what
its signer said; that the journal agrees is for the reader of the journal to check.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from handrail.core.errors import BrokenProof, UsageError
from handrail.core.jsontext import is_unicode
from handrail.journal.keys import Signer, Verifier

_DASH = "\N{EM DASH} "
_MOST_SIGNATURES = 100
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


class Checkpoint(Struct, frozen=True):
    """The state of a journal: its name, its length, its root, and lines that its signer adds."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in (self.origin, *self.extensions):
            if not line or not _clean(line):
                raise UsageError(f"{line!r} cannot be a line of a checkpoint; it must be one line and not empty")
        if not 0 <= self.size < 10**19:
            raise UsageError(f"a journal cannot have {self.size} entries")
        if len(self.root) != 32:
            raise UsageError(f"a root hash has 32 bytes, not {len(self.root)}")

    def text(self) -> str:
        """What is signed, final newline included."""
        lines = (self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read the text of a checkpoint, without signatures.

        Raises:
            BrokenProof: It is not one.
        """
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() != "":
            raise BrokenProof(None, "the checkpoint is cut; it needs a name, a size and a root hash, a line each")
        origin, size, root, *extensions = lines
        if not _NUMBER.fullmatch(size):
            raise BrokenProof(None, f"the size in the checkpoint is not a number: {size!r}")
        try:
            return cls(origin, int(size), _unbase64(root), tuple(extensions))
        except (UsageError, ValueError) as error:
            raise BrokenProof(None, f"the checkpoint is malformed: {error}") from error


class Signature(NamedTuple):
    name: str
    key_id: bytes
    signature: bytes


def sign(checkpoint: Checkpoint, signer: Signer) -> str:
    """The checkpoint as a note with one signature."""
    text = checkpoint.text()
    signed = base64.b64encode(signer.verifier.key_id + signer.sign(text.encode())).decode()
    return f"{text}\n{_DASH}{signer.name} {signed}\n"


def open_note(note: str, verifiers: Iterable[Verifier]) -> Checkpoint:
    """The checkpoint in a note that at least one of these keys signed.

    Signatures by keys that are not known are passed over, as the format asks.

    Raises:
        BrokenProof: No known key signed it, a signature by a known key is wrong, or the note is malformed.
    """
    text, signatures = split_note(note)
    known = {(verifier.name, verifier.key_id): verifier for verifier in verifiers}
    confirmed = False
    for signature in signatures:
        verifier = known.get((signature.name, signature.key_id))
        if verifier is None:
            continue
        if not verifier.verify(text.encode(), signature.signature):
            raise BrokenProof(None, f"the signature of {signature.name!r} does not fit the checkpoint; it was changed")
        confirmed = True
    if not confirmed:
        names = ", ".join(f"{name}+{key_id.hex()}" for name, key_id, _ in signatures)
        raise BrokenProof(None, f"no known key signed the checkpoint; it is signed by {names!r}")
    return Checkpoint.parse(text)


def split_note(note: str) -> tuple[str, tuple[Signature, ...]]:
    """The text of a note and its signatures. Nothing is verified here.

    Raises:
        BrokenProof: The note is malformed.
    """
    if not all(map(_clean, note.split("\n"))):
        raise BrokenProof(None, "the signed checkpoint is not clean text")
    text, blank, signatures = note.rpartition("\n\n")
    if not blank or not signatures.endswith("\n"):
        raise BrokenProof(None, "the signed checkpoint is cut; it ends with an empty line and its signatures")
    lines = signatures.removesuffix("\n").split("\n")
    if len(lines) > _MOST_SIGNATURES:
        raise BrokenProof(None, f"the checkpoint has more than {_MOST_SIGNATURES} signatures")
    return text + "\n", tuple(map(_signature, lines))


def _signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    try:
        data = _unbase64(encoded)
    except ValueError:
        data = b""
    named = name and "+" not in name and not any(letter.isspace() for letter in name)
    if not line.startswith(_DASH) or not named or not space or len(data) < 5:
        raise BrokenProof(None, f"the checkpoint has a malformed signature line: {line!r}")
    return Signature(name, data[:4], data[4:])


def _unbase64(text: str) -> bytes:
    """Bytes of base64 in its one proper spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not base64") from error
    if base64.b64encode(data).decode() != text:
        raise ValueError(f"{text!r} is not base64")
    return data


def _clean(line: str) -> bool:
    """Whether a line is Unicode text without control characters."""
    return is_unicode(line) and all(letter >= " " for letter in line)
