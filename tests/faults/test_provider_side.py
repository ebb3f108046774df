"""Faults of the provider side: cases 1 to 10 of the list of faults, by number, over real connections."""

from __future__ import annotations

import asyncio
import email.utils
from typing import Any

import pytest

from handrail import Conversation, Executor, Limits, Policy, Runner, Session, Tool, create_llm
from handrail.core.errors import LimitExceeded, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import CallAsked, CallRequested, CallSettled, ReplyGiven
from handrail.core.messages import InvocationMessage
from handrail.models.profiles import Prices, Profile
from handrail.models.rate_limit import ServiceRateLimits
from handrail.models.retry_policy import RetryPolicy
from handrail.testing.clock import FixedClock
from handrail.testing.model import ScriptedModel, text as spoken
from tests.faults.failing_service import (
    DONE,
    KEY,
    RecordedEffects,
    SharedClock,
    busy,
    called,
    failures,
    nobody,
    results,
    said,
    scene,
)
from tests.models.openai_chat.streams import call, chunk
from tests.models.raw_reply_server import CUT, Reply, serving, sse, streamed, until_closed, whole

LOOK = called(("look", '{"city":"Lisbon"}'))
PAY = called(("pay", '{"to":"ada","amount":5}'))

# 1. Rate limits.


async def test_case_01_a_rate_limit_is_waited_out_and_then_told() -> None:
    clock = FixedClock()
    async with scene(busy(retry_after="7"), said("Here."), clock=clock) as made:
        conversation = await made.ask()
        assert conversation.text == "Here."
        assert clock.slept == [7.25]
        (failed,) = made.failures
        assert (failed.error, failed.status, failed.attempt, failed.delay_ms) == ("rate_limited", 429, 1, 7250)
        assert made.notices == ["the service answered 429: slow down; trying again in 7.2 s (2 of 3)"]


async def test_case_01_a_date_says_how_long_to_wait_too() -> None:
    clock = FixedClock()
    when = email.utils.formatdate(clock.now() / 1000 + 20, usegmt=True)
    async with scene(busy(retry_after=when), said("Here."), clock=clock, chance=lambda: 0.0) as made:
        await made.ask()
    assert clock.slept == [20.0]


@pytest.mark.parametrize("chance, slept", [(0.0, []), (0.5, [0.25, 0.5]), (1.0, [0.5, 1.0])])
async def test_case_01_without_a_time_the_pause_is_anything_up_to_a_bound_that_doubles(
    chance: float, slept: list[float]
) -> None:
    clock = FixedClock()
    async with scene(busy(), busy(), said("Here."), clock=clock, chance=lambda: chance) as made:
        await made.ask()
    assert clock.slept == slept


async def test_case_01_after_its_budget_it_is_a_typed_error_with_the_time_to_come_back() -> None:
    async with scene(*[busy(retry_after="7")] * 5) as made:
        with pytest.raises(RateLimited) as caught:
            await made.ask()
        assert (caught.value.retry_after, caught.value.status, caught.value.model) == (7.0, 429, "qwen3")
        assert len(made.server.asked) == 3
        assert [(each.attempt, each.delay_ms) for each in made.failures] == [(1, 7250), (2, 7500), (3, None)]


async def test_case_01_the_loop_goes_on_from_the_turn_that_was_limited() -> None:
    async with scene(PAY, busy(), LOOK, busy(), said("Paid.")) as made:
        conversation = await made.ask()
        assert conversation.text == "Paid."
        assert made.ran == [("pay", "ada", 5), ("look", "Lisbon")]
        turns = [len(asked.json["messages"]) for asked in made.server.asked]
        assert turns == [1, 3, 3, 5, 5]


