"""What people write for `create_llm`, and what they mean."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable
from typing import Any

from handrail.core.errors import UsageError

_FAMILIES = {
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
    "llama": "ollama",
    "qwen": "ollama",
    "mistral-": "mistral",
    "deepseek-": "deepseek",
    "grok": "xai",
    "kimi-": "kimi",
}
"""The service of a model with such a name, for people who name the model alone."""


def check_create_arguments(name: Any, tools: Any, fallback: Any) -> None:
    """
    Raises:
        UsageError: Something else stands where a text or a list belongs.
    """
    if not isinstance(name, str):
        raise UsageError(f"a model is made by name, as create_llm('openai:gpt-5'), not of {type(name).__name__!r}")
    if not isinstance(tools, str | None):
        raise UsageError("tools says how calls are written, as 'prompted'; tools to call go to a Session or Executor")
    if isinstance(fallback, str):
        raise UsageError(f"fallback is a list; write fallback=[{fallback!r}]")


def model_name_hint(name: str, services: Container[str], names: Iterable[str]) -> str:
    """What was meant, if that can be seen: a service and a model written otherwise, or a model alone."""
    service, slash, model = name.partition("/")
    if slash and service in services:
        return f"; write {service}:{model}"
    family = next((service for begins, service in _FAMILIES.items() if name.startswith(begins)), None)
    if family is not None:
        return f"; a model is named after its service, as {family}:{name}"
    near = difflib.get_close_matches(name, tuple(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
