"""A tool: a definition, the handler that does it, and how the executor treats its calls."""

from __future__ import annotations

import copy
import inspect
import itertools
import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType, GenericAlias
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    Protocol,
    Self,
    TypedDict,
    Unpack,
    overload,
    runtime_checkable,
)

import msgspec

from handrail.core.calls import ResultLabels
from handrail.core.canonical import digest
from handrail.core.confirmation import Locations
from handrail.core.dependencies import Deps, Deps_contra, fits, type_fits, type_name
from handrail.core.errors import InvalidArguments, InvalidDefinition, UsageError, describe_exception
from handrail.core.invocation import Invocation
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.redact import MASK, mask_fields, secret_fields
from handrail.core.secret_pointers import mask_pointers
from handrail.core.shared_values import SharedValues
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.tools.argument_roles import sends_out
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.handlers import Style, handler_style, is_async, without_partials
from handrail.tools.sandbox_access import SandboxAccess
from handrail.tools.schema.validator import Validator
from handrail.tools.types.schema import schema_of_node
from handrail.tools.types.signature import FunctionShape, handler_deps_type, read_function
from handrail.tools.types.type_nodes import read_type

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar  # with defaults, so that a bare `Tool` is one of anything

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
    F = TypeVar("F", bound=Callable[..., Any])
    F_co = TypeVar("F_co", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    F = TypeVar("F")
    F_co = TypeVar("F_co", covariant=True)

Isolation = Literal["loop", "thread", "process", "sandbox"]
Locate = Callable[[Mapping[str, Any]], Locations]
CheckOutput = Literal["enforce", "warn", "off"]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed or timed-out call is tried again. Never applied to a side effect that is not idempotent."""

    attempts: int = 3
    """The number of attempts, the first included."""
    first_delay: float = 0.1
    factor: float = 2.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_delay < 0 or self.factor < 0:
            raise InvalidDefinition(f"{self!r} cannot be used: at least one attempt, and no delay below 0")


class ToolOptions(TypedDict, total=False):
    """What `@tool(...)` takes: facts of the definition, then how calls are treated."""

    name: str
    description: str
    schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    side_effects: bool
    idempotent: bool
    timeout: float | None
    binding: Binding | None
    models: tuple[str, ...] | None
    tags: tuple[str, ...]
    untrusted: bool | tuple[str, ...]
    private: tuple[str, ...]
    own: tuple[str, ...]
    directs: tuple[str, ...]
    carries: tuple[str, ...]
    sends_out: bool
    extract: Any
    style: Style | None
    isolation: Isolation | None
    sandbox: SandboxAccess | None
    concurrency: int | None
    resource: Callable[[Mapping[str, Any]], Hashable] | None
    locate: Locate | None
    retry: Retry | None
    max_output: int | None
    repair: bool
    check_output: CheckOutput | None
    deduplicator: Any
    share: bool
    reconcile: Callable[[Invocation], Any] | None
    effect_key: tuple[str, ...] | None
    repeat_window: float | None
    replays: bool


_OF_DEFINITION = frozenset(ToolDefinition.__struct_fields__)
_serials = itertools.count()


class CalledAs(Generic[F_co]):
    """What is called exactly as another thing is. A `ParamSpec` would say it too, but of `[first, second]`, two tools
    with different parameters, mypy would then make a list of objects."""

    __slots__ = ()
    if TYPE_CHECKING:
        __call__: F_co


@runtime_checkable
class ChecksDependencies(Protocol):
    """A handler that gives the dependencies of its call on to tools of its own."""

    def check_deps(self, deps: Any, deps_type: Any = None) -> None:
        """
        Raises:
            UsageError: They are not what one of those tools needs.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Tool(CalledAs[F_co], Generic[Deps_contra, F_co]):
    """One tool: its definition, handler and options, checked and compiled when it is made.

    `Tool[Shop]` is one that needs a `Shop`. What `@tool` makes is called as the function was, for type checkers too.
    """

    definition: ToolDefinition
    handler: Callable[..., Any]
    style: Style | None = None
    """The style in which the handler is called; found from its signature unless given."""
    isolation: Isolation | None = None
    """The place where it runs. By default async handlers run in the loop and plain ones in a thread."""
    sandbox: SandboxAccess | None = None
    """What it may see and use in the sandbox; None is nothing but its own code."""
    concurrency: int | None = None
    """The most calls of this tool at once."""
    resource: Callable[[Mapping[str, Any]], Hashable] | None = None
    """Names what a call touches: two writers of one resource never overlap, and a write forgets its reads."""
    locate: Locate | None = None
    """Resolves the arguments that are paths, by name. Rules go by where they lead, and `Invocation.locations` tells
    the handler what was decided on. It may wait for the disk, so it is called in a thread."""
    retry: Retry | None = None
    max_output: int | None = None
    """Characters sent to the model; None takes the policy's."""
    repair: bool = False
    """Read arguments that are not quite JSON, or numbers written as text; each repair leaves a warning."""
    check_output: CheckOutput | None = None
    """What becomes of a result that does not fit the output schema: a failure, a warning, or nothing. None enforces a
    schema that was declared, and warns about one that was read off the function's annotation, which may be wrong."""
    deduplicator: Any = None
    share: bool = True
    """Identical read-only calls in flight share one execution. Say False where each call must differ, as for dice."""
    reconcile: Callable[[Invocation], Any] | None = None
    """Finds out what became of a call that was under way when the process died: its result, or None if it never ran."""
    effect_key: tuple[str, ...] | None = None
    """The arguments that say which effect it is, as `("order_id",)`: calls that agree in them mean the same effect.
    None is all arguments."""
    repeat_window: float | None = None
    """Seconds in which a client that was restarted gets the result of an equal call instead of a second effect; None
    takes the policy's."""
    replays: bool = False
    """Whatever it does, it does by calls of other tools, each under a key: then it may run again from its beginning,
    and each of those calls is answered from the record. Its own answers are never reused."""
    begins_runs: bool = False
    """Whatever it does, it does in a run that is named after the call, as an agent: then it may run again from its
    beginning, and takes that run up. Its answers are never reused."""
    ensemble: str | None = None
    deps_type: Any = None
    """What it needs as `Invocation.deps`; found from its signature unless given, and None if it needs nothing."""
    shape: FunctionShape | None = field(default=None, repr=False)

    name: str = field(init=False, repr=False)
    scoped_name: str = field(init=False, repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)
    """Everything that a scope may call it by."""
    reads: bool = field(init=False, repr=False)
    sends_out: bool = field(init=False, repr=False)
    """Whether what it is given leaves: it says so, or it is given the address of what it fetches."""
    reusable: bool = field(init=False, repr=False)
    repeatable: bool = field(init=False, repr=False)
    """Whether a call may also be tried again at once, or be answered by the result of another: not if what it does
    are calls of other tools, in its own run or in another."""
    validator: Validator = field(init=False, repr=False)
    output_validator: Validator | None = field(init=False, repr=False)
    secrets: frozenset[str] = field(init=False, repr=False)
    defaults: dict[str, Any] = field(init=False, repr=False)
    labels: ResultLabels | None = field(init=False, repr=False)
    """What is declared about the fields of its results."""
    serial: int = field(init=False, repr=False)
    """Tools are numbered as they are made."""
    sets: SharedValues = field(init=False, repr=False)
    """The registered sets whose newest tool this is: no set outlives any of its tools."""

    def __post_init__(self) -> None:
        definition = self.definition
        for limit in ("concurrency", "max_output"):
            value = getattr(self, limit)
            if value is not None and value < 1:
                raise InvalidDefinition(f"{limit} of {definition.name!r} must be at least 1, not {value!r}")
        known = definition.input_schema.get("properties", {})
        for argument in self.effect_key or ():
            if argument not in known:
                raise InvalidDefinition(
                    f"the effect key of {definition.name!r} names {argument!r}, which is not one of its arguments:"
                    f" {', '.join(known) or 'it has none'}"
                )
        schema, inferred = definition.output_schema, self.shape is not None and self.shape.output_schema
        scoped_name = f"{self.ensemble}:{definition.name}" if self.ensemble else definition.name
        bound = definition.binding
        compiled: dict[str, Any] = {
            "name": definition.name,
            "scoped_name": scoped_name,
            "names": (definition.name, scoped_name, *((bound.scope,) if bound else ())),
            "reads": not definition.side_effects,
            "sends_out": sends_out(definition),
            "reusable": definition.reusable,
            "repeatable": definition.reusable and not self.replays and not self.begins_runs,
            "check_output": self.check_output or ("warn" if schema is not None and schema == inferred else "enforce"),
            "style": self.style or handler_style(self.handler, definition.name),
            "deps_type": self.deps_type or (self.shape.deps_type if self.shape else handler_deps_type(self.handler)),
            "isolation": self.isolation or ("loop" if is_async(self.handler) else "thread"),
            "validator": Validator(definition.input_schema, f"the arguments of {definition.name!r}"),
            "output_validator": None
            if schema is None or self.check_output == "off"
            else Validator(schema, f"the result of {definition.name!r}", root="(result)"),
            "secrets": secret_fields(definition.input_schema),
            "defaults": {} if self.shape else schema_defaults(definition.input_schema),
            "labels": definition.labels,
            "serial": next(_serials),
            "sets": SharedValues(),
        }
        for name, value in compiled.items():
            object.__setattr__(self, name, value)
        if self.isolation == "loop" and not is_async(self.handler):
            raise InvalidDefinition(
                f"{self.name!r} is a plain function and would stop the event loop; make it async, or use "
                "isolation='thread' or 'process'"
            )
        if self.sandbox is not None and self.isolation != "sandbox":
            raise InvalidDefinition(
                f"{self.name!r} says what it may use in a sandbox, but runs in none; give it isolation='sandbox' too"
            )

        if self.deps_type is not None and self.isolation in ("process", "sandbox"):
            raise InvalidDefinition(
                f"{self.name!r} runs in another process and needs dependencies ({type_name(self.deps_type)}), which "
                "cannot cross to it; use isolation='thread', or let the function open what it needs itself"
            )

    @classmethod
    def from_function(cls, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        """Make a tool of a function; with `schema`, of any handler whose arguments that schema describes."""
        check_keyword_names("tool", options, ToolOptions.__annotations__)
        _check_function(function, named="name" in options)
        facts: dict[str, Any] = {key: value for key, value in options.items() if key in _OF_DEFINITION}
        if facts.get("extract") is not None:
            facts["extract"] = _extract_schema(facts["extract"])
        treatment: dict[str, Any] = {
            key: value for key, value in options.items() if key not in _OF_DEFINITION and key != "schema"
        }
        if (schema := options.get("schema")) is not None:
            source = without_partials(function)
            name = facts.pop("name", None) or getattr(source, "__name__", type(source).__name__)
            description = facts.pop("description", None) or inspect.getdoc(source) or ""
            return cls(ToolDefinition(name, description, schema, **facts), function, **treatment)
        if treatment.pop("style", None) not in (None, "arguments"):
            raise InvalidDefinition("a handler of another style does not show its arguments; give their schema too")
        if facts.get("output_schema") is not None:
            treatment.setdefault("check_output", "enforce")
        shape = read_function(function)
        read = {field: getattr(shape, field) for field in ("name", "description", "input_schema", "output_schema")}
        return cls(ToolDefinition(**{**read, **facts}), function, style="arguments", shape=shape, **treatment)

    @property
    def source(self) -> str:
        """The origin of the tool in words: its group, or the function that it is."""
        if self.ensemble:
            return f"ensemble {self.ensemble!r}"
        function = without_partials(self.handler)
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', None) or 'an unknown module'}.{name}"

    def described(self) -> dict[str, Any]:
        """The definition under the name that names it exactly."""
        return {**self.definition.to_dict(), "name": self.scoped_name}

    @property
    def digest(self) -> str:
        """Names exactly this definition: a word that was given for another one is not good for it."""
        return digest(self.described())

    @property
    def effects(self) -> str:
        """The effects in a word, for people."""
        if self.reads:
            return "reads"
        return "writes, idempotent" if self.definition.idempotent else "writes"

    def changed(self, **changes: Any) -> Self:
        """The same tool with other facts or other treatment."""
        check_keyword_names("changed", changes, _CHANGEABLE)
        facts = {key: value for key, value in changes.items() if key in _OF_DEFINITION}
        if facts.get("extract") is not None:
            facts["extract"] = _extract_schema(facts["extract"])
        treatment = {key: value for key, value in changes.items() if key not in _OF_DEFINITION}
        if facts.get("output_schema") is not None and self.check_output != "off":
            treatment.setdefault("check_output", "enforce")
        definition = msgspec.structs.replace(self.definition, **facts) if facts else self.definition
        return replace(self, definition=definition, **treatment)

    def complete(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the schema's defaults for what is absent; the handler may keep and change them."""
        return {**copy.deepcopy(self.defaults), **arguments} if self.defaults else arguments

    def masked(self, arguments: dict[str, Any] | str) -> dict[str, Any] | str:
        """Arguments as they may be written down: without the secrets, and without text that may hold one unseen."""
        if not self.secrets:
            return arguments
        if isinstance(arguments, str):
            try:
                return msgspec.json.encode(mask_fields(parse_object(arguments), self.secrets)).decode()
            except JSONTextError:
                return MASK
        masked: dict[str, Any] = mask_fields(arguments, self.secrets)
        return masked

    def secret_places(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """The places in valid arguments that the schema declares as secret, as JSON pointers."""
        return self.validator.secret_places(arguments)

    def exact(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Valid arguments without the secrets and with everything else: a person decides about these, and the record
        says that they ran. `masked` hides every field with the name of a secret, wherever it stands."""
        exact: dict[str, Any] = mask_pointers(arguments, self.secret_places(arguments))
        return exact

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Checked JSON as the types that the handler declares.

        Raises:
            InvalidArguments: A type refused the value for a reason its schema cannot say.
        """
        shape = self.shape
        if shape is None or not (shape.converters or shape.extra_converter):
            return arguments
        known = self.definition.input_schema.get("properties", {})
        converted = dict(arguments)
        for name, value in arguments.items():
            convert = shape.converters.get(name) if name in known else shape.extra_converter
            if convert is not None:
                try:
                    converted[name] = convert(value)
                except (ValueError, TypeError) as error:
                    raise InvalidArguments(f"{name}: {error}") from error
                except Exception as error:
                    raise InvalidArguments(f"{name}: {describe_exception(error)}") from error
        return converted

    def check_deps(self, deps: Any, deps_type: Any = None) -> None:
        """Check what a program gives its tools as `Invocation.deps`, or the type of what it will give with each call.

        Raises:
            UsageError: It is not what this tool needs.
        """
        if self.begins_runs and isinstance(self.handler, ChecksDependencies):
            self.handler.check_deps(deps, deps_type)
        if self.deps_type is None:
            return
        later = deps is None and deps_type is not None
        if type_fits(deps_type, self.deps_type) if later else fits(deps, self.deps_type):
            return
        needed = type_name(self.deps_type)
        if deps is None and not later:
            how = "none are given; a program gives them by Session(…, deps=…), Executor(…, deps=…) and the like"
        else:
            given = type_name(deps_type if later else type(deps))
            how = f"is given {given}; give all tools one object that each can use, or let this one take a Protocol"
        raise UsageError(f"tool {self.name!r} needs dependencies of the type {needed}, and {how}")

    def start(self, invocation: Invocation, arguments: dict[str, Any]) -> Any:
        """Call the handler in its style: the value, or the awaitable that gives it. Only the executor does this."""
        match self.style:
            case "invocation":
                return self.handler(invocation)
            case "context":
                return self.handler(invocation, arguments)
            case "named":
                return self.handler(invocation.tool_name, arguments)
        if self.shape is not None and self.shape.injected is not None:
            return self.handler(**arguments, **{self.shape.injected: invocation})
        return self.handler(**arguments)

    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """The plain function, as it was before it became a tool."""
            return self.handler(*args, **kwargs)

        # typing's own would ask for both: it knows no defaults before Python 3.13.
        __class_getitem__ = classmethod(GenericAlias)


def _extract_schema(extract: Any) -> dict[str, Any]:
    """The schema of an extract that was given as a schema or as a type."""
    if isinstance(extract, dict):
        return extract
    found: dict[str, Any] = schema_of_node(read_type(extract))
    return found


_CHANGEABLE = _OF_DEFINITION | keyword_names(Tool)


def schema_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema says of arguments that are left out."""
    properties = schema.get("properties", {})
    return {name: sub["default"] for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub}


class ToolDecorator(Protocol):
    """What `@tool(…)` is. Type checkers follow the dependencies of a function whose first parameter has their type."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Invocation[Deps], P], R], /
    ) -> Tool[Deps, Callable[Concatenate[Invocation[Deps], P], R]]: ...
    @overload
    def __call__(self, function: F, /) -> Tool[object, F]: ...


@overload
def tool(
    function: Callable[Concatenate[Invocation[Deps], P], R], /, **options: Unpack[ToolOptions]
) -> Tool[Deps, Callable[Concatenate[Invocation[Deps], P], R]]: ...
@overload
def tool(function: F, /, **options: Unpack[ToolOptions]) -> Tool[object, F]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> ToolDecorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(side_effects=True, timeout=5)`."""
    check_keyword_names("tool", options, ToolOptions.__annotations__)
    if function is not None:
        return Tool.from_function(function, **options)
    return lambda decorated: Tool.from_function(decorated, **options)


def _check_function(function: Any, *, named: bool) -> None:
    if isinstance(function, Tool):
        raise InvalidDefinition(f"{function.name!r} is a tool already; use it as it is")
    if not callable(function) and not isinstance(function, classmethod | staticmethod):
        raise InvalidDefinition(f"{function!r} is not a function; write @tool over a def, or tool(function)")
    if not named and getattr(function, "__name__", "") == "<lambda>":
        raise InvalidDefinition("a lambda has no name and no types; write a function with def")


def as_tool(value: Any) -> Tool:
    """A tool from whatever names one: a `Tool` or a function."""
    if isinstance(value, Tool):
        return value
    if isinstance(value, FunctionType):
        return _tool_of(value)
    if callable(value):
        return Tool.from_function(value)
    if callable(getattr(value, "as_tool", None)):
        raise InvalidDefinition(
            f"{type(value).__name__} {getattr(value, 'name', '')!r} is not a tool; give its as_tool()"
        )
    raise InvalidDefinition(f"{value!r} is not a tool; give a function, a Tool, or a definition with its handler")


_MADE = "__handrail_tool__"
"""The attribute of a function that holds the tool that was made of it. It goes when the function does."""


class _MadeTool:
    """The tool of a function, and what it was made from. Whoever pickles the function gets an empty one."""

    __slots__ = ("facts", "tool")

    def __init__(self, tool: Tool | None = None, facts: tuple[object, ...] = ()) -> None:
        self.tool = tool
        self.facts = facts

    def __reduce__(self) -> tuple[type[_MadeTool], tuple[()]]:
        return _MadeTool, ()


def _tool_of(function: FunctionType) -> Tool:
    """The tool that a function is, made once, unless what it is made from was replaced since."""
    facts = (function.__code__, function.__defaults__, function.__kwdefaults__, function.__doc__, function.__name__)
    made: _MadeTool = function.__dict__.get(_MADE) or _MadeTool()
    tool = made.tool
    # `functools.wraps` copies attributes: what is found may belong to the function inside.
    if tool is None or tool.handler is not function or not all(map(operator.is_, made.facts, facts)):
        tool = Tool.from_function(function)
        function.__dict__[_MADE] = _MadeTool(tool, facts)
    return tool
