"""What a node shows of itself, and to whom; and that the description of its endpoints is true."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from starlette.routing import Route

from handrail import Conversation, Executor, Policy, Runner
from handrail.app.network_node import telemetry_of
from handrail.core.canonical import canonical_json
from handrail.journal.journal import SqliteJournal
from handrail.node.bus.wire_codes import WIRE
from handrail.node.server.app import build_app
from handrail.node.tokens.identity import verify
from handrail.node.tokens.signatures import as_headers, sign_call
from handrail.testing.clock import FixedClock
from handrail.testing.model import ScriptedModel, call, text
from tests.node.server.http_node import NodeFixture, ask, client, serving

PAGES = ["/capabilities", "/openapi.json", "/metrics", "/trace/recent", "/telemetry"]


async def test_whether_it_runs_is_told_to_everybody_and_says_nothing_more() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as http:
        assert (await http.get("/health")).json() == {"status": "ok"}
        assert (await http.get("/ready")).json() == {"status": "ready"}


@pytest.mark.parametrize("path", PAGES)
async def test_the_rest_is_shown_to_those_who_say_who_they_are(path: str) -> None:
    scene = NodeFixture(telemetry=list)
    async with serving(scene) as url, client(url) as nobody, client(url, scene.token) as somebody:
        assert (await nobody.get(path)).status_code == 401
        assert (await somebody.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/trace/recent", "/telemetry"])
async def test_what_others_did_is_shown_to_tokens_that_are_for_it(path: str) -> None:
    scene = NodeFixture(telemetry=list)
    async with (
        serving(scene) as url,
        client(url, scene.token_for("test.say@1.0")) as caller,
        client(url, scene.token_for("node.*")) as operator,
    ):
        refused = await caller.get(path)
        assert (refused.status_code, refused.json()["error"]) == (403, "token_scope_insufficient")
        assert (await operator.get(path)).status_code == 200


async def test_capabilities_are_those_that_the_caller_may_call() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token_for("test.say@1.0", "test.write@1.0")) as http:
        said = (await http.get("/capabilities")).json()
    assert said["node_id"] == scene.identity.node_id
    # What is for anchors is not for somebody with a bearer token, whatever the token says.
    assert [each["name"] for each in said["capabilities"]] == ["test.say"]
    assert said["capabilities"][0]["schema_hash"].startswith("blake3:")


async def test_a_node_that_signs_may_look_too() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as http:
        for name, status in (("node.look", 200), ("test.say", 401)):
            fields = sign_call(scene.friend, capability=name, version="1.0", request_id=name, community="us", body=b"")
            assert (await http.get("/capabilities", headers=as_headers(fields))).status_code == status


async def test_the_manifest_is_signed_and_lists_capabilities_to_those_who_may_look() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url) as nobody, client(url, scene.token) as somebody:
        public = (await nobody.get("/manifest")).json()
        whole = (await somebody.get("/manifest")).json()
    for said in (public, whole):
        signature = said.pop("signature")
        assert verify(scene.identity.node_id, signature, canonical_json(said))
    assert public == {"name": "here", "node_id": scene.identity.node_id, "community": "us", "version": "1"}
    assert "test.say" in [each["name"] for each in whole["capabilities"]]


async def test_calls_are_counted_for_prometheus() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        await ask(http, "test.say")
        await ask(http, "test.fail", {"code": "rate_limited"})
        for made_up in ("a.b", "c.d"):
            await ask(http, made_up)
        text = (await http.get("/metrics")).text
    assert 'hearthnet_requests_total{capability="test.say",result="ok"} 1.0' in text
    assert 'hearthnet_requests_total{capability="test.fail",result="rate_limited"} 1.0' in text
    assert 'hearthnet_requests_total{capability="unknown",result="not_found"} 2.0' in text
    assert "handrail_in_flight 0.0" in text
    assert 'handrail_request_seconds_count{capability="test.say"} 1.0' in text


async def test_numbers_may_be_somebody_elses() -> None:
    scene = NodeFixture(metrics=lambda: b"ours 1\n")
    async with serving(scene) as url, client(url, scene.token) as http:
        assert (await http.get("/metrics")).text == "ours 1\n"


@pytest.mark.parametrize(
    ("n", "status"), [("1", 200), ("0", 400), ("10001", 400), ("x", 400), ("²", 400), ("1&n=2", 400)]
)
async def test_so_many_traces_are_shown(n: str, status: int) -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        await ask(http, "test.say")
        await ask(http, "test.fail")
        said = await http.get(f"/trace/recent?n={n}")
    assert said.status_code == status
    if status == 200:
        assert [(each["capability"], each["result"]) for each in said.json()["traces"]] == [
            ("test.fail", "internal_error")
        ]


@pytest.mark.requirement("hearthnet.telemetry")
async def test_which_tools_a_model_was_offered_picked_and_failed_with_and_how_long_they_took_is_shown(
    tmp_path: Path,
) -> None:
    """A run is made, and the endpoint tells what the journal has of it, as it does on a node."""

    clock = FixedClock()

    async def add(a: int, b: int) -> int:
        clock.advance(0.25)
        return a + b

    async def fail() -> None:
        raise ValueError("kaput")

    path = tmp_path / "journal.db"
    asked = [call("add", a=1, b=2), call("add", a=3, b="four"), call("fail"), call("gone")]
    async with (
        await SqliteJournal.open(path) as journal,
        Executor([add, fail], journal=journal, policy=Policy(concurrency=1), clock=clock) as executor,
    ):
        await Runner(ScriptedModel(asked, [text("Done.")]), executor).run(Conversation().say("Add."))
        scene = NodeFixture(telemetry=lambda: telemetry_of(path))
        async with serving(scene) as url, client(url, scene.token) as http:
            told = {each.pop("tool"): each for each in (await http.get("/telemetry")).json()["tools"]}

    counts = {name: (each["offered"], each["picked"], each["failed"]) for name, each in told.items()}
    assert counts == {
        "add": (2, 2, {"invalid_arguments": 1}),
        "fail": (2, 1, {"failed": 1}),
        "gone": (0, 1, {"unknown_tool": 1}),
    }
    assert [told["add"][each] for each in ("p50_us", "p95_us", "total_us")] == [250_000] * 3


# ── its description ────────────────────────────────────────────────────────────────────


async def test_every_endpoint_is_described() -> None:
    async def gateway(request: object) -> None: ...

    scene = NodeFixture(
        telemetry=list,
        gateways=[Route("/v1/chat/completions", gateway, methods=["POST"])],
        described={"/v1/chat/completions": {"post": {}}},
    )
    async with serving(scene) as url, client(url, scene.token) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    routes = {route.path for route in build_app(scene.server).routes if isinstance(route, Route)}
    assert paths.keys() == routes


async def test_every_code_of_the_wire_is_described() -> None:
    scene = NodeFixture()
    async with serving(scene) as url, client(url, scene.token) as http:
        said = (await http.get("/openapi.json")).json()
    responses = said["paths"]["/bus/v1/call"]["post"]["responses"]
    assert {str(wire.http) for wire in WIRE.values()} <= responses.keys()


SETTINGS = """
# Whether a call is good is said by the schema of its capability; OpenAPI cannot say that of one path for all of them.
[[operations]]
include-path = "/bus/v1/call"
checks.positive_data_acceptance.enabled = false
"""


async def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    scene = NodeFixture(telemetry=list)
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    async with serving(scene) as url, client(url, scene.token) as http:
        described = (await http.get("/openapi.json")).json()
        (tmp_path / "openapi.json").write_text(json.dumps(described))
        tester = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("schemathesis")), "run", "openapi.json", "--url", url),
            *("-H", f"Authorization: Bearer {scene.token}", "--seed", "1", "-n", "10"),
            *("--phases", "examples,coverage,fuzzing", "--no-color"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await tester.communicate()
    assert tester.returncode == 0, said.decode()
    assert f"Tested: {len(described['paths'])}" in said.decode()
