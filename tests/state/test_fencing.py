"""A replica that does not answer for longer than its lease, at the worst moment: between the word that an effect may
begin and the effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from handrail.journal import audit
from handrail.state.url import StateUrl
from tests.held_link import HeldLink, held_link
from tests.polling import blocking_until
from tests.postgres import PostgresServer
from tests.state.test_replicas import Replica, serving

TOOLS = '''
from handrail import Invocation, tool

async def find_booked(invocation: Invocation) -> str | None:
    try:
        with open("../booked") as file:
            return "booked" if invocation.arguments["what"] + "\\n" in file else None
    except FileNotFoundError:
        return None

@tool(side_effects=True, reconcile=find_booked)
async def book(what: str) -> str:
    """Book something."""
    with open("../booked", "a") as file:
        file.write(what + "\\n")
    return "booked"
'''


@contextmanager
def two_replicas(
    server: PostgresServer, url: str, folder: Path, at: bytes, *, after: bool
) -> Iterator[tuple[HeldLink, Replica, Replica]]:
    """The connections of the first one are held when it sends these bytes."""
    with held_link(server.port, at, after=after) as link, ExitStack() as stack:
        replicas = []
        for name, place in (("one", link.url(url)), ("two", url)):
            (folder / name).mkdir()
            replicas.append(stack.enter_context(serving(folder / name, place, {"tools.py": TOOLS}))[0])
        cut_off, other = replicas
        yield link, cut_off, other


@pytest.mark.parametrize(("at", "after"), [(b"call.intended", True), (b"call.settled", False)], ids=["begun", "done"])
def test_an_effect_is_made_once_and_told_by_all_where_its_run_is_taken_up_elsewhere_meanwhile(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path, at: bytes, after: bool
) -> None:
    with (
        two_replicas(postgres_server, postgres_url, tmp_path, at, after=after) as (link, cut_off, other),
        ThreadPoolExecutor(1) as thread,
    ):
        first = thread.submit(booked, cut_off, cut_off.token)
        assert blocking_until(link.held.is_set)
        assert blocking_until(lambda: booked(other, cut_off.token).get("output") == {"content": "booked"})
        link.let_go()

        assert first.result().get("outcome") == "in_doubt"
        assert blocking_until(lambda: booked(cut_off, cut_off.token).get("output") == {"content": "booked"})
        assert (tmp_path / "booked").read_text().splitlines() == ["tea"]
    assert audit(StateUrl(postgres_url)).ok


def booked(replica: Replica, token: Path) -> Any:
    """What the replica answers to the one request to book tea."""
    body = {"capability": "tool.book", "version": "1.0", "body": {"input": {"what": "tea"}}, "request_id": "book-1"}
    headers = {"authorization": f"Bearer {token.read_text().strip()}", "content-type": "application/json"}
    try:
        with urlopen(Request(f"{replica.url}/bus/v1/call", json.dumps(body).encode(), headers), timeout=60) as answer:
            return json.load(answer)
    except HTTPError as error:
        return json.load(error)
