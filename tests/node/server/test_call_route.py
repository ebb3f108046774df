"""Calls over HTTP that are answered in one piece: what is asked in which way, and what each error looks like."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings, strategies as st
from starlette.datastructures import Headers

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError
from handrail.node.bus.wire_codes import WIRE
from handrail.node.server.envelope import envelope_from_headers, with_parsed_body
from handrail.node.server.node import ServerLimits
from handrail.node.tokens.signatures import Authenticator, as_headers, sign_call
from tests.examples import examples
from tests.node.server.http_node import CALL, NodeFixture, ask, call_headers, client, serving

ENVELOPE = {"content-type": "application/vnd.hearthnet.call+json"}


async def test_a_call_in_headers_gives_its_output_and_meta() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await ask(http, "test.say", {"text": "hello"}, capability_version="1.0", request_id="a-1")
    assert (said.status_code, said.json()["output"]) == (200, {"said": "hello"})
    assert said.json()["meta"]["ms"] >= 0
    assert said.headers["x-hearthnet-request-id"] == "a-1"
    assert said.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("headers", [ENVELOPE, {"content-type": "application/json"}])
async def test_a_call_in_an_envelope_is_the_same(headers: dict[str, str]) -> None:
    scene = NodeFixture()
    envelope = {"capability": "test.say", "version": "1.0", "body": {"input": {"text": "hello"}}}
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await http.post(CALL, content=canonical_json(envelope), headers=headers)
    assert (said.status_code, said.json()["output"]) == (200, {"said": "hello"})


@pytest.mark.requirement("hearthnet.errors")
async def test_every_error_has_its_status_and_its_body() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        for code, wire in WIRE.items():
            said = await ask(http, "test.fail", {"code": code, "after": 1_200})
            assert (said.status_code, said.json()["error"]) == (wire.http, code)
            assert said.headers["retry-after"] == "2"
            assert said.json()["retry_after_ms"] == 1_200


async def test_the_same_request_id_is_run_once() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        first = await ask(http, "test.say", {"text": "a"}, request_id="same")
        second = await ask(http, "test.say", {"text": "a"}, request_id="same")
    assert first.json()["output"] == second.json()["output"] == {"said": "a"}
    assert scene.works.runs == 1


async def test_a_second_request_waits_for_the_call_that_is_under_way() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        first = asyncio.create_task(ask(http, "test.hang", request_id="same"))
        await scene.works.started.wait()
        second = asyncio.create_task(ask(http, "test.hang", request_id="same"))
        other = await ask(http, "test.hang", {"other": 1}, request_id="same")
        scene.works.go_on.set()
        answers = [await first, await second]
    assert [each.json()["output"] for each in answers] == [{"done": True}] * 2
    assert (other.status_code, scene.works.runs) == (400, 1)


async def test_the_same_id_of_another_holder_is_another_call() -> None:
    scene = NodeFixture()
    async with (
        serving(scene) as url,
        client(url, scene.token) as ann,
        client(url, scene.token_for("test.*")) as bob,
    ):
        await ask(ann, "test.say", {"text": "ann"}, request_id="same")
        assert (await ask(bob, "test.say", {"text": "bob"}, request_id="same")).json()["output"] == {"said": "bob"}


async def test_what_the_caller_says_of_its_call_goes_along() -> None:
    scene = NodeFixture()
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    async with serving(scene) as url, client(url, scene.token) as http:
        headers = call_headers("test.say", depth="2", within='[["test.*"]]', timeout_ms="5000", session_id="s")
        await http.post(CALL, json={}, headers={**headers, "traceparent": trace})
    request = scene.works.heard[0]
    assert request.context.depth == 2
    assert ("test.*",) in request.context.within
    assert (request.session_id, request.trace_id) == ("s", "a" * 32)
    assert request.remaining is not None and request.remaining < 6


async def test_a_scope_of_the_calls_above_bounds_the_call() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await ask(http, "test.say", within='[["rag.*"]]')
    assert said.status_code == 403
    assert scene.works.runs == 0


async def test_a_time_that_the_caller_gives_is_kept() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await ask(http, "test.hang", timeout_ms="50")
    assert (said.status_code, said.json()["error"]) == (408, "timeout")


async def test_a_client_that_hangs_up_cancels_its_call_after_a_while() -> None:
    scene = NodeFixture(limits=ServerLimits(linger=0.05, grace=0.2))
    async with serving(scene) as url, client(url, scene.token) as http:
        asking = asyncio.create_task(ask(http, "test.hang"))
        await scene.works.started.wait()
        asking.cancel()
        async with asyncio.timeout(30):
            await scene.works.cancelled.wait()


# ── who asks ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["authorization", "x-hearthnet-token", "x-api-key"])
async def test_a_token_may_stand_in_each_of_three_headers(where: str) -> None:
    scene = NodeFixture()
    token = f"Bearer {scene.token}" if where == "authorization" else str(scene.token)
    async with serving(scene) as url, client(url) as http:
        said = await http.post(CALL, json={}, headers={**call_headers("test.say"), where: token})
    assert said.status_code == 200


async def test_without_a_token_nobody_calls_anything_even_on_loopback() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as http:
        said = await ask(http, "test.say")
    assert (said.status_code, said.json()["error"]) == (401, "unauthorized")
    assert said.headers["www-authenticate"] == "Bearer"
    assert scene.works.runs == 0


@pytest.mark.parametrize("token", ["sk-something", "hn-token", "x" * 9_000])
async def test_what_is_no_token_is_refused(token: str) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, token) as http:
        said = await ask(http, "test.say")
    assert (said.status_code, said.json()["error"]) == (401, "token_invalid")
    assert token not in said.text


async def test_two_tokens_that_differ_are_none() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await ask(http, "test.say", token=str(scene.token_for("test.*")))
    assert said.status_code == 401


async def test_a_token_that_is_not_for_it_does_not_do() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token_for("rag.*")) as http:
        said = await ask(http, "test.say")
    assert (said.status_code, said.json()["error"]) == (403, "token_scope_insufficient")


def signed(scene: NodeFixture, body: bytes, **changed: str) -> dict[str, str]:
    fields = sign_call(scene.friend, capability="test.say", version="1.0", request_id="r", community="us", body=body)
    return {**as_headers({**fields, **changed}), "content-type": "application/json"}


async def test_who_signs_needs_no_token() -> None:
    scene = NodeFixture()
    body = b'{"input": {"text": "signed"}}'
    async with serving(scene) as url, client(url) as http:
        headers = signed(scene, body)
        said = await http.post(CALL, content=body, headers=headers)
        again = await http.post(CALL, content=body, headers=headers)
    assert (said.status_code, said.json()["output"]) == (200, {"said": "signed"})
    assert scene.works.heard[0].caller.id == scene.friend.node_id
    assert (again.status_code, again.json()["error"]) == (401, "invalid_signature")


@pytest.mark.parametrize(
    "changed", [{"request_id": "other"}, {"community": "them"}, {"timestamp": "2020-01-01T00:00:00Z"}]
)
async def test_a_signature_is_for_this_call_here_and_now(changed: dict[str, str]) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as http:
        said = await http.post(CALL, content=b"{}", headers=signed(scene, b"{}", **changed))
    assert (said.status_code, said.json()["error"]) == (401, "invalid_signature")


async def test_a_signed_call_cannot_be_shown_to_another_node() -> None:
    """As a node would that was called, within the five minutes."""
    scene, other = NodeFixture(), NodeFixture()
    other.server = replace(other.server, check=Authenticator(community="us", node_id="ed25519:other"))
    body = b'{"input": {}}'
    facts: dict[str, Any] = {"capability": "test.say", "version": "1.0", "request_id": "r", "community": "us"}
    fields = sign_call(scene.friend, **facts, body=body, to=scene.identity.node_id)
    headers = {**as_headers(fields), "content-type": "application/json"}
    async with serving(scene) as url, serving(other) as elsewhere, client(url) as http:
        shown = await http.post(f"{elsewhere}{CALL}", content=body, headers=headers)
        taken = await http.post(CALL, content=body, headers=headers)
    assert (shown.json()["error"], taken.status_code) == ("invalid_signature", 200)
    assert "another node" in shown.json()["message"] and other.works.runs == 0


async def test_what_changes_something_is_signed_for_one_node() -> None:
    scene, body = NodeFixture(), b'{"input": {}}'
    scene.works.go_on.set()
    answers = []
    async with serving(scene) as url, client(url) as http:
        for number, to in enumerate(("", scene.identity.node_id)):
            facts: dict[str, Any] = {"capability": "test.pay", "version": "1.0", "community": "us"}
            facts["request_id"] = f"r{number}"
            fields = sign_call(scene.friend, **facts, body=body, to=to)
            headers = {**as_headers(fields), "content-type": "application/json"}
            answers.append(await http.post(CALL, content=body, headers=headers))
    assert [answer.status_code for answer in answers] == [401, 200]
    assert scene.identity.node_id in answers[0].json()["message"] and scene.works.runs == 1


async def test_the_body_is_signed_too() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as http:
        said = await http.post(CALL, content=b'{"input":{}}', headers=signed(scene, b"{}"))
    assert said.status_code == 401


async def test_another_community_is_not_called_here() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await ask(http, "test.say", community="them")
    assert (said.status_code, said.json()["error"]) == (404, "not_federated")


async def test_who_turned_tokens_off_is_trusted(caplog: pytest.LogCaptureFixture) -> None:
    scene = NodeFixture(token_required=False)
    async with serving(scene) as url, client(url) as http:
        said = await ask(http, "test.say")
    assert said.status_code == 200
    assert scene.works.heard[0].caller.trust == "trusted"
    assert "asks nobody for a token" in caplog.text


# ── what HTTP itself refuses ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (400, {}, b"{"),
        (400, {}, b"[]"),
        (400, {}, b'{"a": 1, "a": 2}'),
        (400, {"x-hearthnet-depth": "-1"}, b"{}"),
        (400, {"x-hearthnet-depth": "²"}, b"{}"),
        (400, {"x-hearthnet-within": "{"}, b"{}"),
        (400, {"x-hearthnet-request-id": "a b"}, b"{}"),
        (400, {"x-hearthnet-capability-version": "one"}, b"{}"),
        (406, {"accept": "text/html"}, b"{}"),
        (406, {"accept": "application/json;q=0"}, b"{}"),
        (415, {"content-type": "text/plain"}, b"{}"),
        (415, {"content-type": "application/json; charset=latin-1"}, b"{}"),
        (415, {"content-encoding": "gzip"}, b"{}"),
    ],
)
async def test_a_request_that_cannot_be_read_is_refused_in_the_form_of_every_error(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        fields = {**call_headers("test.say"), "content-type": "application/json", **headers}
        said = await http.post(CALL, content=body, headers=[(k.encode(), v.encode()) for k, v in fields.items()])
    assert said.status_code == status
    assert said.json().keys() >= {"error", "message", "outcome"}
    assert scene.works.runs == 0


async def test_a_header_that_is_there_twice_is_refused() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        headers = [("x-hearthnet-capability", "test.say"), ("x-hearthnet-depth", "0"), ("x-hearthnet-depth", "1")]
        said = await http.post(CALL, json={}, headers=headers)
    assert said.status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", CALL, 405, {"POST", "OPTIONS"}),
        ("DELETE", "/health", 405, {"GET", "HEAD", "OPTIONS"}),
        ("OPTIONS", CALL, 204, {"POST", "OPTIONS"}),
        ("HEAD", "/health", 200, None),
        ("GET", "/nothing", 404, None),
        ("GET", "/telemetry", 404, None),
    ],
)
async def test_methods_and_paths_are_as_http_says(method: str, path: str, status: int, allow: set[str] | None) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await http.request(method, path)
    assert said.status_code == status
    assert allow is None or set(said.headers["allow"].split(", ")) == allow
    if status >= 400:
        assert said.json()["error"] in WIRE
    if method == "HEAD":
        assert said.content == b""


async def test_a_mistake_of_ours_is_a_plain_500(caplog: pytest.LogCaptureFixture) -> None:
    def telemetry() -> Any:
        raise RuntimeError("key sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaa")

    scene = NodeFixture(telemetry=telemetry)
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await http.get("/telemetry")
    assert (said.status_code, said.json()["error"]) == (500, "internal_error")
    assert "RuntimeError" in caplog.text
    assert "sk-aaaa" not in caplog.text + said.text


TEXT = st.text(st.characters(max_codepoint=255), max_size=20)


@settings(max_examples=examples(200))
@given(st.binary(max_size=200), st.dictionaries(st.sampled_from(["depth", "within", "timeout-ms"]), TEXT))
def test_whatever_comes_is_read_or_refused(raw: bytes, fields: dict[str, str]) -> None:
    headers = Headers({"x-hearthnet-capability": "a.b", **{f"x-hearthnet-{k}": v for k, v in fields.items()}})
    try:
        stated = envelope_from_headers(headers)
        assert stated is not None
        envelope = with_parsed_body(stated, raw, max_size=1_000)
    except BusError as error:
        assert error.code == "bad_request"
    else:
        assert (envelope.capability, envelope.body) == ("a.b", json.loads(raw))


@pytest.mark.parametrize("field", ["request_id", "session_id", "version"])
async def test_a_newline_at_the_end_of_what_goes_into_headers_is_refused(field: str) -> None:
    scene = NodeFixture()
    envelope = {"capability": "test.say", field: "1.0\n", "body": {}}
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await http.post(CALL, json=envelope, headers=ENVELOPE)
    assert (said.status_code, said.json()["error"]) == (400, "bad_request")
    assert scene.works.runs == 0


async def test_httpx_is_answered_on_one_connection() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, httpx2.AsyncClient(base_url=url, limits=httpx2.Limits(max_connections=1)) as http:
        for _ in range(3):
            assert (await http.get("/health")).json() == {"status": "ok"}
