"""The server that the suite tests: `python -m conformance.server [--port N]`.

It offers what the suite wants to see, by tools of ours behind the real executor and the
real server. Its first line says where it is.
"""

from __future__ import annotations

import argparse
import asyncio

from conformance.fixture import asking, long, tools
from conformance.fixture.rest import PROMPTS, Fixtures
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.definition import ChangeNotices, McpServerDefinition
from handrail.mcp.server.http import serve_http
from handrail.tools.registry import registered


async def serve(port: int) -> None:
    """Until it is told to end."""
    notices, asker = ChangeNotices(), ClientApprover()
    offered = registered(*tools.TOOLS, *asking.TOOLS, *long.TOOLS, *tools.triggers(notices))
    async with Executor(offered, policy=Policy(concurrency=64), approver=asker) as executor:
        served = McpServerDefinition(
            name="handrail-conformance",
            version="1.0.0",
            instructions="Tools for the conformance suite.",
            tools=lambda: offered,
            invoker=executor,
            asker=asker,
            resources=(Fixtures(),),
            prompts=PROMPTS,
            notices=notices,
        )
        await serve_http(served, port=port, ready=lambda url: print(url, flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m conformance.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
