"""The views over the node's own socket: what the page asks for, what it gets, and what it is refused."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handrail.app.network_node import NetworkNode
from handrail.app.person import Person
from handrail.config.load import load_config
from handrail.core.errors import BusError
from handrail.desk.service.desk_service import open_desk_node
from handrail.desk.views.values import NetworkPage, RunPage, SettingsForm, SettingsPage, ToolPage, ToolRow
from handrail.journal.auditing import Receipt
from handrail.journal.keys import Verifier
from handrail.journal.reader import JournalReader
from handrail.node.http.bus import HttpBus
from handrail.node.server.serving import serve
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue, parse_token
from tests.desk.views_folder import CONFIG, ViewsFolder, call
from tests.polling import until


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ViewsFolder]:
    yield ViewsFolder(tmp_path)
    sys.modules.pop("looked_at", None)  # another test has its own


class Page:
    """Asks as a page does."""

    def __init__(self, node: NetworkNode, url: str, token: str) -> None:
        self.node = node
        self.url = url
        self.bus = HttpBus(url, token=token, transport="websocket")

    async def ask(self, capability: str, **input: Any) -> Any:
        frames = await self.frames(capability, **input)
        (answer,) = (data for event, data in frames if event == "answer")
        return answer

    async def frames(self, capability: str, upto: str = "done", **input: Any) -> list[tuple[str, dict[str, Any]]]:
        found = []
        async with asyncio.timeout(20), self.bus.stream(capability, "1.0", {"input": input}) as stream:
            async for frame in stream:
                if frame.event == "error":
                    raise BusError.from_dict(frame.data)
                found.append((frame.event, frame.data))
                if frame.event == upto:
                    break
        return found


@asynccontextmanager
async def page(house: ViewsFolder, *, trusted: bool = True, issued: str | None = None) -> AsyncIterator[Page]:
    """The page with the token of whoever started the node; or one with an issued token, as `handrail token issue` makes
    it."""
    person = Person(by="ada", approvals=house.approvals, tell=house.told.append)
    async with AsyncExitStack() as stack:
        config = load_config(house.file)
        node = await stack.enter_async_context(open_desk_node(config, house.journal, person=person, look=None))
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(node.server(), ready=address.set_result))
        task.add_done_callback(lambda _: address.cancel())
        stack.push_async_callback(asyncio.wait, {task})
        stack.callback(task.cancel)
        token = node.session_token()
        if not trusted:
            _, token = issue(node.identity, node.tokens, Scope.of(("*",)), audience="home")
        if issued is not None:
            _, token = issue(node.identity, node.tokens, Scope.of((issued,)), audience="home", trust="trusted")
        shown = Page(node, await address, str(token))
        stack.push_async_callback(shown.bus.aclose)
        yield shown


async def test_tools_and_their_numbers(house: ViewsFolder) -> None:
    async with page(house) as here:
        await call(here.node.app, "run_1", "add", a=1, b=2)
        rows = msgspec.convert((await here.ask("desk.tools"))["tools"], list[ToolRow])
        one = msgspec.convert(await here.ask("desk.tool", name="desk:add"), ToolPage)
        with pytest.raises(BusError, match="addd"):
            await here.ask("desk.tool", name="addd")

    assert {row.name: row.picked for row in rows}["desk:add"] == one.row.picked == 1


async def test_a_tool_is_tried_asked_about_and_let_go(house: ViewsFolder) -> None:
    async with page(house) as here:
        done = await here.frames("desk.try", name="add", arguments={"a": 1, "b": 2})
        deciding = asyncio.create_task(allow(here))
        noted = await here.frames("desk.try", name="note", arguments={"text": "beer"})
        await deciding
        await here.frames("desk.try", upto="call", name="stay", arguments={})
        runs = (await here.ask("desk.runs"))["runs"]

        assert done[-2][1]["stage"] == "done" and done[-2][1]["result"]["text"] == "3"
        assert [event for event, _ in noted if event != "call"] == ["question", "answered", "done"]
        assert house.code.notes == ["beer"]
        assert len(runs) >= 2


async def test_a_trial_is_found_again_by_whoever_asks_and_can_be_ended(house: ViewsFolder) -> None:
    async with page(house) as here:
        begun = await here.frames("desk.try", upto="call", name="stay", arguments={})
        run = begun[-1][1]["run"]
        assert [each["run"] for each in (await here.ask("desk.trials", name="desk:stay"))["trials"]] == [run]
        await until(lambda: house.code.entered)  # a call is told before its handler begins
        assert house.code.left == []
        await here.ask("desk.untry", run=run)
        assert house.code.left == [True]
        frames = await here.frames("desk.trial", run=run)
        assert [(event, data.get("outcome")) for event, data in frames] == [("call", "cancelled"), ("done", None)]
        assert (await here.ask("desk.trials", name="desk:add"))["trials"] == []
        with pytest.raises(BusError, match="the record has its result"):
            await here.ask("desk.untry", run="run_of_yesterday")


async def allow(here: Page) -> None:
    """Somebody who watches at another tab says yes."""
    frames = await here.frames("desk.watch", upto="question")
    await here.ask("desk.decide", request=frames[-1][1]["request"], decision="allow")


async def test_runs_entries_bodies_bundles_and_receipts(house: ViewsFolder) -> None:
    async with page(house) as here:
        await call(here.node.app, "run_1", "add", "call_1", a=1, b=2)
        listed = await here.ask("desk.runs", limit=10, search="")
        shown = msgspec.convert(await here.ask("desk.run", run="run_1", first=1, limit=1), RunPage)
        body = await here.ask("desk.body", run="run_1", seq=shown.entries[0].seq)
        bundle = await here.ask("desk.bundle", run="run_1")
        receipt = await here.ask("desk.receipt", run="run_1", call="call_1")
        with pytest.raises(BusError, match="no run"):
            await here.ask("desk.run", run="run_2")

    assert ([row["run"] for row in listed["runs"]], listed["more"]) == (["run_1"], False)
    assert (shown.first, shown.count, len(shown.entries)) == (1, 3, 1)
    assert body == {"salt": shown.entries[0].salt, "body": shown.entries[0].body}
    assert base64.b64decode(bundle["data"]).startswith(b"PK")
    read = Receipt.from_json(base64.b64decode(receipt["data"]))
    read.verify(Verifier.parse(read.verifier_key))


async def test_looking_writes_nothing_into_the_record(house: ViewsFolder) -> None:
    async with page(house) as here:
        await call(here.node.app, "run_1", "add", a=1, b=2)
        for capability in ("desk.tools", "desk.runs", "settings.show"):
            await here.ask(capability)
        await here.frames("desk.network", upto="network")
        with JournalReader(house.journal) as reader:
            assert {each.run for each in reader.runs()} == {"run_1"}


async def test_the_network_without_the_page_itself(house: ViewsFolder) -> None:
    async with page(house) as here:
        await here.ask("desk.tools")
        ((_, data),) = await here.frames("desk.network", upto="network")
        network = msgspec.convert(data, NetworkPage)

    names = [each.name for each in network.nodes[0].capabilities]
    assert "desk.add@1.0" in names  # the tool of the ensemble, which others may call, is no call of the page
    assert "desk.tools@1.0" not in names


async def test_settings_are_checked_saved_and_refused(house: ViewsFolder) -> None:
    async with page(house) as here:
        settings = msgspec.convert(await here.ask("settings.show"), SettingsPage)
        problems = (await here.ask("settings.check", text="rules = 1"))["problems"]
        form = msgspec.convert(
            await here.ask("settings.form", text=CONFIG, path=["node", "port"], value=1), SettingsForm
        )
        saved = await here.ask("settings.save", text=CONFIG + "# more\n", revision=settings.revision)
        with pytest.raises(BusError, match="meanwhile"):
            await here.ask("settings.save", text=CONFIG, revision=settings.revision)
        with pytest.raises(BusError, match="no standing rule"):
            await here.ask("settings.forget", rule="allow x")

    assert len(problems) == 1 and "rules" in problems[0]
    assert form.text.endswith("[node]\nport = 1\n") and not form.problems
    assert saved["text"] == house.file.read_text() == CONFIG + "# more\n"


async def test_a_token_for_the_desk_neither_sees_nor_changes_settings(house: ViewsFolder) -> None:
    async with page(house, issued="desk.*") as here:
        assert await here.ask("desk.about")
        for capability, input in (
            ("settings.show", {}),
            ("settings.check", {"text": ""}),
            ("settings.form", {"text": ""}),
            ("settings.save", {"text": "", "revision": "none"}),
            ("settings.forget", {"rule": "allow x"}),
        ):
            with pytest.raises(BusError) as refused:
                await here.ask(capability, **input)
            assert refused.value.code == "token_scope_insufficient"
        names = [each.descriptor.name for each in await here.bus.discover()]
        for name in ("desk.save", "desk.form", "desk.check", "desk.settings", "desk.forget"):
            assert name not in names

    assert house.file.read_text() == CONFIG


POWERFUL = {
    "ensembles": CONFIG.replace('"desk.toml"', '"desk.toml", "./desk.toml"'),
    "rules": CONFIG.replace('"deny desk:rm_*", ', ""),
    "llm": CONFIG + "[llm]\ntools_require_confirmation_for_side_effects = false\n",
    "policy": CONFIG + "[policy]\ntimeout = 1000\n",
    "standard": CONFIG + '[standard.io]\nroots = {all = "/"}\n',
    "models": CONFIG + '[models.m]\nprovider = "openai"\nmodel = "x"\nbase_url = "https://evil.example"\n',
    "mcp": CONFIG + '[mcp.x]\ncommand = "sh"\nargs = ["-c", "id"]\n',
    "node": CONFIG + '[node]\nhost = "0.0.0.0"\n',
    "proof": CONFIG + '[proof]\njournal = "elsewhere.db"\n',
}


@pytest.mark.parametrize("issued", ["settings.*", "*"])
async def test_what_widens_power_is_changed_only_with_the_token_of_whoever_started_the_node(
    house: ViewsFolder, issued: str
) -> None:
    async with page(house, issued=issued) as here:
        revision = (await here.ask("settings.show"))["revision"]
        for what, text in POWERFUL.items():
            with pytest.raises(BusError, match=rf"only at the machine itself .*: {what}"):
                await here.ask("settings.save", text=text, revision=revision)
        with pytest.raises(BusError, match="only at the machine itself"):
            await here.ask("settings.forget", rule="deny x")
        assert house.file.read_text() == CONFIG
        changed = CONFIG + "\n# a remark\n[offering]\nmost = 7\n"
        saved = await here.ask("settings.save", text=changed, revision=revision)

    assert saved["text"] == house.file.read_text() == changed


async def test_a_token_that_is_made_from_that_of_whoever_started_the_node_is_not_theirs(house: ViewsFolder) -> None:
    async with page(house) as here:
        revision = (await here.ask("settings.show"))["revision"]
        owner = parse_token(str(here.node.session_token()))
        _, part = issue(here.node.identity, here.node.tokens, owner.scope, parent=owner, trust="trusted")
        other = Page(here.node, here.url, str(part))
        try:
            with pytest.raises(BusError, match="only at the machine itself"):
                await other.ask("settings.save", text=CONFIG + '\n[mcp.x]\ncommand = ["id"]\n', revision=revision)
        finally:
            await other.bus.aclose()

    assert house.file.read_text() == CONFIG


async def test_a_rule_is_set_only_by_whoever_started_the_node(house: ViewsFolder) -> None:
    async with page(house, issued="desk.*") as here:
        trying = asyncio.create_task(here.frames("desk.try", name="note", arguments={"text": "beer"}))
        async with asyncio.timeout(20):
            while not (asked := (await here.ask("desk.questions"))["questions"]):
                pass
        word = {"request": asked[0]["request"], "rule": asked[0]["rules"][0]}
        with pytest.raises(BusError, match="only at the machine itself"):
            await here.ask("desk.decide", decision="always", **word)
        await here.ask("desk.decide", decision="allow", request=word["request"])
        await trying

        assert here.node.app.person.approvals.rules(house.file) == ()
        assert house.code.notes == ["beer"]


@pytest.mark.parametrize(
    ("capability", "input"),
    [
        ("desk.tool", {}),
        ("desk.tools", {"name": "x"}),
        ("desk.try", {"name": "add", "arguments": 3}),
        ("desk.runs", {"limit": 10_000}),
        ("desk.run", {"run": "run_1", "first": -1}),
        ("desk.body", {"run": "run_1", "seq": "1"}),
        ("settings.save", {"text": "x"}),
        ("settings.check", {"text": None}),
        ("settings.form", {"text": CONFIG, "path": ["x"], "value": {}}),
        ("settings.form", {"text": CONFIG, "path": ["x"], "value": [1]}),
        ("settings.form", {"text": "x = ", "path": ["x"], "value": 1}),
    ],
)
async def test_what_is_asked_wrongly_is_refused(house: ViewsFolder, capability: str, input: dict[str, Any]) -> None:
    async with page(house) as here:
        with pytest.raises(BusError) as refused:
            await here.ask(capability, **input)

    assert refused.value.code == "bad_request"


async def test_whoever_does_not_run_the_node_sees_nothing(house: ViewsFolder) -> None:
    async with page(house, trusted=False) as here:
        for capability in ("desk.tools", "desk.runs", "settings.show", "desk.network"):
            with pytest.raises(BusError):
                await here.frames(capability)
