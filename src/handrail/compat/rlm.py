"""RLM's tools API, as `rlm-tools-api.md` describes it.

    from handrail.compat.rlm import RLM

The document's programs name a service (`backend="openai"`) and leave the rest to the machine they run on: which model
that is, which models code may ask, and which function answers `tool_handler`. `service(...)` says so around them.
Plain functions in `custom_tools` only read, as they do in the document.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from handrail.rlm import rlm
from handrail.rlm.backends import Backend
from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion, RLMIteration
from handrail.tools.tool import Tool

__all__ = ["RLM", "LMRequest", "LMResponse", "RLMChatCompletion", "RLMIteration", "service"]

ToolHandler = Callable[[str, dict[str, Any]], Any]
"""Takes the name of a tool and its arguments, and returns its result."""

DEFAULT_BACKEND = "openai"
_HANDLER = "program_tool_handler"
"""The tool by which code in the REPL reaches the program's handler."""
_SCHEMA = {
    "type": "object",
    "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["tool", "arguments"],
}
_KEEP = "_injected_tool_handler = tool_handler"
_RESTORE = "tool_handler = _injected_tool_handler"
_ANSWER = f"""
def tool_handler(name, args):
    return {_HANDLER}(tool=name, arguments=args)
"""


@dataclass(frozen=True, slots=True)
class RlmService:
    """What a program of the document leaves to the machine it runs on."""

    backends: Mapping[str, Backend] = field(default_factory=dict)
    other_backends: Sequence[Backend] = ()
    tool_handler: ToolHandler | None = None


_NOTHING = RlmService()
_current: ContextVar[RlmService] = ContextVar("handrail.compat.rlm.service", default=_NOTHING)


@contextmanager
def service(
    backends: Mapping[str, Backend] | None = None,
    *,
    other_backends: Sequence[Backend] = (),
    tool_handler: ToolHandler | None = None,
) -> Iterator[None]:
    """Say what an `RLM` that is made inside uses where its program does not say.

    `backends` has the models that service names stand for: `{"openai": "openai:gpt-5"}`. Code may ask the
    `other_backends`. `tool_handler` answers the `tool_handler(name, arguments)` of the REPL.
    """
    token = _current.set(RlmService(backends or {}, other_backends, tool_handler))
    try:
        yield
    finally:
        _current.reset(token)


class RLM(rlm.RLM):
    """`handrail.RLM` with the document's `tool_handler`."""

    def __init__(
        self,
        backend: Any = DEFAULT_BACKEND,
        backend_kwargs: Mapping[str, Any] | None = None,
        *,
        setup_code: str = "",
        tool_handler: ToolHandler | None = None,
        custom_tools: Mapping[str, Any] | None = None,
        other_backends: Sequence[Backend] | None = None,
        **options: Any,
    ) -> None:
        """Takes what `handrail.RLM` takes, and a `tool_handler`: a function here that code in the REPL calls.

        `backend=...`, which the document writes where it leaves something out, is the default backend.
        """
        around = _current.get()
        named = DEFAULT_BACKEND if backend is ... else backend
        handler = tool_handler or around.tool_handler
        super().__init__(
            around.backends.get(named, named) if isinstance(named, str) else named,
            backend_kwargs,
            setup_code=_with_handler(setup_code, has_handler=handler is not None),
            custom_tools=_tools(custom_tools or {}, handler),
            other_backends=list(around.other_backends) if other_backends is None else other_backends,
            **options,
        )


def _tools(given: Mapping[str, Any], handler: ToolHandler | None) -> dict[str, Any]:
    """The custom tools, functions among them as tools that only read, and the program's handler as one more."""
    tools = {name: _read_only(name, entry) for name, entry in given.items()}
    return tools if handler is None else {**tools, _HANDLER: _handler_tool(handler)}


def _read_only(name: str, entry: Any) -> Any:
    if isinstance(entry, Mapping) and "tool" in entry:
        return {**entry, "tool": _read_only(name, entry["tool"])}
    return Tool.from_function(entry, name=name) if callable(entry) and not isinstance(entry, Tool) else entry


def _handler_tool(handler: ToolHandler) -> Tool:
    def call(tool: str, arguments: dict[str, Any]) -> Any:
        return handler(tool, arguments)

    description = "Call a tool of the program by its name."
    return Tool.from_function(call, name=_HANDLER, description=description, schema=_SCHEMA, style="arguments")


def _with_handler(setup_code: str, *, has_handler: bool) -> str:
    """The setup code, after which `tool_handler` is the program's.

    The document's setup code has a `tool_handler` with an empty body, which "gets injected by RLM". Without a handler
    of the program, the one that the REPL has by itself takes its place. One with a body stays.
    """
    if has_handler:
        return "\n".join((setup_code, _ANSWER))
    return "\n".join((_KEEP, setup_code, _RESTORE)) if _has_empty_handler(setup_code) else setup_code


def _has_empty_handler(code: str) -> bool:
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return False  # the REPL says what is wrong with it
    defined = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == "tool_handler"]
    return bool(defined) and all(_is_empty(statement) for statement in defined[-1].body)


def _is_empty(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )
