"""What comes to the doors of a node: tokens, signatures, envelopes, messages on sockets, traces.

The laws: only what an issuer or a caller signed is taken for theirs; what is read can be used and told again; and
everything else is a refusal in words.
"""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

from hypothesis import strategies as st
from starlette.datastructures import Headers

from fuzz.law import Target, outcome
from fuzz.mutate import data, texts, values
from handrail.core.errors import BusError
from handrail.core.ids import trace_id, traceparent
from handrail.node.bus.request import NOBODY
from handrail.node.server.authentication import token_of
from handrail.node.server.call_route import call_digest
from handrail.node.server.envelope import (
    CallEnvelope,
    envelope_from_headers,
    envelope_from_object,
    read_call,
    with_parsed_body,
)
from handrail.node.server.socket_messages import (
    BadSocketMessage,
    SocketCallMessage,
    SocketResumeMessage,
    SocketToolAnswer,
    read_first_message,
    read_later_message,
)
from handrail.node.tokens import jws
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.signatures import HEADERS, check_call, sign_call
from handrail.node.tokens.token import PREFIX, CapabilityToken, issue, parse_token
from handrail.node.tokens.token_store import TokenStore
from handrail.testing.clock import FixedClock

HOME = Identity.from_seed(b"\x01" * 32)
CLOCK = FixedClock()
LARGEST = 4_000
PLACES = ("rag.query@1.0", "rag.ingest@1.0", "rag.query@2.3", "chat.send@1.0", "x@0.0")
BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"params": {"corpus": "a"}},
    {"input": {"corpus": "a"}, "params": {"corpus": "b"}},
    {"input": {"corpus": ["a"]}},
)

# ── tokens and scopes ────────────────────────────────────────────────────────────────────

SCOPES: list[dict[str, Any]] = [
    {"capabilities": ["*"]},
    {"capabilities": ["rag.*@1.*", "chat.send"], "rate_limit_per_minute": 3, "max_calls_total": 7},
    {"capabilities": ["rag.query@1.0"], "params_constraints": {"corpus": ["a", "b", 1, None], "rag.*:k": [5]}},
]


@cache
def issued() -> dict[str, CapabilityToken]:
    """Some tokens, by their texts."""
    store = TokenStore(clock=CLOCK)
    number = itertools.count()
    made = [
        issue(HOME, store, Scope.from_dict(scope), clock=CLOCK, random=lambda count: next(number).to_bytes(count))
        for scope in SCOPES
    ]
    store.close()
    return {text: token for token, text in made}


def _token(text: str) -> None:
    found = outcome(lambda: parse_token(text), BusError)
    assert isinstance(found, tuple) or found == issued().get(text), "a token that was changed is taken"


def _claims(said: Any) -> None:
    """Signed, and therefore by somebody who may write anything into it."""
    header = {"alg": "EdDSA", "typ": "hntoken", "v": 1}
    found = outcome(lambda: parse_token(PREFIX + jws.sign_jws(header, json.dumps(said).encode(), HOME.seed)), BusError)
    if not isinstance(found, CapabilityToken):
        return
    store = TokenStore(clock=CLOCK)
    made = outcome(lambda: issue(HOME, store, found.scope, audience=found.audience, clock=CLOCK), BusError)
    store.close()
    assert isinstance(made[0], str) or parse_token(made[1]) == made[0], "a token is read as it was issued"


def _scopes(value: tuple[Any, Any]) -> None:
    inner, outer = (outcome(lambda: Scope.from_dict(said), BusError) for said in value)  # noqa: B023
    if isinstance(inner, tuple) or isinstance(outer, tuple):
        return
    assert inner.is_within(inner) and Scope.from_dict(inner.to_dict()) == inner
    if inner.is_within(outer):
        for name in PLACES:
            for body in BODIES:
                allowed = inner.lacks(name, body) is None
                assert not allowed or outer.lacks(name, body) is None, "a narrower scope allows more"


# ── calls ────────────────────────────────────────────────────────────────────────────────

BODY = b'{"input":{"text":"hello"}}'
SIGNED = sign_call(
    HOME, capability="rag.query", version="1.0", request_id="r-1", community="home", body=BODY, clock=CLOCK
)


