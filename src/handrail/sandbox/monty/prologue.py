"""What an interpreter has before its first cell, in the Python that Monty runs.

`_host` hands JSON text to the host and reads the JSON text that it answers: nothing else crosses. What looks at the
variables after a cell keeps the builtins that it needs, since cells like to call a variable `type` or `list`. All of
this can be changed by the code that runs there, so the host believes none of it.
"""

from __future__ import annotations

from handrail.sandbox.kernel.program import NAMES, REPR_CHARS

ASK = "_handrail_ask"
"""The name that Monty does not know, so that a call of it comes to the host."""

LOOK = "_handrail_look(_handrail_locals(), _handrail_peek, _handrail_seed)"
"""What there is after a cell, as JSON; and the dice for the next one."""

PUT = "{name} = _handrail_loads(_handrail_text)\n_handrail_given[{name!r}] = {name}\n_handrail_text = None\nNone"

SEED = "_handrail_random.seed(_handrail_seed)"

_SOURCE = """
import json as _handrail_json
import random as _handrail_random

_handrail_locals = locals
_handrail_loads = _handrail_json.loads
_handrail_given = {}


def _handrail_keys(value, *, isinstance=isinstance, str=str, dict=dict, list=list, tuple=tuple, all=all):
    if isinstance(value, dict):
        return all([isinstance(key, str) and _handrail_keys(value[key]) for key in value])
    if not isinstance(value, (list, tuple)):
        return True
    return all([_handrail_keys(item) for item in value if isinstance(item, (dict, list, tuple))])


def _host(name, value=None, *, dumps=_handrail_json.dumps, len=len, isinstance=isinstance, str=str):
    if not isinstance(name, str):
        raise TypeError("the name of what the host is asked for must be text")
    try:
        text = dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}")
    if "{" in text and not _handrail_keys(value):
        raise ValueError("it is not JSON: a key is not text")
    if len(text) > LIMIT:
        raise ValueError(f"{len(text)} characters cannot cross: at most LIMIT bytes can")
    return _handrail_loads(_handrail_ask(name, text))


def _handrail_shown(value, left, *, dumps=_handrail_json.dumps, repr=repr, len=len, type=type, str=str):
    try:
        text = dumps(value, allow_nan=False, ensure_ascii=False)
        if len(text) <= left and ("{" not in text or _handrail_keys(value)):
            return text
        shown = value if type(value) is str else repr(value)
    except Exception:
        try:
            shown = repr(value)
        except Exception as error:
            shown = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return dumps(shown[:REPR_CHARS], ensure_ascii=False)


def _handrail_look(scope, peek, seed, *, given=_handrail_given, shown=_handrail_shown, type=type, len=len):
    _handrail_random.seed(seed)
    names = {}
    for name in scope:
        if len(names) == NAMES:
            break
        if name.startswith("_") or len(name) > 200 or (name in given and given[name] is scope[name]):
            continue
        names[name] = type(scope[name]).__name__[:200]
    values, left = {}, LIMIT
    for name in peek:
        if name in scope:
            values[name] = shown(scope[name], left)
            left -= len(values[name])
    return _handrail_json.dumps({"names": names, "values": values}, ensure_ascii=False)


_handrail_random.seed(_handrail_seed)
"""

_BUILTINS = (
    "abs all any bin bool bytes chr dict divmod enumerate filter float format frozenset getattr hash hex id int "
    "isinstance iter len list map max min next object oct ord pow print range repr reversed round set slice sorted "
    "str sum tuple type zip"
)
_BOUND = "".join(f"{name} = {name}\n_handrail_given[{name!r}] = {name}\n" for name in _BUILTINS.split())
"""Monty 1.4.0 takes the variable of a comprehension outside of functions for the builtin of that name, unless the name
is bound: `[id for id in ids]` would be a list of the function `id`."""


def prologue(message_bytes: int) -> str:
    constants = {"LIMIT": message_bytes, "REPR_CHARS": REPR_CHARS, "NAMES": NAMES}
    source = _SOURCE + _BOUND
    for name, value in constants.items():
        source = source.replace(name, str(value))
    return source
