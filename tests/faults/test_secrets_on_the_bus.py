"""Secrets in keys, tokens and arguments on a whole node, by every door: none shows where it need not be.

42 secrets. What a key looks like is known (`sk-…`, `hntoken://…`); a password is a secret because its type says so,
and looks like any word. Both are planted here, and everything that the node says, logs, keeps and exports is searched.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import nats
import pytest
from nats.aio.msg import Msg
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from handrail import tool
from handrail.app.network_node import NetworkNode
from handrail.app.node_state import KEY
from handrail.core.errors import BusError, ToolError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import NOBODY, RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.http.bus import HttpBus
from handrail.node.nats.bus import NatsBus
from handrail.node.tokens.identity import Identity, to_base64
from handrail.node.tokens.token import parse_token
from handrail.telemetry import OtelTracer
from handrail.testing.journal import MemoryJournal
from tests.app.test_network_node import CONFIG, lent, opened, served
from tests.cli.journal_fixtures import run
from tests.node.nats.nats_fixtures import CALM, nats_server

WORD = "opensesame7canary"
"""A password: it looks like nothing."""
SHAPED = f"ghp_{'Canary7' * 6}"
"""A key that somebody wrote where none belongs."""
LINE = "nats7canary"
"""The password of the NATS server."""
SEEN = "waterfall"
"""No secret: what should show shows."""
TOOL = """
[ensemble]
name = "doors"
[[invokers]]
name = "log_in"
description = "Log in."
python = "doors:log_in"
"""
CODE = """
from handrail import ToolError
from handrail.core.redact import Secret

def log_in(user: str, password: Secret, note: str = "") -> str:
    if user == "crash":
        raise RuntimeError(f"{user} cannot log in with {note}")
    if user == "fail":
        raise ToolError("NO_ENTRY", f"{note} is wrong")
    return f"welcome, {user}"
"""
USERS = ("waterfall", "fail", "crash")
REPLIES = (
    "\n".join(
        f'[[reply]]\ncalls = [{{ name = "log_in", arguments = {json.dumps(given).replace(": ", " = ")} }}]'
        for given in (
            *({"user": user, "password": WORD, "note": SHAPED} for user in USERS),
            {"user": 1, "password": WORD, "note": SHAPED},
        )
    )
    .replace('"user"', "user")
    .replace('"password"', "password")
    .replace('"note"', "note")
)
MESSAGES = [{"role": "user", "content": f"I am {SEEN} and my key is {SHAPED}."}]
LOOKS = ("/trace/recent", "/metrics", "/capabilities", "/manifest", "/telemetry", "/openapi.json")


def bodies() -> list[dict[str, Any]]:
    """Good, failing, crashing, and wrong in every part."""
    good = [{"user": user, "password": WORD, "note": SHAPED} for user in USERS]
    odd = [{"user": 1, "password": WORD}, {"user": "x", "password": [WORD]}, {"password": WORD, SHAPED: SHAPED}]
    return [{"input": each} for each in (*good, *odd)]


class Heard:
    """Everything that anybody was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def of(self, bus: Bus, *, stream: bool = False) -> None:
        for body in bodies():
            try:
                if stream:
                    async with bus.stream("doors.log_in", (1, 0), body) as frames:
                        self.said += [str(frame.data) async for frame in frames]
                else:
                    self.said.append(str(await bus.call("doors.log_in", (1, 0), body, timeout_seconds=20)))
            except BusError as error:
                self.said.append(f"{error} {error!r} {error.to_dict()} {error.details}")

    async def at(self, http: aiohttp.ClientSession, method: str, path: str, **how: Any) -> None:
        async with http.request(method, path, **how) as answer:
            self.said.append(f"{answer.status} {dict(answer.headers)} {await answer.text()}")


async def watch(request: RouteRequest) -> dict[str, Any]:
    """Streams, and fails as `log_in` does."""
    await request.send("seen", {"user": request.input["user"]})
    if request.input["user"] == "fail":
        raise BusError("bad_request", f"{request.input['note']} is wrong")
    if request.input["user"] == "crash":
        raise RuntimeError(f"{request.input['password']} {request.input['note']}")
    return {"output": {}}


