"""What a command loads before it has anything to do. Modules are counted, not milliseconds."""

from __future__ import annotations

import subprocess
import sys

_LOADED = """
import sys
from handrail.cli import main
sys.argv = ["handrail", *{words!r}]
try:
    main()
except SystemExit:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def _loaded_by(*words: str) -> set[str]:
    code = _LOADED.format(words=list(words))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: handrail")
    return set(done.stderr.split())


def test_help_loads_no_event_loop_no_journal_and_no_validator() -> None:
    loaded = _loaded_by("--help")
    assert not loaded & {"asyncio", "sqlite3", "msgspec", "rich", "jsonschema_rs", "tomllib"}
    assert len({each for each in loaded if each.startswith("handrail")}) < 20


def test_the_help_of_ask_loads_nothing_that_asks() -> None:
    loaded = _loaded_by("ask", "--help")
    assert not loaded & {"asyncio", "sqlite3", "rich", "jsonschema_rs", "tomllib", "handrail.config", "handrail.app"}
    assert not {each for each in loaded if each.startswith(("handrail.execute", "handrail.tools", "handrail.models"))}


def test_the_proxy_can_start_its_servers_before_it_loads_the_official_package() -> None:
    code = (
        "import sys, handrail.cli.mcp.serve, handrail.app.mcp_serving, handrail.mcp.server.stdio; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"mcp", "mcp_types", "pydantic", "anyio", "starlette", "httpx2"}
