"""Runs a program where pydantic-ai is installed, and gives its MCP servers a minute to start: `PROGRAM ARGUMENT…`.

The five seconds that they have otherwise are not enough on a machine that runs other tests.
"""

import runpy
import sys

from pydantic_ai.mcp import MCPToolset

if __name__ == "__main__":
    (MCPToolset.__init__.__kwdefaults__ or {})["init_timeout"] = 60
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