async def test_case_01_a_session_that_was_given_up_on_goes_on_later_without_a_call_run_twice() -> None:
    effects, never = RecordedEffects(), RetryPolicy(attempts=1)
    async with (
        serving(PAY, busy(), said("Paid.")) as server,
        create_llm("compatible:qwen3", base_url=f"{server.url}/v1", retry=never, clock=FixedClock()) as llm,
        Session(provider=llm, tools=effects.tools, policy=Policy(confirm_side_effects=False)) as session,
    ):
        with pytest.raises(RateLimited):
            await session.ask_async("pay ada")
        reply = await session.ask_async()
    assert reply.text == "Paid."
    assert effects.ran == [("pay", "ada", 5)]


async def test_case_01_eight_runs_that_meet_a_limit_do_not_all_come_back_at_once() -> None:
    clock = SharedClock(runs=8)
    began = clock.now()
    replies = [*[busy(retry_after="7")] * 8, busy(retry_after="5"), *[said("Here.")] * 8]
    async with scene(*replies, clock=clock) as made:
        tasks = [asyncio.create_task(made.ask(run=f"run_{number}")) for number in range(8)]
        for task in tasks:
            task.add_done_callback(clock.done)
        conversations = await asyncio.gather(*tasks)
        assert [each.text for each in conversations] == ["Here."] * 8
        # Who comes first learns that it is still too early; the seven others have not asked.
        assert len(made.server.asked) == 8 + 1 + 8
        asked = sorted(event.at - began for event in made.journal.events if isinstance(event, ReplyGiven))
        assert asked[0] >= 7_250 + 5_000
        assert len(set(asked)) == 8


async def test_case_01_models_of_one_service_share_its_pauses_and_others_do_not() -> None:
    clock, here = FixedClock(), said("Here.")
    paces = ServiceRateLimits(clock=clock)
    steady: dict[str, Any] = {"paces": paces, "clock": clock, "chance": lambda: 0.0}
    async with (
        serving(busy(retry_after="7"), here, here) as server,
        serving(here) as other,
        create_llm("compatible:a", base_url=f"{server.url}/v1", retry=RetryPolicy(attempts=1), **steady) as first,
        create_llm("compatible:b", base_url=f"{server.url}/v1", **steady) as second,
        create_llm("compatible:b", base_url=f"{server.url}/v1", key=KEY, **steady) as other_key,
        create_llm("compatible:b", base_url=f"{other.url}/v1", **steady) as elsewhere,
    ):
        with pytest.raises(RateLimited):
            await first.generate_async("hello")
        assert await elsewhere.generate_async("hello") == "Here."
        assert await other_key.generate_async("hello") == "Here."
        assert clock.slept == []
        events = [event async for event in second.stream_async("hello")]
        assert clock.slept == [7.0]
        assert getattr(events[0], "text", "") == "waiting 7.0 s before asking 'b': it takes no more at once"


async def test_case_01_no_minute_has_more_requests_than_are_allowed() -> None:
    clock = FixedClock()
    async with (
        serving(*[said("Here.")] * 7) as server,
        create_llm(
            "compatible:a", base_url=f"{server.url}/v1", requests_per_minute=3, clock=clock, chance=lambda: 0.0
        ) as llm,
    ):
        times = []
        for _ in range(7):
            await llm.generate_async("hello")
            times.append(clock.monotonic())
            clock.advance(1)
    assert times == [0, 1, 2, 60, 61, 62, 120]


# 2. Services that are down.


@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_case_02_a_failing_service_is_asked_again_for_this_reply_only(status: int) -> None:
    down = whole({"error": {"message": "overloaded"}}, status=status)
    async with scene(PAY, down, down, said("Paid.")) as made:
        assert (await made.ask()).text == "Paid."
        assert made.ran == [("pay", "ada", 5)]
        assert [(each.error, each.status, each.attempt) for each in made.failures] == [
            ("model_unavailable", status, 1),
            ("model_unavailable", status, 2),
        ]
        assert len(made.server.asked) == 4


