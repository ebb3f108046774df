"""A conversation at the desk: words, calls, questions, and what everybody is told of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.desk.values import ConversationSnapshot, LiveCall
from tests.desk.scripted_desk import Follower, ScriptedDesk, asked, kinds, over, reply, result, snapshot, texts, until


async def test_words_are_answered_and_everybody_sees_the_same(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path, [reply("Good day to you.")]).open() as desk:
        id = await desk.begin()
        async with Follower(desk, id) as one, Follower(desk, id) as other:
            assert await desk.say(id, "Hello") == 0
            shown = await over(desk, id)
            await asyncio.sleep(0)
        assert kinds(shown) == ["user", "assistant"]
        assert texts(shown) == ["Hello", "Good day to you."]
        assert "".join(piece["text"] for piece in one.told("text")) == "Good day to you."
        assert one.heard == other.heard
        assert [each["state"] for each in one.told("state")][-1] == "idle"


async def test_a_call_is_shown_as_it_is_written_run_and_answered(tmp_path: Path) -> None:
    parlour = ScriptedDesk(
        tmp_path,
        [
            reply(
                "Let me see.",
                (
                    "add",
                    {
                        "a": 1,
                        "b": 2,
                    },
                ),
            ),
            reply("It is 3."),
        ],
    )
    async with parlour.open() as desk:
        id = await desk.begin()
        async with Follower(desk, id) as follower:
            await desk.say(id, "What is the sum?")
            shown = await over(desk, id)
            await asyncio.sleep(0)
    calls: list[LiveCall] = follower.told("call")
    assert calls[0].stage == "writing"
    assert {call.call_id for call in calls} == {shown.items[2].call_id}
    assert calls[0].written and calls[0].name == "notes:add"
    assert ("running", {"a": 1, "b": 2}) in [(call.stage, call.arguments) for call in calls]
    done = [call for call in calls if call.stage == "done"][-1]
    assert done.outcome == "ok" and done.result is not None and done.result.text == "3"
    assert kinds(shown) == ["user", "assistant", "call", "result", "assistant"]
    assert result(shown).duration_us is not None and result(shown).name == "notes:add"


async def test_progress_is_told(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("hold", {})), reply("Done.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Wait")
        shown = await until(desk, id, lambda shown: bool(shown.live and any(c.says for c in shown.live.calls)))
        assert shown.state == "working" and shown.live is not None
        call = shown.live.calls[0]
        assert (call.current, call.total, call.says, call.stage) == (1, 2, "half", "running")
        parlour.gate.open.set()
        assert (await over(desk, id)).live is None


async def test_a_side_effect_waits_for_approval_and_the_question_shows_exactly_what_will_run(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "docs/x.md", "text": "hello"})), reply("Written.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        assert (question.tool, question.arguments) == ("notes:write", {"path": "docs/x.md", "text": "hello"})
        assert question.conversation == question.run == id and desk.questions == (question,)
        shown = await snapshot(desk, id)
        assert shown.state == "waiting" and shown.live is not None and shown.live.calls[0].stage == "asked"
        assert parlour.done.written == []
        await desk.decide(question.request, "allow")
        assert result(await over(desk, id)).outcome == "ok"
        assert parlour.done.written == ["docs/x.md"] and not len(desk.questions)
        with pytest.raises(UsageError, match="somebody may have answered"):
            await desk.decide(question.request, "allow")


async def test_a_denied_call_does_not_run_and_is_no_alert(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("As you wish.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        await desk.decide((await asked(desk, id)).request, "deny", reason="not today")
        shown = await over(desk, id)
        assert result(shown).outcome == "denied" and "not today" in texts(shown)[2]
        assert (shown.state, shown.alert, parlour.done.written) == ("idle", None, [])


async def test_edited_arguments_are_checked_and_are_what_runs(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("Written.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        with pytest.raises(UsageError, match="path"):
            await desk.decide(question.request, "edit", arguments={"path": 7})
        with pytest.raises(UsageError, match="needs the arguments"):
            await desk.decide(question.request, "edit")
        assert desk.questions == (question,)
        await desk.decide(question.request, "edit", arguments={"path": "y"})
        await over(desk, id)
        assert parlour.done.written == ["y"]


async def test_an_edit_keeps_the_secret_that_it_was_not_shown(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("unlock", {"door": "front", "code": "s3cret-code"})), reply("Open.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        async with Follower(desk, id) as follower:
            await desk.say(id, "Open up")
            question = await asked(desk, id)
            assert question.arguments == {"door": "front", "code": "[redacted]"}
            await desk.rename(id, "Doors")  # so that it is saved just now
            saved = tmp_path / ".handrail" / "conversations" / id / "messages.jsonl"
            assert "unlock" in saved.read_text() and "s3cret-code" not in saved.read_text()
            await desk.decide(question.request, "edit", arguments={**question.arguments, "door": "back"})
            await over(desk, id)
            await asyncio.sleep(0)
        assert parlour.done.written == ["back s3cret-code"]
        assert "s3cret-code" not in repr(follower.heard)
        assert "s3cret-code" not in (await desk.share(id)).data.decode()
    assert "unlock" in saved.read_text() and "s3cret-code" not in saved.read_text()


async def test_always_sets_a_rule_that_the_next_call_goes_by(tmp_path: Path) -> None:
    write = ("write", {"path": "docs/x.md"})
    parlour = ScriptedDesk(tmp_path, [reply("", write), reply("One."), reply("", write), reply("Two.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        assert question.rules[0].startswith("allow notes:write@sha256:")
        assert [rule.partition(" path=")[2] for rule in question.rules] == ["docs/x.md", "docs/**", ""]
        with pytest.raises(UsageError, match="not a rule that was offered"):
            await desk.decide(question.request, "always", rule="allow *")
        await desk.decide(question.request, "always", rule=question.rules[0])
        await over(desk, id)
        await desk.say(id, "Once more")
        await over(desk, id)
        assert parlour.done.written == ["docs/x.md", "docs/x.md"]


async def test_of_two_words_on_a_question_one_counts_and_the_other_leaves_nothing_behind(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "docs/x.md"})), reply("One.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        with pytest.raises(UsageError, match="only an edit"):
            await desk.decide(question.request, "allow", arguments={"path": "y"})
        always = desk.decide(question.request, "always", rule=question.rules[0])
        found = await asyncio.gather(always, desk.decide(question.request, "deny"), return_exceptions=True)
        assert found[0] is None and isinstance(found[1], UsageError)
        await over(desk, id)
        assert parlour.done.written == ["docs/x.md"]
        assert desk.app.person.approvals.rules(desk.app.config.file) == (question.rules[0],)


async def test_a_call_that_is_left_for_later_waits_and_can_be_asked_about_again(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("Written.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        first = await asked(desk, id)
        await desk.decide(first.request, "later")
        shown = await over(desk, id)
        assert shown.state == "waiting" and kinds(shown) == ["user", "assistant", "call"]
        await desk.again(id)
        second = await asked(desk, id)
        assert second.request == first.request
        await desk.decide(second.request, "allow")
        assert kinds(await over(desk, id)) == ["user", "assistant", "call", "result", "assistant"]
        assert parlour.done.written == ["x"]


async def test_whoever_speaks_instead_leaves_no_call_without_a_result(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("Very well.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        await desk.decide((await asked(desk, id)).request, "later")
        await over(desk, id)
        await desk.say(id, "Never mind")
        shown = await over(desk, id)
        assert kinds(shown) == ["user", "assistant", "call", "result", "user", "assistant"]
        assert shown.items[3].outcome == "cancelled" and parlour.done.written == []


async def test_words_are_said_once_whoever_asks_twice(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("One."), reply("Two.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        found = await asyncio.gather(*(desk.say(id, "Hello", once="k1") for _ in range(3)))
        shown = await over(desk, id)
        assert found == [0, 0, 0] and texts(shown) == ["Hello", "One."]
    async with parlour.open() as desk:  # the answer may have been lost with the program
        assert await desk.say(id, "Hello", once="k1") == 0
        assert texts(await over(desk, id)) == ["Hello", "One."]


async def test_of_two_who_speak_at_once_one_is_refused(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path, [reply("", ("hold", {})), reply("Done.")]).open() as desk:
        id = await desk.begin()
        found = await asyncio.gather(desk.say(id, "One"), desk.say(id, "Two"), return_exceptions=True)
        assert found[0] == 0 and isinstance(found[1], UsageError) and "in progress" in str(found[1])


async def test_a_follower_goes_on_where_it_was(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path, [reply("One."), reply("Two.")]).open() as desk:
        id = await desk.begin()
        await desk.say(id, "Hello")
        shown = await over(desk, id)
        await desk.say(id, "And?")
        last = await over(desk, id)
        async with Follower(desk, id, after=shown.cursor) as follower:
            assert not isinstance(follower.heard[0], ConversationSnapshot)
            assert follower.heard[-1].n == last.cursor  # type: ignore[union-attr]  # all of them are told
        async with Follower(desk, id, after=5) as lost:
            assert isinstance(lost.heard[0], ConversationSnapshot)


async def test_the_watcher_hears_of_all_conversations(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("Done.")])
    heard: list[tuple[str, Any]] = []
    async with parlour.open() as desk:

        async def watch() -> None:
            async with aclosing(desk.watch()) as news:
                async for each in news:
                    heard.append(each)
                    if each[0] == "gone":
                        gone.set()

        gone = asyncio.Event()
        watching = asyncio.create_task(watch())
        id = await desk.begin()
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        await desk.decide(question.request, "allow")
        await over(desk, id)
        await desk.delete(id)
        await gone.wait()
    await watching  # the desk is closed, so there is no more news
    assert ("question", question) in heard and ("answered", question.request) in heard and heard[-1] == ("gone", id)
    assert "Write it" in [data.title for event, data in heard if event == "talk"]
