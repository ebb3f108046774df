"""The handshake of a proxy: it announces what the servers behind us can do, and what they tell clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from mcp.server.context import HandlerResult

from handrail.mcp.server.definition import CompletingSource, McpServerDefinition, ServerBehind

_TASKS = "io.modelcontextprotocol/tasks"
_PLAIN = ("resources", "prompts", "completions", "logging")


def introduced(
    greeting: HandlerResult, servers: Sequence[ServerBehind], served: McpServerDefinition, *, handshake: bool
) -> dict[str, Any]:
    """Our answer to `initialize` or `server/discover`, with what there is behind us.

    The `handshake` of the older era has no place for extensions.
    """
    own = cast(dict[str, Any], greeting)
    facts = [server.facts for server in servers]
    capabilities = dict(own.get("capabilities") or {})
    declared = [each.declared for each in facts if each is not None]
    if len(declared) == len(facts):  # of a server that was not reached yet, nobody knows what it has
        capabilities = {name: value for name, value in capabilities.items() if name not in _PLAIN}
        capabilities |= {name: _merged(name, declared, served) for name in _PLAIN if _has(name, declared, served)}
    extensions = dict(capabilities.get("extensions") or {})
    for each in () if handshake else declared:
        extensions |= {name: value for name, value in (each.get("extensions") or {}).items() if name != _TASKS}
    more: dict[str, Any] = {"extensions": extensions} if extensions else {}
    if experimental := {name: value for each in declared for name, value in (each.get("experimental") or {}).items()}:
        more["experimental"] = experimental
    told = [(server.name, each.instructions) for server, each in zip(servers, facts, strict=True) if each is not None]
    instructions = _instructions(served.instructions, [each for each in told if each[1]])
    answer = {**own, "capabilities": {**capabilities, **more}}
    return {**answer, "instructions": instructions} if instructions else answer


def _has(name: str, declared: Sequence[dict[str, Any]], served: McpServerDefinition) -> bool:
    own = {
        "resources": bool(served.resources),
        "prompts": bool(served.prompts),
        "completions": any(isinstance(each, CompletingSource) for each in served.resources),
    }
    return own.get(name, False) or any(each.get(name) is not None for each in declared)


def _merged(name: str, declared: Sequence[dict[str, Any]], served: McpServerDefinition) -> dict[str, Any]:
    """What any of them says of it. What we have ourselves can be subscribed to, and tells of changes."""
    found: dict[str, Any] = {}
    for each in declared:
        for key, value in (each.get(name) or {}).items():
            found[key] = found.get(key) or value
    if name == "resources" and served.resources:
        found |= {"subscribe": True, "listChanged": True}
    return found


def _instructions(own: str, told: Sequence[tuple[str, str]]) -> str:
    if not own and len(told) == 1:
        return told[0][1]
    return "\n\n".join([*([own] if own else []), *(f"{name}: {words}" for name, words in told)])
