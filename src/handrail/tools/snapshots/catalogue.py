"""What a node has to offer, as a value: its tools and its models, in one order and without contradictions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import InvalidDefinition
from handrail.core.jsontext import why_not_json
from handrail.tools.definition import NAME, why_name_is_unusable
from handrail.tools.registry import RegisteredTools
from handrail.tools.schema.validator import Validator
from handrail.tools.tool import Tool

_WORDS = re.compile(r"[A-Za-z0-9]+")


def pascal_case(name: str) -> str:
    """`read-file` as `ReadFile`. Two names may come to the same: who writes them side by side must look."""
    made = ""
    for word in _WORDS.findall(name):
        # Or 1.2 and 12 would be one.
        apart = "_" if made[-1:].isdigit() and word[0].isdigit() else ""
        made += apart + word[0].upper() + word[1:]
    if not made:
        return f"Underscore{len(name)}"
    if made[0].isdigit():
        return f"N{made}"
    return "SelfTool" if made == "Self" else made  # the one word with a capital that Rust keeps for itself


def bracketed(items: Iterable[str], depth: int, brackets: str, indent: str) -> str:
    """Written items one below the other, each with a comma, between two brackets."""
    lines = "".join(f"{indent * (depth + 1)}{item},\n" for item in items)
    return f"{brackets[0]}\n{lines}{indent * depth}{brackets[1]}" if lines else brackets


def ascii_only(text: str) -> str:
    """One line of letters that cannot deceive a reader, for comments."""
    joined = " ".join(text.split())
    return "".join(map(ascii_letter, joined))


def ascii_letter(letter: str) -> str:
    return letter if " " <= letter <= "~" else f"\\u{{{ord(letter):x}}}"


MAX_DEPTH = 60
"""The greatest depth of a schema, so that every compiler can follow it."""
LARGEST = 10**300
"""Of a number, so that every language has it."""


class CatalogueTool(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool as compiled programs see it. A value that the source does not name is None, and is left out."""

    name: str
    scoped_name: str | None = None
    """`ensemble:tool`, where it belongs to a group."""
    description: str | None = None
    input_schema: dict[str, Any]
    returns_schema: dict[str, Any] | None = None
    side_effects: bool | None = None
    idempotent: bool | None = None
    timeout_ms: int | None = None
    tags: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    """The models that may call it; None is every model that calls tools."""

    @property
    def identifier(self) -> str:
        """What it is called in the code that is written."""
        return pascal_case(self.name)


