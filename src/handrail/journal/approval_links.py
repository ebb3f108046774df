"""Links by which a person answers one question: signed, bound to the call, and good for a while.

Whoever has such a link can answer that one question, so it goes to people and never to the agent
that asks. The key lies beside the journal: every process of this user that has the journal makes
and takes the same links.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from handrail.core.errors import JournalError, UsageError
from handrail.core.keyfile import UnsafeKeyFile, create_key, read_key

PATH = "/approvals/"
_KEY = "approvals.key"

LinkKind = Literal["show", "allow", "deny"]
"""What a link offers to do. None of them does anything by being opened."""


class ApprovalLink(Struct, frozen=True, kw_only=True):
    """What a link says."""

    run: str
    request: str
    binds: str
    """What the call was bound to when the link was made: another call under the same name is not meant."""
    expires: int
    """Milliseconds since 1970."""
    kind: LinkKind = "show"


class ApprovalLinks:
    """Makes and checks them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def beside(cls, journal: Path) -> ApprovalLinks:
        """Links signed with the key beside a journal, which is made if there is none.

        Raises:
            JournalError: The key cannot be used as it is, or cannot be made.
        """
        path = journal.parent / _KEY
        try:
            if not path.exists():
                create_key(path, secrets.token_hex(32))
            return cls(bytes.fromhex(read_key(path).strip()))
        except (UnsafeKeyFile, OSError, ValueError) as error:
            raise JournalError(f"the key of approval links at {str(path)!r} cannot be used: {error}") from error

    def token(self, link: ApprovalLink) -> str:
        """The link as the last part of an address."""
        said = msgspec.json.encode(link)
        return f"{_text(said)}.{_text(self._signature(said))}"

    def read(self, token: str, now: int) -> ApprovalLink:
        """What a token says.

        Raises:
            UsageError: It is none of ours, or too old.
        """
        said, _, signature = token.partition(".")
        try:
            data = _data(said)
            if not hmac.compare_digest(self._signature(data), _data(signature)):
                raise ValueError
            link = msgspec.json.decode(data, type=ApprovalLink)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            raise UsageError("this link is not valid") from None
        if now >= link.expires:
            raise UsageError("this link has expired; answer with: handrail confirm")
        return link

    def _signature(self, data: bytes) -> bytes:
        return hmac.new(self._key, b"handrail approval link\n" + data, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _data(text: str) -> bytes:
    if not text.isascii():
        raise ValueError
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
