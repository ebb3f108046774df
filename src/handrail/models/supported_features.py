"""What a request can ask of one model: its tools, its choice and its schemas, as far as the profile goes.

Where a service cannot be told something, the nearest thing that it can be told is
chosen, and a notice says what is then not enforced.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import UsageError
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.projection import rules
from handrail.models.projection.project import project
from handrail.tools.schema.left_out_nulls import without_nulls

_RULES = {
    each.name: each for each in (rules.OPENAI, rules.ANTHROPIC, rules.GEMINI, rules.OLLAMA, rules.BEDROCK, rules.FULL)
}


class SupportedTools(Struct, frozen=True):
    """The tools that are sent, and the choice in a form that the service takes."""

    tools: tuple[ToolOffer, ...] = ()
    choice: ToolChoice = "auto"
    notices: tuple[str, ...] = ()


class ServiceSchema(Struct, frozen=True):
    """A schema as the service takes it, and whether it is held to it."""

    schema: dict[str, Any]
    strict: bool
    lost: tuple[str, ...] = ()


def supported_tools(
    request: ModelRequest, profile: Profile, *, searches: bool = False, runs_programs: bool = False
) -> SupportedTools:
    """Which tools to send, and which choice. A wire without a search of its own is not sent deferred tools, and one
    that runs no programs is not told of them.

    Raises:
        UsageError: The choice names a tool that is not offered.
    """
    if not searches and has_deferred_tools(request.tools):
        request = replace(request, tools=_shown(request.tools))
    check_choice(request)
    if has_program_tools(request.tools):
        return _with_programs(request, profile, searches=searches, runs_programs=runs_programs)
    choice = request.tool_choice
    if not request.tools or profile.tools != "native":
        return SupportedTools(notices=_unheeded(request))
    forms = profile.tool_choice
    match choice:
        case NamedTool(name):
            if "named" in forms:
                return SupportedTools(request.tools, choice)
            only = tuple(tool for tool in request.tools if tool.name == name)
            return _required(only, f"the tool {name!r}", profile)
        case "none" if "none" not in forms:
            return SupportedTools()
        case "required" if "required" not in forms:
            return _required(request.tools, "a tool", profile)
    return SupportedTools(request.tools, choice)


def _with_programs(request: ModelRequest, profile: Profile, *, searches: bool, runs_programs: bool) -> SupportedTools:
    """The same for tools that programs may call. A service that runs programs is made to call none of them by name."""
    plain = replace(request, tools=_without_programs(request.tools))
    if not runs_programs:
        offer = supported_tools(plain, profile, searches=searches)
        notice = "this model's service runs no programs that call tools; the model calls the tools itself"
        return replace(offer, notices=(*offer.notices, notice))
    forced = request.tool_choice not in ("auto", "none")
    offer = supported_tools(replace(plain, tool_choice="auto") if forced else plain, profile, searches=searches)
    notice = "a call cannot be forced where programs call the tools; tools are offered, not enforced"
    notices = (*offer.notices, notice) if forced else offer.notices
    return SupportedTools(request.tools if offer.tools else (), offer.choice, notices)


@cached_by_identity
def has_program_tools(tools: tuple[ToolOffer, ...]) -> bool:
    """Whether programs may call some of them."""
    return any(tool.by_program for tool in tools)


@cached_by_identity
def _without_programs(tools: tuple[ToolOffer, ...]) -> tuple[ToolOffer, ...]:
    return tuple(replace(tool, by_program=False) if tool.by_program else tool for tool in tools)


def check_choice(request: ModelRequest) -> None:
    """Check that a tool which the choice names is on offer.

    Raises:
        UsageError: The choice names a tool that is not offered.
    """
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in {tool.name for tool in request.tools}:
        raise UsageError(f"tool_choice names {choice.name!r}, which is not among the tools offered; offer it too")


@cached_by_identity
def has_deferred_tools(tools: tuple[ToolOffer, ...]) -> bool:
    """Whether some of them are for the service to find."""
    return any(tool.deferred for tool in tools)


@cached_by_identity
def _shown(tools: tuple[ToolOffer, ...]) -> tuple[ToolOffer, ...]:
    return tuple(tool for tool in tools if not tool.deferred)


def refuse_builtin(request: ModelRequest, wire: str, instead: str = "; leave out builtin=") -> None:
    """Refuse tools of the service on a wire that has none.

    Raises:
        UsageError: Tools of the service are offered, and this wire has no place for them.
    """
    if request.builtin_tools:
        raise UsageError(f"builtin= has no effect here: {wire} has no tools that the service runs itself{instead}")


def parallel_flag(request: ModelRequest, profile: Profile) -> bool | None:
    """What to say about several calls in one reply; None is nothing, where the service does so anyway."""
    wanted = {"on": True, "off": False, "fixed": request.parallel}[profile.parallel]
    return None if wanted == request.parallel else request.parallel


def with_supported_settings(request: ModelRequest, profile: Profile) -> ModelRequest:
    """The request without the settings that this model does not take; `unsupported_setting_notices` tells of them."""
    if profile.sampling and profile.stop and profile.seed_field:
        return request
    return replace(
        request,
        temperature=request.temperature if profile.sampling else None,
        top_p=request.top_p if profile.sampling else None,
        stop=request.stop if profile.stop else (),
        seed=request.seed if profile.seed_field else None,
    )


def unsupported_setting_notices(request: ModelRequest, profile: Profile) -> tuple[str, ...]:
    """Settings that this model does not take, as notices."""
    asked = {
        "temperature": request.temperature is not None and not profile.sampling,
        "top_p": request.top_p is not None and not profile.sampling,
        "stop": bool(request.stop) and not profile.stop,
        "seed": request.seed is not None and not profile.seed_field,
        "parallel=False": bool(request.tools) and not request.parallel and profile.parallel == "fixed",
    }
    return tuple(f"this model does not take {name}; it is not sent" for name, unheard in asked.items() if unheard)


def schema_for_service(schema: dict[str, Any], profile: Profile, *, nulls: bool = False) -> ServiceSchema:
    """A schema for this service, strict where it can be without loss.

    With `nulls`, a property that may be left out may come as null: `drop_strict_nulls` takes them out.
    """
    if profile.strict == "subset" and (nulls or _complete(schema)):
        strict = project(schema, rules.OPENAI_STRICT)
        if not strict.lost and not strict.narrowed:
            return ServiceSchema(strict.schema, True)
    plain = project(schema, _RULES[profile.schema])
    return ServiceSchema(plain.schema, profile.strict == "always", plain.lost)


def drop_strict_nulls(request: ModelRequest, profile: Profile, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without the nulls that only a strict schema made the model write."""
    if profile.strict != "subset":
        return arguments
    for tool in request.tools:
        if tool.name == name and _is_strict(tool, profile):
            return without_nulls(arguments, tool.input_schema)
    return arguments


