"""A session: the loop is run, the history is kept, what was done is provable, and it can be taken back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from handrail import Conversation, Limits, Secret, Tool, tool
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.context import Context
from handrail.core.errors import JournalError, LimitExceeded, ModelError, ModelUnavailable, ToolFailed, UsageError
from handrail.core.events import CallRequested, CallSettled, Event, ModelEvent, TextDelta
from handrail.core.messages import InvocationMessage, ResultMessage, SupervisorMessage, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.journal.journal import SqliteJournal
from handrail.sessions.llm import LLM
from handrail.sessions.session import Session
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text


def get_weather(location: str) -> str:
    """Get the current weather."""
    return f"sunny in {location}"


def get_time(location: str) -> str:
    return f"noon in {location}"


TURN: list[list[ModelEvent]] = [
    [call("get_weather", location="Paris"), call("get_time", location="Paris")],
    [text("Sunny, and noon.")],
]


@pytest.mark.requirement("abstractllm.session")
def test_the_loop_is_run_and_the_history_is_kept_for_the_next_prompt() -> None:
    model = ScriptedModel(*TURN, [text("I said: sunny.")])
    with Session(LLM(model), system_prompt="Be brief.", tools=[get_weather, get_time]) as session:
        reply = session.ask("What's the weather in Paris and what time is it there?")
        again = session.ask("Say that again.")

    assert (reply.text, str(again)) == ("Sunny, and noon.", "I said: sunny.")
    assert [result.content for result in reply.results] == ["sunny in Paris", "noon in Paris"]
    assert again.results == ()
    assert model.requests[2].messages == again.conversation.messages[:-1]
    assert isinstance(again.conversation.messages[0], SupervisorMessage)


@pytest.mark.requirement("abstractllm.session")
async def test_the_async_form_does_the_same_and_the_blocking_one_works_inside_a_loop() -> None:
    async with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        assert (await session.ask_async("?")).text == "Sunny, and noon."

    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        assert session.ask("?").text == "Sunny, and noon."


def test_a_plain_model_settings_and_a_choice_reach_the_requests() -> None:
    model = ScriptedModel(*TURN)
    with Session(LLM(model, temperature=0.1), tools=[get_weather, get_time]) as session:
        session.ask("?", tool_choice="get_weather")

    assert model.requests[0].temperature == 0.1
    assert [request.tool_choice for request in model.requests] == [NamedTool("get_weather"), "auto"]


def test_a_run_that_is_named_in_the_context_is_refused_since_a_session_has_its_own() -> None:
    with pytest.raises(UsageError, match="cannot be 'mine'"):
        Session(ScriptedModel([text("Hi.")]), context=Context(run="mine"))


def test_what_was_done_can_be_verified_without_a_journal_of_ones_own() -> None:
    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        with pytest.raises(UsageError):
            _ = session.proof
        reply = session.ask("?")
        report = session.proof.verify()

        assert report.ok
        assert session.proof.path is None
        assert report.entries > 4
        assert session.proof.receipt(reply.results[0].tool_call_id).call_id == reply.results[0].tool_call_id

    with pytest.raises(UsageError):
        _ = session.proof


def test_a_session_without_a_journal_writes_no_file_but_the_bundle_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        session.ask("?")
        assert session.proof.verify().ok
        assert list(tmp_path.iterdir()) == []
        bundle = session.proof.export(tmp_path / "bundle")

    assert list(tmp_path.iterdir()) == [bundle]


def test_a_journal_by_its_path_stays_and_its_run_can_be_exported(tmp_path: Path) -> None:
    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time], journal=str(tmp_path / "j.db")) as session:
        session.ask("?")
        bundle = session.proof.export(tmp_path / "bundle")

    assert (bundle / "bundle.jsonl").exists()
    assert (tmp_path / "j.db").exists()


async def test_a_journal_that_was_given_is_not_closed(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "j.db") as journal:
        async with Session(ScriptedModel(*TURN), tools=[get_weather, get_time], journal=journal) as session:
            await session.ask_async("?")
            assert session.proof.verify().ok
            run = session.proof.run
        assert [event.run for event in await journal.history(run)]

    memory = MemoryJournal()
    async with Session(ScriptedModel(*TURN), tools=[get_weather, get_time], journal=memory) as session:
        await session.ask_async("?")
        with pytest.raises(UsageError):
            _ = session.proof
    assert not memory.closed


def test_events_come_as_they_happen() -> None:
    seen: list[Event] = []
    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        session.ask("?", on_event=seen.append)
        assert [event.call.name for event in seen if isinstance(event, CallRequested)] == ["get_weather", "get_time"]

    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        streamed = list(session.stream("?"))
        assert Counter(map(type, streamed)) == Counter(map(type, seen))
        assert session.conversation.text == "Sunny, and noon."


class Silent:
    """Answers nothing, ever."""

    name = "silent"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="hm")
        self.asked.set()
        await asyncio.Event().wait()


async def test_closing_a_stream_cancels_the_run() -> None:
    async with Session(Silent()) as session:
        events = session.stream_async("?")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()

        assert isinstance(session.conversation.messages[-1], UserMessage)


@tool(side_effects=True)
def send(to: str) -> str:
    return f"sent to {to}"


class Yes:
    async def decide(self, question: Confirmation) -> Decision:
        return Allow("ada")


def test_a_side_effect_waits_for_the_approver_and_without_one_for_a_person() -> None:
    script: list[list[ModelEvent]] = [[call("send", to="bob")], [text("ok")]]
    with Session(ScriptedModel(*script), tools=[send]) as session:
        assert session.ask("?").results[0].outcome == "needs_confirmation"
    with Session(ScriptedModel(*script), tools=[send], approver=Yes()) as session:
        assert session.ask("?").results[0].content == "sent to bob"


def test_undo_takes_the_last_prompt_back_and_gives_it_to_be_edited() -> None:
    model = ScriptedModel(*TURN, [text("second")], [text("edited")])
    with Session(model, system_prompt="Be brief.", tools=[get_weather, get_time]) as session:
        first = session.ask("one").conversation
        session.ask("two")

        assert session.undo() == "two"
        assert session.conversation == first
        assert session.ask("two, edited").text == "edited"
        assert [session.undo(), session.undo()] == ["two, edited", "one"]
        assert len(session.conversation) == 1
        with pytest.raises(UsageError):
            session.undo()


def test_a_checkpoint_can_be_gone_back_to() -> None:
    with Session(ScriptedModel([text("a")], [text("b")], [text("c")])) as session:
        session.ask("1")
        checkpoint = session.checkpoint
        session.ask("2")
        session.ask("3")

        session.rollback(checkpoint)

        assert session.conversation.text == "a"
        assert session.undo() == "1"


def test_a_fork_goes_its_own_way_in_a_run_of_its_own() -> None:
    with Session(ScriptedModel([text("a")], [text("left")], [text("right")])) as session:
        session.ask("1")
        with session.fork() as fork:
            assert session.ask("2").text == "left"
            assert fork.ask("2").text == "right"
            assert fork.conversation.messages[:2] == session.conversation.messages[:2]
            assert fork.proof.run != session.proof.run
            assert fork.id != session.id
            assert fork.undo() == "2"


def test_a_saved_session_goes_on_elsewhere(tmp_path: Path) -> None:
    with Session(ScriptedModel(*TURN), system_prompt="Be brief.", tools=[get_weather, get_time]) as session:
        session.ask("What's the weather?")
        id = session.save(tmp_path, title="Weather")
        said = session.conversation

    model = ScriptedModel([text("and on")])
    with Session(model, tools=[get_weather, get_time]).load(tmp_path, id) as later:
        assert later.conversation == said
        later.ask("Go on.")
        assert later.save(tmp_path) == id
        assert model.requests[0].messages[:-1] == said.messages
        later.undo()
        assert later.undo() == "What's the weather?"


class Flaky:
    """Fails once with each reply that it is given as an error."""

    name = "flaky"

    def __init__(self, *replies: list[ModelEvent] | ModelError) -> None:
        self._replies = list(replies)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reply = self._replies.pop(0)
        if isinstance(reply, ModelError):
            raise reply
        async for event in ScriptedModel(reply).stream(request):
            yield event


def test_a_prompt_for_which_nothing_was_done_is_taken_back_when_the_model_fails() -> None:
    with Session(Flaky(ModelUnavailable("down"), [text("hello")])) as session:
        with pytest.raises(ModelUnavailable):
            session.ask("hello?")
        assert session.conversation == Conversation()
        assert session.ask("hello?").conversation.messages[0].at > 0
        assert len(session.conversation) == 2


def test_what_was_done_before_the_model_failed_is_kept_and_gone_on_from() -> None:
    model = Flaky([call("get_time", location="Rome")], ModelUnavailable("down"), [text("noon")])
    with Session(model, tools=[get_time]) as session:
        with pytest.raises(ModelUnavailable):
            session.ask("what time?")
        assert isinstance(session.conversation.messages[-1], ResultMessage)

        assert session.ask().text == "noon"
        assert session.undo() == "what time?"


def failing() -> Tool:
    def kaput() -> None:
        raise ValueError("kaput")

    return tool(kaput)


@pytest.mark.requirement("converser.errors")
def test_under_fail_fast_the_session_is_as_it_was_before_the_prompt() -> None:
    with Session(ScriptedModel([text("hi")], [call("kaput")]), tools=[failing()], on_error="fail_fast") as session:
        before = session.ask("hello").conversation
        with pytest.raises(ToolFailed):
            session.ask("do it")

        assert session.conversation == before
        assert session.undo() == "hello"


def test_a_limit_throws_nothing_away() -> None:
    limits = Limits(iterations=1, on_limit="error")
    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time], limits=limits) as session:
        with pytest.raises(LimitExceeded):
            session.ask("?")

        kinds = [type(message) for message in session.conversation.messages]
        assert kinds.count(InvocationMessage) == kinds.count(ResultMessage) == 2


async def test_a_session_used_both_ways_says_so() -> None:
    async with Session(ScriptedModel([text("a")], [text("b")])) as session:
        await session.ask_async("1")
        with pytest.raises(UsageError, match="not both"):
            session.ask("2")
        session.llm.portal.close()


async def test_two_prompts_at_once_are_answered_one_after_the_other() -> None:
    async with Session(ScriptedModel([text("a")], [text("b")])) as session:
        await asyncio.gather(session.ask_async("1"), session.ask_async("2"))

        assert [getattr(message, "text", "") for message in session.conversation.messages] == ["1", "a", "2", "b"]


NOT_CLOSED = """
from handrail.sessions.llm import LLM
from handrail.sessions.session import Session
from handrail.testing.model import ScriptedModel, call, text

