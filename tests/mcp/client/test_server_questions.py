"""What a server asks in mid-call is put to a person, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handrail import Executor, ToolCall, ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.context import Context
from handrail.core.errors import InvalidSchema, UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, ReplyFinished
from handrail.core.messages import AssistantMessage, SupervisorMessage, UserMessage
from handrail.core.ports import Approver
from handrail.execute.rules import Rules
from handrail.journal.journal import SqliteJournal
from handrail.mcp import ApproverQuestionHandler, McpBounds, StdioEndpoint, mcp_ensemble
from handrail.mcp.values import Endpoint, Era, HttpEndpoint
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, text
from tests import prestarted
from tests.polling import until

SERVER = Path(__file__).with_name("asking_server_program.py")


FORM = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
        "count": {"type": "integer", "minimum": 1},
    },
    "required": ["size", "count"],
}
ERAS: tuple[Era, ...] = ("legacy", "modern")


class Person:
    """Says one thing after the other, and keeps the questions."""

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = list(decisions)
        self.questions: list[Confirmation] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.questions.append(question)
        return self._decisions.pop(0)


@asynccontextmanager
async def curious(
    asking: ApproverQuestionHandler | None, era: Era, endpoint: Endpoint | None = None, **options: Any
) -> AsyncIterator[Executor]:
    ensemble = mcp_ensemble("curious", endpoint or over_pipes(), era=era, asking=asking, required=True, **options)
    await ensemble.prepare()
    try:
        async with Executor([ensemble]) as executor:
            yield executor
    finally:
        await ensemble.close()


def over_pipes() -> StdioEndpoint:
    python, *rest = prestarted.command()
    return StdioEndpoint(command=python, args=(*rest, str(SERVER)))


@asynccontextmanager
async def at_address() -> AsyncIterator[HttpEndpoint]:
    program = await asyncio.create_subprocess_exec(
        *prestarted.command(), SERVER, "--http", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert program.stdout is not None
        yield HttpEndpoint(url=f"http://127.0.0.1:{int(await program.stdout.readline())}/mcp")
    finally:
        program.kill()
        await program.communicate()  # to the end of what it says: it ends a moment after the client that stands for it


async def ask(executor: Executor, method: str, **params: Any) -> ToolResult:
    return await executor.invoke(ToolCall("", "ask", {"question": {"method": method, "params": params}}))


async def form(executor: Executor) -> ToolResult:
    return await ask(executor, "elicitation/create", message="What size?", requestedSchema=FORM, mode="form")


@pytest.mark.requirement("converser.mcp-more")
@pytest.mark.parametrize("era", ERAS)
async def test_a_form_is_filled_in_by_a_person_and_the_server_goes_on(era: Era) -> None:
    answer = {"size": "large", "count": 2}
    person = Person(Edit("ada", answer), Deny("ada"), Defer(), Allow("ada"))
    async with curious(ApproverQuestionHandler(person), era) as executor:
        given, refused, left = [await form(executor) for _ in range(3)]
        opened = await ask(
            executor, "elicitation/create", message="Pay", url="https://bank.example/", mode="url", elicitationId="1"
        )
    assert json.loads(given.text)["content"] == answer
    assert [json.loads(each.text)["action"] for each in (given, refused, left, opened)] == [
        "accept",
        "decline",
        "cancel",
        "accept",
    ]
    question = person.questions[0]
    assert (question.tool, question.description) == ("curious:elicit", "What size?")
    assert (question.form, question.arguments) == (FORM, {"size": "small"})
    assert person.questions[3].arguments == {"url": "https://bank.example/"}


@pytest.mark.requirement("converser.mcp-more")
@pytest.mark.parametrize("era", ERAS)
async def test_a_model_answers_a_server_when_a_person_allows_it(era: Era) -> None:
    model = ScriptedModel([text("Blue, "), text("I think."), ReplyFinished(stop="max_tokens", model="m-1")], name="m")
    person = Person(Allow("ada"), Deny("ada", "too dear"))
    question = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "What colour?"}}],
        "systemPrompt": "Be brief.",
        "maxTokens": 1_000_000,
        "temperature": 0.5,
        "stopSequences": ["."],
    }
    async with curious(ApproverQuestionHandler(person, model, max_tokens=50), era) as executor:
        given = await ask(executor, "sampling/createMessage", **question)
        refused = await ask(executor, "sampling/createMessage", **question)
    answer = json.loads(given.text)
    assert (answer["content"]["text"], answer["model"], answer["stopReason"]) == ("Blue, I think.", "m-1", "maxTokens")
    (request,) = model.requests
    assert [type(each) for each in request.messages] == [SupervisorMessage, UserMessage]
    assert (request.max_tokens, request.temperature, request.stop, request.tools) == (50, 0.5, (".",), ())
    assert refused.outcome == "failed" and "too dear" in refused.text
    assert person.questions[0].arguments["messages"][1] == {"role": "user", "text": "What colour?"}


@pytest.mark.parametrize("era", ERAS)
async def test_the_folders_in_use_are_told_and_only_what_can_be_answered_is_announced(era: Era, tmp_path: Path) -> None:
    async with curious(ApproverQuestionHandler(roots=(tmp_path,)), era) as executor:
        told = await ask(executor, "roots/list")
        announced = await executor.invoke(ToolCall("", "ask", {}))
        unasked = await form(executor)
    assert json.loads(told.text)["roots"][0]["uri"] == tmp_path.as_uri()
    assert "roots" in json.loads(announced.text)
    assert not {"sampling", "elicitation"} & set(json.loads(announced.text))
    assert unasked.outcome == "failed"


@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_at_an_address_is_an_ensemble_that_may_ask_too(era: Era) -> None:
    person = Person(Edit("ada", {"size": "large", "count": 2}))
    async with at_address() as endpoint, curious(ApproverQuestionHandler(person), era, endpoint) as executor:
        given = await form(executor)
    assert json.loads(given.text)["content"] == {"size": "large", "count": 2}


async def test_a_server_that_never_stops_asking_is_stopped() -> None:
    asking = ApproverQuestionHandler(Person(*[Edit("ada", {"size": "large", "count": 1})] * 10))
    async with curious(asking, "modern", bounds=McpBounds(rounds=3)) as executor:
        question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM, "mode": "form"}}
        result = await executor.invoke(ToolCall("", "ask", {"question": question, "for_ever": True}))
    assert result.outcome == "failed" and "3 rounds" in result.text


# ── without a server ─────────────────────────────────────────────────────────────────


async def test_an_answer_that_does_not_fit_is_asked_for_again_and_never_sent() -> None:
    person = Person(Allow("ada"), Edit("ada", {"size": "huge", "count": 0}), Edit("ada", {"size": "large", "count": 3}))
    got = await ApproverQuestionHandler(person).elicit("shop", "What size?", FORM, None)
    assert (got.action, got.values) == ("accept", {"size": "large", "count": 3})
    assert "did not fit" not in person.questions[0].why
    assert "count" in person.questions[1].why and "huge" in person.questions[2].why
    assert len({each.request for each in person.questions}) == 3


async def test_a_person_who_gives_no_answer_that_fits_has_not_answered() -> None:
    got = await ApproverQuestionHandler(Person(*[Allow("ada")] * 3)).elicit("shop", "What size?", FORM, None)
    assert (got.action, got.values) == ("cancel", {})


@pytest.mark.parametrize(
    ("approver", "action"),
    [(Rules(["allow *"], Person(Defer())), "cancel"), (Rules(["deny *:elicit"]), "decline")],
)
async def test_a_standing_word_may_refuse_and_never_answers_in_advance(approver: Approver, action: str) -> None:
    filled = {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}}
    assert (await ApproverQuestionHandler(approver).elicit("shop", "?", filled, None)).action == action


@pytest.mark.parametrize(
    "form", [{"type": "object", "$ref": "http://127.0.0.1:9/form"}, {"properties": {"a": {"pattern": "(?=a)b"}}}]
)
async def test_a_form_that_cannot_be_checked_is_put_to_nobody(form: dict[str, Any]) -> None:
    person = Person()
    with pytest.raises(InvalidSchema):
        await ApproverQuestionHandler(person).elicit("shop", "?", form, None)
    assert person.questions == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https:///nowhere", "x", "http://["])
async def test_nobody_is_sent_to_an_address_that_is_none_of_the_web(url: str) -> None:
    with pytest.raises(UsageError):
        await ApproverQuestionHandler(Person()).elicit("shop", "?", None, url)


async def test_what_was_asked_and_answered_is_on_record_without_secrets(tmp_path: Path) -> None:
    secret = {"type": "object", "properties": {"pin": {"type": "string", "default": "1234", "writeOnly": True}}}
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        asking = ApproverQuestionHandler(
            Person(Allow("ada"), Edit("ada", {"pin": "5"}), Deny("eve", "no"), Defer()), None, journal
        )
        for _ in range(4):
            await asking.elicit("shop", "?", secret, None)
        events = await journal.history("mcp_shop")
    asked = [event for event in events if isinstance(event, ConfirmationRequested)]
    answered = [event for event in events if isinstance(event, ConfirmationAnswered)]
    assert [(each.decision, each.by, each.edited) for each in answered] == [
        ("allow", "ada", False),
        ("allow", "ada", True),
        ("deny", "eve", False),
        ("deny", "handrail", False),
    ]
    assert [each.request for each in asked] == [each.request for each in answered]
    assert answered[0].binds == asked[0].binds and answered[1].binds != asked[1].binds
    assert all(each.arguments == {"pin": "[redacted]"} for each in asked)


async def test_a_question_that_is_withdrawn_does_not_wait_on_record_for_ever() -> None:
    asked = asyncio.Event()

    class Slow:
        async def decide(self, question: Confirmation) -> Decision:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    journal = MemoryJournal()
    task = asyncio.create_task(ApproverQuestionHandler(Slow(), None, journal).elicit("shop", "?", FORM, None))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: len(journal.events) == 2)
    last = journal.events[-1]
    assert isinstance(last, ConfirmationAnswered) and (last.decision, last.by) == ("deny", "handrail")


async def test_what_a_model_said_before_is_passed_on_as_its_own() -> None:
    from mcp_types import CreateMessageRequestParams

    from handrail.mcp.client.callbacks import sampling_request_of

    params = CreateMessageRequestParams.model_validate(
        {
            "maxTokens": 5,
            "messages": [
                {"role": "assistant", "content": {"type": "text", "text": "Hello"}},
                {"role": "user", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
            ],
        }
    )
    said, shown = sampling_request_of(params).messages
    assert isinstance(said, AssistantMessage) and said.text == "Hello"
    assert isinstance(shown, UserMessage)
    assert getattr(shown.content[0], "data", None) == b"hi"


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_may_think_for_longer_than_the_tool_may_take(era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    time = loop.time

    class Slow(Person):
        async def decide(self, question: Confirmation) -> Decision:
            monkeypatch.setattr(loop, "time", lambda: time() + 3_600)
            for _ in range(10):  # turns, in which the loop sees what time it is
                await asyncio.sleep(0)
            return await super().decide(question)

    async with curious(ApproverQuestionHandler(Slow(Edit("ada", {"size": "large", "count": 2}))), era) as executor:
        assert (await form(executor)).outcome == "ok"
        monkeypatch.undo()


STUBBORN = """
import json, sys

