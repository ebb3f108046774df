"""An MCP server asks in mid-call while it works for two conversations, and does not say for which of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from handrail.app import Person
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.desk.desk import Desk, open_desk
from handrail.desk.values import DeskQuestion
from handrail.mcp.values import Endpoint
from tests.desk.scripted_desk import PATIENCE, ScriptedDesk, asked, over, reply, snapshot, texts, until

SERVER = '''\
"""A server over pipes that asks in each call, and answers the call when it is answered."""

import json
import sys


def tell(**said):
    print(json.dumps({"jsonrpc": "2.0", **said}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    id = message.get("id")
    match message.get("method"):
        case "initialize":
            about = {"name": "tables", "version": "1"}
            tell(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about})
        case "tools/list":
            schema = {"type": "object", "properties": {"whose": {"type": "string"}}}
            hints = {"readOnlyHint": True}
            tell(id=id, result={"tools": [{"name": "book", "inputSchema": schema, "annotations": hints}]})
        case "tools/call":
            form = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}
            params = {"message": "For " + message["params"]["arguments"]["whose"], "requestedSchema": form}
            tell(id=f"ask-{id}", method="elicitation/create", params=params)
        case None if str(id).startswith("ask-") and "result" in message:
            text = json.dumps(message["result"])
            tell(id=int(id[4:]), result={"content": [{"type": "text", "text": text}]})
        case _ if id is not None:
            tell(id=id, error={"code": -32601, "message": "no such method"})
'''


async def agreed(server: str, endpoint: Endpoint, why: str) -> bool:
    return True


@pytest.fixture
def parlour(tmp_path: Path) -> ScriptedDesk:
    replies = []
    for whose in ("ada", "bob"):
        when = f"for {whose}"
        replies += [reply("", ("tables:book", {"whose": whose}), when=when), reply("Booked.", when=when)]
    made = ScriptedDesk(tmp_path, replies)
    (tmp_path / "tables.py").write_text(SERVER)
    command = json.dumps([sys.executable, str(tmp_path / "tables.py")])
    config = tmp_path / "handrail.toml"
    config.write_text(f"{config.read_text()}\n[mcp.tables]\ncommand = {command}\n")
    return made


@asynccontextmanager
async def opened(parlour: ScriptedDesk) -> AsyncIterator[Desk]:
    person = Person(by="ada", approvals=Approvals(parlour.folder / "state"), consent=agreed)
    config = load_config(parlour.folder / "handrail.toml")
    async with asyncio.timeout(PATIENCE):
        async with open_desk(config, parlour.folder / ".handrail" / "journal.db", person=person, look=None) as desk:
            yield desk


async def both_asked(desk: Desk) -> tuple[str, str]:
    """Two conversations, in each of which a table is to be booked."""
    first, second = await desk.begin(), await desk.begin()
    await desk.say(first, "a table for ada")
    await asked(desk, first)
    await desk.say(second, "a table for bob")
    await until(desk, second, lambda shown: bool(shown.questions))
    return first, second


async def test_it_is_shown_in_both_and_says_so_and_one_answer_is_the_answer(parlour: ScriptedDesk) -> None:
    async with opened(parlour) as desk:
        first, second = await both_asked(desk)
        mine, unsure = (await snapshot(desk, first)).questions
        assert (mine.description, mine.conversation) == ("For ada", first)
        assert "does not say" not in mine.why
        (theirs,) = (await snapshot(desk, second)).questions
        assert unsure.description == theirs.description == "For bob"
        assert (unsure.conversation, theirs.conversation) == (first, second)
        assert "does not say for which it asks: this one, or 'a table for bob'" in unsure.why
        assert "does not say for which it asks: this one, or 'a table for ada'" in theirs.why
        assert [each.request for each in desk.questions] == [mine.request, unsure.request]

        await desk.decide(unsure.request, "edit", arguments={"guests": 2})
        assert texts(await over(desk, second))[-2:] == ['{"action": "accept", "content": {"guests": 2}}', "Booked."]
        assert [each.request for each in (await snapshot(desk, first)).questions] == [mine.request]
        await desk.decide(mine.request, "deny")
        assert texts(await over(desk, first))[-2:] == ['{"action": "decline"}', "Booked."]


async def test_it_waits_in_the_one_that_goes_on_when_the_other_is_stopped(parlour: ScriptedDesk) -> None:
    async with opened(parlour) as desk:
        first, second = await both_asked(desk)
        await desk.stop(first)
        assert (await snapshot(desk, first)).questions == ()
        (theirs,) = (await snapshot(desk, second)).questions
        async with aclosing(desk.watch()) as news:
            told = await anext(news)
        assert told == ("question", theirs) and isinstance(theirs, DeskQuestion)
        await desk.decide(theirs.request, "edit", arguments={"guests": 3})
        assert texts(await over(desk, second))[-1] == "Booked."
        assert desk.questions == ()