async def test_case_02_the_attempts_are_bounded_and_each_is_on_record() -> None:
    async with scene(*[whole({}, status=500)] * 9, retry=RetryPolicy(attempts=4)) as made:
        with pytest.raises(ModelUnavailable) as caught:
            await made.ask()
        assert caught.value.conversation == Conversation().say("go")
        assert len(made.server.asked) == len(made.failures) == 4
        assert [each.delay_ms for each in made.failures] == [250, 500, 1000, None]
        assert made.failures[-1].words == str(caught.value)
        assert not any(isinstance(event, ReplyGiven) for event in made.journal.events)


async def test_case_02_a_service_that_is_not_there_is_asked_again_and_then_told() -> None:
    clock, effects = FixedClock(), RecordedEffects()
    async with create_llm("compatible:a", base_url=nobody(), clock=clock, chance=lambda: 0.5) as llm:
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            async with Session(provider=llm, tools=effects.tools) as session:
                await session.ask_async("hello")
    assert clock.slept == [0.25, 0.5]


async def test_case_02_a_refusal_is_on_record_and_not_repeated() -> None:
    async with scene(whole({"error": {"message": f"wrong key {KEY}"}}, status=401)) as made:
        with pytest.raises(RequestRefused):
            await made.ask()
        (failed,) = made.failures
        assert (failed.error, failed.status, failed.attempt, failed.delay_ms) == ("request_refused", 401, 1, None)
        assert KEY not in str(made.failures)


async def test_case_02_another_model_steps_in_and_everybody_is_told() -> None:
    clock = FixedClock()
    async with (
        serving(said("From the other.")) as other,
        create_llm("compatible:spare", base_url=f"{other.url}/v1") as spare,
        scene(*[whole({}, status=503)] * 3, clock=clock, fallback=[spare]) as made,
    ):
        assert (await made.ask()).text == "From the other."
        assert [(each.model, each.attempt, each.delay_ms) for each in made.failures] == [
            ("qwen3", 1, 250),
            ("qwen3", 2, 500),
            ("qwen3", 3, 0),
        ]
        assert made.notices[-1] == "'qwen3' gave no reply: the service answered 503: {}; going on with 'spare'"
        assert other.asked[0].json["model"] == "spare"


async def test_case_02_the_model_that_stepped_in_goes_on_with_the_same_run() -> None:
    refused = [whole({}, status=503)] * 3
    async with (
        serving(said("Paid.")) as other,
        create_llm("compatible:spare", base_url=f"{other.url}/v1") as spare,
        scene(PAY, *refused, fallback=[spare]) as made,
    ):
        assert (await made.ask()).text == "Paid."
        assert made.ran == [("pay", "ada", 5)]
        assert [message["role"] for message in other.asked[0].json["messages"]] == ["user", "assistant", "tool"]


async def test_case_02_a_model_that_failed_is_left_alone_for_a_while() -> None:
    clock, down = FixedClock(), whole({}, status=503)
    async with (
        serving(*[said("B.")] * 2) as other,
        create_llm("compatible:spare", base_url=f"{other.url}/v1", clock=clock) as spare,
        scene(down, down, down, said("A."), clock=clock, fallback=[spare]) as made,
    ):
        assert [(await made.ask()).text for _ in range(2)] == ["B.", "B."]
        assert len(made.server.asked) == 3
        clock.advance(31)
        assert (await made.ask()).text == "A."


@pytest.mark.parametrize(
    "broken, error",
    [
        (streamed(sse(chunk({"content": "It is on its"})), CUT), ProtocolError),
        (whole({}, status=401), RequestRefused),
    ],
)
async def test_case_02_no_other_steps_in_after_words_were_given_out_or_for_a_request_that_is_wrong(
    broken: Reply, error: type[Exception]
) -> None:
    spare = ScriptedModel([spoken("Mine.")])
    async with scene(broken, fallback=[spare]) as made:
        with pytest.raises(error):
            await made.ask()
        assert spare.requests == []
        assert made.failures[-1].delay_ms is None


async def test_case_02_a_spent_quota_is_another_services_turn() -> None:
    spent = whole({"error": {"message": "no money", "code": "insufficient_quota"}}, status=429)
    async with scene(spent, fallback=[ScriptedModel([spoken("Mine.")])], extra={"only": "here"}) as made:
        assert (await made.ask()).text == "Mine."
        assert [each.error for each in made.failures] == ["request_refused"]
        assert made.server.asked[0].json["only"] == "here"


