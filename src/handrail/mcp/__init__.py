"""The Model Context Protocol, both ways: servers as ensembles, and any tools as a server.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.mcp.client.ensemble import McpEnsemble as McpEnsemble, mcp_ensemble as mcp_ensemble
    from handrail.mcp.client.server_questions import (
        ApproverQuestionHandler as ApproverQuestionHandler,
        ElicitationReply as ElicitationReply,
        SamplingReply as SamplingReply,
        ServerQuestionHandler as ServerQuestionHandler,
    )
    from handrail.mcp.client.sign_in import SignIn as SignIn
    from handrail.mcp.client.tool_listing import McpToolTerms as McpToolTerms
    from handrail.mcp.server.client_approver import ClientApprover as ClientApprover
    from handrail.mcp.server.client_questions import (
        ClientAsk as ClientAsk,
        ElicitQuestion as ElicitQuestion,
        RootsQuestion as RootsQuestion,
        SampleQuestion as SampleQuestion,
    )
    from handrail.mcp.server.definition import (
        McpServerDefinition as McpServerDefinition,
        PromptArgument as PromptArgument,
        PromptMessage as PromptMessage,
        ServedPrompt as ServedPrompt,
    )
    from handrail.mcp.server.http import serve_http as serve_http
    from handrail.mcp.server.stdio import serve_stdio as serve_stdio
    from handrail.mcp.values import (
        HttpEndpoint as HttpEndpoint,
        McpBounds as McpBounds,
        McpLinkTerms as McpLinkTerms,
        OAuth as OAuth,
        Pins as Pins,
        RemotePrompt as RemotePrompt,
        RemoteResource as RemoteResource,
        RemoteTool as RemoteTool,
        ResourceBody as ResourceBody,
        ServerFacts as ServerFacts,
        StdioEndpoint as StdioEndpoint,
    )

export_lazily(
    __name__,
    {
        "handrail.mcp.client.ensemble": "McpEnsemble mcp_ensemble",
        "handrail.mcp.client.server_questions": (
            "ApproverQuestionHandler ElicitationReply SamplingReply ServerQuestionHandler"
        ),
        "handrail.mcp.client.sign_in": "SignIn",
        "handrail.mcp.client.tool_listing": "McpToolTerms",
        "handrail.mcp.server.client_approver": "ClientApprover",
        "handrail.mcp.server.client_questions": "ClientAsk ElicitQuestion RootsQuestion SampleQuestion",
        "handrail.mcp.server.definition": "McpServerDefinition PromptArgument PromptMessage ServedPrompt",
        "handrail.mcp.server.http": "serve_http",
        "handrail.mcp.server.stdio": "serve_stdio",
        "handrail.mcp.values": (
            "HttpEndpoint McpBounds McpLinkTerms OAuth Pins RemotePrompt RemoteResource RemoteTool ResourceBody "
            "ServerFacts StdioEndpoint"
        ),
    },
)
