"""Requests that are answered without a run: embeddings, and the count of a request's tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from handrail.node.bus.request import Caller

Admit = Callable[[str], Awaitable[Caller]]
"""The caller, if it may ask the model of this name.

Raises:
    BusError: It may not.
"""
AnswerAtOnce = Callable[[bytes, Mapping[str, str], Admit], Coroutine[Any, Any, dict[str, Any]]]
"""The answer to a body with these headers.

Raises:
    BusError: The request is wrong, or its caller may not ask that.
    ModelError: The model's service did not answer.
"""
