"""An error where code expects the text of an answer: `__LLM_ERROR__|<type>|<status or 0>|<message>`."""

from __future__ import annotations

from typing import NamedTuple

from handrail.core.redact import redact_text
from handrail.rlm.values import RLMChatCompletion

PREFIX = "__LLM_ERROR__|"


class QueryError(NamedTuple):
    """Why a query has no answer."""

    type: str
    status: int
    """The HTTP status; 0 if there was none."""
    message: str


def make(type: str, message: str, status: int | None = None) -> str:
    """The text for an error. Only the message may hold a `|`."""
    return f"{PREFIX}{type.replace('|', '/')}|{status or 0}|{redact_text(message)}"


def parse(text: str) -> QueryError | None:
    """The error that a text is; None if it is an answer."""
    if not text.startswith(PREFIX):
        return None
    parts = text.split("|", 3)
    if len(parts) < 4 or not (parts[2].isascii() and parts[2].isdecimal()):
        return None
    return QueryError(parts[1], int(parts[2][:9]), parts[3])


def answer_of(completion: RLMChatCompletion) -> str:
    """What `llm_query` returns. Words of an answer that look like an error are an answer: only `error` decides.

    Of a run that a limit ended, the best that it had stands in the error: work is not thrown away, nor passed off
    as an answer.
    """
    if completion.error is None:
        return completion.response
    best = completion.response.strip() if completion.partial else ""
    message = f"{completion.error}; the best that it had: {best}" if best else completion.error
    return make(completion.error_type or "error", message, completion.status_code)
