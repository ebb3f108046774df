"""Exact arguments, encrypted: what a body hides because it looks like a secret, for the owner of the journal.

A body of the journal is masked by patterns, and a pattern can be met on purpose. So wherever the mask
changed the arguments of a question or of an intent, the exact ones are kept beside the entry, encrypted, and
the leaf has their digest. Key and digest are both derived from the private key of the journal and the salt
of the entry: a copy of the file, or a bundle, shows nothing without the key and lets nobody check a guess,
and erasing the salt makes the ciphertext unreadable, also for the owner.
"""

from __future__ import annotations

import hashlib

from msgspec import Struct

from handrail.core.errors import JournalError

_SIZE = 32
_ONCE = bytes(12)
"""The nonce. Each key is used for one message, since each entry has its own salt."""


class EncryptedBody(Struct, frozen=True):
    """Encrypted data, and what a leaf says of it."""

    digest: str
    """Hex of SHA-256 over the opening of the entry and the data."""
    size: int
    data: bytes


class BodyEncryption(Struct, frozen=True):
    """Encrypts and opens the exact bodies of one journal."""

    _secret: bytes

    def __repr__(self) -> str:
        return "BodyEncryption(…)"

    def seal(self, salt: bytes, data: bytes) -> EncryptedBody:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # few entries need it

        key, _ = self._derived(salt)
        return EncryptedBody(self.digest(salt, data), len(data), AESGCM(key).encrypt(_ONCE, data, None))

    def open(self, salt: bytes, data: bytes) -> bytes:
        """Decrypts what `seal` encrypted.

        Raises:
            JournalError: It was changed, or another key encrypted it.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key, _ = self._derived(salt)
        try:
            return AESGCM(key).decrypt(_ONCE, data, None)
        except (InvalidTag, ValueError) as error:
            raise JournalError("its exact arguments were changed: they cannot be decrypted") from error

    def digest(self, salt: bytes, data: bytes) -> str:
        _, opening = self._derived(salt)
        return hashlib.sha256(opening + data).hexdigest()

    def blind(self, identity: bytes) -> bytes:
        """Sixteen bytes that are the same for the same identity, and tell nothing about it without the key."""
        return hashlib.blake2b(identity, key=self._secret, person=b"handrail effect1", digest_size=16).digest()

    def mark(self, data: bytes) -> bytes:
        """Sixteen bytes that nobody makes without the key: they show later that data were not changed."""
        return hashlib.blake2b(data, key=self._secret, person=b"handrail batches", digest_size=16).digest()

    def _derived(self, salt: bytes) -> tuple[bytes, bytes]:
        """The encryption key of an entry, and the opening of its digest."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(SHA256(), 2 * _SIZE, salt, b"handrail exact body 1").derive(self._secret)
        return derived[:_SIZE], derived[_SIZE:]
