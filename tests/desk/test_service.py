"""The desk over the node's own socket: what the page calls, what is refused, and to whom it is not there at all."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.app.network_node import NetworkNode
from handrail.config.load import load_config
from handrail.core.errors import BusError, UsageError
from handrail.desk.service.conversations import decode_base64_bytes
from handrail.desk.service.desk_service import open_desk_node
from handrail.journal.reader import JournalReader
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import CallStream
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.capability_bus import CapabilityBus
from handrail.node.http.bus import HttpBus
from handrail.node.server.serving import serve
from handrail.node.tokens.relay_bus import RelayBus
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue
from tests.desk.page.page_node import PageNode
from tests.node.server.http_node import client

TALK = {
    *("desk.about", "desk.talks", "desk.watch", "desk.begin", "desk.follow", "desk.items", "desk.whole"),
    *("desk.attachment", "desk.say", "desk.again", "desk.stop", "desk.undo", "desk.dismiss", "desk.choose"),
    *("desk.fork", "desk.rename", "desk.delete", "desk.share", "desk.take", "desk.questions", "desk.decide"),
}
VIEWS = {
    *("desk.tools", "desk.tool", "desk.try", "desk.trial", "desk.trials", "desk.untry"),
    *("desk.runs", "desk.run", "desk.body", "desk.bundle", "desk.trace", "desk.usage", "desk.receipt"),
    *("desk.network", "settings.show", "settings.check", "settings.form", "settings.save", "settings.forget"),
}

PICTURE = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[PageNode]:
    (tmp_path / "house").mkdir()
    house = PageNode(tmp_path / "house")
    yield house
    house.close()


@dataclass(frozen=True)
class Served:
    """A node, and a client of it over WebSocket."""

    node: NetworkNode
    url: str
    bus: HttpBus

    async def ask(self, capability: str, **input: Any) -> Any:
        async with self.stream(capability, **input) as frames:
            found = [frame async for frame in frames]
        answers = [frame.data for frame in found if frame.event == "answer"]
        if found[-1].event == "error":
            raise BusError(found[-1].data["error"], found[-1].data["message"], outcome=found[-1].data["outcome"])
        assert len(answers) == 1
        return answers[0]

    def stream(self, capability: str, **input: Any) -> CallStream:
        return self.bus.stream(capability, "1.0", {"input": input})

    @asynccontextmanager
    async def following(self, id: str) -> AsyncIterator[tuple[StreamFrame, CallStream]]:
        """How a conversation is, and what is told of it from then on."""
        async with self.stream("desk.follow", id=id) as frames:
            yield (await until(frames, lambda frame: True))[0], frames


@asynccontextmanager
async def served(house: PageNode) -> AsyncIterator[Served]:
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        config = load_config(house.config)
        node = await stack.enter_async_context(open_desk_node(config, house.journal, house.wanted, house.person))
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(node.server(), ready=address.set_result))
        await asyncio.wait((serving, address), return_when=asyncio.FIRST_COMPLETED)
        try:
            url = await address
            bus = HttpBus(url, token=str(node.session_token()), transport="websocket")
            try:
                yield Served(node, url, bus)
            finally:
                await bus.aclose()
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


async def until(frames: CallStream, fits: Callable[[StreamFrame], bool]) -> list[StreamFrame]:
    """What comes, up to the first that fits."""
    found = []
    async for frame in frames:
        found.append(frame)
        if fits(frame):
            return found
    raise AssertionError(f"the stream ended: {found[-1]}")


def told(frame: StreamFrame, type: str, **data: Any) -> bool:
    return frame.event == "told" and frame.data["type"] == type and data.items() <= dict(frame.data["data"]).items()


def is_idle(frame: StreamFrame) -> bool:
    return told(frame, "state", state="idle")


async def test_a_person_talks_with_a_model_and_whoever_follows_sees_it_come(house: PageNode) -> None:
    async with served(house) as here:
        begun = (await here.ask("desk.begin"))["id"]
        async with here.following(begun) as (snapshot, frames):
            said = await here.ask("desk.say", id=begun, text="hello", once="first")
            again = await here.ask("desk.say", id=begun, text="hello", once="first")
            heard = await until(frames, is_idle)
        talks = (await here.ask("desk.talks"))["talks"]
        items = (await here.ask("desk.items", id=begun, before=100))["items"]

    assert (snapshot.event, snapshot.data["total"], said) == ("snapshot", said["index"], again)
    assert "".join(frame.data["data"]["text"] for frame in heard if told(frame, "text")) == "Hello! What shall we do?"
    assert [talk["id"] for talk in talks] == [begun]
    assert [(item["kind"], item["text"]["text"]) for item in items if item["kind"] in ("user", "assistant")] == [
        ("user", "hello"),
        ("assistant", "Hello! What shall we do?"),
    ]


async def test_a_side_effect_waits_for_approval_that_may_become_a_rule(house: PageNode) -> None:
    async with served(house) as here:
        begun, other = [(await here.ask("desk.begin"))["id"] for _ in range(2)]
        async with here.stream("desk.watch") as news, here.following(begun) as (_, frames):
            await here.ask("desk.say", id=begun, text="write the note")
            asked = (await until(news, lambda frame: frame.event == "question"))[-1].data
            waiting = (await here.ask("desk.questions"))["questions"]
            before = (house.kept / "plan.txt").exists()
            await here.ask("desk.delete", id=other)
            gone = (await until(news, lambda frame: frame.event == "gone"))[-1].data
            await here.ask("desk.decide", request=asked["request"], decision="always", rule=asked["rules"][0])
            answered = (await until(news, lambda frame: frame.event == "answered"))[-1].data
            await until(frames, is_idle)
        standing = house.approvals.rules(house.config)

    assert (asked["tool"], asked["arguments"]) == ("notes:write_note", {"path": "plan.txt", "text": "rest"})
    assert [each["request"] for each in waiting] == [asked["request"]] == [answered["request"]]
    assert (before, (house.kept / "plan.txt").read_text()) == (False, "rest")
    assert standing == (asked["rules"][0],)
    assert gone == {"id": other}


async def test_a_conversation_is_shared_taken_forked_renamed_and_deleted(house: PageNode) -> None:
    async with served(house) as here:
        begun = (await here.ask("desk.begin", model="scripted", ensembles=["notes"], system="Be short."))["id"]
        async with here.following(begun) as (_, frames):
            attached = [{"name": "a.png", "media_type": "image/png", "data": base64.b64encode(PICTURE).decode()}]
            at = (await here.ask("desk.say", id=begun, text="hello", attached=attached))["index"]
            await until(frames, is_idle)
        given = await here.ask("desk.attachment", id=begun, index=at, part=0)
        file = await here.ask("desk.share", id=begun)
        taken = (await here.ask("desk.take", data=file["data"]))["id"]
        forked = (await here.ask("desk.fork", id=begun))["id"]
        await here.ask("desk.rename", id=forked, title="Another one")
        async with here.following(begun) as (_, frames):
            await here.ask("desk.delete", id=begun)
            gone = await until(frames, lambda frame: told(frame, "gone"))
        talks = {talk["id"]: talk["title"] for talk in (await here.ask("desk.talks"))["talks"]}

    assert base64.b64decode(given["data"]) == PICTURE
    assert gone
    assert talks.keys() == {taken, forked} and talks[forked] == "Another one"


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("desk.say", {"id": "run_none", "text": "hello"}, "run_none"),
    ("desk.say", {"id": "run_none"}, "text"),
    ("desk.say", {"id": "run_none", "text": "x", "loud": True}, "loud"),
    ("desk.say", {"id": "x" * 201, "text": "x"}, "200"),
    ("desk.follow", {"id": "run_none"}, "run_none"),
    ("desk.take", {"data": "no base64!"}, "base64"),
    ("desk.take", {"data": base64.b64encode(b"{}").decode()}, ""),
    ("desk.decide", {"request": "none", "decision": "allow"}, "none"),
    ("desk.decide", {"request": "none", "decision": "perhaps"}, "decision"),
    ("desk.begin", {"model": "nobody"}, "nobody"),
)


async def test_what_cannot_be_done_is_refused_with_the_reason(house: PageNode) -> None:
    async with served(house) as here:
        for capability, input, why in REFUSED:
            with pytest.raises(BusError) as refused:
                await here.ask(capability, **input)

            assert refused.value.code == "bad_request", (capability, input)
            assert why in refused.value.message


async def test_there_is_what_the_page_calls_and_everything_that_goes_in_is_bounded(house: PageNode) -> None:
    async with served(house) as here:
        described = (each.descriptor for each in here.node.bus.registry)
        desk = {each.name: each for each in described if each.name.startswith(("desk.", "settings."))}

    assert desk.keys() == TALK | VIEWS
    assert {each.trust_required for each in desk.values()} == {"trusted"}
    assert all(each.stream_schema is not None and not each.recorded for each in desk.values())
    for each in desk.values():
        assert list(unbounded(each.request_schema, each.name)) == []


def unbounded(schema: Any, at: str) -> Iterator[str]:
    """Where somebody could send as much as they like."""
    types = schema.get("type", [])
    if "string" in types and "enum" not in schema and "maxLength" not in schema and not at.endswith(".arguments"):
        yield at
    if types == "array" and "maxItems" not in schema:
        yield at
    if types == "object" and schema.get("additionalProperties") is not False and not at.endswith(".arguments"):
        yield at
    for name, inner in schema.get("properties", {}).items():
        yield from unbounded(inner, f"{at}.{name}")
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from unbounded(inner, at)


@pytest.mark.parametrize("capability", ["desk.watch", "desk.network"])
async def test_who_leaves_a_stream_leaves_nothing_behind(house: PageNode, capability: str) -> None:
    async with served(house) as here:
        begun = (await here.ask("desk.begin"))["id"]
        for name, input in ((capability, {}), ("desk.follow", {"id": begun})):
            async with here.stream(name, **input) as frames:
                if name != "desk.watch":
                    await until(frames, lambda frame: True)
            async with asyncio.timeout(30):
                await here.node.bus.drained()

    assert here.node.bus.under_way == 0


@pytest.mark.parametrize("node", ['host = "0.0.0.0"', "token_required = false"])
async def test_where_strangers_reach_the_node_nobody_changes_what_runs_on_this_machine(
    house: PageNode, node: str
) -> None:
    text = house.config.read_text(encoding="utf-8") + f"\n[node]\n{node}\n"
    house.config.write_text(text, encoding="utf-8")
    async with served(house) as here:
        settings = await here.ask("settings.show")
        with pytest.raises(BusError, match="cannot be changed here"):
            await here.ask("settings.save", text="", revision=settings["revision"])

        assert not settings.get("writable") and not (await here.ask("desk.about")).get("settings_writable")
    assert house.config.read_text(encoding="utf-8") == text


async def test_those_who_only_listen_are_let_go_when_the_node_ends(house: PageNode) -> None:
    async with served(house) as here:
        begun = (await here.ask("desk.begin"))["id"]
        async with here.following(begun) as (_, frames):
            await here.node.server().life.drain(1.0)
            last = (await until(frames, lambda frame: frame.is_last))[-1]

    assert last.event == "done"


async def test_looking_writes_nothing_into_the_record_and_a_turn_is_there_as_its_own_run(house: PageNode) -> None:
    async with served(house) as here:
        begun = (await here.ask("desk.begin"))["id"]
        async with here.following(begun) as (_, frames):
            await here.ask("desk.say", id=begun, text="read the note")
            await until(frames, is_idle)
        before = entries(house)
        for capability in ("desk.about", "desk.talks", "desk.questions", "desk.tools", "desk.runs", "settings.show"):
            await here.ask(capability)
        after = entries(house)

    assert before == after > 0
    with JournalReader(house.journal) as reader:
        assert [run.run for run in reader.runs()] == [begun]


def entries(house: PageNode) -> int:
    with JournalReader(house.journal) as reader:
        return reader.size()


# ── for whom it is not there ─────────────────────────────────────────────────────────


async def test_other_nodes_are_not_told_of_the_desk_and_cannot_reach_it_through_their_own(house: PageNode) -> None:
    async with served(house) as here:
        local = await here.node.bus.discover()
        remote = await here.bus.discover()
        async with client(here.url, str(here.node.session_token())) as http:
            listed = [(await http.get(path)).text for path in ("/capabilities", "/manifest")]
        async with CapabilityBus(node_id="other") as other:
            await other.connect(RelayBus(here.bus, here.node.identity))
            with pytest.raises(BusError) as refused:
                await other.call("desk.about", "1.0", {})

    assert {each.descriptor.name for each in (*local, *remote)} >= {"auth.token.issue", "notes.read_note"}
    assert not [each for each in (*local, *remote) if each.descriptor.name.startswith(("desk.", "settings."))]
    assert not [text for text in listed if "desk." in text]
    assert refused.value.code == "not_found"


async def test_no_call_of_the_page_goes_to_a_node_that_says_it_has_a_better_desk(house: PageNode) -> None:
    reached = []

    async def pretend(request: RouteRequest) -> dict[str, Any]:
        reached.append(request.caller)
        return {"output": {}}

    async with served(house) as here, CapabilityBus(node_id="evil") as evil:
        evil.register(CapabilityDescriptor(name="desk.about", version=(1, 9), stream_schema={}), pretend)
        await here.node.bus.connect(evil)
        about = await here.ask("desk.about")
        async with here.bus.stream("desk.about", "1.9", {}) as frames:
            newer = [frame async for frame in frames][-1]

    assert (about["person"], newer.event, reached) == ("ada", "error", [])


async def test_what_was_called_cannot_call_the_desk_with_the_rights_of_the_person(house: PageNode) -> None:
    async def nosy(request: RouteRequest) -> dict[str, Any]:
        return await request.call("desk.talks", "1.0", {})

    async with served(house) as here:
        here.node.bus.register(CapabilityDescriptor(name="test.nosy", trust_required="trusted"), nosy)
        with pytest.raises(BusError) as refused:
            await here.bus.call("test.nosy", "1.0", {})

    assert "for people" in refused.value.message


async def test_a_token_that_does_not_cover_the_desk_and_a_member_are_refused(house: PageNode) -> None:
    async with served(house) as here:
        node = here.node
        narrow = str(node.session_token("tool.*"))
        member = str(issue(node.identity, node.tokens, Scope.of(("*",)), audience="home", ttl=60)[1])
        codes = []
        for token in (narrow, member):
            bus = HttpBus(here.url, token=token, transport="websocket")
            async with bus.stream("desk.about", "1.0", {}) as frames:
                codes.append([frame.data.get("error") async for frame in frames])
            await bus.aclose()

    assert codes == [["token_scope_insufficient"], ["unauthorized"]]


@given(data=st.binary(max_size=200))
def test_any_file_comes_through_as_it_was(data: bytes) -> None:
    assert decode_base64_bytes(base64.b64encode(data).decode()) == data


@given(text=st.text(max_size=50))
def test_what_is_no_base64_is_refused_in_words(text: str) -> None:
    try:
        assert base64.b64encode(decode_base64_bytes(text)).decode() == text
    except UsageError as error:
        assert "base64" in str(error)