@cached_by_identity
def _is_strict(tool: ToolOffer, profile: Profile) -> bool:
    return schema_for_service(tool.input_schema, profile, nulls=True).strict


UNHELD_REPLY = "this service cannot hold a reply to this schema; the model is asked to keep to it"


def schema_loss_notices(what: str, lost: tuple[str, ...]) -> tuple[str, ...]:
    """What the service does not see of a schema. Arguments are checked against the whole of it all the same."""
    return (f"{what}: the service is not shown {', '.join(lost)}",) if lost else ()


def _unheeded(request: ModelRequest) -> tuple[str, ...]:
    match request.tool_choice:
        case "auto" | "none":
            return ()
        case NamedTool(name):
            return (f"this model takes no tools; tool_choice {name!r} has no effect",)
    why = "this model takes no tools" if request.tools else "no tools are offered"
    return (f"{why}; tool_choice 'required' has no effect",)


def _required(tools: tuple[ToolOffer, ...], what: str, profile: Profile) -> SupportedTools:
    if "required" in profile.tool_choice:
        return SupportedTools(tools, "required")
    return SupportedTools(tools, "auto", (f"this service cannot be made to call {what}; it is offered, not enforced",))


def _complete(schema: Any) -> bool:
    """Whether every property of every object is required."""
    match schema:
        case dict():
            properties = schema.get("properties")
            if isinstance(properties, dict) and set(properties) != set(schema.get("required", ())):
                return False
            return all(_complete(part) for part in schema.values())
        case list():
            return all(_complete(part) for part in schema)
    return True