async def test_case_02_a_fallback_has_its_own_settings_and_not_what_only_the_first_takes() -> None:
    async with (
        serving(said("Mine.")) as other,
        create_llm("compatible:spare", base_url=f"{other.url}/v1", temperature=0.0) as spare,
        scene(
            *[whole({}, status=503)] * 3, fallback=[spare], temperature=1.0, max_tokens=50, extra={"only": "here"}
        ) as made,
    ):
        await made.ask()
        sent = other.asked[0].json
        assert (sent["temperature"], sent.get("only")) == (0.0, None)
        assert 50 in sent.values()


async def test_case_02_when_all_have_failed_the_last_error_is_told() -> None:
    down = whole({}, status=503)
    async with (
        serving(busy(), busy(), busy()) as other,
        create_llm("compatible:spare", base_url=f"{other.url}/v1", clock=FixedClock()) as spare,
        scene(down, down, down, fallback=[spare]) as made,
    ):
        with pytest.raises(RateLimited) as caught:
            await made.ask()
        assert caught.value.model == "spare"
        assert [(each.model, each.attempt) for each in made.failures] == [
            *(("qwen3", number) for number in (1, 2, 3)),
            *(("spare", number) for number in (4, 5, 6)),
        ]


# 3. Streams that end too early.

HALF = chunk(call(0, "call_a", "pay", '{"to":"ada","amo'))
ALMOST = [chunk(call(0, "call_a", "pay", '{"to":"ada","amount":5}')), chunk(call(1, "call_b", "look", '{"city":'))]


@pytest.mark.parametrize(
    "cut",
    [
        streamed(sse(HALF), CUT),
        until_closed(sse(HALF)),
        streamed(sse(HALF)),
        streamed(sse(*ALMOST), CUT),
        until_closed(sse(*ALMOST)),
        streamed(sse(HALF), sse(chunk(call(0, arguments='unt":5}')))[:-9], CUT),
    ],
    ids=["cut", "closed", "ended", "cut after a call", "closed after a call", "cut in an event"],
)
async def test_case_03_a_stream_that_ends_too_early_is_an_error_and_none_of_its_calls_is_run(cut: Reply) -> None:
    async with scene(cut, said("Never asked.")) as made:
        with pytest.raises(ProtocolError):
            await made.ask()
        assert made.ran == []
        assert not any(isinstance(event, CallRequested) and event.call.name == "pay" for event in made.events)
        assert [(each.error, each.delay_ms) for each in made.failures] == [("protocol_error", None)]
        assert not any(isinstance(event, ReplyGiven) for event in made.journal.events)


async def test_case_03_a_read_that_began_early_leaves_no_result_behind_when_its_reply_is_cut() -> None:
    first = [chunk(call(0, "call_a", "look", '{"city":"Lisbon"}')), chunk(call(1, "call_b", "look", '{"city":'))]
    async with scene(streamed(sse(*first), CUT)) as made:
        with pytest.raises(ProtocolError) as caught:
            await made.ask()
        assert not any(isinstance(message, InvocationMessage) for message in caught.value.conversation.messages)


async def test_case_03_a_stream_cut_before_it_said_anything_is_asked_for_again() -> None:
    async with scene(streamed(sse(chunk({"role": "assistant"})), CUT), said("Here.")) as made:
        assert (await made.ask()).text == "Here."
        assert [each.error for each in made.failures] == ["protocol_error"]


async def test_case_03_a_stream_without_its_last_mark_but_with_a_finish_reason_is_whole() -> None:
    async with scene(streamed(sse(chunk({"content": "Here."}), chunk({}, "stop")))) as made:
        assert (await made.ask()).text == "Here."


# 4. A good status, and no reply.

PAGE = b"<html><body>Sign in at the proxy. Bearer " + KEY.encode() + b" sk-ant-" + b"a1B2" * 10 + b"</body></html>"


