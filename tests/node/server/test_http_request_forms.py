"""The many forms that a request may have in HTTP/1: what is meant is done or refused, and never anything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.node.server.http_node import CALL, NodeFixture, open_connection, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")
HEALTH = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
END = "Connection: close\r\n\r\n"
POST = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
POST += "Content-Type: application/json\r\nX-HearthNet-Capability: test.say\r\n"
TWO = "Content-Length: 2\r\n\r\n{}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node() -> AsyncIterator[tuple[NodeFixture, str]]:
    scene = NodeFixture()
    async with serving(scene) as url:
        yield scene, url


async def statuses(url: str, said: str) -> list[int]:
    """What is answered to these bytes, until the connection is closed."""
    reader, writer = await open_connection(url)
    writer.write(said.encode("latin-1"))
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return [int(part.split()[0]) for part in answer.split(b"HTTP/1.1 ")[1:]]


TOKEN = "Authorization: Bearer TOKEN\r\n"
FORMS: dict[str, tuple[str, list[int]]] = {
    "1.0": (f"GET /health HTTP/1.0\r\nHost: localhost\r\n{END}", [200]),
    "1.0 that names nobody": (f"GET /health HTTP/1.0\r\n{END}", [421]),
    "1.1 that names nobody": (f"GET /health HTTP/1.1\r\n{END}", [400]),
    "two names": (f"{HEALTH}Host: localhost\r\n{END}", [400]),
    "two origins": (f"{HEALTH}Origin: http://localhost\r\nOrigin: http://localhost\r\n{END}", [403]),
    "an empty origin": (f"{HEALTH}Origin:\r\n{END}", [403]),
    "an origin in capitals": (f"{HEALTH}Origin: HTTP://LOCALHOST:80\r\n{END}", [200]),
    "an origin with a login": (f"{HEALTH}Origin: http://localhost:80@evil.example\r\n{END}", [403]),
    "an origin with a port that is none": (f"{HEALTH}Origin: http://localhost:x\r\n{END}", [403]),
    "a name with a dot too many": (f"GET /health HTTP/1.1\r\nHost: localhost.\r\n{END}", [421]),
    "two at once": (f"{HEALTH}\r\n{HEALTH}{END}", [200, 200]),
    "chunks": (f"POST {CALL} {POST}{TOKEN}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n", [200]),
    "word of a body that is to come": (f"POST {CALL} {POST}{TOKEN}Expect: 100-continue\r\n{TWO}", [200]),
    "two lengths": (f"POST {CALL} {POST}{TOKEN}Content-Length: 3\r\n{TWO}", [400]),
    "a whole address": (f"POST http://localhost{CALL} {POST}{TOKEN}{TWO}", [404]),
    "two slashes": (f"POST /{CALL} {POST}{TOKEN}{TWO}", [404]),
    "a slash too many": (f"POST {CALL}/ {POST}{TOKEN}{TWO}", [404]),
    "a path that goes up": (f"POST /x/..{CALL} {POST}{TOKEN}{TWO}", [404]),
    "percent signs": (f"POST /bus/v1/%63all {POST}{TOKEN}{TWO}", [200]),
    "percent signs and no token": (f"POST /bus/v1/%63all {POST}{TWO}", [401]),
    "two tokens": (f"POST {CALL} {POST}{TOKEN}{TOKEN}{TWO}", [400]),
    "two capabilities": (f"POST {CALL} {POST}{TOKEN}X-HearthNet-Capability: test.write\r\n{TWO}", [400]),
    "an upgrade to something else": (f"{HEALTH}Connection: upgrade\r\nUpgrade: h2c\r\n{END}", [200]),
}


@pytest.mark.parametrize(("said", "expected"), FORMS.values(), ids=list(FORMS))
async def test_it_is_answered_once_and_like_this(node: tuple[NodeFixture, str], said: str, expected: list[int]) -> None:
    scene, url = node
    before = scene.works.runs
    found = await statuses(url, said.replace("TOKEN", str(scene.token)))
    assert [status for status in found if status != 100] == expected
    assert scene.works.runs - before == (said.startswith("POST") and expected == [200])
