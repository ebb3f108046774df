"""Agents of other packages, unchanged, whose default is the Responses API: call, result, answer, over this gateway."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.turns.homes import PEERS, python
from bench.turns.processes import CACHE, environment
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import KEY, finished, scene
from tests.node.gateways.test_response_store import said
from tests.npm_packages import PACKAGES, node

HERE = Path(__file__).parent / "packages"


def asked_twice() -> ScriptedModel:
    """An answer that takes a call of the node and one of the client, and what follows; whole, and then streamed."""
    replies = (
        [text("Let me see."), call("add", a=1, b=2), finished("tool_calls")],
        [call("weather", city="Kleve"), finished("tool_calls")],
        [text("Rain, "), text("and 3."), finished()],
        [text("Yes."), finished()],
    )
    return ScriptedModel(*replies, *replies)


FIRST = ["system Be brief.", "user How warm?"]
ANSWERED = [
    *FIRST,
    "assistant Let me see.",
    "call add",
    "result 3",
    "assistant",
    "call weather",
    "result rain in Kleve",
    "assistant Rain, and 3.",
]


async def run(command: list[str | Path], folder: Path, url: str) -> dict[str, Any]:
    """What a program prints, with the gateway in the place of OpenAI's service."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**environment(), "PYTHONPATH": "", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, complaints = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, complaints.decode()
    found: dict[str, Any] = json.loads(printed)
    return found


def command_of(package: str, folder: Path) -> list[str | Path]:
    if package in PEERS:
        assert (CACHE / package / "made_from").exists(), f"{package} is not installed: run `make suite`"
        return [python(package), HERE / f"with_{package}.py"]
    assert (PACKAGES / "@ai-sdk" / "openai").is_dir(), "the AI SDK is not installed: run scripts/setup_node.py"
    (folder / "node_modules").symlink_to(PACKAGES)  # node looks for packages beside the program
    return [node(), shutil.copy(HERE / f"with_{package}.mjs", folder)]


def words(lines: list[str]) -> list[str]:
    """Without the replies that only call, which some clients leave out, and system messages beyond the first."""
    return [line for at, line in enumerate(lines) if line != "assistant" and not (at and line.startswith("system"))]


@pytest.mark.parametrize("package", ["openai_agents", "pydantic_ai", "langchain", "vercel"])
async def test_an_agent_of_the_package_runs_whole_and_streamed(package: str, tmp_path: Path) -> None:
    model = asked_twice()
    async with scene(model) as there:
        found = await run(command_of(package, tmp_path), tmp_path, there.url)

    assert found["said"][0].endswith("Rain, and 3.") and found["said"][2].endswith("Rain, and 3.")
    assert (found["said"][1], found["said"][3]) == ("Yes.", "Yes.")
    assert found["shown"] == 2  # the call of the node, and the one of the client
    for at in (0, 4):
        assert said(model, at) == FIRST
        assert words(said(model, at + 3)) == words([*ANSWERED, "user Sure?"])