def get_weather(location: str) -> str:
    return "sunny"

session = Session(LLM(ScriptedModel([call("get_weather", location="x")], [text("done")])), tools=[get_weather])
print(session.ask("?"), session.proof.verify().ok)
"""


def test_a_program_that_closes_nothing_ends_quietly_and_leaves_no_folder(tmp_path: Path) -> None:
    environment = {"PATH": "", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", NOT_CLOSED]

    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert (done.stdout, done.stderr, done.returncode) == ("done True\n", "", 0)
    assert list(tmp_path.iterdir()) == []


def test_calls_and_results_are_seen_in_the_events_with_one_id() -> None:
    seen: list[Any] = []
    with Session(ScriptedModel(*TURN), tools=[get_weather, get_time]) as session:
        session.ask("?", on_event=seen.append)

    asked = {event.call.id for event in seen if isinstance(event, CallRequested)}
    assert asked == {event.call_id for event in seen if isinstance(event, CallSettled)}


class Held(ScriptedModel):
    """A model that holds something, and says how often it was told to let go."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


async def test_a_fork_does_not_close_the_model_that_the_session_goes_on_with() -> None:
    model = Held([text("one")], [text("two")])
    async with Session(model) as session:
        async with session.fork() as forked:
            await forked.ask_async("?")
        assert model.closed == 0
        assert (await session.ask_async("?")).text == "two"

    assert model.closed == 1


