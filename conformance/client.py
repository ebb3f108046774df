"""The client that the suite speaks to: `python -m conformance.client URL`, as handrail's users have it.

It is an `McpEnsemble` and an executor, nothing below them. Each scenario lists
what its server has and uses it; a few say what to call. The person is played
by a program that agrees to everything and signs in where it is told to.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx2

from handrail.core.calls import ToolCall
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.execute.executor import Executor
from handrail.mcp.client.ensemble import McpEnsemble, mcp_ensemble
from handrail.mcp.client.server_questions import ApproverQuestionHandler
from handrail.mcp.client.sign_in import SignIn
from handrail.mcp.values import Era, HttpEndpoint, OAuth
from handrail.tools.registry import registered

Grant = Literal["authorization_code", "client_credentials"]
CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address that the suite takes for a client's description of itself."""

ERAS: Mapping[str, Era] = {"2025-11-25": "legacy", "2026-07-28": "modern"}
VALUES: Mapping[str, Any] = {"string": "north", "integer": 5, "number": 5, "boolean": True}
MAY_FAIL = frozenset({"auth/scope-retry-limit"})
"""Where the server never lets the call through, and the point is that the client stops trying."""


class Agreeable:
    """An approver for whom everything is fine, with the defaults of a form where one is asked."""

    async def decide(self, question: Confirmation) -> Decision:
        return Allow(by="conformance")


async def visit(address: str) -> None:
    """What a person and their browser do: open the page, be sent back to this machine."""
    async with httpx2.AsyncClient(timeout=30) as browser:
        page = await browser.get(address, follow_redirects=False)
        if "location" in page.headers:
            await browser.get(page.headers["location"], follow_redirects=False)


def endpoint(url: str, scenario: str, given: Mapping[str, Any]) -> HttpEndpoint:
    if not scenario.startswith("auth/"):
        return HttpEndpoint(url=url)
    if "client_id" not in given:
        return HttpEndpoint(url=url, oauth=OAuth(metadata_url=CLIENT_DOCUMENT))
    grant: Grant = "client_credentials" if "client-credentials" in scenario else "authorization_code"
    secret = given.get("client_secret")
    return HttpEndpoint(url=url, oauth=OAuth(client_id=given["client_id"], client_secret=secret, grant=grant))


def fitting(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that a tool takes: what it requires, and nothing else."""
    fields = schema.get("properties", {})
    return {name: VALUES[fields[name]["type"]] for name in schema.get("required", ())}


async def use(ensemble: McpEnsemble, given: Mapping[str, Any]) -> list[str]:
    """Use everything that the server has. What went wrong, if anything."""
    approver = Agreeable()
    executor = Executor(registered(*ensemble.tools), approver=approver)
    asked = given.get("toolCalls") or [
        {"name": tool.name, "arguments": fitting(tool.definition.input_schema)} for tool in ensemble.tools
    ]
    wrong = []
    for number, call in enumerate(asked):
        # For us an argument that is null where the schema has no null is a mistake; left out, it says the same.
        arguments = {name: value for name, value in call["arguments"].items() if value is not None}
        made = ToolCall(id=f"call-{number}", name=call["name"], arguments=json.dumps(arguments))
        result = await executor.invoke(made)
        if result.outcome != "ok":
            wrong.append(f"{call['name']}: {result.outcome}: {result.content}")
    await executor.aclose()
    has = ensemble.connection.facts.capabilities
    if "resources" in has:
        for resource in await ensemble.resources():
            await ensemble.read(resource.uri)
    if "prompts" in has:
        for prompt in await ensemble.prompts():
            await ensemble.prompt(prompt.name, {})
    return wrong


async def main(url: str) -> int:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28")
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        ensemble = mcp_ensemble(
            "peer",
            endpoint(url, scenario, given),
            required=True,
            era=ERAS[revision],
            asking=ApproverQuestionHandler(Agreeable()),
            sign_in=SignIn(store=Path(folder), show=visit, patience=30),
        )
        async with ensemble:
            wrong = await use(ensemble, given)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong and scenario not in MAY_FAIL else 0


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    sys.exit(asyncio.run(main(sys.argv[-1])))
