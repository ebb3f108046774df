"""Which tools a turn offers follows from the conversation alone; what is not offered can be found, and called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail import Context, Conversation, Ensemble, Executor, Principal, Runner, Session, Tool, ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.events import CallSettled, ToolsOffered
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import NamedTool
from handrail.core.ports import Model
from handrail.run.offering import OfferableTools, Offering
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.definition import ToolDefinition
from handrail.tools.finder import FIND_TOOLS
from tests.tools import tool_samples

RUN = Context(run="run_1")


async def answer(**arguments: Any) -> str:
    return "done"


def tools(*tags: tuple[str, str]) -> list[Tool]:
    """The catalogue with handlers; some of them tagged."""
    tagged = dict(tags)
    found = [Tool(definition, answer, style="arguments") for definition in tool_samples.tools()]
    return [each.changed(tags=(tagged[each.name],)) if each.name in tagged else each for each in found]


PINNED = (("time.now", "always"), ("math.evaluate", "always"))
SMALL = Offering(most=12, found=3)


def executor(**options: Any) -> Executor:
    return Executor(tools(*PINNED), **options)


def offered(model: ScriptedModel) -> list[list[str]]:
    """The names that each request showed."""
    return [[tool.name for tool in request.tools if not tool.deferred] for request in model.requests]


class Searching(ScriptedModel):
    """A model whose service searches tools itself."""

    searches_tools = True


# ── few tools ──


async def test_up_to_the_limit_all_tools_are_offered_in_their_order() -> None:
    model = ScriptedModel([text("hello")])
    async with Executor(tools()[:64]) as few:
        await Runner(model, few).run(Conversation().say("refund a payment"))

        assert offered(model) == [[tool.name for tool in tools()[:64]]]
        assert FIND_TOOLS not in few.tools


async def test_a_tool_of_ones_own_may_be_called_find_tools_as_long_as_no_search_is_needed() -> None:
    own = Tool(ToolDefinition(FIND_TOOLS, "Finds hammers."), answer, style="arguments")
    model = ScriptedModel([text("hello")])
    async with Executor([own, *tools()[:3]]) as few:
        await Runner(model, few).run(Conversation().say("hi"))
        assert offered(model)[0][0] == FIND_TOOLS

    many = Executor([own, *tools()])
    with pytest.raises(UsageError, match=r"find_tools.*rename it"):
        Runner(model, many)
    await many.aclose()


# ── many tools ──


async def test_with_more_tools_those_are_offered_that_fit_what_the_user_says() -> None:
    model = ScriptedModel([text("done")], [text("done")])
    async with executor() as many:
        runner = Runner(model, many, offering=SMALL)
        first = await runner.run(Conversation().say("refund a payment"), RUN)
        await runner.run(first.say("merge the pull request"), RUN)

    began, then = offered(model)
    assert began[:4] == ["math.evaluate", "time.now", FIND_TOOLS, "stripe.refund_payment"]
    assert began[4:] == ["stripe.list_payments"]
    assert then[:5] == began
    assert then[5] == "github.merge_pull_request"
    assert len(then) <= 5 + SMALL.found


async def test_what_find_tools_names_is_offered_in_the_next_turn_and_can_be_called() -> None:
    model = ScriptedModel(
        [call(FIND_TOOLS, query="restart the pods of a deployment", count=2)],
        [call("k8s.restart_deployment", namespace="web", name="shop")],
        [text("done")],
    )
    async with executor() as many:
        ended = await Runner(model, many, offering=SMALL).run(Conversation().say("is it slow?"))

    results = [message.result for message in ended.messages if isinstance(message, ResultMessage)]
    assert isinstance(results[0].content, list)
    assert results[0].content[0] == {
        "name": "k8s.restart_deployment",
        "description": "Restart the pods of a deployment.",
    }
    assert [result.outcome for result in results] == ["ok", "ok"]
    before, after, last = offered(model)
    assert "k8s.restart_deployment" not in before
    assert after[: len(before)] == before
    assert after[len(before)] == "k8s.restart_deployment"
    assert last == after


async def test_a_call_to_a_tool_that_was_not_offered_runs_and_is_offered_from_then_on() -> None:
    model = ScriptedModel([call("pdf.merge", paths="a b")], [text("done")])
    async with executor() as many:
        ended = await Runner(model, many, offering=SMALL).run(Conversation().say("play a song"))

    assert ended.messages[3].result.outcome == "ok"  # type: ignore[union-attr]  # the results follow the calls
    before, after = offered(model)
    assert "pdf.merge" not in before
    assert after == [*before, "pdf.merge"]


async def test_find_tools_is_recorded_checked_and_bounded_like_any_tool() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call(FIND_TOOLS, "c1", query="", count=500)], [call(FIND_TOOLS, "c2", query="the a of")], [])
    async with executor(journal=journal) as many:
        ended = await Runner(model, many, offering=SMALL).run(Conversation().say("hi"), RUN)

    refused, empty = (message.result for message in ended.messages if isinstance(message, ResultMessage))
    assert refused.outcome == "invalid_arguments"
    assert (empty.outcome, empty.content) == ("ok", [])
    settled = [event.call_id for event in await journal.history("run_1") if isinstance(event, CallSettled)]
    assert settled == ["c1", "c2"]


async def test_find_tools_finds_only_what_the_model_and_the_caller_may_call() -> None:
    secret = Tool(ToolDefinition("vault.open", "Open the vault.", models=("other",)), answer, style="arguments")
    plain = Tool(ToolDefinition("vault.lock", "Lock the vault."), answer, style="arguments")
    scoped = Context(principal=Principal("eve", ("find_tools", "vault.*", "web.*")))
    async with Executor([*tools(), secret, Ensemble("bank", [plain])]) as many:
        Runner(ScriptedModel(name="this"), many)

        async def found(context: Context, query: str) -> list[str]:
            result = await many.invoke(ToolCall("", FIND_TOOLS, {"query": query}), context)
            assert isinstance(result.content, list)
            return [item["name"] for item in result.content if isinstance(item, dict)]

        assert (await found(Context(model="other"), "open the vault"))[0] == "vault.open"
        assert (await found(Context(model="this"), "vault"))[0] == "vault.lock"
        assert "vault.open" not in await found(Context(model="this"), "open the vault")
        assert {name.partition(".")[0] for name in await found(scoped, "search the web mail inbox")} == {"web"}


async def test_a_model_is_not_offered_what_it_may_not_call() -> None:
    secret = Tool(ToolDefinition("vault.open", "Open the vault.", models=("other",)), answer, style="arguments")
    model = ScriptedModel([text("no")], name="this")
    async with Executor([*tools(), secret]) as many:
        await Runner(model, many).run(Conversation().say("open the vault"))

    assert "vault.open" not in offered(model)[0]


async def test_a_tool_that_is_chosen_by_name_is_offered_whatever_was_said() -> None:
    model = ScriptedModel([call("home.lock_door", state="locked")], [text("done")])
    async with executor() as many:
        runner = Runner(model, many, offering=SMALL)
        await runner.run(Conversation().say("merge the pull request"), tool_choice=NamedTool("home.lock_door"))

    first, second = offered(model)
    assert first[-1] == "home.lock_door"
    assert second == first


async def test_the_record_says_what_was_offered_in_each_turn() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call(FIND_TOOLS, query="qr code")], [text("done")])
    async with executor(journal=journal) as many:
        await Runner(model, many, offering=SMALL).run(Conversation().say("hi"), RUN)

    told = [list(event.tools) for event in await journal.history("run_1") if isinstance(event, ToolsOffered)]
    assert told == offered(model)
    assert "qr.create_code" in told[1]


async def test_a_run_that_is_taken_up_elsewhere_is_offered_the_same() -> None:
    journal = MemoryJournal()
    script = ([call(FIND_TOOLS, query="qr code")], [call("pdf.merge", paths="a")], [text("done")], [text("again")])
    async with executor(journal=journal) as many:
        model = ScriptedModel(*script)
        runner = Runner(model, many, offering=SMALL)
        ended = await runner.run(Conversation().say("refund a payment"), RUN)
        await runner.run(ended.say("play a song"), RUN)
    again = ScriptedModel([text("again")])
    async with executor() as other:
        await Runner(again, other, offering=SMALL).run(ended.say("play a song"))

    assert offered(again)[0] == offered(model)[-1]


async def test_a_session_takes_an_offering_and_passes_it_to_its_forks() -> None:
    model = ScriptedModel([text("one")], [text("two")])
    async with Session(model, tools=tools(), offering=SMALL) as session:
        await session.ask_async("refund a payment")
        async with session.fork() as fork:
            await fork.ask_async("again")

    began, then = offered(model)
    assert began == [FIND_TOOLS, "stripe.refund_payment", "stripe.list_payments"]
    assert then[:3] == began
    assert len(then) <= 3 + SMALL.found


# ── the service searches ──


async def test_a_service_that_searches_is_offered_everything_and_sees_what_fits_the_first_question() -> None:
    model = Searching([call("pdf.merge", paths="a")], [text("done")], [text("done")])
    async with executor() as many:
        runner = Runner(model, many, offering=SMALL)
        first = await runner.run(Conversation().say("refund a payment"), RUN)
        await runner.run(first.say("merge the pull request"), RUN)

    names = {tool.name for tool in tools()}
    assert [{tool.name for tool in request.tools} for request in model.requests] == [names, names, names]
    shown = offered(model)
    assert shown[0][:3] == ["math.evaluate", "time.now", "stripe.refund_payment"]
    assert shown[0][3:] == ["stripe.list_payments"]
    assert shown[1] == shown[2] == shown[0]  # so that everything it keeps of a request stays good
    assert model.requests[0].tools is model.requests[1].tools


async def test_a_search_of_the_service_can_be_declined() -> None:
    model = Searching([text("done")])
    async with executor() as many:
        await Runner(model, many, offering=Offering(most=12, native=False)).run(Conversation().say("refund"))

    assert FIND_TOOLS in offered(model)[0]
    assert not [tool for tool in model.requests[0].tools if tool.deferred]


async def test_few_tools_are_never_deferred() -> None:
    model = Searching([text("done")])
    async with Executor(tools()[:5]) as few:
        await Runner(model, few).run(Conversation().say("hi"))

    assert offered(model) == [[tool.name for tool in tools()[:5]]]


@pytest.mark.parametrize("wrong", [{"most": 0}, {"found": 0}])
def test_an_offering_of_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Offering(**wrong)  # type: ignore[arg-type]  # the numbers are integers


# ── properties ──

NAMES = tuple(each.name for each in tool_samples.tools())
SAID = tuple(said for said, _ in tool_samples.queries())


def found(names: list[str]) -> ResultMessage:
    return ResultMessage(ToolResult("c", FIND_TOOLS, [{"name": name, "description": ""} for name in names]))


names = st.sampled_from((*NAMES, "gone"))
messages = st.one_of(
    st.sampled_from(SAID).map(lambda said: UserMessage((Text(said),))),
    st.text(max_size=30).map(lambda said: UserMessage((Text(said),))),
    names.map(lambda name: InvocationMessage(ToolCall("c", name, {}))),
    st.lists(names, max_size=20).map(found),
    st.just(ResultMessage(ToolResult("c", FIND_TOOLS, "cut off"))),
    st.just(AssistantMessage("hm")),
    st.just(SupervisorMessage("be good")),
)


def offers(model: Model, offering: Offering) -> OfferableTools:
    holder = executor()
    offering.equip(holder)
    return OfferableTools(offering, holder.tools, model)


LOCAL = offers(ScriptedModel(), Offering(most=40, found=5))
TIGHT = offers(ScriptedModel(), Offering(most=9, found=5))
NATIVE = offers(Searching(), Offering(most=9, found=5))


@given(st.lists(messages, max_size=30), st.data())
def test_what_is_offered_is_a_function_of_the_conversation_however_it_was_read(
    said: list[Message], data: st.DataObject
) -> None:
    for each in (LOCAL, TIGHT, NATIVE):
        piecewise, cuts = each.begin(), data.draw(st.lists(st.integers(0, len(said)), max_size=6))
        for cut in cuts:  # forward and back, as when turns are undone
            piecewise.shown(said[:cut])

        assert piecewise.shown(said) == each.begin().shown(said)


@given(st.lists(messages, max_size=30))
def test_what_is_offered_only_grows_at_its_end_while_there_is_room(said: list[Message]) -> None:
    selection = LOCAL.begin()
    before = selection.shown(said[:0])
    for count in range(1, len(said) + 1):
        after = selection.shown(said[:count])
        if after.tools[: len(before.tools)] != before.tools:  # then it was full, and has room again
            assert len(before.tools) + 20 > 40
            assert len(after.tools) <= 40
        elif len(after.tools) == len(before.tools):
            assert after is before
        before = after


@given(st.lists(messages, max_size=40))
def test_no_turn_offers_more_than_the_limit_and_the_last_wish_is_always_there(said: list[Message]) -> None:
    for each, most in ((LOCAL, 40), (TIGHT, 9)):
        shown = each.begin().shown(said)
        assert len(shown.tools) <= most
        assert len(set(shown.names)) == len(shown.names)
        assert shown.names[:3] == ("math.evaluate", "time.now", FIND_TOOLS)
        wishes = [wish for wish in map(each.wanted, said) if wish]
        assert set(wishes[-1][:1] if wishes else ()) <= set(shown.names)


@given(st.lists(messages, max_size=30))
def test_a_service_that_searches_always_has_every_tool_once(said: list[Message]) -> None:
    shown = NATIVE.begin().shown(said)

    assert sorted(tool.name for tool in shown.tools) == sorted(NAMES)
    assert set(shown.names) == {tool.name for tool in shown.tools if not tool.deferred}


def test_a_full_offer_gives_up_half_at_once_and_keeps_what_was_asked_for_last() -> None:
    plain = [name for name in NAMES if name not in dict(PINNED)]
    called: list[Message] = [InvocationMessage(ToolCall("c", name, {})) for name in plain[:38]]

    full, after = LOCAL.begin().shown(called[:37]), LOCAL.begin().shown(called)

    assert list(full.names[3:]) == plain[:37]
    assert list(after.names[3:]) == plain[19:38]


def test_another_conversation_is_read_from_its_beginning() -> None:
    def said(words: str) -> list[Message]:
        return [UserMessage((Text(words),)), AssistantMessage(words)]

    selection = LOCAL.begin()
    selection.shown(said("refund a payment"))

    assert selection.shown(said("merge the pull request")) == LOCAL.begin().shown(said("merge the pull request"))
