"""Record once, replay strictly: `handrail.testing.cassette`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from handrail import LLM, Output, Policy, Secret, Session, ToolCall, ToolError, create_llm, tool
from handrail.confirm import Allow, Confirmation, Decision
from handrail.errors import ModelError, ModelUnavailable, UsageError
from handrail.events import (
    AttemptFailed,
    CallRequested,
    CitationAdded,
    MediaAdded,
    ModelEvent,
    Notice,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
)
from handrail.execute import MemorySpill
from handrail.messages import Artefact, Citation, Media, Message, ServiceCall, Usage
from handrail.sync import BlockingExecutor
from handrail.testing import CassetteMismatch, MemoryJournal, ScriptedModel, ScriptFile, call, cassette, text
from tests.examples import examples


class Weather:
    """A model and tools that count how often they are really used."""

    def __init__(self, prompt: str = "What is the weather in Lisbon?", degrees: int = 21) -> None:
        self.prompt = prompt
        self.ran: list[str] = []
        self.model = ScriptedModel(
            [text("Let me look. "), call("get_weather", city="Lisbon")], [text("It is 21 degrees.")]
        )

        @tool
        def get_weather(city: str) -> dict[str, Any]:
            """Get the weather."""
            self.ran.append(city)
            return {"city": city, "degrees": degrees}

        self.tool = get_weather

    def ask(self) -> str:
        journal = MemoryJournal()
        with Session(self.model, system_prompt="Be brief.", tools=[self.tool], journal=journal) as session:
            return session.ask(self.prompt).text


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CI", "HANDRAIL_CASSETTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def record(folder: Path, weather: Weather | None = None) -> Path:
    with cassette("weather", folder=folder, mode="record") as tape:
        (weather or Weather()).ask()
    return tape.path


def entries(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["entries"]
    return found


def test_what_was_recorded_once_is_replayed_without_asking_the_model_or_running_a_tool(tmp_path: Path) -> None:
    record(tmp_path)
    again = Weather()

    with cassette("weather", folder=tmp_path):
        answer = again.ask()

    assert answer == "It is 21 degrees."
    assert (again.model.requests, again.ran) == ([], [])


def test_a_session_that_was_made_before_the_block_is_recorded_too(tmp_path: Path) -> None:
    def program(mode: str | None) -> tuple[str, int]:
        weather = Weather()
        session = Session(weather.model, tools=[weather.tool])
        with session, cassette("early", folder=tmp_path, mode=mode):  # type: ignore[arg-type]  # one of the modes
            return session.ask(weather.prompt).text, len(weather.model.requests)

    assert program("record") == ("It is 21 degrees.", 2)
    assert program(None) == ("It is 21 degrees.", 0)


def test_the_file_reads_as_the_story_of_the_run(tmp_path: Path) -> None:
    first, ran, second = entries(record(tmp_path))

    assert first["request"]["messages"] == [{"system": "Be brief."}, {"user": "What is the weather in Lisbon?"}]
    assert first["request"]["tools"] == ["get_weather"]
    assert first["reply"]["text"] == "Let me look. "
    assert first["reply"]["calls"] == [{"id": "call_1", "tool": "get_weather", "arguments": {"city": "Lisbon"}}]
    assert ran == {
        "tool": "get_weather",
        "arguments": {"city": "Lisbon"},
        "output": {"city": "Lisbon", "degrees": 21},
    }
    assert second["request"]["after"] == 1
    assert second["request"]["messages"] == [
        {"result": "call_1", "tool": "get_weather", "content": {"city": "Lisbon", "degrees": 21}}
    ]
    assert second["reply"]["text"] == "It is 21 degrees."


def test_recording_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    assert record(tmp_path / "one").read_bytes() == record(tmp_path / "two").read_bytes()


def test_what_a_model_says_of_its_own_day_is_not_in_the_file(tmp_path: Path) -> None:
    def program(*before: ModelEvent) -> bytes:
        with cassette("notices", folder=tmp_path, mode="rerecord") as tape:
            LLM(ScriptedModel([*before, text("Hello!")])).generate("Hello?")
        return tape.path.read_bytes()

    loading = Notice(text="loading the weights")
    busy = AttemptFailed(model="scripted", error="rate_limited", text="too many requests")
    assert program(loading, busy) == program()


def test_another_prompt_is_a_mismatch_that_says_what_differs_and_what_to_do(tmp_path: Path) -> None:
    path = record(tmp_path)

    with pytest.raises(CassetteMismatch) as failed, cassette("weather", folder=tmp_path):
        Weather("What is the weather in Porto?").ask()

    said = str(failed.value)
    assert "messages[1].user: recorded 'What is the weather in Lisbon?', now 'What is the weather in Porto?'" in said
    assert str(path) in said
    assert "HANDRAIL_CASSETTES=rerecord" in said


def test_a_tool_whose_description_changed_is_a_mismatch(tmp_path: Path) -> None:
    record(tmp_path)
    changed = Weather()
    changed.tool = changed.tool.changed(description="Get the weather of a city.")

    expected = r"tools\.get_weather\.description: recorded 'Get the weather\.', now"
    with pytest.raises(CassetteMismatch, match=expected), cassette("weather", folder=tmp_path):
        changed.ask()


def test_a_mismatch_fails_the_test_also_where_the_program_swallows_it(tmp_path: Path) -> None:
    record(tmp_path)

    block = cassette("weather", folder=tmp_path)
    with pytest.raises(CassetteMismatch, match="Porto"), block, contextlib.suppress(Exception):
        Weather("What is the weather in Porto?").ask()


def test_what_is_recorded_and_not_asked_for_is_a_mismatch(tmp_path: Path) -> None:
    record(tmp_path)

    expected = r"3 of 3 recorded entries were not used\n  entry 1: a reply of 'scri"
    with pytest.raises(CassetteMismatch, match=expected), cassette("weather", folder=tmp_path):
        pass


def test_an_error_of_the_test_is_not_hidden_by_what_was_not_used(tmp_path: Path) -> None:
    record(tmp_path)

    with pytest.raises(ZeroDivisionError), cassette("weather", folder=tmp_path):
        raise ZeroDivisionError


def test_a_call_with_other_arguments_than_recorded_is_a_mismatch(tmp_path: Path) -> None:
    path = record(tmp_path)
    path.write_text(
        path.read_text().replace(
            '"tool": "get_weather",\n      "arguments": {\n        "city": "Lisbon"',
            '"tool": "get_weather",\n      "arguments": {\n        "city": "Faro"',
        )
    )

    expected = r"arguments\.city: recorded 'Faro', now 'Lisbon'"
    with pytest.raises(CassetteMismatch, match=expected), cassette("weather", folder=tmp_path):
        Weather().ask()


def test_without_a_file_nothing_is_asked_and_the_error_says_how_to_record(tmp_path: Path) -> None:
    weather = Weather()

    with pytest.raises(CassetteMismatch, match="HANDRAIL_CASSETTES=record"), cassette("new", folder=tmp_path):
        weather.ask()

    assert weather.model.requests == []
    assert not (tmp_path / "new.json").exists()


def test_the_variable_records_what_is_missing_and_replays_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAIL_CASSETTES", "record")
    asked = []
    for _ in range(2):
        weather = Weather()
        with cassette("weather", folder=tmp_path):
            weather.ask()
        asked.append(len(weather.model.requests))

    assert asked == [2, 0]


def test_rerecord_rewrites_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path)
    monkeypatch.setenv("HANDRAIL_CASSETTES", "rerecord")

    with cassette("weather", folder=tmp_path):
        Weather(degrees=22).ask()

    assert entries(path)[1]["output"] == {"city": "Lisbon", "degrees": 22}


@pytest.mark.parametrize("ci", ["true", "1", "yes"])
def test_ci_never_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("HANDRAIL_CASSETTES", "rerecord")

    with pytest.raises(UsageError, match="CI"), cassette("weather", folder=tmp_path):
        raise NotImplementedError
    with pytest.raises(UsageError, match="CI"), cassette("weather", folder=tmp_path, mode="record"):
        raise NotImplementedError


def test_a_test_that_fails_while_it_records_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cassette("weather", folder=tmp_path, mode="record"):
        Weather().ask()
        raise ZeroDivisionError

    assert not (tmp_path / "weather.json").exists()


def test_as_a_decorator_it_keeps_the_arguments_of_the_test(tmp_path: Path) -> None:
    @cassette("decorated", folder=tmp_path, mode="record")
    def program(prompt: str) -> str:
        return Weather(prompt).ask()

    @cassette("decorated", folder=tmp_path)
    async def again(prompt: str) -> str:
        weather = Weather(prompt)
        async with Session(weather.model, system_prompt="Be brief.", tools=[weather.tool]) as session:
            return (await session.ask_async(prompt)).text

    assert program("What is the weather in Lisbon?") == "It is 21 degrees."
    assert asyncio.run(again("What is the weather in Lisbon?")) == "It is 21 degrees."


def test_the_file_lies_beside_the_test(tmp_path: Path) -> None:
    assert cassette("weather").path == Path(__file__).parent / "cassettes" / "weather.json"


@cassette("weather")
def test_a_file_of_this_version_is_replayed_by_every_later_one() -> None:
    weather = Weather()

    assert weather.ask() == "It is 21 degrees."
    assert (weather.model.requests, weather.ran) == ([], [])


def test_the_bytes_of_a_recording_do_not_change_by_themselves(tmp_path: Path) -> None:
    assert record(tmp_path).read_bytes() == cassette("weather").path.read_bytes()


@pytest.mark.parametrize("name", ["", "../up", "/etc/x", "a\0b"])
def test_a_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        cassette(name, folder=tmp_path)


def test_a_model_of_a_service_needs_no_key_where_it_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with cassette("hello", folder=tmp_path, mode="record") as tape:
        LLM(ScriptedModel([text("Hello!")], name="claude-sonnet-4-5")).generate("Hello?")

    with cassette("hello", folder=tmp_path) as tape:
        assert not tape.is_recording
        with create_llm("anthropic:claude-sonnet-4-5") as llm:
            assert llm.generate("Hello?") == "Hello!"


def test_failures_of_tools_and_models_are_replayed_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "replies.toml").write_text(
        '[[reply]]\ncalls = [{ name = "find", arguments = { id = "9" } }]\n[[reply]]\nerror = "model_unavailable"\n'
    )

    def program(*, really: bool) -> tuple[str, str]:
        @tool
        def find(id: str) -> str:
            """Find."""
            if not really:
                raise NotImplementedError
            raise ToolError("NOT_FOUND", f"no order {id}")

        model = ScriptFile.read(tmp_path / "replies.toml")
        with Session(model, tools=[find]) as session:
            with pytest.raises(ModelUnavailable):
                session.ask("Find 9.")
            result = session.conversation.messages[-1]
        return result.result.error.code, result.result.text  # type: ignore[union-attr]  # the last is a result

    with cassette("failures", folder=tmp_path, mode="record"):
        first = program(really=True)
    with cassette("failures", folder=tmp_path):
        assert program(really=False) == first == ("NOT_FOUND", "Error executing find: no order 9")


def test_secrets_are_not_in_the_file_and_the_replay_goes_on_without_them(tmp_path: Path) -> None:
    def program(*, really: bool) -> str:
        @tool
        def sign_in(user: str, phrase: Secret) -> str:
            """Sign in."""
            if not really:
                raise NotImplementedError
            return f"{user} is in with {phrase}"

        model = ScriptedModel([call("sign_in", user="ada", phrase="open-sesame-17")], [text("You are in.")])
        with Session(model, tools=[sign_in]) as session:
            return session.ask(
                "I am ada, my phrase is open-sesame-17, my key sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789."
            ).text

    with cassette("secret", folder=tmp_path, mode="record") as tape:
        program(really=True)
    with cassette("secret", folder=tmp_path):
        assert program(really=False) == "You are in."

    written = tape.path.read_text()
    assert "open-sesame-17" not in written
    assert "sk-ant-api03" not in written


def test_what_differs_from_day_to_day_is_given_a_name(tmp_path: Path) -> None:
    def program(day: str, mode: str) -> str:
        with cassette("day", folder=tmp_path, mode=mode, replace={day: "<today>"}):  # type: ignore[arg-type]  # a mode
            return str(LLM(ScriptedModel([text(f"Today is {day}.")])).generate(f"It is {day}. Which day is it?"))

    program("2026-11-16", "record")

    assert program("2027-01-01", "replay") == "Today is 2027-01-01."
    assert "2026-11-16" not in (tmp_path / "day.json").read_text()


def test_what_a_tool_calls_itself_is_part_of_its_output(tmp_path: Path) -> None:
    def program(*, really: bool) -> str:
        @tool
        async def inner(word: str) -> str:
            """Say a word."""
            return word.upper()

        async def outer(invocation: Any) -> Any:
            """Say a word by another tool."""
            if not really:
                raise NotImplementedError
            return (await invocation.invoke("inner", {"word": "hello"})).content

        schema = {"type": "object", "properties": {}}
        both = [inner, tool(outer, schema=schema, style="invocation")]
        with Session(ScriptedModel([call("outer")], [text("Said.")]), tools=both) as session:
            return str(session.ask("Say it.").results[0].content)

    with cassette("nested", folder=tmp_path, mode="record") as tape:
        assert program(really=True) == "HELLO"
    with cassette("nested", folder=tmp_path):
        assert program(really=False) == "HELLO"
    assert [entry.get("tool") for entry in entries(tape.path)] == [None, "outer", None]


def test_an_output_that_was_cut_and_kept_under_a_random_id_is_replayed(tmp_path: Path) -> None:
    def program() -> str:
        @tool(max_output=400)
        def read_log() -> str:
            """Read the log."""
            return "line\n" * 1000

        model = ScriptedModel([call("read_log")], [text("Many lines.")])
        with Session(model, tools=[read_log], spill=MemorySpill()) as session:
            return session.ask("Read it.").text

    with cassette("cut", folder=tmp_path, mode="record"):
        program()
    with cassette("cut", folder=tmp_path):
        assert program() == "Many lines."


def test_what_a_service_adds_to_a_reply_is_replayed_and_written_once(tmp_path: Path) -> None:
    def program(*replies: list[ModelEvent]) -> tuple[Message, ...]:
        with Session(ScriptedModel(*replies)) as session:
            session.ask("Draw.")
            session.ask("Again.")
            return tuple(replace(message, at=0) for message in session.conversation.messages)

    drawn: list[ModelEvent] = [
        text("Here."),
        MediaAdded(media=Media(media_type="image/png", data=b"\x89PNG" * 500)),
        CitationAdded(citation=Citation(url="https://example.org/")),
        ServiceCallMade(call=ServiceCall(id="1", name="web_search", arguments={"q": "cats"})),
        ReplyFinished(
            stop="end",
            model="painter",
            usage=Usage(input_tokens=3, cost=0.5),
            artefacts=(Artefact("painter", {"signature": "c2lnbmVk"}),),
        ),
    ]
    with cassette("drawing", folder=tmp_path, mode="record") as tape:
        first = program(drawn, [text("No.")])
    with cassette("drawing", folder=tmp_path):
        assert program() == first
    assert entries(tape.path)[1]["request"] == {"after": 1, "messages": [{"user": "Again."}]}


async def test_sessions_that_run_at_once_each_get_their_own_replies(tmp_path: Path) -> None:
    async def ask(city: str, *replies: list[ModelEvent]) -> str:
        weather = Weather()
        async with Session(ScriptedModel(*replies), tools=[weather.tool]) as session:
            return (await session.ask_async(city)).text

    cities = ("Lisbon", "Porto", "Faro")
    with cassette("several", folder=tmp_path, mode="record"):
        asked = (ask(city, [call("get_weather", city=city)], [text(f"{city}: fine.")]) for city in cities)
        first = await asyncio.gather(*asked)
    with cassette("several", folder=tmp_path):
        again = await asyncio.gather(*(ask(city) for city in reversed(cities)))

    assert again == first[::-1]


def test_a_stream_is_replayed_too(tmp_path: Path) -> None:
    def program(weather: Weather) -> list[str]:
        with Session(weather.model, tools=[weather.tool]) as session:
            return [event.text for event in session.stream(weather.prompt) if isinstance(event, TextDelta)]

    with cassette("stream", folder=tmp_path, mode="record"):
        first = program(Weather())
    again = Weather()
    with cassette("stream", folder=tmp_path):
        assert program(again) == first == ["Let me look. ", "It is 21 degrees."]
    assert again.model.requests == []


def test_a_side_effect_is_confirmed_in_a_replay_and_does_not_happen(tmp_path: Path) -> None:
    def program(*, really: bool) -> tuple[str, list[str]]:
        asked: list[str] = []

        class Person:
            async def decide(self, question: Confirmation) -> Decision:
                asked.append(question.tool)
                return Allow("a person")

        @tool(side_effects=True)
        def pay(to: str) -> str:
            """Pay someone."""
            if not really:
                raise NotImplementedError
            return f"paid {to}"

        with Session(
            ScriptedModel([call("pay", to="ada")], [text("Done.")]), tools=[pay], approver=Person()
        ) as session:
            return str(session.ask("Pay ada.").results[0].content), asked

    with cassette("pay", folder=tmp_path, mode="record"):
        program(really=True)
    with cassette("pay", folder=tmp_path):
        assert program(really=False) == ("paid ada", ["pay"])


def test_a_file_that_is_no_cassette_is_a_mistake_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "weather.json").write_text('{"entries": 3}')

    with pytest.raises(UsageError, match=r"weather\.json"), cassette("weather", folder=tmp_path):
        raise NotImplementedError


@settings(max_examples=examples(40), deadline=None)
@given(
    said=st.text(),
    answer=st.text(),
    arguments=st.dictionaries(
        st.text(),
        st.text() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False),
        max_size=3,
    ),
    output=st.dictionaries(st.text(), st.lists(st.text()) | st.none(), max_size=3) | st.text(),
)
def test_whatever_is_said_called_and_returned_is_replayed_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, said: str, answer: str, arguments: dict[str, Any], output: Any
) -> None:
    folder = tmp_path_factory.mktemp("property")

    def program(*, really: bool) -> tuple[Any, ...]:
        async def echo(invocation: Any) -> Any:
            """Take anything."""
            if not really:
                raise NotImplementedError
            return Output({"took": invocation.arguments, "gave": output})

        asked = CallRequested(call=ToolCall("", "echo", arguments))
        echoing = tool(echo, schema={"type": "object"}, style="invocation")
        with Session(
            ScriptedModel([text(answer), asked], [text("end")]), tools=[echoing], journal=MemoryJournal()
        ) as session:
            reply = session.ask(said)
        messages = reply.conversation.messages
        return reply.text, reply.results[0].content, messages[1].text, messages[2].call.arguments  # type: ignore[union-attr]

    with cassette("any", folder=folder, mode="record"):
        first = program(really=True)
    with cassette("any", folder=folder):
        assert program(really=False) == first


def test_equal_reads_that_ran_as_one_are_replayed_as_two(tmp_path: Path) -> None:
    def ask(*replies: Any) -> list[Any]:
        under_way = asyncio.Event()

        @tool
        async def look(at: str) -> str:
            await under_way.wait()
            return at.upper()

        @tool
        async def let_go() -> str:
            under_way.set()
            return "gone"

        with Session(ScriptedModel(*replies), tools=[look, let_go]) as session:
            return [result.content for result in session.ask("Look twice.").results]

    script = [call("look", at="a"), call("look", at="a"), call("let_go")], [text("Seen.")]
    with cassette("twice", folder=tmp_path, mode="record"):
        assert ask(*script) == ["A", "A", "gone"]
    assert [entry.get("tool") for entry in json.loads((tmp_path / "twice.json").read_text())["entries"]].count(
        "look"
    ) == 1

    with cassette("twice", folder=tmp_path):
        assert ask() == ["A", "A", "gone"]


def test_an_effect_that_is_asked_for_more_often_than_recorded_is_a_mismatch(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(side_effects=True)
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    def ask(times: int) -> None:
        with BlockingExecutor([pay], policy=Policy(confirm_side_effects=False)) as executor:
            for number in range(times):
                executor.invoke(ToolCall(str(number), "pay", {"cents": 5}))

    with cassette("pay", folder=tmp_path, mode="record"):
        ask(1)
    with pytest.raises(CassetteMismatch, match="no further one was recorded"), cassette("pay", folder=tmp_path):
        ask(2)
    assert paid == [5]


def test_a_decorator_without_a_name_says_what_to_write() -> None:
    with pytest.raises(UsageError, match=r"cassette\('orders'\)"):
        cassette(lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda file: file.update(cassette=2), "of version 1: its version is 2"),
        (lambda file: file.pop("entries"), "missing required field `entries`"),
        (lambda file: file.update(entries={}), "Expected `array`, got `object` - at `$.entries`"),
        (lambda file: file["tools"].clear(), "entry 1: the tool 'get_weather' is not among the `tools`"),
        (lambda file: file["entries"][0].pop("reply"), "entry 1: Object missing required field `reply`"),
        (lambda file: file["entries"][0].update(reply=5), "entry 1: Expected `object`, got `int` - at `$.reply`"),
        (lambda file: file["entries"][0].update(note="x"), "entry 1: Object contains unknown field `note`"),
        (lambda file: file["entries"][1].pop("output"), "entry 2: a call has either an `output` or an `error`"),
        (lambda file: file["entries"].pop(0), "entry 2: `after` names entry 1, which is not a reply before this one"),
        (lambda file: file["entries"][2]["request"].update(after=9), "entry 3: `after` names entry 9"),
    ],
    ids=lambda value: value if isinstance(value, str) else "edit",
)
def test_a_file_that_was_edited_wrongly_says_which_entry_is_wrong_and_how(
    tmp_path: Path, edit: Callable[[Any], object], words: str
) -> None:
    path = record(tmp_path)
    file = json.loads(path.read_text())
    edit(file)
    path.write_text(json.dumps(file))

    with pytest.raises(UsageError) as told, cassette("weather", folder=tmp_path):
        raise NotImplementedError

    assert words in str(told.value)
    assert "record it again" in str(told.value)


FIELDS = ("messages", "tools", "text", "calls", "id", "tool", "arguments", "output", "error", "stop", "model", "after")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=8,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as what holds it and the key there."""
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [each for key in keys for each in ((value, key), *places(value[key]))]


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_a_file_that_somebody_broke_is_told_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = json.loads(cassette("weather").path.read_text())
    holder, key = data.draw(st.sampled_from(places(whole)))
    holder[key] = data.draw(JSON)
    folder = tmp_path_factory.mktemp("broken")
    (folder / "weather.json").write_text(json.dumps(whole))

    with contextlib.suppress(UsageError, CassetteMismatch, ModelError), cassette("weather", folder=folder):
        Weather().ask()
