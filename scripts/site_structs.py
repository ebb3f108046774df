"""Tells the reference of the site how values are made: a `Struct` has its fields as parameters, as a dataclass has.

Griffe reads sources without running them, and knows dataclasses only. A field that has no words of its own is in the
signature, and needs no heading besides.
"""

from __future__ import annotations

import ast
from typing import Any

from griffe import Attribute, Class, Extension, Function, ObjectNode, Parameter, ParameterKind, Parameters

_NO_FIELD = ("ClassVar", "Final")


class Structs(Extension):
    def on_class_members(self, *, node: ast.AST | ObjectNode, cls: Class, **_: Any) -> None:
        if not isinstance(node, ast.ClassDef) or all(_last(base) != "Struct" for base in cls.bases):
            return
        fields = [member for member in cls.members.values() if isinstance(member, Attribute) and _is_field(member)]
        cls.set_member("__init__", _made_with(fields, any(keyword.arg == "kw_only" for keyword in node.keywords)))
        for field in fields:
            if not field.has_docstring:
                cls.del_member(field.name)


def _last(base: object) -> str:
    return str(base).rpartition(".")[2]


def _is_field(member: Attribute) -> bool:
    return member.annotation is not None and not any(word in str(member.annotation) for word in _NO_FIELD)


def _made_with(fields: list[Attribute], keywords: bool) -> Function:
    kind = ParameterKind.keyword_only if keywords else ParameterKind.positional_or_keyword
    own = Parameter("self", kind=ParameterKind.positional_or_keyword)
    given = [Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value) for field in fields]
    return Function("__init__", parameters=Parameters(own, *given), returns="None")
