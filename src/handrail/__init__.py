"""Tool calls you can lean on.

Say once what a tool is; then any model may call it, and every call is checked,
bounded, run at most once where that matters, and provable afterwards.

Names are loaded when they are first used: `import handrail` itself is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import lazy_attributes
from handrail.core.version import VERSION

if TYPE_CHECKING:
    from handrail.core.calls import Attachment, Output, ToolCall, ToolResult
    from handrail.core.context import Context, Principal
    from handrail.core.errors import HandrailError, ToolError
    from handrail.core.invocation import Invocation
    from handrail.core.messages import Conversation
    from handrail.core.redact import Secret
    from handrail.execute.dedupe.deduplicator import Deduplicator
    from handrail.execute.executor import Executor
    from handrail.execute.policy import Policy
    from handrail.node.capability_bus import CapabilityBus
    from handrail.node.chat.tool_executor import ToolExecutor
    from handrail.rlm.rlm import RLM
    from handrail.run.limits import Limits
    from handrail.run.runner import Runner
    from handrail.sessions.create import create_llm
    from handrail.sessions.session import Session
    from handrail.sessions.tool_requests import ToolCallRequest, execute_tools
    from handrail.tools.definition import ToolDefinition
    from handrail.tools.ensemble import Ensemble
    from handrail.tools.registry import RegisteredTools, ToolRegistry
    from handrail.tools.tool import Tool, tool

_HOMES = {
    "Attachment": "handrail.core.calls",
    "CapabilityBus": "handrail.node.capability_bus",
    "Context": "handrail.core.context",
    "Conversation": "handrail.core.messages",
    "Deduplicator": "handrail.execute.dedupe.deduplicator",
    "Ensemble": "handrail.tools.ensemble",
    "Executor": "handrail.execute.executor",
    "HandrailError": "handrail.core.errors",
    "Invocation": "handrail.core.invocation",
    "Limits": "handrail.run.limits",
    "Output": "handrail.core.calls",
    "Policy": "handrail.execute.policy",
    "Principal": "handrail.core.context",
    "RLM": "handrail.rlm.rlm",
    "RegisteredTools": "handrail.tools.registry",
    "Runner": "handrail.run.runner",
    "Secret": "handrail.core.redact",
    "Session": "handrail.sessions.session",
    "Tool": "handrail.tools.tool",
    "ToolCall": "handrail.core.calls",
    "ToolCallRequest": "handrail.sessions.tool_requests",
    "ToolDefinition": "handrail.tools.definition",
    "ToolError": "handrail.core.errors",
    "ToolExecutor": "handrail.node.chat.tool_executor",
    "ToolRegistry": "handrail.tools.registry",
    "ToolResult": "handrail.core.calls",
    "create_llm": "handrail.sessions.create",
    "execute_tools": "handrail.sessions.tool_requests",
    "tool": "handrail.tools.tool",
}

__all__ = [
    "RLM",
    "Attachment",
    "CapabilityBus",
    "Context",
    "Conversation",
    "Deduplicator",
    "Ensemble",
    "Executor",
    "HandrailError",
    "Invocation",
    "Limits",
    "Output",
    "Policy",
    "Principal",
    "RegisteredTools",
    "Runner",
    "Secret",
    "Session",
    "Tool",
    "ToolCall",
    "ToolCallRequest",
    "ToolDefinition",
    "ToolError",
    "ToolExecutor",
    "ToolRegistry",
    "ToolResult",
    "create_llm",
    "execute_tools",
    "tool",
]

__version__ = VERSION

__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)
