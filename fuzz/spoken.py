"""A server that talks nonsense to a client that is in the middle of a call.

The law: the call has an answer or an error of ours, soon; and while the connection is not over, the next call works.
"""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any

from hypothesis import strategies as st
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from fuzz.law import Target
from fuzz.mutate import cuts, data, pieces_of, values
from fuzz.servers import BACKWARDS, BODIES, LONG, QUESTIONS, RESULT, SAMPLES, TOKENS
from handrail.core.confirmation import Confirmation, Decision, Deny
from handrail.core.errors import McpError, ToolError
from handrail.mcp.client.callbacks import callbacks
from handrail.mcp.client.failures import McpConnectionLost, translate_error
from handrail.mcp.client.inbox import McpInbox
from handrail.mcp.client.server_questions import ApproverQuestionHandler
from handrail.mcp.client.stdio_transport import _ServerProgram
from handrail.mcp.values import McpBounds

SECONDS = 20.0
"""For one answer, on a machine that does other things too."""
SPOKEN = 3000
"""Bytes of a message."""
CALL = b"424242"
"""What is the id of the call, in nonsense."""
GREETINGS: dict[str, dict[str, Any]] = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"},
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "x", "version": "1"},
    },
}


class _Refuses:
    async def decide(self, confirmation: Confirmation) -> Decision:
        return Deny(by="ada")


class _Wire:
    """A transport to a server that greets, says its nonsense when it is called first, and then answers."""

    def __init__(self, era: str, nonsense: list[bytes]) -> None:
        self.inbox = McpInbox(lambda what: None)
        self._program = _ServerProgram(McpBounds(message=SPOKEN), self.inbox, lambda: None)
        self._era = era
        self._nonsense = nonsense
        self.over = False

    def _say(self, id: Any, **answer: Any) -> None:
        self._hear(json.dumps({"jsonrpc": "2.0", "id": id, **answer}).encode() + b"\n")

    def _hear(self, chunk: bytes) -> None:
        self._program.pipe_data_received(1, chunk)

    async def send(self, item: SessionMessage, /) -> None:
        match item.message:
            case JSONRPCRequest(id=id, method="tools/call"):
                said, self._nonsense = self._nonsense, []
                for chunk in said:
                    self._hear(chunk.replace(CALL, json.dumps(id).encode()))
                self._hear(b"\n")
                self.over = self._program._deaf
                self._say(id, result={"content": RESULT["content"][:1], "resultType": "complete"})
            case JSONRPCRequest(id=id, method=method):
                known = (method == "initialize") != (self._era == "modern") and method in GREETINGS
                self._say(
                    id, **({"result": GREETINGS[method]} if known else {"error": {"code": -32601, "message": "no"}})
                )

    async def aclose(self) -> None:
        """Nothing is held."""

    async def __aenter__(self) -> Any:
        return self._program.incoming, self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.incoming.end()


async def _called(client: Client, wire: _Wire) -> Any:
    try:
        async with asyncio.timeout(SECONDS):
            return await client.call_tool("x", {})
    except TimeoutError:
        raise AssertionError("a call is answered with nothing at all") from None
    except Exception as error:
        raised = translate_error("srv", error, over=wire.inbox.over)
        assert isinstance(raised, McpError | ToolError | McpConnectionLost), f"an error of nobody: {raised!r}"
        return raised


async def _conversation(era: str, nonsense: list[bytes]) -> None:
    wire = _Wire(era, nonsense)
    asked = callbacks(ApproverQuestionHandler(_Refuses()), "srv")
    async with Client(wire, mode="auto", cache=None, **asked) as client:
        wire.inbox.modern = era == "modern"

        async def nothing(name: str, result: Any) -> None: ...

        client.session.validate_tool_result = nothing  # type: ignore[method-assign]
        await _called(client, wire)
        if not wire.over:
            again = await _called(client, wire)
            assert not isinstance(again, Exception), f"the next call pays for what was said before: {again!r}"


def _law(value: tuple[str, bytes, list[int]]) -> None:
    era, stream, places = value
    asyncio.run(_conversation(era, pieces_of(stream, places)))


_ID = int(CALL)
_ROUND = {
    "resultType": "input_required",
    "inputRequests": {
        "a": {"method": "elicitation/create", "params": QUESTIONS[0]},
        "b": {"method": "sampling/createMessage", "params": SAMPLES[0]},
        "c": {"method": "roots/list"},
    },
    "requestState": "x",
}
_TASK = {"resultType": "task", "task": {"taskId": "1", "status": "working", "pollInterval": 1, "ttl": None}}
_RESULTS: tuple[dict[str, Any], ...] = (RESULT, _ROUND, _TASK, {"content": []})
ANSWERS: list[list[Any]] = [[{"jsonrpc": "2.0", "id": _ID, "result": result}] for result in _RESULTS]
ASKED: list[list[Any]] = [
    [{"jsonrpc": "2.0", "id": n, "method": method, "params": params}]
    for n, (method, params) in enumerate(
        (("elicitation/create", QUESTIONS[0]), ("sampling/createMessage", SAMPLES[0]), ("ping", {}), ("roots/list", {}))
    )
]
TOLD: list[list[Any]] = [
    [{"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}]
    for method, params in (
        ("progress", {"progressToken": _ID, "progress": 1, "total": 2, "message": "x"}),
        ("cancelled", {"requestId": _ID}),
        ("message", {"level": "info", "data": "x"}),
        ("subscriptions/acknowledged", {"notifications": {}}),
    )
]
REFUSED: list[list[Any]] = [[{"jsonrpc": "2.0", "id": _ID, "error": {"code": -32602, "message": "no", "data": {}}}]]


def _written(messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


_SEEDS = [*ANSWERS, *ASKED, *TOLD, *REFUSED]
_SAID = values(_SEEDS).map(_written) | data([*map(_written, _SEEDS), *BODIES, LONG, BACKWARDS], (*TOKENS, CALL))
TARGETS = (Target("mcp-spoken", st.tuples(st.sampled_from(("modern", "legacy")), _SAID, cuts(3000)), _law, cost=4),)