@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/event-stream", "text/plain"])
async def test_case_04_a_page_in_place_of_a_reply_is_shown_without_secrets(kind: str) -> None:
    async with scene(*[whole(PAGE + b"x" * 5000, kind=kind)] * 3) as made:
        with pytest.raises(ProtocolError) as caught:
            await made.ask()
        text = str(caught.value)
        assert "begins: <html><body>Sign in at the proxy." in text
        assert KEY not in text
        assert "a1B2" not in text
        assert len(text) < 400
        assert [each.words for each in made.failures] == [text] * 3


@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/event-stream", None])
async def test_case_04_an_empty_reply_is_an_error_that_says_so(kind: str | None) -> None:
    async with scene(*[whole(b"", kind=kind)] * 3) as made:
        with pytest.raises(ProtocolError, match="empty"):
            await made.ask()


# 5. Events that cannot be read.


@pytest.mark.parametrize("bad", [b"{broken", b'{"choices": NaN}', b"[1]", b'{"choices": [}', b"\xff\xfe"])
async def test_case_05_an_event_that_cannot_be_read_fails_the_attempt_and_is_not_skipped(bad: bytes) -> None:
    spoilt = streamed(sse(bad, chunk({"content": "Went on."}), chunk({}, "stop"), DONE))
    async with scene(spoilt, spoilt, said("Here.")) as made:
        assert (await made.ask()).text == "Here."
        assert made.text == "Here."
        assert [each.error for each in made.failures] == ["protocol_error"] * 2


async def test_case_05_in_the_middle_it_ends_the_reply_and_nothing_of_it_is_run() -> None:
    spoilt = streamed(sse(ALMOST[0], b'{"choices": [', chunk({}, "tool_calls"), DONE))
    async with scene(spoilt) as made:
        with pytest.raises(ProtocolError, match="not JSON"):
            await made.ask()
        assert made.ran == []


# 6. Arguments that are no JSON.


@pytest.mark.parametrize(
    "written, position",
    [
        ("city = Lisbon", 0),
        ('{"to":"ada","amount":5', 22),
        ('{"to":"ada","to":"eve","amount":5}', 12),
        ('{"to":"a:b","amount":5,"amount":500}', 23),
        ('{"to":"ada","amount":NaN}', 21),
        ('{"to":"ada","amount":-Infinity}', 22),
        ('{"to":"ada","amount":5} and so on', 24),
        ("{'to':'ada','amount':5}", 1),
    ],
)
async def test_case_06_arguments_that_are_no_json_are_not_run_and_the_model_is_told_where(
    written: str, position: int
) -> None:
    async with scene(called(("pay", written)), said("Sorry.")) as made:
        (result,) = results(await made.ask())
        assert (made.ran, result.outcome) == ([], "invalid_arguments")
        assert f"at position {position}" in result.text
        assert result.text in [message.get("content") for message in made.server.asked[1].json["messages"]]


async def test_case_06_arguments_are_repaired_only_on_request_and_the_record_says_so() -> None:
    lenient = Policy(confirm_side_effects=False, repair=True)
    async with scene(called(("pay", "{'to': 'ada', 'amount': 5,}")), said("Paid."), policy=lenient) as made:
        (result,) = results(await made.ask())
        assert (made.ran, result.outcome) == ([("pay", "ada", 5)], "ok")
        (settled,) = (event for event in made.journal.events if isinstance(event, CallSettled))
        assert settled.result is not None
        assert settled.result.warnings


# 7. Ids that are used twice.


