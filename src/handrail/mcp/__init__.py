"""The Model Context Protocol, both ways. What the official package calls things stays inside these files.

Names are loaded when they are first used: the official package takes its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazily import lazily

if TYPE_CHECKING:
    from handrail.mcp.client.asking import Asking, Elicited, PortAsking, Sampled
    from handrail.mcp.client.ensemble import McpEnsemble, mcp_ensemble
    from handrail.mcp.client.pins import Pins
    from handrail.mcp.client.signin import SignIn
    from handrail.mcp.server.asks import ClientAsk, Elicit, Roots, Sample
    from handrail.mcp.values import (
        Bounds,
        Http,
        OAuth,
        RemotePrompt,
        RemoteResource,
        RemoteTool,
        ResourceBody,
        ServerFacts,
        Stdio,
    )

_HOMES = {
    "Asking": "handrail.mcp.client.asking",
    "Bounds": "handrail.mcp.values",
    "ClientAsk": "handrail.mcp.server.asks",
    "Elicit": "handrail.mcp.server.asks",
    "Elicited": "handrail.mcp.client.asking",
    "Http": "handrail.mcp.values",
    "McpEnsemble": "handrail.mcp.client.ensemble",
    "OAuth": "handrail.mcp.values",
    "Pins": "handrail.mcp.client.pins",
    "PortAsking": "handrail.mcp.client.asking",
    "RemotePrompt": "handrail.mcp.values",
    "RemoteResource": "handrail.mcp.values",
    "RemoteTool": "handrail.mcp.values",
    "ResourceBody": "handrail.mcp.values",
    "Roots": "handrail.mcp.server.asks",
    "Sample": "handrail.mcp.server.asks",
    "Sampled": "handrail.mcp.client.asking",
    "ServerFacts": "handrail.mcp.values",
    "SignIn": "handrail.mcp.client.signin",
    "Stdio": "handrail.mcp.values",
    "mcp_ensemble": "handrail.mcp.client.ensemble",
}

__all__ = [
    "Asking",
    "Bounds",
    "ClientAsk",
    "Elicit",
    "Elicited",
    "Http",
    "McpEnsemble",
    "OAuth",
    "Pins",
    "PortAsking",
    "RemotePrompt",
    "RemoteResource",
    "RemoteTool",
    "ResourceBody",
    "Roots",
    "Sample",
    "Sampled",
    "ServerFacts",
    "SignIn",
    "Stdio",
    "mcp_ensemble",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
