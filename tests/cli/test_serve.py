"""`handrail serve`, `handrail worker` and `handrail bus`, as processes that talk with each other."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from click.testing import Result

from tests import prestarted
from tests.approved import approve
from tests.cli.journal_fixtures import environment, run
from tests.node.nats.certificates import Authority
from tests.node.nats.nats_fixtures import nats_server

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
def running(
    folder: Path, *words: str, until: str = "Token, good", forked: bool = True
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command that goes on, and what it has said until it was ready. SIGSTOP does not reach one that is forked."""
    python = prestarted.command(*prestarted.NODE) if forked else [sys.executable]
    command = [*python, "-m", "handrail", *words]
    with subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        try:
            for line in process.stderr:
                said.append(line.rstrip())
                if line.startswith(("Token", "Serving 2", "Serving 3")) or until in line:
                    break
            yield process, said
        finally:
            if process.poll() is None:
                process.kill()


def told_to_end(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=30)


def asked(folder: Path, *words: str, **variables: str) -> Result:
    """In this process, which is quicker."""
    with chdir(folder):
        return run(*words, env=variables)


def handrail(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handrail", *words],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def answered(folder: Path, *words: str, **variables: str) -> Any:
    out = asked(folder, "bus", *words, **variables)
    assert out.exit_code == 0, out.stderr
    return json.loads(out.stdout)


def test_a_node_serves_its_tools_to_those_who_bring_its_token(folder: Path) -> None:
    serve = ("serve", "--listen", "127.0.0.1:0", "--tools", "tools.py", "--token-file", "token")
    with running(folder, *serve) as (process, said):
        (folder / "water.md").write_text("Rain water must boil for three minutes.")
        url = said[1].removeprefix("Serving at ")
        token = (folder / "token").read_text().strip()
        here = ("--at", url, "--token-file", "token")
        listed = asked(folder, "bus", "list", *here).stdout
        added = answered(folder, "call", "tool.add", '{"a": 1, "b": 2}', *here)
        stored = answered(
            folder, "call", "rag.ingest", '{"params": {"corpus": "c"}}', "--blob", "doc_cid=water.md", *here
        )
        noted = answered(folder, "call", "tool.note", '{"text": "good"}', "--at", url, HANDRAIL_TOKEN=token)
        denied = asked(folder, "bus", "call", "tool.note", '{"text": "bad"}', *here)
        nobody = asked(folder, "bus", "call", "tool.add", '{"a": 1, "b": 2}', "--at", url, HANDRAIL_TOKEN="")
        wrong = asked(folder, "bus", "call", "tool.add", '{"a": "one"}', *here)
        frames = asked(folder, "bus", "call", "llm.chat@2.0", "--stream", CHAT, *here)
        ended = told_to_end(process)

    assert stat.S_IMODE(os.stat(folder / "token").st_mode) == 0o600
    assert re.search(r"^tool\.note@1\.0 +writes +member", listed, re.MULTILINE)
    assert (added["output"], noted["output"]) == ({"content": 3}, {"content": "noted"})
    assert stored["output"]["chunks_indexed"] == 1
    assert "rule 'deny note text=bad*' denied" in denied.stderr
    assert "send it as" in nobody.stderr
    assert "$HANDRAIL_TOKEN or --token-file" in nobody.stderr
    assert "missing required 'b'; a: expected integer" in wrong.stderr
    assert "handrail bus list NAME --json shows what it takes" in wrong.stderr
    assert [json.loads(line)["event"] for line in frames.stdout.splitlines()][-2:] == ["tool_call", "done"]
    assert (folder / "notes.txt").read_text() == "good\n"
    assert ended == 0
    assert said[0] == f"Page: {url}/, which will ask for the token"
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
        listed = asked(other, "bus", "list", "tool.add", "--nats", server.url, "--json")
        stranger = asked(other, "bus", "call", "tool.add", '{"a": 1, "b": 2}', "--nats", server.url)
        token = asked(folder, "token", "issue", "--can", "tool.add@1.*", "--for", "*").stdout.strip()
        added = answered(other, "call", "tool.add", '{"a": 1, "b": 2}', "--nats", server.url, HANDRAIL_TOKEN=token)
        beyond = asked(other, "bus", "call", "tool.note", '{"text": "x"}', "--nats", server.url, HANDRAIL_TOKEN=token)
        ended = told_to_end(process)

    assert json.loads(listed.stdout)["node_id"] == node
    assert "unauthorized" in stranger.stderr
    assert added["output"] == {"content": 3}
    assert "token_scope_insufficient" in beyond.stderr
    assert not (folder / "notes.txt").exists()
    assert ended == 0


def test_a_worker_shows_the_certificate_of_its_configuration_and_so_does_who_calls_it(folder: Path) -> None:
    authority = Authority(folder)
    certificate, key = authority.pair("server")
    authority.pair("node")
    named = 'nats_cert = "node.pem"\nnats_key = "node.key"\nnats_ca = "ca.pem"\n'
    (folder / "handrail.toml").write_text(CONFIG + named)
    approve(folder / "handrail.toml")
    with nats_server(
        *("--tlsverify", "--tlscacert", str(authority.file), "--tlscert", str(certificate), "--tlskey", str(key))
    ) as server:
        url = server.url.replace("nats://", "tls://")
        with running(folder, "worker", "--nats", url, "--tools", "tools.py") as (process, said):
            listed = asked(folder, "bus", "list", "tool.add", "--nats", url, "--json")
            ended = told_to_end(process)

    assert said[0].endswith(json.loads(listed.stdout)["node_id"])
    assert ended == 0


def test_of_several_nats_servers_one_that_is_there_is_used(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        dead = f"nats://127.0.0.1:{door.getsockname()[1]}"
    with (
        nats_server() as server,
        running(folder, "worker", "--nats", dead, "--nats", server.url, "--tools", "tools.py") as (process, said),
    ):
        listed = asked(folder, "bus", "list", "tool.add", "--nats", f"{dead},{server.url}", "--json")
        ended = told_to_end(process)

    # Which server is tried first is drawn; one that is not there is told before.
    assert any(line.endswith(json.loads(listed.stdout)["node_id"]) for line in said)
    assert ended == 0


def test_a_worker_without_a_nats_server_says_what_to_write(folder: Path) -> None:
    out = handrail(folder, "worker", "--tools", "tools.py")
    assert out.returncode == 1
    assert 'write nats = "nats://HOST:4222" under [node]' in out.stderr


def test_a_node_whose_nats_server_is_not_there_serves_over_http_and_says_so_without_the_password(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        nats = f"nats://me:swordfish@127.0.0.1:{door.getsockname()[1]}"
    with running(folder, "serve", "--listen", "127.0.0.1:0", "--nats", nats, "--tools", "tools.py") as (process, said):
        url = said[-2].removeprefix("Serving at ")
        token = said[-1].rpartition(" ")[2]
        added = answered(folder, "call", "tool.add", '{"a": 1, "b": 2}', "--at", url, HANDRAIL_TOKEN=token)
        ended = told_to_end(process)

    assert any("NATS is not there" in line for line in said)
    assert f"Page: {url}/#token={token}" in said
    assert "swordfish" not in "\n".join(said)
    assert added["output"] == {"content": 3}
    assert ended == 0


def test_a_program_reads_the_address_of_a_node_and_its_token_from_one_line_of_json(folder: Path) -> None:
    command = [sys.executable, "-m", "handrail", "serve", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        with urlopen(said["page"]) as page:
            shown = page.read().decode()
        ended = told_to_end(process)

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", said["url"])
    assert (said["page"], "<!doctype html>" in shown) == (f"{said['url']}/#token={said['token']}", True)
    assert said["node_id"].startswith("ed25519:")
    assert said["token"].startswith("hntoken://v1/")
    assert ended == 0


@pytest.mark.parametrize(("words", "more"), [(("--no-page",), ""), ((), "[services]\npage = false\n")])
def test_a_node_can_do_without_the_page_and_what_only_it_calls(folder: Path, words: tuple[str, ...], more: str) -> None:
    (folder / "handrail.toml").write_text(CONFIG + more)
    serve = ("-m", "handrail", "serve", "--listen", "127.0.0.1:0", "--json")
    command = [*prestarted.command(*prestarted.NODE), *serve, *words]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        with pytest.raises(HTTPError) as page:
            urlopen(f"{said['url']}/")
        page.value.close()
        desk = asked(folder, "bus", "call", "desk.about", "--at", said["url"], HANDRAIL_TOKEN=said["token"])
        told_to_end(process)

    assert ("page" in said, page.value.code) == (False, 404)
    assert "not_found" in desk.stderr


def test_a_node_that_cannot_be_reached_or_tell_its_token_says_so_in_one_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        here = f"127.0.0.1:{taken.getsockname()[1]}"
        busy = handrail(folder, "serve", "--listen", here)
    issued = asked(folder, "token", "list", "--json").stdout
    lost = handrail(folder, "serve", "--listen", "127.0.0.1:0", "--token-file", "no/folder/token")

    assert (busy.returncode, lost.returncode) == (1, 1)
    assert busy.stderr == (
        f"handrail: cannot listen at {here}: Address already in use; choose another port, or another address\n"
    )
    assert lost.stderr == (
        "handrail: the token cannot be written to 'no/folder/token': No such file or directory;"
        " name another file with --token-file\n"
    )
    assert issued == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("call", "tool.add", "{", "--at", "http://127.0.0.1:9"), "the body is not a JSON object"),
        (("call", "tool.add@x", "--at", "http://127.0.0.1:9"), "'x' is not a version"),
        (("list", "--at", "http://127.0.0.1:9", "--nats", "nats://127.0.0.1:9"), "use only one of them"),
        (("list", "--at", "http://127.0.0.1:9", "--token-file", "none"), "cannot be read"),
        (("list", "--at", "ftp://127.0.0.1:9"), "write --at http://127.0.0.1:8420"),
        (("list", "--at", "127.0.0.1:9"), "check that handrail serve runs there"),
        (("call", "img.describe", "--blob", "image_cid"), "is not of the form FIELD=FILE"),
        (("call", "img.describe", "--blob", "image_cid=none.png"), "the file 'none.png' cannot be read"),
    ],
)
def test_a_mistake_on_the_command_line_is_told(folder: Path, words: tuple[str, ...], why: str) -> None:
    out = asked(folder, "bus", *words)
    assert (out.exit_code, why in out.stderr) == (1, True), out.stderr


@pytest.fixture
def _hears_hang_ups() -> Iterator[None]:
    """Programs that are started here hear SIGHUP, also where the tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_hears_hang_ups")
def test_sighup_reloads_the_configuration_and_says_what_holds_later(folder: Path) -> None:
    approve(folder / "handrail.toml")
    with running(folder, "serve", "--listen", "127.0.0.1:0", "--no-page", "--tools", "tools.py") as (process, _):
        assert process.stderr is not None
        for changed, told in (
            (CONFIG.replace("bad*", "worse*"), "The configuration was reloaded."),
            (CONFIG.replace("kitchen", "attic"), "holds from the next start on"),
            (CONFIG + "[nonsense", "until it is mended, everything stays as it was"),
        ):
            (folder / "handrail.toml").write_text(changed)
            approve(folder / "handrail.toml")
            process.send_signal(signal.SIGHUP)
            assert any(told in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(60) == 0


def test_the_port_for_operators_answers_without_a_token_and_offers_nothing_else(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "handrail.toml").write_text(CONFIG + f'metrics = "127.0.0.1:{port}"\n')
    approve(folder / "handrail.toml")
    with running(folder, "serve", "--listen", "127.0.0.1:0", "--no-page", "--tools", "tools.py"):
        for path, word in (("metrics", "handrail_in_flight"), ("health", "ok"), ("ready", "ready")):
            with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
                assert word in answer.read().decode()
        for path in ("capabilities", "trace/recent", "bus/v1/call", ""):
            with pytest.raises(HTTPError) as refused:
                urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60)
            refused.value.close()
            assert refused.value.code == 404