async def test_case_07_two_calls_of_one_id_are_both_run_once_and_answered_in_their_places() -> None:
    twice = called(
        ("pay", '{"to":"ada","amount":1}'), ("pay", '{"to":"bob","amount":2}'), ids=("call_same", "call_same")
    )
    async with scene(twice, said("Paid both.")) as made:
        answers = results(await made.ask())
        assert sorted(made.ran) == [("pay", "ada", 1), ("pay", "bob", 2)]
        assert len({answer.tool_call_id for answer in answers}) == 2
        said_back = made.server.asked[1].json["messages"]
        asked = [each["id"] for each in said_back[1]["tool_calls"]]
        assert [message["tool_call_id"] for message in said_back[2:]] == asked
        assert len(set(asked)) == 2
        assert any("the id 'call_same'" in notice for notice in made.notices)
        by_id = {event.call_id: event for event in made.journal.events if isinstance(event, CallSettled)}
        assert set(by_id) == {answer.tool_call_id for answer in answers}


async def test_case_07_an_id_of_an_earlier_turn_names_another_call() -> None:
    again = [called(("pay", f'{{"to":"ada","amount":{amount}}}'), ids=("call_0",)) for amount in (1, 2)]
    async with scene(*again, said("Paid twice.")) as made:
        answers = results(await made.ask())
        assert made.ran == [("pay", "ada", 1), ("pay", "ada", 2)]
        assert [answer.text for answer in answers] == ["receipt 1", "receipt 2"]


# 8. Tools that are not there.


@pytest.mark.parametrize("name", ["lok", "Look", "house:look", "pay_", "functions.pay", "rm -rf", "look\u200b"])
async def test_case_08_a_name_that_is_almost_right_is_not_run_and_near_ones_are_named(name: str) -> None:
    async with scene(called((name, '{"city":"Lisbon"}')), said("Sorry.")) as made:
        (result,) = results(await made.ask())
        assert (made.ran, result.outcome) == ([], "unknown_tool")
        assert result.text.count("'") <= 2 + 2 * 5
        (settled,) = (event for event in made.journal.events if isinstance(event, CallSettled))
        assert (settled.outcome, settled.ran) == ("unknown_tool", False)


async def test_case_08_at_most_five_near_names_are_told() -> None:
    many = [Tool.from_function(lambda: "", name=f"find_order_{number}", description="Find.") for number in range(40)]
    async with (
        serving(called(("find_order", "{}")), said("Sorry.")) as server,
        create_llm("compatible:a", base_url=f"{server.url}/v1") as llm,
        Executor(many) as executor,
    ):
        (result,) = results(await Runner(llm.model, executor).run(Conversation().say("go")))
    assert result.text.count("'find_order_") == 5


# 9. Arguments that do not fit.


async def test_case_09_every_misfit_is_told_with_its_path_and_nothing_is_run() -> None:
    async with scene(called(("pay", '{"to":5,"amount":"five","for":"x"}')), said("Sorry.")) as made:
        (result,) = results(await made.ask())
        assert (made.ran, result.outcome) == ([], "invalid_arguments")
        for path in ("to: ", "amount: ", "for"):
            assert path in result.text


async def test_case_09_no_secret_is_in_what_is_told_recorded_or_shown() -> None:
    wrong = '{"user":"ada","password":"correct horse","tries":"three"}'
    worse = '{"user":"ada","password":["correct horse"]}'
    async with scene(called(("log_in", wrong), ("log_in", worse)), said("Sorry.")) as made:
        answers = results(await made.ask())
        assert {answer.outcome for answer in answers} == {"invalid_arguments"}
        assert not any("correct horse" in answer.text for answer in answers)
        asked = [event.arguments for event in made.journal.events if isinstance(event, CallAsked)]
        assert len(asked) == 2
        assert "correct horse" not in str(made.journal.events)


async def test_case_09_calls_that_do_not_fit_use_up_a_budget_and_the_run_ends_in_an_answer() -> None:
    bad = [called(*[("pay", f'{{"to":{turn * 10 + number}}}') for number in range(3)]) for turn in range(5)]
    limits = Limits(iterations=50, wrong_calls=6)
    async with scene(bad[0], bad[1], said("I cannot."), *bad[2:], limits=limits) as made:
        conversation = await made.ask()
        assert conversation.text == "I cannot."
        assert len(made.server.asked) == 3
        assert made.server.asked[2].json.get("tool_choice") in ("none", None)


