"""What MCP servers send: lines, bodies and streams, listings, results, questions.

The laws: how the bytes are cut tells in nothing; what can be given up costs one request,
and an error of ours; and after everything a server may say, the host still stands.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
import mcp_types
import msgspec
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

from fuzz.law import Target, outcome
from fuzz.mutate import cuts, data, pieces_of, values
from handrail.core.calls import Output
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny, Edit
from handrail.core.errors import McpError, ToolError, UsageError
from handrail.core.messages import AssistantMessage, UserMessage
from handrail.mcp.client import resources
from handrail.mcp.client.callbacks import callbacks
from handrail.mcp.client.content import output_of
from handrail.mcp.client.failures import TransportFault
from handrail.mcp.client.inbox import McpInbox
from handrail.mcp.client.line_cutter import EndlessLine, McpLineCutter, OverlongLine
from handrail.mcp.client.server_questions import ApproverQuestionHandler
from handrail.mcp.client.sse import BoundedEventStream
from handrail.mcp.client.tool_listing import McpToolTerms, build_catalogue, read_tools
from handrail.mcp.client.wire import UnreadableLine, mend_message, read_message, refusal_of
from handrail.mcp.values import McpBounds
from handrail.testing.model import ScriptedModel, text as said
from handrail.tools.tool import Tool

LIMIT = 600
"""Bytes of a message, so that some are too long."""
BOUNDS = McpBounds(tools=6, pages=4)
RESULT: dict[str, Any] = {
    "resultType": "complete",
    "content": [
        {"type": "text", "text": "Grüße"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "x", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGk="}},
    ],
    "structuredContent": {"a": [1, 2.5, None]},
    "isError": False,
}
MESSAGES: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 7, "result": RESULT},
    {"jsonrpc": "2.0", "id": "a", "result": {"tools": []}},
    {"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "no", "data": {"x": 1}}},
    {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///a"}},
    {"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": {"message": "who?"}},
]
BODIES = [json.dumps(message).encode() for message in MESSAGES]
LONG = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"text": "x" * 700}}).encode()
BACKWARDS = json.dumps({"result": {"text": "x" * 700}, "jsonrpc": "2.0", "id": 9}).encode()
TOKENS = (b'"id":7', b'{"id":', b"\\ud83d", b"\xff", b"data:", b"event: message\n", b"id: 1\n", b"\r\r", b"[" * 200)


# ── bytes ────────────────────────────────────────────────────────────────────────────


def _heard(chunks: Sequence[bytes]) -> list[Any]:
    """What comes of the bytes of a program, as `Pipes` reads them."""
    lines, found = McpLineCutter(LIMIT), list[Any]()
    try:
        for chunk in chunks:
            for line in lines.feed(chunk):
                found.append(_message(line))
    except (EndlessLine, UnreadableLine) as error:
        found.append(type(error).__name__)
    return found


def _message(line: bytes | OverlongLine) -> Any:
    if isinstance(line, OverlongLine):
        return _checked(refusal_of(line, LIMIT))
    try:
        return _checked(read_message(line))
    except UnreadableLine:
        return None


def _checked(message: Any) -> Any:
    """A message that the SDK can take, as plain data."""
    match message:
        case None:
            return None
        case JSONRPCError(id=id, error=error):
            assert id is None or isinstance(id, int | str)
            assert isinstance(error.code, int) and isinstance(error.message, str)
            return id, error.message
        case JSONRPCResponse(id=id, result=result):
            assert isinstance(id, int | str) and not isinstance(id, bool) and isinstance(result, dict)
            return id, msgspec.json.encode(result)
        case JSONRPCRequest() | JSONRPCNotification():
            assert isinstance(message.method, str) and isinstance(message.params, dict | None)
            return message.method, message.params
    raise AssertionError(f"no message: {message!r}")


def _lines(value: tuple[bytes, list[int]]) -> None:
    stream, places = value
    assert _heard(pieces_of(stream, places)) == _heard([stream]), "how bytes are cut tells in what comes of them"


def _inbox(message: Any) -> None:
    """Only what is a message to the SDK comes here; what the inbox makes of it stays one."""
    told: list[str] = []
    inbox = McpInbox(told.append)
    for inbox.modern in (False, True):
        parsed = outcome(lambda: mcp_types.jsonrpc_message_adapter.validate_python(message), ValidationError)
        if not isinstance(parsed, tuple):
            _checked(inbox.take(parsed))
    assert all(isinstance(what, str) for what in told)


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


async def _passed(chunks: Sequence[bytes]) -> bytes:
    events = BoundedEventStream(_Stream(chunks), LIMIT, lambda fault: json.dumps({"why": fault.why}).encode())
    return b"".join([event async for event in events])


def _sse(value: tuple[bytes, list[int]]) -> None:
    stream, places = value
    whole = asyncio.run(_passed([stream]))
    assert asyncio.run(_passed(pieces_of(stream, places))) == whole, "how a stream is cut tells in what is passed on"


def _body(body: bytes) -> None:
    read = outcome(lambda: mend_message(body), UnreadableLine)
    if isinstance(read, bytes):
        _checked(read_message(read))
    else:
        assert isinstance(read, TransportFault | tuple)


# ── listings ─────────────────────────────────────────────────────────────────────────

TOOLS: list[dict[str, Any]] = [
    {
        "name": "read",
        "title": "Read",
        "description": "Read a file.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string", "pattern": "^[a-z]+$"}, "n": {"type": "integer", "minimum": 1}},
            "required": ["path"],
        },
        "outputSchema": {"type": "object", "properties": {"text": {"$ref": "#/$defs/t"}}, "$defs": {"t": {}}},
        "annotations": {"readOnlyHint": True, "openWorldHint": False, "title": "R"},
    },
    {"name": "rеad", "inputSchema": {"$ref": "http://127.0.0.1:1/x.json"}},
    {"name": "write", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
]
LISTS: list[dict[str, Any]] = [
    {"tools": TOOLS},
    {"tools": TOOLS[:1], "nextCursor": "1", "ttlMs": 5},
    {"tools": TOOLS[2:], "nextCursor": "1"},
    {"tools": [], "nextCursor": "2"},
]


class _Lister:
    """Answers like the SDK's client does: with its types, or with its errors."""

    server_capabilities = mcp_types.ServerCapabilities(
        tools=mcp_types.ToolsCapability(),
        resources=mcp_types.ResourcesCapability(),
        prompts=mcp_types.PromptsCapability(),
    )

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers) or [{}]

    def _next(self, kind: Any) -> Any:
        return kind.model_validate(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])

    async def list_tools(self, **_: Any) -> Any:
        return self._next(mcp_types.ListToolsResult)

    async def list_resources(self, **_: Any) -> Any:
        return self._next(mcp_types.ListResourcesResult)

    async def list_resource_templates(self, **_: Any) -> Any:
        return self._next(mcp_types.ListResourceTemplatesResult)

    async def list_prompts(self, **_: Any) -> Any:
        return self._next(mcp_types.ListPromptsResult)

    async def read_resource(self, uri: str, **_: Any) -> Any:
        return self._next(mcp_types.ReadResourceResult)

    async def get_prompt(self, name: str, arguments: Any) -> Any:
        return self._next(mcp_types.GetPromptResult)


