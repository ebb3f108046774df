"""Identities: an Ed25519 key whose public half is the name of its owner.

Whoever knows a node's id can check its signatures, so that nobody has to be asked
for keys. What a node may is said elsewhere: by a directory, and by tokens.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.core.errors import MissingExtra, UsageError
from handrail.core.keyfile import UnsafeKeyFile, create_key, is_small_order, read_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NODE_ID = re.compile(r"ed25519:[A-Za-z0-9_-]{43}")
_SIGNATURE = re.compile(r"ed25519:[A-Za-z0-9_-]{86}")
_PREFIX = "ed25519:"
_PRIVATE = "ed25519-private-key:"


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """A private key. Neither its repr nor any error shows it."""

    _key: Ed25519PrivateKey
    node_id: str
    """`ed25519:` and the public key."""

    @classmethod
    def from_seed(cls, seed: bytes) -> Identity:
        """The identity of a key, by its 32 bytes.

        Raises:
            MissingExtra: The library of keys is not installed.
        """
        key = _keys().Ed25519PrivateKey.from_private_bytes(seed)
        return cls(key, _PREFIX + to_base64(key.public_key().public_bytes_raw()))

    @classmethod
    def new(cls, random: Callable[[int], bytes] = os.urandom) -> Identity:
        return cls.from_seed(random(32))

    @classmethod
    def create(cls, path: Path, random: Callable[[int], bytes] = os.urandom) -> Identity:
        """A new key in a new file that only its owner can read.

        Raises:
            UsageError: There is a file of that name, or none can be made.
        """
        identity = cls.new(random)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            made = create_key(path, identity.text)
        except OSError as error:
            raise UsageError(f"cannot make the key file {str(path)!r}: {error.strerror}") from error
        if not made:
            raise UsageError(
                f"there is a key at {str(path)!r} already; move it away for a new one (what it signed stays its own)"
            )
        return identity

    @classmethod
    def load(cls, path: Path) -> Identity:
        """The identity whose key is in this file.

        Raises:
            UsageError: The file cannot be used, with what to do about it.
        """
        try:
            text = read_key(path)
        except UnsafeKeyFile as error:
            raise UsageError(str(error)) from error
        except FileNotFoundError as error:
            raise UsageError(f"there is no key at {str(path)!r}; make one with: handrail identity new") from error
        except OSError as error:
            raise UsageError(f"cannot use the key file {str(path)!r}: {error.strerror}") from error
        return cls.parse(text, f"the file {str(path)!r}")

    @classmethod
    def parse(cls, text: str, where: str = "the shared state") -> Identity:
        """The identity whose key is this text.

        Raises:
            UsageError: It is no key.
        """
        # No cause in the chain: it could show a piece of the key.
        seed = from_base64(text.removeprefix(_PRIVATE).rstrip("\n")) if text.startswith(_PRIVATE) else None
        if seed is None or len(seed) != 32:
            raise UsageError(f"{where} holds no usable key; restore it from a copy, or make a new one")
        return cls.from_seed(seed)

    @classmethod
    def load_or_create(cls, path: Path, random: Callable[[int], bytes] = os.urandom) -> Identity:
        """The key in a file, made if there is no file. Of two processes that make it at once, one wins."""
        if not path.exists():
            try:
                return cls.create(path, random)
            except UsageError:
                if not path.exists():
                    raise
        return cls.load(path)

    @property
    def text(self) -> str:
        """The key as it stands in a file; whoever has it can sign."""
        return f"{_PRIVATE}{to_base64(self.seed)}\n"

    @property
    def seed(self) -> bytes:
        """The secret itself."""
        return self._key.private_bytes_raw()

    def sign(self, message: bytes) -> str:
        return _PREFIX + to_base64(self._key.sign(message))

    def __repr__(self) -> str:
        return f"Identity({self.node_id!r})"


def verify(node_id: str, signature: str, message: bytes) -> bool:
    """Whether the owner of this id signed the message. What is no id or no signature did not."""
    public = public_key(node_id)
    if public is None or not _SIGNATURE.fullmatch(signature):
        return False
    given = from_base64(signature.removeprefix(_PREFIX))
    if given is None:
        return False
    from cryptography.exceptions import InvalidSignature

    try:
        _keys().Ed25519PublicKey.from_public_bytes(public).verify(given, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_key(node_id: str) -> bytes | None:
    """The key that an id is made of; None if it is no id, or one whose key fits any signature."""
    public = from_base64(node_id.removeprefix(_PREFIX)) if NODE_ID.fullmatch(node_id) else None
    return None if public is None or is_small_order(public) else public


def to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes | None:
    """The bytes, if this is the one way to write them."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return data if to_base64(data) == text else None


def _keys() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingExtra("signing calls and tokens", "bus") from error
    return ed25519
