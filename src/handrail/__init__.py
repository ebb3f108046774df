"""A runtime for the tool calls of language models.

Describe a tool once; then any model may call it, and every call is validated,
authorised, limited, run at most once where that matters, and provable afterwards.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily
from handrail.core.version import VERSION

if TYPE_CHECKING:
    from handrail.core.calls import (
        Attachment as Attachment,
        Output as Output,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
    )
    from handrail.core.context import Context as Context, Principal as Principal
    from handrail.core.errors import HandrailError as HandrailError, ToolError as ToolError
    from handrail.core.invocation import Invocation as Invocation
    from handrail.core.messages import Conversation as Conversation
    from handrail.core.redact import Secret as Secret
    from handrail.execute.dedupe.matching import Deduplicator as Deduplicator
    from handrail.execute.executor import Executor as Executor
    from handrail.execute.origins.flows import Flows as Flows
    from handrail.execute.policy import Policy as Policy
    from handrail.node.capability_bus import CapabilityBus as CapabilityBus
    from handrail.node.chat.tool_executor import ToolExecutor as ToolExecutor
    from handrail.rlm.rlm import RLM as RLM
    from handrail.run.agents import Agent as Agent
    from handrail.run.limits import Limits as Limits
    from handrail.run.runner import Runner as Runner
    from handrail.sessions.create import create_llm as create_llm
    from handrail.sessions.llm import LLM as LLM
    from handrail.sessions.session import Session as Session
    from handrail.sessions.tool_requests import ToolCallRequest as ToolCallRequest, execute_tools as execute_tools
    from handrail.tools.definition import ToolDefinition as ToolDefinition
    from handrail.tools.ensemble import Ensemble as Ensemble
    from handrail.tools.registry import RegisteredTools as RegisteredTools, ToolRegistry as ToolRegistry
    from handrail.tools.tool import Tool as Tool, tool as tool

__version__ = VERSION

export_lazily(
    __name__,
    {
        "handrail.core.calls": "Attachment Output ToolCall ToolResult",
        "handrail.core.context": "Context Principal",
        "handrail.core.errors": "HandrailError ToolError",
        "handrail.core.invocation": "Invocation",
        "handrail.core.messages": "Conversation",
        "handrail.core.redact": "Secret",
        "handrail.execute.dedupe.matching": "Deduplicator",
        "handrail.execute.executor": "Executor",
        "handrail.execute.origins.flows": "Flows",
        "handrail.execute.policy": "Policy",
        "handrail.node.capability_bus": "CapabilityBus",
        "handrail.node.chat.tool_executor": "ToolExecutor",
        "handrail.rlm.rlm": "RLM",
        "handrail.run.agents": "Agent",
        "handrail.run.limits": "Limits",
        "handrail.run.runner": "Runner",
        "handrail.sessions.create": "create_llm",
        "handrail.sessions.llm": "LLM",
        "handrail.sessions.session": "Session",
        "handrail.sessions.tool_requests": "ToolCallRequest execute_tools",
        "handrail.tools.definition": "ToolDefinition",
        "handrail.tools.ensemble": "Ensemble",
        "handrail.tools.registry": "RegisteredTools ToolRegistry",
        "handrail.tools.tool": "Tool tool",
    },
)
