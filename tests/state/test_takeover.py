"""Turns that were cut off with a replica go on at another one by themselves, when a process is really killed."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handrail.journal import audit
from handrail.journal.reader import JournalReader
from handrail.state.url import StateUrl
from tests.polling import blocking_until
from tests.state.test_replicas import Replica, serving

TOOLS = '''
import asyncio, os
from handrail import tool

@tool(side_effects=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    with open("../paid", "a") as file:
        file.write(to + "\\n")
    while not os.path.exists("../go"):
        await asyncio.sleep(0.05)
    return "paid"

@tool(side_effects=True)
def order(what: str) -> str:
    """Order something."""
    with open("../ordered", "a") as file:
        file.write(what + "\\n")
    return "ordered"
'''
CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
model = "replies.toml"
"""
REPLIES = """
[[reply]]
when = "Pay"
calls = [{ name = "pay", arguments = { to = "ada" } }]
[[reply]]
when = "Pay"
text = "It is not known whether ada was paid."
[[reply]]
when = "Order"
calls = [{ name = "order", arguments = { what = "tea" } }]
[[reply]]
when = "Order"
text = "Tea is ordered."
"""
FILES = {"tools.py": TOOLS, "handrail.toml": CONFIG, "replies.toml": REPLIES}


UNKNOWN = "It is not known whether ada was paid."


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_turns_of_a_replica_that_is_gone_go_on_at_one_other_by_themselves(
    postgres_url: str, tmp_path: Path, how: signal.Signals
) -> None:
    with ExitStack() as stack:
        replicas = []
        for name in ("one", "two", "three"):
            (tmp_path / name).mkdir()
            words = ("--rule", "allow pay")
            replicas.append(stack.enter_context(serving(tmp_path / name, postgres_url, FILES, *words, forked=False)))
        (gone, process), (survivor, _), _ = replicas
        token, url = gone.token, StateUrl(postgres_url)
        paying, ordering = said(gone, "Pay ada"), said(gone, "Order tea")
        assert blocking_until(lambda: lines(tmp_path / "paid") and questions(gone, token))
        process.send_signal(how)

        # Somebody looks at one of them meanwhile, which is no reason not to go on with it, and at the other nobody.
        assert blocking_until(lambda: texts(survivor, paying, token)[-1] == UNKNOWN)
        assert blocking_until(lambda: "run.resumed" in types(url, ordering))
        assert lines(tmp_path / "paid") == ["ada"]
        assert not lines(tmp_path / "ordered")
        (question,) = questions(survivor, token)
        survivor.command("confirm", "allow", question["request"])
        assert blocking_until(lambda: texts(survivor, ordering, token)[-1] == "Tea is ordered.")
        assert lines(tmp_path / "ordered") == ["tea"]
        assert blocking_until(lambda: all("run.finished" in types(url, each) for each in (paying, ordering)))
        assert [types(url, each).count("reply.given") for each in (paying, ordering)] == [2, 2]

        if how is signal.SIGSTOP:
            before = texts(survivor, paying, token), texts(survivor, ordering, token)
            (tmp_path / "go").touch()
            process.send_signal(signal.SIGCONT)
            for seen in (gone, survivor):  # what wakes up takes over what was said elsewhere, and changes nothing
                assert blocking_until(partial(shows, seen, token, {paying: before[0], ordering: before[1]}))
            assert lines(tmp_path / "paid") == ["ada"]
            assert lines(tmp_path / "ordered") == ["tea"]
    assert audit(url).ok


def said(replica: Replica, text: str) -> str:
    id = replica.desk("begin", {}, replica.token)["id"]
    replica.desk("say", {"id": id, "text": text}, replica.token)
    return str(id)


def questions(replica: Replica, token: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = replica.desk("questions", {}, token)["questions"]
    return found


def texts(replica: Replica, id: str, token: Path) -> list[str]:
    items = replica.desk("items", {"id": id, "before": 99}, token)["items"]
    return [item["text"]["text"] for item in items if item.get("text")]


def types(url: StateUrl, run: str) -> list[str]:
    with JournalReader(url) as reader:
        return [entry.type for entry in reader.entries(run)]


def shows(replica: Replica, token: Path, wanted: dict[str, list[str]]) -> bool:
    return all(texts(replica, id, token) == said for id, said in wanted.items())


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
