"""What goes wrong at the desk is said at once, and there is always a way on: stop, undo, again, and after a crash."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable
from pathlib import Path

import pytest

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import CallIntended, CallSettled, ConversationChanged, RunFinished
from handrail.core.messages import Conversation
from handrail.run.history import conversation_of
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.scripted_desk import Follower, ScriptedDesk, asked, kinds, over, reply, result, snapshot, texts, until

FAILS = [reply("", ("fail", {})), reply("It failed, sorry.")]


def _copied(folder: Path, to: Path) -> Path:
    """As the disk is when the machine stops here. What is being written has no name yet."""
    return Path(shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*.part")))


@pytest.mark.requirement("converser.alerts")
async def test_a_failed_tool_is_told_while_the_turn_goes_on(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("fail", {}), ("hold", {})), reply("It failed, sorry.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Try it")
        shown = await until(desk, id, lambda shown: shown.alert is not None)
        assert shown.state == "working" and shown.alert is not None
        alert = shown.alert
        assert (alert.kind, alert.tool, alert.outcome, alert.code) == ("tool", "notes:fail", "failed", "NO_LUCK")
        assert (alert.upto, alert.words, alert.message) == (0, "Try it", "no luck")
        parlour.gate.open.set()
        shown = await over(desk, id)
        assert shown.state == "failed" and texts(shown)[-1] == "It failed, sorry."
        await desk.dismiss(id)
        shown = await snapshot(desk, id)
        assert (shown.state, shown.alert) == ("idle", None)


@pytest.mark.requirement("converser.alerts")
async def test_a_failed_turn_is_taken_back_edited_and_gone_on_with(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [*FAILS, reply("Better.", when="gently")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Try it")
        shown = await over(desk, id)
        assert shown.alert is not None
        index = await desk.say(id, f"{shown.alert.words} gently", upto=shown.alert.upto)
        shown = await over(desk, id)
        assert index == 0 and texts(shown) == ["Try it gently", "Better."] and shown.state == "idle"
        history = await desk.app.journal.history(id)
        assert [(each.keep, len(each.messages or ())) for each in history if isinstance(each, ConversationChanged)] == [
            (0, 1),
            (0, 1),
        ]
        assert any(isinstance(each, CallSettled) and each.outcome == "failed" for each in history)


async def test_a_model_that_breaks_off_leaves_its_words_and_an_alert(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("Half a", breaks="the line is dead")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Go on")
        shown = await over(desk, id)
        assert shown.state == "failed" and shown.alert is not None and shown.live is None
        assert (shown.alert.kind, shown.alert.message, shown.alert.code) == (
            "model",
            "the line is dead",
            "protocol_error",
        )
        assert texts(shown) == ["Go on", "Half a"]
        parlour.script(reply("A whole answer."), name="third")
        file = tmp_path / "handrail.toml"
        file.write_text(file.read_text().replace("first.json", "third.json"))
        await desk.app.reload()
        await desk.again(id)
        shown = await over(desk, id)
        assert texts(shown) == ["Go on", "A whole answer."] and shown.state == "idle"
        recorded = conversation_of(await desk.app.journal.history(id))
        assert recorded == ConversationStore(tmp_path / ".handrail").load(id)


@pytest.mark.parametrize("model", ["none", "second"])
async def test_a_model_that_cannot_be_asked_is_an_alert(tmp_path: Path, model: str) -> None:
    async with ScriptedDesk(tmp_path).open() as desk:
        id = await desk.begin(model=model)
        await desk.say(id, "Are you there?")
        shown = await over(desk, id)
        assert shown.state == "failed" and shown.alert is not None and shown.alert.kind == "model"
        await desk.choose(id, model="first")
        await desk.again(id)
        assert texts(await over(desk, id)) == ["Are you there?", "Hello."]


async def test_a_limit_is_an_alert(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("add", {"a": 1, "b": n})) for n in range(9)])
    file = tmp_path / "handrail.toml"
    file.write_text(file.read_text() + '\n[limits]\non_limit = "error"\n')
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Count")
        shown = await over(desk, id)
        assert shown.alert is not None and shown.alert.kind == "limit"


@pytest.mark.parametrize("tool", ["hold", "stubborn"])
async def test_stop_ends_a_turn_and_every_call_has_its_result(tmp_path: Path, tool: str) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("Wait.", (tool, {})), reply("Again.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Wait for it")
        await parlour.gate.reached.wait()
        await desk.stop(id)
        shown = await snapshot(desk, id)
        assert (shown.state, shown.live, shown.alert) == ("idle", None, None)
        assert kinds(shown) == ["user", "assistant", "call", "result"]
        parlour.gate.open.set()
        await desk.say(id, "Go on")
        assert texts(await over(desk, id))[-1] == "Again."


async def test_stop_keeps_what_the_model_has_said_so_far(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path, [reply("word " * 5_000)]).open() as desk:
        id = await desk.begin()
        await desk.say(id, "Talk")
        await until(desk, id, lambda shown: shown.live is not None and bool(shown.live.text))
        await desk.stop(id)
        await desk.stop(id)  # there is nothing left to stop, and that is no mistake
        shown = await snapshot(desk, id)
        assert kinds(shown) == ["user", "assistant"] and (shown.state, shown.live) == ("idle", None)
        assert 0 < len(await desk.whole(id, 1)) < 25_000


async def test_undo_while_a_question_waits_takes_the_question_back(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("Done.")])
    async with parlour.open() as desk:
        id = await desk.begin(system="Be brief.")
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        assert await desk.undo(id, 0) == "Write it"
        shown = await snapshot(desk, id)
        assert kinds(shown) == ["supervisor"] and shown.state == "idle" and desk.questions == ()
        with pytest.raises(UsageError):
            await desk.decide(question.request, "allow")
        assert parlour.done.written == []


async def test_undo_goes_back_to_where_the_person_spoke(tmp_path: Path) -> None:
    replies = [reply("", ("add", {"a": 1, "b": 1})), reply("Two."), reply("Bye.")]
    async with ScriptedDesk(tmp_path, replies).open() as desk:
        id = await desk.begin()
        await desk.say(id, "Sum")
        await over(desk, id)
        await desk.say(id, "And now?")
        await over(desk, id)
        assert await desk.undo(id, 99) == ""
        assert await desk.undo(id, 6) == "And now?"
        assert (await snapshot(desk, id)).total == 5
        assert await desk.undo(id, 3) == "Sum"
        assert (await snapshot(desk, id)).total == 0


async def test_after_an_undo_and_a_new_start_what_was_taken_back_stays_so(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("One."), reply("Two.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "First")
        await over(desk, id)
        await desk.say(id, "Second")
        await over(desk, id)
        await desk.undo(id, 2)
    async with parlour.open() as desk:
        assert texts(await snapshot(desk, id)) == ["First", "One."]


async def test_again_answers_once_more_without_doing_anything_twice(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x"})), reply("Done.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        with pytest.raises(UsageError, match="no message to answer"):
            await desk.again(id)
        await desk.say(id, "Write it")
        await desk.decide((await asked(desk, id)).request, "allow")
        before = await over(desk, id)
        await desk.again(id)
        after = await over(desk, id)
        assert texts(before) == texts(after) and parlour.done.written == ["x"]


@pytest.mark.parametrize("tool", ["hold", "hold_write"])
async def test_after_a_crash_the_turn_is_taken_up_and_nothing_runs_twice(tmp_path: Path, tool: str) -> None:
    arguments = {"path": "x"} if tool == "hold_write" else {}
    parlour = ScriptedDesk(tmp_path / "here", [reply("Wait.", (tool, arguments)), reply("Done.")])
    copy = tmp_path / "copy"
    async with parlour.open() as desk:
        id = await desk.begin(model="first", ensembles=("doors",))
        await desk.say(id, "Go")
        if tool == "hold_write":
            await desk.decide((await asked(desk, id)).request, "allow")
        await parlour.gate.reached.wait()
        _copied(parlour.folder, copy)
    parlour.gate.open.set()
    async with parlour.open(copy) as desk:
        assert [each.state for each in await desk.talks()] == ["failed"]
        shown = await snapshot(desk, id)
        assert kinds(shown) == ["user", "assistant", "call"] and shown.ensembles == ("doors",)
        assert shown.state == "failed" and shown.alert is not None and shown.alert.kind == "stopped"
        await desk.again(id)
        shown = await over(desk, id)
        assert result(shown).outcome == ("in_doubt" if tool == "hold_write" else "ok")
        assert (shown.alert.outcome if shown.alert else None) == ("in_doubt" if tool == "hold_write" else None)
        assert texts(shown)[-1] == "Done."
        assert len(parlour.done.written) == (1 if tool == "hold_write" else 0)


async def test_what_the_record_knows_of_a_cut_off_turn_is_not_lost(tmp_path: Path) -> None:
    """Saved before the reply came, and never after."""
    parlour = ScriptedDesk(
        tmp_path / "here", [reply("", ("write", {"path": "x"})), reply("", ("hold", {})), reply("Done.")]
    )
    copy = tmp_path / "copy"
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Go")
        folder = parlour.folder / ".handrail" / "conversations"
        question = await asked(desk, id)  # what was said is on disk by now
        old = _copied(folder, tmp_path / "old")
        await desk.decide(question.request, "allow")
        await parlour.gate.reached.wait()
        _copied(parlour.folder, copy)
    shutil.rmtree(copy / ".handrail" / "conversations")
    _copied(old, copy / ".handrail" / "conversations")
    parlour.gate.open.set()
    async with parlour.open(copy) as desk:
        await desk.again(id)
        assert kinds(await over(desk, id)).count("call") == 2
        assert parlour.done.written == ["x"]


async def test_what_another_program_works_on_is_left_to_it(tmp_path: Path) -> None:
    """Whoever saved last would undo what the other said."""
    parlour = ScriptedDesk(tmp_path, [reply("One."), reply("Wait.", ("hold", {})), reply("Two.")])
    async with parlour.open() as desk, parlour.open() as other:
        id = await desk.begin()
        await desk.say(id, "Hello")
        await over(desk, id)
        await other.say(id, "Go on")
        await parlour.gate.reached.wait()
        shown = await snapshot(desk, id)
        assert shown.state == "failed" and shown.alert is not None and "another program" in shown.alert.message
        assert await snapshot(desk, id) == shown  # it is told once
        ways: list[Awaitable[object]] = [
            desk.say(id, "And me?"),
            desk.say(id, "And me?", upto=0),
            desk.again(id),
            desk.undo(id, 0),
            desk.rename(id, "Mine"),
            desk.choose(id, model="second"),
            desk.delete(id),
        ]
        for way in ways:
            with pytest.raises(UsageError, match="another program"):
                await way
        await desk.dismiss(id)
        parlour.gate.open.set()
        assert texts(await over(other, id)) == texts(shown := await snapshot(desk, id))
        assert (shown.title, shown.total, shown.state) == ("Hello", 7, "idle")
        await desk.say(id, "And now?", upto=0)
        assert texts(await over(desk, id)) == ["And now?", "One."]


async def test_a_run_that_is_taken_up_elsewhere_is_told_as_such(tmp_path: Path) -> None:
    """By a program that keeps no conversation."""
    parlour = ScriptedDesk(tmp_path, [reply("One."), reply("Two.")])
    async with parlour.open() as desk, parlour.open() as other:
        id = await desk.begin()
        await desk.say(id, "Hello")
        await over(desk, id)
        await other.app.executor.invoke(ToolCall("", "add", {"a": 1, "b": 2}), Context(run=id))
        with pytest.raises(UsageError, match="in use by"):
            await desk.say(id, "Go on")
        assert (await snapshot(desk, id)).total == 2
        await other.app.executor.finish(id)
        await desk.say(id, "Go on")
        assert texts(await over(desk, id))[-1] == "Two."


async def test_what_was_taken_back_after_a_crash_does_not_come_back_from_the_record(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path / "here", [reply("Wait.", ("hold", {})), reply("Done.")])
    copy = tmp_path / "copy"
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Go")
        await parlour.gate.reached.wait()
        _copied(parlour.folder, copy)
    async with parlour.open(copy) as desk:
        assert (await snapshot(desk, id)).total == 3
        assert await desk.undo(id, 0) == "Go"
    async with parlour.open(copy) as desk:
        shown = await snapshot(desk, id)
        assert (shown.total, shown.state, shown.alert) == (0, "idle", None)


async def test_a_crash_that_was_seen_is_not_told_again(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("Wait.", ("hold", {}))])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Go")
        await parlour.gate.reached.wait()
    async with parlour.open() as desk:
        assert (await snapshot(desk, id)).state == "failed"
    async with parlour.open() as desk:  # to look at it is not to say that it was seen
        assert (await snapshot(desk, id)).state == "failed"
        await desk.dismiss(id)
    async with parlour.open() as desk:
        shown = await snapshot(desk, id)
        assert (shown.state, shown.total) == ("idle", 4) and [each.state for each in await desk.talks()] == ["idle"]


async def test_what_another_program_said_is_taken_over(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("One."), reply("Two.")])
    async with parlour.open() as desk, parlour.open() as other:
        id = await desk.begin()
        await desk.say(id, "Hello")
        await over(desk, id)
        await other.say(id, "Go on")
        await over(other, id)
        assert texts(await snapshot(desk, id)) == ["Hello", "One.", "Go on", "Two."]


async def test_the_record_of_a_turn_holds_only_what_is_new(tmp_path: Path) -> None:
    replies = [reply("", ("unlock", {"door": "front", "code": "s3cret-code"})), reply("Open."), reply("Bye.")]
    async with ScriptedDesk(tmp_path, replies).open() as desk:
        id = await desk.begin()
        await desk.say(id, "Open up")
        await desk.decide((await asked(desk, id)).request, "allow")
        await over(desk, id)
        await desk.say(id, "Thanks")
        await over(desk, id)
        history = await desk.app.journal.history(id)
        changed = [(each.keep, len(each.messages or ())) for each in history if isinstance(each, ConversationChanged)]
        assert changed == [(0, 1), (5, 1)]


async def test_a_turn_lets_go_of_its_run_so_that_others_may_take_it_up(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path).open() as desk:
        id = await desk.begin()
        await desk.say(id, "Hello")
        await over(desk, id)
        assert not desk.app.executor.runs.holds(id)
        history = await desk.app.journal.history(id)
        assert isinstance(history[-1], RunFinished) and history[-1].reason == "done"


async def test_closing_the_desk_ends_its_turns_and_keeps_what_was_said(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("Wait.", ("hold", {})), reply("Never.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        async with Follower(desk, id) as follower:
            await desk.say(id, "Go")
            await parlour.gate.reached.wait()
            await desk.__aexit__()
            await follower.end()
        desk.app.listeners.append(desk._tools_changed)  # the block closes it once more
        desk.app.rereaders.append(desk._config_changed)
    kept = ConversationStore(tmp_path / ".handrail").load(id)
    assert isinstance(kept, Conversation) and len(kept) == 4
    async with parlour.open() as desk:
        shown = await snapshot(desk, id)
        assert shown.state == "failed" and shown.alert is not None and "in the middle" in shown.alert.message
        history = await desk.app.journal.history(id)
        begun = [each for each in history if isinstance(each, CallIntended)]
        assert len(begun) == len([each for each in history if isinstance(each, CallSettled)]) == 1
