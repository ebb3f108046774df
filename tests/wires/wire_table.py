"""Every wire that is tested: services with tools of their own, and text formats over a server without."""

from __future__ import annotations

from typing import Any

from tests.wires.wire_dialogue import WireCase
from tests.wires.writers import anthropic, bedrock, chat, cohere, gemini, interactions, ollama, prompted, responses


def _chat(service: str, model: str, choices: str = "auto none required named", ids: str = "call_{:04d}") -> WireCase:
    return WireCase(
        name=service,
        service=service,
        model=model,
        root="/v1",
        hear=chat.hear,
        write=chat.write,
        judge=chat.judge,
        framing="done-sse",
        choices=frozenset(choices.split()),
        gives_ids=ids,
        variant=service != "openai",
    )


def _prompted(format: str) -> WireCase:
    return WireCase(
        name=f"prompted-{format}",
        service="compatible",
        model="plain",
        root="/v1",
        tools=f"prompted:{format.partition('-')[0]}",
        hear=prompted.hear,
        write=prompted.writer(format),
        judge=chat.judge,
        framing="done-sse",
        gives_ids="",
        name_rule=r".+",
        key=None,
    )


def _token() -> str:
    return "the-key"


def _azure(name: str, **facts: Any) -> WireCase:
    return WireCase(
        name=name,
        service="azure",
        model="gpt-4.1",
        write=chat.write_on_azure,
        judge=chat.judge_azure,
        framing="done-sse",
        variant=True,
        moved=True,
        **facts,
    )


AZURE = (
    _azure("azure", hear=chat.hear_on_azure, root="/openai/v1"),
    _azure(
        "azure-deployment",
        hear=chat.hear_deployment,
        root="/openai/deployments/gpt-4.1",
        options={"token": _token, "api_version": "2024-10-21"},
    ),
    WireCase(
        name="azure-responses",
        service="azure-responses",
        model="gpt-5",
        root="/openai/v1",
        hear=responses.hear,
        write=responses.write,
        judge=responses.judge,
        framing="named-sse",
        variant=True,
        moved=True,
    ),
)
VERTEX = (
    WireCase(
        name="vertex",
        service="vertex",
        model="gemini-2.5-flash",
        root="/v1beta1/projects/shop/locations/global/publishers/google",
        hear=gemini.hear_on_vertex,
        write=gemini.write,
        judge=gemini.judge,
        framing="sse",
        gives_ids="g-{:04d}",
        name_rule=r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}",
        options={"token": _token},
        variant=True,
        moved=True,
    ),
    WireCase(
        name="vertex-anthropic",
        service="vertex-anthropic",
        model="claude-sonnet-4-5@20250929",
        root="/v1/projects/shop/locations/global/publishers/anthropic",
        hear=anthropic.hear_on_vertex,
        write=anthropic.write,
        judge=anthropic.judge,
        framing="named-sse",
        gives_ids="toolu_{:04d}",
        name_rule=r"[A-Za-z0-9_-]{1,128}",
        options={"token": _token},
        variant=True,
        moved=True,
    ),
)
NATIVE = (
    *AZURE,
    *VERTEX,
    _chat("openai", "gpt-4.1"),
    _chat("vllm", "some/model"),
    _chat("lmstudio", "some-model", "auto none required"),
    _chat("mistral", "mistral-large-latest", ids="abcde{:04d}"),
    _chat("kimi", "kimi-k2-0905-preview", "auto none", ids="functions.tool:{:d}"),
    WireCase(
        name="openai-responses",
        service="openai-responses",
        model="gpt-5",
        root="/v1",
        hear=responses.hear,
        write=responses.write,
        judge=responses.judge,
        framing="named-sse",
    ),
    WireCase(
        name="anthropic",
        service="anthropic",
        model="claude-sonnet-4-5",
        hear=anthropic.hear,
        write=anthropic.write,
        judge=anthropic.judge,
        framing="named-sse",
        gives_ids="toolu_{:04d}",
        name_rule=r"[A-Za-z0-9_-]{1,128}",
    ),
    WireCase(
        name="gemini",
        service="gemini",
        model="gemini-2.5-flash",
        hear=gemini.hear,
        write=gemini.write,
        judge=gemini.judge,
        framing="sse",
        gives_ids="g-{:04d}",
        name_rule=r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}",
    ),
    WireCase(
        name="gemini-interactions",
        service="gemini-interactions",
        model="gemini-3-flash",
        hear=interactions.hear,
        write=interactions.write,
        judge=interactions.judge,
        framing="sse",
        gives_ids="gi-{:04d}",
        name_rule=r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}",
    ),
    WireCase(
        name="cohere",
        service="cohere",
        model="command-a-03-2025",
        hear=cohere.hear,
        write=cohere.write,
        judge=cohere.judge,
        framing="named-sse",
        gives_ids="co_{:04d}",
        name_rule=r"[A-Za-z_][A-Za-z0-9_]{0,63}",
        choices=frozenset({"auto", "none", "required"}),
    ),
    WireCase(
        name="ollama",
        service="ollama",
        model="qwen3",
        hear=ollama.hear,
        write=ollama.write,
        judge=ollama.judge,
        framing="ndjson",
        gives_ids="",
        name_rule=r"\S+",
        choices=frozenset({"auto"}),
        key=None,
    ),
    WireCase(
        name="bedrock",
        service="bedrock",
        model=bedrock.MODEL,
        hear=bedrock.hear,
        write=bedrock.write,
        judge=bedrock.judge,
        framing="aws",
        gives_ids="tooluse_{:04d}",
        choices=frozenset({"auto", "required", "named"}),
        key=None,
    ),
)
PROMPTED = tuple(_prompted(format) for format in prompted.FORMATS)
WIRES = {wire.name: wire for wire in (*NATIVE, *PROMPTED)}
