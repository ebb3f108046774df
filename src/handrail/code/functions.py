"""Tools as functions of Python: what code calls them, how a model is told to call them, and the source of each.

The source runs in CPython and in Monty. Each function gathers its arguments and asks `_host`; what they are is checked
by the executor, as for any other call.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from handrail.code.sheltered import sheltered
from handrail.tools.tool import Tool

CALL = sheltered("""
def _call(tool, signature, names, required, more, args, kwargs):
    if len(args) > len(names):
        raise TypeError(signature + " takes " + str(len(names)) + " arguments at most, not " + str(len(args)))
    given = dict(zip(names, args))
    for name in kwargs:
        if name in given:
            raise TypeError(signature + " was given " + repr(name) + " twice")
        if name not in names and not more:
            raise TypeError(signature + " has no argument " + repr(name))
        given[name] = kwargs[name]
    for name in required:
        if name not in given:
            raise TypeError(signature + " needs " + repr(name))
    return _host(tool, given)
""")


def python_name(name: str) -> str:
    """What a tool is called in code: `gh.search-code` is `gh_search_code`."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{plain}" if plain[:1].isdigit() or keyword.iskeyword(plain) else plain


def signature(tool: Tool, name: str = "") -> str:
    """How a tool is called, in words: `get_stats(question: string, most: integer = 10)`."""
    schema = tool.definition.input_schema
    required = schema.get("required", [])
    said = [_parameter(key, schema["properties"][key], key in required) for key in _parameters(schema)]
    return f"{name or python_name(tool.name)}({', '.join(said)})"


def _parameter(name: str, schema: Any, is_required: bool) -> str:
    schema = schema if isinstance(schema, dict) else {}
    kind = schema.get("type", "any")
    words = f"{name}: {kind if isinstance(kind, str) else ' | '.join(map(str, kind))}"
    if "default" in schema:
        return f"{words} = {schema['default']!r}"
    return words if is_required else f"{words} = …"


def _parameters(schema: Mapping[str, Any]) -> list[str]:
    """In order, those that are needed first: so may they be given without their names."""
    required = schema.get("required", [])
    names = list(schema.get("properties", {}))
    return [*(name for name in names if name in required), *(name for name in names if name not in required)]


def function_source(tool: Tool, name: str) -> str:
    """Python that defines the function of a tool. `CALL` must have run before."""
    schema = tool.definition.input_schema
    names = tuple(_parameters(schema))
    required = tuple(key for key in schema.get("required", []) if isinstance(key, str))
    more = schema.get("additionalProperties", True) is not False
    said = signature(tool, name)
    about = f"{said}\n\n{tool.definition.description}".strip()
    return (
        f"def {name}(*args, **kwargs):\n"
        f"    {_literal(about)}\n"
        f"    return _call({tool.name!r}, {_literal(said)}, {names!r}, {required!r}, {more!r}, args, kwargs)\n"
    )


def _literal(text: str) -> str:
    """Text as Python that both interpreters read alike."""
    return ascii(text)
