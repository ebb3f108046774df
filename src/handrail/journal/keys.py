"""The Ed25519 keys that sign checkpoints, in the text forms of C2SP signed notes.

A key is its name and its bytes: the name is part of the key id. Where a key is
kept safely is the user's business; this file only refuses to keep one carelessly.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from handrail.core.errors import JournalError, UsageError
from handrail.core.keyfile import UnsafeKeyFile, create_key, is_small_order, read_key
from handrail.journal.body_encryption import BodyEncryption

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ED25519 = b"\x01"
_PRIVATE = "PRIVATE+KEY+"


class Verifier(Struct, frozen=True):
    """A public key: enough to check a signature, not to make one."""

    name: str
    public: bytes

    def __post_init__(self) -> None:
        check_name(self.name)
        if len(self.public) != 32:
            raise UsageError(f"an Ed25519 public key has 32 bytes, not {len(self.public)}")
        if is_small_order(self.public):
            raise UsageError(f"the key {self.name!r} fits any signature; do not trust whoever gave it to you")

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart. A hint, not a proof."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    @property
    def text(self) -> str:
        """`name+id+key`, as it is given to people and programs that verify."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Read a verifier key.

        Raises:
            UsageError: It is not one, or its id does not fit its name and bytes.
        """
        name, key_id, data = _parts(text)
        verifier = cls(name, data)
        if verifier.key_id.hex() != key_id:
            raise UsageError(f"the verifier key {text!r} was changed: its id should be {verifier.key_id.hex()}")
        return verifier

    def verify(self, message: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Signer(Struct, frozen=True):
    """A private key and its name. Neither its repr nor any error shows the key."""

    name: str
    _key: Ed25519PrivateKey

    @classmethod
    def from_seed(cls, name: str, seed: bytes) -> Signer:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        check_name(name)
        return cls(name, Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load_or_create(cls, path: Path, name: str, random: Callable[[int], bytes] = os.urandom) -> Signer:
        """The key in a file; if there is no file, a new key in a new file that only its owner can read.

        Raises:
            JournalError: The file cannot be used, with what to do about it.
        """
        check_name(name)
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                create_key(path, cls.create(name, random).private_text)
            text = read_key(path)
        except UnsafeKeyFile as error:
            raise JournalError(str(error)) from error
        except OSError as error:
            raise JournalError(f"cannot use the key file {str(path)!r}: {error.strerror}") from error
        return _from_private_text(text, f"the file {str(path)!r}", name)

    @classmethod
    def create(cls, name: str, random: Callable[[int], bytes] = os.urandom) -> Signer:
        """A new key that is kept nowhere yet."""
        return cls.from_seed(name, random(32))

    @classmethod
    def from_private_text(cls, text: str, place: str, name: str) -> Signer:
        """The key that `private_text` wrote.

        Raises:
            JournalError: It is none, or one of another name; `place` says where it was found.
        """
        return _from_private_text(text, place, name)

    @property
    def private_text(self) -> str:
        """The key itself as text, for where it is kept."""
        return _private_text(self)

    @property
    def verifier(self) -> Verifier:
        return Verifier(self.name, self._key.public_key().public_bytes_raw())

    @property
    def verifier_key(self) -> str:
        """The public half as text: publish it, or give it to whoever shall verify."""
        return self.verifier.text

    @property
    def sealing(self) -> BodyEncryption:
        """Encrypts what only the owner of this key may read."""
        return BodyEncryption(self._key.private_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Signer({self.name!r}, id {self.verifier.key_id.hex()})"


def check_name(name: str) -> None:
    if not name or "+" in name or not name.isprintable() or any(letter.isspace() for letter in name):
        raise UsageError(f"{name!r} cannot name a key; use letters without spaces or '+', as 'example.org/journal'")


def _parts(text: str) -> tuple[str, str, bytes]:
    """Name, id in hex and key bytes of `name+id+base64`."""
    pieces = text.split("+", 2)
    try:
        name, key_id, encoded = pieces
        data = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        data = b""
    if len(data) != 33 or base64.b64encode(data).decode() != encoded:
        raise UsageError("not an Ed25519 verifier key; it looks like 'example.org/journal+1a2b3c4d+AQ…'")
    if data[:1] != _ED25519:
        raise UsageError(f"a key of algorithm {data[0]} cannot be used; only Ed25519 keys (algorithm 1) can")
    return name, key_id, data[1:]


def _private_text(signer: Signer) -> str:
    secret = base64.b64encode(_ED25519 + signer._key.private_bytes_raw()).decode()
    return f"{_PRIVATE}{signer.name}+{signer.verifier.key_id.hex()}+{secret}\n"


def _from_private_text(text: str, place: str, name: str) -> Signer:
    # The causes are left out of the chain on purpose: they could show pieces of the key.
    try:
        if not text.startswith(_PRIVATE):
            raise UsageError("no private key")
        found, key_id, seed = _parts(text.removeprefix(_PRIVATE).removesuffix("\n"))
        signer = Signer.from_seed(found, seed)
    except UsageError:
        signer = None
    if signer is None or signer.verifier.key_id.hex() != key_id:
        raise JournalError(
            f"{place} holds no usable signing key; restore it from a copy, or move it away"
            " and a new key is made (checkpoints signed before need the old verifier key)"
        )
    if signer.name != name:
        raise JournalError(
            f"the key in {place} belongs to {signer.name!r}, not {name!r}; use that name or another file"
        )
    return signer