def _asked(work: Callable[[Any], Any], *answers: Any) -> Any:
    """What is read, or None where the SDK or we refuse it."""
    client = _Lister(*answers)
    found = outcome(lambda: asyncio.run(work(client)), McpError, ValidationError, UsageError)
    return None if isinstance(found, tuple) and found and isinstance(found[0], str) else found


def _discovered(pages: list[Any]) -> None:
    listed = _asked(lambda client: read_tools(client, "srv", BOUNDS), *pages)
    if listed is None:
        return
    found = build_catalogue(
        listed, McpToolTerms(prefix="srv_"), lambda tools: {}, lambda each, digest, made: Tool(made, print)
    )
    for name, tool in found.tools.items():
        assert name not in found.held, "what is held back is not offered"
        assert found.digests[name] == found.remote[name].digest
        assert tool.definition.side_effects or found.remote[name].read_only is True, "without a hint it has effects"
    assert len({tool.name for tool in found.tools.values()}) == len(found.tools)
    names = {tool.name for tool in listed}
    assert names == found.tools.keys() | found.held.keys(), "no tool is dropped without a word"
    assert build_catalogue(
        listed, McpToolTerms(prefix="srv_"), lambda tools: {}, lambda each, digest, made: Tool(made, print)
    ).same(found), "the same listing is no change"


PAGES: list[list[Any]] = [LISTS[:1], LISTS[1:], LISTS]
RESOURCES: list[list[Any]] = [
    [{"resources": [{"uri": "file:///a", "name": "a", "size": 3, "mimeType": "text/plain"}]}],
    [{"resourceTemplates": [{"uriTemplate": "file:///{x}", "name": "x"}]}],
    [{"contents": [{"uri": "file:///a", "text": "x"}, {"uri": "file:///b", "blob": "aGk=", "mimeType": "a/b"}]}],
    [{"prompts": [{"name": "p", "arguments": [{"name": "x", "required": True}]}]}],
    [
        {
            "description": "d",
            "messages": [
                {"role": role, "content": block} for role in ("user", "assistant") for block in RESULT["content"]
            ],
        }
    ],
]


