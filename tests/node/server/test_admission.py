"""What stands before the routes of a node, and how it ends: nobody keeps it from others or from its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import sys
from pathlib import Path

import pytest

from handrail.core.errors import UsageError
from handrail.node.server.node import ServerLimits
from handrail.node.server.serving import serve
from tests.node.server.http_node import (
    CALL,
    NodeFixture,
    ask,
    call_headers,
    client,
    events,
    eventually,
    open_connection,
    serving,
)

ROOT = Path(__file__).resolve().parents[3]


async def test_without_tokens_it_is_for_this_machine_only() -> None:
    with pytest.raises(UsageError, match=r"bind 127\.0\.0\.1"):
        await serve(NodeFixture(token_required=False).server, host="0.0.0.0")


async def test_pages_of_a_named_origin_may_use_it_and_no_others() -> None:
    scene = NodeFixture(origins=("https://app.example",))
    preflight = {"origin": "https://app.example", "access-control-request-method": "POST"}
    asked = {"access-control-request-headers": "authorization,x-hearthnet-capability,x-hearthnet-within"}
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await http.request("OPTIONS", CALL, headers={**preflight, **asked})
        assert (said.status_code, said.headers["access-control-allow-origin"]) == (200, "https://app.example")
        called = await http.post(CALL, json={}, headers={**call_headers("test.say"), "origin": "https://app.example"})
        assert called.headers["access-control-allow-origin"] == "https://app.example"
        other = await http.post(CALL, json={}, headers={**call_headers("test.say"), "origin": "https://evil.example"})
    assert (other.status_code, other.json()["error"]) == (403, "unauthorized")
    assert "set-cookie" not in {**said.headers, **called.headers}
    assert scene.works.runs == 1


async def test_a_request_that_is_too_large_is_refused() -> None:
    scene = NodeFixture(limits=ServerLimits(body=1_000, grace=0.2))
    async with serving(scene) as url, client(url, scene.token) as http:
        said = await ask(http, "test.say", {"text": "x" * 1_000})
        assert (said.status_code, said.json()["error"]) == (413, "bad_request")
        assert (await ask(http, "test.say")).status_code == 200


async def test_as_many_files_may_be_open_as_connections_are_promised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        async with serving(NodeFixture(limits=ServerLimits(connections=100, grace=0.2))):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (2 * 100 + 256, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# ── its end ────────────────────────────────────────────────────────────────────────────


async def test_while_it_ends_calls_may_end_and_no_others_begin() -> None:
    scene = NodeFixture(limits=ServerLimits(grace=5))
    async with serving(scene) as url, client(url, scene.token) as http:
        under_way = asyncio.create_task(ask(http, "test.hang"))
        await scene.works.started.wait()
        draining = asyncio.create_task(scene.server.life.drain(5))
        await asyncio.sleep(0)
        ready, late = await http.get("/ready"), await ask(http, "test.say")
        health = await http.get("/health")
        scene.works.go_on.set()
        answer = await under_way
        await draining
    assert (ready.status_code, late.status_code, health.status_code) == (503, 503, 200)
    assert (late.json()["error"], late.json()["retry_after_ms"], late.headers["retry-after"]) == (
        "partition",
        1_000,
        "1",
    )
    assert (answer.status_code, answer.json()["output"]) == (200, {"done": True})


async def test_a_request_that_was_begun_before_and_is_all_there_only_then_begins_no_call() -> None:
    scene = NodeFixture(limits=ServerLimits(grace=5))
    head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    head += f"Authorization: Bearer {scene.token}\r\nX-HearthNet-Capability: test.say\r\n"
    async with serving(scene) as url:
        reader, writer = await open_connection(url)
        writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")  # it is being read
        draining = asyncio.create_task(scene.server.life.drain(5))
        await asyncio.sleep(0)
        writer.write(b"{}")
        answer = await reader.readuntil(b"\r\n\r\n")
        await draining
        writer.close()
    assert answer.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in answer
    assert scene.works.runs == 0


async def test_a_call_that_nobody_listens_to_has_ended_when_the_node_has() -> None:
    scene = NodeFixture(limits=ServerLimits(linger=60, grace=0.1))
    async with serving(scene) as url, client(url, scene.token) as http:
        headers = {**call_headers("test.count"), "accept": "text/event-stream"}
        asked = {"input": {"to": 3, "stop_at": 1}}
        async with http.stream("POST", CALL, json=asked, headers=headers) as response:
            assert await anext(response.aiter_lines()) == "event: item"
        await scene.server.life.drain(0.1)
        assert (scene.works.cancelled.is_set(), scene.server.life.under_way, scene.bus.under_way) == (True, 0, 0)


async def test_before_it_is_up_it_is_not_ready() -> None:
    from starlette.testclient import TestClient

    from handrail.node.server.app import build_app

    scene = NodeFixture(hosts=("testserver",))
    assert TestClient(build_app(scene.server)).get("/ready").status_code == 503


@pytest.mark.parametrize(("name", "outcome"), [("test.hang", "cancelled"), ("test.pay", "in_doubt")])
async def test_calls_that_do_not_end_in_time_are_cancelled_and_told_so(name: str, outcome: str) -> None:
    scene = NodeFixture(limits=ServerLimits(grace=0.1))
    async with serving(scene) as url, client(url, scene.token) as http:
        whole = asyncio.create_task(ask(http, name))
        headers = {**call_headers("test.count"), "accept": "text/event-stream"}
        stream = asyncio.create_task(http.post(CALL, json={"input": {"to": 3, "stop_at": 2}}, headers=headers))
        await eventually(lambda: scene.works.runs == 2)
        await scene.server.life.drain(0.1)
        answer, frames = await whole, events((await stream).text)
    assert (answer.status_code, answer.json()["error"], answer.json()["outcome"]) == (499, "cancelled", outcome)
    assert [each["event"] for each in frames] == ["item", "item", "error"]
    assert json.loads(frames[-1]["data"])["error"] == "cancelled"


PROGRAM = """
import asyncio, sys
from tests.node.server.http_node import NodeFixture
from handrail.node.server.node import ServerLimits
from handrail.node.server.serving import serve

async def main() -> None:
    scene = NodeFixture(limits=ServerLimits(grace=0.3))
    say = lambda url: print(url, scene.token, flush=True)
    await serve(scene.server, ready=say)

asyncio.run(main())
"""


async def test_a_process_that_is_told_to_end_answers_first_and_exits_with_0() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM), cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            url, token = (await process.stdout.readline()).decode().split()
            async with client(url, token) as http:
                headers = {**call_headers("test.count"), "accept": "text/event-stream"}
                asked = {"input": {"to": 3, "stop_at": 1}}
                async with http.stream("POST", CALL, json=asked, headers=headers) as response:
                    lines = response.aiter_lines()
                    assert await anext(lines) == "event: item"
                    process.send_signal(signal.SIGTERM)
                    rest = [line async for line in lines]
            assert [line for line in rest if line.startswith("event")] == ["event: error"]
            _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()


async def test_nothing_is_left_when_it_has_ended() -> None:
    before = asyncio.all_tasks()
    scene = NodeFixture(limits=ServerLimits(linger=0, grace=0.1))
    async with serving(scene) as url, client(url, scene.token) as http:
        asking = asyncio.create_task(ask(http, "test.hang"))
        await scene.works.started.wait()
        reader, writer = await open_connection(url)
    with contextlib.suppress(Exception):
        await asking
    assert await reader.read() == b""
    writer.close()
    assert asyncio.all_tasks() == before
