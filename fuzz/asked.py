"""What people ask of models over the network: bodies of `llm.chat`, and of OpenAI's and Anthropic's clients.

The laws: a body is read or refused in words; what is read can be told and written again; and each call in it has
its one result.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

from fuzz.law import Target, outcome
from fuzz.mutate import WRONG, data, values
from handrail.core.errors import BusError
from handrail.core.messages import InvocationMessage, Media, ResultMessage
from handrail.node.chat.messages import pictures_in
from handrail.node.chat.request import defaults_of, input_of, request_of
from handrail.node.chat.schema import V1, V2, request_schema
from handrail.node.gateways.failures import failure_of
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.wire import GatewayWire
from handrail.node.gateways.wire_table import ANTHROPIC, OPENAI, RESPONSES
from handrail.tools.schema.validator import Validator

# ── llm.chat ─────────────────────────────────────────────────────────────────────────────

CID = "blake3:" + "0" * 64
CHATS: list[dict[str, Any]] = [
    {"params": {"model": "m"}, "input": {"messages": [{"role": "user", "content": "Hello"}]}},
    {
        "params": {"model": "m", "modalities": ["text", "vision"]},
        "input": {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "image_cid": CID}]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "a", "name": "send", "arguments": {"to": "ada"}}],
                    "artefacts": [{"provider": "p", "data": {"x": 1}}],
                },
                {"role": "tool", "tool_call_id": "a", "content": "sent", "is_error": True},
                {"role": "tool", "tool_call_id": "a", "content": "iteration limit reached"},
            ],
            "max_tokens": 5,
            "temperature": 0.1,
            "top_p": 1,
            "seed": 7,
            "stop": ["x"],
            "tools": [{"name": "send", "description": "", "parameters_schema": {"type": "object"}}],
            "tool_choice": {"name": "send"},
        },
    },
]
_SCHEMAS = {version: Validator(request_schema(version), "llm.chat") for version in (V1, V2)}


def _chat(body: Any) -> None:
    if not isinstance(body, dict) or _SCHEMAS[V2].problems(body):
        return
    _SCHEMAS[V1].problems(body)
    said = body["input"]
    shown = {cid: Media(media_type="image/png", url=cid) for cid in pictures_in(said["messages"])}
    defaults_of(said)
    request = outcome(lambda: request_of(said, shown), BusError)
    if isinstance(request, tuple):
        return
    written = outcome(lambda: input_of(request), BusError)
    if isinstance(written, dict):
        assert not _SCHEMAS[V2].problems({"input": written}), "what is written fits the schema"
        assert input_of(request_of(written, shown)) == written, "what is written is read as the same"


# ── gateways ─────────────────────────────────────────────────────────────────────────────

LARGEST = 8_000
PNG = "iVBORw0KGgo="
OPENAI_BODIES: list[dict[str, Any]] = [
    {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                    {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
                    {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"}},
                ],
            },
            {
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "no"}],
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "send", "arguments": "{"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "sent"},
        ],
        "tools": [{"type": "function", "function": {"name": "send", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "send"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 5,
        "temperature": 0.5,
        "stop": ["x"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "handrail": {"tools": ["io:*"], "confirm": "pause", "progress": True},
    },
    {
        "messages": [{"role": "user", "content": "x"}],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "a"}}]},
        },
    },
]
ANTHROPIC_BODIES: list[dict[str, Any]] = [
    {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]},
    {
        "model": "m",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                    {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}, "title": "a"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "tool_use", "id": "a", "name": "send", "input": {"to": "ada"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "sent"}]},
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
        "tools": [{"name": "send", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "send", "disable_parallel_tool_use": True},
        "stop_sequences": ["x"],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "thinking": {"type": "disabled"},
        "stream": True,
    },
]
RESPONSE_BODIES: list[dict[str, Any]] = [
    {"model": "m", "input": "Hello"},
    {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "a"}]},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                    {"type": "input_file", "file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"},
                    {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "mcp_call", "id": "mcp_1", "name": "add", "arguments": "{}", "output": "3", "server_label": "x"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
            {"type": "function_call", "call_id": "a", "name": "send", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "sent"}]},
        ],
        "tools": [{"type": "function", "name": "send", "parameters": {"type": "object"}, "strict": True}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "send"}]},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}, "verbosity": "low"},
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 5,
        "parallel_tool_calls": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "store": False,
    },
    {"model": "m", "input": [{"type": "item_reference", "id": "msg_0123456789abcdef0_0"}]},
    {"model": "m", "input": "and?", "previous_response_id": "resp_0123456789abcdef0"},
]
HEADERS: list[dict[str, str]] = [
    {},
    {"x-handrail-tools": "all", "x-handrail-progress": "TRUE"},
    {"x-handrail-tools": " ,a, b*", "x-handrail-confirm": "never", "x-handrail-run": ""},
]


def _gateway(wire: GatewayWire) -> Any:
    def law(value: tuple[bytes, dict[str, str]]) -> None:
        body, headers = value
        try:
            asked = wire.read(body, headers, LARGEST)
            if asked.resolve is not None:
                asked = asked.resolve({})  # what was answered before is not there
        except BusError as error:
            failure = failure_of(error)
            assert 400 <= failure.status < 500, "whoever asks wrongly is told so"
            msgspec.json.encode(wire.failed(failure, "req-1"))
            return
        _answered(asked)
        broken = wire.writer("id-1", 0, asked.model or "m", asked)
        assert broken.begin() and broken.broken(failure_of(BusError("partition", "x")), "run-1")
        writer = wire.writer("id-1", 0, asked.model or "m", asked)
        ended = GatewayOutcome(run="run-1", text="é")
        assert writer.begin() is not None and writer.text("é") and writer.finish(ended)
        msgspec.json.encode(writer.whole(ended))

    return law


def _answered(asked: GatewayRequest) -> None:
    msgspec.json.encode(msgspec.to_builtins(asked))
    made = [message.call.id for message in asked.messages if isinstance(message, InvocationMessage)]
    given = [message.result.tool_call_id for message in asked.messages if isinstance(message, ResultMessage)]
    assert sorted(made) == sorted(given), "each call has its one result"


def _bodies(seeds: list[dict[str, Any]]) -> st.SearchStrategy[tuple[bytes, dict[str, str]]]:
    written = [json.dumps(each).encode() for each in seeds]
    odd = (b"[" * 200, b"\\ud800", b"1e999", b'"type": "text"', *(json.dumps(each).encode() for each in WRONG))
    return st.tuples(values(seeds).map(json.dumps).map(str.encode) | data(written, odd), st.sampled_from(HEADERS))


TARGETS = (
    Target("chat-body", values(CHATS), _chat),
    Target("gateway-openai", _bodies(OPENAI_BODIES), _gateway(OPENAI)),
    Target("gateway-anthropic", _bodies(ANTHROPIC_BODIES), _gateway(ANTHROPIC)),
    Target("gateway-responses", _bodies(RESPONSE_BODIES), _gateway(RESPONSES)),
)