def _signature(value: tuple[Any, bytes]) -> None:
    fields, body = value
    if not isinstance(fields, dict):
        return
    found = outcome(lambda: check_call(fields, body, community="home", now=CLOCK.now()), BusError)
    if not isinstance(found, tuple):
        assert found == HOME.node_id and body == BODY, "another body is taken for the signed one"
        assert {name: fields[name] for name in SIGNED} == SIGNED, "other fields are taken for the signed ones"


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ENVELOPES: list[dict[str, Any]] = [
    {"capability": "rag.query", "body": {"input": {"query": "tea"}, "params": {}}},
    {
        **SIGNED,
        "token": "hntoken://v1/a.b.c",
        "attempt": 2,
        "timeout_ms": 5000,
        "depth": 1,
        "within": [["rag.*@1.*"], ["*"]],
        "session_id": "s-1",
        "schema_hash": "sha256:0",
        "traceparent": TRACE,
        "interactive": True,
        "body": json.loads(BODY),
    },
]
WORDS: dict[str, tuple[str, ...]] = {
    **{HEADERS[name]: (said,) for name, said in SIGNED.items()},
    "X-HearthNet-Attempt": ("1", "0", "²", "1e3", "9" * 30),
    "X-HearthNet-Timeout-Ms": ("5000", "-1", "inf", "٣"),
    "X-HearthNet-Depth": ("0", "1001", "x"),
    "X-HearthNet-Within": ('[["*"]]', "[", "null", '[["a"],[]]', "[" * 300),
    "X-HearthNet-Session-Id": ("s", "s\n", "é"),
    "X-HearthNet-Token": ("hntoken://v1/a.b.c", "x"),
    "Authorization": ("Bearer hntoken://v1/a.b.c", "bearer  hntoken://v1/x", "Basic x", "Bearer"),
    "x-api-key": ("hntoken://v1/a.b.c", "sk-x"),
    "traceparent": (TRACE, TRACE.upper()),
}


def _call(value: tuple[list[tuple[str, str]], bytes, bool]) -> None:
    said, raw, whole = value
    headers = Headers(raw=[(name.lower().encode(), text.encode(errors="replace")) for name, text in said])
    found = outcome(lambda: _read(headers, raw, whole), BusError)
    if isinstance(found, CallEnvelope):
        _usable(found)
        outcome(lambda: token_of(headers, found), BusError)


def _read(headers: Headers, raw: bytes, whole: bool) -> CallEnvelope:
    stated = None if whole else envelope_from_headers(headers)
    return read_call(raw, max_size=LARGEST)[0] if stated is None else with_parsed_body(stated, raw, max_size=LARGEST)


def _usable(envelope: CallEnvelope) -> None:
    """What the node does with every envelope, whatever is in it."""
    seconds = envelope.terms(NOBODY, None, envelope.request_id, 60.0).timeout_seconds
    assert seconds is None or 0 <= seconds <= 60
    assert len(call_digest(envelope)) == 32
    for text in (envelope.request_id, envelope.version, envelope.session_id or ""):
        assert text.isprintable(), "it goes into a header of the answer"
    outcome(lambda: check_call(envelope.fields(), BODY, community=None, now=CLOCK.now()), BusError)


@st.composite
def _headers(draw: st.DrawFn) -> list[tuple[str, str]]:
    found = [("X-HearthNet-Capability", "rag.query")] if draw(st.booleans()) else []
    for name in draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=6)):
        found.append((name, draw(st.sampled_from(WORDS[name]) | texts(WORDS[name]))))
    return found


# ── sockets ──────────────────────────────────────────────────────────────────────────────

MESSAGES: list[Any] = [
    {"type": "call", "envelope": ENVELOPES[1], "signature": "x"},
    {"type": "resume", "request_id": "r-1", "after": 3, "envelope": ENVELOPES[0]},
    {"type": "ack", "upto": 3},
    {"type": "tool_result", "tool_call_id": "tc_1", "body": {"error": "no"}, "is_error": None},
    {"type": "cancel"},
]


def _message(text: str | None) -> None:
    message = {"type": "websocket.receive", "text": text}
    began = outcome(lambda: read_first_message(message, LARGEST), BadSocketMessage)
    if isinstance(began, SocketCallMessage | SocketResumeMessage) and began.envelope is not None:
        found = outcome(lambda: envelope_from_object(began.envelope), BusError)
        if isinstance(found, CallEnvelope):
            _usable(found)
    went_on = outcome(lambda: read_later_message(message, LARGEST), BadSocketMessage)
    if isinstance(went_on, SocketToolAnswer):
        assert isinstance(went_on.failed, bool)
    assert isinstance(began, tuple) or isinstance(went_on, tuple), "a message is of one kind"


def _trace(said: Any) -> None:
    found = traceparent(said)
    assert found is None or (found.isascii() and len(trace_id(found) or "") == 32 and set(found[3:35]) != {"0"})


_JSON = [json.dumps(each) for each in ENVELOPES]
_RAW = data([BODY, *map(str.encode, _JSON)], (b"[" * 200, b'"body":', b"\\ud800", b"\\n", b"1e999"))
TARGETS = (
    Target("token", st.deferred(lambda: texts([*issued()], (PREFIX, ".", "=="))), _token),
    Target("token-claims", st.deferred(lambda: values([token.to_dict() for token in issued().values()])), _claims),
    Target("token-scopes", st.tuples(values(SCOPES), values(SCOPES)), _scopes),
    Target("call-signature", st.tuples(values([dict(SIGNED)]), data([BODY])), _signature),
    Target(
        "call-envelope",
        st.tuples(_headers(), _RAW | values(ENVELOPES).map(json.dumps).map(str.encode), st.booleans()),
        _call,
    ),
    Target(
        "call-socket",
        st.none() | values(MESSAGES).map(json.dumps) | texts([json.dumps(each) for each in MESSAGES], ("\\n",)),
        _message,
    ),
    Target("traceparent", texts([TRACE], ("ff", "0" * 32)) | st.sampled_from([None, 3, b"x", ["x"]]), _trace),
)
