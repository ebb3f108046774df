"""A client that cannot ask: its call waits, a webhook tells a person, and a link of it answers that one call."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from handrail.journal.approval_links import ApprovalLink, ApprovalLinks
from tests import prestarted
from tests.approved import approve
from tests.cli.journal_fixtures import run
from tests.cli.test_serve import running
from tests.polling import until

SECRET = "whsec_" + base64.b64encode(b"a secret of the receiver").decode()
TOOLS = '''
from handrail import tool

@tool(side_effects=True)
def note(text: str) -> str:
    """Write a note."""
    open("notes.txt", "a").write(text + "\\n")
    return "noted"
'''


class Receiver(ThreadingHTTPServer):
    """Takes posts; the first is refused, as by a service that is down for a moment."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tries: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.tries.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(503 if len(self.server.tries) == 1 else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def folder(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("HOOK_URL", receiver.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    port = free_port()
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "handrail.toml").write_text(
        f"""
rules = ["ask note"]
[node]
port = {port}
[services]
llm = false
[approvals]
webhook = "env:HOOK_URL"
secret = "env:HOOK_SECRET"
address = "http://127.0.0.1:{port}"
"""
    )
    approve(tmp_path / "handrail.toml")
    return tmp_path


def client(folder: Path) -> Client:
    names = ("HOOK_SECRET", "HOOK_URL", "XDG_STATE_HOME", "PATH")
    python, *rest = prestarted.command()
    server = StdioServerParameters(
        command=python,
        args=[*rest, "-m", "handrail", "mcp", "serve", "--tools", "tools.py"],
        cwd=folder,
        env={name: os.environ[name] for name in names},
    )
    return Client(server, mode="legacy")


def words(result: Any) -> str:
    return "".join(each.text for each in result.content if isinstance(each, mcp_types.TextContent))


def opened(url: str) -> tuple[str, str]:
    """What a page says, and the policy that holds it."""
    with urlopen(url, timeout=30) as answer:
        return answer.read().decode(), answer.headers["content-security-policy"]


def post(url: str, decision: str) -> str:
    """As a browser sends the form of the page."""
    origin = {"Origin": url.partition("/approvals/")[0]}
    request = Request(url, data=urllib.parse.urlencode({"decision": decision}).encode(), headers=origin)
    with urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def status_of(url: str, decision: str | None = None) -> int:
    try:
        with urlopen(url, timeout=30) if decision is None else urlopen(Request(url, b"decision=" + decision.encode())):
            return 200
    except HTTPError as error:
        with error:
            return error.code


async def test_a_person_allows_the_call_of_a_client_that_cannot_ask_by_a_link_and_it_runs_once(
    folder: Path, receiver: Receiver
) -> None:
    async with client(folder) as session:
        waits = await session.call_tool("note", {"text": "<b>one</b>"})
        await until(lambda: len(receiver.tries) >= 2)
        message = json.loads(receiver.tries[1][1])
        links = message["data"]["links"]

        with running(folder, "serve"):
            page, policy = opened(links["allow"])
            still = await session.call_tool("note", {"text": "<b>one</b>"})
            written_by_looking = (folder / "notes.txt").exists()
            changed = status_of(links["allow"][:-4] + "AAAA")
            nonsense = status_of(links["allow"], "maybe")
            said = post(links["allow"], "allow")
            second = status_of(links["deny"], "deny")
            ran = await session.call_tool("note", {"text": "<b>one</b>"})
            other = await session.call_tool("note", {"text": "two"})

    assert (waits.is_error, "handrail confirm allow" in words(waits)) == (True, True)
    assert "/approvals/" not in words(waits)
    assert (still.is_error, written_by_looking) == (True, False)
    assert "&lt;b&gt;one" in page and "<b>one" not in page
    assert "rule 'ask note'" in message["text"]
    assert "rule 'ask note'" in message["blocks"][0]["text"]["text"]
    assert "frame-ancestors 'none'" in policy
    assert (changed, nonsense, second) == (403, 403, 403)
    assert "Allowed" in said
    assert (ran.is_error, other.is_error) == (False, True)
    assert (folder / "notes.txt").read_text() == "<b>one</b>\n"

    assert message["text"] and message["blocks"][-1]["elements"][0]["url"] == links["allow"]
    assert receiver.tries[0][1] == receiver.tries[1][1]
    for told, body in receiver.tries[:2]:
        signed = f"{told['webhook-id']}.{told['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert told["webhook-signature"] == f"v1,{wanted}"


