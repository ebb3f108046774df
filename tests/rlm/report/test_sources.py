"""The tree of a run, from each place that has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.events import CallSettled, ConversationChanged, Recorded, ReplyGiven, RunFinished, RunStarted
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Message,
    SupervisorMessage,
    Text,
    Usage,
    UserMessage,
)
from handrail.rlm.record.trajectory import RLMLogger, read
from handrail.rlm.report import ReportProof, from_completion, from_journal, from_trajectory, render
from handrail.rlm.report.tree import ReportMessage
from handrail.rlm.values import (
    CodeBlock,
    REPLResult,
    RLMChatCompletion,
    RLMIteration,
    RLMMetadata,
)
from tests.rlm.report.usages import usages

METADATA = RLMMetadata(root_model="big", max_depth=2, max_iterations=30, backend="anthropic")


def completion(prompt: Any = "How much?", **other: Any) -> RLMChatCompletion:
    return RLMChatCompletion(
        **{
            "root_model": "small",
            "prompt": prompt,
            "response": "41",
            "usage_summary": usages(small=(1, 10, 2, 0.5)),
            "execution_time": 0.25,
            **other,
        }
    )


def turns(*calls: RLMChatCompletion) -> list[RLMIteration]:
    system, asked = {"role": "system", "content": "You write code."}, {"role": "user", "content": "How much in all?"}
    first = RLMIteration(
        prompt=[system, asked],
        response="I ask.\n```repl\nx = llm_query('How much?')\n```",
        code_blocks=[
            CodeBlock(
                code="x = llm_query('How much?')",
                result=REPLResult(
                    stdout="out",
                    stderr="warned\nTraceback (most recent call last):\n  …\nNameError: x",
                    locals={"x": "str"},
                    execution_time=0.5,
                    rlm_calls=list(calls),
                ),
            )
        ],
        iteration_time=1.0,
    )
    told = [system, asked, {"role": "assistant", "content": first.response}, {"role": "user", "content": "REPL output"}]
    return [first, RLMIteration(prompt=told, response="FINAL(82)", final_answer="82", iteration_time=0.5)]


def logged(path: Path, *calls: RLMChatCompletion) -> Path:
    logger = RLMLogger(path)
    logger.log_metadata(METADATA)
    for iteration in turns(*calls):
        logger.log(iteration)
    assert logger.log_file_path is not None
    return Path(logger.log_file_path)


def test_a_trajectory_becomes_turns_blocks_and_queries(tmp_path: Path) -> None:
    run = from_trajectory(read(logged(tmp_path, completion(), completion(error="overloaded"))))
    assert (run.model, run.question, run.answer, run.seconds) == ("big", "How much in all?", "82", 1.5)
    assert run.used == usages(small=(2, 20, 4, 1.0))
    first, second = run.turns
    assert [each.role for each in first.asked] == ["system", "user"]
    assert second.asked == (ReportMessage("user", "REPL output"),)
    (block,) = first.blocks
    assert (block.stdout, block.stderr) == ("out", "warned\n")
    assert block.error.startswith("Traceback")
    assert [(each.answer, each.error, each.used) for each in block.queries] == [
        ("41", "", usages(small=(1, 10, 2, 0.5))),
        ("41", "overloaded", usages(small=(1, 10, 2, 0.5))),
    ]
    assert render(run).count('class="query"') == 2


def test_the_completion_says_what_a_trajectory_alone_does_not(tmp_path: Path) -> None:
    ended = completion(
        root_model="big",
        response="so far: 41",
        partial=True,
        error="the run reached its limit of 10 seconds",
        usage_summary=usages(big=(3, 900, 90)),
        execution_time=10.5,
        run="r-1",
    )
    run = from_trajectory(read(logged(tmp_path)), ended, question="How much?")
    assert (run.question, run.answer, run.partial, run.seconds, run.id) == (
        "How much?",
        "so far: 41",
        True,
        10.5,
        "r-1",
    )
    assert run.why == "the run reached its limit of 10 seconds"
    assert run.used == usages(big=(3, 900, 90))


def test_a_run_within_a_run_is_below_its_query(tmp_path: Path) -> None:
    inner = {"run_metadata": METADATA.to_dict(), "iterations": [each.to_dict() for each in turns(completion())]}
    run = from_trajectory(read(logged(tmp_path, completion(metadata=inner))))
    (query,) = run.turns[0].blocks[0].queries
    assert query.nested is not None
    assert [turn.number for turn in query.nested.turns] == [1, 2]
    assert query.nested.turns[0].blocks[0].queries[0].answer == "41"
    assert render(run).count("<b>Turn 2</b>") == 2


def test_a_trajectory_that_cannot_be_read_below_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    run = from_trajectory(read(logged(tmp_path, completion(metadata={"run_metadata": {}, "iterations": [{}]}))))
    assert "its trajectory cannot be read" in render(run)


def test_runs_nested_without_end_are_cut(tmp_path: Path) -> None:
    call = completion()
    for _ in range(40):
        inner = {"run_metadata": METADATA.to_dict(), "iterations": [each.to_dict() for each in turns(call)]}
        call = completion(metadata=inner)
    page = render(from_completion(call))
    assert page.count("<b>Turn 1</b>") == 9
    assert page.count("The runs below this one are left out here.") == 1


def test_a_file_of_several_completions_is_called_one(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path)
    for _ in range(2):
        logger.clear_iterations()
        for iteration in turns():
            logger.log(iteration)
    run = from_trajectory(read(logger.log_file_path or ""))
    assert run.notes == ("The file has the turns of 2 completions, one after another.",)


def test_what_a_trajectory_had_no_room_for_is_said(tmp_path: Path) -> None:
    short = RLMLogger(tmp_path, line_bytes=3_000, kept=2)
    short.log_metadata(METADATA)
    for _ in range(3):
        short.log(turns(*[completion()] * 200)[0])
    run = from_trajectory(read(short.log_file_path or ""))
    assert [len(turn.notes) for turn in run.turns] == [1, 1, 1]
    assert "items of lists were left out when this turn was logged" in run.turns[0].notes[0]
    kept = from_completion(completion(metadata=short.get_trajectory()))
    assert [turn.number for turn in kept.turns] == [1, 3]
    assert kept.notes == ("Turns in the middle that were not kept: 1.",)
    assert len(kept.turns[1].notes) == 1


def test_a_completion_without_a_trajectory_is_shown_with_its_answer() -> None:
    page = render(from_completion(completion([{"role": "user", "content": [{"type": "text", "text": "How much?"}]}])))
    assert "No trajectory was kept with this completion." in page
    assert "How much?" in page


def test_prompts_of_any_form_are_shown() -> None:
    for prompt in ("text", [{"role": "user"}], [7], {"a": 1}, None, [{"content": 5}], [{"role": "u", "content": [3]}]):
        assert "41" in render(from_completion(completion(prompt)))


# ── from the journal ─────────────────────────────────────────────────────────────────


def _call(id: str, at: int, code: str, result: dict[str, Any], text: str) -> list[Recorded]:
    said: tuple[Message, ...] = (
        AssistantMessage(text, at, "big", "tool_calls", Usage(input_tokens=100, output_tokens=10, cost=0.25)),
        InvocationMessage(ToolCall(id, "repl", {"blocks": [code]}), at),
    )
    return [
        ReplyGiven(run="r", at=at, model="big", stop="tool_calls", messages=said),
        CallSettled(
            run="r",
            at=at + 500,
            call_id=id,
            tool="repl",
            outcome="ok",
            duration_us=500_000,
            ran=True,
            result=ToolResult(id, "repl", result),
        ),
    ]


def _query(run: str) -> dict[str, Any]:
    return {
        "model": "small", "prompt": "cut sh", "response": "4", "seconds": 0.2, "calls": 1, "input_tokens": 7,
        "output_tokens": 3, "cost": 0.125, "run": run,
    }  # fmt: skip


def _root() -> list[Recorded]:
    opening: tuple[Message, ...] = (SupervisorMessage("You write code."), UserMessage((Text("How much in all?"),)))
    ran = {"blocks": [{"ending": "ok", "stdout": "1", "seconds": 0.3, "queries": [_query("r.1"), _query("gone")]}]}
    failed = {"blocks": [{"ending": "error", "error": "NameError: y"}], "notices": ["Try again."]}
    return [
        RunStarted(run="r", at=1_000, tools="t"),
        ConversationChanged(run="r", at=1_000, keep=0, messages=opening),
        *_call("c1", 2_000, "print(1)", ran, "I ask.\n```repl\nprint(1)\n```"),
        *_call("c2", 3_000, "y", failed, "```repl\ny\n```"),
        *_call("c3", 4_000, "FINAL('82')", {"blocks": [{"ending": "ok"}], "final": {"text": "82"}}, "```repl\n…\n```"),
        RunFinished(run="r", at=5_000, reason="end"),
    ]


def _sub() -> list[Recorded]:
    said: tuple[Message, ...] = (UserMessage((Text("How much does the whole thing cost?"),)),)
    answer: tuple[Message, ...] = (AssistantMessage("41", 2_100, "small"),)
    return [
        RunStarted(run="r.1", at=2_000, tools="t"),
        ConversationChanged(run="r.1", at=2_000, keep=0, messages=said),
        ReplyGiven(run="r.1", at=2_100, model="small", stop="end", messages=answer),
        RunFinished(run="r.1", at=2_100, reason="end"),
    ]


def test_the_journal_of_a_run_becomes_the_same_tree() -> None:
    runs = {"r": _root(), "r.1": _sub()}
    run = from_journal(lambda id: runs.get(id, []), "r", ReportProof("ab", 12, True))
    assert (run.model, run.question, run.answer, run.partial) == ("big", "How much in all?", "82", False)
    assert (run.seconds, run.started) == (4.0, "1970-01-01T00:00:01+00:00")
    assert run.used == usages(big=(3, 300, 30, 0.75), small=(2, 14, 6, 0.25))
    first, second, third = run.turns
    assert (first.used, first.blocks[0].stdout, third.final) == (usages(big=(1, 100, 10, 0.25)), "1", "82")
    assert (second.failed, second.notes) == (True, ("Try again.",))
    whole, short = first.blocks[0].queries
    assert (whole.prompt, whole.answer) == ((ReportMessage("user", "How much does the whole thing cost?"),), "41")
    assert (short.prompt, short.answer) == ((ReportMessage("user", "cut sh"),), "4")
    assert "checked, entry by entry" in render(run)


def test_a_run_that_was_cut_off_is_shown_as_far_as_it_came() -> None:
    run = from_journal(lambda id: _root()[:4] if id == "r" else [], "r")
    assert (len(run.turns), run.answer, run.partial, run.why) == (1, None, True, "cut off")


def test_a_run_below_in_the_journal_is_a_run_below_in_the_tree() -> None:
    runs = {"r": _root(), "r.1": _root()}
    run = from_journal(lambda id: runs.get(id, []), "r")
    query = run.turns[0].blocks[0].queries[0]
    assert query.nested is not None
    assert query.nested.answer == "82"
    # The record says that the run below asked itself: that is not followed.
    assert query.nested.turns[0].blocks[0].queries[0].nested is None


def test_a_run_that_is_not_there_is_said() -> None:
    assert "The journal has no such run." in render(from_journal(lambda id: [], "r"))