WATCH = CapabilityDescriptor(
    name="doors.watch",
    request_schema={
        "properties": {
            "input": {
                "properties": {"user": {"type": "string"}, "password": {"type": "string", "writeOnly": True}},
                "required": ["user"],
            }
        }
    },
    stream_schema={"seen": {"type": "object"}},
)


async def by_socket(url: str, token: str, heard: Heard) -> None:
    """Calls whose token stands in their envelope."""
    at = url.replace("http", "ws") + "/bus/v1/call"
    quiet = logging.Logger("a client's own log is its own affair")
    for body in bodies():
        envelope = {"capability": WATCH.name, "version": "1.0", "token": token, "body": body}
        async with connect(at, subprotocols=[Subprotocol("hearthnet-bus.v2")], logger=quiet) as socket:
            await socket.send(json.dumps({"type": "call", "envelope": envelope}))
            async for message in socket:
                heard.said.append(str(message))
                if json.loads(message)["event"] in ("done", "error"):
                    break


async def by_gateways(http: aiohttp.ClientSession, heard: Heard) -> None:
    for stream in (False, True):
        said = {"model": "scripted", "messages": MESSAGES, "stream": stream, "max_tokens": 50}
        await heard.at(http, "POST", "/v1/chat/completions", json=said)
        await heard.at(http, "POST", "/v1/messages", json=said)


@asynccontextmanager
async def a_node(folder: Path) -> AsyncIterator[tuple[NetworkNode, str]]:
    config = CONFIG.replace("ensembles = []", 'ensembles = ["doors.toml"]') + '[node]\nnats = "${NATS_CANARY}"\n'
    replies = f'{REPLIES}\n[[reply]]\ntext = "Done."\n'
    written = {"handrail.toml": config, "doors.toml": TOOL, "doors.py": CODE, "replies.toml": replies}
    for name, text in written.items():
        (folder / name).write_text(text)
    async with opened(folder) as node, served(node) as url, node.door():
        yield node, url


