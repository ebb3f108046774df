"""In-process tools of the Claude Agent SDK: those of `create_sdk_mcp_server`, and of any `mcp.server.Server`. A run of
ours is a session of theirs.

Claude Code runs as a program beside, and calls these tools over MCP. A call tells its `tool_use_id`; a hook before it
tells the session. What a person must decide is put to them as the SDK does it, by `can_use_tool`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookContext,
    HookMatcher,
    McpSdkServerConfig,
    PermissionResult,
    PermissionResultAllow,
    ToolPermissionContext,
)
from pydantic import BaseModel

from handrail.adapters.guarded_calls import FrameworkCall, GuardedCalls, text_with_warnings
from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow
from handrail.core.errors import UsageError
from handrail.core.ids import new_id
from handrail.tools.tool import Tool

_TOOL_USE = "claudecode/toolUseId"
"""Where Claude Code says in `_meta` which call of its model this is."""
_MOST_CALLS = 10_000
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

_Known = Callable[[bool], Tool]


def guarded(given: Any, calls: GuardedCalls) -> ClaudeAgentOptions:
    if not isinstance(given, ClaudeAgentOptions):
        raise UsageError(
            "guard() takes the options of the Claude Agent SDK, whose tools are not told who calls them:"
            " options = guard(ClaudeAgentOptions(mcp_servers={'shop': create_sdk_mcp_server('shop', tools=[pay])}), …)"
        )
    servers = given.mcp_servers if isinstance(given.mcp_servers, dict) else {}
    own = {name: server for name, server in servers.items() if server.get("type") == "sdk"}
    if not own:
        raise UsageError(
            "these options have no in-process server, as create_sdk_mcp_server makes one; what stands before servers"
            " that are programs is `handrail mcp serve`, and before Claude's own tools `handrail hook install claude`"
        )
    guard = _SessionGuard(calls, given)
    replaced = {name: guard.server(name, cast(McpSdkServerConfig, server)) for name, server in own.items()}
    hooks = dict(given.hooks or {})
    hooks["PreToolUse"] = [*hooks.get("PreToolUse", []), HookMatcher(matcher="mcp__.*", hooks=[guard.before_call])]
    asking = None if given.can_use_tool is None else guard.asked
    return replace(given, mcp_servers={**servers, **replaced}, hooks=hooks, can_use_tool=asking)


class _SessionGuard:
    """What hooks, permissions and servers of the same options know of a call."""

    def __init__(self, calls: GuardedCalls, options: ClaudeAgentOptions) -> None:
        self._calls = calls
        self._can_use_tool = options.can_use_tool
        self._tools: dict[str, _Known] = {}
        """By the names under which the model calls them, which say the server too: `mcp__shop__pay`."""
        self._heard: BoundedMemory[str, Mapping[str, Any]] = BoundedMemory(_MOST_CALLS)
        """What the hook was told, by the id of the call."""
        self._allowed: BoundedMemory[str, dict[str, Any]] = BoundedMemory(_MOST_CALLS)
        """The arguments that a person allowed, by the id of the call."""
        self._session = options.resume or options.session_id
        """The newest that is known, for calls that no hook was asked about."""

    async def before_call(self, told: Any, tool_use_id: str | None, context: HookContext) -> Any:
        """The hook before a call: the rules decide, or a person is asked, or the call itself is answered that it
        waits."""
        self._session = told["session_id"]
        self._heard[told["tool_use_id"]] = told
        known = self._tools.get(told["tool_name"])
        if known is None or known(False).reads or told.get("permission_mode") == "plan":
            return {}
        asks = self._can_use_tool is not None and await self._calls.waits_for_word(known(False), told["tool_input"])
        decision = "ask" if asks else "allow"  # the executor still refuses what no rule and nobody allowed
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}}

    async def asked(self, name: str, given: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        """`can_use_tool`, whose yes is a person's approval of this call with these arguments."""
        assert self._can_use_tool is not None
        said = await self._can_use_tool(name, given, context)
        if isinstance(said, PermissionResultAllow) and context.tool_use_id:
            self._allowed[context.tool_use_id] = given if said.updated_input is None else said.updated_input
        return said

    def server(self, name: str, config: McpSdkServerConfig) -> McpSdkServerConfig:
        """The same server, whose calls go through our executor. The one that was given stays as it was."""
        if not isinstance(before := getattr(config["instance"], "middleware", None), list):
            raise UsageError("guard() of the Claude Agent SDK needs the package mcp in version 2.3 or later")

        async def answer(request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
            match request.method:
                case "tools/list":
                    listed = _as_json(await call_next(request))
                    self._learn(name, listed["tools"])
                    return listed
                case "tools/call":
                    return await self._call(name, request, call_next)
            return await call_next(request)

        same = copy.copy(config["instance"])
        cast(Any, same).middleware = [*before, answer]
        return {**config, "instance": same}

    def _learn(self, server: str, listed: list[dict[str, Any]]) -> None:
        for each in listed:
            reads = (each.get("annotations") or {}).get("readOnlyHint")
            name = _name_of(server, each["name"])
            self._tools[name] = self._calls.tool(
                name, each.get("description") or "", each["inputSchema"], reads=reads or None
            )

    async def _call(self, server: str, request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        params = dict(request.params or {})
        name, arguments = str(params.get("name")), dict(params.get("arguments") or {})
        known = self._tools.get(_name_of(server, name))
        if known is None:
            return await call_next(request)  # it was not listed: there is none, and the server says so
        id = (params.get("_meta") or {}).get(_TOOL_USE) or new_id("call")
        told = self._heard.get(id) or {}

        async def perform(given: dict[str, Any]) -> Any:
            return _as_json(await call_next(replace(request, params={**params, "arguments": given})))

        call = FrameworkCall(
            id=id,
            arguments=arguments,
            run=self._calls.run_of(told, told.get("session_id") or self._session),
            perform=perform,
            written=_content,
            word=Allow("a person, through the Claude Agent SDK") if self._allowed.get(id) == arguments else None,
            owner=self._calls.owner_of(told),
            failure=_failure,
        )
        return _returned(call, await self._calls.settle(known, call), self._calls)


def _name_of(server: str, tool: str) -> str:
    """As Claude Code names the tool of a server for its model."""
    return "__".join(("mcp", _NOT_IN_NAMES.sub("_", server), _NOT_IN_NAMES.sub("_", tool)))


def _as_json(result: Any) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return cast(dict[str, Any], result)


def _content(result: dict[str, Any]) -> Any:
    """What a tool gave, for the record: its text, where that is all."""
    match result:
        case {"content": [{"type": "text", "text": str(text)}]} if not result.get("structuredContent"):
            return text
    return result


def _failure(result: dict[str, Any]) -> str | None:
    if not result.get("isError"):
        return None
    said = (each.get("text", "") for each in result.get("content") or ())
    return "\n".join(filter(None, said)) or "the tool failed"


def _returned(call: FrameworkCall, result: ToolResult, calls: GuardedCalls) -> Any:
    """What the tool gave, in this process or before; or why it did not run."""
    if call.raised is not None:
        raise call.raised
    if call.performed and result.outcome == "failed":
        return call.value
    if result.outcome != "ok":
        return _said(f"{text_with_warnings(result)}{calls.how_to_allow(call)}", failed=True)
    match call.answer(result):
        case {"content": list()} as whole:
            return whole
        case str(text):
            return _said(text)
    return _said(result.text)


def _said(text: str, *, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}
