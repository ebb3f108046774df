"""The services of models that `create_llm` knows, a row each: the wire it speaks, where it is, how it takes a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from handrail.models.service_addresses import Locate, azure_endpoint, vertex_endpoint


class ModelService(Struct, frozen=True):
    """Which wire a service speaks, and where it is unless the caller says otherwise."""

    wire: str
    """A key of `CODECS`."""
    base_url: str | None
    model: str | None = None
    """The model, if there is only one or any name will do."""
    needs_key: bool = True
    key_of: str | None = None
    """The service whose key it takes, if that is not its own name."""
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    transport: tuple[str, str] | None = None
    """The transport, if it is not HTTP as for the others."""
    locate: Locate | None = None
    """Finds the address, if each customer has another one."""
    located_by: tuple[str, ...] = ()
    """The options that `locate` takes."""
    profile_of: str | None = None
    """The service whose models it serves, if they are not its own."""
    google_tokens: bool = False
    """Whether google-auth gives tokens to sign in with, where neither a key nor `token` is given."""
    facts: Mapping[str, Any] = {}
    """Options of its codec that it always has."""


BOTOCORE = ("handrail.models.bedrock.transport", "BedrockTransport")
"""The transport of Bedrock: botocore signs the requests."""
_AZURE: Mapping[str, Any] = {
    "key_of": "azure",
    "key_header": "api-key",
    "key_prefix": "",
    "locate": azure_endpoint,
    "located_by": ("resource", "api_version"),
    "profile_of": "openai",
}
_VERTEX: Mapping[str, Any] = {
    "needs_key": False,
    "key_header": "x-goog-api-key",
    "key_prefix": "",
    "located_by": ("project", "location"),
    "google_tokens": True,
}

SERVICES: Mapping[str, ModelService] = {
    "openai": ModelService("openai_chat", "https://api.openai.com/v1"),
    "openai-responses": ModelService("openai_responses", "https://api.openai.com/v1", key_of="openai"),
    "anthropic": ModelService("anthropic", "https://api.anthropic.com", key_header="x-api-key", key_prefix=""),
    "gemini": ModelService(
        "gemini", "https://generativelanguage.googleapis.com", key_header="x-goog-api-key", key_prefix=""
    ),
    "gemini-interactions": ModelService(
        "gemini_interactions",
        "https://generativelanguage.googleapis.com",
        key_of="gemini",
        key_header="x-goog-api-key",
        key_prefix="",
        profile_of="gemini",
    ),
    "azure": ModelService("openai_chat", None, **_AZURE),
    "azure-responses": ModelService("openai_responses", None, **_AZURE),
    "vertex": ModelService(
        "gemini",
        None,
        **_VERTEX,
        locate=vertex_endpoint("google", "v1beta1"),
        profile_of="gemini",
        facts={"version": ""},
    ),
    "vertex-anthropic": ModelService(
        "anthropic_vertex", None, **_VERTEX, locate=vertex_endpoint("anthropic", "v1"), profile_of="anthropic"
    ),
    "bedrock": ModelService(
        "bedrock", "https://bedrock-runtime.{region}.amazonaws.com", needs_key=False, transport=BOTOCORE
    ),
    "cohere": ModelService("cohere", "https://api.cohere.com"),
    "ollama": ModelService("ollama", "http://localhost:11434", needs_key=False),
    "vllm": ModelService("openai_chat", "http://localhost:8000/v1", needs_key=False),
    "llamacpp": ModelService("openai_chat", "http://localhost:8080/v1", model="default", needs_key=False),
    "lmstudio": ModelService("openai_chat", "http://localhost:1234/v1", needs_key=False),
    "deepseek": ModelService("openai_chat", "https://api.deepseek.com/v1"),
    "groq": ModelService("openai_chat", "https://api.groq.com/openai/v1"),
    "kimi": ModelService("openai_chat", "https://api.moonshot.ai/v1"),
    "mistral": ModelService("openai_chat", "https://api.mistral.ai/v1"),
    "nemotron": ModelService("openai_chat", "https://integrate.api.nvidia.com/v1"),
    "openrouter": ModelService("openai_chat", "https://openrouter.ai/api/v1"),
    "qwen": ModelService("openai_chat", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    "together": ModelService("openai_chat", "https://api.together.xyz/v1"),
    "xai": ModelService("openai_chat", "https://api.x.ai/v1"),
    "zai": ModelService("openai_chat", "https://api.z.ai/api/paas/v4"),
    "minicpm-v": ModelService("openai_chat", "http://localhost:8000/v1", needs_key=False),
    "openbmb": ModelService("openai_chat", "http://localhost:8000/v1", needs_key=False),
    "compatible": ModelService("openai_chat", None, needs_key=False),
}
"""Services with a wire of their own. `compatible` is any server that speaks OpenAI's Chat Completions."""
