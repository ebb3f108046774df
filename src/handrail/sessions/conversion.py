"""Tools in each provider's own form, for programs that call a provider themselves.

The codecs write them, so this is exactly what `create_llm` would send. A dict that
is in the provider's form already passes as it is, with whatever else it says. What a
form cannot say is in the notices of `convert_tools`; the plain functions log it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import UsageError
from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec_table import codec_class
from handrail.models.profiles import profile_for
from handrail.sessions.tool_forms import offers_of

logger = logging.getLogger(__name__)


class ToolForm(Struct, frozen=True):
    """A provider's form of tools: how it is written, its place in the body of a request, and how it is recognised."""

    wire: str
    place: tuple[str, ...]
    is_native: Callable[[Mapping[str, Any]], bool]


def _nested(tool: Mapping[str, Any]) -> bool:
    return isinstance(tool.get("function"), Mapping)


def _flat(tool: Mapping[str, Any]) -> bool:
    """Functions are flat, and the service's own tools have a type of theirs."""
    return isinstance(tool.get("type"), str) and "function" not in tool


_OF_ANTHROPIC = frozenset({"name", "description", "input_schema", "type", "strict", "cache_control", "input_examples"})


def _anthropic(tool: Mapping[str, Any]) -> bool:
    """A tool of the program, or one of the service's own, which has a dated type."""
    own = tool.get("type") not in (None, "custom", "function")
    return "name" in tool and (own or ("input_schema" in tool and tool.keys() <= _OF_ANTHROPIC))


def _gemini(tool: Mapping[str, Any]) -> bool:
    ours = {"functionDeclarations", "function_declarations", "googleSearch", "codeExecution", "urlContext"}
    return bool(ours & tool.keys())


def _bedrock(tool: Mapping[str, Any]) -> bool:
    return bool({"toolSpec", "cachePoint", "systemTool"} & tool.keys())


FORMS: Mapping[str, ToolForm] = {
    "openai": ToolForm("openai_chat", ("tools",), _nested),
    "openai-responses": ToolForm("openai_responses", ("tools",), _flat),
    "anthropic": ToolForm("anthropic", ("tools",), _anthropic),
    "gemini": ToolForm("gemini", ("tools",), _gemini),
    "ollama": ToolForm("ollama", ("tools",), _nested),
    "bedrock": ToolForm("bedrock", ("toolConfig", "tools"), _bedrock),
}


class ConvertedTools(Struct, frozen=True):
    tools: list[dict[str, Any]]
    notices: tuple[str, ...] = ()
    """What this provider's form cannot say: keywords of schemas, mostly. Calls are checked against all of it anyway."""


def convert_tools(provider: str, tools: Iterable[Any]) -> ConvertedTools:
    """Functions, tools, definitions, ensembles and dicts of any provider in the form of this one, in order.

    Raises:
        UsageError: There is no such provider.
        InvalidDefinition: Something is not a tool.
    """
    form = FORMS.get(provider)
    if form is None:
        raise UsageError(f"there is no form of tools for {provider!r}; there are {', '.join(FORMS)}")
    tools = list(tools)
    native = {index: dict(tool) for index, tool in enumerate(tools) if _is_native(tool, form)}
    offers = offers_of(tool for index, tool in enumerate(tools) if index not in native)
    written, notices = _written(provider, form, offers)
    return ConvertedTools(_in_order(native, written, len(tools)), notices)


def convert_to_openai_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """Tools for Chat Completions and the servers that speak it."""
    return _converted("openai", tools)


def convert_to_openai_responses_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """The tools as OpenAI's Responses API takes them in `tools`."""
    return _converted("openai-responses", tools)


def convert_to_anthropic_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """The tools as Anthropic's Messages API takes them in `tools`."""
    return _converted("anthropic", tools)


def convert_to_gemini_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """The tools as the Gemini API takes them in `tools`."""
    return _converted("gemini", tools)


def convert_to_ollama_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """The tools as Ollama takes them in `tools`."""
    return _converted("ollama", tools)


def convert_to_bedrock_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """The tools as Bedrock's Converse API takes them in `toolConfig.tools`."""
    return _converted("bedrock", tools)


def _converted(provider: str, tools: Iterable[Any]) -> list[dict[str, Any]]:
    converted = convert_tools(provider, tools)
    for notice in converted.notices:
        logger.info("%s", notice)
    return converted.tools


def _is_native(tool: Any, form: ToolForm) -> bool:
    return isinstance(tool, Mapping) and form.is_native(tool)


def _written(
    provider: str, form: ToolForm, offers: tuple[ToolOffer, ...]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    if not offers:
        return [], ()
    kind = codec_class(form.wire)
    # Not strict: what a strict schema makes a model write must be mended when it is read, and we shall not read it.
    plain = replace(profile_for(provider.removesuffix("-responses"), "-"), strict="never")
    codec = kind(profile=plain) if "profile" in kind.__struct_fields__ else kind()
    # A request must say something; only what it says of tools is looked at.
    request = ModelRequest(messages=(UserMessage((Text("-"),)),), tools=offers)
    wire = codec.encode(request, "-", stream=False)
    found: Any = wire.body
    for key in form.place:
        found = found[key]
    return list(found), wire.notices


def _in_order(native: Mapping[int, dict[str, Any]], written: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The tools as they were given; natives first where many became one (Gemini) or one became many (ensembles)."""
    if len(native) + len(written) != count:
        return [*native.values(), *written]
    rest = iter(written)
    return [native[index] if index in native else next(rest) for index in range(count)]
