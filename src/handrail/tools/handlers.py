"""The ways a handler may be written, found from its signature.

arguments     f(**arguments)           plain Python, AbstractLLM
context       f(context, arguments)    converser; the context is the `Invocation`
invocation    f(invocation)            nrv
named         f(name, args)            RLM
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, get_origin

from handrail.core.errors import InvalidDefinition
from handrail.core.invocation import Invocation

Style = Literal["arguments", "context", "invocation", "named"]


def handler_style(handler: Callable[..., Any], tool: str) -> Style:
    """Which style a handler has. Names decide, since a schema and not the signature says what the arguments are."""
    if not callable(handler):
        raise InvalidDefinition(f"the handler of {tool!r} is not callable: {handler!r}")
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return "arguments"
    needed = [parameter for parameter in parameters if parameter.default is inspect.Parameter.empty]
    match tuple(parameter.name for parameter in needed):
        case ("context" | "ctx", "arguments" | "args"):
            return "context"
        case ("name" | "tool_name", "arguments" | "args"):
            return "named"
        case ("invocation",):
            return "invocation"
        case (_,) if _is_invocation(needed[0].annotation):
            return "invocation"
    return "arguments"


def _is_invocation(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.partition("[")[0] == "Invocation"
    return annotation is Invocation or get_origin(annotation) is Invocation


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable, seen through partials and callable objects."""
    handler = without_partials(handler)
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def without_partials(handler: Callable[..., Any]) -> Callable[..., Any]:
    """What is under any partials."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler
