"""Models: a codec for each wire, one transport, prompted calls, profiles and the embedded model.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.core.model_request import (
        ModelRequest as ModelRequest,
        NamedTool as NamedTool,
        ToolChoice as ToolChoice,
        ToolOffer as ToolOffer,
    )
    from handrail.models.anthropic import AnthropicCodec as AnthropicCodec
    from handrail.models.api_keys import key_variables as key_variables
    from handrail.models.bedrock import BedrockCodec as BedrockCodec
    from handrail.models.call_assembly import CallAssembler as CallAssembler
    from handrail.models.codec import Codec as Codec, WireRequest as WireRequest
    from handrail.models.codec_model import CodecModel as CodecModel
    from handrail.models.cohere import CohereCodec as CohereCodec
    from handrail.models.failover import FailoverModel as FailoverModel
    from handrail.models.gemini import GeminiCodec as GeminiCodec
    from handrail.models.history import (
        AssistantTurn as AssistantTurn,
        ResultTurn as ResultTurn,
        SystemTurn as SystemTurn,
        UserTurn as UserTurn,
        turns as turns,
    )
    from handrail.models.interactions import InteractionsCodec as InteractionsCodec
    from handrail.models.local.weights import find_weights as find_weights
    from handrail.models.ollama import OllamaCodec as OllamaCodec
    from handrail.models.openai_chat import OpenAIChatCodec as OpenAIChatCodec
    from handrail.models.openai_responses import OpenAIResponsesCodec as OpenAIResponsesCodec
    from handrail.models.profiles import Profile as Profile, profile_for as profile_for
    from handrail.models.prompted.codec import PromptedCodec as PromptedCodec
    from handrail.models.prompted.formats import FORMATS as FORMATS
    from handrail.models.rate_limit import ServiceRateLimits as ServiceRateLimits
    from handrail.models.retry_policy import RetryPolicy as RetryPolicy
    from handrail.models.services import SERVICES as SERVICES
    from handrail.models.tool_names import OPENAI_NAMES as OPENAI_NAMES, NameMap as NameMap
    from handrail.models.transport import (
        Endpoint as Endpoint,
        HttpTransport as HttpTransport,
        TransportBounds as TransportBounds,
    )

export_lazily(
    __name__,
    {
        "handrail.core.model_request": "ModelRequest NamedTool ToolChoice ToolOffer",
        "handrail.models.anthropic": "AnthropicCodec",
        "handrail.models.api_keys": "key_variables",
        "handrail.models.bedrock": "BedrockCodec",
        "handrail.models.call_assembly": "CallAssembler",
        "handrail.models.codec": "Codec WireRequest",
        "handrail.models.codec_model": "CodecModel",
        "handrail.models.cohere": "CohereCodec",
        "handrail.models.failover": "FailoverModel",
        "handrail.models.gemini": "GeminiCodec",
        "handrail.models.history": "AssistantTurn ResultTurn SystemTurn UserTurn turns",
        "handrail.models.interactions": "InteractionsCodec",
        "handrail.models.local.weights": "find_weights",
        "handrail.models.ollama": "OllamaCodec",
        "handrail.models.openai_chat": "OpenAIChatCodec",
        "handrail.models.openai_responses": "OpenAIResponsesCodec",
        "handrail.models.profiles": "Profile profile_for",
        "handrail.models.prompted.codec": "PromptedCodec",
        "handrail.models.prompted.formats": "FORMATS",
        "handrail.models.rate_limit": "ServiceRateLimits",
        "handrail.models.retry_policy": "RetryPolicy",
        "handrail.models.services": "SERVICES",
        "handrail.models.tool_names": "NameMap OPENAI_NAMES",
        "handrail.models.transport": "Endpoint HttpTransport TransportBounds",
    },
)
