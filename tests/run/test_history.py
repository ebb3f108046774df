"""A run out of its record: taken up again where it was, or told again without model and tools."""

from __future__ import annotations

import msgspec
import pytest

from handrail import Context, Conversation, Executor, Policy, Runner, Secret, ToolCall, tool
from handrail.core.errors import UsageError
from handrail.core.events import (
    CallRequested,
    ConfirmationRequested,
    ConversationChanged,
    Event,
    Recorded,
    ReplyGiven,
    TextDelta,
)
from handrail.core.messages import Message, ResultMessage
from handrail.core.redact import MASK
from handrail.run.history import conversation_of, replay, unanswered_calls
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.tool import Tool

RUN = Context(run="r")
FREE = Policy(confirm_side_effects=False)


def payer(paid: list[int]) -> Tool:
    @tool(side_effects=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    return pay


async def finished(journal: MemoryJournal, paid: list[int]) -> Conversation:
    model = ScriptedModel([text("Paying. "), call("pay", amount=1), call("pay", amount=2)], [text("Done.")])
    async with Executor([payer(paid)], journal=journal, policy=FREE) as executor:
        return await Runner(model, executor).run(Conversation().say("pay"), RUN)


async def test_the_record_gives_back_the_conversation() -> None:
    journal = MemoryJournal()
    conversation = await finished(journal, [])

    assert [type(message) for message in conversation_of(journal.events).messages] == [
        type(message) for message in conversation.messages
    ]
    assert conversation_of(journal.events).text == "Done."


async def test_a_run_that_is_taken_up_is_read_once_however_long_it_is() -> None:
    class Counting(MemoryJournal):
        reads = 0

        async def history(self, run: str) -> list[Recorded]:
            self.reads += 1
            return await super().history(run)

    journal = Counting()
    conversation, journal.reads = await finished(journal, []), 0
    async with Executor([payer([])], journal=journal, policy=FREE) as executor:
        await Runner(ScriptedModel([text("Bye.")]), executor).run(conversation.say("thanks"), RUN)
        assert journal.reads == 1
        assert len(await executor.runs.history("r")) == len(journal.events)  # what was written since is there too


async def test_a_run_cut_off_at_any_entry_is_taken_up_and_ends_the_same_without_paying_twice() -> None:
    whole = MemoryJournal()
    expected = await finished(whole, [])
    for cut in range(1, len(whole.events)):
        journal, paid = MemoryJournal(), [1, 2]
        journal.events.extend(whole.events[:cut])
        settled = sum(type(event).__name__ == "CallSettled" for event in journal.events)
        intended = sum(type(event).__name__ == "CallIntended" for event in journal.events)
        del paid[settled:]
        begun = conversation_of(journal.events) if cut > 1 else Conversation().say("pay")
        replies = sum(isinstance(event, ReplyGiven) for event in journal.events)
        script = [[text("Paying. "), call("pay", amount=1), call("pay", amount=2)], [text("Done.")]][replies:]
        async with Executor([payer(paid)], journal=journal, policy=FREE) as executor:
            ended = await Runner(ScriptedModel(*script), executor).run(begun, RUN)

        outcomes = [message.result.outcome for message in ended.messages if isinstance(message, ResultMessage)]
        assert ended.text == "Done."
        assert len(paid) == len(set(paid))
        assert outcomes.count("in_doubt") == intended - settled
        assert len(ended) == len(expected)


async def test_calls_without_a_result_are_found_at_the_end_only() -> None:
    conversation = await finished(MemoryJournal(), [])

    assert unanswered_calls(conversation) == ()
    assert [message.call.arguments for message in unanswered_calls(conversation.upto(4))] == [
        {"amount": 1},
        {"amount": 2},
    ]
    assert [message.call.arguments for message in unanswered_calls(conversation.upto(5))] == [{"amount": 2}]


async def test_a_replay_tells_the_same_events_without_model_or_tools() -> None:
    journal = MemoryJournal()
    conversation = await finished(journal, [])
    told: list[Event] = []

    async def listen(event: Event) -> None:
        told.append(event)

    again = await replay(journal.events, listen)

    assert [event for event in told if isinstance(event, Recorded)] == journal.events
    assert "".join(event.text for event in told if isinstance(event, TextDelta)) == "Paying. Done."
    assert again.text == conversation.text


async def test_a_run_whose_words_were_erased_says_so() -> None:
    erased = ConversationChanged(run="r", at=0, keep=0, messages=None)

    with pytest.raises(UsageError, match="erased"):
        conversation_of([erased])


async def test_the_record_gives_back_a_conversation_in_which_a_call_waited_and_the_model_went_on() -> None:
    @tool
    async def look(n: int) -> int:
        return n

    journal = MemoryJournal()
    model = ScriptedModel(
        [call("look", n=1), call("pay", amount=5), call("look", n=2)],
        [call("look", n=3)],
        [text("It waits.")],
        [text("Still.")],
    )
    async with Executor([payer([]), look], journal=journal) as executor:
        runner = Runner(model, executor)
        first = await runner.run(Conversation().say("pay"), RUN)
        second = await runner.run(first.say("and now?"), RUN)

    told = [message.result.outcome for message in second.messages if isinstance(message, ResultMessage)]
    assert told == ["ok", "ok", "needs_confirmation", "ok"]
    assert [_without_time(message) for message in conversation_of(journal.events).messages] == [
        _without_time(message) for message in second.messages
    ]


async def test_a_call_that_was_told_to_wait_runs_when_the_run_is_taken_back_to_it() -> None:
    journal, paid = MemoryJournal(), list[int]()
    async with Executor([payer(paid)], journal=journal) as executor:
        runner = Runner(ScriptedModel([call("pay", amount=5)], [text("It waits.")], [text("Done.")]), executor)
        await runner.run(Conversation().say("pay"), RUN)
        request = next(event for event in journal.events if isinstance(event, ConfirmationRequested))
        await executor.answer("r", request.request, allow=True, by="ada")
        ended = await runner.run(conversation_of(journal.events).upto(3), RUN)

    assert (paid, ended.text) == ([5], "Done.")
    assert [_without_time(message) for message in conversation_of(journal.events).messages] == [
        _without_time(message) for message in ended.messages
    ]


def _without_time(message: Message) -> Message:
    return msgspec.structs.replace(message, at=0)


async def test_a_secret_that_a_model_passes_on_reaches_the_tool_and_no_entry() -> None:
    seen: list[str] = []

    @tool(side_effects=True)
    async def log_in(user: str, password: Secret) -> str:
        seen.append(password)
        return "welcome"

    journal = MemoryJournal()
    as_object = call("log_in", user="ada", password="correct horse")
    as_text = CallRequested(call=ToolCall("t", "log_in", '{"user": "bob", "password": "correct horse"}'))
    broken = CallRequested(call=ToolCall("b", "log_in", '{"user": "eve", "password": "correct horse"'))
    model = ScriptedModel([as_object, as_text, broken], [text("in")], [text("still in")])
    async with Executor([log_in], journal=journal, policy=FREE) as executor:
        first = await Runner(model, executor).run(Conversation().say("log in"), RUN)
        await executor.finish("r")
        await Runner(model, executor).run(first.say("and now?"), RUN)  # knows the words, not the record

    assert seen == ["correct horse", "correct horse"]
    assert "correct horse" not in repr(journal.events)


async def test_a_call_whose_secret_the_record_does_not_have_is_not_run_with_a_mask_in_its_place() -> None:
    @tool
    async def log_in(password: Secret) -> None:
        raise NotImplementedError

    async with Executor([log_in]) as executor:
        result = await executor.invoke(ToolCall("1", "log_in", {"password": MASK}))

    assert result.outcome == "invalid_arguments"
    assert "not on record" in result.text
