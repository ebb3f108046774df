"""What OpenAI's wires report beside the reply: tokens, and errors in mid-stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from handrail.core.errors import ModelError, ProtocolError
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.messages import Usage
from handrail.models.service_errors import SHOWN, error_for_status, masked_excerpt
from handrail.models.shared_decoding import token_count_of

_STATUS = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "requests": 429,
    "tokens": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "service_unavailable": 503,
    "overloaded": 503,
    "overloaded_error": 503,
    "engine_overloaded_error": 503,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "tool_use_failed": 400,
}
"""What an error in a stream, which has no status of its own, would have had."""
_MOST_DOLLARS = 1e9
"""A bill beyond that for one reply is none."""


def error_from_stream(data: Mapping[str, Any]) -> ModelError:
    """The error that an error object in a stream is."""
    error = data.get("error")
    if isinstance(error, Mapping):
        for key in (error.get("code"), error.get("type"), error.get("status")):
            status = _STATUS.get(key) if isinstance(key, str) else key
            if isinstance(status, int) and 400 <= status < 600:
                return error_for_status(status, msgspec.json.encode(data))
        words = str(error.get("message") or dict(error))
    else:
        words = str(error)
    return ProtocolError(f"the service reported an error in its reply: {masked_excerpt(words, SHOWN)}")


def error_notice_text(data: Mapping[str, Any]) -> str:
    """What an error object says, fit for a notice."""
    error = data.get("error")
    return masked_excerpt(str(error.get("message") if isinstance(error, Mapping) else error), SHOWN)


def failed_call(data: Mapping[str, Any]) -> tuple[str, dict[str, Any] | str] | None:
    """The name and arguments of a call that Groq read and refused (`tool_use_failed`); None if there is none."""
    match data.get("error"):
        case {"code": "tool_use_failed", "failed_generation": str(text)}:
            pass
        case _:
            return None
    try:
        written = parse(text)
    except JSONTextError:
        return None
    match written:
        case {"name": str(name), "arguments": dict() | str() as arguments} if name:
            return name, arguments
    return None


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Tokens as both of OpenAI's wires and their likes count them."""
    read = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    written = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    billed = usage.get("cost")
    asked = token_count_of(usage, "prompt_tokens", "input_tokens")
    said = token_count_of(usage, "completion_tokens", "output_tokens")
    hits = token_count_of(usage, "prompt_cache_hit_tokens", "cached_tokens")
    return Usage(
        input_tokens=asked,
        # xAI and Gemini leave thoughts to the total.
        output_tokens=max(said, token_count_of(usage, "total_tokens") - asked),
        cached_tokens=token_count_of(read, "cached_tokens") or hits,
        cache_written_tokens=token_count_of(read, "cache_write_tokens"),
        reasoning_tokens=token_count_of(written, "reasoning_tokens"),
        cost=float(billed) if isinstance(billed, int | float) and 0 <= billed < _MOST_DOLLARS else None,
    )