def _read_rest(pages: list[Any]) -> None:
    for listed in (resources.read_resources, resources.read_prompts):
        _asked(lambda client: listed(client, "srv", BOUNDS), *pages)  # noqa: B023
    _asked(lambda client: resources.read_resource(client, "file:///a"), *pages)
    messages = _asked(lambda client: resources.read_prompt(client, "p", {}), *pages)
    assert all(isinstance(message, UserMessage | AssistantMessage) for message in messages or ())


# ── results and questions ────────────────────────────────────────────────────────────


def _content(value: Any) -> None:
    result = outcome(lambda: mcp_types.CallToolResult.model_validate(value), ValidationError)
    if isinstance(result, mcp_types.CallToolResult):
        for structured in (False, True):
            found = outcome(lambda: output_of(result, structured=structured), ToolError)  # noqa: B023
            assert isinstance(found, Output | tuple)


QUESTIONS: list[dict[str, Any]] = [
    {
        "message": "Who are you?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "Ada", "pattern": "^(a+)+$"},
                "age": {"type": "integer", "minimum": 0, "default": 3},
                "how": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
                "password": {"type": "string"},
            },
            "required": ["name"],
        },
    },
    *(
        {"mode": "url", "message": "Go there.", "url": url, "elicitationId": "1"}
        for url in (
            "https://example.org/x",
            "http://[",
            "https://[::1]:x/",
            "file:///etc/passwd",
            "//x",
            "http://\uff0f.x",
        )
    ),
]
SAMPLES: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
            {"role": "assistant", "content": {"type": "text", "text": "ho"}},
        ],
        "maxTokens": 5,
        "systemPrompt": "Be brief.",
        "stopSequences": ["x"],
        "temperature": 0.5,
    }
]


class _Person:
    """Answers with what it was made with."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    async def decide(self, confirmation: Confirmation) -> Decision:
        msgspec.json.encode(confirmation)
        return self._decision


DECISIONS: tuple[Decision, ...] = (
    Allow(by="ada"),
    Deny(by="ada", reason="no"),
    Edit(by="ada", arguments={"name": "aaa", "age": 5}),
    Edit(by="ada", arguments={}),
)


def _question(value: tuple[Any, Decision]) -> None:
    asked, decision = value
    asking = ApproverQuestionHandler(_Person(decision), ScriptedModel([said("yes")]))
    made = callbacks(asking, "srv")
    for kind, callback in (
        (mcp_types.ElicitRequestFormParams, "elicitation_callback"),
        (mcp_types.ElicitRequestURLParams, "elicitation_callback"),
        (mcp_types.CreateMessageRequestParams, "sampling_callback"),
    ):
        params = outcome(lambda: kind.model_validate(asked), ValidationError)  # noqa: B023
        if isinstance(params, tuple):
            continue
        answer = asyncio.run(made[callback](None, params))
        assert not isinstance(answer, mcp_types.ErrorData) or answer.code != mcp_types.INTERNAL_ERROR, answer
        answer.model_dump_json(by_alias=True)
        if isinstance(decision, Deny):
            assert getattr(answer, "action", "decline") == "decline", "what a person refused is never accepted"


_STREAMS = [b"\n".join((*BODIES, LONG, BACKWARDS, b"noise", b"")), b"\r\n".join(BODIES), LONG + b"\n"]
_EVENTS = [
    b"".join(b"event: message\ndata: " + body + b"\n\n" for body in BODIES),
    b"id: 1\ndata: \n\n" + b"data: " + LONG + b"\n\n",
    b"\r\n".join(b"data: " + body + b"\r\n" for body in BODIES),
]
TARGETS = (
    Target("mcp-lines", st.tuples(data(_STREAMS, TOKENS), cuts(3000)), _lines),
    Target("mcp-body", data([*BODIES, LONG, BACKWARDS], TOKENS), _body),
    Target("mcp-inbox", values(MESSAGES), _inbox),
    Target("mcp-sse", st.tuples(data(_EVENTS, TOKENS), cuts(3000)), _sse),
    Target("mcp-tools", values(PAGES), _discovered),
    Target("mcp-resources", values(RESOURCES), _read_rest),
    Target("mcp-content", values([RESULT]), _content),
    Target("mcp-questions", st.tuples(values([*QUESTIONS, *SAMPLES]), st.sampled_from(DECISIONS)), _question),
)
