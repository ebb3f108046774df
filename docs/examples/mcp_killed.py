"""Two tools are served over MCP and used from another program. The server is killed in mid-call, twice: what is told?

A read is sent again to the server that is started anew. A payment is not: nobody knows what became of it, and so it is
told. Run it: python docs/examples/mcp_killed.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from handrail import Executor, Policy, ToolCall, tool
from handrail.confirm import Allow, Confirmation
from handrail.mcp import ClientApprover, McpEnsemble, McpServerDefinition, StdioEndpoint, serve_stdio


async def serve(folder: Path) -> None:
    """The server. It dies the first time that each of its tools has done its work, before it can answer."""

    def write(line: str) -> None:
        with (folder / "book.txt").open("a") as book:
            book.write(f"{line}\n")
        mark = folder / f"died of {line.partition(' ')[0]}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    @tool
    def find_order(number: int) -> dict[str, str]:
        """Find an order."""
        write(f"looked for {number}")
        return {"number": str(number), "item": "umbrella"}

    @tool(side_effects=True)
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        write(f"paid {cents} cents to {to}")
        return f"paid {cents} cents to {to}"

    # Who calls is asked here by the client. A server for anybody's clients would leave confirmation on.
    asker, policy = ClientApprover(), Policy(confirm_side_effects=False)
    async with Executor([find_order, pay], policy=policy, approver=asker) as executor:
        served = McpServerDefinition(
            name="shop", version="1", tools=lambda: executor.tools, invoker=executor, asker=asker
        )
        await serve_stdio(served)


class Person:
    """Whoever is asked before something is changed."""

    async def decide(self, question: Confirmation) -> Allow:
        print("asked:   ", question.tool, question.arguments)
        return Allow("ada")


async def use(folder: Path) -> None:
    """The program that uses the tools."""
    shop = McpEnsemble("shop", StdioEndpoint(command=sys.executable, args=(__file__, str(folder))), required=True)
    async with shop, Executor([shop], approver=Person()) as executor:
        for call in (
            ToolCall("", "find_order", {"number": 17}),
            ToolCall("", "pay", {"to": "Ada", "cents": 2450}),
            ToolCall("", "find_order", {"number": 18}),
        ):
            result = await executor.invoke(call)
            print(f"{result.outcome + ':':<9}", result.text)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(use(Path(name)))
        print("the book of the server:")
        print((Path(name) / "book.txt").read_text(), end="")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(Path(sys.argv[1])))
    else:
        main()
