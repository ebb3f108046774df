"""AbstractLLM's tool system, as `abstractllm-tool-system.md` describes it.

from handrail.compat.abstractllm import Session, ToolDefinition, create_llm
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handrail.core.errors import InvalidArguments, ToolError as ToolExecutionError
from handrail.sessions.conversion import (
    convert_to_anthropic_tools,
    convert_to_bedrock_tools,
    convert_to_gemini_tools,
    convert_to_ollama_tools,
    convert_to_openai_responses_tools,
    convert_to_openai_tools,
)
from handrail.sessions.create import create_llm
from handrail.sessions.replies import SessionReply
from handrail.sessions.session import Choice, OnEvent, Said, Session as PlainSession
from handrail.sessions.tool_requests import RequestedCall as ToolCall, ToolCallRequest, execute_tools
from handrail.sync import execute_tool_securely
from handrail.tools.definition import ToolDefinition
from handrail.tools.schema.validator import Validator
from handrail.tools.types.schema import schema_of as type_to_schema
from handrail.tools.types.signature import read_function

__all__ = [
    "Session",
    "ToolCall",
    "ToolCallRequest",
    "ToolDefinition",
    "ToolExecutionError",
    "convert_to_anthropic_tools",
    "convert_to_bedrock_tools",
    "convert_to_gemini_tools",
    "convert_to_ollama_tools",
    "convert_to_openai_responses_tools",
    "convert_to_openai_tools",
    "create_llm",
    "execute_tool_securely",
    "execute_tools",
    "generate_schema_from_function",
    "type_to_schema",
    "validate_against_schema",
]


class Session(PlainSession):
    """A `handrail.Session` whose `ask` has the document's name too."""

    def generate_with_tools(
        self, prompt: Said = None, *, tool_choice: Choice = "auto", on_event: OnEvent | None = None
    ) -> SessionReply[str]:
        """`ask`, as the document calls it."""
        return self.ask(prompt, tool_choice=tool_choice, on_event=on_event)


def generate_schema_from_function(func: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a function's arguments."""
    return read_function(func).input_schema


def validate_against_schema(arguments: dict[str, Any], schema: dict[str, Any]) -> None:
    """
    Raises:
        InvalidArguments: The arguments do not fit the schema; the message names each mistake.
    """
    if problems := Validator(schema, "the arguments").problems(arguments):
        raise InvalidArguments(problems)
