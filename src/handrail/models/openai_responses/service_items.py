"""Items of a response that are neither text, thoughts nor calls of our tools: what the service did itself.

Each is kept exactly and sent back (`replay.py`). A call that the service ran is shown as
a `ServiceCall`; one that it leaves to the caller's program is not run here, and a notice says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from handrail.core.events import ModelEvent, Notice, ServiceCallMade
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import ServiceCall
from handrail.models.shared_decoding import media_from_base64, picture_from_url
from handrail.models.unknown_kinds import UnknownKinds

CALLERS_WORK = frozenset({"computer_call", "local_shell_call", "shell_call", "custom_tool_call", "apply_patch_call"})
"""Calls that the caller's program must run, unless the response has their output."""
_PAIRED = CALLERS_WORK | {"program"}
_SILENT = frozenset({"compaction", "compaction_trigger", "additional_tools", "configuration_update"})
"""Kept and sent back; nothing of them is for people."""
_ARGUMENTS = ("arguments", "action", "operation", "input")
_FIELDS = ("queries", "code", "revised_prompt", "container_id")
_RESULTS = ("output", "outputs", "results", "result")


class ResponsesServiceItems:
    """Pairs the calls of one reply with the items that have their output."""

    def __init__(self, unknown: UnknownKinds) -> None:
        self._unknown = unknown
        self._open: dict[str, ServiceCall] = {}
        self._work: dict[str, str] = {}
        """The kinds of the open calls."""

    def take(self, raw: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """What an item means, beside being sent back."""
        kind = str(raw.get("type"))
        if kind in _PAIRED:
            self._open[_call_id(raw)] = _call(kind, raw)
            self._work[_call_id(raw)] = kind
        elif kind.endswith("_output"):
            begun = self._open.pop(_call_id(raw), None) or _call(kind.removesuffix("_output"), raw)
            yield ServiceCallMade(call=replace(begun, result=_result(raw), failed=_failed(raw)))
        elif kind == "image_generation_call":
            yield ServiceCallMade(call=replace(_call(kind, raw), result=None))
            yield from _picture(raw)
        elif kind == "mcp_list_tools":
            yield ServiceCallMade(call=_listing(raw))
        elif kind == "mcp_approval_request":
            yield Notice(
                text=f"the service asks whether it may call {_name(kind, raw)!r}; handrail does not approve calls that"
                " a service runs. Offer the server with require_approval 'never', or connect it to handrail"
            )
        elif kind.endswith("_call"):
            yield ServiceCallMade(call=_call(kind, raw))
            for output in raw.get("outputs") or ():
                yield from _shown(output)
        elif kind not in _SILENT:
            yield from self._unknown.block(kind)

    def end(self) -> Iterator[ModelEvent]:
        """Calls whose output did not come with this response."""
        for id, call in self._open.items():
            if self._work[id] == "program":
                yield ServiceCallMade(call=call)  # its output comes with a later response
                continue
            yield Notice(
                text=f"the model called {call.name!r}, which the service leaves to the program; it was not run."
                " Offer a tool of your own for this"
            )
        self._open.clear()


def _call(kind: str, raw: Mapping[str, Any]) -> ServiceCall:
    arguments, result = _arguments(raw), _result(raw)
    if isinstance(arguments, dict) and "sources" in arguments:  # of a web search
        result = arguments["sources"]
        arguments = {key: value for key, value in arguments.items() if key != "sources"}
    return ServiceCall(id=_call_id(raw), name=_name(kind, raw), arguments=arguments, result=result, failed=_failed(raw))


def _name(kind: str, raw: Mapping[str, Any]) -> str:
    name = raw.get("name")
    if not isinstance(name, str):
        return kind.removesuffix("_call")
    return f"{raw['server_label']}:{name}" if isinstance(raw.get("server_label"), str) else name


def _call_id(raw: Mapping[str, Any]) -> str:
    return str(raw.get("call_id") or raw.get("id") or "")


def _arguments(raw: Mapping[str, Any]) -> Any:
    found = next((raw[key] for key in _ARGUMENTS if raw.get(key) is not None), None)
    if found is None:
        return {key: raw[key] for key in _FIELDS if raw.get(key) is not None} or None
    if isinstance(found, str):
        try:
            return parse_object(found)
        except JSONTextError:
            return found
    return found


def _result(raw: Mapping[str, Any]) -> Any:
    found = next((raw[key] for key in _RESULTS if raw.get(key) is not None), raw.get("error"))
    if isinstance(found, list):  # pictures are media of the message
        return [{"type": "image"} if isinstance(each, dict) and each.get("type") == "image" else each for each in found]
    return found


def _failed(raw: Mapping[str, Any]) -> bool:
    return raw.get("status") in ("failed", "incomplete") or raw.get("error") is not None


def _listing(raw: Mapping[str, Any]) -> ServiceCall:
    tools = [tool.get("name") for tool in raw.get("tools") or () if isinstance(tool, dict)]
    name = f"{raw.get('server_label')}:list_tools"
    return ServiceCall(id=_call_id(raw), name=name, result=raw.get("error") or tools, failed=_failed(raw))


def _picture(raw: Mapping[str, Any]) -> Iterator[ModelEvent]:
    if isinstance(text := raw.get("result"), str) and text:
        form = raw.get("output_format")
        yield media_from_base64(text, f"image/{form}" if isinstance(form, str) else "image/png")


def _shown(output: Any) -> Iterator[ModelEvent]:
    """A picture that code drew."""
    match output:
        case {"type": "image", "url": str(url)}:
            yield picture_from_url(url)
