"""The Model Context Protocol, both ways. What the official package calls things stays inside these files.

Names are loaded when they are first used: the official package takes its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import lazy_attributes

if TYPE_CHECKING:
    from handrail.mcp.client.ensemble import McpEnsemble, mcp_ensemble
    from handrail.mcp.client.pins import Pins
    from handrail.mcp.client.server_questions import (
        ApproverQuestionHandler,
        ElicitationReply,
        SamplingReply,
        ServerQuestionHandler,
    )
    from handrail.mcp.client.sign_in import SignIn
    from handrail.mcp.server.client_questions import ClientAsk, ElicitQuestion, RootsQuestion, SampleQuestion
    from handrail.mcp.values import (
        HttpEndpoint,
        McpBounds,
        OAuth,
        RemotePrompt,
        RemoteResource,
        RemoteTool,
        ResourceBody,
        ServerFacts,
        StdioEndpoint,
    )

_HOMES = {
    "ServerQuestionHandler": "handrail.mcp.client.server_questions",
    "McpBounds": "handrail.mcp.values",
    "ClientAsk": "handrail.mcp.server.client_questions",
    "ElicitQuestion": "handrail.mcp.server.client_questions",
    "ElicitationReply": "handrail.mcp.client.server_questions",
    "HttpEndpoint": "handrail.mcp.values",
    "McpEnsemble": "handrail.mcp.client.ensemble",
    "OAuth": "handrail.mcp.values",
    "Pins": "handrail.mcp.client.pins",
    "ApproverQuestionHandler": "handrail.mcp.client.server_questions",
    "RemotePrompt": "handrail.mcp.values",
    "RemoteResource": "handrail.mcp.values",
    "RemoteTool": "handrail.mcp.values",
    "ResourceBody": "handrail.mcp.values",
    "RootsQuestion": "handrail.mcp.server.client_questions",
    "SampleQuestion": "handrail.mcp.server.client_questions",
    "SamplingReply": "handrail.mcp.client.server_questions",
    "ServerFacts": "handrail.mcp.values",
    "SignIn": "handrail.mcp.client.sign_in",
    "StdioEndpoint": "handrail.mcp.values",
    "mcp_ensemble": "handrail.mcp.client.ensemble",
}

__all__ = [
    "ApproverQuestionHandler",
    "ClientAsk",
    "ElicitQuestion",
    "ElicitationReply",
    "HttpEndpoint",
    "McpBounds",
    "McpEnsemble",
    "OAuth",
    "Pins",
    "RemotePrompt",
    "RemoteResource",
    "RemoteTool",
    "ResourceBody",
    "RootsQuestion",
    "SampleQuestion",
    "SamplingReply",
    "ServerFacts",
    "ServerQuestionHandler",
    "SignIn",
    "StdioEndpoint",
    "mcp_ensemble",
]

__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)
