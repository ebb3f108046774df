"""An agent of the Claude Agent SDK with guarded tools: Claude Code itself, whose session is resumed. The service that
it asks is played in the program."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, create_sdk_mcp_server, tool

from handrail.adapters import guard
from reliability.moments import step
from reliability.rows.program import ProgramRow
from reliability.stage import ARGUMENTS, pay as pay_into_book, tell
from tests.adapters.claude_model import ScriptedClaude, environment, serving

SESSION = str(uuid5(NAMESPACE_DNS, "order-17"))


class MortalClaude(ScriptedClaude):
    """Asks for the payment, then says what came of it."""

    def reply(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        step("before a reply of the model")
        return super().reply(request)


async def run(folder: Path) -> None:
    @tool("pay", "Pay somebody.", {"to": str, "cents": int})
    async def pay(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": pay_into_book(folder)}]}

    with serving(MortalClaude({"mcp__shop__pay": ARGUMENTS})) as address:
        kept = any((folder / "claude").glob(f"projects/*/{SESSION}.jsonl"))
        options = ClaudeAgentOptions(
            mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[pay])},
            tools=[],
            setting_sources=[],
            cwd=folder,
            stderr=lambda line: print(line, file=sys.stderr),
            env=environment(address, str(folder / "claude")),
            resume=SESSION if kept else None,
            session_id=None if kept else SESSION,
        )
        guarded = guard(options, journal=folder / "journal.db", rules=["allow mcp__shop__pay"])
        async with ClaudeSDKClient(guarded) as client:
            await client.query("Pay Ada 5 euros.")
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    tell(folder, message.result or "")


def program(folder: Path) -> None:
    asyncio.run(run(folder))


CLAUDE_AGENT = ProgramRow(
    name="Claude Agent SDK, guarded",
    killed="the program: before and after each write to the journal and the payment, in each reply of the model",
    program=program,
    preload=("claude_agent_sdk", "handrail.adapters.claude_agent"),
)
