"""Workers on NATS that share a state: whichever of them is asked knows what another one did."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.approved import approve
from tests.cli.test_serve import running
from tests.node.nats.nats_fixtures import nats_server
from tests.polling import blocking_until
from tests.postgres import PostgresServer
from tests.state.test_replicas import Replica, serving

TOOLS = '''
import os
from handrail import tool

@tool(side_effects=True)
async def ship(what: str) -> str:
    """Ship something."""
    with open("../shipped", "a") as file:
        file.write(f"{os.getpid()}\\n")
    return f"shipped {what}"
'''
OTHER_TOOLS = """
from handrail import tool

@tool
def look() -> str:
    \"\"\"Look around.\"\"\"
    return "tea"
"""


@pytest.mark.slow
def test_a_call_that_a_worker_made_before_it_died_is_answered_by_another_one_with_its_record(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    with postgres_server.database() as state_of_workers, nats_server() as nats, ExitStack() as stack:
        for name in ("node", "one", "two"):
            (tmp_path / name).mkdir()
        words = ("--nats", nats.url)
        replica, _ = stack.enter_context(serving(tmp_path / "node", postgres_url, {"tools.py": OTHER_TOOLS}, *words))
        trust = (
            f'[node]\nnats = "{nats.url}"\n[node.trust]\n"{replica.command("identity", "show").strip()}" = "member"\n'
        )
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("HANDRAIL_STATE", state_of_workers)
        for name in ("one", "two"):
            folder = tmp_path / name
            (folder / "tools.py").write_text(TOOLS)
            (folder / "handrail.toml").write_text(trust)
            approve(folder / "handrail.toml")
            stack.enter_context(running(folder, "worker", "--tools", "tools.py"))

        assert blocking_until(lambda: shipped(replica).get("output") == {"content": "shipped tea"})
        (worker,) = (tmp_path / "shipped").read_text().split()
        os.kill(int(worker), signal.SIGKILL)

        assert blocking_until(lambda: is_told(shipped(replica)))
        assert (tmp_path / "shipped").read_text().split() == [worker]


def is_told(answer: Any) -> bool:
    """Whether it is the answer; until then it says when to ask again, as long as the lease of the dead one lasts."""
    assert "output" in answer or answer["retry_after_ms"], answer
    return bool(answer.get("output") == {"content": "shipped tea"})


def shipped(replica: Replica) -> Any:
    """What the replica answers to the one request to ship tea."""
    body = {"capability": "tool.ship", "version": "1.0", "body": {"input": {"what": "tea"}}, "request_id": "ship-1"}
    headers = {"authorization": f"Bearer {replica.token.read_text().strip()}", "content-type": "application/json"}
    try:
        with urlopen(Request(f"{replica.url}/bus/v1/call", json.dumps(body).encode(), headers), timeout=60) as answer:
            return json.load(answer)
    except HTTPError as error:
        return json.load(error)