async def test_case_42_a_secret_is_in_nothing_that_a_node_says_logs_keeps_or_exports(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    with nats_server("--user", "node", "--pass", LINE) as server:
        line = server.url.replace("://", f"://node:{LINE}@")
        monkeypatch.setenv("NATS_CANARY", line)
        async with a_node(tmp_path) as (node, url):
            token = lent(node, "*")
            node.bus.register(WATCH, watch)
            async with aiohttp.ClientSession(url, headers={"authorization": f"Bearer {token}"}) as http:
                for transport in ("sse", "websocket"):
                    with_token = HttpBus(url, token=token, transport=transport)
                    await heard.of(with_token, stream=True)
                    await with_token.aclose()
                await heard.of(with_token := HttpBus(url, token=token))
                await with_token.aclose()
                async with NatsBus(line, community="home", token=token, pace=CALM) as bus:
                    await heard.of(bus)
                await by_socket(url, token, heard)
                await by_gateways(http, heard)
                await heard.at(http, "POST", f"/bus/v1/call?token={token}&key={SHAPED}", json={})
                for path in LOOKS:
                    await heard.at(http, "GET", path)
            command = ("bus", "call", "doors.log_in", "--at", url, "--body", "-")
            for body in bodies()[:4]:
                asked = await asyncio.to_thread(run, *command, text=json.dumps(body), env={"HANDRAIL_TOKEN": token})
                heard.said.append(asked.output)
    written = capfd.readouterr()
    journal = tmp_path / ".handrail" / "journal.db"
    exported = await asyncio.to_thread(_exported, journal, tmp_path / "bundles")
    kept = [each.read_bytes().decode(errors="replace") for each in _files(journal.parent) if each.name != KEY]
    seed = to_base64(Identity.load(journal.parent / KEY).seed)

    assert all(any(SEEN in text for text in texts) for texts in (heard.said, kept, exported)), "they can be read"
    for text in (*heard.said, caplog.text, written.out, written.err, *kept, *exported):
        for secret in (WORD, SHAPED, LINE, seed, str(token).rpartition(".")[2]):
            assert secret not in text, f"{secret} in: {text[max(0, text.index(secret) - 300) :][:700]}"


def _exported(journal: Path, folder: Path) -> list[str]:
    """The proof bundle of every run, what it looks like, and the run told again."""
    at = ("--journal", str(journal))
    found: list[str] = []
    for number, line in enumerate(run("proof", "list", "--json", *at).stdout.splitlines()):
        id = json.loads(line)["run"]
        found += [run(*words, id, *at).output for words in (("proof", "show"), ("replay",))]
        run("proof", "export", id, str(folder / str(number)), *at)
    return found + [each.read_text(errors="replace") for each in _files(folder)]


def _files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


async def spans_of(*, content: bool, words: str) -> list[str]:
    """What is traced of calls of a tool that, where it fails, says these words of its secrets."""

    @tool
    async def log_in(user: str, password: Secret, note: str = "") -> str:
        """Log in."""
        if user == "fail":
            raise ToolError("NO_ENTRY", words.format(password=password, note=note))
        if user == "crash":
            raise RuntimeError(words.format(password=password, note=note))
        return f"{user} came with {note}"

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    async with CapabilityBus(tracer=OtelTracer(provider, content=content)) as bus:
        bus.register_tool(log_in, name="doors.log_in")
        await Heard().of(bus)
    return [span.to_json() for span in kept.get_finished_spans()]


async def test_case_42_without_content_a_span_holds_nothing_that_was_said() -> None:
    spans = await spans_of(content=False, words="{password} {note}")

    assert len(spans) >= 3
    assert not [each for each in spans if WORD in each or SHAPED in each or SEEN in each]


async def test_case_42_with_content_a_span_holds_no_secret() -> None:
    spans = await spans_of(content=True, words="{note}")

    assert any(SEEN in each for each in spans)
    assert not [each for each in spans if WORD in each or SHAPED in each]


async def test_case_42_what_a_failing_tool_says_of_its_password_is_not_recorded() -> None:
    @tool
    async def log_in(user: str, password: Secret, note: str = "") -> str:
        """Log in."""
        raise RuntimeError(f"{password} is wrong")

    journal = MemoryJournal()
    async with CapabilityBus(journal=journal) as bus:
        bus.register_tool(log_in, name="doors.log_in")
        await Heard().of(bus)

    assert journal.events
    assert WORD not in repr(journal.events)


async def test_case_42_the_token_of_a_caller_is_not_heard_by_those_who_listen_on_nats(
    tmp_path: Path,
) -> None:
    """Whoever is let onto the NATS server hears every call, and can offer what others call."""
    heard: list[bytes] = []

    async def listen(message: Msg) -> None:
        heard.append(message.data)

    async def who(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"id": request.caller.id}}

    (tmp_path / "other").mkdir()
    kitchens = Identity.create(tmp_path / "other" / ".handrail" / "identity.key").node_id
    with nats_server() as server:
        settings = f'[node]\nnats = "{server.url}"\n'
        (tmp_path / "handrail.toml").write_text(f'{settings}[node.trust]\n"{kitchens}" = "member"\n')
        (tmp_path / "other" / "handrail.toml").write_text(settings)
        spy = await nats.connect(server.url)
        await spy.subscribe(">", cb=listen)
        async with opened(tmp_path) as attic, attic.door() as door:
            attic.bus.register(CapabilityDescriptor(name="doors.who"), who)
            await door.refresh()
            async with opened(tmp_path / "other") as kitchen:
                token = lent(kitchen, "doors.*")
                answer = await kitchen.bus.call("doors.who", (1, 0), {}, caller=NOBODY, token=token)
        await spy.flush()
        await spy.close()

    assert answer["output"]["id"] == f"{kitchens}#{parse_token(token).id}", (
        "it is the kitchen's caller, not the kitchen"
    )
    assert any(b"doors.who" in each and b"hntoken" in each for each in heard), "a token that only the kitchen can use"
    assert not [each for each in heard if token.rpartition(".")[2].encode() in each]
