"""Handoff: a conversation goes on with another agent, in the same run and the same record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handrail import Agent, Context, Conversation, Executor, Limits, Runner, Session, ToolResult, tool
from handrail.confirm import Confirmation
from handrail.errors import LimitExceeded, ModelError, UsageError
from handrail.events import AgentChanged, AgentEvent, CallSettled, ConfirmationRequested, TextDelta
from handrail.messages import InvocationMessage, ResultMessage, SupervisorMessage
from handrail.run import conversation_of
from handrail.testing import MemoryJournal, ScriptedModel, call, text


@tool
def find_order(number: int) -> str:
    """Find an order."""
    return f"order {number}: an umbrella"


class Till:
    """Where refunds are counted."""

    def __init__(self) -> None:
        self.refunds: list[int] = []

    @property
    def refund(self) -> Any:
        @tool(side_effects=True)
        def refund(number: int) -> str:
            """Refund an order."""
            self.refunds.append(number)
            return f"refunded {number}"

        return refund


def billing(*replies: Any, **options: Any) -> Agent:
    model = ScriptedModel(*(replies or ([text("I am billing.")],)), name="large")
    options = {"system_prompt": "You handle money.", "description": "Knows about refunds.", **options}
    return Agent(model, name="billing", **options)


def triage(to: Agent, *replies: Any, **options: Any) -> Agent:
    model = ScriptedModel(*(replies or ([call("hand_off_to_billing", message="A refund.")],)), name="small")
    options = {"system_prompt": "You are the front desk.", "tools": [find_order], "handoffs": [to], **options}
    return Agent(model, name="triage", **options)


def results(conversation: Conversation) -> list[ToolResult]:
    return [message.result for message in conversation.messages if isinstance(message, ResultMessage)]


def test_after_a_handoff_the_other_agent_answers_with_its_own_model_prompt_and_tools() -> None:
    other = billing(tools=[Till().refund])
    with Session(triage(other)) as session:
        reply = session.ask("I want my money back.")

    (asked,) = other.model.requests  # type: ignore[attr-defined]
    assert reply.text == "I am billing."
    assert [each.name for each in asked.tools] == ["refund"]
    assert [each.text for each in asked.messages if isinstance(each, SupervisorMessage)] == ["You handle money."]
    assert any("money back" in getattr(each, "text", "") for each in asked.messages)


def test_the_agent_that_hands_over_is_offered_a_tool_that_says_who_takes_over() -> None:
    agent = triage(billing())
    with Session(agent) as session:
        session.ask("Hello.")

    (asked,) = agent.model.requests  # type: ignore[attr-defined]
    (offered,) = [each for each in asked.tools if each.name.startswith("hand_off")]
    assert offered.name == "hand_off_to_billing"
    assert "Knows about refunds." in offered.description


def test_the_conversation_stays_with_the_agent_that_took_over_until_it_is_handed_back() -> None:
    other = billing(
        [text("I am billing.")],
        [text("Still billing.")],
        [call("hand_off_to_triage")],
        handoffs=["triage"],
    )
    agent = triage(other, [call("hand_off_to_billing")], [text("Front desk again.")])
    with Session(agent) as session:
        said = [(session.ask(words).text, session.agent) for words in ("Money!", "And now?", "Something else.")]

    assert [speaker for _, speaker in said] == ["billing", "billing", "triage"]
    assert [words for words, _ in said] == ["I am billing.", "Still billing.", "Front desk again."]
    assert [each.text for each in agent.model.requests[-1].messages if isinstance(each, SupervisorMessage)] == [  # type: ignore[attr-defined]
        "You are the front desk."
    ]


def test_taking_back_the_prompt_that_handed_over_gives_the_first_agent_back() -> None:
    agent = triage(billing(), [call("hand_off_to_billing")], [text("Front desk.")])
    with Session(agent) as session:
        session.ask("Money!")
        session.undo()
        assert session.ask("Hello.").text == "Front desk."


def test_a_stream_says_who_speaks_from_where_on() -> None:
    agent = triage(billing(), [text("One moment. "), call("hand_off_to_billing")])
    with Session(agent) as session:
        told = [each for each in session.stream("Money!") if isinstance(each, TextDelta | AgentChanged)]

    assert [each.text if isinstance(each, TextDelta) else each.agent for each in told] == [
        "One moment. ",
        "billing",
        "I am billing.",
    ]


def test_a_handoff_is_on_record_with_the_prompt_that_the_other_agent_got(tmp_path: Path) -> None:
    with Session(triage(billing()), journal=tmp_path / "journal.db") as session:
        session.ask("Money!")
        assert session.proof.verify().ok
        run, conversation = session.run, session.conversation

    (handed,) = results(conversation)
    assert (handed.name, handed.outcome) == ("hand_off_to_billing", "ok")
    assert run is not None
    assert any(isinstance(each, SupervisorMessage) and "money" in each.text for each in conversation.messages)


def test_an_agent_cannot_call_the_tools_of_another() -> None:
    till = Till()
    agent = triage(billing(tools=[till.refund]), [call("refund", number=17)], [text("I cannot.")])
    with Session(agent, approver=lambda question: True) as session:
        (result,) = session.ask("Money!").results

    assert (till.refunds, result.outcome) == ([], "unknown_tool")


def test_the_approver_hears_which_agent_asks() -> None:
    till, asked = Till(), list[Confirmation]()
    agent = triage(billing([call("refund", number=17)], [text("Done.")], tools=[till.refund]))

    def approve(question: Confirmation) -> bool:
        asked.append(question)
        return True

    with Session(agent, approver=approve) as session:
        session.ask("Money!")

    assert (till.refunds, [each.agents for each in asked]) == ([17], [("billing",)])


@dataclass(frozen=True)
class Refund:
    number: int


def test_whoever_takes_over_gives_the_typed_answer() -> None:
    other = billing([call("final_answer", number="many")], [call("final_answer", number=17)])
    with Session(triage(other)) as session:
        reply = session.ask("Money!", returns=Refund)

    assert reply.value == Refund(17)


def test_a_typed_answer_may_come_from_a_service_with_schemas_after_a_handoff_from_one_without() -> None:
    other = Agent(ScriptedModel([text('{"number": 17}')], name="large", holds_schema=True), name="billing")
    with Session(triage(other)) as session:
        assert session.ask("Money!", returns=Refund).value == Refund(17)


def test_agents_that_hand_over_in_a_circle_are_stopped_with_a_clear_reason() -> None:
    back, there = [call("hand_off_to_triage")], [call("hand_off_to_billing")]
    other = billing(*[back] * 2, handoffs=["triage"])
    agent = triage(other, *[there] * 3, [text("Then I answer.")], limits=Limits(iterations=20, handoffs=4))
    with Session(agent) as session:
        reply = session.ask("Money!")
        outcomes = [result.outcome for result in reply.results]
        refused = reply.results[-1].text

    assert outcomes == ["ok"] * 4 + ["limit"]
    assert refused.startswith("not handed over: agents have handed this conversation on 4 times")


def test_of_two_handoffs_in_one_reply_the_first_counts() -> None:
    third = Agent(ScriptedModel(), name="complaints")
    both = [call("hand_off_to_billing"), call("hand_off_to_complaints")]
    agent = triage(billing(), both, handoffs=[billing(), third])
    with Session(agent) as session:
        reply = session.ask("Money!")

    assert (reply.text, [result.outcome for result in reply.results]) == ("I am billing.", ["ok", "limit"])


def test_calls_beside_a_handoff_are_answered_before_the_other_agent_speaks() -> None:
    other = billing()
    agent = triage(other, [call("hand_off_to_billing"), call("find_order", number=17)])
    with Session(agent) as session:
        session.ask("Money!")

    heard = [each.result.content for each in other.model.requests[0].messages if isinstance(each, ResultMessage)]  # type: ignore[attr-defined]
    assert heard == ["The agent 'billing' goes on from here.", "order 17: an umbrella"]


def test_the_limits_of_the_agent_that_takes_over_narrow_those_of_the_run() -> None:
    looks = [[call("find_order", number=n)] for n in range(9)]
    other = billing(*looks, tools=[find_order], limits=Limits(iterations=3, on_limit="error"))
    with Session(triage(other, limits=Limits(iterations=9, on_limit="error"))) as session:
        with pytest.raises(LimitExceeded) as raised:
            session.ask("Money!")
        assert len(session.conversation) > 4

    assert (raised.value.limit, raised.value.value) == ("iterations", 3)


def test_an_agent_of_a_team_hands_over_inside_a_call_too() -> None:
    desk = triage(billing(), description="The shop.")
    llm = ScriptedModel([call("shop", prompt="Money!")], [text("Done.")])
    with Session(llm, tools=[desk.as_tool("shop")]) as session:
        events = list(session.stream("Money!"))

    changed = [each for each in events if isinstance(each, AgentEvent) and isinstance(each.event, AgentChanged)]
    (settled,) = [each for each in events if isinstance(each, CallSettled)]
    assert [each.event.agent for each in changed if isinstance(each.event, AgentChanged)] == ["billing"]
    assert settled.result is not None and settled.result.content == "I am billing."


def test_a_saved_conversation_goes_on_with_the_agent_that_had_taken_over(tmp_path: Path) -> None:
    with Session(triage(billing())) as session:
        session.ask("Money!")
        id = session.save(tmp_path)

    with Session(triage(billing([text("Still billing.")]))).load(tmp_path, id) as session:
        assert session.ask("And now?").text == "Still billing."


async def test_a_run_that_is_cut_off_after_a_handoff_goes_on_with_the_other_agent() -> None:
    journal, run = MemoryJournal(), Context(run="ticket")

    async def go(agent: Agent, conversation: Conversation) -> Conversation:
        async with Executor(agent.all_tools, journal=journal) as executor:
            return await Runner(agent.model, executor, team=agent.as_team()).run(conversation, run)

    with pytest.raises(ModelError):  # the script of the other agent ends at once
        await go(triage(billing([call("find_order", number=1)], tools=[find_order])), Conversation().say("Money!"))
    so_far = conversation_of(await journal.history("ticket"))
    ended = await go(triage(billing([text("Here I am.")], tools=[find_order])), so_far)

    assert ended.text == "Here I am."
    assert [result.outcome for result in results(ended)] == ["ok", "ok"]


async def test_a_call_that_waits_beside_a_handoff_runs_once_after_a_restart_and_then_the_other_speaks() -> None:
    till, journal, run = Till(), MemoryJournal(), Context(run="ticket")

    async def go(agent: Agent, conversation: Conversation) -> Conversation:
        async with Executor(agent.all_tools, journal=journal) as executor:
            runner = Runner(agent.model, executor, team=agent.as_team(), on_wait="pause")
            return await runner.run(conversation, run)

    both = [call("refund", "r1", number=17), call("hand_off_to_billing", "h1")]
    waiting = await go(triage(billing(), both, tools=[till.refund]), Conversation().say("Money!"))
    assert till.refunds == []
    (asked,) = [each for each in journal.events if isinstance(each, ConfirmationRequested)]
    async with Executor([], journal=journal) as elsewhere:
        await elsewhere.answer("ticket", asked.request, allow=True, by="ada")
    ended = await go(triage(billing(), tools=[till.refund]), waiting)

    assert (till.refunds, ended.text) == ([17], "I am billing.")


async def test_cancelling_after_a_handoff_leaves_a_conversation_that_goes_on() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    other = billing([call("wait")], [text("I am here.")], tools=[wait])
    async with Session(triage(other)) as session:
        task = asyncio.create_task(session.ask_async("Money!"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [result.outcome for result in results(session.conversation)] == ["ok", "cancelled"]
        assert (await session.ask_async("Still there?")).text == "I am here."


def test_every_call_of_a_conversation_with_handoffs_has_one_result() -> None:
    agent = triage(billing([call("find_order", number=1)], [text("Done.")]))
    with Session(agent) as session:
        session.ask("Money!")
        messages = session.conversation.messages

    asked = [each.id for each in messages if isinstance(each, InvocationMessage)]
    assert asked == [each.invocation_id for each in messages if isinstance(each, ResultMessage)]


@pytest.mark.parametrize(
    ("handoffs", "words"),
    [
        ([42], "42 is neither"),
        (["nobody"], "which is none of"),
        (["triage"], "hands over to itself"),
        ([Agent(ScriptedModel(), name="triage")], "two agents are called"),
    ],
)
def test_a_team_that_cannot_be_is_refused_when_it_is_made(handoffs: list[Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Session(triage(billing(), handoffs=handoffs))


def test_two_agents_with_different_tools_of_one_name_are_refused_when_they_are_made() -> None:
    @tool(name="find_order")
    def other(number: int) -> str:
        """Find another order."""
        return ""

    with pytest.raises(UsageError, match="find_order"):
        triage(billing(tools=[other]))


@pytest.mark.parametrize("name", ["the boss", "", 5, None])
def test_a_name_that_no_tool_could_have_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="name of an agent"):
        Agent(ScriptedModel(), name=name)


@pytest.mark.parametrize("name", ["hand_off_to_triage", "hand_off_to_billing"])
def test_a_tool_with_the_name_of_a_handoff_is_refused_when_the_agent_is_made(name: str) -> None:
    @tool(name=name)
    def other() -> str:
        """Does something else."""
        return ""

    with pytest.raises(UsageError, match="rename the tool"):
        triage(billing(), tools=[other])


def test_an_agent_that_is_named_twice_among_handoffs_is_offered_once() -> None:
    model = ScriptedModel([text("Hello.")])
    other = billing()
    with Session(Agent(model, name="triage", handoffs=[other, other, "billing"])) as session:
        session.ask("Hello.")

    assert [offer.name for offer in model.requests[0].tools] == ["hand_off_to_billing"]


def test_a_negative_number_of_handoffs_is_refused() -> None:
    with pytest.raises(UsageError, match="handoffs must be at least 0"):
        Limits(handoffs=-1)
