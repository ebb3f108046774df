"""A tool from a descriptor: the table that a TOML file, or a program, writes about it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import msgspec

from handrail.core.errors import InvalidDefinition, InvalidSchema
from handrail.tools.definition import NAME, ToolDefinition, why_name_is_unusable
from handrail.tools.definition_formats import LABELS
from handrail.tools.ensemble import ToolDefaults
from handrail.tools.files.label_keys import read_labels
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable
from handrail.tools.files.tool_bodies import BODIES, Resolve, ToolBody, import_function, read_body
from handrail.tools.handlers import handler_style
from handrail.tools.sandbox_access import SandboxAccess
from handrail.tools.schema.validator import Validator
from handrail.tools.tool import Isolation, Retry, Tool

Handlers = Mapping[str, Callable[..., Any]]
NO_HANDLERS: Handlers = MappingProxyType({})

DEDUPLICATORS = ("exact", "window", "semantic", "none")
_DEFAULTS = ("timeout", "max_retries", "deduplicator", "max_output")
_KEYS = (
    "name",
    "enabled",
    "description",
    "arguments",
    "returns",
    "side_effects",
    "idempotent",
    "effect_key",
    "repeat_window",
    *LABELS,
    *_DEFAULTS,
    "isolation",
    "sandbox",
    "concurrency",
    "repair",
    "tags",
    "models",
    "resource",
    *BODIES,
)
_ACCESS = ("read", "memory_bytes", "cpu_seconds", "disk_bytes", "reuse")
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def build_tool(descriptor: Mapping[str, Any], *, handlers: Handlers = NO_HANDLERS, base: Path | None = None) -> Tool:
    """Make the tool that a descriptor describes. Paths in it are relative to `base`.

    Raises:
        ConfigError: Something in it is wrong; the error names the key.
    """
    named = descriptor.get("name") or descriptor.get("invoker", {}).get("name") or "(unnamed)"
    return make_tool(
        flat_descriptor(TomlTable(descriptor, TomlKeyPath(f"descriptor of {named!r}", folder=base))), handlers
    )


def read_defaults(table: Mapping[str, Any]) -> ToolDefaults:
    """What the tools of an ensemble get where they say nothing.

    Raises:
        ConfigError: A key is unknown or its value is wrong.
    """
    return defaults_in_table(TomlTable(table, TomlKeyPath("defaults")))


def defaults_in_table(table: TomlTable) -> ToolDefaults:
    table.only(_DEFAULTS)
    return ToolDefaults(
        timeout=table.seconds("timeout"),
        max_retries=table.count("max_retries", 0),
        deduplicator=_deduplicator(table),
        max_output=table.count("max_output", 1),
    )


def flat_descriptor(table: TomlTable) -> TomlTable:
    """A descriptor whose facts stand in a table `invoker` of their own, as one table."""
    facts = table.table("invoker")
    if facts is None:
        return table
    outer = table.without("invoker")
    for key, value in facts.values.items():
        if key in outer and outer.values[key] != value:
            raise outer.error(key, f"is given here and in [invoker] at {facts.at(key)}; keep one")
    return facts.over(outer)


def make_tool(table: TomlTable, handlers: Handlers = NO_HANDLERS, resolve: Resolve = import_function) -> Tool:
    """Builds a tool like `build_tool`, from a table that knows its place. `resolve` finds the function of a Python
    body."""
    table.only(_KEYS)
    name = tool_name_in(table)
    table.flag("enabled")
    schema = _schema(table, name)
    body = read_body(table, name, schema or _NO_ARGUMENTS, handlers, resolve)
    try:
        tool = _assembled(name, body, schema, _facts(table, body))
    except InvalidSchema as error:
        raise table.error("returns", error.why) from error
    except InvalidDefinition as error:
        labels = ("directs", "carries") if str(error).startswith(("directs of", "carries of")) else ()
        key = next(key for key in (*labels, "isolation", *BODIES, "name") if key in table)
        raise table.error(key, str(error)) from error
    _check_resource(table, tool)
    return tool


def tool_name_in(table: TomlTable) -> str:
    name = table.text("name")
    if not name:
        raise table.place.error("a tool needs a name")
    if not NAME.fullmatch(name):
        raise table.error("name", f"{name!r} {why_name_is_unusable(name)}")
    return name


def _schema(table: TomlTable, name: str) -> dict[str, Any] | None:
    schema = table.json("arguments")
    if schema is None:
        return None
    try:
        Validator(schema, f"the arguments of {name!r}")
    except InvalidSchema as error:
        raise table.error("arguments", error.why) from error
    if schema.get("type", "object") != "object":
        raise table.at("arguments").at("type").error("must be 'object': arguments have names")
    return schema


def _facts(table: TomlTable, body: ToolBody) -> dict[str, Any]:
    """Every fact that the descriptor or the kind of its body states, as `Tool.changed` takes it."""
    retries = table.count("max_retries", 0)
    resource = table.text("resource")
    effects = table.flag("side_effects")
    stated = {
        "description": table.text("description"),
        "output_schema": table.json("returns"),
        "side_effects": body.side_effects if effects is None else effects,
        "idempotent": table.flag("idempotent"),
        "effect_key": table.texts("effect_key"),
        "repeat_window": table.seconds("repeat_window"),
        **read_labels(table),
        "timeout": table.seconds("timeout"),
        "tags": table.texts("tags"),
        "models": table.texts("models"),
        "retry": None if retries is None else Retry(attempts=retries + 1),
        "deduplicator": _deduplicator(table),
        "max_output": table.count("max_output", 1),
        "isolation": _isolation(table, body),
        "sandbox": _sandbox(table),
        "concurrency": table.count("concurrency", 1),
        "repair": table.flag("repair"),
        "resource": None if resource is None else ResourceByArgument(resource),
    }
    return {key: value for key, value in stated.items() if value is not None}


def _assembled(name: str, body: ToolBody, schema: dict[str, Any] | None, facts: dict[str, Any]) -> Tool:
    handler = body.handler
    if isinstance(handler, Tool):
        return handler.changed(name=name, **facts, **({} if schema is None else {"input_schema": schema}))
    if schema is None and body.from_signature and handler_style(handler, name) == "arguments":
        return Tool.from_function(handler).changed(name=name, **facts)
    definition = {key: facts[key] for key in facts if key in ToolDefinition.__struct_fields__}
    treatment = {key: facts[key] for key in facts if key not in definition}
    return Tool(ToolDefinition(name=name, input_schema=schema or _NO_ARGUMENTS, **definition), handler, **treatment)


@dataclass(frozen=True, slots=True)
class ResourceByArgument:
    """Names the resource of a call by the value of one argument."""

    name: str

    def __call__(self, arguments: Mapping[str, Any]) -> Hashable:
        value = arguments.get(self.name)
        return value if isinstance(value, Hashable) else msgspec.json.encode(value, order="sorted")


def _check_resource(table: TomlTable, tool: Tool) -> None:
    name = table.text("resource")
    known = tool.definition.input_schema.get("properties", {})
    if name is not None and name not in known:
        raise table.error("resource", f"{name!r} is not an argument; the arguments are {', '.join(known) or 'none'}")


def _isolation(table: TomlTable, body: ToolBody) -> str | None:
    isolation = table.choice("isolation", get_args(Isolation))
    if isolation not in (None, "loop") and not body.from_signature:
        raise table.error("isolation", "only a python body can be isolated; a command is a process of its own already")
    return isolation


def _sandbox(table: TomlTable) -> SandboxAccess | None:
    """What may be read is relative to the file, as every path in it is."""
    inner = table.table("sandbox")
    if inner is None:
        return None
    inner.only(_ACCESS)
    folder = table.place.folder or Path.cwd()
    stated: dict[str, Any] = {
        "read": tuple(folder / path for path in inner.texts("read") or ()),
        "memory_bytes": inner.count("memory_bytes", 1),
        "cpu_seconds": inner.seconds("cpu_seconds"),
        "disk_bytes": inner.count("disk_bytes", 1),
        "reuse": inner.flag("reuse"),
    }
    try:
        return SandboxAccess(**{key: value for key, value in stated.items() if value is not None})
    except InvalidDefinition as error:
        raise table.error("sandbox", str(error)) from error


def _deduplicator(table: TomlTable) -> Any:
    """A name, or a table with `kind`; the executor makes one of it."""
    value = table.values.get("deduplicator")
    if isinstance(value, dict):
        inner = TomlTable(value, table.at("deduplicator"))
        if inner.choice("kind", DEDUPLICATORS) is None:
            raise inner.error("kind", f"must be one of {', '.join(map(repr, DEDUPLICATORS))}")
        return dict(value)
    return table.choice("deduplicator", DEDUPLICATORS)
