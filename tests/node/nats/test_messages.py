"""The bytes on the wire, which outlive the code."""

from __future__ import annotations

import msgspec
import pytest
from inline_snapshot import snapshot

from handrail.core.errors import UsageError
from handrail.node.nats.messages import (
    CallerMessage,
    NatsAccepted,
    NatsBusy,
    NatsCancel,
    NatsChunk,
    NatsCredit,
    NatsFailure,
    NatsGo,
    NatsHeartbeat,
    NatsRequest,
    NatsResult,
    NatsStatus,
    NatsSubjects,
    NatsUnknownCall,
    WorkerMessage,
    decode_caller_message,
    decode_worker_message,
    encode_nats_message,
)

ASKED: list[CallerMessage] = [
    NatsRequest(
        ref="r",
        call_id="c",
        capability="bank.pay",
        version="1.0",
        body={"input": {}},
        sender="ed25519:k",
        community="home",
        timestamp="2026-01-31T12:00:00Z",
        signature="ed25519:s",
        token="hntoken://v1/t",
        timeout_ms=1000,
        depth=1,
        within=(("bank.*",),),
        traceparent="00-1-2-01",
    ),
    NatsGo(ref="r", timeout_ms=900),
    NatsCredit(ref="r", upto=8),
    NatsCancel(ref="r"),
    NatsStatus(ref="r", after=3),
]
TOLD: list[WorkerMessage] = [
    NatsAccepted(worker="w", lease_ms=3000, retriable=False, side_effects=True, waits=True),
    NatsHeartbeat(worker="w", lease_ms=3000, seq=4),
    NatsChunk(seq=1, event="token", data={"text": "a"}),
    NatsResult(seq=2, body={"output": {}, "meta": {}}),
    NatsFailure(seq=2, error={"error": "timeout"}),
    NatsBusy(worker="w", error={"error": "capacity_exceeded"}),
    NatsUnknownCall(worker="w"),
]


def test_what_a_caller_sends_is_written_like_this() -> None:
    assert [encode_nats_message(each).decode() for each in ASKED] == snapshot(
        [
            '{"kind":"request","ref":"r","call_id":"c","capability":"bank.pay","version":"1.0","body":{"input":{}},"from":"ed25519:k","community":"home","timestamp":"2026-01-31T12:00:00Z","signature":"ed25519:s","token":"hntoken://v1/t","timeout_ms":1000,"depth":1,"within":[["bank.*"]],"traceparent":"00-1-2-01"}',
            '{"kind":"go","ref":"r","timeout_ms":900}',
            '{"kind":"credit","ref":"r","upto":8}',
            '{"kind":"cancel","ref":"r"}',
            '{"kind":"status","ref":"r","after":3}',
        ]
    )
    assert [decode_caller_message(encode_nats_message(each)) for each in ASKED] == ASKED


def test_what_a_worker_sends_is_written_like_this() -> None:
    assert [encode_nats_message(each).decode() for each in TOLD] == snapshot(
        [
            '{"kind":"accepted","worker":"w","lease_ms":3000,"retriable":false,"side_effects":true,"waits":true}',
            '{"kind":"heartbeat","worker":"w","lease_ms":3000,"seq":4}',
            '{"kind":"chunk","seq":1,"event":"token","data":{"text":"a"}}',
            '{"kind":"result","seq":2,"body":{"output":{},"meta":{}}}',
            '{"kind":"error","seq":2,"error":{"error":"timeout"}}',
            '{"kind":"busy","worker":"w","error":{"error":"capacity_exceeded"}}',
            '{"kind":"unknown","worker":"w"}',
        ]
    )
    assert [decode_worker_message(encode_nats_message(each)) for each in TOLD] == TOLD


def test_subjects_name_the_community_the_capability_and_its_major() -> None:
    subjects = NatsSubjects("home")

    assert [subjects.capability("rag.query", (1, 4)), subjects.worker("w1"), subjects.service] == snapshot(
        ["cap.home.rag.query.1", "cap.home._node.w1", "cap-home"]
    )


@pytest.mark.parametrize("community", ["", "a.b", "a b", "*", ">", "a\r\nPUB", "x" * 65])
def test_a_community_that_would_be_another_subject_is_refused(community: str) -> None:
    with pytest.raises(UsageError):
        NatsSubjects(community)


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"kind":"\x80"}', b"[" * 5_000, b'{"kind":"go","ref":3}'])
def test_bytes_that_are_no_message_are_one_kind_of_error(data: bytes) -> None:
    for reader in (decode_caller_message, decode_worker_message):
        with pytest.raises(msgspec.MsgspecError):
            reader(data)


def test_no_token_is_shown_where_a_request_is() -> None:
    assert "hntoken" not in repr(ASKED[0])
