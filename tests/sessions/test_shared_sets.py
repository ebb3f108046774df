"""Sessions with the same tools share what is made of them: counted, not timed."""

from __future__ import annotations

import asyncio
import functools
import gc
import pickle
import sys
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from handrail import LLM, Conversation, Ensemble, Session, create_llm, tool
from handrail.core.errors import DuplicateTool
from handrail.core.messages import AssistantMessage
from handrail.models.codec import WireRequest
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent
from handrail.testing import ScriptedModel, call, text
from handrail.tools.registry import registered


class AnswersAtOnce:
    """A transport whose service calls `get_weather` and then answers."""

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        asked = request.text().count(b'"role":"tool"')
        function = {"name": "get_weather", "arguments": '{"location": "Paris"}'}
        calls = {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
        message = {"role": "assistant", **({"content": "Sunny."} if asked else calls)}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if asked else "tool_calls"}
        yield WireEvent({"id": "r", "object": "chat.completion", "model": "m", "choices": [choice]})

    async def aclose(self) -> None: ...


async def get_weather(location: str, unit: str = "celsius") -> str:
    """Say what the weather is."""
    return f"sunny in {location}"


async def get_time(place: str) -> str:
    """Say what time it is."""
    return "noon"


@contextmanager
def functions_called() -> Iterator[Counter[str]]:
    """The functions that are called in the block, as `module.name`."""
    called: Counter[str] = Counter()

    def see(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield called
    finally:
        sys.setprofile(before)


_audited: list[list[str] | None] = [None]
"""Audit hooks cannot be removed: this one looks away unless somebody listens."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    heard = _audited[0]
    if heard is not None and event in ("open", "os.mkdir", "sqlite3.connect", "_thread.start_new_thread"):
        heard.append(f"{event} {arguments[:1]}")


sys.addaudithook(_audit)


@contextmanager
def files_and_threads() -> Iterator[list[str]]:
    """The files that are opened and the threads that are started in the block."""
    heard: list[str] = []
    _audited[0] = heard
    try:
        yield heard
    finally:
        _audited[0] = None


async def ask_once(llm: LLM, *tools: Any) -> str:
    async with Session(provider=llm, tools=tools) as session:
        return (await session.ask_async("What is the weather?")).text


MAKERS = (
    "handrail.tools.types",
    "handrail.tools.schema",
    "handrail.models.projection",
    "handrail.tools.registry.ToolRegistry",
    "handrail.run.offering.OfferableTools.__init__",
    "handrail.models.chat_messages.function_tools",
)
"""What reads functions, compiles schemas, registers and offers tools, and encodes them for a service."""
CHECKS = (".problems", ".secret_places")
"""Arguments are checked in every call."""


@pytest.mark.parametrize("given", ["functions", "tools"])
async def test_a_second_session_with_the_same_tools_encodes_nothing_opens_no_file_and_starts_no_thread(
    given: str,
) -> None:
    tools = (get_weather, get_time) if given == "functions" else (tool(get_weather), tool(get_time))
    needed = {"handrail.models.projection", "handrail.tools.registry.ToolRegistry", *MAKERS[4:]}
    async with create_llm("openai:m", key="k", stream=False, transport=AnswersAtOnce()) as llm:
        with functions_called() as at_first:
            assert await ask_once(llm, *tools) == "Sunny."
        with functions_called() as later, files_and_threads() as opened:
            assert await ask_once(llm, *tools) == "Sunny."

    assert {maker for maker in MAKERS if any(name.startswith(maker) for name in at_first)} >= needed
    assert [name for name in later if name.startswith(MAKERS) and not name.endswith(CHECKS)] == []
    assert opened == []


@pytest.mark.parametrize("same", ["the same messages", "equal messages"])
async def test_a_second_session_with_the_same_history_writes_nothing_of_it_again(same: str) -> None:
    def history(number: int) -> Conversation:
        found = Conversation().supervised("Be kind.")
        for at in range(100):
            found = found.say(f"What of {at}?").add(AssistantMessage(f"{at} of {number}."))
        return found

    async def asked(llm: LLM, begun: Conversation) -> Counter[str]:
        with functions_called() as called:
            async with Session(provider=llm, tools=[get_weather]) as session:
                session.conversation = begun
                assert (await session.ask_async("What is the weather?")).text == "Sunny."
        return called

    async with create_llm("openai:m", key="k", stream=False, transport=AnswersAtOnce()) as llm:
        one, other = history(1), history(2)
        at_first = await asked(llm, one)
        await asked(llm, other)
        later = await asked(llm, other if same == "the same messages" else history(2))

    written = "handrail.models.turn_writer.TurnWriter.turn"
    assert at_first[written] > 200
    assert later[written] < 10


async def test_opening_asking_proving_nothing_and_closing_takes_no_file_and_no_thread_at_all() -> None:
    model = ScriptedModel([call("get_weather", location="x")], [text("a")], *[[text("b")]] * 4)
    async with Session(model, tools=[get_weather]) as session:
        await session.ask_async("?")  # what is imported when it is first used is imported now
    with files_and_threads() as opened:
        async with Session(model, tools=[get_weather]) as session:
            await session.ask_async("?")
            fork = session.fork()
            await fork.ask_async("?")
            await fork.aclose()

    assert opened == []


async def test_a_session_that_is_closed_leaves_nothing_for_the_garbage_collector() -> None:
    async with create_llm("openai:m", key="k", stream=False, transport=AnswersAtOnce()) as llm:
        await ask_once(llm, get_weather)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await ask_once(llm, get_weather)
            gc.collect()
            left = [type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("handrail")]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    assert left == []


def test_the_same_tools_are_one_set_and_others_are_another() -> None:
    weather = tool(get_weather)

    assert registered(get_weather, get_time) is registered(get_weather, get_time)
    assert registered(weather, get_time) is registered(weather, get_time)
    assert registered(get_weather) is not registered(get_time)
    assert registered(get_weather, get_time) is not registered(get_time, get_weather)
    assert registered(get_weather) is not registered(weather)
    with pytest.raises(DuplicateTool):
        registered(weather, get_weather)


def test_a_function_whose_words_or_code_were_replaced_is_another_tool() -> None:
    def look(place: str) -> str:
        """Look."""
        return place

    first = registered(look)
    look.__doc__ = "Look again."
    second = registered(look)

    assert [tool.definition.description for tool in (*first, *second)] == ["Look.", "Look again."]

    @functools.wraps(look)
    def around(place: str) -> str:
        return look(place)

    assert next(iter(registered(around))).handler is around


def test_what_is_kept_with_a_function_leaves_the_process_with_nobody() -> None:
    registered(get_weather)

    (kept,) = vars(get_weather).values()

    assert pickle.loads(pickle.dumps(kept)).tool is None


def test_a_set_goes_when_its_tools_do() -> None:
    def made_for_one_user() -> weakref.ref[Any]:
        async def mine(place: str) -> str:
            return place

        assert registered(get_weather, mine) is registered(get_weather, mine)
        return weakref.ref(mine)

    kept = made_for_one_user()
    gc.collect()

    assert kept() is None


class Life:
    """What an ensemble does when it is prepared and closed."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def begin(self) -> None:
        await asyncio.sleep(0)
        self.log.append("prepared")

    async def end(self) -> None:
        self.log.append("closed")

    def ensemble(self) -> Ensemble:
        return Ensemble("weather", [get_weather], on_prepare=self.begin, on_close=self.end)


def replies() -> list[list[Any]]:
    return [[call("get_weather", location="x")], [text("Sunny.")]]


async def test_an_ensemble_is_prepared_by_the_first_session_and_closed_by_the_last() -> None:
    life = Life()
    group = life.ensemble()
    first, second = (Session(ScriptedModel(*replies(), *replies()), tools=[group]) for _ in range(2))
    await asyncio.gather(first.ask_async("?"), second.ask_async("?"))
    await first.aclose()

    assert (life.log, (await second.ask_async("?")).text) == (["prepared"], "Sunny.")
    await second.aclose()
    assert life.log == ["prepared", "closed"]

    async with Session(ScriptedModel(*replies()), tools=[group]) as third:
        assert (await third.ask_async("?")).results[0].outcome == "ok"
    assert life.log == ["prepared", "closed"] * 2


async def test_an_ensemble_that_its_owner_prepared_or_closed_is_the_owners() -> None:
    life = Life()
    group = life.ensemble()
    async with group:
        async with Session(ScriptedModel(*replies()), tools=[group]) as session:
            await session.ask_async("?")
        assert life.log == ["prepared"]

    session = Session(ScriptedModel(*replies()), tools=[group])
    await session.ask_async("?")
    await group.prepare()  # from here on the owner has it
    await session.aclose()
    assert life.log == ["prepared", "closed", "prepared"]
    await group.close()

    sessions = [Session(ScriptedModel(*replies()), tools=[group]) for _ in range(2)]
    await sessions[0].ask_async("?")
    await group.close()
    await sessions[1].ask_async("?")
    await sessions[0].aclose()  # it began in a life that has ended
    assert (life.log[4:], group.state) == (["prepared", "closed", "prepared"], "prepared")
    await sessions[1].aclose()
    assert life.log[-1] == "closed"


async def test_an_ensemble_that_cannot_be_prepared_leaves_those_of_other_sessions_open() -> None:
    life = Life()

    async def fail() -> None:
        raise OSError("no such server")

    group, broken = life.ensemble(), Ensemble("broken", on_prepare=fail)
    good = Session(ScriptedModel(*replies(), *replies()), tools=[group])
    await good.ask_async("?")
    with pytest.raises(OSError, match="no such server"):
        await Session(ScriptedModel(*replies()), tools=[group, broken]).ask_async("?")

    assert (life.log, (await good.ask_async("?")).results[0].outcome) == (["prepared"], "ok")
    await good.aclose()
    assert life.log == ["prepared", "closed"]