async def test_a_webhook_that_is_down_loses_no_question(
    folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{free_port()}/")
    async with client(folder) as session:
        waits = await session.call_tool("note", {"text": "one"})
        (command,) = re.findall(r"handrail (confirm allow \S+ --journal \S+)\. ", words(waits))
        monkeypatch.chdir("/")  # the command is whole: it is good in any folder
        allowed = await asyncio.to_thread(run, *command.split(), "--yes")
        ran = await session.call_tool("note", {"text": "one"})

    assert (waits.is_error, allowed.exit_code, ran.is_error) == (True, 0, False)


async def test_a_page_and_a_message_say_why_a_person_is_asked_about_an_equal_call_again(
    folder: Path, receiver: Receiver
) -> None:
    async with client(folder) as session:
        waits = await session.call_tool("note", {"text": "one"})
        (command,) = re.findall(r"handrail (confirm allow \S+ --journal \S+)\. ", words(waits))
        await asyncio.to_thread(run, *command.split(), "--yes")
        await session.call_tool("note", {"text": "one"})
    async with client(folder) as session:
        given = await session.call_tool("note", {"text": "one"})
        posted = len(receiver.tries)
        await session.call_tool("note", {"text": "one"})
        await until(lambda: len(receiver.tries) > posted)
        message = json.loads(receiver.tries[-1][1])
        with running(folder, "serve"):
            page, _ = opened(message["data"]["links"]["allow"])

    assert "not run again" in words(given)
    assert "You are asked because an equal call was made a short time ago" in page
    assert "an equal call was made a short time ago" in message["text"]
    assert "an equal call was made a short time ago" in message["blocks"][0]["text"]["text"]


async def test_a_client_is_told_once_that_its_call_was_denied_and_a_deny_link_cannot_allow(
    folder: Path, receiver: Receiver
) -> None:
    async with client(folder) as session:
        await session.call_tool("note", {"text": "one"})
        await until(lambda: len(receiver.tries) >= 2)
        with running(folder, "serve"):
            link = json.loads(receiver.tries[1][1])["data"]["links"]["deny"]
            allowed = status_of(link, "allow")
            denied = status_of(link, "deny")
    async with client(folder) as session:
        told = await session.call_tool("note", {"text": "one"})
        posted = len(receiver.tries)
        asked = await session.call_tool("note", {"text": "one"})
        await until(lambda: len(receiver.tries) > posted)

    assert (allowed, denied) == (403, 200)
    assert ("denied" in words(told), "waits for a person" in words(told)) == (True, False)
    assert "waits for a person" in words(asked)
    assert not (folder / "notes.txt").exists()


def test_a_configuration_that_posts_questions_elsewhere_must_be_approved(folder: Path) -> None:
    config = folder / "handrail.toml"
    config.write_text(config.read_text().replace("env:HOOK_URL", "https://eve.example/hook"))

    refused = run("mcp", "serve", "--tools", "tools.py")

    assert refused.exit_code == 1
    assert "post each call that waits for approval, with its arguments, to: https://eve.example/hook" in refused.stderr


def test_a_link_is_good_for_its_time_and_its_journal_only(tmp_path: Path) -> None:
    links = ApprovalLinks.beside(tmp_path / "journal.db")
    link = ApprovalLink(run="run_1", request="confirm_1", binds="sha256:1", expires=2_000)
    token = links.token(link)

    assert ApprovalLinks.beside(tmp_path / "journal.db").read(token, 1_999) == link
    for reader, text, now in (
        (links, token, 2_000),
        (ApprovalLinks(b"other"), token, 1),
        (links, "", 1),
        (links, ".", 1),
        (links, token.replace(".", ""), 1),
        (links, "\u00e9" + token, 1),
    ):
        with pytest.raises(Exception, match="link"):
            reader.read(text, now)
    assert (tmp_path / "approvals.key").stat().st_mode & 0o077 == 0
