"""Signatures of calls: who sent this one, here, now, and not for the second time.

What is signed are the fields of the envelope and the digest of the body's bytes as they
are sent; a body that is sent inside an envelope is taken in its canonical spelling. A
signature does not hide anything, and does not say what its owner may.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from handrail.core.canonical import canonical_json, digest_bytes
from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.ports import Clock, SystemClock
from handrail.node.bus.request import NOBODY, Caller
from handrail.node.tokens.identity import Identity, verify

FIELDS = ("capability", "version", "request_id", "from", "community", "timestamp")
"""The fields of the envelope that are signed. `signature` stands beside them."""
TO = "to"
"""The field that names the node which is called, where the caller knows it: no other node takes that signature. On NATS
a call goes to whoever takes it, and has none."""
HEADERS = {
    "capability": "X-HearthNet-Capability",
    "version": "X-HearthNet-Capability-Version",
    "request_id": "X-HearthNet-Request-Id",
    "from": "X-HearthNet-From",
    "community": "X-HearthNet-Community",
    "timestamp": "X-HearthNet-Timestamp",
    "to": "X-HearthNet-To",
    "signature": "X-HearthNet-Signature",
}
"""The header of each field, where the envelope is made of headers."""
WINDOW = 300
"""Seconds that a clock may be off, in either direction."""
_LONGEST = 256
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)


def sign_call(
    identity: Identity,
    *,
    capability: str,
    version: str,
    request_id: str,
    community: str,
    body: bytes,
    to: str = "",
    clock: Clock = SystemClock(),
) -> dict[str, str]:
    """The fields of the envelope of a call, `signature` among them. Each attempt is signed again. `to` is the id of the
    node that is called."""
    fields = {
        "capability": capability,
        "version": version,
        "request_id": request_id,
        "from": identity.node_id,
        "community": community,
        "timestamp": format_time(clock.now()),
        **({TO: to} if to else {}),
    }
    return {**fields, "signature": identity.sign(signed_bytes(fields, body))}


def signed_bytes(fields: Mapping[str, str], body: bytes) -> bytes:
    """What the signature is of."""
    to = {TO: fields[TO]} if fields.get(TO) else {}
    return canonical_json({**{name: fields[name] for name in FIELDS}, **to, "body": digest_bytes(body)})


def as_headers(fields: Mapping[str, str]) -> dict[str, str]:
    return {HEADERS[name]: value for name, value in fields.items()}


def check_call(
    fields: Mapping[str, str], body: bytes, *, community: str | None, now: int, node_id: str | None = None
) -> str:
    """The id of whoever signed the call.

    Raises:
        BusError: It is not signed as it says, or not for here and now (`invalid_signature`).
    """
    missing = [name for name in (*FIELDS, "signature") if not fields.get(name) or not isinstance(fields[name], str)]
    if missing:
        raise _invalid(f"the signed envelope lacks {', '.join(missing)}; sign with all of its fields")
    if not isinstance(fields.get(TO, ""), str):
        raise _invalid("the signed envelope names no node; `to` is the id of the one that is called")
    if any(len(fields.get(name, "")) > _LONGEST for name in (*FIELDS, TO, "signature")):
        raise _invalid(f"a field of the signed envelope is longer than {_LONGEST}; shorten it")
    if community is not None and fields["community"] != community:
        raise _invalid("the call is signed for another community; sign it for the one that is called")
    if node_id is not None and fields.get(TO, node_id) not in ("", node_id):
        raise _invalid("the call is signed for another node; sign it for the one that is called")
    at = parse_time(fields["timestamp"])
    if at is None:
        raise _invalid("the timestamp is not a time; write it as 2026-01-31T12:00:00Z")
    if abs(now - at) > WINDOW * 1000:
        raise _invalid(f"the timestamp is more than {WINDOW} s from now; set the clock, and sign the call again")
    if not verify(fields["from"], fields["signature"], signed_bytes(fields, body)):
        raise _invalid("the signature does not fit the call and its sender; sign exactly what is sent")
    return fields["from"]


class ReplayMemory:
    """Which signed calls were seen, for as long as they could be sent again.

    It is bounded. To make room the oldest goes, and from then on nothing that old is taken: a
    replay is refused however many calls there were.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._seen: set[bytes] = set()
        self._by_time: list[tuple[int, bytes]] = []
        self._floor = -1

    def __len__(self) -> int:
        return len(self._seen)

    def first(self, message: bytes, at: int, now: int) -> bool:
        """Whether this is the first time that a message, signed at that time, is seen."""
        while self._by_time and self._by_time[0][0] < now - WINDOW * 1000:
            self._seen.discard(heapq.heappop(self._by_time)[1])
        key = hashlib.sha256(message).digest()
        if at <= self._floor or key in self._seen:
            return False
        self._seen.add(key)
        heapq.heappush(self._by_time, (at, key))
        if len(self._seen) > self._most:
            self._floor, oldest = heapq.heappop(self._by_time)
            self._seen.discard(oldest)
        return True


STRANGERS = 10_000
"""Calls of signers that are not known which are remembered."""


class Authenticator:
    """Identifies callers for a door (an entry point). It says who signed; admission decides what they may do."""

    def __init__(
        self,
        *,
        community: str | None = None,
        node_id: str | None = None,
        known: Callable[[str], bool] = lambda node: True,
        replays: ReplayMemory | None = None,
        clock: Clock = SystemClock(),
    ) -> None:
        """`node_id` is that of this node: a call that is signed for another one is refused.

        Anybody can make a key and sign, and fill a memory with calls that are dated ahead. So the calls of signers that
        are not `known` are remembered apart: strangers can only keep strangers out.
        """
        self._community = community
        self._node_id = node_id
        self._known = known
        self._replays = replays or ReplayMemory()
        self._strangers = ReplayMemory(STRANGERS)
        self._clock = clock

    def authenticate(self, fields: Mapping[str, str], body: bytes) -> Caller:
        """Who sent this: `NOBODY` if it is not signed. `fields` are named as in `FIELDS`, with `signature`.

        Raises:
            BusError: It is signed, and wrongly (`invalid_signature`).
        """
        if not fields.get("signature"):
            return NOBODY
        now = self._clock.now()
        signer = check_call(fields, body, community=self._community, now=now, node_id=self._node_id)
        seen = self._replays if self._known(signer) else self._strangers
        if not seen.first(signed_bytes(fields, body), parse_time(fields["timestamp"]) or 0, now):
            raise _invalid("this call was seen before; sign each attempt separately, and not ahead of time")
        return Caller(principal=Principal(signer))


def format_time(at: int) -> str:
    """Milliseconds since 1970 in RFC 3339."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def parse_time(text: str) -> int | None:
    """RFC 3339 in UTC, with a `Z`, as milliseconds since 1970."""
    try:
        if not _TIME.fullmatch(text):
            return None
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None


def _invalid(why: str) -> BusError:
    return BusError("invalid_signature", why, outcome="forbidden")