async def test_everything_is_let_go_of_when_the_end_of_a_session_cannot_be_recorded() -> None:
    model, journal = Held([text("one")]), MemoryJournal()
    session = Session(model, journal=journal)
    await session.ask_async("?")
    journal.fail_at = 0

    with pytest.raises(JournalError):
        await session.aclose()

    assert model.closed == 1
    (await journal.lease(journal.events[0].run)).release()


async def test_a_session_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    hard = Tool.from_function(get_weather, deduplicator="semantic")
    session = Session(ScriptedModel(), tools=[hard], journal=tmp_path / "hard.db")

    with pytest.raises(UsageError, match="embedder"):
        await session.ask_async("?")

    assert [thread for thread in threading.enumerate() if thread.name == "journal hard.db"] == []


def test_a_saved_conversation_holds_no_secret_that_a_tool_declares(tmp_path: Path) -> None:
    @tool(side_effects=False)
    def log_in(user: str, password: Secret) -> str:
        """Log somebody in."""
        return f"{user} came in with {password}"

    model = ScriptedModel([call("log_in", user="ada", password="opensesame")], [text("Welcome.")])
    with Session(model, tools=[log_in]) as session:
        reply = session.ask("Log me in.")
        id = session.save(tmp_path)
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())

    assert reply.text == "Welcome."
    assert "opensesame" not in written
    assert "[redacted]" in written
    assert Session(ScriptedModel([text("Again.")])).load(tmp_path, id).conversation.text == "Welcome."