FORM = {"type": "object", "properties": {}}

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            say(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "stubborn", "version": "1"}})
        case "tools/list":
            ask = {"name": "ask", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            say(id=message["id"], result={"tools": [ask]})
        case "tools/call":
            say(id="q", method="elicitation/create", params={"message": "?", "requestedSchema": FORM})
"""
"""It asks, and does not take its question back when the call is cancelled."""


async def test_who_gives_up_a_call_is_not_asked_its_question_any_more() -> None:
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    class Thinking:
        async def decide(self, question: Confirmation) -> Decision:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()
            raise AssertionError

    program = StdioEndpoint(command=sys.executable, args=("-c", STUBBORN))
    async with curious(ApproverQuestionHandler(Thinking()), "legacy", program) as executor:
        calling = asyncio.create_task(executor.invoke(ToolCall("", "ask", {})))
        await asyncio.wait_for(asked.wait(), 20)
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(withdrawn.wait(), 20)


class Thoughtful:
    """Takes its time: answers each question, by the run that it was asked in, when it is told to."""

    def __init__(self) -> None:
        self.asked: dict[str, Confirmation] = {}
        self.answers: dict[str, asyncio.Event] = {}

    async def decide(self, question: Confirmation) -> Decision:
        self.asked[question.description] = question
        await self.answers.setdefault(question.description, asyncio.Event()).wait()
        return Edit("ada", {"size": "large", "count": len(question.description)})


async def two_at_once(endpoint: Endpoint, era: Era, *, apart: bool = False) -> tuple[Thoughtful, list[int]]:
    """Two runs at work with one server, each asked something; and what each got. `apart` is on no stream of a call."""
    person = Thoughtful()
    async with curious(ApproverQuestionHandler(person), era, endpoint) as executor, asyncio.timeout(20):
        calls = []
        for says in ("one", "three"):
            question = {"method": "elicitation/create", "params": {"message": says, "requestedSchema": FORM}}
            call = ToolCall("", "ask", {"question": question, "apart": apart})
            calls.append(asyncio.create_task(executor.invoke(call, Context(run=f"run_{says}"))))
            await until(partial(person.asked.__contains__, says))
        for says in ("three", "one"):
            person.answers[says].set()
        return person, [json.loads((await call).text)["content"]["count"] for call in calls]


@pytest.mark.requirement("converser.mcp-more")
@pytest.mark.parametrize(("era", "over"), [("modern", "pipes"), ("legacy", "http")])
async def test_a_question_is_known_by_the_call_that_it_came_with(era: Era, over: str) -> None:
    async with AsyncExitStack() as stack:
        endpoint = over_pipes() if over == "pipes" else await stack.enter_async_context(at_address())
        person, got = await two_at_once(endpoint, era)
    assert {says: question.meant for says, question in person.asked.items()} == {
        "one": ("run_one",),
        "three": ("run_three",),
    }
    assert all("does not say" not in question.why for question in person.asked.values())
    assert got == [3, 5]


@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_where_the_wire_does_not_say_for_whom_a_server_asks_nobody_guesses(over: str) -> None:
    async with AsyncExitStack() as stack:
        endpoint = over_pipes() if over == "pipes" else await stack.enter_async_context(at_address())
        person, got = await two_at_once(endpoint, "legacy", apart=True)
    assert person.asked["one"].meant == ("run_one",), "it was the only one at work"
    assert person.asked["three"].meant == ("run_one", "run_three")
    assert "works for 2 runs now and does not say for which" in person.asked["three"].why
    assert got == [3, 5]
