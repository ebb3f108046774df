"""Answers `_host(name, value)` of code that calls tools: each call goes to the executor under a key.

Calls are numbered in the order in which the code makes them. Code that runs again makes the same calls under the same
keys, and each has its one answer.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Container
from typing import Any, Self

from handrail.core.calls import ToolResult
from handrail.run.code.callers import CodeCaller
from handrail.sandbox.port import JSON, HostError

_NAMES = frozenset(
    {"all", "any", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max", "min", "range"}
    | {"repr", "sorted", "str", "tuple", "type", "zip"}
)
_PREFIX = "_builtin_"
_KEPT = "\n".join(
    ("try:", "    _builtin_len", "except NameError:", *(f"    {_PREFIX}{name} = {name}" for name in sorted(_NAMES)))
)
"""Keeps the builtins under names of their own, only the first time: later, code may have variables with these names."""


def shelter_builtins(source: str) -> str:
    """The same code, where it reads a builtin by a name of its own. Running it twice changes nothing."""
    lines = source.encode().splitlines(keepends=True)
    found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name) and each.id in _NAMES]
    for name in sorted(found, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        line = lines[name.lineno - 1]
        lines[name.lineno - 1] = line[: name.col_offset] + _PREFIX.encode() + line[name.col_offset :]
    return f"{_KEPT}\n{b''.join(lines).decode()}"


CALL_ALL = "call_all"
FIND = "find_functions"
OWN = (CALL_ALL, FIND)
"""What code can call besides the tools."""

SOURCE = shelter_builtins('''
def call_all(calls):
    """Call several tools at once: [(name, arguments), …]. The results are in the order of the calls."""
    for call in calls:
        if not isinstance(call, (list, tuple)) or len(call) != 2:
            raise TypeError("call_all takes a list of (name, arguments), such as [('read', {'id': 1})]")
    return _host("call_all", [list(call) for call in calls])

def find_functions(words):
    """The signatures of the functions that fit these words best, or that have one of these names."""
    return _host("find_functions", str(words))
''')


class ToolBridge:
    """Answers the host calls of the code in one `run_code` call."""

    def __init__(
        self, caller: CodeCaller, names: dict[str, str], known: Container[str], most: int, find: Callable[[str], str]
    ) -> None:
        """
        Args:
            caller: Settles the calls.
            names: The names of tools by those of their functions.
            known: The names of the tools that code may call.
            most: Calls that the code may make. Many at once are one message, so the sandbox does not count them.
            find: The signatures of the functions that fit some words. It changes nothing, and has no key.
        """
        self._caller = caller
        self._names = names
        self._known = known
        self._most = most
        self._find = find
        self._calls = 0

    async def __call__(self, name: str, value: JSON) -> JSON:
        """The value of what code asks the host for.

        Raises:
            HostError: The call gave no value, in words for whoever wrote the code.
        """
        if name == FIND:
            return self._find(str(value))
        if name != CALL_ALL:
            return await self._call(*self._asked(name, value))
        if not isinstance(value, list):
            raise HostError("call_all takes a list of (name, arguments)", "TypeError")
        asked = [self._one_of_many(each) for each in value]
        found = await asyncio.gather(*(self._call(*each) for each in asked), return_exceptions=True)
        failed = [each for each in found if isinstance(each, BaseException)]
        for each in sorted(failed, key=lambda each: isinstance(each, HostError)):  # first what ends the code
            raise each
        return found

    def _one_of_many(self, each: JSON) -> tuple[str, dict[str, Any], str]:
        match each:
            case [str(name), arguments]:
                return self._asked(self._names.get(name, name), arguments)
        raise HostError("call_all takes a list of (name, arguments)", "TypeError")

    def _asked(self, name: str, value: JSON) -> tuple[str, dict[str, Any], str]:
        if name not in self._known:
            raise HostError(f"there is no tool {name!r} here", "NameError")
        if not isinstance(value, dict):
            raise HostError(f"{name} takes its arguments by name, as an object", "TypeError")
        if self._calls >= self._most:
            raise HostError(f"this code has made {self._most:,} calls, which is the limit; do the rest in another one")
        self._calls += 1
        return name, value, str(self._calls)

    async def _call(self, name: str, arguments: dict[str, Any], key: str) -> JSON:
        return result_value(await self._caller.invoke(name, arguments, key=key))

    def again(self) -> None:
        """The code runs again from its beginning."""
        self._calls = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Has nothing to end: each call is awaited where it is made."""


def result_value(result: ToolResult) -> JSON:
    """What a function returns for a call.

    Raises:
        HostError: The call failed.
    """
    if result.is_error:
        raise HostError(result.text)
    return result.content