async def test_case_09_the_budget_may_be_an_error_and_good_calls_do_not_use_it() -> None:
    limits = Limits(iterations=50, wrong_calls=2, on_limit="error")
    wrong = called(("nothing", "{}"))
    async with scene(wrong, LOOK, PAY, wrong, said("Never."), limits=limits) as made:
        with pytest.raises(LimitExceeded, match="2 wrong calls") as caught:
            await made.ask()
        assert [result.outcome for result in results(caught.value.conversation)] == [
            "unknown_tool",
            "ok",
            "ok",
            "unknown_tool",
        ]


# 10. Too much.


async def test_case_10_of_200_calls_in_one_reply_some_are_run_a_few_at_once_and_all_are_answered() -> None:
    flood = called(*[("look", f'{{"city":"C{number}"}}') for number in range(200)])
    async with scene(flood, said("Enough."), policy=Policy(concurrency=4)) as made:
        conversation = await made.ask()
        outcomes = [result.outcome for result in results(conversation)]
        assert outcomes == ["ok"] * 32 + ["limit"] * 168
        assert len(made.ran) == 32
        assert made.effects.most_at_once == 4
        assert conversation.text == "Enough."


async def test_case_10_calls_of_tools_that_are_not_there_count_among_those_of_a_reply() -> None:
    flood = called(("nothing", "{}"), *[("look", f'{{"city":"C{number}"}}') for number in range(5)])
    async with scene(flood, said("Enough."), limits=Limits(calls_per_turn=3)) as made:
        outcomes = [result.outcome for result in results(await made.ask())]
        assert outcomes == ["unknown_tool", "ok", "ok", "limit", "limit", "limit"]


def endless(call: Reply) -> list[Reply]:
    """Whatever it is told."""
    return [call] * 60


async def test_case_10_the_same_call_with_the_same_answer_is_seen_and_not_run_for_ever() -> None:
    async with scene(*endless(LOOK), limits=Limits(iterations=20, same_answer=4)) as made:
        outcomes = [result.outcome for result in results(await made.ask())]
        assert made.ran == [("look", "Lisbon")] * 4
        assert outcomes == ["ok"] * 4 + ["limit"] * 16
        assert made.notices[-1] == "stopped at the limit of 20 iterations: the model goes on calling tools"


async def test_case_10_the_same_failure_is_seen_too() -> None:
    async with scene(*endless(called(("pay", '{"to":"ada"}'))), limits=Limits(iterations=10)) as made:
        outcomes = [result.outcome for result in results(await made.ask())]
        assert outcomes == ["invalid_arguments"] * 3 + ["limit"] * 7


async def test_case_10_turns_are_bounded_and_the_last_is_for_an_answer() -> None:
    async with scene(*[LOOK] * 3, said("Sun."), limits=Limits(iterations=3)) as made:
        assert (await made.ask()).text == "Sun."
        assert len(made.server.asked) == 4


@pytest.mark.parametrize("limits, name", [(Limits(tokens=250), "tokens"), (Limits(cost=0.02), "US dollars")])
async def test_case_10_tokens_and_money_are_bounded_and_what_was_done_is_kept(limits: Limits, name: str) -> None:
    profile = Profile(prices=Prices(input=50.0, output=100.0))
    async with scene(*endless(LOOK), limits=limits, profile=profile) as made:
        conversation = await made.ask()
        assert any(name in notice for notice in made.notices)
        assert len(made.server.asked) == len(results(conversation)) == 3


async def test_case_10_time_is_bounded_also_while_a_service_is_waited_for() -> None:
    class Waits(FixedClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    async with scene(LOOK, busy(retry_after="60"), clock=Waits(), limits=Limits(seconds=0.3)) as made:
        conversation = await made.ask()
        assert [result.outcome for result in results(conversation)] == ["ok"]
        assert any("0.3 seconds" in notice for notice in made.notices)
        assert [each.delay_ms for each in failures(made.journal.events)] == [60_250]
