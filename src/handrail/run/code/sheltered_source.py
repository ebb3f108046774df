"""Python of our own in a REPL, sheltered from what code there calls its variables.

Models like to call a variable `list`, `str` or `type`. Our functions there would find that instead of the builtin, and
then no model could be asked any more, and no answer be given. So they have the builtins under names of their own.
"""

from __future__ import annotations

import ast

_NAMES = frozenset(
    {"all", "any", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max", "min", "range"}
    | {"repr", "sorted", "str", "tuple", "type", "zip"}
)
_PREFIX = "_builtin_"
_KEPT = "\n".join(
    ("try:", "    _builtin_len", "except NameError:", *(f"    {_PREFIX}{name} = {name}" for name in sorted(_NAMES)))
)
"""Only the first time: later, a name may be somebody's variable."""


def shelter_builtins(source: str) -> str:
    """The same code, where it reads a builtin by a name of its own. Running it twice changes nothing."""
    lines = source.encode().splitlines(keepends=True)
    found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name) and each.id in _NAMES]
    for name in sorted(found, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        line = lines[name.lineno - 1]
        lines[name.lineno - 1] = line[: name.col_offset] + _PREFIX.encode() + line[name.col_offset :]
    return f"{_KEPT}\n{b''.join(lines).decode()}"
