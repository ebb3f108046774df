"""What every process of the table imports, imported once before they are forked. Nothing here may start a thread."""

from __future__ import annotations

from importlib import import_module

for module in (
    "anyio._backends._asyncio",
    "handrail.app.mcp_serving",
    "handrail.cli.confirm.requests",
    "handrail.cli.mcp.serve",
    "handrail.cli.root",
    "handrail.config.load",
    "handrail.config.powers",
    "handrail.journal.person_answers",
    "handrail.journal.auditing",
    "handrail.journal.journal",
    "handrail.mcp.client.connection",
    "handrail.mcp.client.ensemble",
    "handrail.mcp.client.http_transport",
    "handrail.mcp.client.remote_calls",
    "handrail.mcp.client.server_questions",
    "handrail.mcp.client.stdio_transport",
    "handrail.mcp.server.build",
    "handrail.mcp.server.http_app",
    "handrail.mcp.server.stdio",
    "handrail.run.runner",
    "handrail.sessions",
    "handrail.testing",
    "httpx2",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server.mcpserver",
    "mcp.server.streamable_http_manager",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
):
    import_module(module)
