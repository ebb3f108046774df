"""The parts of a desk that need no desk: a turn put together from events, feeds, questions, suggested rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail import Secret, ToolCall, ToolResult, tool
from handrail.core.confirmation import Allow, Confirmation, Defer, Deny, Edit
from handrail.core.display import browser_safe, exact_json, printable
from handrail.core.errors import UsageError
from handrail.core.event_feed import EventFeed
from handrail.core.events import (
    CallAsked,
    CallDelta,
    CallIntended,
    CallProgress,
    CallReady,
    CallRequested,
    CallSettled,
    ConfirmationRequested,
    Event,
    Notice,
    ReasoningDelta,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
)
from handrail.core.messages import DocumentMessage, Text, UserMessage
from handrail.desk.feed import DeskNews
from handrail.desk.live_turn import TurnAssembler
from handrail.desk.message_view import MessageView, shorten_texts
from handrail.desk.questions import PendingQuestions
from handrail.desk.rule_offers import describe_rule_offers, rule_offer_sentence, suggest_rules
from handrail.desk.turns import turn_starts
from handrail.desk.values import ConversationEvent, ConversationSnapshot, DeskQuestion, LiveTurn
from handrail.execute.rules import Rule
from handrail.tools.registry import registered


@tool(side_effects=True)
def pay(to: str, amount: int = 1, key: Secret = Secret("")) -> str:
    """Pay someone."""
    raise NotImplementedError


KEY = "sk-" + "k" * 40
TOOLS = registered(pay)
SHOWN = MessageView(TOOLS)
names = st.sampled_from(["pay", "look", "", "\ud800"])
ids = st.sampled_from(["a", "b", ""])
anything = st.text(max_size=40, alphabet=st.characters(exclude_categories=()))
at = {"run": st.just("r"), "at": st.integers(0, 9)}
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, text=anything),
    st.builds(ReasoningDelta, text=anything),
    st.builds(Notice, text=anything),
    st.builds(CallDelta, call_id=ids, name=names, arguments=anything),
    st.builds(
        lambda id, name, text: CallRequested(call=ToolCall(id, name, text)),
        ids,
        names,
        anything | st.dictionaries(anything, anything | st.integers(), max_size=2),
    ),
    st.builds(CallReady, call=st.builds(ToolCall, ids, names)),
    st.builds(CallAsked, call_id=ids, tool=names, **at),
    st.builds(
        CallIntended, call_id=ids, tool=names, side_effects=st.booleans(), idempotent=st.booleans(), key=ids, **at
    ),
    st.builds(ConfirmationRequested, call_id=ids, tool=names, request=ids, binds=ids, **at),
    st.builds(CallProgress, run=st.just("r"), call_id=ids, tool=names, current=st.floats(), stage=anything),
    st.builds(
        lambda id, name, content: CallSettled(
            run="r",
            at=1,
            call_id=id,
            tool=name,
            outcome="ok",
            duration_us=1,
            ran=True,
            result=None if content is None else ToolResult(id, name, content),
        ),
        ids,
        names,
        st.none() | anything | st.lists(anything, max_size=2),
    ),
    st.builds(ReplyFailed, model=names, attempt=st.just(1), error=names, **at),
    st.builds(ReplyFinished, stop=st.just("end")),
)


@given(st.lists(events, max_size=25), st.lists(st.integers(0, 24), max_size=3))
def test_whatever_order_events_come_in_a_turn_can_always_be_shown(happened: list[Event], taken: list[int]) -> None:
    turn = TurnAssembler(SHOWN)
    done: set[str] = set()
    for number, event in enumerate(happened):
        call = turn.take(event)
        live = turn.live
        assert call is None or call in live.calls
        assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(live)), LiveTurn) is not None
        assert done <= {each.call_id for each in live.calls if each.stage == "done"}
        done = {each.call_id for each in live.calls if each.stage == "done"}
        if number in taken:
            turn.took_in(done)
            assert turn.live.text == "" and not any(each.call_id in done for each in turn.live.calls)
            done = set()


def test_arguments_are_told_as_they_grow_but_not_each_letter() -> None:
    turn, told = TurnAssembler(SHOWN), 0
    for letter in "x" * 100_000:
        told += turn.take(CallDelta(call_id="a", name="look", arguments=letter)) is not None
    (call,) = turn.live.calls
    assert len(call.written) == 8_000 and told < 200


def test_what_is_written_for_a_tool_with_secrets_is_not_shown() -> None:
    turn = TurnAssembler(SHOWN)
    turn.take(CallDelta(call_id="a", name="pay", arguments='{"to": "ada", "key": "s3cret'))
    turn.take(CallDelta(call_id="a", name="pay", arguments='-code"}'))
    turn.take(CallRequested(call=ToolCall("a", "pay", '{"to": "ada", "key": "s3cret-code"}')))
    assert "s3cret" not in repr(turn.live) and "ada" in repr(turn.live)


def test_a_call_that_was_written_under_another_id_is_one_call() -> None:
    turn = TurnAssembler(SHOWN)
    turn.take(CallDelta(call_id="", name="look", arguments="{"))
    turn.take(CallRequested(call=ToolCall("call_1", "look", {})))
    assert [each.call_id for each in turn.live.calls] == ["call_1"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_whatever_is_told_can_be_written_and_read(value: Any) -> None:
    told = browser_safe(value)
    assert msgspec.json.decode(msgspec.json.encode(told)) == told == browser_safe(told)


def test_long_texts_in_arguments_are_cut_with_a_note() -> None:
    assert shorten_texts({"a": ["x" * 5_000]}) == {"a": ["x" * 4_000 + " … (5000 characters)"]}


# ── feeds ────────────────────────────────────────────────────────────────────────────


def shot(feed: EventFeed[ConversationEvent]) -> ConversationSnapshot:
    return ConversationSnapshot(id="r", title="", state="idle", total=0, items=(), cursor=feed.cursor, model="")


async def test_a_follower_that_falls_behind_is_shown_everything_again() -> None:
    feed = EventFeed(ConversationEvent, 1, remembered=4)
    async with aclosing(feed.follow(lambda: shot(feed))) as told:
        assert isinstance(await anext(told), ConversationSnapshot)
        feed.tell("state", {"state": "idle"})
        assert (await anext(told)).n == 1001  # type: ignore[union-attr]  # it is no snapshot
        for _ in range(9):
            feed.tell("state", {"state": "idle"})
        found = await anext(told)
        assert isinstance(found, ConversationSnapshot) and found.cursor == feed.cursor
        assert feed.followers == 1
    assert feed.followers == 0


async def test_pieces_that_waited_come_as_one() -> None:
    feed = EventFeed(ConversationEvent, 1)
    start = feed.cursor
    for type, text in (("text", "a"), ("text", "b"), ("reasoning", "c"), ("text", "d")):
        feed.tell(type, {"text": text})
    assert feed.since(start) == [
        ConversationEvent(n=start + 2, type="text", data={"text": "ab"}),
        ConversationEvent(n=start + 3, type="reasoning", data={"text": "c"}),
        ConversationEvent(n=start + 4, type="text", data={"text": "d"}),
    ]


@given(st.lists(st.sampled_from(["text", "state"]), max_size=30), st.integers(1, 8))
def test_a_follower_misses_nothing_that_is_remembered(types: list[str], remembered: int) -> None:
    async def follow() -> None:
        feed = EventFeed(ConversationEvent, 1, remembered)
        start = feed.cursor
        for number, type in enumerate(types):
            feed.tell(type, {"text": f"{number},"})
        assert feed.knows(start) == (len(types) <= remembered)
        if feed.knows(start):
            joined = "".join(each.data["text"] for each in feed.since(start))
            assert joined == "".join(f"{number}," for number in range(len(types)))
        assert not feed.knows(feed.cursor + 1)

    asyncio.run(follow())


async def test_a_watcher_that_is_slow_hears_the_latest_of_each_thing() -> None:
    news = DeskNews()
    async with aclosing(news.watch(lambda: [("question", "first")])) as heard:
        assert await anext(heard) == ("question", "first")
        for number in range(3):
            news.tell("talk", "a", number)
        news.tell("gone", "b", "b")
        assert [await anext(heard), await anext(heard)] == [("talk", 2), ("gone", "b")]
        news.close()
        with pytest.raises(StopAsyncIteration):
            await anext(heard)


# ── questions ────────────────────────────────────────────────────────────────────────


def question(**facts: Any) -> Confirmation:
    definition = pay.digest
    known = {"request": "q1", "run": "run_1", "call_id": "c1", "tool": "pay", "description": "Pay someone."}
    return Confirmation(**{**known, "arguments": {"to": "ada"}, "binds": "", "definition": definition, **facts})


async def test_a_run_that_nobody_attends_is_left_for_later() -> None:
    asking = PendingQuestions("ada")
    assert await asking.knowing(TOOLS).decide(question()) == Defer()


async def test_a_question_of_an_agent_is_put_where_its_caller_is_attended_and_names_the_agents() -> None:
    asking = PendingQuestions("ada")
    asks = question(run="run_1.call_2.call_3", agents=("clerk", "bookkeeper"))
    with asking.attend("run_1", "talk_1", lambda event, data: None):
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(asks))
        await asyncio.sleep(0)
        (waiting,) = asking.of("talk_1")
        assert waiting.description.endswith("(for clerk → bookkeeper)")
        asking.answer("q1", asking.word("q1", "allow"), "allow")
        assert await deciding == Allow("ada")


async def test_a_server_asks_whoever_is_there_and_its_form_is_checked() -> None:
    asking, heard = PendingQuestions("ada"), list[tuple[str, Any]]()
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asks = question(run="mcp_files", tool="files:elicit", arguments={}, form=form, meant=("run_1",))
    assert await asking.knowing(TOOLS).decide(asks) == Defer()
    with asking.attend("run_1", "talk_1", lambda event, data: heard.append((event, data))):
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(asks))
        await asyncio.sleep(0)
        (waiting,) = asking.of("talk_1")
        assert waiting.form == form and waiting.rules == ()
        with pytest.raises(UsageError, match="name"):
            asking.word("q1", "edit", arguments={})
        asking.answer("q1", asking.word("q1", "edit", arguments={"name": "ada"}), "edit")
        assert await deciding == Edit("ada", {"name": "ada"})
    assert [event for event, _ in heard] == ["question", "answered"]


def listening(heard: list[tuple[str, Any]]) -> Callable[[str, Any], None]:
    return lambda event, data: heard.append((event, data))


async def test_a_server_is_answered_where_it_is_at_work() -> None:
    asking, heard = PendingQuestions("ada"), list[tuple[str, Any]]()
    with asking.attend("run_1", "talk_1", lambda event, data: None), asking.attend("run_2", "talk_2", listening(heard)):
        asks = question(run="mcp_files", tool="files:sample", meant=("run_1",))
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(asks))
        await asyncio.sleep(0)
        assert (len(asking.of("talk_1")), asking.of("talk_2")) == (1, ())
        asking.answer("q1", asking.word("q1", "allow"), "allow")
        assert await deciding == Allow("ada")
    assert heard == []


async def test_a_server_that_works_for_nobody_at_the_desk_asks_nobody_there() -> None:
    asking = PendingQuestions("ada")
    with asking.attend("run_1", "talk_1", lambda event, data: None):
        for meant in (), ("run_of_another",):
            assert await asking.knowing(TOOLS).decide(question(run="mcp_files", meant=meant)) == Defer()


async def test_a_server_that_does_not_say_for_whom_it_asks_is_shown_wherever_it_may_be() -> None:
    asking, one, other = PendingQuestions("ada"), list[tuple[str, Any]](), list[tuple[str, Any]]()
    asks = question(run="mcp_files", tool="files:sample", why="it asks", meant=("run_1", "run_2", "run_9"))
    with (
        asking.attend("run_1", "talk_1", listening(one), "Holidays"),
        asking.attend("run_2", "talk_2", listening(other), "Taxes"),
        asking.attend("run_3", "talk_3", lambda event, data: None, "Idle"),
    ):
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(asks))
        await asyncio.sleep(0)
        (left,), (right,) = asking.of("talk_1"), asking.of("talk_2")
        assert left.why == "it asks: this one, or 'Taxes', or 1 that is not at this desk"
        assert right.why == "it asks: this one, or 'Holidays', or 1 that is not at this desk"
        assert asking.of("talk_3") == () and asking.questions == (left,)
        asking.answer("q1", asking.word("q1", "allow"), "allow")
        assert await deciding == Allow("ada")
    for heard in one, other:
        assert [event for event, _ in heard] == ["question", "answered"]
        assert heard[1][1]["decision"] == "allow"


async def test_a_question_that_may_be_for_two_stays_open_for_the_one_that_goes_on() -> None:
    asking, one, other = PendingQuestions("ada"), list[tuple[str, Any]](), list[tuple[str, Any]]()
    asks = question(run="mcp_files", tool="files:sample", why="it asks", meant=("run_1", "run_2"))
    with asking.attend("run_2", "talk_2", listening(other), "Taxes"):
        with asking.attend("run_1", "talk_1", listening(one), "Holidays"):
            deciding = asyncio.create_task(asking.knowing(TOOLS).decide(asks))
            await asyncio.sleep(0)
        assert one[1] == ("answered", {"request": "q1", "decision": "stopped", "by": "ada"})
        assert asking.of("talk_1") == () and len(asking.of("talk_2")) == 1
        assert [event for event, _ in other] == ["question"]
    assert await deciding == Defer()
    assert asking.questions == ()


async def test_a_question_of_a_server_takes_no_edit() -> None:
    asking, asks = PendingQuestions("ada"), question(run="mcp_files", tool="files:sample", meant=("run_1",))
    with asking.attend("run_1", "talk_1", lambda event, data: None):
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(asks))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="with yes or no"):
            asking.word("q1", "edit", arguments={})
        asking.answer("q1", asking.word("q1", "deny", reason="no"), "deny")
        assert await deciding == Deny("ada", "no")


async def test_a_number_that_a_browser_would_round_is_what_it_was() -> None:
    asking, large = PendingQuestions("ada"), 2**60 + 1
    with asking.attend("run_1", "talk_1", lambda event, data: None):
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(question(arguments={"to": "ada", "amount": large})))
        await asyncio.sleep(0)
        shown = asking.questions[0].arguments
        assert shown["amount"] == str(large)
        asking.answer("q1", asking.word("q1", "edit", arguments={**shown, "to": "bob"}), "edit")
        assert await deciding == Edit("ada", {"to": "bob", "amount": large})


HIDING = "a\u202eb\u200b\xa0\u3164\ue000\U000e0100"
"""Letters that are not seen, or seen elsewhere, or look like a space."""
LOOKALIKES = {"to": HIDING, "amount": 2**60 + 1, "rate": -0.0, "share": 1.0, "__proto__": {"constructor": " x "}}


@tool(side_effects=True)
def send(arguments: dict[str, Any]) -> str:
    """Send anything."""
    raise NotImplementedError


async def edited(before: dict[str, Any], text: str) -> Any:
    """What runs after a person has changed the text that they were shown."""
    asking = PendingQuestions("ada")
    asks = question(tool="send", arguments={"arguments": before})
    with asking.attend("run_1", "talk_1", lambda event, data: None):
        deciding = asyncio.create_task(asking.knowing(registered(send)).decide(asks))
        await asyncio.sleep(0)
        try:
            asking.answer("q1", asking.word("q1", "edit", arguments=f'{{"arguments": {text}}}'), "edit")
            word = await deciding
            return word.arguments["arguments"] if isinstance(word, Edit) else word
        finally:
            deciding.cancel()


async def test_what_is_shown_is_exactly_what_runs_and_no_letter_of_it_hides() -> None:
    written = exact_json(LOOKALIKES)
    assert written.isascii() and "\\u202e" in written and "\\u00a0" in written
    assert repr(await edited(LOOKALIKES, written)) == repr(LOOKALIKES)
    assert repr(await edited({"n": 1, "on": True}, '{"n": true, "on": 1.0}')) == "{'n': True, 'on': 1.0}"


@given(json_values)
def test_json_for_a_person_reads_back_as_it_was_and_hides_nothing(value: Any) -> None:
    written = exact_json(value)
    assert repr(json.loads(written)) == repr(value)  # 1 is not True here, and NaN is NaN
    assert printable(written, keep="\n") == written


def test_a_letter_that_only_looks_latin_is_written_out_and_other_words_are_left_alone() -> None:
    assert exact_json(["p\u0430ypal", "\u0430dmin"]) == '[\n  "p\\u0430ypal",\n  "\\u0430dmin"\n]'
    assert exact_json("привет, мир\nда") == '"привет, мир\\nда"'


@pytest.mark.parametrize(
    ("before", "text", "why"),
    [
        ({"to": "ada"}, '{"to": "ada", "to": "eve"}', "'to' occurs twice"),
        ({"to": "ada"}, '{"to": 1e400}', "too large"),
        ({"to": "ada"}, "[]", "arguments"),
        ({"keys": [KEY, KEY]}, '{"keys": ["[redacted]"]}', "stands for what is hidden"),
        ({"key": KEY}, '{"key": "x [redacted]"}', "stands for what is hidden"),
        ({KEY: 1}, '{"[redacted]": 1}', "stands for what is hidden"),
    ],
)
async def test_a_text_of_which_nobody_can_say_what_it_means_is_refused(
    before: dict[str, Any], text: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        await edited(before, text)


async def test_a_question_ends_with_whoever_asked() -> None:
    asking, heard = PendingQuestions("ada"), list[Any]()
    with asking.attend("run_1", "talk_1", lambda event, data: heard.append(data)):
        deciding = asyncio.create_task(asking.knowing(TOOLS).decide(question()))
        await asyncio.sleep(0)
        assert isinstance(heard[0], DeskQuestion)
        deciding.cancel()
        await asyncio.wait({deciding})
    assert asking.questions == () and heard[1]["decision"] == "stopped"


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_every_suggested_rule_covers_the_call_and_is_bound_to_the_tool(arguments: dict[str, Any]) -> None:
    asked = question(arguments=arguments, secrets=("key",))
    rules = suggest_rules(asked)
    assert rules and rules[-1] == f"allow pay@{pay.digest[:31]}"
    for text in rules:
        rule = Rule.parse(text)
        assert rule.covers(asked) and str(rule) == text
        assert not rule.covers(question(arguments=arguments, definition="sha256:" + "0" * 64))


def test_a_suggested_rule_names_no_secret() -> None:
    asked = question(arguments={"to": "/home/ada", "key": "s3cret"}, secrets=("key",))
    assert suggest_rules(asked) == tuple(
        f"allow pay@{pay.digest[:31]}{rest}" for rest in (" to=/home/ada", " to=/home/**", "")
    )


def test_a_rule_is_offered_as_a_sentence_with_its_tool_its_values_and_what_it_leaves_open() -> None:
    asked = question(tool="io:write", arguments={"path": "docs/p\u0430ypal.md", "text": "two words"})
    rules = (
        "allow io:write@sha256:0123456789ab path=docs/p\u0430ypal.md",
        "allow io:write@sha256:0123456789ab path=docs/**",
        "allow io:write@sha256:0123456789ab",
    )

    offered = describe_rule_offers(rules, asked)

    assert [each.rule for each in offered] == list(rules)
    assert [rule_offer_sentence(each) for each in offered] == [
        'Allow io:write without asking whenever path is "docs/p\\u0430ypal.md"; text may be anything.',
        'Allow io:write without asking whenever path is anything in the folder "docs"; text may be anything.',
        "Allow io:write without asking with any arguments.",
    ]


def test_a_turn_begins_with_what_was_attached_to_it_and_not_with_what_was_read_before() -> None:
    words = UserMessage((Text("compare them"),))
    attached, read = DocumentMessage("a.txt", "a"), DocumentMessage("b", "b", source="file:///b")

    assert turn_starts((read, attached, words)) == [1]
    assert turn_starts((attached, read, words)) == [2]