class CatalogueModel(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A model in a snapshot, and the tools that it may call."""

    id: str
    provider: str | None = None
    model: str | None = None
    """The name that its provider gives the model."""
    supports_tool_calls: bool = True
    tools: tuple[str, ...] | None = None
    """The names that are valid for it. None, while it is not yet in a catalogue: those that let it call them."""


class NodeCatalogue(Struct, frozen=True, kw_only=True):
    """Tools by name and models by id, each in its order. `NodeCatalogue.of` makes one and checks it."""

    tools: tuple[CatalogueTool, ...] = ()
    models: tuple[CatalogueModel, ...] = ()

    @classmethod
    def of(cls, tools: Iterable[CatalogueTool], models: Iterable[CatalogueModel] = ()) -> NodeCatalogue:
        """Checks tools and models and puts them in order.

        Raises:
            InvalidDefinition: Two have one name or one identifier, a schema cannot be used, or a model names a tool
                that is not there or not for it.
        """
        ordered = tuple(sorted(map(_checked, tools), key=lambda tool: tool.name))
        _distinct([tool.name for tool in ordered], "tools are called")
        _distinct([tool.scoped_name for tool in ordered if tool.scoped_name], "tools are called")
        _distinct_identifiers(ordered)
        known = sorted(models, key=lambda model: model.id)
        _distinct([model.id for model in known], "models have the id")
        return cls(tools=ordered, models=tuple(_linked(model, ordered) for model in known))


def catalogue_tool(tool: Tool) -> CatalogueTool:
    """A tool of this program."""
    definition = tool.definition
    return CatalogueTool(
        name=tool.name,
        scoped_name=tool.scoped_name if tool.ensemble else None,
        description=definition.description or None,
        input_schema=definition.input_schema,
        returns_schema=definition.output_schema,
        side_effects=definition.side_effects,
        idempotent=definition.idempotent or None,
        timeout_ms=definition.timeout_ms,
        tags=definition.tags or None,
        models=definition.models,
    )


def catalogue_of(tools: RegisteredTools, models: Iterable[CatalogueModel] = ()) -> NodeCatalogue:
    """The catalogue of a closed set of tools and the models that may call them.

    Raises:
        InvalidDefinition: As `NodeCatalogue.of`.
    """
    return NodeCatalogue.of(map(catalogue_tool, tools), models)


def _checked(tool: CatalogueTool) -> CatalogueTool:
    if not NAME.fullmatch(tool.name):
        raise InvalidDefinition(f"tool name {tool.name!r} {why_name_is_unusable(tool.name)}")
    if tool.timeout_ms is not None and not 0 < tool.timeout_ms < 2**63:
        raise InvalidDefinition(f"the timeout of {tool.name!r} must be more than 0 ms, not {tool.timeout_ms}")
    if tool.input_schema.get("type", "object") != "object":
        raise InvalidDefinition(f"the input schema of {tool.name!r} must describe an object: arguments have names")
    for schema, what in ((tool.input_schema, "arguments"), (tool.returns_schema, "result")):
        if schema is not None:
            _check_schema(schema, f"the {what} of {tool.name!r}")
    words = [tool.scoped_name, tool.description, *(tool.tags or ()), *(tool.models or ())]
    if (why := why_not_json([word for word in words if word is not None])) is not None:
        raise InvalidDefinition(f"tool {tool.name!r} cannot be written down: {why}")
    return replace(
        tool,
        tags=None if tool.tags is None else tuple(sorted(set(tool.tags))),
        models=None if tool.models is None else tuple(sorted(set(tool.models))),
    )


def _check_schema(schema: dict[str, Any], what: str) -> None:
    why = why_not_json(schema, MAX_DEPTH) or _too_large(schema)
    if why is not None:
        raise InvalidDefinition(f"the schema of {what} cannot be written down: {why}")
    Validator(schema, what)


def _too_large(value: Any) -> str | None:
    match value:
        case dict():
            return next(filter(None, map(_too_large, value.values())), None)
        case list() | tuple():
            return next(filter(None, map(_too_large, value)), None)
        case int() if abs(value) > LARGEST:
            return "a number in it is too large"
    return None


def _distinct(names: Sequence[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidDefinition(f"two {what} {twice[0]!r}; rename one")


def _distinct_identifiers(tools: Iterable[CatalogueTool]) -> None:
    taken: dict[str, str] = {}
    for tool in tools:
        other = taken.setdefault(tool.identifier, tool.name)
        if other != tool.name:
            raise InvalidDefinition(
                f"the tools {other!r} and {tool.name!r} would both be called {tool.identifier} in code; rename one"
            )


def _linked(model: CatalogueModel, tools: Sequence[CatalogueTool]) -> CatalogueModel:
    """The model with the tools that are valid for it."""
    if not model.id or (why := why_not_json([model.id, model.provider, model.model])) is not None:
        raise InvalidDefinition(
            f"a model with the id {model.id!r} cannot be written down: {why if model.id else 'empty'}"
        )
    valid = {tool.name for tool in tools if _open_to(tool, model)}
    if model.tools is None:
        return replace(model, tools=tuple(sorted(valid)))
    for name in model.tools:
        if name not in valid:
            there = any(tool.name == name for tool in tools)
            why = "which is not for it" if there else "which is not there"
            raise InvalidDefinition(f"model {model.id!r} names the tool {name!r}, {why}")
    return replace(model, tools=tuple(sorted(set(model.tools))))


def _open_to(tool: CatalogueTool, model: CatalogueModel) -> bool:
    if not model.supports_tool_calls:
        return False
    return tool.models is None or not {model.id, model.model or model.provider}.isdisjoint(tool.models)
