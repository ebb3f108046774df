"""Tokens: `hntoken://v1/` and a JWS that its issuer signed. Reading, checking and making them.

`parse_token` answers one question, whether the text is what an issuer signed. Whether the
issuer counts here, and whether it is time, is for admission to say. Everything that is
cheap is looked at first: nothing long, odd or deep reaches the signature.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import BusError, MissingExtra
from handrail.core.jsontext import JSONTextError, parse as parse_json
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret
from handrail.node.tokens.identity import NODE_ID, Identity, from_base64, public_key
from handrail.node.tokens.scope import Scope

if TYPE_CHECKING:
    from handrail.node.tokens.token_store import TokenStore

PREFIX = "hntoken://v1/"
LONGEST = 2048
"""Characters, the prefix among them."""
DEFAULT_TTL, LONGEST_TTL = 3600, 86_400
DEEPEST = 8
"""Times that a token can be passed on."""
ANYBODY = "*"
"""The subject of a token that is good for whoever has it."""
Via = Literal["federation", "onboarding", "manual", "relay", "delegation"]
Lent = Literal["member", "trusted"]
"""How far the holder is trusted because of the token: as far as the issuer says and is trusted itself."""

_HEADER = {"alg": "EdDSA", "typ": "hntoken", "v": 1}
_CLAIMS = frozenset({"iss", "sub", "aud", "iat", "exp", "nbf", "jti", "scope", "issued_via", "parent", "trust"})
_ID = re.compile(r"[A-Za-z0-9._~-]{1,64}")
"""Ids become parts of names, in records and on terminals."""
_LATEST = 2**40
_ULID = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class CapabilityToken(Struct, frozen=True, kw_only=True):
    """What an issuer signed. It does not hold the text, so that it may be shown."""

    issuer: str
    subject: str
    audience: str | None = None
    """The community that it is for; None is every one that trusts its issuer."""
    issued_at: int
    expires_at: int
    not_before: int
    """Seconds since 1970."""
    id: str
    scope: Scope
    issued_via: Via = "manual"
    parent: str | None = None
    """The id of the token that it was made from."""
    trust: Lent = "member"

    @property
    def is_bearer(self) -> bool:
        return self.subject == ANYBODY

    @property
    def is_relayed(self) -> bool:
        """Whether its issuer made it for itself, to call on behalf of somebody who brought a token."""
        return self.issued_via == "relay" and self.issuer == self.subject

    @property
    def holder(self) -> str:
        """The id under which the holder is known.

        Neither a bearer nor whom a node relays for is that node: what belongs to it by its id is not theirs.
        """
        return f"{self.issuer}#{self.id}" if self.is_bearer or self.is_relayed else self.subject

    def to_dict(self) -> dict[str, Any]:
        """Its claims."""
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": self.subject,
            "iat": self.issued_at,
            "exp": self.expires_at,
            "nbf": self.not_before,
            "jti": self.id,
            "scope": self.scope.to_dict(),
            "issued_via": self.issued_via,
        }
        others = {"aud": self.audience, "parent": self.parent, "trust": None if self.trust == "member" else self.trust}
        return {**claims, **{key: value for key, value in others.items() if value is not None}}


def issue(
    identity: Identity,
    store: TokenStore,
    scope: Scope,
    *,
    subject: str = ANYBODY,
    audience: str | None = None,
    ttl: int | None = None,
    parent: CapabilityToken | None = None,
    issued_via: Via = "manual",
    trust: Lent = "member",
    renews: str | None = None,
    clock: Clock = SystemClock(),
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[CapabilityToken, Secret]:
    """Issue a token, record it, and return it with its text.

    With a `parent`, it has the same rights or fewer, and expires no later. It has the id of the token that it
    `renews`, if there is one: holders of either count as one, and revoking one revokes both.

    Raises:
        BusError: It would be too long, last too long, or be more than its parent.
    """
    seconds = DEFAULT_TTL if ttl is None else ttl
    if not 1 <= seconds <= LONGEST_TTL:
        why = f"a token lasts 1 to {LONGEST_TTL} seconds, not {seconds}; ask for a shorter time"
        raise BusError("bad_request", why)
    if not is_subject(subject):
        raise BusError("bad_request", "a token is for a node, by its id (ed25519:…), or for anybody (*)")
    now = clock.now() // 1000
    expires = now + seconds
    if parent is not None:
        _check_parent(identity, store, parent, scope, now)
        if trust != "member" and parent.trust != trust:
            raise BusError("token_scope_insufficient", "a token lends no more trust than the one that it is made from")
        expires, audience, issued_via = min(expires, parent.expires_at), parent.audience, "delegation"
    token = CapabilityToken(
        issuer=identity.node_id,
        subject=subject,
        audience=audience,
        issued_at=now,
        expires_at=expires,
        not_before=now if parent is None else max(now, parent.not_before),
        id=renews or new_ulid(clock.now(), random),
        scope=scope,
        issued_via=issued_via,
        parent=None if parent is None else parent.id,
        trust=trust,
    )
    text = _signed(token, identity)
    if len(text) > LONGEST:
        why = f"the token would have {len(text)} characters, and {LONGEST} is the most; say less"
        raise BusError("bad_request", why)
    store.record(token, again=renews is not None)
    return token, text


def relayed_token(
    identity: Identity, token: CapabilityToken, *, trust: Lent, ttl: int, clock: Clock
) -> tuple[CapabilityToken, Secret]:
    """The rights of a token that was shown here, for calls which this node signs on behalf of whoever showed it.

    It has the same id, so that limits are counted and revocations known by it. It is recorded nowhere: this node
    alone can use it, and not for long.

    Raises:
        BusError: It would be too long.
    """
    now = clock.now() // 1000
    ours = replace(
        token,
        issuer=identity.node_id,
        subject=identity.node_id,
        issued_at=now,
        expires_at=min(token.expires_at, now + ttl),
        not_before=min(token.not_before, now),
        issued_via="relay",
        parent=None,
        trust=trust,
    )
    text = _signed(ours, identity)
    if len(text) > LONGEST:
        why = "the token is too long to be passed on to another node; ask for one that says less"
        raise BusError("bad_request", why)
    return ours, text


def parse_token(text: str) -> CapabilityToken:
    """The token of this text, if its issuer signed it.

    Raises:
        BusError: It is no token (`bad_request`), or nobody signed it so (`token_invalid`).
    """
    if not text.startswith(PREFIX) or len(text) > LONGEST or not text.isascii():
        raise _malformed(f"a token begins with {PREFIX} and has at most {LONGEST} characters")
    pieces = text.removeprefix(PREFIX).split(".")
    if len(pieces) != 3 or len(pieces[2]) != 86:
        raise _malformed("it was cut or changed")
    header = _json(pieces[0])
    if header != _HEADER or type(header["v"]) is not int:
        raise _invalid("its header is not that of a token; only EdDSA, typ hntoken, v 1 and nothing else is taken")
    token = _from_claims(_json(pieces[1]))
    public = public_key(token.issuer)
    if public is None or not _jws().is_jws_signed_by(text.removeprefix(PREFIX), public):
        raise _invalid("its issuer did not sign it")
    return token


def is_subject(text: str) -> bool:
    return text == ANYBODY or NODE_ID.fullmatch(text) is not None


def new_ulid(at: int, random: Callable[[int], bytes] = os.urandom) -> str:
    """48 bits of time and 80 of chance: 26 letters that sort by age."""
    number = (at << 80) | int.from_bytes(random(10))
    return "".join(_ULID[number >> shift & 31] for shift in range(125, -1, -5))


def _check_parent(identity: Identity, store: TokenStore, parent: CapabilityToken, scope: Scope, now: int) -> None:
    if parent.issuer != identity.node_id:
        raise BusError("token_invalid", "only the node that issued a token can make another from it; ask that node")
    if not store.is_known(parent.id):
        raise BusError("token_invalid", "this node has no record of the token to pass on; ask for a new one")
    scope.check_within(parent.scope)
    if parent.expires_at <= now:
        raise BusError("token_expired", "the token to pass on has expired; ask for a new one", outcome="forbidden")
    chain = [each.id for each in store.chain(parent)]
    if store.any_revoked([*chain, identity.node_id]):
        raise BusError("token_revoked", "the token to pass on was revoked; ask for a new one", outcome="forbidden")
    if len(chain) > DEEPEST:
        raise BusError("bad_request", f"a token can be passed on {DEEPEST} times; ask for a new one")


def _json(piece: str) -> Any:
    data = from_base64(piece)
    if data is None:
        raise _malformed("it was cut or changed")
    try:
        return parse_json(data, max_size=LONGEST)
    except JSONTextError:
        raise _malformed("what it holds is not JSON that is taken") from None


def _from_claims(said: Any) -> CapabilityToken:
    if not isinstance(said, dict) or not said.keys() <= _CLAIMS:
        raise _malformed(f"it has other claims than {', '.join(sorted(_CLAIMS))}")
    texts = {name: said.get(name) for name in ("iss", "sub", "jti", "aud", "parent", "issued_via")}
    required = ("iss", "sub", "jti")
    if any(not isinstance(each, str | None) for each in texts.values()) or not all(texts[name] for name in required):
        raise _malformed("iss, sub and jti are texts, and each is there")
    if not all(_ID.fullmatch(each) for each in (said["jti"], said.get("parent") or said["jti"])):
        raise _malformed("jti and parent have 1 to 64 letters, digits and the signs . _ ~ -")
    if not NODE_ID.fullmatch(said["iss"]) or not is_subject(said["sub"]):
        raise _malformed("iss is the id of a node, and sub is one or *")
    times = [said.get(name) for name in ("iat", "exp", "nbf")]
    if any(type(each) is not int or not 0 <= each < _LATEST for each in times):
        raise _malformed("iat, exp and nbf are seconds since 1970")
    via: Via | None = next((each for each in get_args(Via) if each == said.get("issued_via", "manual")), None)
    trust: Lent | None = next((each for each in get_args(Lent) if each == said.get("trust", "member")), None)
    if trust is None:
        raise _malformed(f"trust is one of {', '.join(get_args(Lent))}")
    if via is None:
        raise _malformed(f"issued_via is one of {', '.join(get_args(Via))}")
    return CapabilityToken(
        issuer=said["iss"],
        subject=said["sub"],
        audience=texts["aud"],
        issued_at=said["iat"],
        expires_at=said["exp"],
        not_before=said["nbf"],
        id=said["jti"],
        scope=Scope.from_dict(said.get("scope")),
        issued_via=via,
        parent=texts["parent"],
        trust=trust,
    )


def _signed(token: CapabilityToken, identity: Identity) -> Secret:
    # Plain JSON: the canonical form has spellings of its own, which would be read as other values.
    claims = json.dumps(token.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Secret(PREFIX + _jws().sign_jws(_HEADER, claims.encode(), identity.seed))


def _jws() -> Any:
    try:
        from handrail.node.tokens import jws
    except ImportError as error:
        raise MissingExtra("making and checking tokens", "bus") from error
    return jws


def _malformed(why: str) -> BusError:
    return BusError("bad_request", f"the token cannot be read: {why}; send it as it was issued", outcome="forbidden")


def _invalid(why: str) -> BusError:
    return BusError("token_invalid", f"the token is not valid: {why}; ask for a new one", outcome="forbidden")
