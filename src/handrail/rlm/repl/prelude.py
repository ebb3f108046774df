"""What code in a REPL can call: Python that CPython and Monty both run before the first cell.

Each function gathers its arguments and asks `_host`. Handlers stay in the REPL: the
host says which calls there are, and the code here runs the handler and posts its result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from handrail.core.errors import UsageError
from handrail.rlm.repl.final_answers import FUNCTIONS, NAMES as FINALS
from handrail.rlm.repl.query_tools import QUERIES
from handrail.run.code.bridge import shelter_builtins
from handrail.run.code.functions import CALL, function_source, python_name
from handrail.tools.tool import Tool

RESERVED = frozenset({*QUERIES, *FINALS, "context", "history", "tool_handler", "handled", "show_vars"})
"""Names that no tool of a user may have: they are taken in the REPL, or by what it asks of the host."""
_NUMBERED = re.compile(r"(context|history)_\d+")

SOURCE = shelter_builtins('''
import asyncio as _asyncio
import json as _json

def _said(**given):
    return {name: given[name] for name in given if given[name] is not None}

def _check_prompt(prompt):
    if not isinstance(prompt, (str, list)):
        raise ValueError("Invalid prompt type: " + type(prompt).__name__ + "; give text, or a list of messages")

def _check_prompts(prompts):
    if not isinstance(prompts, (list, tuple)):
        raise ValueError("Invalid prompts: give a list of them, not " + type(prompts).__name__)
    for prompt in prompts:
        _check_prompt(prompt)

def _check_handlers(prompts, tools, handlers):
    if tools is None:
        return
    if handlers is None:
        raise ValueError("tool_handler is required when tools are provided")
    if isinstance(handlers, (list, tuple)):
        if len(handlers) != len(prompts):
            raise ValueError("Invalid tool_handler: give one, or one for each of the " + str(len(prompts)) + " prompts")
        each = any([item is None or isinstance(item, (list, tuple)) for item in tools])
        for at, handler in enumerate(handlers):
            if handler is None and not (each and at < len(tools) and tools[at] is None):
                raise ValueError("tool_handler is required when tools are provided")

def _text_of(value):
    if isinstance(value, str):
        return value
    try:
        return _json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise TypeError("its result is not JSON: " + str(error))

def _awaited(value):
    try:
        return _asyncio.run(value)
    except RuntimeError as error:
        if "running event loop" not in str(error):
            raise
        value.close()
        raise RuntimeError("an async tool_handler cannot run in code that is itself awaited; make it a plain function")

def _handle(call, handlers):
    handler = handlers[call["index"]] if isinstance(handlers, (list, tuple)) else handlers
    try:
        value = handler(call["name"], call["arguments"])
        if type(value).__name__ == "coroutine":
            value = _awaited(value)
        return {"ticket": call["ticket"], "value": _text_of(value)}
    except Exception as error:
        return {"ticket": call["ticket"], "error": str(error) or type(error).__name__}

def _posted(result):
    try:
        return _host("handled", {"results": [result]})
    except ValueError as error:
        words = "its result cannot be used: " + str(error)
    return _host("handled", {"results": [{"ticket": result["ticket"], "error": words}]})

def _answered(reply, handlers=None):
    while "done" not in reply:
        for call in reply["calls"]:
            reply = _posted(_handle(call, handlers))
    return reply["done"]

def llm_query(
    prompt, model=None, response_format=None, tools=None, tool_handler=None, *, tool_choice=None, max_iterations=None
):
    """Ask a model; with tools, until it answers without calling one. An error is text: __LLM_ERROR__|…"""
    _check_prompt(prompt)
    if tools is not None and tool_handler is None:
        raise ValueError("tool_handler is required when tools are provided")
    more = _said(tools=tools, tool_choice=tool_choice, max_iterations=max_iterations)
    asked = _said(prompt=prompt, model=model, response_format=response_format, **more)
    return _answered(_host("llm_query", asked), tool_handler)

def llm_query_batched(
    prompts, model=None, response_formats=None, tools=None, tool_handler=None, *, tool_choice=None, max_iterations=None
):
    """Ask a model about each prompt, several at once. The answers are in the order of the prompts."""
    _check_prompts(prompts)
    _check_handlers(prompts, tools, tool_handler)
    more = _said(tools=tools, tool_choice=tool_choice, max_iterations=max_iterations)
    asked = _said(prompts=list(prompts), model=model, response_formats=response_formats, **more)
    return _answered(_host("llm_query_batched", asked), tool_handler)

def tool_handler(name, arguments):
    """Call one of the tools by its name. Its result as text: JSON, unless it is text already."""
    return _text_of(_host(name, arguments))

def rlm_query(prompt, model=None):
    """Have a model with a REPL of its own work on a prompt."""
    _check_prompt(prompt)
    return _answered(_host("rlm_query", _said(prompt=prompt, model=model)))

def rlm_query_batched(prompts, model=None):
    """Have a model with a REPL of its own work on each prompt. The answers are in the order of the prompts."""
    _check_prompts(prompts)
    return _answered(_host("rlm_query_batched", _said(prompts=list(prompts), model=model)))
''')

_DEFINED = re.findall(r"^(?:def |import \w+ as )(\w+)", FUNCTIONS + CALL + SOURCE, re.MULTILINE)
_OWN = frozenset({"_host", "_final", "_seen", *_DEFINED})


def prelude(tools: Iterable[Tool] = ()) -> str:
    """The source to run first, and again when code has overwritten what it defines.

    It keeps no state, so running it again changes nothing else. `FINAL` and its like are in `finals`.

    Raises:
        UsageError: A tool has a name that is taken here, or two of them are one in Python.
    """
    parts = [SOURCE, CALL]
    taken: dict[str, str] = {}
    for tool in tools:
        name = python_name(tool.name)
        if is_taken(name):
            raise UsageError(f"a tool cannot be called {tool.name!r} here: the REPL has that name already; rename it")
        if (other := taken.setdefault(name, tool.name)) != tool.name:
            raise UsageError(f"the tools {other!r} and {tool.name!r} would both be {name!r} in the REPL; rename one")
        parts.append(function_source(tool, name))
    return "\n".join(parts)


def is_taken(name: str) -> bool:
    """Whether code in the REPL has something else under that name, also if it is never to call it."""
    return name in RESERVED or name in _OWN or _NUMBERED.fullmatch(name) is not None


def functions(tools: Iterable[Tool] = ()) -> frozenset[str]:
    """The public names that the prelude binds, each to a function."""
    return frozenset({*QUERIES, "tool_handler", *(python_name(tool.name) for tool in tools)})
