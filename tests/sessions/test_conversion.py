"""Tools in each provider's form: alike from functions and definitions, untouched if they are in it already."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Ensemble, ToolDefinition, tool
from handrail.core.errors import InvalidDefinition, UsageError
from handrail.sessions.conversion import (
    FORMS,
    convert_to_anthropic_tools,
    convert_to_bedrock_tools,
    convert_to_gemini_tools,
    convert_to_ollama_tools,
    convert_to_openai_responses_tools,
    convert_to_openai_tools,
    convert_tools,
)


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    raise NotImplementedError


def get_time(location: str) -> str:
    """Get the time."""
    raise NotImplementedError


DEFINITION = ToolDefinition.from_function(get_weather)
SCHEMA = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
PLAIN = ToolDefinition("get_time", "Get the time.", SCHEMA)
"""With nothing in it that a service would not take."""


@pytest.mark.requirement("abstractllm.conversion")
def test_openais_form_is_the_documents() -> None:
    assert convert_to_openai_tools([get_time]) == snapshot(
        [
            {
                "type": "function",
                "function": {
                    "name": "get_time",
                    "description": "Get the time.",
                    "parameters": {
                        "type": "object",
                        "properties": {"location": {"type": "string"}},
                        "required": ["location"],
                        "additionalProperties": False,
                    },
                },
            }
        ]
    )


@pytest.mark.requirement("abstractllm.conversion")
def test_the_other_forms_are_their_services_own() -> None:
    told = {"name": "get_time", "description": "Get the time."}

    assert convert_to_anthropic_tools([PLAIN]) == [{**told, "input_schema": SCHEMA}]
    assert convert_to_gemini_tools([PLAIN]) == [{"functionDeclarations": [{**told, "parametersJsonSchema": SCHEMA}]}]
    assert convert_to_ollama_tools([PLAIN]) == [{"type": "function", "function": {**told, "parameters": SCHEMA}}]
    assert convert_to_bedrock_tools([PLAIN]) == [{"toolSpec": {**told, "inputSchema": {"json": SCHEMA}}}]
    [responses] = convert_to_openai_responses_tools([PLAIN])
    assert responses == {"type": "function", **told, "parameters": SCHEMA, "strict": False}


@pytest.mark.requirement("abstractllm.conversion")
@pytest.mark.parametrize("provider", FORMS)
def test_functions_tools_definitions_and_ensembles_of_the_same_tool_convert_alike(provider: str) -> None:
    forms: list[Any] = [get_weather, tool(get_weather), DEFINITION, DEFINITION.to_dict(), Ensemble("w", [get_weather])]

    [first, *others] = [convert_tools(provider, [form]) for form in forms]

    assert others == [first] * len(others)


@pytest.mark.requirement("abstractllm.conversion")
@pytest.mark.parametrize("provider", FORMS)
@pytest.mark.parametrize("origin", FORMS)
def test_a_dict_in_any_providers_form_converts_to_every_other(origin: str, provider: str) -> None:
    native = convert_tools(origin, [PLAIN]).tools

    assert convert_tools(provider, native) == convert_tools(provider, [PLAIN])


@pytest.mark.requirement("abstractllm.conversion")
def test_a_dict_in_the_providers_form_passes_as_it_is_in_its_place() -> None:
    native = {"name": "own", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}

    converted = convert_to_anthropic_tools([get_weather, native, get_time, search])

    assert [each["name"] for each in converted] == ["get_weather", "own", "get_time", "web_search"]
    assert (converted[1], converted[3]) == (native, search)


def test_names_that_a_provider_refuses_are_mapped() -> None:
    [converted] = convert_to_anthropic_tools([ToolDefinition("io.read", "Read.")])

    assert converted["name"] == "io_read"


def test_what_a_form_cannot_say_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    [notice] = convert_tools("ollama", [get_weather]).notices
    assert "additionalProperties" in notice

    with caplog.at_level(logging.INFO, logger="handrail.sessions.conversion"):
        convert_to_ollama_tools([get_weather])
    assert caplog.messages == [notice]


def test_nothing_converts_to_nothing_and_what_is_no_tool_is_refused() -> None:
    assert convert_to_openai_tools([]) == []
    with pytest.raises(InvalidDefinition):
        convert_to_openai_tools([{"description": "nameless"}])
    with pytest.raises(UsageError, match="anthropic"):
        convert_tools("nobody", [get_weather])
