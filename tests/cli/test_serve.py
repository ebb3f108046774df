"""`handrail serve`, `handrail worker` and `handrail bus`, as processes that talk with each other."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bus.nats.scene import nats_server
from tests.cli.scene import environment

TOOLS = '''
from handrail import tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool(side_effects=True)
def note(text: str) -> str:
    """Write a note."""
    open("notes.txt", "a").write(text + "\\n")
    return "noted"
'''
CONFIG = """
default_model = "scripted"
rules = ["deny note text=bad*"]
[models.scripted]
provider = "scripted"
model = "replies.toml"
[node]
name = "kitchen"
"""
REPLIES = """
[[reply]]
calls = [{ name = "add", arguments = { a = 1, b = 2 } }]
[[reply]]
text = "It is 3."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("tools.py", TOOLS), ("handrail.toml", CONFIG), ("replies.toml", REPLIES)):
        (tmp_path / name).write_text(text)
    return tmp_path


@contextmanager
def running(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command that goes on, and what it has said until it was ready."""
    command = [sys.executable, "-m", "handrail", *words]
    with subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        try:
            for line in process.stderr:
                said.append(line.rstrip())
                if line.startswith(("Token", "Serving 2", "Serving 3")):
                    break
            yield process, said
        finally:
            if process.poll() is None:
                process.kill()


def told_to_end(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=30)


def asked(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handrail", "bus", *words],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def answered(folder: Path, *words: str, **variables: str) -> Any:
    out = asked(folder, *words, **variables)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def test_a_node_serves_its_tools_to_those_who_bring_its_token(folder: Path) -> None:
    serve = ("serve", "--listen", "127.0.0.1:0", "--tools", "tools.py", "--token-file", "token")
    with running(folder, *serve) as (process, said):
        url = said[0].removeprefix("Serving at ")
        token = (folder / "token").read_text().strip()
        here = ("--at", url, "--token-file", "token")
        listed = asked(folder, "list", *here).stdout
        added = answered(folder, "call", "tool.add", '{"a": 1, "b": 2}', *here)
        noted = answered(folder, "call", "tool.note", '{"text": "good"}', "--at", url, HANDRAIL_TOKEN=token)
        denied = asked(folder, "call", "tool.note", '{"text": "bad"}', *here)
        nobody = asked(folder, "call", "tool.add", '{"a": 1, "b": 2}', "--at", url, HANDRAIL_TOKEN="")
        wrong = asked(folder, "call", "tool.add", '{"a": "one"}', *here)
        frames = asked(folder, "call", "llm.chat@2.0", "--stream", CHAT, *here)
        ended = told_to_end(process)

    assert stat.S_IMODE(os.stat(folder / "token").st_mode) == 0o600
    assert re.search(r"^tool\.note@1\.0 +yes +member", listed, re.MULTILINE)
    assert (added["output"], noted["output"]) == ({"content": 3}, {"content": "noted"})
    assert "rule 'deny note text=bad*' denied" in denied.stderr
    assert "send a token" in nobody.stderr
    assert "missing required 'b'; a: expected integer" in wrong.stderr
    assert [json.loads(line)["event"] for line in frames.stdout.splitlines()][-2:] == ["tool_call", "done"]
    assert (folder / "notes.txt").read_text() == "good\n"
    assert ended == 0
    assert token not in "\n".join((*said, denied.stderr, nobody.stderr, wrong.stderr))


CHAT = json.dumps(
    {
        "input": {
            "messages": [{"role": "user", "content": "1 + 2?"}],
            "tools": [{"name": "add", "description": "Add.", "parameters_schema": {"type": "object"}}],
        }
    }
)


def test_workers_serve_the_nodes_on_a_nats_server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    with (
        nats_server() as server,
        running(folder, "worker", "--nats", server.url, "--tools", "tools.py") as (process, said),
    ):
        capabilities = re.fullmatch(r"Serving (\d+) capabilities to 'home' as (ed25519:\S+)", said[0])
        assert capabilities is not None
        node = capabilities[2]
        listed = asked(other, "list", "tool.add", "--nats", server.url, "--json")
        stranger = asked(other, "call", "tool.add", '{"a": 1, "b": 2}', "--nats", server.url)
        issued = subprocess.run(
            [sys.executable, "-m", "handrail", "token", "issue", "--can", "tool.add@1.*", "--for", "*"],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        token = issued.stdout.strip()
        added = answered(other, "call", "tool.add", '{"a": 1, "b": 2}', "--nats", server.url, HANDRAIL_TOKEN=token)
        beyond = asked(other, "call", "tool.note", '{"text": "x"}', "--nats", server.url, HANDRAIL_TOKEN=token)
        ended = told_to_end(process)

    assert json.loads(listed.stdout)["node_id"] == node
    assert "unauthorized" in stranger.stderr
    assert added["output"] == {"content": 3}
    assert "token_scope_insufficient" in beyond.stderr
    assert not (folder / "notes.txt").exists()
    assert ended == 0


def test_a_worker_without_a_nats_server_says_what_to_write(folder: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-m", "handrail", "worker", "--tools", "tools.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 1
    assert 'write nats = "nats://HOST:4222" under [node]' in out.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("call", "tool.add", "{", "--at", "http://127.0.0.1:9"), "the body is no JSON object"),
        (("call", "tool.add@x", "--at", "http://127.0.0.1:9"), "'x' is no version"),
        (("list", "--at", "http://127.0.0.1:9", "--nats", "nats://127.0.0.1:9"), "take one"),
        (("list", "--at", "http://127.0.0.1:9", "--token-file", "none"), "cannot be read"),
    ],
)
def test_a_mistake_on_the_command_line_is_told(folder: Path, words: tuple[str, ...], why: str) -> None:
    out = asked(folder, *words)
    assert (out.returncode, why in out.stderr) == (1, True), out.stderr
